--- ## What it detects
--- An activation function that does nothing: its output equals its input, its values are as often negative as positive,
--- or a layer that a config, or its own name, calls rectified has no zeros. A module of any other name that holds no
--- weights and passes on what it gets, negative values and all, at every dump is taken for one.
---
--- ## Why it matters
--- Two linear layers without anything in between are one linear layer. The loss barely tells.
---
--- ## How to confirm
--- Print the module, and compare its output with its input for one batch.
---
--- ## Known false positives
--- tanh is symmetric about zero too, but never beyond 1; where all values are below 1 symmetry is not judged, nor is it
--- in gated networks, whose product of two factors is symmetric. A rectifier whose few units that fire are huge has a
--- mean of next to nothing of its root mean square as well; but it has zeros. Dropout in evaluation, shortcuts, clamps
--- and what else may pass a value on by design are left out by name, containers because they have parts or weights.
--- A config that names a rectifier and another function beside it, as for a head and for the blocks, does not say which
--- layer either is of. Between a linear layer and its activation there may be a norm: only what multiplies by a matrix
--- makes one linear layer of two. A code that is narrower than both sides is linear by design, in autoencoders,
--- low-rank factors and adapters.
---
--- ## References
--- GELU's least value is -0.17 and SiLU's -0.28: https://arxiv.org/abs/1606.08415

local MASKS = require("masks").NAMES
local places = require("places")
local runs = require("runs")

--- The last axis of a tensor, the width of a layer's input or output; nil where rows are not told from columns.
local function width(row)
  local shape = row and row.shape or {}
  return #shape >= 2 and shape[#shape] or nil
end

