--- ## What it detects
--- A gradient that ends in the middle of the run: from some step on it is exactly zero in the first half of the layers,
--- or in more, where it was not before, and what the layers put out has become many times as large.
---
--- ## Why it matters
--- Units that are at zero, or at an end of their range, for every input pass exactly nothing on. Training does not lead
--- there by itself, as a gradient gets smaller with the loss and not nothing: updates far too long have thrown the
--- weights to where large numbers go in. What is left is the last map, which answers everything alike, and no later
--- rate brings the rest back. The plateau looks like a rate too low, and so do the updates.
---
--- ## How to confirm
--- Restart from a checkpoint before that step at a tenth of the rate, and log the largest activation.
---
--- ## Known false positives
--- Layers that are frozen from some step on have no gradient either: what they put out stays as large, and a config
--- that says so is believed. Layers between those that have a gradient are cut off or unused, and not meant. Which ones
--- are the first the tensors tell, and else the order in which they are logged. Where none has a gradient the loss has
--- none, as with targets that are all left out. A model that ends at a loss of next to nothing has learned all there
--- was. Three rows and a tenth of the run have to show it.
---
--- ## References
--- https://arxiv.org/abs/1903.06733 (units that die)

local runs = require("runs")
local settings = require("settings")

--- The layers as a model has them: by their tensors where all of them have some, and else as they are logged.
---@param rows culprit.Table  one of each layer
---@return string[]
local function in_order(case, rows)
  local places, names, known = {}, {}, true
  for layer, own in case.tensors:where("role == 'weight' and layer is not null and order is not null"):group("layer") do
    places[layer] = own:min("order")
  end
  for row in rows:slice(0, 10000):rows() do
    names[#names + 1] = row.layer
    known = known and places[row.layer] ~= nil
  end
  if known then table.sort(names, function(a, b) return places[a] < places[b] end) end
  return names
end

--- The step from which on the first of some layers have no gradient, and the layers that have none from there on; nil
--- where one of the first ones has a gradient at the last step. What is not a number is none of nothing.
---@param grads culprit.Table  by layer
---@param order string[]       the layers
---@param front integer        how many of them have to be silent
---@return number? step, string[]? silent
local function silence(grads, order, front)
  local steps, zero, last = grads:distinct("step"):sort("step"), {}, {}
  for layer in grads:where { step = steps:last().step }:where("value == 0"):group("layer") do zero[layer] = true end
  for i = 1, front do
    if not zero[order[i]] then return nil end
  end
  for layer, rows in grads:where("value != 0 or not finite(value)"):group("layer") do last[layer] = rows:max("step") end
  local ended
  for i = 1, front do
    -- A layer that never had a gradient is frozen, or cut off.
    if not last[order[i]] then return nil end
    ended = math.max(ended or last[order[i]], last[order[i]])
  end
  local from, silent = steps:where("step > ?", ended):first().step, {}
  for _, layer in ipairs(order) do
    if zero[layer] and (not last[layer] or last[layer] < from) then silent[#silent + 1] = layer end
  end
  return from, silent
end

--- The first of three steps at which all of some layers have a gradient.
local function all_alive(grads, steps, layers)
  for row in steps:slice(0, 3):rows() do
    local alive = grads:where { step = row.step, layer = layers }:where("value > 0"):distinct("layer")
    if alive:count() == #layers then return row.step end
  end
end

--- The layer whose largest output has grown most from the first steps to those from `step` on.
---@return table?  layer, was, is: rows, factor
local function grown(case, step)
  local tops = case.scalars:where { metric = "activation_max", primary = true }:where("layer is not null and "
    .. "finite(value) and value > 0")
  local most
  for layer, rows in tops:group("layer") do
    local before, after = rows:where("step < ?", step):sort("step"):first(), rows:where("step >= ?", step)
    if before and after:count() > 0 then
      local is = after:top(1, "value"):first()
      local factor = is.value / before.value
      if not most or factor > most.factor then most = { layer = layer, was = before, is = is, factor = factor } end
    end
  end
  return most
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The gradient ends in the middle of the run, in all but the last layers",
  needs    = { scalars = { "step", "value", "layer", metric = "grad_norm" } },
  symptoms = { "gradient-ends" },
  options  = {
    grown  = { default = 30., doc = "Largest output of a layer over that at first from which weights were thrown" },
    share  = { default = 0.5, doc = "Share of the layers, from the front, whose gradient has to end" },
    layers = { default = 4,   doc = "Layers below which nothing is judged" },
    rows   = { default = 3,   doc = "Logged steps to the end that have to show it" },
    part   = { default = 0.1, doc = "Part of the run that they have to span" },
    learned = { default = 0.05, doc = "Last over first loss up to which all was learned" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local all    = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null")
    -- What ends in NaN shows nothing any more.
    local finish = all:where("finite(value)"):max("step")
    local grads  = all:where("step <= ?", finish or 0)
    local steps  = grads:distinct("step"):sort("step")
    local layers = grads:distinct("layer")
    if layers:count() < opt.layers or steps:count() < opt.rows + 2 then
      return skip(("gradient norms of %d layers at %d steps"):format(opt.layers, opt.rows + 2))
    end
    local frozen = settings.on(case.config:where("match(key, '*freez*|*frozen*|*thaw*|*progressive*|"
      .. "*layerwise_train*')")):first()
    if frozen then return skip(("layers that are all trained to the end: %s is set"):format(frozen.key)) end

    local order = in_order(case, layers)
    local from, silent = silence(grads, order, math.ceil(opt.share * #order))
    if not from or #silent == #order then return end
    local span = steps:last().step - steps:first().step
    local before, after = steps:where("step < ?", from), steps:where("step >= ?", from)
    if before:count() < 2 or after:count() < opt.rows or steps:last().step - from < opt.part * span then return end
    local alive = all_alive(grads, before, silent)
    if not alive then return end

    local loss = runs.series(case, "loss"):where("finite(value)")
    if loss:count() > 0 and loss:last().value <= opt.learned * loss:first().value then return end
    local top = grown(case, from)
    if not top then return skip("the largest outputs of layers") end
    if top.factor < opt.grown then return end
    local last = silent[#silent]
    report {
      symptom  = "gradient-ends",
      score    = 0.9,
      at       = { run = run, step = from, layer = last },
      message  = ("from step %d to %s the gradient of %d of %d layers is exactly 0, %s the last of them, and was not "
        .. "at step %d; the largest output of %s comes from %.3g to %.3g"):format(math.floor(from),
        finish == all:max("step") and "the end" or ("step %d"):format(math.floor(finish)), #silent, #order, last,
        math.floor(alive), top.layer, top.was.value, top.is.value),
      evidence = { grads:where { layer = last }:where("step >= ?", before:last().step):slice(0, 3), top.was, top.is },
    }
  end),
}
