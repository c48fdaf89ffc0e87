--- What the first updates of a fresh model tell of its weights, where no weights are dumped: |update| and
--- |update| / |weight| give the size of a weight's elements, and gradients that reach one more layer at each step come
--- through weights of zero.

local optimizers = require("optimizers")
local settings = require("settings")
local statistics = require("statistics")

local first_updates = {}

--- Layers that get no gradient at first and one later on, because all that is downstream of them starts at zero. An
--- output layer (or the last one of a residual branch) that starts at zero on purpose hides the others for one step; so
--- they have to be without a gradient at the next step too, or to hold elements that weight decay does not move,
--- although it moves the layer: those are zero. Branches that begin behind gates of zero (adaLN-Zero), or end in a map
--- of zeros (the U-Nets of diffusion), get no gradient for two steps either; there a layer before them has one at the
--- second, by the shortcut that they leave open. Without one gradients come from the end, layer by layer.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step, 0 or 1
---@return table?  message, layer, evidence; nil: not so
---@return boolean  whether it could be told
function first_updates.zero(layered, step)
  -- An activation that puts out nothing but zeros lets no gradient through either, whatever the weights are: the first
  -- output that is all zeros is of a module that has no weights, nor has one it is part of, but for those whose parts
  -- are logged.
  local outputs = layered:where { metric = "zero_share", step = step }:sort("place")
  local mute = outputs:where("value == 1"):first()
  if mute and outputs:first().value < 1 then
    local own, weighed = false, layered:where("match(metric, 'weight_norm|grad_norm|update_ratio')"):distinct("layer")
    for row in weighed:slice(0, 5000):rows() do
      local part = row.layer == mute.layer or mute.layer:starts_with(row.layer .. ".")
      own = own or part and weighed:where("match(layer, ?)", row.layer .. ".*"):count() == 0
    end
    if not own then return nil, false end
  end
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
  local next_one, reached = {}, false
  for layer, own in second:where { layer = silent }:group("layer") do next_one[layer] = own:first().value end
  for _, layer in ipairs(silent) do
    if next_one[layer] and next_one[layer] > 0 then
      reached = true
    elseif next_one[layer] and reached then
      still = 0
      break
    end
  end
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

--- Zeros at both ends: the first layer that takes the input, or an embedding, and the output layer begin at zero.
--- Either alone is sound, since the other end's numbers give it a gradient; of both, each waits for the other: nothing
--- of the input comes out, and no gradient comes in. Tables of positions and class tokens begin at zero by custom.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@return table?  message, layer, evidence; nil: not so
---@return boolean  whether it could be told
function first_updates.ends(layered, step)
  local norms = layered:where { metric = "weight_norm", step = step }
    :where("not match(layer, '*pos|*pos.*|*pos_*|*position*|*wpe*|*cls*|*class*|*lora*|*adapter*|*norm*|*ln_*|*bn*')")
  local first, last, only = nil, nil, 0
  for row in norms:slice(0, 5000):rows() do
    first, last, only = first or row, row, only + 1
  end
  local output = norms:where("match(layer, '*head|*lm_head|*output*|*out|*classifier|fc|*.fc|*logits*')"):last() or last
  if only < 3 then return nil, false end
  local input = first.value == 0 and first
    or norms:where("match(layer, '*embed*|*wte*|*emb.*|*.emb|emb') and value == 0"):first()
  if not input or output.value ~= 0 or output.layer == input.layer then return nil, true end
  local grad = layered:where { metric = "grad_norm", step = step, layer = input.layer }:first()
  if grad and grad.value > 0 then return nil, true end
  return {
    layer    = input.layer,
    message  = ("the weights of %s and of %s are zero at step %d: nothing of the input reaches the output, and no "
      .. "gradient comes back"):format(input.layer, output.layer, step),
    evidence = { input, output, grad or input },
  }, true
end

