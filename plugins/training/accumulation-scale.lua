--- ## What it detects
--- A loss that is not divided by the number of accumulated batches: the first loss or the gradient norms are larger by
--- that number than they should be, or the loss than the sum of the parts that are logged beside it.
---
--- ## Why it matters
--- The step is that many times too long under plain descent; under Adam it is clipping that cuts at the wrong norm.
--- So plain descent in steps that tear up the weights, over several batches each, is told even where nothing shows
--- whether the loss was divided: of all that makes steps too long it is what such a run has and others have not.
---
--- ## How to confirm
--- Compare the first gradient norm with that of one batch of the same total size.
---
--- ## Known false positives
--- A first loss of N ln V by chance of a bad initialisation. A training loss of several outputs beside a validation
--- loss of one: where the config has such outputs the two are not compared. Norms above the threshold that would be
--- below it if divided by N are a hint only, and are scored as one.
---
--- ## References
--- https://github.com/huggingface/transformers/pull/35207

local optimizers = require("optimizers")
local settings = require("settings")
local statistics = require("statistics")
local targets = require("targets")
local update_ratios = require("update-ratios")

--- What the loss is over the sum of the parts that are logged beside it, in the median of the first steps; nil where
--- fewer than two parts are. Parts are those of one of the batches, or their means.
---@param all culprit.Table   scalars of a run
---@param loss culprit.Table  its training loss
---@return { usual: number, steps: integer, names: string, rows: culprit.Table }?
local function over_parts(all, loss)
  local parts = all:where("layer is null and name != 'loss' and match(name, '*loss*') and "
    .. "not match(name, 'val_*|valid*|*eval*|*test*|*scale*|*total*|*policy*|*actor*|*critic*|value_loss')")
  local ratios, rows = {}, nil
  for row in loss:where("value > 0"):slice(0, 20):rows() do
    local beside = parts:where { step = row.step }:distinct("name")
    if beside:count() >= 2 and beside:sum("value") > 0 then
      ratios[#ratios + 1] = row.value / beside:sum("value")
      rows = rows or beside
    end
  end
  if #ratios < 2 or not rows then return nil end
  local names = {}
  for row in rows:slice(0, 4):rows() do names[#names + 1] = row.name end
  return { usual = statistics.median(ratios), steps = #ratios, names = table.concat(names, ", "), rows = rows }
end

--- What shows that steps of plain descent are too long, in words, and its rows: updates of a tenth of the weights and
--- more in the median of those logged while the loss does not come down, or a loss that ends in NaN; nil where neither
--- does.
---@param case culprit.Case
---@param run string?
---@return string?, culprit.Table?
local function too_long(case, run)
  local loss   = case.scalars:where { name = "loss", run = run, primary = true }:where("value is not null"):sort("step")
  local finite = loss:where("finite(value)")
  local first  = finite:count() > 0 and finite:slice(0, 3):median("value")
  local last   = first and finite:slice(math.max(0, finite:count() - 3), 3):median("value")
  if first and finite:count() == loss:count() and first > 0 and last < 0.7 * first then return nil end
  local seen  = update_ratios.of(case)
  local rows  = seen and seen.usual:sort("step")
  local usual = rows and rows:count() >= 2 and rows:median("ratio")
  if rows and usual and usual >= 0.1 then
    return ("updates are %.2g of the weights in the median of %d logged steps"):format(usual, rows:count()), rows
  end
  local ended = loss:where("not finite(value)"):first()
  -- One batch may be bad; behind long steps no number comes back.
  if ended and loss:where("finite(value) and step > ?", ended.step):count() == 0 then
    return ("the loss is no number from step %d on"):format(ended.step), loss:where { step = ended.step }
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is not divided by the number of accumulated batches",
  needs    = {
    scalars = { "step", "value", metric = { "loss", "grad_norm" } },
    config  = { "key", "number" },
  },
  symptoms = { "accumulation-not-divided", "clipped-by-accumulation", "long-steps-of-sums" },

  run = function(case)
    local counts = settings.accumulation(case)
    if counts:count() == 0 then return skip("the number of accumulated batches in a config") end
    local all  = case.scalars:where { primary = true }:where("finite(value)")
    local runs = {}
    for run in all:group("run") do
      -- A config without a run is every run's.
      local count = counts:where("run is null or run == ?", run):first()
      if count then
        runs[#runs + 1] = { run = run, count = count, loss = all:where { name = "loss", run = run }:sort("step"),
          norms = all:where { name = "grad_norm", run = run }:sort("step") }
      end
    end

    -- Two runs that differ in the number: their first norms have that ratio if nothing divided by it.
    for _, a in ipairs(runs) do
      for _, b in ipairs(runs) do
        local want = a.count.number / b.count.number
        if want >= 2 and a.norms:count() > 0 and b.norms:count() > 0 then
          local first, other = a.norms:slice(0, 5):median("value"), b.norms:slice(0, 5):median("value")
          if other > 0 and math.abs(math.log(first / other / want)) < 0.25 * math.log(want) then
            report {
              symptom  = "accumulation-not-divided",
              score    = 0.9,
              at       = { step = a.norms:first().step },
              message  = ("with %g accumulated batches the first gradient norms are %.3g times those of the run with "
                .. "%g (%.3g "
                .. "against %.3g): the loss is not divided by their number"):format(a.count.number, first / other,
                b.count.number, first, other),
              evidence = { a.count, b.count, a.norms:slice(0, 3), b.norms:slice(0, 3) },
            }
          end
        end
      end
    end

    for _, one in ipairs(runs) do
      local number, said = one.count.number, false
      local own    = case.config:where("run is null or run == ?", one.run)
      local size   = targets.classes { config = own, tensors = case.tensors }
      -- Of labels that are 0 or 1 there are two.
      local binary = not size and case.config:where("match(key, '*loss*|*criterion*|*objective*') and "
        .. "match(value, '*bce*|*BCE*|*binary_cross*|*binary-cross*|*logloss*|*log_loss*')"):first()
      local classes = size and size.number or binary and 2
      local first  = one.loss:first()
      if number >= 2 and classes and first and first.step <= 1 then
        local ratio = first.value / math.log(classes)
        -- Held-out batches are not accumulated: where their loss begins as high, it is no sum.
        local held = all:where { name = "val_loss", run = one.run }:sort("step"):first()
        if math.abs(ratio - number) < 0.12 * number and not settings.distilled(case)
          and not (held and held.value > 0.7 * first.value) then
          said = true
          report {
            symptom  = "accumulation-not-divided",
            score    = 0.9,
            at       = { step = first.step },
            message  = ("the first loss is %.4g, %.3g times ln %d = %.4g, and %g batches are accumulated: it is "
              .. "their sum"):format(
              first.value, ratio, math.floor(classes), math.log(classes), number),
            evidence = { first, size or binary, one.count },
          }
        end
      end
      -- Validation is not accumulated: a training loss that is that many times larger all along is their sum.
      local val = all:where { name = "val_loss", run = one.run }:where("step is not null"):sort("step")
      if number >= 2 and val:count() >= 2 and one.loss:count() > 0 then
        ---@type number[], culprit.Row?
        local ratios, last = {}, nil
        -- A log of epochs has both losses of each, where the steps of the other are those of updates.
        local epochs = 4 * val:last().step <= one.loss:last().step
          and case.scalars:where { name = "loss", run = one.run }
            :where("finite(value) and step is not null and primary == false"):distinct("step"):sort("step")
        local both = epochs and epochs:join(val, { "step" }):where("value_right > 0")
        -- It ends where they end, and has none of the steps in between.
        local of_them = both and both:count() >= 2 and both:count() == epochs:count() and both:count() == val:count()
        for row in (of_them and both or val:slice(0, 0)):sort("step"):rows() do
          ratios[#ratios + 1], last = row.value / row.value_right, row
        end
        for row in (epochs and val:slice(0, 0) or val):rows() do
          local before = one.loss:where("step <= ?", row.step):last()
          local after  = one.loss:where("step > ?", row.step):first()
          -- Rows are far apart, and the one behind may be the step after the validation.
          local near = before and after and after.step - row.step < row.step - before.step and after or before
          if near and row.value > 0 then
            -- Losses of small batches scatter: where many are logged, the middle one of five stands for its step.
            local about = one.loss:count() >= 8 * val:count() and one.loss:around(near, 2):median("value") or near.value
            ratios[#ratios + 1], last = about / row.value, near
          end
        end
        -- At the first of them hardly anything but the sum tells the two apart: what a regulariser or a softened target
        -- adds, or learning by heart takes, comes later.
        local begun = ratios[1]
        table.sort(ratios)
        local usual = #ratios >= 2 and ratios[(#ratios + 1) // 2]
        -- Learning by heart takes part of it away later on; of four and more some times the other is left.
        local level = usual and (math.abs(usual - number) < 0.2 * number and ratios[1] > 0.6 * number
          or number >= 4 and ratios[1] > math.max(2.5, 0.3 * number) and ratios[#ratios] < 1.25 * number)
        -- Several outputs that are trained and one that is validated make a sum as well.
        local heads = settings.on(case.config:where("match(key, '*deep_sup*|*aux_head*|*aux_logits*|*aux_classif*|"
          .. "*auxiliary_head*|*intermediate_sup*|*multi_exit*')")):count() > 0
        if level and not heads and math.abs(begun - number) < (number >= 8 and 0.35 or 0.25) * number
          and not settings.distilled(case) then
          said = true
          report {
            symptom  = "accumulation-not-divided",
            score    = 0.9,
            at       = { step = one.loss:first().step },
            message  = ("the training loss is %.3g times the validation loss (%.4g at step %d), and %g batches are "
              .. "accumulated: it is their sum"):format(usual, last.value, last.step, number),
            evidence = { last, val:slice(0, 5), one.count },
          }
        end
      end
      local parted = number >= 3 and not said and over_parts(all:where { run = one.run }, one.loss)
      if parted and math.abs(parted.usual / number - 1) < 0.3 and not settings.distilled(case) then
        report {
          symptom  = "accumulation-not-divided",
          score    = 0.85,
          at       = { step = one.loss:first().step },
          message  = ("the loss is %.3g times the sum of its logged parts (%s) in the median of %d steps, and %g "
            .. "batches are accumulated: it is their sum"):format(parted.usual, parted.names, parted.steps, number),
          evidence = { parted.rows, one.count },
        }
      end
      -- Of many runs' updates it is not known whose they are.
      if number >= 4 and #runs == 1 and optimizers.plain(case) then
        local what, rows = too_long(case, one.run)
        if what then
          report {
            symptom  = "long-steps-of-sums",
            score    = said and 0.8 or 0.6,
            at       = { step = rows:first().step },
            message  = ("%s, and plain descent steps by %g batches each: if their losses are added up and not divided, "
              .. "steps are %g times as long as the rate says"):format(what, number, number),
            evidence = { one.count, rows:slice(0, 5) },
          }
        end
      end
      local limit = settings.clipping(case):where("run is null or run == ?", one.run):first()
      if number >= 2 and limit and one.norms:count() >= 8 then
        local above = one.norms:where("value > ?", limit.number)
        local usual = one.norms:median("value")
        if above:count() >= 0.9 * one.norms:count() and usual / number <= 1.2 * limit.number then
          report {
            symptom  = "clipped-by-accumulation",
            severity = "info",
            score    = 0.7,
            at       = { step = one.norms:first().step },
            message  = ("%d of %d steps are clipped at %g with a median norm of %.3g; divided by the %g accumulated "
              .. "batches it would "
              .. "be %.3g"):format(above:count(), one.norms:count(), limit.number, usual, number, usual / number),
            evidence = { limit, one.count, above:slice(0, 5) },
          }
        end
      end
    end
  end,
}
