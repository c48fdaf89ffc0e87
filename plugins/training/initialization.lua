--- ## What it detects
--- Weights of the fresh model that are zero, all alike, far too small or far too large for their inputs, and logits
--- that are spread from the first step, and outputs that swell from layer to layer. Where no weights are dumped, the
--- first updates tell of them: an element's size is that of its update over the relative update, and gradients that
--- reach one more layer at each step come through zeros. So do weight norms whose squares are whole numbers in layers
--- out of which nothing comes: they are of gains of one alone; and first layers that put out the same numbers whatever
--- the batch. Of low-rank pairs (LoRA) both factors that are zero, and second ones that are drawn at random.
---
--- ## Why it matters
--- Logits of standard deviation s add s^2/2 to the first loss. Weights of zero pass neither values nor gradients;
--- weights that are all alike make all units one. Too small a scale shrinks signals and gradients by the same factor
--- per layer.
---
--- ## How to confirm
--- List the standard deviation of each parameter before the first step, times the root of its number of inputs.
---
--- ## Known false positives
--- Output projections and second factors of LoRA that begin at zero on purpose: they move at once. Pretrained weights:
--- a first loss well below ln V says that the model is not fresh, and its logits are not judged, nor where they are
--- higher for their labels than for those of other places, nor beside a part that the config freezes. An output layer
--- that begins at zero hides the others from the gradient for one step, not for two. Embeddings begin at 1 by default.
--- A lone large layer may be so for small inputs or for a sine; norms that biases make are told by outputs of one sign,
--- and what no module takes inputs by is left out. So are tables by any name, that put out as many numbers as they have
--- columns, and layers that put out far less than their weights make of what goes in, since they scale them when they
--- are used; where no output is on record, matrices that all have a deviation of 1 may be such. Outputs of a run
--- without classes are no logits, nor are cosines. What begins at zero on purpose, as a bias does, stays there where
--- nothing moves it: a layer that has a gradient is kept at zero by its optimizer or its rate, one for which none is on
--- record is frozen or cut off, and where nothing in the model has one, the loss may be what is cut off. An activation
--- all of whose outputs are zero stops the gradient too: where it is the first to put out zeros alone, the weights
--- behind it are not judged by their gradients.
---
--- ## References
--- https://arxiv.org/abs/1502.01852, https://proceedings.mlr.press/v9/glorot10a.html

local class_costs = require("class-costs")
local constant_outputs = require("constant-outputs")
local drawn_weights = require("drawn-weights")
local first_updates = require("first-updates")
local freezing = require("freezing")
local lists = require("lists")
local masks = require("masks")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

