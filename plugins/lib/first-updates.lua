--- What the first updates of a fresh model tell of its weights, where no weights are dumped: |update| and
--- |update| / |weight| give the size of a weight's elements, and gradients that reach one more layer at each step come
--- through weights of zero.

local statistics = require("statistics")

local first_updates = {}

--- Layers that get no gradient at first and one later on, because all that is downstream of them starts at zero. An
--- output layer (or the last one of a residual branch) that starts at zero on purpose hides the others for one step; so
--- they have to be without a gradient at the next step too, or to hold elements that weight decay does not move,
--- although it moves the layer: those are zero.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step, 0 or 1
---@return table?  message, layer, evidence; nil: not so
---@return boolean  whether it could be told
function first_updates.zero(layered, step)
  local grads  = layered:where { metric = "grad_norm", step = step }
  local second = layered:where { metric = "grad_norm", step = step + 1 }
  local silent, unmoved, example = {}, 0, nil
  local later, now = layered:where { metric = "grad_norm" }:where("step > ?", step), layered:where { step = step }
  for row in grads:where("value == 0"):slice(0, 5000):rows() do
    local rest = later:where { layer = row.layer }
    if rest:count() >= 2 and rest:max("value") > 0 then
      silent[#silent + 1] = row.layer
      local same  = now:where { metric = "unchanged_share", layer = row.layer }:first()
      local ratio = now:where { metric = "update_ratio", layer = row.layer }:first()
      -- Above what is lost in the rounding of fp32.
      if same and ratio and same.value > 0.5 and same.value < 1 and ratio.value > 1e-6 then
        unmoved = unmoved + 1
        example = example or same
      end
    end
  end
  if #silent == 0 then return nil, grads:count() > 0 end
  local still = second:where { layer = silent }:where("value == 0"):count()
  if second:count() == 0 and unmoved == 0 then return nil, false end
  if #silent < 2 or #silent < 0.5 * grads:count() or grads:max("value") == 0
    or math.max(still, unmoved) < 0.5 * #silent then
    return nil, true
  end
  return {
    layer    = silent[1],
    message  = ("at step %d the gradient is exactly 0 in %d of %d layers (%s) and later it is not%s%s: the weights "
      .. "downstream of them start at zero"):format(step, #silent, grads:count(),
      table.concat(silent, ", ", 1, math.min(4, #silent)),
      still > 0 and ("; at step %d it still is in %d"):format(step + 1, still) or "",
      unmoved > 0 and ("; weight decay leaves %s of the elements of %s as they are"):format(
        units.percent(example.value), example.layer) or ""),
    evidence = { grads:where { layer = silent }:slice(0, 5), example or grads:top(1, "value") },
  }, true
end

--- Matrices whose elements are too large for any fan-in k, which asks for 1/sqrt(k) (He: sqrt(2/k)); or, less surely,
--- too large in the median layer if it were square, where the layers' outputs are large as well. Embeddings are left
--- out by name: they begin at 1 by default.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@param options table          size, factor, outputs
---@return table?  message, layer, evidence, score; nil: not so
---@return boolean  whether it could be told
function first_updates.large(layered, step, options)
  local now = layered:where { step = step }
  local sizes, factors, largest = {}, {}, nil
  local updates = now:where { metric = "update_rms" }
    :join(now:where { metric = "update_ratio" }:select("layer", "value"), { "layer" })
    :where("value > 0 and value_right > 0")
    :where("not match(layer, '*emb*|*wte*|*wpe*|*norm*|*ln_*|*bn*|*token*|*table*|*codebook*')")
  for row in updates:slice(0, 5000):rows() do
    local norm  = now:where { metric = "weight_norm", layer = row.layer }:first()
    local size  = row.value / row.value_right
    local count = norm and (norm.value / size) ^ 2
    -- A scale or a temperature is no matrix.
    if count and count >= 64 then
      sizes[#sizes + 1], factors[#factors + 1] = size, size * count ^ 0.25
      if not largest or size > largest.size then
        largest = { size = size, count = count, layer = row.layer, row = row, norm = norm }
      end
    end
  end
  if not largest then return nil, false end
  local usual, factor = statistics.median(sizes), statistics.median(factors)
  if largest.size > options.size then
    return {
      layer    = largest.layer,
      score    = usual > options.size and 0.95 or 0.85,
      message  = ("the weights of %s, about %s of them, start at a root mean square of %.3g, those of %s at %.3g in "
        .. "the median: no number of inputs asks for more than 1"):format(largest.layer,
        units.count(math.floor(largest.count)), largest.size, units.plural(#sizes, "layer"), usual),
      evidence = { largest.row, largest.norm },
    }, true
  end
  local put = now:where { metric = "activation_rms" }
    :where("value > 0 and not match(layer, '*norm*|*ln_*|*bn*|*act*|*scores*|*probs*')")
  local out = put:count() >= 2 and put:median("value") or 0
  if #sizes >= 3 and factor > options.factor and out > options.outputs then
    return {
      layer    = largest.layer,
      score    = 0.85,
      message  = ("square matrices of as many and as large elements would multiply a signal by %.3g in the median of "
        .. "%d layers, which put out %.3g at step %d; the weights of %s start at %.3g"):format(factor, #sizes, out,
        step, largest.layer, largest.size),
      evidence = { largest.row, largest.norm, put:slice(0, 5) },
    }, true
  end
  return nil, true
end

--- The same of all weights together, where layers are not on record. Adam's first update is the rate in each element
--- that has a gradient, whatever the gradient is, so |update| / |weight| gives the root mean square of the weights.
---@param case culprit.Case
---@param size number  what no number of inputs asks for
---@return table?  message, evidence, step; nil: not so
---@return boolean  whether it could be told
function first_updates.all_large(case, size)
  local adam = case.config:where("match(key, '*optim*') and match(value, '*adam*|*Adam*')"):count() > 0
  local total = case.scalars:where { metric = "update_ratio", primary = true }
    :where("layer is null and finite(value)"):sort("step"):first()
  local rate = total and case.scalars:where { name = "lr", primary = true, step = total.step }:first()
  if not adam or not total or total.step > 1 or total.value <= 0 or not rate or rate.value <= 0 then
    return nil, false
  end
  local same  = case.scalars:where { metric = "unchanged_share", primary = true, step = total.step }
    :where("layer is null"):first()
  local share = same and same.value or 0
  local found = rate.value * math.sqrt(math.max(0, 1 - share)) / total.value
  if found <= size then return nil, true end
  return {
    step     = total.step,
    message  = ("Adam's first update at a rate of %.3g is %.2g of the weights, whose root mean square is about %.3g "
      .. "then: no number of inputs asks for more than 1"):format(rate.value, total.value, found),
    evidence = { total, rate },
  }, true
end

return first_updates
