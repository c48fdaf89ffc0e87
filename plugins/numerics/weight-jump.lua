--- ## What it detects
--- A layer whose weight norm jumps by far more than its updates can have moved it.
---
--- ## Why it matters
--- A norm cannot change by more than the sum of the updates. What jumps without them was overwritten: by faulty
--- hardware, by loading other weights, or by an initialisation that ran again.
---
--- ## How to confirm
--- Compare the layer's weights before and after that step element by element.
---
--- ## Known false positives
--- Rates that rise between two logged steps: the larger of the two updates counts, for each step in between, three
--- times. Averages that are swapped in, pruning, merged adapters and weights that are normalised are not judged where
--- the config names them. Where the rate itself rises to more than twice between them, no update on record tells how
--- far weights went, and nothing is judged there.
---
--- ## References
--- https://arxiv.org/abs/2102.11245

local runs = require("runs")
local settings = require("settings")

--- What overwrites weights by design: copies and averages that are swapped in, elements that are cut, matrices that are
--- merged or made new, norms that are kept. Attention over sliding windows is called SWA too, and changes no weight.
local DESIGNED = "match(key, '*prun*|*sparsity*|*relora*|*lookahead*|*swa|*swa_start*|*swa_lr*|*swa_epoch*|*swa_freq*|"
  .. "*swa_anneal*|*use_ema|*ema_decay*|*reset_int*|*reinit*|*shrink_perturb*|"
  .. "*restart_unused*|*restart_every*|*dead_code*|*kmeans_init*|"
  .. "*weight_norm*|*normalize_weights|*weight_clip*|*clip_weights*|*diloco*|*outer_opt*|*quantiz*') or "
  .. "match(key, '*optim*') and match(value, '*ookahead*|*free*|*Free*|*swa*|*SWA*')"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A weight norm jumps beyond what the updates can move",
  needs    = { scalars = { "step", "value", "layer", metric = "weight_norm" } },
  symptoms = { "weight-norm-jump" },
  options  = {
    slack = { default = 3.0, doc = "Factor over the sum of the updates that is beyond them" },
  },

  run = runs.apart(function(case, run)
    local all    = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local norms  = all:where { metric = "weight_norm" }
    local ratios = all:where { metric = "update_ratio" }
    if ratios:count() == 0 then return skip("update ratios beside the weight norms") end
    local designed = settings.on(case.config:where(DESIGNED)):first()
    if designed then
      return skip(("weights that the optimizer alone changes: %s changes them too"):format(designed.key))
    end
    local worst, judged = nil, 0
    local rates = {}
    for row in runs.series(case, "lr"):slice(0, 10000):rows() do rates[#rates + 1] = row end

    --- Whether the rate is more than twice as high between two steps as at the first of them.
    local function rises(from, to)
      local at, top
      for _, row in ipairs(rates) do
        if row.step <= from then at = row.value end
        if row.step > from and row.step <= to then top = math.max(top or 0, row.value) end
      end
      return at ~= nil and top ~= nil and top > 2 * at
    end
    for layer, values in norms:group("layer") do
      local moves  = ratios:where { layer = layer }
      local series = values:join(moves:select("step", "value"), { "step" }):sort("step")
      -- What the optimizer never moves is moved by somebody else: the copy that a target network or a teacher is.
      if series:count() >= 4 and moves:max("value") > 0 then
        judged = judged + 1
        local before
        for row in series:slice(0, 5000):rows() do
          -- Two rows of one step, of two ranks say, are no change.
          if before and row.step > before.step then
            local steps = row.step - before.step
            -- A step moves by its ratio of the norm; of the smaller norm, or a jump would excuse itself.
            local bound = steps * math.max(before.value_right * before.value, row.value_right * row.value)
            local least = steps * math.max(before.value_right, row.value_right) * math.min(before.value, row.value)
            local moved = math.abs(row.value - before.value)
            -- Weights that grow at each step by their ratio grow like compound interest.
            local rate  = math.max(before.value_right, row.value_right)
            local grown = before.value * (math.min(1e30, (1 + rate) ^ steps) - 1)
            local reach = math.max(math.min(bound, 10 * least), grown)
            if moved > case.options.slack * reach and moved > 0.5 * math.min(before.value, row.value)
              and not rises(before.step, row.step)
              and (not worst or moved / reach > worst.excess) then
              worst = { layer = layer, before = before, row = row, excess = moved / math.max(reach, 1e-30),
                reach = reach }
            end
          end
          before = row
        end
      end
    end
    if judged == 0 then return skip("weight norms and update ratios of a layer at 4 steps") end
    if not worst or worst.before.value == 0 then return end
    report {
      symptom  = "weight-norm-jump",
      -- Between two rows that are far apart a rate too high throws weights as far, and comes to rest.
      score    = worst.row.step - worst.before.step <= 5 and 0.9 or 0.5,
      at       = { run = run, layer = worst.layer, step = worst.row.step },
      message  = ("the weight norm of %s goes from %.4g at step %d to %.4g at step %d; updates can have moved it by "
        .. "%.2g"):format(
        worst.layer, worst.before.value, worst.before.step, worst.row.value, worst.row.step, worst.reach),
      evidence = { worst.before, worst.row },
    }
  end),
}
