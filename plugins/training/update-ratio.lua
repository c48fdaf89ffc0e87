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
--- out, as is what never moves. A loss that comes to a half of what it was had a rate that was high enough. Fine-tuning
--- at rates of 1e-6 moves a model that already knows; a first loss far below that of chance weakens the report.
---
--- ## References
--- SageMaker Debugger flags ratios above 10 and below 1e-8, orders beyond what breaks a transformer.

local dying = require("dying")
local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")
local targets = require("targets")

--- A growth of the median layer by a factor within a tenth of the run (or from one row to the next), of which half goes
--- again later; nil where there is none.
---@param paths table<number, number[]>  by step, each layer's norm over its first
---@param factor number
---@return table?  from, to, factor, back
local function overshoot(paths, factor)
  local steps, level = {}, {}
  for step, values in pairs(paths) do
    steps[#steps + 1], level[step] = step, statistics.median(values)
  end
  table.sort(steps)
  for i = 2, #steps do
    local j = i - 1
    while j > 1 and steps[i] - steps[j - 1] <= 0.1 * (steps[#steps] - steps[1]) do j = j - 1 end
    if level[steps[i]] >= factor * level[steps[j]] then
      local top, least = i, nil
      for k = i, #steps do
        if level[steps[k]] > level[steps[top]] then top, least = k, nil end
        least = math.min(least or math.huge, level[steps[k]])
      end
      if least <= 0.5 * level[steps[top]] then
        return { from = steps[j], to = steps[i], factor = level[steps[i]] / level[steps[j]],
          back = least / level[steps[top]] }
      end
    end
  end
end

--- What a square matrix of as many and as large elements multiplies a signal by: 1 at a usual start. Weights that begin
--- far below it, as word vectors and second factors do, are to grow. 1 where it cannot be told.
---@param case culprit.Case
---@param norm culprit.Row  weight_norm of a layer
---@return number
local function gain(case, norm)
  local own = case.scalars:where { primary = true, layer = norm.layer, step = norm.step }:where("value > 0")
  local moved, ratio = own:where { metric = "update_rms" }:first(), own:where { metric = "update_ratio" }:first()
  if not moved or not ratio then return 1 end
  local size = moved.value / ratio.value
  return size * math.sqrt(norm.value / size)
end

--- Reports weights that grow beyond any use, and tells the least that the updates must have been for it.
---@param case culprit.Case
---@param run string?  its name, where there are several
---@return table?  ratio, from, to: the largest of the lower bounds, in the median layer; back: whether the weights were
---   thrown out and came back
local function judge_weights(case, run)
  local opt = case.options
  -- Where the layers end, against where they began; or thrown out at once and part of the way back: layers behind a
  -- norm grow until the rate suits them, and a sound rate lets none overshoot.
  local grown, example, paths = {}, nil, {}
  for layer, norms in case.scalars:where { metric = "weight_norm", primary = true }
    :where("layer is not null and finite(value) and value > 0"):group("layer") do
    local series = norms:sort("step")
    local top = series:top(1, "value"):first()
    grown[#grown + 1] = top.value / series:first().value * math.min(1, 2 * gain(case, series:first()))
    example = example or { layer = layer, first = series:first(), top = top }
    for row in series:slice(0, 2000):rows() do
      local path = paths[row.step] or {}
      path[#path + 1], paths[row.step] = row.value / series:first().value, path
    end
  end
  table.sort(grown)
  local thrown = overshoot(paths, opt.thrown)
  local growth = grown[(#grown + 1) // 2]
  if not growth then skip("weight norms of layers", "weights-blow-up") end
  if thrown and growth < opt.blow_up then
    report {
      symptom  = "weights-blow-up",
      score    = 0.85,
      at       = { run = run, step = thrown.to },
      message  = ("the weight norm of the median of %d layers grows %.3g times from step %d to %d and falls to %.2g "
        .. "of that later: the updates threw the weights out"):format(#grown, thrown.factor, thrown.from, thrown.to,
        thrown.back),
      evidence = { case.scalars:where { metric = "weight_norm", primary = true, step = thrown.to }:slice(0, 5) },
    }
  end
  if growth and growth >= opt.blow_up then
    report {
      symptom  = "weights-blow-up",
      score    = 0.9,
      at       = { run = run, step = example.top.step, layer = example.layer },
      message  = ("weights grow %.3g times in the median of %d layers; those of %s from %.4g at step %d to %.4g at "
        .. "step %d"):format(growth, #grown, example.layer, example.first.value, example.first.step,
        example.top.value, example.top.step),
      evidence = { example.first, example.top },
    }
  end
  -- A weight cannot grow faster than it is updated: |w + u| <= |w| (1 + |u| / |w|). A growth of g times over k steps
  -- takes at least one update of g^(1/k) - 1 of the weights.
  local steps, bound = {}, nil
  for step in pairs(paths) do steps[#steps + 1] = step end
  table.sort(steps)
  for i = 2, #steps do
    local g = statistics.median(paths[steps[i]]) / statistics.median(paths[steps[i - 1]])
    local ratio = g >= opt.leap and g ^ (1 / (steps[i] - steps[i - 1])) - 1 or 0
    if ratio > 0 and (not bound or ratio > bound.ratio) then
      bound = { ratio = ratio, from = steps[i - 1], to = steps[i], factor = g, layers = #paths[steps[i]],
        back = thrown ~= nil }
    end
  end
  return bound
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
    ramp      = { default = 0.30,
                  doc = "First update over weight norm, taken to the full rate, that is too large for any warm-up" },
    low       = { default = 1e-4, doc = "Median update over weight norm that is too small" },
    could     = { default = 1e-2, doc = "Largest update over weight norm from which the rate is not too low" },
    learned   = { default = 0.50, doc = "Last over first loss below which no rate was too low" },
    way       = { default = 0.10, doc = "Sum of the updates over weight norm that does not lead away from the start" },
    long      = { default = 100,  doc = "Steps from which the sum is judged" },
    min_steps = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = runs.apart(function(case, run)
    local opt    = case.options
    local rows   = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
    -- A second factor that begins at zero is small against its updates for long.
    local layers = rows:where("layer is not null and not match(layer, '*lora_b*|*lora_B*|*lora_up*')")
    local ratios = (layers:count() > 0 and layers or rows:where("layer is null")):sort("step")
    -- What never moves, as a teacher or a base that is kept, has no updates; what begins at zero moves by all that it
    -- is then, and by a large part of it for long. Neither tells of the others' rates.
    local base = false -- whether most of the model stands still, and what moves is trained beside it
    if layers:count() > 0 then
      local apart, kept_still = {}, 0
      for layer, own in ratios:group("layer") do
        local first = own:first()
        if own:max("value") == 0 then kept_still = kept_still + 1 end
        if own:max("value") == 0 or first.step <= 1 and math.abs(first.value - 1) <= 1e-3 then
          apart[layer] = true
        end
      end
      if next(apart) then
        local kept = {}
        for layer in ratios:group("layer") do
          if not apart[layer] then kept[#kept + 1] = layer end
        end
        base = kept_still > #kept
        if #kept > 0 then ratios = ratios:where { layer = kept } end
      end
    end
    if ratios:count() == 0 and rows:count() > 0 then
      return skip("update ratios of weights that do not begin at zero, as second factors do")
    end
    local usual  = ratios:aggregate({ "step" }, { ratio = "median value",
      largest = "max value" }):renamed("update ratios")
    local high = usual:where("ratio >= ?", opt.high)
    -- One step is enough where it replaces the weights altogether.
    local torn = high:where("ratio >= ?", 10 * opt.high):count() > 0
    local rates = runs.series(case, "lr")
    -- The warm-up's end, not a jump later on.
    local third = rates:slice(0, math.max(5, rates:count() // 3))
    local peak  = third:count() > 0 and third:max("value") or 0
    -- Adam's first updates are the rate in each element, whatever the gradient: at the full rate large against small
    -- initial weights, and gone some steps later. Those are training/warmup's; in a warm-up they ought to be small.
    local set  = settings.warmup(case)
    local full = peak == 0 or rates:first().value >= 0.7 * peak
    local other = optimizers.begins_otherwise(case)
    if (other or not torn) and usual:count() > 0 and full
      and (not set or rates:count() > 0 and rates:first().step <= 1) then
      local length = usual:max("step") - usual:min("step")
      high = high:where("step > ?", usual:min("step") + math.min(0.25 * length, math.max(10, 0.05 * length)))
      torn = torn and high:where("ratio >= ?", 10 * opt.high):count() > 0
    end
    -- Of all weights together, which are logged more often than those of layers.
    local whole = rows:where("layer is null"):sort("step")
    local replaced = layers:count() > 0 and not base and whole:where("value >= ? and step > ?", 10 * opt.high,
      math.max(10, usual:min("step") or 0)):first()
    local bound = judge_weights(case, run)
    if usual:count() < opt.min_steps and not torn then
      -- What broke before its updates were logged shows them in its weights.
      if bound and bound.ratio >= opt.high and bound.layers >= 3 then
        report {
          symptom  = "update-ratio-high",
          score    = math.min(0.95, 0.6 + bound.ratio),
          at       = { run = run, step = bound.from },
          message  = ("the weights of the median of %d layers grow %.3g times from step %d to %d, which takes updates "
            .. "of at least %.2g of the weights"):format(bound.layers, bound.factor, bound.from, bound.to, bound.ratio),
          evidence = { case.scalars:where { metric = "weight_norm", primary = true, step = bound.to }:slice(0, 5) },
        }
        for _, symptom in ipairs { "update-ratio-low", "first-updates-outgrow-weights" } do
          skip(("update ratios of at least %d steps"):format(opt.min_steps), symptom)
        end
        return
      end
      return skip(("update ratios of at least %d steps"):format(opt.min_steps))
    end

    -- So is one after which hardly anything moves any more, since what it made of the model passes no gradient on.
    local level = usual:median("ratio")
    local froze = high:count() == 1 and level and level < 1e-3 * high:first().ratio
    -- One logged step may be an outlier; not one from which on the weights grow as only updates of its size make them,
    -- and come back. Where they stay the growth says it all.
    local thrown = high:count() == 1 and bound and bound.back and bound.ratio >= opt.high and bound.layers >= 3
      and high:first().step >= bound.from and high:first().step <= bound.to
    if high:count() >= 2 or torn or froze or thrown then
      local first, worst = high:first(), high:top(1, "ratio"):first()
      report {
        symptom  = "update-ratio-high",
        score    = math.min(0.95, 0.6 + worst.ratio),
        at       = { run = run, step = first.step,
          layer = ratios:where { step = worst.step }:top(1, "value"):first().layer },
        message  = ("updates reach %.2g of the weights in the median layer (step %d); above %g at %d of %d logged "
          .. "steps, "
          .. "first at step %d"):format(worst.ratio, worst.step, opt.high, high:count(), usual:count(), first.step),
        evidence = { high:top(5, "ratio"), ratios:where { step = worst.step }:top(3, "value") },
      }
    elseif replaced then
      report {
        symptom  = "update-ratio-high",
        score    = 0.95,
        at       = { run = run, step = replaced.step },
        message  = ("the update of step %d is %.2g of all weights: it puts others in their place"):format(replaced.step,
          replaced.value),
        evidence = { replaced, whole:around(replaced, 2) },
      }
    else
      -- Where the gradient dies between two of the first logged steps, what threw the weights stands between them.
      local died = dying.early(case, dying.usual)
      local next_one = died and usual:where("step > ?", died.first.step + 2):first()
      if next_one and next_one.step > died.first.step + 5 then
        skip(("updates of the steps %d to %d, in which the gradient dies"):format(died.first.step + 1,
          next_one.step - 1), "update-ratio-high")
      else
        -- So it is where that of most layers ends later, all at once, and the head's alone goes on.
        local grads = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null and "
          .. "finite(value)"):aggregate({ "step" }, { grad = "median value" }):sort("step")
        local ended = grads:where("grad == 0"):first()
        local alive = ended and grads:where("step < ? and grad > 0", ended.step):last()
        if alive and ended.step > alive.step + 5 then
          skip(("updates of the steps %d to %d, in which the gradient of the median layer ends"):format(alive.step + 1,
            ended.step - 1), "update-ratio-high")
        end
      end
    end

    -- The first updates, before weights have grown to them, at the rate that the warm-up leads to. A quarter of the
    -- layers may have begun at zero or nearly so.
    local begin = usual:sort("step"):where("ratio > 0"):first()
    --- The part of the full rate that the warm-up has come to at a step, and the row that says so.
    local function part_at(step)
      local near = rates:where("step >= ? and step <= ?", step - 1, step + 1)
        :with { far = ("abs(step - %d)"):format(math.floor(step)) }:sort("far"):first()
      return near and peak > 0 and near.value / peak
        or not near and set and math.min(1, (step + 1) / set.number) or 1, near
    end
    if begin and begin.step <= 2 then
      local part, near = part_at(begin.step)
      local small = ratios:where { step = begin.step }:quantile("value", 0.25)
      -- Of the next ones those that are large already, on their way up: gradients of plain descent grow as well.
      if part < 0.7 and small / part < opt.ramp then
        for row in usual:where("step > ? and step <= 10 and ratio > 0", begin.step):rows() do
          local later, now = ratios:where { step = row.step }:quantile("value", 0.25), part_at(row.step)
          if now < 0.7 and later >= 0.5 * opt.high and later / now > math.max(opt.ramp, small / part) then
            begin, small, part, near = row, later, now, select(2, part_at(row.step))
          end
        end
      end
      -- Plain descent and what begins as it does has no first update that is longer than others.
      local adam = optimizers.adam(case)
      local rectified = optimizers.kind(case):glob("*radam*|*rectified*")
      if part >= 0.7 and not adam and (rectified or not other) then
        for row in usual:where("step > ? and step <= 2", begin.step):rows() do
          local later = ratios:where { step = row.step }:quantile("value", 0.25)
          if later >= 10 * opt.high and later > small then begin, small = row, later end
        end
      end
      -- Of all weights together, where the small layers' gains and biases hide what the large ones do.
      local together = part < 0.7 and whole:where { step = begin.step }:first()
      if together and layers:count() > 0 and together.value / part >= opt.ramp and together.value > small then
        small = together.value
      else
        together = nil
      end
      -- At the full rate at once: Adam's later updates are about a fifth of its first, as gradients are mostly noise,
      -- so that half of the weights at first is a tenth of them later on. Adagrad's go on falling.
      -- Nor does a first update tell of later ones that is long or short by design.
      if base then
        skip("weights that are trained from a start: most of the model stands still, and prompts, scales or factors "
          .. "that are put beside it begin small", "first-updates-outgrow-weights")
      elseif other and not (rectified and part >= 0.7) then
        skip(("first updates that a rate makes: those of %s are other than later ones by design"):format(
          optimizers.kind(case)), "first-updates-outgrow-weights")
      elseif part > 0 and small and (part < 0.7 and small / part >= opt.ramp or part >= 0.7
        and small >= (adam and 5 or 10) * opt.high) then
        report {
          symptom  = "first-updates-outgrow-weights",
          score    = part >= 0.7 and small < 10 * opt.high and 0.7
            or math.min(0.95, 0.7 + 0.25 * math.min(1, small / part)),
          at       = { run = run, step = begin.step },
          message  = ("the update of step %d is %.2g of %s%s: a rate in the order of "
            .. "the weights, which no warm-up mends"):format(begin.step, small, together and "all weights"
            or "the weights in three layers of four", part < 0.7 and
            (", with %s of the full rate, which would make %.2g"):format(units.percent(part), small / part) or ""),
          evidence = { ratios:where { step = begin.step }:slice(0, 5), near or set or rates:first() },
        }
      end
    end

    if not begin or begin.step > 2 then
      skip("update ratios from the first step on", "first-updates-outgrow-weights")
    end

    local moving = usual:where("ratio > 0")
    local median = moving:count() > usual:count() / 2 and moving:median("ratio") or nil
    -- The end of a run, or what follows on an earlier one, makes small steps and has gone its way before.
    if usual:count() > 0 and usual:min("step") > math.max(10, 0.25 * (usual:max("step") - usual:min("step"))) then
      return skip("updates from the beginning of the run on", "update-ratio-low")
    end
    -- The way of the weights is at most the sum of the updates. A rate that still rises has not come to its steps yet.
    local span = usual:max("step") - usual:min("step")
    local late = rates:slice(2 * rates:count() // 3, rates:count())
    local risen = late:count() >= 2 and late:last().value <= 1.01 * late:first().value
    local way  = median and risen and span >= opt.long and moving:mean("ratio") * span
    -- A rate that moved the weights by a hundredth in one step is not the one that is too low: what makes later updates
    -- vanish is the gradient, or the schedule.
    local could = moving:count() > 0 and moving:max("ratio") >= opt.could
    -- Nor does a loss that went down leave a rate that is too low for it, however little of large weights that took:
    -- wide layers, and weights that are divided on their way, move by a small part.
    local sizes = {}
    for layer, own in ratios:where("value > 0"):group("layer") do
      local row   = own:first()
      local moved = layer and case.scalars:where { metric = "update_rms", primary = true, layer = layer,
        step = row.step }:first()
      sizes[#sizes + 1] = moved and moved.value / row.value
    end
    if #sizes > 0 and statistics.median(sizes) > 0.9 then could = true end
    local curve = runs.series(case, "loss"):where("finite(value)")
    local tenth = math.max(1, curve:count() // 10)
    local start = curve:count() >= 5 and curve:slice(0, tenth):median("value")
    local finish = curve:count() >= 5 and curve:slice(curve:count() - tenth, tenth):median("value")
    if start and start > 0 and finish < opt.learned * start then could = true end
    if median and not could and (median < opt.low or way and way < opt.way) then
      local size = targets.classes(case)
      local loss = runs.series(case, "loss"):first()
      local knows = settings.loaded(case) or size and loss and loss.value < 0.75 * math.log(size.number)
      report {
        symptom  = "update-ratio-low",
        score    = knows and 0.3 or median < 0.2 * opt.low and 0.9 or 0.75,
        at       = { run = run, step = moving:first().step },
        message  = ("the median update is %.2g of the weights over %d logged steps, at most %.2g%s; learning from "
          .. "nothing needs about 1e-3"):format(median, usual:count(), moving:max("ratio"),
          way and (", and all of them together %.2g of the weights"):format(way) or ""),
        evidence = { moving:top(3, "ratio"), ratios:slice(0, 5) },
      }
    end
  end),
}
