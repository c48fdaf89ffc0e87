--- ## What it detects
--- By a checkpoint alone: hidden layers whose biases keep nearly all units off, whatever comes in, and hidden layers in
--- front of a sigmoid or tanh whose weights are so much larger than those of the other layers that its units sit at
--- their limits.
---
--- ## Why it matters
--- What a norm or a usual activation hands on has a size of about 1 in each element, so that a unit of weights w has a
--- spread of |w| about its bias b. Where b / |w| is -2.5 a rectifier gives something for one input in 160, and where it
--- is -5 for none. A sigmoid within a hundredth of its limits lies 4.6 beyond its middle, a tanh 2.6: where |w| is 12
--- and 7, seven inputs of ten are there, and hardly a gradient goes through. No statistics of layers are needed.
---
--- ## How to confirm
--- Count the outputs of the activation behind the layer for one batch: zeros for the first, values at the limits for
--- the second.
---
--- ## Known false positives
--- Inputs of another size than 1, as features that nobody scaled, or of one sign, behind a rectifier: more than one
--- unit in twenty has then another bias. What no activation follows is left out: by name queries, keys, values, outputs
--- of blocks, gates, steps of state spaces and heads, of which rare classes have biases far below zero; and whatever no
--- other matrix takes in. Where the config names no activation with limits, large weights saturate nothing that is
--- known. Weights that decay took to next to nothing are small beside any bias. Gains and shifts of norms are not
--- judged, though an activation may follow them.
---
--- ## References
--- https://arxiv.org/abs/1903.06733, https://proceedings.mlr.press/v9/glorot10a.html

local lists  = require("lists")
local places = require("places")
local runs   = require("runs")

--- Layers that no activation follows, or one that is meant to be at a limit.
local NO_UNITS = "*query*|*key*|*value*|*qkv*|*q_proj*|*k_proj*|*v_proj*|*o_proj*|*out_proj*|*c_attn*|*in_proj*|*to_q*|"
  .. "*to_k*|*to_v*|*.output.dense.*|*c_proj*|*.w_2.*|*.fc2.*|*down_proj*|*gate*|*highway*|*router*|*embed*|*wte*|"
  .. "*wpe*|*logit*|head.*|*.head.*|*_head.bias|*classifier*|fc.*|*.fc.bias|*cls*|*score*|*final*|*predict*|*_pred.*|"
  .. "*decoder.bias|*outputs*|*regression*|*expert*|*lora*|*_hh_*|*_ih_*|*_hh.*|*_ih.*|*lstm*|*gru*|*rnn*|"
  .. "*modulation*|*time*|*dt_*|*delta*|*ssm*"
--- Settings of the activation, and those activations that have limits on both sides, with the norm of a unit's weights
--- that takes seven inputs of ten within a hundredth of them.
local ACTIVATION = "*hidden_act|*activation|*activation_fn|*activation_function|*act_fn|*act_layer|*nonlinearity"
local LIMITED    = { { "*sigmoid*", "sigmoid" }, { "*tanh*|*softsign*", "tanh" } }
local UNLIMITED  = "*gelu*|*silu*|*swish*|*tanhshrink*|*logsigmoid*|*mish*|*swiglu*|*glu*"

--- The one of the limited activations that the config names.
---@return "sigmoid"|"tanh"|nil, culprit.Row?
local function limited(case)
  for row in case.config:where("match(key, ?) and value is not null and number is null", ACTIVATION):slice(0, 20)
    :rows() do
    local value = tostring(row.value):lower()
    for _, kind in ipairs(LIMITED) do
      if value:glob(kind[1]) and not value:glob(UNLIMITED) then return kind[2], row end
    end
  end
end

