--- ## What it detects
--- By a checkpoint alone: layers whose biases keep nearly all units off, whatever comes in, and layers in front of an
--- activation whose weights are so much larger than those of the other layers that its units sit at their limits.
---
--- ## Why it matters
--- What a norm or a usual activation hands on has a size of about 1 in each element, so that a unit of weights w has a
--- spread of |w| about its bias b. Where b / |w| is -2.5 a rectifier gives something for one input in 160, and where it
--- is -5 for none. A sigmoid within a hundredth of its limits lies 4.6 beyond its middle, a tanh 2.3: where |w| is
--- 30, nine inputs of ten are there, and no gradient goes through. No statistics of layers are needed for either.
---
--- ## How to confirm
--- Count the outputs of the activation behind the layer for one batch: zeros for the first, values at the limits for
--- the second.
---
--- ## Known false positives
--- Inputs of another size than 1, as features that nobody scaled, or of one sign, behind a rectifier: more than one
--- unit in twenty has then another bias. What no activation follows is left out by name: queries, keys, values,
--- outputs, gates and heads, of which rare classes have biases far below zero. Large weights of a rectifier saturate
--- nothing. Weights that decay took to next to nothing are small beside any bias. A norm's own gain and shift, right
--- before an activation as in convolutional networks, count as weight and bias where it has running statistics.
---
--- ## References
--- https://arxiv.org/abs/1903.06733, https://proceedings.mlr.press/v9/glorot10a.html

local lists  = require("lists")
local places = require("places")
local runs   = require("runs")

--- Layers that no activation follows, or one whose limits are wanted.
local NO_UNITS = "*query*|*key*|*value*|*qkv*|*q_proj*|*k_proj*|*v_proj*|*o_proj*|*out_proj*|*c_attn*|*in_proj*|*to_q*|"
  .. "*to_k*|*to_v*|*.output.dense|*.c_proj|*.w_2|*.fc2|*down_proj*|*gate*|*router*|*embed*|*wte*|*wpe*|*logit*|head|"
  .. "*.head|*_head|*lm_head|*classifier|*predictor|*_pred|*decoder|*outputs|*regression|*expert*|*lora*|"
  .. "*_hh_*|*_ih_*|*lstm*|*gru*|*rnn*|*modulation*|*time*"
--- Settings of an activation, and those activations that have limits.
local ACTIVATION, LIMITED = "*hidden_act*|*activation*|*act_fn*|*act_layer*|*nonlinearity*",
  "*sigmoid*|*tanh*|*softsign*|*hardtanh*"

--- The place of the outputs among a matrix's axes: kernels of JAX have them last.
local function outputs(weight) return weight.name:glob("*kernel*") and #weight.shape - 1 or 0 end

--- Weights and biases of the layers with units at one step: { layer, weight, bias, sizes, limits }, where `sizes` are
--- the norms of the units' weights.
---@param here culprit.Table
local function layers(here)
  local out, by_layer = {}, {}
  for row in here:where("match(name, '*weight|*kernel') and numel >= 8"):slice(0, 2000):rows() do
    by_layer[row.layer] = row
  end
  for bias in here:where("match(name, '*bias') and numel >= 8"):slice(0, 2000):rows() do
    local weight = by_layer[bias.layer]
    local shape  = weight and weight.shape or {}
    local units  = bias.shape and #bias.shape == 1 and bias.shape[1]
    if weight and units and #shape >= 1 and shape[outputs(weight) + 1] == units and units <= 20000 then
      local inputs  = weight.numel / units
      local shifted = #shape == 1 and here:where { layer = bias.layer }:where("match(name, '*running_mean')"):first()
      if #shape > 1 or shifted then
        local sizes = {}
        for i, rms in ipairs(weight:along(outputs(weight), "rms")) do
          sizes[i] = rms and rms * math.sqrt(inputs) or 0
        end
        out[#out + 1] = { layer = bias.layer, weight = weight, bias = bias, sizes = sizes, matrix = #shape > 1,
          size = (weight.rms or 0) * math.sqrt(inputs) }
      end
    end
  end
  -- A file may have its names in the order of letters; what a decoder makes of its inputs comes last.
  local ordered = {}
  for _, last in ipairs { false, true } do
    for _, one in ipairs(out) do
      if one.layer:glob("*decoder*") == last then ordered[#ordered + 1] = one end
    end
  end
  return ordered
end

--- The median bias in units of the spread of what a unit computes, where nearly all lie below `least`.
local function held_off(one, opt)
  local ratios = {}
  for i, b in ipairs(one.bias:values(0, #one.sizes)) do
    ratios[i] = one.sizes[i] > 0 and b / one.sizes[i] or 0
  end
  if #ratios == 0 then return nil end
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
    off   = { default = -2.0, doc = "Median bias, in units of the spread that weights give, of units that are off" },
    least = { default = -1.3, doc = "What 95 % of the biases are below where all are" },
    size  = { default = 5.0,  doc = "Norm of a unit's weights from which what it computes is beyond the limits" },
    apart = { default = 5.0,  doc = "How many times the largest of the other layers that is at least" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local weights = case.tensors:where("role == 'weight' and step is not null and variant is null and nonfinite == 0 "
      .. "and not match(name, '*ema*|*teacher*|*target_network*')")
    local judged, off, large = false, nil, nil
    local clean = { off = false, large = false }
    for _, step in ipairs(weights:distinct("step"):sort("step"):slice(0, 8):col("step"):values()) do
      local held, wide, others, median = {}, {}, {}, nil
      for _, one in ipairs(layers(weights:where { step = step })) do
        judged = true
        local hidden = not one.layer:lower():glob(NO_UNITS)
        local below  = hidden and held_off(one, opt)
        if below then
          held[#held + 1] = one
          median = median or below
        end
        if one.matrix and hidden and one.size >= opt.size then
          wide[#wide + 1] = one
        elseif one.matrix then
          others[#others + 1] = one.size
        end
      end
      table.sort(others)
      local apart = #wide > 0 and #others >= 1
      for _, one in ipairs(wide) do apart = apart and one.size >= opt.apart * others[#others] end
      off   = off or #held > 0 and { step = step, layers = held, median = median } or nil
      large = large or apart and { step = step, layers = wide, most = others[#others] } or nil
      clean.off, clean.large = clean.off or not off, clean.large or not large
    end
    if not judged then return skip("a checkpoint with the weights and biases of a layer, in fp32") end

    local function names(found)
      local out = {}
      for i, one in ipairs(found.layers) do out[i] = one.layer end
      return lists.first(out, 4)
    end
    if off then
      local first = off.layers[1]
      local step, since = places.start(case, off.step, clean.off)
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
      local act   = case.config:where("match(key, ?) and value is not null", ACTIVATION):first()
      local named = act and tostring(act.value):lower()
      local step, since = places.start(case, large.step, clean.large)
      report {
        symptom  = "unit-weights-large",
        score    = named and (named:glob(LIMITED) and 0.95 or 0.6) or 0.8,
        at       = { run = run, layer = first.layer, step = step },
        message  = ("the weights of a unit of %s (%s) have a norm of %.3g, those of other layers %.3g at most: inputs "
          .. "of size 1 come out as large%s, %s"):format(units.plural(#large.layers, "layer"), names(large), first.size,
          large.most, named and named:glob(LIMITED) and (", far beyond the limits of %s"):format(named) or "", since),
        evidence = { first.weight, act },
      }
    end
  end),
}
