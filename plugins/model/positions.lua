--- ## What it detects
--- A model whose last position computes the same whatever the order of the tokens before it (the recorder's positions
--- battery), and one whose input to the first block is the same for a token at all positions although it has a table of
--- positions.
---
--- ## Why it matters
--- Without positions a model sees a bag of words: it learns slowly, stops early, and no error is raised.
---
--- ## How to confirm
--- Permute the tokens of a prompt but the last: the output of the first block at the last position must change.
---
--- ## Known false positives
--- Models without positions by design (NoPE) tell order by the causal mask alone, from the second block on.
---
--- ## References
--- https://arxiv.org/abs/2305.19466

local places = require("places")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Positions do not reach the model",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "token-order-ignored" },
  options  = {
    rounding = { default = 2e-5, doc = "Relative difference that is rounding; a hundred times as much in half "
      .. "precision" },
  },

  run = function(case)
    local values = case.tensors:where("zero_share is not null")
    local probes = values:where("match(name, 'battery.positions.*')")
    local function pair(name)
      local rows = probes:where { name = name }
      return rows:where { variant = "base" }:first(), rows:where { variant = "permuted" }:first()
    end
    local allowed = case.options.rounding
    if case.config:where("match(key, '*precision|*dtype') and match(value, "
      .. "'*16*')"):first() then allowed = 100 * allowed end
    --- The layer that holds a table of positions, which is then the one without effect; nil where there is none.
    local function table_of_positions()
      local row = case.scalars:where("primary == true and match(layer, '*wpe*|*pos*emb*|*emb*pos*')"):first()
      return row and row.layer
    end
    local before, after = pair("battery.positions.input_ids")
    -- A model whose attention carries nothing (weights at zero, one-hot scores) is blind to all that came before, not
    -- to its order: the other probe changes a token and shows whether the last position notices.
    local function attends()
      for one in values:where { name = "battery.causal_mask.logits", variant = "base" }:rows() do
        local changed = values:where { name = "battery.causal_mask.logits", variant = "changed" }
        local other = (one.step and changed:where { step = one.step } or changed):first()
        local ids = values:where { name = "battery.causal_mask.input_ids", variant = "base" }:first()
        local moved = other and one:difference_along(other, 1)
        if moved and ids and #moved >= 2 and one.nonfinite + other.nonfinite == 0 then
          return moved[#moved] > allowed * one.absmax, #moved
        end
      end
      return true
    end
    -- Behind a causal mask only the first block is blind to order; the logits of a model that looks both ways are, too.
    for _, name in ipairs({ "battery.positions.first_block", "battery.positions.logits" }) do
      local base, permuted = pair(name)
      local moved = base and permuted and base:difference_along(permuted, 1)
      local ids   = before and after and before:difference_along(after, 1)
      -- NaN is equal to NaN, and no answer.
      if moved and base.nonfinite + permuted.nonfinite > 0 then moved = nil end
      if moved and ids and ids[#ids] == 0 and before:compare(after).max_abs > 0 then
        local last = moved[#moved]
        if last <= allowed * base.absmax and not attends() then
          return skip("a model whose last position takes notice of earlier tokens at all")
        elseif last <= allowed * base.absmax then
          local step, from = places.start(case, base.step, false)
          return report {
            symptom = "token-order-ignored", score = 0.97, at = { step = step, layer = table_of_positions() },
            message = ("with the %d tokens before it in another order the last position of %s moves by %s "
              .. "(largest value "
              .. "%s): positions do not reach the model, %s"):format(#ids - 1, name:replace("battery.positions.", ""),
              units.number(last), units.number(base.absmax), from),
            evidence = { base, permuted },
          }
        elseif name:ends_with("first_block") then
          return -- order is seen
        end
      end
    end

    -- A table of positions, and what goes into the first block: a token must not look the same at two places.
    -- One of relative positions, which attention adds to its scores, is none.
    local positions = values:where("role == 'weight' and match(name, '*wpe*|*pos*emb*|*embed*pos*') and "
      .. "not match(name, '*rel*|*bias*|*attn*|*attention*')"):first()
    for entry in values:where("role == 'input' and match(layer, '*.0|*.0.ln_1|*.0.ln1|*.0.attn|*.0.input_layernorm')")
      :where("not match(name, 'battery.*')"):rows() do
      local ids = values:where { run = entry.run, step = entry.step, variant = entry.variant }
        :where("match(name, 'batch.input_ids') and match(dtype, 'int*')"):first()
      if positions and ids and entry.nonfinite == 0 and #entry.shape == 3 and #ids.shape == 2
        and entry.shape[2] == ids.shape[2] and positions.shape[#positions.shape] == entry.shape[3] then
        local width, dim = entry.shape[2], entry.shape[3]
        local seen, twice, equal, scale = {}, 0, 0, entry.absmax
        local row = ids:values(0, math.min(width, 10000))
        for t, id in ipairs(row) do
          if seen[id] and twice < 64 then
            local a = entry:values((seen[id] - 1) * dim, math.min(dim, 64))
            local b = entry:values((t - 1) * dim, math.min(dim, 64))
            local largest = 0
            for i = 1, #a do largest = math.max(largest, math.abs(a[i] - b[i])) end
            twice = twice + 1
            if largest <= allowed * scale then equal = equal + 1 end
          end
          seen[id] = t
        end
        if twice >= 4 then
          if equal == twice then
            report {
              symptom = "token-order-ignored", score = 0.95, at = { step = entry.step, layer = entry.layer },
              message = ("%d pairs of equal tokens enter %s with equal values at different positions, although "
                .. "the model has "
                .. "%s: positions are not added"):format(twice, entry.layer, positions.name),
              evidence = { entry, positions },
            }
          end
          return
        end
      end
    end
    skip("the positions battery, battery/positions.base and .permuted (culprit_recorder.battery): ids whose "
      .. "last stays, and "
      .. "first_block, the output of the first block")
  end,
}