--- The axis of a matrix that has a place for each unit: the first, but for kernels of JAX and GPT-2's Conv1D.
local function axis_of(weight, units)
  local shape = weight.shape
  local last  = shape[#shape] == units
  if last and (shape[1] ~= units or weight.name:glob("*kernel*|*.c_fc.*")) then return #shape - 1 end
  return shape[1] == units and 0 or nil
end

--- Layers with a bias at one step: { layer, weight, bias, size, hidden }, where `size` is the norm of a unit's weights
--- in the mean square. Hidden is what bears no name of another kind and is taken in by another matrix.
---@param here culprit.Table
local function layers(here)
  local out, weights, taken = {}, {}, {}
  for row in here:where("match(name, '*weight|*kernel') and numel >= 8"):slice(0, 2000):rows() do
    weights[row.name] = row
    -- How many inputs a matrix has, by either order of its axes.
    local shape = row.shape or {}
    if #shape >= 2 then
      for _, size in ipairs { shape[1], shape[2], shape[#shape] } do taken[size] = (taken[size] or 0) + 1 end
    end
  end
  for bias in here:where("match(name, '*bias') and numel >= 8 and numel <= 20000"):slice(0, 2000):rows() do
    local stem   = bias.name:sub(1, #bias.name - #"bias")
    local weight = weights[stem .. "weight"] or weights[stem .. "kernel"]
    local units  = bias.shape and #bias.shape == 1 and bias.shape[1]
    local axis   = weight and units and #(weight.shape or {}) >= 2 and axis_of(weight, units)
    if axis then
      -- Its own matrix has that size once, a square one more than once.
      local own = 0
      for _, size in ipairs { weight.shape[1], weight.shape[2], weight.shape[#weight.shape] } do
        own = own + (size == units and 1 or 0)
      end
      out[#out + 1] = {
        layer  = bias.layer,
        weight = weight,
        bias   = bias,
        axis   = axis,
        size   = (weight.rms or 0) * math.sqrt(weight.numel / units),
        hidden = not bias.name:lower():glob(NO_UNITS) and taken[units] > own,
      }
    end
  end
  -- A file may have its names in the order of letters; what a decoder makes of its inputs comes last.
  local ordered = {}
  for _, last in ipairs { false, true } do
    for _, one in ipairs(out) do
      if one.layer:lower():glob("*decoder*") == last then ordered[#ordered + 1] = one end
    end
  end
  return ordered
end

--- The median bias in units of the spread of what a unit computes, where nearly all lie below `least`.
local function held_off(one, opt)
  local units  = math.floor(one.bias.numel)
  local scale  = math.sqrt(one.weight.numel / units)
  local sizes  = one.weight:along(one.axis, "rms")
  local ratios = {}
  for i, b in ipairs(one.bias:values(0, units)) do
    ratios[i] = sizes[i] and sizes[i] > 0 and b / (sizes[i] * scale) or 0
  end
  table.sort(ratios)
  local most, median = ratios[math.ceil(0.95 * #ratios)], ratios[(#ratios + 1) // 2]
  return most <= opt.least and median <= opt.off and median or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "By its weights, a layer's units are off or at their limits for nearly all inputs",
  needs    = { tensors = { "name", "role", "layer", "step", "data" } },
  symptoms = { "biases-hold-units-off", "unit-weights-large" },
  options  = {
    off     = { default = -2.0, doc = "Median bias, in units of the spread that weights give, of units that are off" },
    least   = { default = -1.3, doc = "What 95 % of the biases are below where all are" },
    sigmoid = { default = 12.0, doc = "Norm of a unit's weights from which a sigmoid is at its limits" },
    tanh    = { default = 7.0,  doc = "The same of a tanh" },
    apart   = { default = 5.0,  doc = "How many times the largest of the other layers that is at least" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local weights = case.tensors:where("role == 'weight' and step is not null and variant is null and nonfinite == 0 "
      .. "and not match(name, '*ema*|*teacher*|*target_network*')")
    local kind, named = limited(case)
    local steps = weights:distinct("step"):sort("step"):col("step"):values()
    local judged, off, large, clean = false, nil, nil, false
    for i, step in ipairs(steps) do
      -- The first seven and the last.
      local all = (i <= 7 or i == #steps) and layers(weights:where { step = step }) or {}
      local held, wide, most, hidden, median = {}, {}, nil, 0, nil
      for _, one in ipairs(all) do
        local below = one.hidden and held_off(one, opt)
        hidden = hidden + (one.hidden and 1 or 0)
        if below then
          held[#held + 1] = one
          median = median or below
        end
        if one.hidden and kind and one.size >= opt[kind] then
          wide[#wide + 1] = one
        else
          most = math.max(most or 0, one.size)
        end
      end
      local apart = #wide > 0 and most ~= nil
      for _, one in ipairs(wide) do apart = apart and one.size >= opt.apart * most end
      off   = off or #held > 0 and { step = step, layers = held, median = median, clean = clean } or nil
      large = large or apart and { step = step, layers = wide, most = most, clean = clean } or nil
      judged, clean = judged or hidden > 0, clean or hidden > 0
    end
    if not judged then return skip("a checkpoint with weights and biases of a hidden layer") end
    if not kind then skip("an activation with limits, named in a config", "unit-weights-large") end

    local function names(found)
      local out = {}
      for i, one in ipairs(found.layers) do out[i] = one.layer end
      return lists.first(out, 4)
    end
    if off then
      local first = off.layers[1]
      local step, since = places.start(case, off.step, off.clean)
      report {
        symptom  = "biases-hold-units-off",
        score    = #off.layers > 1 and 0.95 or 0.85,
        at       = { run = run, layer = first.layer, step = step },
        message  = ("nearly all biases of %s (%s) are below zero, by %.1f times what the weights spread inputs of size "
          .. "1 to in the median of %s: a rectifier behind them is off for nearly all of them, %s"):format(
          units.plural(#off.layers, "layer"), names(off), -off.median, first.layer, since),
        evidence = { first.bias, first.weight },
      }
    end
    if large then
      local first = large.layers[1]
      local step, since = places.start(case, large.step, large.clean)
      report {
        symptom  = "unit-weights-large",
        score    = 0.95,
        at       = { run = run, layer = first.layer, step = step },
        message  = ("the weights of a unit of %s (%s) have a norm of %.3g, those of other layers %.3g at most: inputs "
          .. "of size 1 come out as large, and from %g on seven in ten are at the limits of a %s, %s"):format(
          units.plural(#large.layers, "layer"), names(large), first.size, large.most, opt[kind], kind, since),
        evidence = { first.weight, named },
      }
    end
  end),
}
