--- ## What it detects
--- Updates that are a large, or a vanishing, fraction of the weights, and first updates that would be as large as the
--- weights at the full rate; weights that grow beyond any use.
---
--- ## Why it matters
--- Between a thousandth and a hundredth a step is healthy. A tenth and more tears the weights up; below a
--- ten-thousandth a model that starts from nothing does not get anywhere. Nor does one whose updates add up to less
--- than a tenth of the weights, since no way is longer than the sum of its steps. Nor can weights grow faster than they
--- are updated, so that a run that broke before its updates were logged tells their size by its weights. Where the
--- gradient dies between two logged steps that are far apart, of the whole among the first ones or of most layers later
--- on, the updates that did it are not on record, and that none was large is not said. One large update may be an
--- outlier; it is told where weights grow from there on as only updates of its size make them, and come back.
---
--- Plain descent's first updates are as short as the gradients: those of the first ten steps that are large already are
--- taken to the full rate as well. RAdam begins as plain descent. Where all weights are measured together as well, one
--- update that is as large as they are has put other weights in their place, whatever the layers showed at other steps.
---
--- ## How to confirm
--- Compare one parameter before and after `optimizer.step()`, in the middle of the schedule.
---
--- ## Known false positives
--- The first steps of a warm-up and the end of a schedule that ends at zero: the median over the run is judged. Adam's
--- first updates, which are the rate in every element: large ones count from a twentieth of the run on. Layers that
--- begin at zero, as biases and the second factor of LoRA do: a first update of all of a layer shows it, and it is left
--- out, as is what never moves. One or two layers on features that stay have to outgrow their start: first updates are
--- judged of three layers and more. A loss that comes to a half of what it was had a rate that was high enough.
--- Fine-tuning at rates of 1e-6 moves a model that already knows; a first loss far below that of chance weakens the
--- report. A step at which weights are projected (pruned, masked, tied) is left out: what the update takes from them it
--- takes from their length as well, which no gradient's does.
---
--- ## References
--- SageMaker Debugger flags ratios above 10 and below 1e-8, orders beyond what breaks a transformer.

local dying = require("dying")
local growth = require("weight-growth")
local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")
local targets = require("targets")
local update_ratios = require("update-ratios")

local WARM = 0.7 -- part of the full rate from which a run is no longer in its warm-up

--- Reports weights that grow beyond any use, and tells the least that the updates must have been for it.
---@param case culprit.Case
---@param run string?  its name, where there are several
---@return table?  as growth.least_update has it, with `back`: whether the weights were thrown out and came back
local function judge_weights(case, run)
  local opt    = case.options
  local grown  = growth.of(case)
  local thrown = growth.thrown(grown.path, opt.thrown)
  if not grown.factor then
    skip("weight norms of layers", "weights-blow-up")
  elseif grown.factor >= opt.blow_up then
    local first, top, layer = grown.example.first, grown.example.top, grown.example.layer
    report {
      symptom  = "weights-blow-up",
      score    = 0.9,
      at       = { run = run, step = top.step, layer = layer },
      message  = ("weights grow %.3g times in the median of %d layers; those of %s from %.4g at step %d to %.4g at "
        .. "step %d"):format(grown.factor, grown.layers, layer, first.value, first.step, top.value, top.step),
      evidence = { first, top },
    }
  elseif thrown then
    report {
      symptom  = "weights-blow-up",
      score    = 0.85,
      at       = { run = run, step = thrown.to },
      message  = ("the weight norm of the median of %d layers grows %.3g times from step %d to %d and falls to %.2g "
        .. "of that later: the updates threw the weights out"):format(grown.layers, thrown.factor, thrown.from,
        thrown.to, thrown.back),
      evidence = { case.scalars:where { metric = "weight_norm", primary = true, step = thrown.to }:slice(0, 5) },
    }
  end
  local bound = growth.least_update(grown.path, opt.leap)
  if bound then bound.back = thrown ~= nil end
  return bound
end