--- Whether the largest weights are the bias of the output layer alone, set to the mean of the targets, as is good
--- practice where these lie far from zero: the last layer, the only one that is large, gives the same number for
--- everything, and that number over the root of its units is its norm.
---@param now culprit.Table  scalars of the first step
---@param largest table
---@param all table[]        in forward order
---@param size number        what no number of inputs asks for
---@return boolean
function first_updates.answers(now, largest, all, size)
  if largest ~= all[#all] then return false end
  for _, one in ipairs(all) do
    if one ~= largest and one.size > size then return false end
  end
  local own  = now:where { layer = largest.layer }
  local mean = own:where { metric = "activation_mean" }:first()
  local rms  = own:where { metric = "activation_rms" }:first()
  if not mean or not rms or rms.value <= 0 or math.abs(mean.value) < 0.99 * rms.value then return false end
  local units = (largest.norm.value / mean.value) ^ 2
  return math.abs(units - math.max(1, math.floor(units + 0.5))) <= 0.05 * units
end

--- Whether what a layer puts out shows that it is not made by weights of this size: they are divided by something on
--- their way, as where the rate is made the same for all of them, or are behind no inputs, as rates of decay, scales
--- and centres are. Weights of size s make of one input of size 1 an output of size s, and of more inputs a larger one.
---@param now culprit.Table  scalars of the first step
---@param layer string
---@param size number        root mean square of its elements
---@return boolean
local function divided(now, layer, size)
  local put = now:where { metric = "activation_rms", layer = layer }:first()
  -- What ends in a sigmoid or a tanh cannot be larger than 1, and is there where its weights are large.
  local top = now:where { metric = "activation_max", layer = layer }:first()
  if not top or top.value >= 0.9 and top.value <= 1.01 then return false end
  -- What ends in a norm gives exactly 1, whatever its weights are.
  return put ~= nil and put.value > 0 and put.value < 0.3 * size and math.abs(put.value - 1) > 0.005
end

--- Whether what a layer puts out is nearly the same for all of its inputs and units: then biases make it, as those of a
--- unit that is to be closed or silent at first, and they may make the layer's norm. What large weights put out is on
--- both sides of zero.
---@param now culprit.Table  scalars of the first step
---@param layer string
---@return boolean
local function of_biases(now, layer)
  local mean = now:where { metric = "activation_mean", layer = layer }:first()
  local rms  = now:where { metric = "activation_rms", layer = layer }:first()
  return mean ~= nil and rms ~= nil and rms.value > 0 and math.abs(mean.value) > 0.8 * rms.value
end

--- What a dump says of layers with a matrix, by what goes in and comes out of them: `table` where as many numbers come
--- out as the matrix has columns, and not as many as it has rows, or integers go in: its rows are looked up. `scaled`
--- where far less comes out than weights of this size make of what goes in, root of the inputs * size * input: they are
--- multiplied by a small number when they are used (equalised rates, NTK parametrisation).
---@param case culprit.Case
---@return fun(layer: string): string?
function first_updates.kinds(case)
  local kinds = {}
  local early = case.tensors:where("step is null or step <= 1")
  for weight in early:where("role == 'weight' and rms > 0 and not match(name, '*kernel*')"):slice(0, 2000):rows() do
    local shape = weight.shape or {}
    if #shape == 2 then
      local beside = early:where { layer = weight.layer }
      local taken  = beside:where("role == 'input'"):first()
      local put    = beside:where("role == 'output'"):first()
      local back   = put or beside:where("match(name, '*.grad_output')"):first()
      local width  = back and back.shape and back.shape[#back.shape]
      -- Few outputs may be small by chance: less is asked of them, and many rows that have them.
      local few    = shape[1] < 8
      if shape[1] > 1
        and (taken and taken.dtype:glob("int*|uint*|long") or width == shape[2] and width ~= shape[1]) then
        kinds[weight.layer] = "table"
      elseif taken and put and taken.rms and put.rms and taken.shape and taken.shape[#taken.shape] == shape[2]
        and (not few or put.numel >= 32)
        and put.rms < (few and 0.2 or 0.4) * weight.rms * math.sqrt(shape[2]) * taken.rms then
        kinds[weight.layer] = "scaled"
      end
    end
  end
  return function(layer)
    -- Checkpoints name what the model is wrapped in, too.
    local parts = layer:split(".")
    for first = 1, math.min(3, #parts) do
      local kind = kinds[table.concat(parts, ".", first)]
      if kind then return kind end
    end
  end
end

--- A setting by which weights are scaled when they are used, so that their own size says nothing: of the design, or a
--- multiplier of what it multiplies to about 1.
---@param case culprit.Case
---@param size number  root mean square of the weights
---@return culprit.Row?
function first_updates.parametrized(case, size)
  local named = settings.on(case.config:where("match(key, '*equalised*|*equalized*|*ntk*') or "
    .. "match(value, '*ntk*|*NTK*|*equalised*|*equalized*')")):first()
  if named then return named end
  for row in case.config:where("match(key, '*lr_mul*|*multiplier*') and number > 0 and number < 1"):slice(0, 20)
    :rows() do
    if size * row.number > 0.8 and size * row.number < 1.25 then return row end
  end
end

--- Matrices whose elements are too large for any fan-in k, which asks for 1/sqrt(k) (He: sqrt(2/k)); or, less surely,
--- too large in the median layer if it were square, where the layers' outputs are large as well. Embeddings are left
--- out by name: they begin at 1 by default.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@param options table          size, factor, outputs
---@param kind fun(layer: string): string?  what first_updates.kinds gives
---@return table?  message, layer, evidence, score; nil: not so
---@return boolean  whether it could be told
---@return boolean? whether the layers are drawn at 1 whatever their inputs, and scaled where they are used
function first_updates.large(layered, step, options, kind)
  local now = layered:where { step = step }
  local sizes, factors, largest, all = {}, {}, nil, {}
  -- Where modules' outputs are on record, what has none is a parameter that no module takes inputs by: frequencies,
  -- centres, rates.
  local outputs = now:where { metric = "activation_rms" }:count() > 0
  local updates = now:where { metric = "update_rms" }
    :join(now:where { metric = "update_ratio" }:select("layer", "value"), { "layer" })
    :where("value > 0 and value_right > 0")
    :where("not match(layer, '*emb*|*wte*|*wpe*|*norm*|*ln_*|*bn*|*token*|*table*|*codebook*')")
  for row in updates:slice(0, 5000):rows() do
    local norm  = now:where { metric = "weight_norm", layer = row.layer }:first()
    local size  = row.value / row.value_right
    local count = norm and (norm.value / size) ^ 2
    -- Large random weights leave half of the units above zero. Where all are at zero, the size is that of the bias.
    local zeros = now:where { metric = "zero_share", layer = row.layer }:first()
    -- A scale or a temperature is no matrix.
    local alone = outputs and now:where { metric = "activation_rms", layer = row.layer }:count() == 0
    if count and count >= 64 and not alone and not kind(row.layer) and not (zeros and zeros.value >= 0.9)
      and not (size > options.size and (divided(now, row.layer, size) or of_biases(now, row.layer))) then
      sizes[#sizes + 1], factors[#factors + 1] = size, size * count ^ 0.25
      local one = { size = size, count = count, layer = row.layer, row = row, norm = norm,
        factor = size * count ^ 0.25 }
      all[#all + 1] = one
      if not largest or size > largest.size then largest = one end
    end
  end
  if not largest then
    -- Where the layers scale their weights, all of them together say nothing either.
    local scaled = false
    for row in updates:slice(0, 5000):rows() do scaled = scaled or kind(row.layer) == "scaled" end
    return nil, scaled
  end
  if first_updates.answers(now, largest, all, options.size) then
    return nil, true
  end
  local usual, factor = statistics.median(sizes), statistics.median(factors)
  --- The first layer in forward order of those that are over a limit in `measure`, and what to say of the others.
  local function first_over(limit, measure)
    local first, over = nil, 0
    for _, one in ipairs(all) do
      if one[measure] > limit then first, over = first or one, over + 1 end
    end
    first = first or largest
    if over < 2 then return first, "" end
    return first, ("; it is the first of %d layers that are so%s"):format(over, first == largest and ", and the largest"
      or (", the largest are those of %s at %.3g"):format(largest.layer, largest.size))
  end
  -- Of most layers, and not of a lone one: that may be large for what it takes in, as small features, or for what it
  -- feeds, as a sine.
  local over = 0
  for _, own in ipairs(sizes) do
    if own > options.size then over = over + 1 end
  end
  if 2 * over > #sizes and over >= 2 then
    local first, others = first_over(options.size, "size")
    return {
      layer    = first.layer,
      score    = 0.95,
      message  = ("the weights of %s, about %s of them, start at a root mean square of %.3g, those of %s at %.3g in "
        .. "the median: no number of inputs of usual size asks for more than 1%s"):format(first.layer,
        units.count(math.floor(first.count)), first.size, units.plural(#sizes, "layer"), usual, others),
      evidence = first == largest and { first.row, first.norm } or { first.row, first.norm, largest.row, largest.norm },
    }, true
  end
  local put = now:where { metric = "activation_rms" }
    :where("value > 0 and not match(layer, '*norm*|*ln_*|*bn*|*act*|*scores*|*probs*')")
    -- What ends in a norm gives exactly 1, whatever its weights are.
    :where("value < 0.995 or value > 1.005")
  local out = put:count() >= 2 and put:median("value") or 0
  -- Where norms bring each block back to 1, what the layers themselves put out.
  local own = {}
  for row in put:slice(0, 5000):rows() do
    local inner = now:where("match(layer, ?)", row.layer .. ".*"):count() > 0
    local weighed = now:where { metric = "weight_norm", layer = row.layer }:count() > 0
    if weighed and not inner then own[#own + 1] = row.value end
  end
  if #own >= 3 then out = math.max(out, statistics.median(own)) end
  -- Drawn at 1 in every layer, of one number of inputs as of another, and less comes out than that makes of inputs of
  -- 1: what e3nn and StyleGAN divide on the way.
  local at_one, least, most = 0, math.huge, 0
  for _, one in ipairs(all) do
    -- With a multiplier of the rate of .1 or .01 at 10 or 100.
    local tens = math.log(one.size, 10)
    if math.abs(tens - math.floor(tens + 0.5)) <= 0.05 and tens > -0.5 then
      at_one, least, most = at_one + 1, math.min(least, one.count), math.max(most, one.count)
    end
  end
  if at_one >= 4 and at_one >= 0.8 * #sizes and most >= 4 * least and out < factor then return nil, false, true end
  if #sizes >= 3 and factor > options.factor and out > options.outputs then
    local first, others = first_over(options.factor, "factor")
    return {
      layer    = first.layer,
      score    = 0.85,
      message  = ("square matrices of as many and as large elements would multiply a signal by %.3g in the median of "
        .. "%d layers, which put out %.3g at step %d; the weights of %s start at %.3g%s"):format(factor, #sizes, out,
        step, first.layer, first.size, others),
      evidence = { first.row, first.norm, put:slice(0, 5) },
    }, true
  end
  return nil, true
end

--- Outputs of the fresh model that are far too large, and were not so where they came in: what each layer puts out is
--- many times what goes in. Healthy fresh models put out a few at most, whatever their depth.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@param options table          swollen, swells
---@return table?  message, layer, evidence; nil: not so
function first_updates.swelling(layered, step, options)
  local least, most, begun
  local outputs = layered:where { metric = "activation_rms", step = step }:where("value > 0")
    :where("not match(layer, '*norm*|*ln_*|*bn*|*scores*|*probs*|*embed*')"):sort("place")
  for row in outputs:slice(0, 5000):rows() do
    if not least or row.value < least.value then least = row end
    if row.value >= options.swells * least.value and row.value >= options.swollen then
      begun = begun or row
      if not most or row.value > most.value then most = row end
    end
  end
  if not most or least.value > options.swollen / 2 then return nil end
  return {
    layer    = begun.layer,
    message  = ("the untrained model's outputs swell from %.3g (%s) to %.3g (%s) at step %d: each layer multiplies "
      .. "what it takes in"):format(least.value, least.layer, most.value, most.layer, step),
    evidence = { least, most },
  }
end

--- The number of parameters that a log prints before training, as "parameters: 31,722", "number of parameters: 0.04M"
--- or "64 K Trainable params"; the largest, since the others are parts.
---@param case culprit.Case
---@return number? count, culprit.Row? line
local function parameters(case)
  local units_of = { k = 1e3, m = 1e6, b = 1e9, g = 1e9 }
  local most, from
  local lines = case.log_lines:where("line <= 5000 and match(text, '*arameters:*|*arameters =*|*rainable params*')")
  for row in lines:slice(0, 20):rows() do
    local text = row.text:lower():replace(",", "")
    local behind = text:split("arameters:")[2] or text:split("arameters =")[2]
    local number, unit
    if behind then
      number, unit = behind:numbers()[1], nil
      for _, word in ipairs(behind:trim():split(" ")) do
        local last = word:sub(-1)
        if units_of[last] and #word:numbers() == 1 or units_of[word] then unit = last end
        if unit or #word:numbers() == 0 then break end
      end
    else
      local words = text:split("trainable params")[1]:trim():split(" ")
      unit = units_of[words[#words]] and words[#words]
      number = (words[unit and #words - 1 or #words] or ""):numbers()[1]
    end
    local count = number and number * (unit and units_of[unit] or 1)
    if count and count >= 1000 and (not most or count > most) then most, from = count, row end
  end
  return most, from
end

-- Logarithms of a width, by name: -5 is a small one.
local LOGARITHMS = "rho|*_rho|log_s*|*_log_s*|log_v*|*_log_v*|*logvar*|*logstd*|*logsigma*|*lnvar*"

--- What is left of the squares of all weights without those that stand for hertz or other units: of the last
--- checkpoint, the share without vectors that have nine tenths of the squares in a twentieth of the elements, as the
--- edges of filters have, and without logarithms; 1 where there are none.
---@param case culprit.Case
---@return number
local function without_units(case)
  local weights = case.tensors:where("(role == 'weight' or role == 'value') and variant is null and nonfinite == 0 "
    .. "and match(dtype, '*float*') and l2 is not null and step is not null")
    :where("not match(name, '*running_*|batch.*')")
  weights = weights:where { step = weights:max("step") or -1 }
  local all, elements, units_alone, of_units, logarithms = 0, 0, 0, 0, 0
  for row in weights:slice(0, 5000):rows() do
    local wide = 0
    for _, size in ipairs(row.shape or {}) do wide = wide + (size > 1 and 1 or 0) end
    all, elements = all + row.l2 ^ 2, elements + row.numel
    local parts = row.name:lower():split(".")
    if parts[#parts]:glob(LOGARITHMS) then
      logarithms = logarithms + row.l2 ^ 2
    elseif wide <= 1 and row.l2 ^ 2 > 100 * row.numel then
      units_alone, of_units = units_alone + row.l2 ^ 2, of_units + row.numel
    end
  end
  if units_alone < 0.9 * (all - logarithms) or of_units > 0.05 * elements then units_alone = 0 end
  return all > 0 and math.max(0, 1 - (units_alone + logarithms) / all) or 1
end

--- All weights together: their first norm over the root of their number, which is their root mean square. Where
--- adapters are trained the printed number may be theirs and the norm that of all.
---@param case culprit.Case
---@param size number
---@return table? found, boolean told
local function norm_large(case, size)
  local norm = case.scalars:where { metric = "weight_norm", primary = true }
    :where("layer is null and finite(value)"):sort("step"):first()
  local count, line = parameters(case)
  if not norm or norm.step > 1 or not count
    or case.config:where("match(key, '*lora*|*peft*|*adapter*')"):count() > 0 then
    return nil, false
  end
  local found = norm.value / math.sqrt(count)
  if found <= size or found * math.sqrt(without_units(case)) <= size then return nil, true end
  return {
    step     = norm.step,
    message  = ("the norm of all weights is %.4g at step %d, of %s parameters: a root mean square of %.3g, and no "
      .. "number of inputs asks for more than 1"):format(norm.value, norm.step, units.count(math.floor(count)), found),
    evidence = { norm, line },
  }, true
end

--- The same of all weights together, where layers are not on record. Adam's first update is the rate in each element
--- that has a gradient, whatever the gradient is, so |update| / |weight| gives the root mean square of the weights; the
--- logged norm over the root of a logged number of parameters gives it for any optimizer.
---@param case culprit.Case
---@param size number  what no number of inputs asks for
---@return table?  message, evidence, step; nil: not so
---@return boolean  whether it could be told
function first_updates.all_large(case, size)
  local big, told = norm_large(case, size)
  if told then return big, true end
  local by_design = first_updates.parametrized(case, size)
  if by_design and not by_design.key:lower():glob("*mul*") then return nil, true end
  -- A large epsilon makes the update shorter than the rate.
  local adam = optimizers.adam(case)
    and case.config:where("match(key, 'eps|*.eps|*_eps|*epsilon') and not match(key, '*norm*') and number > 1e-6")
      :count() == 0
  local total = case.scalars:where { metric = "update_ratio", primary = true }
    :where("layer is null and finite(value)"):sort("step"):first()
  -- A table of epochs beside one of steps has another rate under the same number.
  local rates = total and case.scalars:where { name = "lr", step = total.step }:where("finite(value)")
  local rate  = rates and rates:distinct("value"):count() == 1 and rates:first() or nil
  if not adam or not total or total.step > 1 or total.value <= 0 or not rate or rate.value <= 0 then
    return nil, false
  end
  local same  = case.scalars:where { metric = "unchanged_share", primary = true, step = total.step }
    :where("layer is null"):first()
  local share = same and same.value or 0
  local found = rate.value * math.sqrt(math.max(0, 1 - share)) / total.value
  if found <= size or found * math.sqrt(without_units(case)) <= size then return nil, true end
  return {
    step     = total.step,
    message  = ("Adam's first update at a rate of %.3g is %.2g of the weights, whose root mean square is about %.3g "
      .. "then: no number of inputs asks for more than 1"):format(rate.value, total.value, found),
    evidence = { total, rate },
  }, true
end

return first_updates