--- Layers that put out zeros alone at the first step and whose squared weight norms are whole numbers: nothing but
--- gains of one is in them, beside weights of zero. A norm of four digits that is any number squares to within 5e-4 of
--- a whole one at a chance of n / 1000.
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@return { layer: string, message: string, evidence: culprit.Table[] }?
local function gains_alone(layered, step)
  local chance, found, sizes, judged = 1, {}, {}, 0
  layered = layered:where { step = step }
  for row in layered:where { metric = "weight_norm" }:where("value > 0"):slice(0, 1000):rows() do
    local own = layered:where { layer = row.layer }
    local put = own:where { metric = "activation_rms" }:first()
    local grad = own:where { metric = "grad_norm" }:first()
    judged = judged + 1
    local n = math.floor(row.value ^ 2 + 0.5)
    if put and put.value == 0 and grad and grad.value == 0 and n >= 1 and math.abs(row.value ^ 2 - n) <= 5e-4 * n then
      found[#found + 1], sizes[#sizes + 1] = row.layer, ("%d"):format(n)
      chance = chance * math.min(1, n / 1000)
    end
  end
  if #found < 3 or #found < 0.8 * judged or chance > 1e-4 then return nil end
  return {
    layer    = found[1],
    message  = ("%d of %d layers put out zeros alone at step %d, have no gradient, and their squared weight norms are "
      .. "whole numbers (%s): gains of one, and weights of zero"):format(#found, judged, step,
      table.concat(sizes, ", ", 1, math.min(6, #sizes))),
    evidence = { layered:where { metric = "weight_norm", layer = found }:slice(0, 5),
      layered:where { metric = "activation_rms", layer = found }:slice(0, 5) },
  }
end

--- Whether four fifths of these matrices have a standard deviation of about 1, of few inputs as of many, and nothing
--- that they put out is dumped: e3nn, StyleGAN and others draw at 1 and divide by the root of the inputs on the way.
--- Layers with a rate multiplied by .1 or .01 are drawn at 10 or 100 there.
---@param large { row: culprit.Row, inputs: number, put: culprit.Row? }[]
---@return boolean
local function drawn_at_one(large)
  local narrow, wide, ones, others = nil, nil, 0, 0
  local function tens(one) return math.floor(math.log(one.row.std, 10) + 0.5) end
  for _, one in ipairs(large) do
    if one.put then return false end
    if not narrow or one.inputs < narrow.inputs then narrow = one end
    if not wide or one.inputs > wide.inputs then wide = one end
  end
  if #large < 3 or wide.inputs < 2 * narrow.inputs then return false end
  -- A step or two may have made them longer; what is drawn by the number of inputs still differs by its root.
  local times = narrow.row.std / wide.row.std * 10 ^ (tens(wide) - tens(narrow))
  local even  = math.log(times) < 0.5 * math.log(math.sqrt(wide.inputs / narrow.inputs))
  local moved = wide.inputs >= 4 * narrow.inputs and even and 0.15 or 0.05
  for _, one in ipairs(large) do
    local whole = tens(one)
    -- The deviation of n numbers is off by 1 in the root of 2 n.
    local off   = math.abs(math.log(one.row.std, 10) - whole) - 0.6 / math.sqrt(one.row.numel)
    others = others + ((whole < 0 or whole > 2 or off > moved) and 1 or 0)
    ones   = ones + (whole == 0 and 1 or 0)
  end
  return others <= 0.2 * #large and ones >= 0.5 * #large
end

--- Whether logits are far larger than the dumped matrix that gives them makes of what is dumped before it: then a scale
--- multiplies them on purpose, as it does cosines.
---@param case culprit.Case
---@param wide integer    classes
---@param spread number
---@return boolean
local function scaled_logits(case, wide, spread)
  local early = case.tensors:where("step is null or step <= 1")
  local most
  for weight in early:where("role == 'weight' and rms is not null"):slice(0, 500):rows() do
    local shape = weight.shape or {}
    if #shape == 2 and shape[1] == wide and shape[2] ~= wide then
      for put in early:where("role == 'output' and rms is not null"):slice(0, 500):rows() do
        local width = put.shape and put.shape[#put.shape]
        if width == shape[2] then most = math.max(most or 0, weight.rms * math.sqrt(width) * put.rms) end
      end
    end
  end
  return most ~= nil and spread > 3 * most
end

--- Matrices of the first step. A file without a step beside a log of later ones is what came out of the run, as the
--- best or the last checkpoint, and says nothing of its start by itself (drawn-weights.lua asks what moved since).
---@param case culprit.Case
---@param weights culprit.Table
---@return culprit.Table
local function at_start(case, weights)
  local over = case.scalars:where("step > 1"):count() > 0
  return weights:where(over and "step <= 1" or "step is null or step <= 1")
end

--- A low-rank pair both of whose factors are zero at all logged steps, and in which no gradient is anything else: each
--- one's gradient is a product with the other, so that neither ever moves.
---@param layered culprit.Table  scalars of layers
---@return { layer: string, message: string, evidence: culprit.Table[] }?
local function zero_pair(layered)
  local found, example = {}, nil
  for layer, sizes in layered:where { metric = "weight_norm" }:where("match(layer, '*lora_A*|*lora_down*')")
    :group("layer") do
    local both  = { layer, freezing.factor(layer) }
    local other = layered:where { metric = "weight_norm", layer = both[2] }
    local grads = layered:where { metric = "grad_norm", layer = both }
    if sizes:count() >= 3 and sizes:max("value") == 0 and other:count() >= 3 and other:max("value") == 0
      and grads:count() >= 3 and grads:max("value") == 0 then
      found[#found + 1], example = layer, example or sizes
    end
  end
  if not example then return nil end
  return {
    layer    = found[1],
    message  = ("both factors of %s are zero at every logged step (%s): the gradient of each is a product with the "
      .. "other, and so neither ever gets one"):format(units.plural(#found, "adapter"), lists.first(found, 4)),
    evidence = { example:slice(0, 3) },
  }
end

--- Second factors of LoRA that do not begin at zero and were drawn: where each is trained on its own, as in an adapter
--- that was loaded, none has the size of another, and these have elements of one size in all layers. The first updates
--- of Adam have one size too, so that they have to be far below.
---@param case culprit.Case
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@return { layer: string, message: string, evidence: culprit.Table[] }?
local function drawn_factors(case, layered, step)
  -- Adapters are new however their base was trained, unless they are said to be loaded, or begin as something else.
  local own = case.config:where("match(key, '*init_lora_weights|*lora_init*|*resume*|*adapter_path*|*adapter_name_or*|"
    .. "*adapter_ckpt*|*adapter_weights*|*lora_path*|*lora_ckpt*|*lora_model*|*lora_weights_path*|*peft_model_id*')")
    :where("value is not null and not match(value, 'true|True|false|False|none|None|null|default|0|')"):count()
  if own > 0 then return nil end
  local least, most, count, example = math.huge, 0, 0, nil
  local second = layered:where("match(layer, '*lora_B*|*lora_up*')")
  for row in second:where { metric = "update_ratio", step = step }:rows() do
    local moved = layered:where { metric = "update_rms", step = step, layer = row.layer }:first()
    -- The ratio of norms is that of root mean squares, whatever the number of elements.
    if not moved or row.value <= 0 or row.value > 0.1 then return nil end
    local size = moved.value / row.value
    least, most, count, example = math.min(least, size), math.max(most, size), count + 1, example or row
  end
  -- Of n elements the root mean square is off by 1 in the root of 2 n: some per cent of small factors.
  if count < 3 or most > 1.2 * least then return nil end
  return {
    layer    = example.layer,
    message  = ("the second factors of LoRA do not begin at zero: at step %d the elements of all %d have a root mean "
      .. "square of %.3g to %.3g, as drawn at random, and the adapters change the model before they learned anything")
      :format(step, count, least, most),
    evidence = { example },
  }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Weights start at the wrong scale",
  needs    = { any = {
    scalars = { "step", "value", metric = { "weight_norm", "activation_rms", "update_ratio", "grad_norm" } },
    tensors = { "name", "role", "std" },
  } },
  symptoms = { "initial-weights-off", "weights-zero", "weights-zero-at-start", "weights-constant",
    "weights-tiny-at-start", "weights-large-at-start", "logits-large-at-start" },
  options  = {
    logits = { default = 1.5,  doc = "Standard deviation of the first logits that is too large" },
    gain   = { default = 4.0,  doc = "Weights' standard deviation times the root of the fan-in that is too large" },
    size   = { default = 2.0,  doc = "Root mean square of a matrix's elements that no number of inputs asks for" },
    factor = { default = 4.0,  doc = "What a square matrix of such elements multiplies by, in the median layer" },
    outputs = { default = 2.0, doc = "Outputs of layers, in the median, that are too large where the factor is" },
    swollen = { default = 50.0, doc = "Root mean square of a fresh layer's outputs that is too large" },
    swells  = { default = 30.0, doc = "Times what came in, from where such outputs are the weights' doing" },
    tiny   = { default = 1e-4, doc = "First activations that are vanishing" },
    shrink = { default = 0.1,  doc = "What weights that start too small leave of their inputs, at most" },
  },

  run = runs.apart(function(case, run)
    local opt   = case.options
    local all   = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local size  = targets.classes(case)
    local loss  = runs.series(case, "loss"):first()
    local first = all:sort("step"):first()
    -- What is wrong, once as such and once as what it is.
    local said, kinds
    local function found(finding)
      kinds = kinds or {}
      kinds[finding.symptom] = true
      if not said then
        said = true
        local general = {}
        for key, value in pairs(finding) do general[key] = value end
        general.symptom = "initial-weights-off"
        report(general)
      end
      report(finding)
    end
    --- The same of what a search tells: its layer, message and evidence.
    local function found_by(symptom, score, told, step)
      found {
        symptom  = symptom,
        score    = score,
        at       = { run = run, layer = told.layer, step = step },
        message  = told.message,
        evidence = told.evidence,
      }
    end
    local kind = first_updates.kinds(case)
    local loaded = settings.loaded(case) ~= nil
    -- Fresh logits do not know their labels, however large they are.
    local trained = loss and loss.step <= 1 and class_costs.knows(class_costs.of(case, loss)) or false
    local fresh = not loaded and not trained
      and (not (size and loss) or loss.step > 1 or loss.value > 0.9 * math.log(size.number))

    -- Zero from the first to the last logged step.
    local zero, other, named, kept = {}, 0, {}, false
    local pushed = all:where { metric = "grad_norm" }
    local lost   = pushed:count() > 0 and pushed:max("value") == 0
    for layer, values in all:where { metric = "weight_norm" }:group("layer") do
      local grads = pushed:where { layer = layer }
      -- The second factor of LoRA begins at zero on purpose; that it stays there is not the start's doing. Nor is it
      -- where a gradient would move it at once.
      -- Zeros do not keep a gradient away, but make it zero: where others have one on record and this layer none at
      -- all, it is frozen, or cut off, and its zeros may be those of a gate that begins so by design.
      if layer:lower():glob("*lora_b*|*lora_up*") then
      elseif values:count() >= 3 and values:max("value") == 0 and pushed:count() > 0 and grads:count() == 0 then
      elseif values:count() >= 3 and values:max("value") == 0 and grads:count() > 0 and grads:median("value") > 0 then
        -- Kept at zero by the optimizer or the rate: it hides what is upstream of it from the gradient.
        kept = true
      elseif values:count() >= 3 and values:max("value") == 0 then
        zero[#zero + 1], named[layer] = layer, true
      else
        other = other + 1
      end
    end
    -- Behind an activation that puts out nothing but zeros, zeros are not the weights' doing, unless they go into it.
    local dead = false
    local mute = first
      and all:where { metric = "zero_share", step = first.step }:sort("place"):where("value == 1"):first()
    local from = mute and all:where { metric = "weight_norm", layer = mute.layer }:count() > 0
    for _, values in all:where { metric = "zero_share" }:where("match(layer, "
      .. "'*act|*act.*|*act_fn|*relu*|*gelu*|*silu*')"):group("layer") do
      dead = dead or values:min("value") == 1 and not from
    end
    for layer, values in all:where { metric = "zero_share" }:where(from and "true" or "match(layer, "
      .. "'*attn|*attention|*proj|*head|*embed*')")
      :where(dead and "value < 0" or "value >= 0"):where("not match(layer, ?)", masks.CONDITIONS):group("layer") do
      if not named[layer] and values:count() >= 3 and values:min("value") == 1 and all:where { metric = "weight_norm",
        layer = layer }:count() > 0 then
        zero[#zero + 1] = layer
      end
    end
    -- Without a gradient anywhere zeros are kept, whatever they are for, unless they are what keeps it away.
    local hidden = lost and first and not first_updates.zero(all, first.step)
      and not first_updates.ends(all, first.step)
    if #zero > 0 and other > 0 and not hidden and not kept then
      found {
        symptom  = "weights-zero",
        score    = 0.95,
        at       = { run = run, layer = zero[1], step = first.step },
        message  = ("the weights of %s are zero at every logged step, or all that comes out is: %s")
          :format(units.plural(#zero, "layer"),
          table.concat(zero, ", ", 1, math.min(6, #zero))),
        evidence = { all:where { metric = "weight_norm", layer = zero[1] }:slice(0, 3) },
      }
    end

    local stuck, drawn
    if first and first.step <= 1 then
      stuck, drawn = zero_pair(all), drawn_factors(case, all, first.step)
    end
    if stuck and not said then found_by("weights-zero", 0.95, stuck, first.step) end
    if drawn then found_by("weights-large-at-start", 0.9, drawn, first.step) end

    local gains = first and first.step <= 1 and not loaded and gains_alone(all, first.step)
    if gains then found_by("weights-zero", 0.9, gains, first.step) end
    local biases = first and first.step <= 1 and not loaded and not said and constant_outputs.of(case, all, first.step)
    if biases then found_by("weights-zero", 0.9, biases, first.step) end
    local left = first and not loaded and not said and drawn_weights.zero(case, all)
    if left then found_by("weights-zero", 0.9, left, first.step) end

    -- Dumped weights of the first step.
    local weights = case.tensors:where("(role == 'weight' or role == 'value' and match(name, '*.weight_?h_l*')) and "
      .. "numel >= 64 and not match(name, '*norm*|*ln_*|*bias*|*.ln*')")
    local start   = at_start(case, weights)
    local early   = start:count() > 0
    local at_one  = false
    if early and fresh then
      -- A lone matrix may be large for what it takes in, as small features, or for what it feeds, as a sine.
      local judged, large = 0, {}
      for row in start:where("std is not null"):slice(0, 1000):rows() do
        local shape = row.shape or {}
        -- One number a unit, or one for all, is a scale and begins as such.
        if #shape == 2 and math.min(shape[1], shape[2]) >= 2 then
          if row.std == 0 and row.mean ~= 0 then
            found {
              symptom  = "weights-constant",
              score    = 0.95,
              at       = { run = run, layer = row.layer, step = row.step },
              message  = ("all %s weights of %s are %.4g: its units are all alike"):format(units.count(row.numel),
                row.name, row.mean),
              evidence = { row },
            }
            break
          end
          -- Frameworks that call them kernels put the inputs first.
          local inputs = row.name:lower():glob("*kernel*") and shape[1] or shape[2]
          local gain   = row.std * math.sqrt(inputs)
          -- Weights that are divided by a number of their own on their way put out no more than their layer takes in.
          local beside = case.tensors:where { layer = row.layer, step = row.step }
          local taken  = beside:where { role = "input" }:first()
          local put    = beside:where { role = "output" }:first()
          local scaled = taken and put and taken.rms and put.rms and put.rms < 0.3 * gain * taken.rms
            -- Nor are they too large where what comes out is what a sound layer makes, since little goes in.
            or put and put.rms and put.rms < 1.5 and put.absmax > 1.01
          if not kind(row.layer) and not row.name:lower():glob(drawn_weights.LOOKED_UP) then
            judged = judged + 1
            if gain > opt.gain and not scaled then
              large[#large + 1] = { row = row, inputs = inputs, gain = gain, put = put }
            end
          end
        end
      end
      at_one = 2 * #large > judged and drawn_at_one(large)
      if at_one then
        skip("what layers put out: weights that are drawn at 1 whatever their inputs are scaled where they are used",
          "weights-large-at-start")
      elseif 2 * #large > judged and not (kinds and kinds["weights-constant"]) then
        local one = large[1]
        found {
          symptom  = "weights-large-at-start",
          score    = 0.85,
          at       = { run = run, layer = one.row.layer, step = one.row.step },
          message  = ("%s starts with a standard deviation of %.3g; over %d inputs that multiplies a signal by "
            .. "%.3g, and so do %d of %d dumped matrices by more than %g"):format(one.row.name, one.row.std,
            one.inputs, one.gain, #large, judged, opt.gain),
          evidence = { one.row, large[2] and large[2].row or nil },
        }
      end
    end

    local starts = all:where("match(metric, 'update_ratio|grad_norm')"):sort("step"):first()
    local zeros_told, large_told = false, false
    if starts and starts.step <= 1 and not loaded then
      local wave, big
      -- Parts that a config thaws later on get their gradient later for that reason.
      local thawed = settings.on(case.config:where("match(key, '*freeze*|*frozen*')")):count() > 0
      if not thawed then
        wave, zeros_told = first_updates.zero(all, starts.step)
        if not wave then
          local told
          wave, told = first_updates.ends(all, starts.step)
          zeros_told = zeros_told or told
        end
      end
      local scaled
      big, large_told, scaled = first_updates.large(all, starts.step, opt, kind)
      at_one = at_one or scaled or false
      if wave then found_by("weights-zero-at-start", 0.92, wave, starts.step) end
      if big and fresh and not (kinds and kinds["weights-large-at-start"]) then
        found_by("weights-large-at-start", big.score, big, starts.step)
      end
    end
    local swelling = first and first.step <= 1 and fresh and first_updates.swelling(all, first.step, opt)
    if swelling and not (kinds and kinds["weights-large-at-start"]) then
      found_by("weights-large-at-start", 0.9, swelling, first.step)
    end

    -- A recorder that saw no module put anything out has parameters alone: means, deviations, points, whose size no
    -- number of inputs gives.
    local bare = all:where { metric = "optimizer_state_step" }:count() > 0 and all:where { metric = "weight_norm" }
      :count() > 0 and all:where { metric = "activation_rms" }:count() == 0
    if not large_told and not loaded and not bare and not at_one then
      local big
      big, large_told = first_updates.all_large(case, opt.size)
      if big and fresh then found_by("weights-large-at-start", 0.8, big, big.step) end
    end
    -- A first loss that knows its labels is of a model that was trained before, wherever it is logged.
    local knows = size and loss and loss.value < 0.9 * math.log(size.number)
    local kept_large = first and fresh and not knows and not at_one and not said
      and drawn_weights.large(case, all, opt.gain)
    if kept_large then found_by("weights-large-at-start", 0.8, kept_large, first.step) end

    local acts
    if first and first.step <= 1 then
      local rms    = all:where { metric = "activation_rms", step = first.step }
      local blocks = rms:where("not match(layer, '*embed*|*head*|*norm*|*ln_*|*scores*|*probs*') and value > 0")
      local small  = blocks:where("value < ?", opt.tiny)
      -- Branches that begin near zero on purpose (LayerScale) leave the stream beside them as large as it was.
      local sound  = blocks:where("value >= ?", 100 * opt.tiny):count()
      acts = blocks:count() >= 2
      -- What goes in may be that small: weights of a usual size take no more than a half and less from layer to layer.
      local before, shrinks = nil, false
      for row in blocks:sort("place"):slice(0, 5000):rows() do
        shrinks = shrinks or before ~= nil and row.value < opt.shrink * before
        before  = row.value
      end
      local many = acts and fresh and small:count() >= 0.5 * blocks:count() and sound < 0.25 * blocks:count()
      if many and not shrinks then
        skip("activations that weights make small: no layer makes them much smaller than the one before",
          "weights-tiny-at-start")
      elseif many then
        local least = small:sort("value"):first()
        found {
          symptom  = "weights-tiny-at-start",
          score    = 0.85,
          at       = { run = run, layer = small:first().layer, step = first.step },
          message  = ("at step %d the activations of %d of %d layers are below %g, those of %s %.2g: the weights "
            .. "start too small")
            :format(first.step, small:count(), blocks:count(), opt.tiny, least.layer, least.value),
          evidence = { small:slice(0, 5) },
        }
      end
    end

    -- The first logits: of a dump, else of the layer's statistics.
    local logits = case.tensors:where("name == 'head.output' or match(name, '*lm_head.output|logits')")
      :where("step is null or step <= 1"):sort("step"):first()
    local spread = logits and logits.std
    local wide   = logits and logits.shape and logits.shape[#logits.shape]
    if not spread and first and first.step <= 1 then
      logits = all:where { metric = "activation_rms", step = first.step }:where("match(layer, "
        .. "'head|lm_head|*.lm_head')"):first()
      spread = logits and logits.value
    end
    -- Cosines times a scale, and margins, are large from the start by design; and logits so wide that the loss does not
    -- have what they add are not those that it takes.
    -- A temperature divides them, and makes them large where it is far below 1; that of generation is another's.
    -- Outputs that no class has are no logits, and what multiplies cosines is a parameter or a setting.
    local of_classes = size and (not wide or targets.covers(wide, size.number)) or false
    local scale = case.scalars:where("layer is not null and match(layer, '*logit_scale*|*temperature*|*log_tau*')")
      :count() + case.tensors:where("match(name, '*logit_scale*|*temperature*|*log_tau*')"):count()
    local designed = settings.on(case.config:where("match(key, '*logit_scale*|*arcface*|*cosface*|*margin*')")):count()
      + case.config:where("match(key, '*temperature*') and number > 0 and number < 0.5 and not match(key, "
      .. "'*generat*|*sampl*|*decod*')"):count()
      + case.config:where("match(value, '*arcface*|*cosface*|*sphereface*|*ArcFace*|*CosFace*|*infonce*|*InfoNCE*')")
      :count() > 0
    -- A loss logged some steps later need not have what they add any more; but one below ln V is of a model that knew
    -- something, and large logits may be what it knows.
    local least = size and loss and math.log(size.number)
      + (loss.step <= 1 and 0.1 * math.min(spread or 0, 4) ^ 2 or 0)
    if spread and wide and spread > opt.logits and scaled_logits(case, wide, spread) then scale = scale + 1 end
    -- Nobody keeps as it is what nobody has trained: beside a frozen part the rest has mostly been trained as well.
    local frozen = settings.on(case.config:where("match(key, 'freeze_*|*.freeze_*')")):first()
    if spread and (trained or frozen) and not loaded and spread > opt.logits then
      skip(trained and "fresh logits: the first are higher for their labels than for those of other places"
        or ("fresh logits: a part of the model is kept as it is (%s)"):format(frozen.key), "logits-large-at-start")
    elseif spread and fresh and spread > opt.logits and (designed or scale > 0 or not of_classes
      or least and loss.value < least) then
      skip("logits that the first loss is made of", "logits-large-at-start")
    elseif spread and fresh and spread > opt.logits then
      found {
        symptom  = "logits-large-at-start",
        -- Little above the limit are outputs that are sums of several parts, too.
        score    = spread > 3 * opt.logits and 0.95 or spread > 2 * opt.logits and 0.7 or 0.4,
        at       = { run = run, layer = logits.layer, step = logits.step },
        message  = ("the first logits have a spread of %.3g, which adds about %.3g to a first loss that should be ln "
          .. "V"):format(
          spread, spread ^ 2 / 2),
        evidence = { logits, loss or logits },
      }
    end
    if not said and not first and weights:count() == 0 and not logits then
      return skip("statistics of layers, or dumped weights or logits, of the first step")
    end
    if said then
      -- Weights are wrong in one way, and that they are not in another speaks for nothing.
      for _, kind in ipairs({ "weights-zero", "weights-zero-at-start", "weights-constant", "weights-tiny-at-start",
        "weights-large-at-start", "logits-large-at-start" }) do
        if not kinds[kind] then skip("a model whose weights do not start wrongly in another way", kind) end
      end
      return
    end
    if #zero + other == 0 then skip("weight norms of layers", "weights-zero") end
    if not zeros_told then skip("gradient norms of layers at the first two steps", "weights-zero-at-start") end
    if not early then skip("dumped weights of the first step", "weights-constant") end
    if not early and not large_told then
      skip("dumped weights, or updates and norms of layers, of the first step", "weights-large-at-start")
    end
    if not acts then skip("activations of two layers at the first step", "weights-tiny-at-start") end
    if not spread then skip("the logits of the first step", "logits-large-at-start") end
    if not (early or acts or large_told) then
      skip("weights or activations of the first step", "initial-weights-off")
    end
  end),
}