--- Whether a layer that takes what a linear layer gives multiplies it by a matrix, so that the two make one linear
--- layer. The members of a Sequential are called by their places, mlp.0 and mlp.1: what has no weight is the
--- activation, and what has one weight a unit is a norm, which stands between a linear layer and its activation as a
--- rule. Whether it is a matrix its shape says, or the number of its elements: (norm / root mean square) squared. What
--- has parts is a block with an activation of its own.
---@param case culprit.Case
---@param input culprit.Row  what the layer takes
local function multiplies(case, input)
  local layer = input.layer
  local below = layer .. "."
  local parts = case.scalars:where("match(metric, 'weight_norm|activation_rms') and starts_with(layer, ?)", below)
  local inner = case.tensors:where("match(role, 'input|output|weight') and starts_with(layer, ?)", below)
  if parts:count() + inner:count() > 0 then return false end
  local weights = case.tensors:where { layer = layer, role = "weight" }
  for row in weights:slice(0, 100):rows() do
    if #(row.shape or {}) >= 2 then return true end
  end
  if weights:where("match(name, '*weight')"):count() > 0 then return false end
  local own   = case.scalars:where { layer = layer, primary = true }:where("finite(value) and value > 0"):sort("step")
  local norm  = own:where { metric = "weight_norm" }:first()
  local function now(metric)
    local row = norm and own:where { metric = metric, step = norm.step }:first()
    return row and row.value
  end
  local moved, ratio = now("update_rms"), now("update_ratio")
  local size  = now("weight_rms") or moved and ratio and moved / ratio
  local units = width(input)
  -- A weight and a bias a unit are two.
  if size and units then return (norm.value / size) ^ 2 > 3 * units end
  local names = layer:split(".")
  local place = string.numbers(names[#names])[1]
  return not (place and tostring(math.floor(place)) == names[#names])
end

--- What a module is called where it stands, in lower case, without what it is part of and its place in a list.
local function own_name(layer)
  local names = layer:lower():split(".")
  local last  = #names
  while last > 1 and names[last]:glob("?|??") and string.numbers(names[last])[1] do last = last - 1 end
  return names[last]
end

--- Whether nothing of a layer's weights is on record where those of others are dumped.
local function weightless(case, layer)
  local weights = case.tensors:where { role = "weight" }
  return weights:count() > 0 and weights:where { layer = layer }:count() == 0
    and case.scalars:where { layer = layer, metric = "weight_norm" }:count() == 0
end

--- How surely two linear layers in a row are a fault. A code that is narrower than what goes in and what comes out is
--- linear by design: of an autoencoder, a factorisation in two, an adapter. Nil: such a one.
---@param case culprit.Case
---@param output culprit.Row  of the first layer
---@param input culprit.Row   of the second
local function surely(case, output, input)
  local function of(layer, role, step)
    local matrix = case.tensors:where { layer = layer, role = "weight" }:where("match(name, '*weight')"):first()
    local shape  = matrix and matrix.shape or {}
    if #shape == 2 then return role == "input" and shape[2] or shape[1] end
    return width(case.tensors:where { layer = layer, role = role, step = step }:first())
  end
  local code = width(output)
  if not code then return 0.5 end
  local wide_in, wide_out = of(output.layer, "input", output.step), of(input.layer, "output", input.step)
  if wide_in and code >= wide_in or wide_out and code >= wide_out then return 0.9 end
  if wide_in and wide_out then return nil end
  return 0.5
end

--- Whether two layers are the first of a list that has activations between others: none was ever between them, as in
--- some N-BEATS. One that is taken out leaves its place, and one that was forgotten may be anywhere.
---@param case culprit.Case
---@param first string
---@param second string
---@return boolean
local function side_by_side(case, first, second)
  local a, b = first:split("."), second:split(".")
  local here, next_ = string.numbers(a[#a])[1], string.numbers(b[#b])[1]
  if here ~= 0 or next_ ~= 1 or places.parent(first) ~= places.parent(second) then return false end
  local list = places.parent(first) .. "."
  for layer, share in case.scalars:where { metric = "zero_share", primary = true }:where("starts_with(layer, ?)", list)
    :group("layer") do
    local place = layer:sub(#list + 1)
    if tonumber(place) and share:median("value") >= 0.35
      and case.scalars:where { metric = "weight_norm", layer = layer }:count() == 0 then
      return true
    end
  end
  return false
end

--- The setting that says that activations are rectified; nil where another one names another function, as that of the
--- blocks beside that of a head: then it is not told which layer either is of.
---@param case culprit.Case
---@return culprit.Row?
local function rectified(case)
  local RELU = "match(value, '*relu*|*ReLU*|*RELU*') and not match(value, '*leaky*|*Leaky*|*prelu*')"
  local set  = case.config:where("match(key, '*activation|*act_fn|*hidden_act|*nonlinearity|*feed_forward_proj|"
    .. "*activation_fn|*activation_function') and value is not null")
  local others = set:where(("match(value, '*elu*|*ELU*|*glu*|*GLU*|*silu*|*SiLU*|*swish*|*tanh*|*Tanh*|*sigmoid*|"
    .. "*mish*|*softplus*') and not (%s)"):format(RELU))
  if others:count() > 0 then return nil end
  return case.config:where("match(key, '*activation*|*act_fn|*hidden_act|*nonlinearity|*feed_forward_proj')")
    :where(RELU):first()
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "An activation function does nothing",
  needs    = { any = {
    scalars = { "step", "value", "layer", metric = { "activation_mean", "zero_share" } },
    tensors = { "layer", "role" },
  } },
  symptoms = { "activation-is-identity" },

  run = runs.apart(function(case, run)
    -- Observers of a quantiser come behind what they watch, and give on what they get.
    local named = "(not match(layer, '*post_process*|*observer*|*fake_quant*') and match(layer, '*.act|*.act.*|act|"
      .. "*activation*|*gelu*|*relu*|*silu*|*swish*|*.act_fn|*nonlinearity*|"
      .. "*.act?|*.act??|act?|act??|*.act_?|*.act_fn?|*.act_fn*|act_fn*|*mish*|*softplus*|*leakyrelu*'))"
    local seen  = 0

    -- Input against output in one dump.
    local dumped  = case.tensors:where(named)
    local outputs = dumped:where { role = "output" }
    local inputs  = dumped:where { role = "input" }
    for output in outputs:slice(0, 200):rows() do
      local same = inputs:where { layer = output.layer }
      if output.step then same = same:where { step = output.step } end
      local input = same:first()
      if input and input.numel == output.numel and input.std and output.std and input.std > 0 then
        seen = seen + 1
        -- No activation but the identity leaves all four as they were.
        if input.min < 0 and input.max > 0 and input.min == output.min and input.max == output.max
          and math.abs(input.mean - output.mean) <= 1e-6 * input.absmax
          and math.abs(input.rms - output.rms) <= 1e-6 * input.rms
        then
          report {
            symptom  = "activation-is-identity",
            score    = 0.97,
            at       = { run = run, layer = output.layer, step = output.step },
            message  = ("the output of %s at step %s is its input (%.4g to %.4g, rms %.4g): it is no activation")
              :format(output.layer, tostring(output.step), output.min, output.max, output.rms),
            evidence = { input, output },
          }
          return
        end
      end
    end

    -- A module without weights or parts that gives what it gets, whatever it is called: nothing but an activation has a
    -- reason to be there. It has to be so at every dump, since a clamp or a mask changes nothing now and then.
    local by_design = "match(layer, '*drop*|*identity*|*shortcut*|*skip*|*resid*|*downsample*|*flatten*|*reshape*|"
      .. "*view*|*pad*|*pool*|*clip*|*clamp*|" .. MASKS .. "|*quant*|*stub*|*cast*|*norm*|*ln*|*bn*|"
      .. "*rot*|*embed*|*emb|*pos*|"
      .. "*scale*|*score*|*probs*|*logit*|*loss*|*out|*output*|*encoder|*decoder|*block*|batch|batch.*|battery.*')"
    local others = case.tensors:where("role == 'output' and layer is not null and numel >= 16")
      :where("not " .. by_design):where("not " .. named):where("min < 0 and max > 0 and std > 0")
    local alike, differs = {}, {}
    for output in others:slice(0, 1000):rows() do
      local layer = output.layer
      if not differs[layer] then
        local input = case.tensors:where { layer = layer, role = "input", step = output.step, variant = output.variant,
          rank = output.rank }:first()
        local d = input and input.numel == output.numel and input.min == output.min and input.max == output.max
          and input:compare(output)
        if not input then
        elseif d and d.max_abs == 0 then
          alike[layer] = alike[layer] or { input, output, dumps = 0 }
          alike[layer].dumps = alike[layer].dumps + 1
        else
          differs[layer] = true
        end
      end
    end
    for layer in others:group("layer") do
      local found = not differs[layer] and alike[layer]
      local parts = found and (case.tensors:where("starts_with(layer, ?)", layer .. "."):count()
        + case.scalars:where("layer is not null and starts_with(layer, ?)", layer .. "."):count()
        + case.tensors:where("layer == ? and match(role, 'weight|bias|grad')", layer):count()
        + case.scalars:where("layer == ? and match(metric, 'weight_norm|grad_norm')", layer):count())
      if found and parts == 0 then
        local output = found[2]
        report {
          symptom  = "activation-is-identity",
          score    = found.dumps >= 2 and 0.9 or 0.7,
          at       = { run = run, layer = layer, step = output.step },
          message  = ("%s has no weights and gives what it gets at %s that hold both, %.4g to %.4g at step %s: it is "
            .. "no activation"):format(layer, units.plural(found.dumps, "dump"), output.min, output.max,
            tostring(output.step)),
          evidence = { found[1], output },
        }
        return
      end
    end

    -- One layer with weights that feeds the next of its kind with nothing in between. What ReLU, GELU or SiLU give is
    -- above -0.3, what sigmoid and tanh give within 1.
    local plain = "match(layer, '*fc*|*linear*|*dense*|*mlp.?|*mlp.??|*layers.?|*layers.??|*proj*|*w1|*w2') and "
      .. "not match(layer, '*lora*|*norm*|*ln*|*embed*|*attn*|*attention*|*conv*|*bn*')"
    local linear = case.tensors:where(plain):where("numel >= 16 and nonfinite == 0")
    for output in linear:where("role == 'output' and min < -0.3 and absmax > 1.01"):slice(0, 200):rows() do
      local follow = linear:where { role = "input" }:where("layer != ? and numel == ?", output.layer, output.numel)
      if output.step then follow = follow:where { step = output.step } end
      for input in follow:where("min == ? and max == ? and rms == ?", output.min, output.max, output.rms)
        :slice(0, 1):rows() do
        -- What gives has to multiply as well: an activation may stand before a norm or a dropout that does not.
        local score = not weightless(case, output.layer) and multiplies(case, input) and surely(case, output, input)
        if score and side_by_side(case, output.layer, input.layer) then score = math.min(score, 0.4) end
        if score then
          report {
            symptom  = "activation-is-identity",
            score    = score,
            at       = { run = run, layer = output.layer, step = output.step },
            message  = ("what %s gives at step %s, %.4g to %.4g, goes into %s as it is: there is no activation between "
              .. "them"):format(output.layer, tostring(output.step), output.min, output.max, input.layer),
            evidence = { output, input },
          }
          return
        end
      end
      if follow:count() > 0 then seen = seen + 1 end
    end

    local all   = case.scalars:where { primary = true }:where("layer is not null and finite(value)"):where(named)
    -- What a gate multiplies is as often negative as positive.
    local gated = case.config:where("match(value, '*llama*|*mistral*|*qwen*|*gemma*|*glu*|*GLU*')"):count() > 0
      or case.scalars:where("match(layer, '*gate*|*up_proj*|*.w3*')"):count() > 0
      or case.tensors:where("match(name, '*gate*|*up_proj*|*.w3*')"):count() > 0
    local means = all:where { metric = "activation_mean" }
    if gated then means = means:slice(0, 0) end
    for layer, values in means:group("layer") do
      local sized = values:join(all:where { metric = "activation_rms", layer = layer }, { "step" })
        :with { size = "value_right", ratio = "value / value_right" }
      local largest = all:where { metric = "activation_max", layer = layer }:max("value") or 0
      -- Where inputs are small every smooth activation is a straight line; only large ones tell.
      local told = sized:where("size >= 0.5")
      -- No linear map gives exact zeros.
      local zeros = all:where { metric = "zero_share", layer = layer }
      if zeros:count() > 0 and zeros:median("value") >= 0.01 then
        seen = seen + 1
      elseif told:count() >= 3 and largest > 2 then
        seen = seen + 1
        local even = told:where("ratio > -0.05 and ratio < 0.05")
        if even:count() >= 0.8 * told:count() then
          report {
            symptom  = "activation-is-identity",
            score    = 0.8,
            at       = { run = run, layer = layer, step = told:first().step },
            message  = ("the mean of %s is %.2g of its root mean square in the median of %d logged steps, with "
              .. "values up to "
              .. "%.3g: ReLU, GELU and SiLU give a third or more"):format(layer, told:median("ratio"), told:count(),
                largest),
            evidence = { told:slice(0, 5) },
          }
          return
        end
      end
    end

    -- A rectifier whose output has no zeros. What never leaves -1 to 1 is a sigmoid or a tanh, whatever the module was
    -- called when it was written; and what is only called so may be a GELU by now, whose mean is above zero.
    local function another(layer)
      local own     = all:where { layer = layer }
      local largest = own:where { metric = "activation_max" }:max("value")
      -- Near zero a GELU is a straight line, and of weights that shrink it gets next to nothing: its largest tell.
      local sized   = own:where { metric = "activation_mean" }
        :join(own:where { metric = "activation_rms" }, { "step" }):top(1, "value_right"):first()
      local mean    = own:where { metric = "activation_mean" }:median("value")
      local rms     = own:where { metric = "activation_rms" }:median("value")
      return own:where { metric = "saturated_share" }:count() > 0 or largest and largest <= 1,
        mean and rms and mean > 0.2 * rms or sized and sized.value > 0.2 * sized.value_right
    end
    local wanted = rectified(case)
    for layer, values in all:where { metric = "zero_share" }:group("layer") do
      -- It is called by its own name, and not by that of what it is part of: T5's DenseReluDense has any activation.
      local own    = own_name(layer)
      local called = own:glob("*relu*") and not own:glob("*leaky*|*prelu*|*rrelu*|*denserelu*")
      if values:count() >= 3 then
        local bounded, above = another(layer)
        seen = (wanted or called) and not bounded and seen + 1 or seen
        if (wanted or called and not above) and not bounded and values:max("value") < 0.01 then
          report {
            symptom  = "activation-is-identity",
            score    = 0.85,
            at       = { run = run, layer = layer, step = values:first().step },
            message  = ("%s, and at most %s of %s is zero"):format(wanted and ("the config says %s = %s"):format(
              wanted.key, wanted.value) or "it is called rectified", units.percent(values:max("value")), layer),
            evidence = { wanted or values:first(), values:slice(0, 5) },
          }
          return
        end
      end
    end
    if seen == 0 then skip("inputs and outputs of activation modules: dump *.act.input and *.act.output") end
  end),
}
