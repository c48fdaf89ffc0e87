--- ## What it detects
--- A gradient that ends in the middle of the run: from some step on it is exactly zero in all layers but the last ones,
--- where it was not before, and what the layers put out has become many times as large.
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
--- that says so is believed. Layers between those that have a gradient are cut off or unused, and not meant. Where
--- none has a gradient the loss has none, as with targets that are all left out. A model that ends at a loss of next to
--- nothing has learned all there was. Three rows and a tenth of the run have to show it.
---
--- ## References
--- https://arxiv.org/abs/1903.06733 (units that die)

local runs = require("runs")
local settings = require("settings")

--- The layers in the order of their first step, with gradient norms by step.
---@param case culprit.Case
---@return table[] layers  name, norms
---@return number[] steps
local function layers_of(case)
  local grads = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null and finite(value)")
  local by, order, steps, seen = {}, {}, {}, {}
  for row in grads:slice(0, 20000):rows() do
    local layer = by[row.layer]
    if not layer then
      layer = { name = row.layer, norms = {} }
      by[row.layer], order[#order + 1] = layer, layer
    end
    layer.norms[row.step] = row.value
    if not seen[row.step] then seen[row.step], steps[#steps + 1] = true, row.step end
  end
  table.sort(steps)
  return order, steps
end

--- The layers without a gradient at a step, where all of the first `front` are among them and some others are not.
---@return table<table, boolean>?
---@return integer?  their number
local function silent_at(layers, step, front)
  local silent, count = {}, 0
  for i, layer in ipairs(layers) do
    if layer.norms[step] == 0 then
      silent[layer], count = true, count + 1
    elseif i <= front then
      return nil
    end
  end
  if count == #layers then return nil end
  return silent, count
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
    local layers, steps = layers_of(case)
    if #layers < opt.layers or #steps < opt.rows + 2 then
      return skip(("gradient norms of %d layers at %d steps"):format(opt.layers, opt.rows + 2))
    end
    local frozen = settings.on(case.config:where("match(key, '*freez*|*frozen*|*thaw*|*progressive*|"
      .. "*layerwise_train*')")):first()
    if frozen then return skip(("layers that are all trained to the end: %s is set"):format(frozen.key)) end

    -- Back from the end, while all of the first half and more are silent.
    local from, silent, count
    for i = #steps, 1, -1 do
      local here, of = silent_at(layers, steps[i], math.ceil(opt.share * #layers))
      if not here then break end
      from = i
      if not count or of < count then silent, count = here, of end
    end
    local span = steps[#steps] - steps[1]
    if not from or from < 3 or #steps - from + 1 < opt.rows or steps[#steps] - steps[from] < opt.part * span then
      return
    end
    local last
    for _, layer in ipairs(layers) do
      if silent[layer] then
        last = layer
        if (layer.norms[steps[1]] or 0) == 0 and (layer.norms[steps[2]] or 0) == 0 then return end
      end
    end

    local loss = runs.series(case, "loss"):where("finite(value)")
    if loss:count() > 0 and loss:last().value <= opt.learned * loss:first().value then return end
    local top = grown(case, steps[from])
    if not top then return skip("the largest outputs of layers") end
    if top.factor < opt.grown then return end
    report {
      symptom  = "gradient-ends",
      score    = 0.9,
      at       = { run = run, step = steps[from], layer = last.name },
      message  = ("from step %d to the end the gradient of %d of %d layers is exactly 0, of all in front and up to %s, "
        .. "and was not at step %d; the largest output of %s comes from %.3g to %.3g"):format(math.floor(steps[from]),
        count, #layers, last.name, math.floor(steps[1]), top.layer, top.was.value, top.is.value),
      evidence = { case.scalars:where { metric = "grad_norm", primary = true, layer = last.name }
        :where("step >= ?", steps[from - 1]):slice(0, 3), top.was, top.is },
    }
  end),
}
