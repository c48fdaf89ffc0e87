--- ## What it detects
--- An optimizer whose state begins anew in the middle of a run: its own step counter falls, or stays behind the run's
--- by the steps before a resume, or the size of Adam's update jumps to that of a first step.
---
--- That size needs no layers. Adam's first update is the rate in each of N elements, so update ratio times weight norm
--- over rate is the root of N, a number of the model; later updates are a fraction of it. A run that comes back to
--- exactly that number made a first step again. So did one that comes back to most of it for a moment, as units that
--- have died since have no gradient and take no part, while gradient and rate are what they were: moments that were
--- kept answer a usual gradient with a usual update.
---
--- ## Why it matters
--- Adam's first update after a reset moves every parameter by the whole learning rate, whatever its gradient: five
--- times the usual, without any warm-up. The loss jumps at the resume and takes hundreds of steps to come back.
---
--- ## How to confirm
--- Print `optimizer.state[p]["step"]` after loading the checkpoint: it must be the step of the checkpoint.
---
--- ## Known false positives
--- Runs that reset the optimizer on purpose, between stages: where the config names tasks, rounds or rewindings, or the
--- state begins anew twice and more at one distance from the start on, nothing is said. A fine-tuning that counts its
--- steps from the pretraining's end stays behind by a constant without any jump; it is reported only where the record
--- begins before the reset. A counter that goes on more slowly than the run, as one of several batches an update or of
--- tensors that are stepped by turns, has not begun anew, nor has one that stands at 0 until its layer is thawed. Parts
--- that are thawed later make a first step of their own: of a run whose config says so nothing is said of sizes, and
--- where it freezes anything, of those that are not exactly the first.
---
--- ## References
--- https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html

local optimizers = require("optimizers")
local restarts = require("restarts")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")