--- Of a run with too few logged updates: what broke before they were logged shows them in its weights.
local function judge_by_weights(case, run, bound)
  local opt  = case.options
  local more = ("update ratios of at least %d steps"):format(opt.min_steps)
  if not bound or bound.ratio < opt.high or bound.layers < 3 then return skip(more) end
  report {
    symptom  = "update-ratio-high",
    score    = math.min(0.95, 0.6 + bound.ratio),
    at       = { run = run, step = bound.from },
    message  = ("the weights of the median of %d layers grow %.3g times from step %d to %d, which takes updates "
      .. "of at least %.2g of the weights"):format(bound.layers, bound.factor, bound.from, bound.to, bound.ratio),
    evidence = { case.scalars:where { metric = "weight_norm", primary = true, step = bound.to }:slice(0, 5) },
  }
  skip(more, "update-ratio-low", "first-updates-outgrow-weights")
end

---@class update_ratio.Rate
---@field rows culprit.Table  the logged rates
---@field peak number         that the warm-up leads to; 0 where no rate is logged
---@field set culprit.Row?    the setting of the steps of a warm-up
---@field full boolean        whether the first logged rate is that peak already

---@return update_ratio.Rate
local function rate_of(case)
  local rows  = runs.series(case, "lr")
  -- The warm-up's end, not a jump later on.
  local third = rows:slice(0, math.max(5, rows:count() // 3))
  local peak  = third:count() > 0 and third:max("value") or 0
  return { rows = rows, peak = peak, set = settings.warmup(case),
    full = peak == 0 or rows:first().value >= WARM * peak }
end

--- The part of the full rate that a run has come to at a step, and the row that says so.
local function part_at(rate, step)
  local near = rate.rows:where("step >= ? and step <= ?", step - 1, step + 1)
    :with { far = ("abs(step - %d)"):format(math.floor(step)) }:sort("far"):first()
  return near and rate.peak > 0 and near.value / rate.peak
    or not near and rate.set and math.min(1, (step + 1) / rate.set.number) or 1, near
end

--- The steps whose updates are large, and whether one of them replaces the weights altogether. Adam's first updates are
--- the rate in each element, whatever the gradient: at the full rate large against small initial weights, and gone some
--- steps later. Those are training/warmup's, and left out; in a warm-up they ought to be small.
---@param seen update_ratios.Found
---@param rate update_ratio.Rate
local function large_steps(case, seen, rate)
  local opt, usual = case.options, seen.usual
  local high = usual:where("ratio >= ?", opt.high)
  local function torn() return high:where("ratio >= ?", 10 * opt.high):count() > 0 end
  local at_once = rate.full and (not rate.set or rate.rows:count() > 0 and rate.rows:first().step <= 1)
  if usual:count() > 0 and at_once and (optimizers.begins_otherwise(case) or not torn()) then
    local begin  = usual:min("step")
    local length = usual:max("step") - begin
    high = high:where("step > ?", begin + math.min(0.25 * length, math.max(10, 0.05 * length)))
  end
  return high, torn()
end

--- Whether one large update is all that there is to say: hardly anything moves behind it, since what it made of the
--- model passes no gradient on; or it is no outlier, since the weights grow there as only updates of its size make
--- them, and come back. Where they stay the growth says it all.
local function one_is_enough(case, usual, high, bound)
  if high:count() ~= 1 then return false end
  local opt, only = case.options, high:first()
  return usual:median("ratio") < 1e-3 * only.ratio
    or bound and bound.back and bound.ratio >= opt.high and bound.layers >= 3
    and only.step >= bound.from and only.step <= bound.to
end

--- What updates are not on record where the gradient dies between two logged steps that are far apart: what threw the
--- weights stands between them.
local function off_record(case, usual)
  local died = dying.early(case, dying.usual)
  local next_one = died and usual:where("step > ?", died.first.step + 2):first()
  if next_one and next_one.step > died.first.step + 5 then
    return ("updates of the steps %d to %d, in which the gradient dies"):format(died.first.step + 1, next_one.step - 1)
  end
  -- So it is where that of most layers ends later, all at once, and the head's alone goes on.
  local grads = case.scalars:where { metric = "grad_norm", primary = true }
    :where("layer is not null and finite(value)"):aggregate({ "step" }, { grad = "median value" }):sort("step")
  local ended = grads:where("grad == 0"):first()
  local alive = ended and grads:where("step < ? and grad > 0", ended.step):last()
  if alive and ended.step > alive.step + 5 then
    return ("updates of the steps %d to %d, in which the gradient of the median layer ends"):format(alive.step + 1,
      ended.step - 1)
  end
end

--- The first update that is as large as all weights together.
local function replacement(case, seen)
  if not seen.layered or seen.base then return nil end
  return seen.whole:where("value >= ? and step > ?", 10 * case.options.high,
    math.max(10, seen.usual:min("step") or 0)):first()
end

--- Reports updates that are a large fraction of the weights.
---@param seen update_ratios.Found
local function judge_large(case, run, seen, high, torn, bound)
  local usual = seen.usual
  if high:count() >= 2 or torn or one_is_enough(case, usual, high, bound) then
    local first, worst = high:first(), high:top(1, "ratio"):first()
    local there = seen.ratios:where { step = worst.step }
    return report {
      symptom  = "update-ratio-high",
      score    = math.min(0.95, 0.6 + worst.ratio),
      at       = { run = run, step = first.step, layer = there:top(1, "value"):first().layer },
      message  = ("updates reach %.2g of the weights in the median layer (step %d); above %g at %d of %d logged "
        .. "steps, first at step %d"):format(worst.ratio, worst.step, case.options.high, high:count(), usual:count(),
        first.step),
      evidence = { high:top(5, "ratio"), there:top(3, "value") },
    }
  end
  local replaced = replacement(case, seen)
  if replaced then
    return report {
      symptom  = "update-ratio-high",
      score    = 0.95,
      at       = { run = run, step = replaced.step },
      message  = ("the update of step %d is %.2g of all weights: it puts others in their place"):format(replaced.step,
        replaced.value),
      evidence = { replaced, seen.whole:around(replaced, 2) },
    }
  end
  local needed = off_record(case, usual)
  if needed then skip(needed, "update-ratio-high") end
end

--- The update of the first steps that tells most: { row, size (in three layers of four), part, near }; nil where the
--- first one is not on record. A quarter of the layers may have begun at zero or nearly so.
---@param lasting boolean  whether an update at the full rate may be longer than the first
local function telling_first(opt, seen, rate, lasting)
  local usual = seen.usual:sort("step")
  local function update(row)
    local part, near = part_at(rate, row.step)
    return { row = row, size = seen.ratios:where { step = row.step }:quantile("value", 0.25), part = part, near = near }
  end
  local begin = usual:where("ratio > 0"):first()
  if not begin or begin.step > 2 then return nil end
  local first = update(begin)
  -- Of the next ones those that are large already, on their way up: gradients of plain descent grow as well.
  if first.part < WARM and first.size / first.part < opt.ramp then
    for row in usual:where("step > ? and step <= 10 and ratio > 0", begin.step):rows() do
      local later = update(row)
      if later.part < WARM and later.size >= 0.5 * opt.high
        and later.size / later.part > math.max(opt.ramp, first.size / first.part) then
        first = later
      end
    end
  end
  if first.part >= WARM and lasting then
    for row in usual:where("step > ? and step <= 2", begin.step):rows() do
      local size = update(row).size
      if size >= 10 * opt.high and size > first.size then first.row, first.size = row, size end
    end
  end
  return first
end

--- The update of a step over the weights, of all of them together, or of the layers that are logged.
local function of_all_layers(case, seen, step)
  local whole = seen.whole:where { step = step }:first()
  if whole then return whole.value end
  local norms = case.scalars:where { metric = "weight_norm", primary = true, step = step }
    :where("layer is not null and finite(value)"):distinct("layer"):select("layer", "value")
  local both = seen.ratios:where { step = step }:distinct("layer"):select("layer", "value"):join(norms, { "layer" })
    :with { moved = "value * value * value_right * value_right", square = "value_right * value_right" }
  local weights = both:count() > 0 and both:sum("square") or 0
  return weights > 0 and math.sqrt(both:sum("moved") / weights) or nil
end

--- Reports first updates, before weights have grown to them, that would outgrow them at the rate that the warm-up leads
--- to.
---@param seen update_ratios.Found
---@param rate update_ratio.Rate
local function judge_first(case, run, seen, rate)
  local opt       = case.options
  local adam      = optimizers.adam(case)
  local other     = optimizers.begins_otherwise(case)
  local rectified = optimizers.kind(case):glob("*radam*|*rectified*")
  -- Plain descent and what begins as it does has no first update that is longer than others.
  local first = telling_first(opt, seen, rate, not adam and (rectified or not other))
  if not first then return skip("update ratios from the first step on", "first-updates-outgrow-weights") end
  local size, part = first.size, first.part
  local layers = seen.ratios:distinct("layer"):count()
  if seen.layered and layers < 3 then
    -- A readout of features that stay has to grow, and learns at any rate that does not diverge.
    return skip("three layers or more that are trained: one or two outgrow their start as they learn",
      "first-updates-outgrow-weights")
  elseif seen.base then
    return skip("weights that are trained from a start: most of the model stands still, and prompts, scales or factors "
      .. "that are put beside it begin small", "first-updates-outgrow-weights")
  elseif other and not (rectified and part >= WARM) then
    -- Such a first update tells nothing of later ones: it is long or short by design.
    return skip(("first updates that a rate makes: those of %s are other than later ones by design"):format(
      optimizers.kind(case)), "first-updates-outgrow-weights")
  end
  -- Of all weights together, where the small layers' gains and biases hide what the large ones do.
  local whole = part < WARM and seen.layered and of_all_layers(case, seen, first.row.step)
  local together = whole and whole / part >= opt.ramp and whole > 1.01 * size
  if together then size = whole end
  -- At the full rate at once: Adam's later updates are about a fifth of its first, as gradients are mostly noise, so
  -- that half of the weights at first is a tenth of them later on. Adagrad's go on falling.
  local outgrows = part < WARM and size / part >= opt.ramp or part >= WARM and size >= (adam and 5 or 10) * opt.high
  if part <= 0 or not outgrows then return end
  local of = not seen.layered and "all weights" or layers >= 4 and "the weights in three layers of four"
    or "the weights in most of 3 layers"
  report {
    symptom  = "first-updates-outgrow-weights",
    -- A fifth of the weights a step is long, a third is theirs in three.
    score    = part >= WARM and size < 10 * opt.high and 0.7
      or part < WARM and size / part < 1.5 * opt.ramp and 0.6
      or math.min(0.95, 0.7 + 0.25 * math.min(1, size / part)),
    at       = { run = run, step = first.row.step },
    message  = ("the update of step %d is %.2g of %s%s: a rate in the order of the weights, which no warm-up mends")
      :format(first.row.step, size, together and "all weights" or of,
      part < WARM and (", with %s of the full rate, which would make %.2g"):format(units.percent(part), size / part)
      or ""),
    evidence = { seen.ratios:where { step = first.row.step }:slice(0, 5), first.near or rate.set or rate.rows:first() },
  }
end

--- Whether updates are small against weights that are large: wide layers, and weights that are divided on their way,
--- move by a small part.
local function are_large(case, ratios)
  local sizes = {}
  for layer, own in ratios:where("value > 0"):group("layer") do
    local row   = own:first()
    local moved = layer and case.scalars:where { metric = "update_rms", primary = true, layer = layer,
      step = row.step }:first()
    sizes[#sizes + 1] = moved and moved.value / row.value
  end
  return #sizes > 0 and statistics.median(sizes) > 0.9
end

--- Whether the loss came down to a part of what it was.
local function learned(case, part)
  local loss  = runs.series(case, "loss"):where("finite(value)")
  local count = loss:count()
  if count < 5 then return false end
  local tenth = math.max(1, count // 10)
  local start = loss:slice(0, tenth):median("value")
  return start > 0 and loss:slice(count - tenth, tenth):median("value") < part * start
end

--- Whether a model that moves little may know what it is to learn: it was loaded, or begins far below chance.
local function knows(case)
  if settings.loaded(case) then return true end
  local size, loss = targets.classes(case), runs.series(case, "loss"):first()
  return size and loss and loss.value < 0.75 * math.log(size.number)
end

--- The longest way that the weights can have gone, the sum of the updates; nil where it is short by nature, as at a
--- rate that still rises.
local function longest_way(case, moving, length, rates)
  -- Where no rate is logged the updates say whether it rises.
  local column = rates:count() >= 3 and "value" or "ratio"
  local course = rates:count() >= 3 and rates or moving:sort("step")
  local late   = course:slice(2 * course:count() // 3, course:count())
  local risen  = late:count() < 2 or late:last()[column] > 1.01 * late:first()[column]
  return not risen and length >= case.options.long and moving:mean("ratio") * length or nil
end

--- Reports updates that are a vanishing fraction of the weights.
---@param seen update_ratios.Found
---@param rate update_ratio.Rate
local function judge_small(case, run, seen, rate)
  local opt, usual = case.options, seen.usual
  if usual:count() == 0 then return end
  -- The end of a run, or what follows on an earlier one, makes small steps and has gone its way before.
  local length = usual:max("step") - usual:min("step")
  if usual:min("step") > math.max(10, 0.25 * length) then
    return skip("updates from the beginning of the run on", "update-ratio-low")
  end
  local moving = usual:where("ratio > 0")
  if moving:count() <= usual:count() / 2 then return end
  if seen.projected then
    return skip(("updates that a rate makes: at step %d weights are projected, which takes from later ones as well")
      :format(math.floor(seen.projected)), "update-ratio-low")
  end
  local median = moving:median("ratio")
  local way    = longest_way(case, moving, length, rate.rows)
  if median >= opt.low and not (way and way < opt.way) then return end
  -- A rate that moved the weights by a hundredth in one step, or made a loss that went down, is not the one that is too
  -- low: what makes later updates vanish is the gradient, or the schedule.
  if moving:max("ratio") >= opt.could or learned(case, opt.learned) then return end
  -- Large weights need not move far; but a model that went no way at all, and learned next to nothing, did not move.
  if are_large(case, seen.ratios) and not (way and way < 0.3 * opt.way and not learned(case, 0.8)) then return end
  report {
    symptom  = "update-ratio-low",
    score    = knows(case) and 0.3 or median < 0.2 * opt.low and 0.9 or 0.75,
    at       = { run = run, step = moving:first().step },
    message  = ("the median update is %.2g of the weights over %d logged steps, at most %.2g%s; learning from "
      .. "nothing needs about 1e-3"):format(median, usual:count(), moving:max("ratio"),
      way and (", and all of them together %.2g of the weights"):format(way) or ""),
    evidence = { moving:top(3, "ratio"), seen.ratios:slice(0, 5) },
  }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates are too large or vanishing against the weights",
  needs    = { scalars = { "step", "value", metric = "update_ratio" } },
  symptoms = { "update-ratio-high", "update-ratio-low", "first-updates-outgrow-weights", "weights-blow-up" },
  options  = {
    high      = { default = 0.10, doc = "Update over weight norm that is too large" },
    blow_up   = { default = 30., doc = "Growth of the median layer's weight norm that no sound training makes" },
    thrown    = { default = 5.0, doc = "Growth of the median layer's weight norm within a tenth of the run that no "
      .. "sound training takes back" },
    leap      = { default = 3.0,  doc = "Growth of the median layer between two logged steps that tells what its "
      .. "updates were" },
    ramp      = { default = 0.20,
                  doc = "First update over weight norm, taken to the full rate, that is too large for any warm-up" },
    low       = { default = 1e-4, doc = "Median update over weight norm that is too small" },
    could     = { default = 1e-2, doc = "Largest update over weight norm from which the rate is not too low" },
    learned   = { default = 0.50, doc = "Last over first loss below which no rate was too low" },
    way       = { default = 0.10, doc = "Sum of the updates over weight norm that does not lead away from the start" },
    long      = { default = 100,  doc = "Steps from which the sum is judged" },
    min_steps = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = runs.apart(function(case, run)
    local seen = update_ratios.of(case)
    if not seen then
      return skip("update ratios of weights that do not begin at zero, as second factors do")
    end
    local rate = rate_of(case)
    local high, torn = large_steps(case, seen, rate)
    local bound = judge_weights(case, run)
    -- One step is enough where it replaces the weights altogether.
    if seen.usual:count() < case.options.min_steps and not torn then
      return judge_by_weights(case, run, bound)
    end
    judge_large(case, run, seen, high, torn, bound)
    judge_first(case, run, seen, rate)
    judge_small(case, run, seen, rate)
  end),
}