--- The steps at which a counter of updates began, by its rows: each is the step less the count.
local function begun(rows)
  local out = {}
  for row in rows:slice(0, 10000):rows() do
    if #out == 0 or row.lag > out[#out] then out[#out + 1] = row.lag end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The optimizer's state begins anew in the middle of the run",
  needs    = { scalars = { "step", "value", metric = { "optimizer_state_step", "update_rms", "update_ratio" } } },
  symptoms = { "optimizer-state-reset" },
  options  = {
    same = { default = 0.03, doc = "Distance from the first step's size up to which an update is a first one" },
    jump = { default = 2.5, doc = "Factor of the update over the learning rate that is a first step's" },
    most = { default = 0.7, doc = "Share of the first step's size that is a first step of the elements still in use" },
    calm = { default = 1.5, doc = "Factor over the largest gradient of the rows before that is a usual one" },
    even = { default = 1.25, doc = "Factor from row to row up to which a rate is what it was" },
  },

  run = runs.apart(function(case, run)
    local opt    = case.options
    local all    = case.scalars:where { primary = true }:where("finite(value)")
    local counts = all:where { metric = "optimizer_state_step" }:sort("step")
    local set    = restarts.setting(case)
    if set then
      return skip(("an optimizer's state that is kept: by %s it begins anew"):format(set.key))
    end
    for layer, values in counts:with { layer = "layer" }:group("layer") do
      local behind = values:with { lag = "step - value" }
      local fallen = behind:with { fall = behind:col("value"):diff(), slip = behind:col("lag"):diff() }
      -- A counter that falls, or that loses at least half of the steps logged before; not among the first, which a
      -- loss scaler skips while it searches.
      local reset = fallen:where("fall < 0 or (slip >= 3 and slip > 0.5 * step and value < 0.5 * step "
        .. "and step >= 50 and value > fall)"):first()
      -- What lost its steps at one place keeps pace from there on; what goes on slowly never had it.
      if reset and reset.fall >= 0 then
        local later = fallen:where("step > ?", reset.step)
        local slow  = later:count() == 0 or later:last().lag - reset.lag > 0.1 * (later:last().step - reset.step)
        if slow then reset = nil end
      end
      if reset and restarts.in_turn(begun(behind)) then
        local first = begun(behind)
        return skip(("an optimizer's state that is kept: it begins anew every %g steps, %d times"):format(
          first[2] - first[1], #first - 1))
      elseif reset then
        local before = values:where("step < ?", reset.step):last()
        report {
          symptom  = "optimizer-state-reset",
          score    = 0.97,
          at       = { run = run, step = reset.step, layer = layer },
          message  = ("the optimizer's counter of %s is %g at step %d and was %g at step %d: its moments begin anew")
            :format(
            layer, reset.value, reset.step, before.value, before.step),
          evidence = { before, reset },
        }
        return
      end
    end

    -- Without the counter: Adam's first update is the learning rate itself in every element.
    local rates = all:where { name = "lr" }
    local moved = all:where { metric = "update_rms" }:where("layer is not null"):aggregate({ "step" },
      { rms = "median value" })
    local both  = moved:renamed("updates"):join(rates:distinct("step"), { "step" }):where("value > 0"):sort("step")
    if counts:count() > 0 then return end
    local named = optimizers.named(case)
    if named and not optimizers.adam(case) then
      return skip(("the optimizer's step counter: the first update of %s has no size of its own"):format(
        tostring(named.value)))
    end
    if both:count() == 0 then
      -- All weights together: |update| / rate, which is the root of their number in a first step.
      local function of(metric)
        return all:where { metric = metric }:where("layer is null"):distinct("step")
      end
      local whole = of("update_ratio"):select("step", "value")
        :join(of("weight_norm"):with { norm = "value" }:select("step", "norm"), { "step" })
        :join(rates:distinct("step"):with { rate = "value" }:select("step", "rate"), { "step" })
        :where("value > 0 and rate > 0")
      local sizes, rows, first = {}, {}, nil
      for row in whole:sort("step"):slice(0, 10000):rows() do rows[#rows + 1] = row end
      local frozen = settings.on(case.config:where("match(key, '*freeze*|*frozen*')")):count() > 0
      -- Parts of one size, each of which makes a first step of its own.
      local turns = settings.on(case.config:where("match(key, '*unfreez*|*unfrozen*|*thaw*|*gradual*|*freeze_until*|"
        .. "*freeze*_steps|*freeze*_epochs')")):first()
      if turns then
        return skip(("first steps of the whole model alone: by %s parts make theirs later"):format(turns.key))
      end

      --- Whether the gradient of a row is one of those before it, and its rate that of its neighbours: then an update
      --- of another size has other moments, and nothing else that is new.
      local function usual(i)
        local norms = all:where { name = "grad_norm" }:where("layer is null")
        local here  = norms:where { step = rows[i].step }:first()
        local past  = norms:where("step < ? and step >= ?", rows[i].step, rows[math.max(1, i - 8)].step)
        if frozen or not here or past:count() < 5 or here.value > opt.calm * past:max("value") then return false end
        for _, j in ipairs({ i - 1, i + 1 }) do
          local factor = rows[j] and rows[j].rate / rows[i].rate
          if factor and (factor > opt.even or factor < 1 / opt.even) then return false end
        end
        return true
      end
      --- Whether it is a jump of one row: the one before was at the old level, and the next is on its way there.
      local function alone(i, size)
        local after = rows[i + 1]
        return size > opt.jump * sizes[#sizes] and after ~= nil and after.value * after.norm / after.rate < 0.7 * size
      end
      for i, row in ipairs(rows) do
        local size = row.value * row.norm / row.rate
        first = first or { step = row.step, size = size }
        local before = {}
        for k = math.max(1, #sizes - 7), #sizes do before[#before + 1] = sizes[k] end
        local high = #sizes >= 5 and first.step <= 1 and size > opt.jump * statistics.median(before)
        local less = high and size < first.size and size >= opt.most * first.size
        if high and math.abs(size / first.size - 1) < opt.same or less and alone(i, size) and usual(i) then
          report {
            symptom  = "optimizer-state-reset",
            score    = math.abs(size / first.size - 1) < opt.same and 0.95 or 0.85,
            at       = { run = run, step = row.step },
            message  = ("the update of step %d is %.4g times the learning rate, that of step %d was %.4g times, and "
              .. "%.3g was usual before: Adam's first step again, its moments begin anew"):format(row.step, size,
              first.step, first.size, statistics.median(before)),
            evidence = { all:where { metric = "update_ratio", step = row.step }:slice(0, 1),
              all:where { metric = "update_ratio", step = first.step }:slice(0, 1) },
          }
          return
        end
        sizes[#sizes + 1] = size
      end
      if #sizes >= 8 and first.step <= 1 then return end
    end
    if both:count() < 8 then
      return skip("the optimizer's step counter: log optimizer.state[p]['step'] beside the metrics")
    end
    local sized = both:with { size = "rms / value" }
    local begun = sized:first()
    if begun.size < 0.7 or begun.size > 1.4 then return end -- not Adam, or not from its first step
    local level = sized:with { usual = sized:col("size"):rolling(8, "median") }
    local jump  = level:where("step > ? and size > ? * usual and size > 0.7 and size < 1.4", sized:row(5).step,
      case.options.jump):first()
    if jump then
      report {
        symptom  = "optimizer-state-reset",
        score    = 0.8,
        at       = { run = run, step = jump.step },
        message  = ("the update is %.2g of the learning rate at step %d, as at the first step, and %.2g before: the "
          .. "optimizer's moments begin anew"):format(jump.size, jump.step, jump.usual),
        evidence = { jump, sized:around(jump, 2) },
      }
    end
  end),
}
