--- What a config declares as frozen: that it does not learn is no fault. And parts of layers, or of the whole model,
--- that never move.

local places = require("places")
local settings = require("settings")

local freezing = {}

--- Networks that follow another and are never trained by the loss: teachers, averages, targets, reference models.
local followers = "*teacher*|*momentum_enc*|*encoder_k|*encoder_k.*|ema|ema.*|*.ema|*.ema.*|*ema_model*|*target_net*"
  .. "|*target_enc*|*target_model*|*target_q*|*ref_model*|*reference_model*|*lpips*"

--- Whether all these layers are tables of the places of what is read, by name: a model does without these, and what it
--- does not use is neither cut off from the loss nor frozen.
---@param layers string[]
---@return boolean
function freezing.places_alone(layers)
  for _, layer in ipairs(layers) do
    if not layer:lower():glob("*pos|*pos.*|*pos_*|*posemb*|*wpe*|*position*") then return false end
  end
  return true
end

--- What is taken over as it is and asked for no gradient by design: networks that follow, fixed tables of positions,
--- and parts that were trained before and are used beside the one that learns. Names alone do not say so.
local taken = "*target*|*teacher*|*ema.*|*momentum*|*ref.*|*reference*|*pos|*pos.*|*pos_*|*position*|*vgg*|"
  .. "*perceptual*|*text_encoder*|*vision_tower*|*vision_model*|*visual_encoder*|vae|vae.*|*.vae.*|"
  .. "*first_stage*|*cond_stage*"

--- Whether a table of positions is one of sines and cosines, which is fixed by design: each pair adds up to 1, so that
--- the squares of n rows of d numbers add up to n d / 2. A learned table begins some thousand times lower. Rows of
--- zeros, a class token's, change nothing.
local function sines(case, layer)
  if not layer:lower():glob("*pos|*pos.*|*pos_*|*position*|*wpe*") then return false end
  local norm = case.scalars:where { metric = "weight_norm", primary = true, layer = layer }:sort("step"):first()
  for setting in case.config:where("match(key, '*hidden_size|*hidden_dim|*embed_dim|*embedding_dim|*d_model|*n_embd|"
    .. "*width|*dim') and number >= 2"):slice(0, 20):rows() do
    local rows = norm and 2 * norm.value ^ 2 / setting.number or 0
    if rows >= 4 and math.abs(rows - math.floor(rows + 0.5)) <= math.max(0.02, 1e-3 * rows) then return true end
  end
  return false
end

--- The part that a switch is for: freeze_bn names bn where layers are called so. Nil where it is for all, or for
--- something that no layer's name shows.
local function part_of_switch(case, key)
  local parts = key:lower():split(".")
  local part  = parts[#parts]
  for _, word in ipairs({ "stop_gradient", "stop_grad", "freeze", "frozen", "is_" }) do
    part = part:replace(word, "")
  end
  local name = ""
  for _, word in ipairs(part:split("_")) do
    if word ~= "" then name = name .. (name == "" and "" or "_") .. word end
  end
  if name == "" or name:glob("layers|weights|params|parameters|model|backbone|encoder|base|all") then return nil end
  local such  = "*" .. name .. "*"
  local named = case.scalars:where("layer is not null and match(layer, ?)", such):count() > 0
    or case.tensors:where("role == 'weight' and layer is not null and match(layer, ?)", such):count() > 0
  return named and name or nil
end

--- A function that says of a layer's name whether the config promises that it learns: a switch for its part is off
--- (freeze_language_model: false) beside one for another part that is on.
---@param case culprit.Case
---@return fun(layer: string): boolean
function freezing.promised(case)
  local parts, other = {}, false
  for setting in case.config:where("match(key, '*freeze*|*frozen*')"):slice(0, 100):rows() do
    local value = (setting.value or ""):lower()
    local part  = (value == "false" or value == "true") and part_of_switch(case, setting.key)
    if part and value == "false" then parts[#parts + 1] = part end
    other = other or part ~= nil and part ~= false and value == "true"
  end
  return function(layer)
    for _, part in ipairs(other and parts or {}) do
      if layer:lower():contains(part) then return true end
    end
    return false
  end
end

--- What the recorder found with requires_grad off, told by the names of parameters: a function that says of a layer's
--- name the first of its parameters in that list, or nil, and all of them; and whether there is such a list at all. Of
--- long ones the recorder keeps the first 200 names.
---@param case culprit.Case
---@return fun(layer: string): string?, string[] flagged
---@return boolean known
function freezing.flagged(case)
  local names, known = {}, false
  for setting in case.config:where("match(key, '*parameters_without_gradient')"):slice(0, 16):rows() do
    known = true
    for _, name in ipairs((setting.value or ""):replace("[", ""):replace("]", ""):replace('"', ""):split(",")) do
      name = name:trim()
      if name ~= "" then names[#names + 1] = name end
    end
  end
  return function(layer)
    local own = {}
    for _, name in ipairs(names) do
      if name == layer or name:starts_with(layer .. ".") then own[#own + 1] = name end
    end
    return own[1], own
  end, known
end

-- What is computed once and kept, by the name of a parameter.
local FIXED = "*basis*|*freq*|*grid|*window*|*filter_bank*|*filterbank*|*fbank*|*anchor*|*sine*|*cosine*|*dct*|*fft*|"
  .. "*fixed*|*const*"

--- Whether all that a layer has without a gradient is computed once, as a basis of polynomials: whoever writes such a
--- parameter writes whether it asks for a gradient. What is frozen by mistake are weights.
---@param names string[]  of parameters
---@return boolean
local function is_fixed(names)
  for _, name in ipairs(names) do
    local parts = name:lower():split(".")
    if not parts[#parts]:glob(FIXED) then return false end
  end
  return #names > 0
end

--- Whether a run starts from weights that were trained before, by its config, and asks for no gradient of half of its
--- layers or more: a backbone that is kept on purpose.
local function backbone(case, flagged)
  local begun = case.config:where("match(key, '*pretrained*|*name_or_path|*from_checkpoint|*init_from|*finetun*|"
    .. "*fine_tun*|*transfer_learn*|*backbone_weights')")
    :where("value is not null and not match(value, 'false|False|none|None|null|0|scratch|')"):count() > 0
  if not begun then return false end
  local kept, all = 0, 0
  for layer in case.scalars:where("layer is not null and match(metric, 'weight_norm|update_ratio|grad_norm')")
    :group("layer") do
    all  = all + 1
    kept = kept + (flagged(layer) and 1 or 0)
  end
  return kept >= 0.5 * all
end

--- How many numbers are logged as a layer, by the norm of its weights over their root mean square; nil where that is
--- not on record.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return number?
local function numbers(layered, layer)
  local own  = layered:where { layer = layer }:where("value > 0")
  local norm = own:where { metric = "weight_norm" }:first()
  local size = norm and own:where { metric = "weight_rms", step = norm.step }:first()
  return size and (norm.value / size.value) ^ 2
end

--- Whether what is logged as a layer is one number, as a temperature.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return boolean
function freezing.one_number(layered, layer)
  local count = numbers(layered, layer)
  return count ~= nil and count < 1.5
end

--- Whether what is logged as a layer is no layer by itself: what is left beside a weight that is made of others (as the
--- bias of a layer whose weight is under `parametrizations`), or a few numbers, as the bias of a critic, whose gradient
--- is exactly 0 where what is compared are differences, or temperatures of heads that are at their clamp.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return boolean
function freezing.rest(layered, layer)
  local count = numbers(layered, layer)
  local grads = layered:where { metric = "grad_norm", layer = layer }
  return layered:where("starts_with(layer, ?)", layer .. ".parametrizations."):count() > 0
    or count ~= nil and (count < 1.5 or count < 6.5 and (grads:count() == 0 or grads:max("value") == 0))
end

local NORMS = "*norm*|bn|bn?|*.bn*|*_bn*|bn_*|ln_*|*.ln*"

--- A function that says of a layer whether it is one that no input goes through: what those that learn put out is on
--- record, and of it nothing is; of a norm those that learn are the norms. Models keep such a one of an earlier design,
--- or heads for other losses; nothing is lost with it. What is cut off from the loss, or frozen, is called and has an
--- output, but for what no module calls, as the last map of PyTorch's attention: where one of the same name learns
--- without an output, none has.
---@param layered culprit.Table  scalars of layers
---@return fun(layer: string): boolean
function freezing.uncalled(layered)
  local has, outputs = {}, {}
  for name in layered:where { metric = "activation_rms" }:group("layer") do
    has[name], outputs[#outputs + 1] = true, name
  end
  local norms, norms_called, called, others, silent = 0, 0, 0, 0, {}
  for name in layered:where("match(metric, 'update_ratio|grad_norm') and value > 0"):group("layer") do
    local parts = name:split(".")
    local one   = has[name] and 1 or 0
    called, others = called + one, others + 1
    if one == 0 and not tonumber(parts[#parts]) then silent[parts[#parts]] = true end
    if name:lower():glob(NORMS) then norms_called, norms = norms_called + one, norms + 1 end
  end
  -- Where little learns, all that has weights is asked.
  if others < 4 then
    called, others = 0, 0
    for name in layered:where { metric = "weight_norm" }:group("layer") do
      called, others = called + (has[name] and 1 or 0), others + 1
    end
  end
  -- A parameter by itself has no output.
  local most       = called >= 4 and called >= 0.8 * others
  local most_norms = norms > 0 and norms_called == norms
  return function(layer)
    local parts = layer:split(".")
    if has[layer] or silent[parts[#parts]] or not most and not most_norms then return false end
    for _, name in ipairs(outputs) do
      if name:starts_with(layer .. ".") then return false end
    end
    return most or layer:lower():glob(NORMS) or false
  end
end

--- Whether a layer is the last of a row of blocks' like parts and stands still, while those before it move, and other
--- parts of its block: what it would give to the next block nobody takes, as the last residual of a Conv-TasNet.
---@param name string
---@param moving string[]  what moves
---@return boolean
function freezing.ends_row(name, moving)
  local parts = name:split(".")
  for k = 1, #parts - 1 do
    local number = tonumber(parts[k])
    if number and number >= 1 then
      local head = k > 1 and table.concat(parts, ".", 1, k - 1) .. "." or ""
      local tail = "." .. table.concat(parts, ".", k + 1)
      local before, beside, behind = 0, false, false
      for _, other in ipairs(moving) do
        local rest  = other:starts_with(head) and other:sub(#head + 1):split(".") or {}
        local index = tonumber(rest[1])
        if index and index < number and other == head .. rest[1] .. tail then before = before + 1 end
        beside = beside or index == number
        behind = behind or index ~= nil and index > number
      end
      if before >= 1 and before == number and beside and not behind then return true end
    end
  end
  return false
end

--- Whether a layer's gradient came at each step and was exactly 0: the optimizer keeps a state of it and counts its
--- updates. What is frozen, or cut off, has neither a gradient nor a state.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return boolean
function freezing.came(layered, layer)
  local own    = layered:where { layer = layer }
  local grads  = own:where { metric = "grad_norm" }
  local counts = own:where { metric = "optimizer_state_step" }
  return grads:count() >= 3 and grads:max("value") == 0 and counts:count() >= 3
    and counts:max("value") > counts:min("value")
end

--- The other factor of a low-rank pair, by the names that LoRA has for them; nil for what is none.
---@param layer string
---@return string?
function freezing.factor(layer)
  for one, other in pairs { lora_A = "lora_B", lora_B = "lora_A", lora_down = "lora_up", lora_up = "lora_down" } do
    if layer:contains(one) then return layer:replace(one, other) end
  end
end

--- Whether a layer is one factor of a low-rank pair whose other factor is zero at all steps at which this one has no
--- gradient: that of B A by A is B' G, and exactly 0 as long as B is, whatever the graph and the optimizer do. The
--- other one has a gradient then, unless both are frozen or cut off.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return boolean
function freezing.shut(layered, layer)
  local other = freezing.factor(layer)
  local sizes = other and layered:where { metric = "weight_norm", layer = other }:select("step", "value")
  if not sizes or sizes:count() == 0 then return false end
  local pushed = layered:where { metric = "grad_norm", layer = other }
  if pushed:count() == 0 or pushed:median("value") <= 0 then return false end
  local still = layered:where { layer = layer }:where("match(metric, 'grad_norm|update_ratio') and value == 0")
  local both  = still:select("step"):distinct("step"):join(sizes, { "step" })
  return both:count() >= 3 and both:max("value") == 0
end

--- Whether the optimizer counts updates of a layer that it was given no gradient for but zero, by its second moment:
--- it holds the layer, and what is logged as the gradient is not what it got.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@return boolean
function freezing.given_zero(layered, layer)
  local own    = layered:where { layer = layer }
  local counts = own:where { metric = "optimizer_state_step" }
  local second = own:where("match(metric, '*exp_avg_sq_rms')")
  return counts:count() >= 3 and counts:max("value") > counts:min("value") and second:count() >= 3
    and second:max("value") == 0
end

--- The top of a path that has siblings, and the rest: `online` and `0.weight` of online.0.weight. What a model is
--- wrapped in is no top, unless it is asked for: `net` may stand beside `target`, too.
local function halves(layer, outer)
  local parts = layer:split(".")
  local first = 1
  while not outer and first < #parts and parts[first]:lower():glob("model|module|net|network|base_model|_orig_mod") do
    first = first + 1
  end
  return table.concat(parts, ".", 1, first), table.concat(parts, ".", first + 1)
end

--- Whether each branch of the layers that stand still has one that moves, whose layers are called as its own are, and
--- none of its own among these.
local function twins(still, moving, outer)
  local own, other = {}, {} -- names below the branch, by branch
  for _, layer in ipairs(still) do
    local top, rest = halves(layer, outer)
    own[top] = own[top] or {}
    table.insert(own[top], rest)
  end
  for _, layer in ipairs(moving) do
    local top, rest = halves(layer, outer)
    other[top] = other[top] or {}
    other[top][rest] = true
  end
  for top, rests in pairs(own) do
    local twin = false
    for _, layers in pairs(other) do
      local same = 0
      for _, rest in ipairs(rests) do same = same + ((layers[rest] and rest ~= "") and 1 or 0) end
      twin = twin or same == #rests
    end
    if not twin or other[top] then return false end
  end
  return true
end

--- Whether what stands still is a model beside one that moves, whose layers are called as its own: one that is
--- followed, a teacher, or the base beside a copy.
---@param still string[]   names of layers
---@param moving string[]
---@return boolean
function freezing.beside(still, moving)
  return twins(still, moving) or twins(still, moving, true)
end

-- Share of the layers below which those that stand still may be aside of what the loss needs.
local ASIDE = 1 / 5

-- Share of a model below which what stands still may well be so by design: an idle head, the offset of a norm.
local LITTLE = 0.02

--- What share of the model's weights some layers are, by its last checkpoint, where that is below a fiftieth; nil where
--- it is more, or no checkpoint has all of them.
---@param case culprit.Case
---@param run string?
---@param layers string[]
---@return number?
function freezing.little(case, run, layers)
  local weights = case.tensors:where { run = run }:where("role == 'weight' and variant is null and step is not null "
    .. "and (rank is null or rank == 0) and not match(name, 'battery.*')")
  weights = weights:where { step = weights:max("step") or -1 }
  local total = weights:sum("numel") or 0
  local sum = 0
  for _, layer in ipairs(layers) do
    local own = weights:where("layer == ? or starts_with(layer, ?) or ends_with(layer, ?)", layer, layer .. ".",
      "." .. layer)
    if own:count() == 0 then return nil end
    sum = sum + own:sum("numel")
  end
  return #layers > 0 and total > 0 and sum < LITTLE * total and sum / total or nil
end

--- Whether what stands still is so few of the layers that it may be aside of what the loss needs: a head that is not
--- asked, a part for other data. Of faults most stop a fifth of the layers and more.
--- What the recorder lists as asking for no gradient is not aside: somebody froze it.
---@param still string[]  layers that stand still
---@param moving integer  layers that learn
---@param flagged fun(layer: string): string?
---@return boolean
function freezing.aside(still, moving, flagged)
  for _, layer in ipairs(still) do
    if flagged(layer) then return false end
  end
  return #still < ASIDE * (#still + moving)
end

-- Heads by the name of a module, and what else gives out what a model says; blocks and attention of such names do not.
local HEADS = "head|*_head|head_*|*_heads|*pred*|*classifier*|*score*|*aux*"
local GIVES_OUT = "head|*_head|head_*|*heads|*pred*|*classifier*|*logits*|output_*|*_out|out"
local WITHIN = "*block*|*layer*|*attn*|*attention*|*proj*"

--- The module that holds all layers that stand still, if they come behind all that learn, none of these is in it, and
--- it is an output by its name beside another one that learns: one that no loss asks for, as a head of quality whose
--- term is left out. A frozen output lets the gradient through that the layers before it learn by; an idle one has
--- nothing to do with it, which shows only where something else gives out as well. One whose loss is logged, by its
--- name, is asked for: its term is cut off. Nil where there is none.
---@param case culprit.Case
---@param states table[]  { layer, dead } in the order of the forward pass
---@return string?
function freezing.idle_output(case, states)
  local module, length
  for _, state in ipairs(states) do
    if state.dead then
      local parts, n = state.layer:split("."), 0
      while module and n < length and module[n + 1] == parts[n + 1] do n = n + 1 end
      module, length = module or parts, module and n or #parts
    elseif module then
      return nil
    end
  end
  -- The layers of a head are told by their numbers, or are all that it has.
  while module and length > 1 and (tonumber(module[length]) or module[length] == "layers") do length = length - 1 end
  if not module or length == 0 or not module[length]:lower():glob(HEADS) then return nil end
  local word = module[length]:lower():replace("_prediction", ""):replace("_pred", ""):replace("_head", ""):split("_")[1]
  local term = "*" .. word .. "*loss*|*loss*" .. word .. "*"
  if #word >= 3 and case.scalars:where("layer is null and match(name, ?)", term):count() > 0 then return nil end
  local name, above, beside = table.concat(module, ".", 1, length), table.concat(module, ".", 1, length - 1), false
  for _, state in ipairs(states) do
    if not state.dead then
      if (state.layer .. "."):starts_with(name .. ".") then return nil end
      local rest = above == "" and state.layer or state.layer:starts_with(above .. ".") and state.layer:sub(#above + 2)
      local part = rest and rest:split(".")[1]:lower() or ""
      beside = beside or part:glob(GIVES_OUT) and not part:glob(WITHIN) or false
    end
  end
  return beside and name or nil
end

--- A layer of a network that follows one that learns, as a teacher or a target: each of its layers moves at logged
--- steps without ever having a gradient, and is called as one of the other network, which has them. What is called an
--- average is that of the weights alone, which no loss asks; nil where there is none.
---@param layered culprit.Table  scalars of layers
---@return string?
function freezing.follower(layered)
  local pushed, follows, learns = {}, {}, {}
  for layer in layered:where { metric = "grad_norm" }:where("value > 0"):group("layer") do pushed[layer] = true end
  for layer, moved in layered:where { metric = "update_ratio" }:where("value > 0"):group("layer") do
    if pushed[layer] then
      learns[#learns + 1] = layer
    elseif moved:count() >= 3 and not layer:lower():glob("*ema*|*averag*|*swa*") then
      follows[#follows + 1] = layer
    end
  end
  return #follows > 0 and freezing.beside(follows, learns) and follows[1] or nil
end

-- What stands between two models that were trained apart, and is all that is trained to join them.
local JOINS = "*projector*|*connector*|*merger*|*resampler*|*bridge*|*q_former*|*qformer*|*mapper*|*aligner*|"
  .. "*perceiver*"

--- A name without those of what a model is wrapped in: checkpoints have model.fc, and the config fc.
local function bare(name)
  local parts, first = name:split("."), 1
  while first < #parts and parts[first]:lower():glob("model|module|_orig_mod|base_model") do first = first + 1 end
  return table.concat(parts, ".", first)
end

--- The name of a file without its number among those that a model is cut into.
local function without_shard(file)
  local parts = file:split("-of-")
  if #parts < 2 then return file end
  local head = parts[1]:split("-")
  return table.concat(head, "-", 1, #head - 1)
end

--- A function that says whether a name is one of a list, or one of them ends in the other, without what a model is
--- wrapped in.
local function finder(list)
  local own, ends = {}, {}
  local function ends_of(name, set)
    local parts = name:split(".")
    for i = 1, #parts do set[table.concat(parts, ".", i)] = true end
    return set
  end
  for _, name in ipairs(list) do
    own[bare(name)] = true
    ends_of(bare(name), ends)
  end
  return function(name)
    if ends[bare(name)] then return true end
    for of in pairs(ends_of(bare(name), {})) do
      if own[of] then return true end
    end
    return false
  end
end

--- Whether checkpoints have weights of what learns, and none of layers that do not, but for one that it may begin with:
--- who saves an adapter or a prompt alone knows what is trained.
---@param case culprit.Case
---@param frozen string[]
---@param learning string[]
---@return boolean
local function saved_apart(case, frozen, learning)
  if #frozen < 3 then return false end
  local saved = case.tensors:where("variant is null and source is not null and layer is not null "
    .. "and (role == 'weight' or role == 'value') and not match(source, '*/dumps/*|dumps/*') "
    .. "and not match(name, 'batch.*')")
  local is_frozen, learns = finder(frozen), finder(learning)
  local whole, of_learning, bases, held = {}, {}, {}, 0
  for row in saved:distinct("source", "layer"):slice(0, 10000):rows() do
    local base = without_shard(row.source)
    if is_frozen(row.layer) then
      held = held + (bases[base] and 0 or 1)
      whole[row.source], bases[base] = true, true
    elseif learns(row.layer) or learns(places.parent(row.layer)) then
      of_learning[row.source] = true
    end
  end
  if held > 1 then return false end
  -- The same at two moments: files of parts of a model are no later ones of each other.
  for _, rows in saved:group("name") do
    local apart = 0
    for row in rows:distinct("source"):rows() do
      apart = apart + (of_learning[row.source] and not whole[row.source] and 1 or 0)
    end
    if apart >= 2 then return true end
  end
  return false
end

--- Whether layers that were frozen at the start, by the recorder's list, learn later: they are released by and by, and
--- those still frozen wait for their turn, or are to keep what they have. Nobody forgets a switch that is turned.
---@param case culprit.Case
---@param flagged fun(layer: string): string?
---@return boolean
local function released(case, flagged)
  local layered = case.scalars:where { primary = true }:where("layer is not null")
  local first = layered:where { metric = "update_ratio" }:min("step")
  for layer, moved in layered:where { metric = "update_ratio" }:group("layer") do
    local begun = moved:where("value > 0"):min("step")
    if begun and begun > first and flagged(layer)
      and moved:where("step < ?", begun):count() > 0
      and layered:where { metric = "grad_norm", layer = layer }:where("value > 0 and step < ?", begun):count() == 0 then
      return true
    end
  end
  return false
end

--- Whether the rows of a layer's matrix are all of one length and at one angle to each other, the widest that so many
--- can have: w_i w_j = -|w|^2 / (K - 1) for all pairs. No start has that: it was set, as an output of fixed classes.
---@param case culprit.Case
---@param layer string
---@return boolean
local function equal_angles(case, layer)
  local matrix
  for row in case.tensors:where { role = "weight" }:where("match(layer, ?) and match(dtype, '*float*')",
    layer .. "|*." .. layer):slice(0, 20):rows() do
    if #(row.shape or {}) == 2 then matrix = matrix or row end
  end
  local count = matrix and math.floor(matrix.shape[1]) or 0
  if count < 3 or count > 200 or matrix.numel > 65536 then return false end
  local rows, width = {}, math.floor(matrix.shape[2])
  for i = 1, count do rows[i] = matrix:values((i - 1) * width, width) end
  local length
  for i = 1, count do
    for j = 1, i do
      local product = 0
      for k = 1, width do product = product + rows[i][k] * rows[j][k] end
      length = length or product
      local wanted = i == j and length or -length / (count - 1)
      if not (length > 0) or math.abs(product - wanted) > 1e-3 * length then return false end
    end
  end
  return true
end

--- Whether layers whose parameters ask for no gradient are so by design, by where they are and not by their names: what
--- nothing that learns comes before, as features that are taken as they are; gains and offsets of norms alone; a whole
--- branch whose layers are called as those of one that learns; outputs whose classes lie at equal angles, which nobody
--- gets by chance; all but the same few rows of a table, as those of a word that is to be learned; and what low-rank
--- pairs are added to, where both factors of each learn and nothing else does. What asks for no
--- gradient was told so in code; between layers that learn there is seldom a reason.
---@param case culprit.Case
---@param states table[]     { layer, dead } in the order of the forward pass
---@param flagged fun(layer: string): string?
---@return string?  what they are
function freezing.kept(case, states, flagged)
  local layered = case.scalars:where { primary = true }:where("layer is not null")
  local front, before, frozen, learning = true, false, {}, {}
  for _, state in ipairs(states) do
    if not state.dead then
      learning[#learning + 1] = state.layer
      before = before or not freezing.one_number(layered, state.layer) -- of which no layer takes anything up
    elseif flagged(state.layer) then
      frozen[#frozen + 1] = state.layer
      front = front and not before
    else
      return nil
    end
  end
  if #frozen == 0 then return nil end
  if front then return "what takes up the inputs, before all that learns" end

  local norms = true
  for _, layer in ipairs(frozen) do
    local mine    = case.scalars:where { primary = true, layer = layer }
    local size    = mine:where { metric = "weight_rms" }:first()
    local vectors = case.tensors:where { layer = layer, role = "weight" }
    local flat    = vectors:count() > 0
    for row in vectors:slice(0, 10):rows() do flat = flat and #(row.shape or {}) <= 1 end
    norms = norms and (flat or layer:lower():glob("*norm*|*bn*|*ln_*|*ln?")
      or size ~= nil and (math.abs(size.value - 1) < 1e-4 or math.abs(size.value - math.sqrt(0.5)) < 1e-4))
  end
  if norms then return "norms alone" end

  local only = #learning == 1 and layered:where { layer = learning[1] }
  if only and freezing.still(only:where { metric = "unchanged_share" }, only:where { metric = "update_ratio" }, 0.8)
  then
    return "all but a few numbers of " .. learning[1] .. ", the same at each step"
  end

  if freezing.beside(frozen, learning) then return "a model beside one whose layers are called as its own" end
  local factors, named = 0, {}
  for _, layer in ipairs(learning) do named[layer] = true end
  for _, layer in ipairs(learning) do
    local other = freezing.factor(layer)
    factors = factors + ((other and named[other]) and 1 or 0)
  end
  if factors > 0 and factors == #learning then return "the base of low-rank pairs, which are all that learns" end
  local joins = true
  for _, layer in ipairs(learning) do joins = joins and layer:lower():glob(JOINS) end
  if joins then return "models that were trained apart, which what learns joins" end
  if saved_apart(case, frozen, learning) then
    return "in no checkpoint but what it began with: these hold what learns"
  end
  local simplex = true
  for _, layer in ipairs(frozen) do simplex = simplex and equal_angles(case, layer) end
  return simplex and "classes at equal angles, which were set" or nil
end

--- Whether a layer is logged by a name that no parameter has, as an activation with the norm before it, so that no list
--- of parameters can name it, in a module all of whose parameters such a list names; by the weights of dumps and
--- checkpoints, or else by what is logged beside it.
local function under_another_name(case, layer, named)
  local parts  = layer:split(".")
  local module = table.concat(parts, ".", 1, #parts - 1) .. "."
  if #parts < 2 then return false end
  local known = false
  for row in case.tensors:where { role = "weight" }:where("match(layer, ?)", "*" .. module .. "*"):distinct("layer")
    :slice(0, 1000):rows() do
    local name = bare(row.layer)
    if name:starts_with(bare(module)) then
      known = true
      if (name .. "."):starts_with(bare(layer) .. ".") or not named(row.layer) then return false end
    end
  end
  if known then return true end
  local beside = 0
  for other in case.scalars:where { metric = "weight_norm" }:where("starts_with(layer, ?)", module):group("layer") do
    if other ~= layer and not named(other) then return false end
    if other ~= layer then beside = beside + 1 end
  end
  return beside >= 2
end

-- How many of the last blocks learn.
local LAST = "*unfrozen*|*trainable_layers|*trainable_*layers|*layers_to_train|*unfreeze_last*|*finetune_last*|"
  .. "*tune_last*"

--- The number of the first block that learns, where the config says how many of the last ones do (num_unfrozen_layers);
--- nil where it does not.
local function first_to_learn(case)
  local last = case.config:where("match(key, ?) and number >= 0", LAST):first()
  local of   = case.config:where("match(key, '*num_hidden_layers|*n_layers|*n_layer|*num_layers|*depth')")
    :where("number >= 1"):where("not match(key, ?)", LAST):first()
  return last and of and math.floor(of.number - last.number) or nil
end

--- How many stages of a backbone torchvision's trainable_backbone_layers leaves frozen, of four and what stands before
--- them; three are trained by themselves where the backbone's weights are loaded. Nil where no such setting is.
local function untrained_stages(case)
  local set = case.config:where("match(key, '*trainable_backbone_layers') and value is not null"):first()
  if not set then return nil end
  local loaded = case.config:where("match(key, '*weights_backbone|*pretrained_backbone|*backbone_weights')")
    :where("value is not null and not match(value, 'none|None|null|false|False|')"):count() > 0
  local count = set.number or loaded and 3 or 5
  return count < 5 and 4 - math.floor(count) or nil
end

--- A function that says of a layer's name whether OpenMMLab's frozen_stages keeps it, or torchvision's count of those
--- to be trained: of a backbone all that stands before the stages, and so many of these.
local function in_frozen_stages(case)
  local set = case.config:where("match(key, 'frozen_stages|*.frozen_stages') and number >= 0"):first()
  local count = set and math.floor(set.number) or untrained_stages(case)
  if not count then return function() return false end end
  local of_backbone = not set or set.key:lower():contains("backbone.")
  return function(layer)
    local parts = layer:lower():split(".")
    if of_backbone and not layer:lower():contains("backbone") then return false end
    for i, part in ipairs(parts) do
      if part:glob("*head*|*neck*|*fpn*|encoder|decoder|*transformer*") then return false end
      if part:glob("stem*|conv1|bn1|norm1|patch_embed*|pos_embed|absolute_pos_embed") then return true end
      -- layer1 to layer4 of a residual network, stages.0 to stages.3 and layers.0 of transformers.
      local number = part:starts_with("layer") and tonumber(part:sub(6))
      if number then return number <= count end
      number = part:glob("stages|layers|blocks") and tonumber(parts[i + 1])
      if number then return number < count end
    end
    return false
  end
end

--- The number of the block that a layer is part of: 3 of model.layers.3.mlp.0; nil where it is of none.
local function block(layer)
  local parts = layer:split(".")
  for i = 2, #parts do
    if parts[i - 1]:lower():glob("*blocks|*layers|*layer|h|*resblocks|*stages") and tonumber(parts[i]) then
      return math.floor(tonumber(parts[i]))
    end
  end
end

-- Lists of layers each of which is an output by itself, and settings that say how much of each the loss asks for.
local OUTPUTS = "seg_*|heads|*_heads|outputs|*_outputs|outs|out_convs|side_*|aux_*|exits|*supervis*"
local SHARES  = "*supervision*weight*|*ds_weight*|*aux*weights|*side*weights|*scale*weights|*exit*weights|*loss_weights"

--- The outputs whose share of the loss is zero, by their numbers, in either order, fine to coarse or coarse to fine.
local function zero_shares(case)
  local zero = {}
  for setting in case.config:where("match(key, ?)", SHARES):slice(0, 20):rows() do
    local shares = (setting.value or ""):replace("[", ""):replace("]", ""):split(",")
    for i, share in ipairs(shares) do
      if #shares >= 2 and tonumber(share:trim()) == 0 then zero[i - 1], zero[#shares - i] = true, true end
    end
  end
  return zero
end

--- A function that says of a layer's name whether it is an output that the loss leaves out: one of several maps under
--- deep supervision, each at a resolution of its own, of which another learns. Their share of the loss is zero by a
--- setting, or the supervision is off and a finer one is asked; and nnU-Net's coarsest always has none, of which no
--- config speaks.
---@param case culprit.Case
---@return fun(layer: string): boolean
local function unasked(case)
  local zero = zero_shares(case)
  local off  = case.config:where("match(key, '*deep_supervis*|*deepsupervis*|*do_ds')")
    :where("match(value, 'false|False|0')"):first() ~= nil
  return function(layer)
    local parts  = layer:split(".")
    local number = tonumber(parts[#parts])
    local parent = (parts[#parts - 1] or ""):lower()
    if not number or not parent:glob(OUTPUTS) then return false end
    local coarsest = parent == "seg_layers" and number == 0
    if not (zero[number] or off or coarsest) then return false end
    local above = table.concat(parts, ".", 1, #parts - 1) .. "."
    local known = case.scalars:where { metric = { "grad_norm", "update_ratio" } }:where("starts_with(layer, ?)", above)
    if known:where { layer = layer }:where("value > 0"):first() then return false end
    for other in known:where("value > 0"):distinct("layer"):slice(0, 100):rows() do
      local its = tonumber((other.layer:sub(#above + 1):split("."))[1])
      if its and (zero[number] or its > number) then return true end
    end
    return known:count() == 0
  end
end

--- A function that says of a layer's name whether it is frozen by declaration or design: by a list of names
--- (freeze_layers), by how many of the last blocks learn and what stands before them, by a switch for a part or for all
--- (freeze_stem, freeze: true), because adapters are trained and it is none, because it follows another network, as a
--- table of sines, as an output that the loss leaves out, or as part of a backbone that was trained before: where the
--- config says that features are taken as they are, or names the weights to start from; or where other layers that were
--- frozen, too, are released on the way.
---@param case culprit.Case
---@return fun(layer: string): boolean
function freezing.declared(case)
  local adapters = case.config:where("match(key, '*lora*|*peft*|*adapter*')"):count() > 0
  local frozen, parts = {}, {} -- what the config's lists name, and its switches
  -- A probe, or features that are taken as they are: all but the output layer is frozen.
  local probe = case.config:where("match(key, '*feature_extract|*feature_extracting|*linear_prob*|*head_only|"
    .. "*train_head|*only_head') and (match(value, 'true|True') or number == 1)"):count() > 0
  local flagged, known = freezing.flagged(case)
  local left_out = unasked(case)
  -- LoRA-FA trains the second matrix of each pair alone.
  local second = case.config:where("match(key, '*variant|*method|*_type|*optim*|*peft*|*adapter*') and "
    .. "match(value, 'lora_fa|lora-fa|LoRA-FA|LoraFA') or match(key, '*lora_fa') and match(value, 'true|True')")
    :count() > 0
  local begin = first_to_learn(case)
  local staged = in_frozen_stages(case)
  local kept = known and (probe or not adapters and backbone(case, flagged) or released(case, flagged))
  for setting in case.config:where("match(key, '*freeze*|*frozen*|*stop_grad*')"):where("not match(key, ?)", LAST)
    :slice(0, 1000):rows() do
    for _, name in ipairs(setting.value:replace("[", ""):replace("]", ""):replace('"', ""):replace("'", "")
      :split(",")) do
      name = name:trim():replace(".*", ""):replace("*", "")
      local switch = name:lower() == "true" and part_of_switch(case, setting.key)
      if switch then
        parts[#parts + 1] = switch
      elseif name ~= "" and not name:lower():glob("false|none|null|0")
        and not setting.key:glob("frozen_stages|*.frozen_stages") then
        frozen[#frozen + 1] = name
      end
    end
  end
  -- A codebook that averages what falls to its codes has no gradient, and no step of the optimizer moves it.
  local averaged = settings.on(case.config:where("match(key, '*ema*codebook*|*codebook*ema*|*ema*quant*|*quant*ema*|"
    .. "*ema*vq*|*vq*ema*|*codebook*decay*|*vq_decay*')")):count() > 0
  local function listed(layer)
    for _, name in ipairs(frozen) do
      if name:lower() == "true" or layer == name or (layer .. "."):contains(name .. ".")
        or name:starts_with(layer .. ".") or bare(name):starts_with(bare(layer) .. ".") then
        return true
      end
    end
    return false
  end
  return function(layer)
    if begin and begin > 0 and (block(layer) or begin) < begin or staged(layer) then return true end
    if begin and begin > 0 and not block(layer) and layer:lower():glob("*emb*|*wte*|*wpe*|*tok|*pos|*patch*") then
      return true
    end
    -- The recorder's list is surer than names.
    local unasked_for, all_unasked_for = flagged(layer)
    if unasked_for and (kept or layer:lower():glob(taken) or is_fixed(all_unasked_for)) then return true end
    if probe and not known and not layer:lower():glob("*head*|fc|*.fc|*classifier*|*output*|*probe*|*logits*") then
      return true
    end
    if second and layer:lower():glob("*lora_a|*lora_a.*") then return true end
    -- PEFT trains a copy of what it is told to save beside the adapters, and calls it so.
    if adapters and not layer:lower():glob("*lora*|*adapter*|*modules_to_save*") then return true end
    if layer:lower():glob(followers) or sines(case, layer) or left_out(layer) then return true end
    if averaged and layer:lower():glob("*quantiz*|*codebook*|*vq*") then return true end
    -- Models without a task of their own come with a pooler, which nothing uses.
    if layer:lower():glob("*.pooler|*.pooler.*|pooler|pooler.*") and not layer:contains("modules_to_save") then
      return true
    end
    for _, name in ipairs(parts) do
      if layer:lower():contains(name) then return true end
    end
    return listed(layer) or #frozen > 0 and under_another_name(case, layer, listed)
  end
end

--- The share of a layer's elements, or the model's, that no update changes: the same number, to four digits, at nearly
--- every logged step from the first on, and never less, while the rest moves. What is lost in rounding, has no gradient
--- for this batch or belongs to tokens that it lacks comes and goes; where updates are smallest, some of it is added.
--- Nil where it is none; `known` is whether it could be told.
---@param shares culprit.Table  unchanged_share, of one layer or of the model
---@param ratios culprit.Table  update_ratio, of the same
---@param least number          a smaller share is not told: rows of an embedding that no text has
---@return number? share, boolean known
function freezing.still(shares, ratios, least)
  local both = shares:join(ratios:select("step", "value"), { "step" })
  -- An update of a hundred-thousandth is far above what fp32 rounds away.
  local moving = both:where("value_right > 1e-5"):sort("step")
  if moving:count() < 4 then return nil, false end
  local low, high = moving:min("value"), moving:max("value")
  -- The same elements at each step: their number is the least, and the usual.
  -- As few others as of a table of which each batch asks for as many rows would not be that evenly many.
  local slack = math.max(1.1e-5, 2e-3 * math.min(low, 1 - low))
  local same = moving:where("value <= ?", low + slack):count()
  if low >= least and high < 1 and same >= math.max(4, 0.8 * moving:count()) and high - low <= 10 * slack
    and moving:count() >= 0.5 * both:count() then
    return low, true
  end
  return nil, true
end

--- Whether units that are silent for every sample account for the still share of a layer. Such a unit has no
--- gradient: what leads to it in the layer before it stands still, and what leads away from it in the layer behind it,
--- in the same share of the units. Of a frozen weight the neighbours know nothing. It takes an activation with zeros on
--- record, in as large a share.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@param share number
---@return boolean
function freezing.silent(layered, layer, share)
  if layered:where { metric = "zero_share" }:where("value >= ?", share):count() == 0 then return false end
  local usual, order = {}, {}
  for name, rows in layered:where { metric = "unchanged_share" }:group("layer") do
    usual[name], order[#order + 1] = rows:median("value"), { name = name, place = rows:min("place") or 0 }
  end
  -- Layers are logged in the order of the model.
  table.sort(order, function(a, b) return a.place < b.place or a.place == b.place and a.name < b.name end)
  for i, one in ipairs(order) do
    if one.name == layer then
      local before = order[i - 1] and usual[order[i - 1].name] or 0
      local behind = order[i + 1] and usual[order[i + 1].name] or 0
      return share <= 1.1 * (1 - (1 - math.min(1, before)) * (1 - math.min(1, behind))) + 0.02
    end
  end
  return false
end

--- Whether a share is that of the places of a kernel which meet nothing but padding, of a map that is no larger than
--- they: a line or two of three, of five, or all but the middle one, with up to a thirtieth less for what is logged
--- beside it.
local function over_padding(share)
  for _, part in ipairs { 1 / 5, 1 / 3, 2 / 5, 5 / 9, 3 / 5, 2 / 3, 4 / 5, 8 / 9 } do
    if share <= 1.001 * part and share >= 29 / 30 * part then return true end
  end
  return false
end

--- Whether a share of a layer's elements may be that of whole weights, by the sizes that dumps and checkpoints have:
--- not of a single one, of vectors alone, nor where no few of several add up to it. Where they tell nothing it may, but
--- for what is one map by its name: that is a weight and a bias, which is a ninth of both at most where eight inputs
--- come in. What lies between are outputs that nobody asks for, as of a network for two frames that is asked about one,
--- or places of a kernel that meet nothing but padding.
local function of_whole_weights(case, layer, share)
  local sizes, total, seen, matrix = {}, 0, {}, false
  -- A weight that is made of another is called as that is, and its buffers begin where it does.
  local below = layer .. "."
  local of = case.tensors:where("name == ? or starts_with(name, ?) or layer == ? or starts_with(layer, ?)", layer,
    below, layer, below)
  local weights = of:where("role == 'weight' and variant is null")
  if weights:count() == 0 then
    weights = of:where("role == 'value' and match(name, '*.original|*.original?') and match(dtype, '*float*')")
  end
  -- A part that has a file of its own is called there without its own name: net.3.weight of pose.net.3.
  local rest = layer:split(".")
  if weights:count() == 0 and #rest > 1 then
    weights = case.tensors:where("role == 'weight' and variant is null")
      :where { layer = table.concat(rest, ".", 2) }
  end
  -- Or a checkpoint has the model under a name, as model_pos.shrink, where what is logged may have a norm besides.
  local renamed = false
  if weights:count() == 0 then
    weights = case.tensors:where("role == 'weight' and variant is null and ends_with(layer, ?)", "." .. layer)
    renamed = weights:distinct("layer"):count() == 1
    if not renamed then weights = weights:slice(0, 0) end
  end
  -- Weights of other names, as those of a filter bank, stand in checkpoints alone.
  if weights:count() == 0 then
    weights = case.tensors:where("role == 'value' and variant is null and match(dtype, '*float*') and numel > 1 and "
      .. "match(name, '*state_dict*') and not match(name, '*running_*')"):where("match(name, ?)", "*." .. below .. "*")
  end
  for row in weights:slice(0, 200):rows() do
    -- A dump and a checkpoint call the same weight differently, up to the layer.
    local parts = row.name:split(".")
    local own_name = tostring(row.layer) .. "." .. parts[#parts]
    if not seen[own_name] then
      seen[own_name] = true
      sizes[#sizes + 1], total = row.numel, total + row.numel
      matrix = matrix or #(row.shape or {}) > 1
    end
  end
  -- Of a norm the gain or the offset may be left as it is, as behind features that are compared.
  if #sizes > 0 and not matrix or #sizes == 0 and layer:lower():glob(NORMS) then return false end
  if #sizes == 0 then
    -- Decay may leave these out as well.
    if rest[#rest]:lower():glob("*conv*|*sampl*|*patch*|*stem*") and over_padding(share) then return false end
    -- The third of a chain is one map where the chain is none of blocks.
    local chain = tonumber(rest[#rest]) and (rest[#rest - 1] or "")
    local one_map = chain and not chain:glob("*block*|*layer*|h|*stage*|*rnn*|*lstm*|*gru*|*encoder*|*decoder*|"
      .. "*expert*")
      or rest[#rest]:glob("conv|conv?|linear|linear?|fc|fc?|proj|*_proj|*filterbank*")
    return not (one_map and share > 1 / 9 and share < 8 / 9) or (settings.number(case, "weight_decay") or 0) > 0
  end
  if #sizes == 1 then return renamed and share >= 8 / 9 end
  -- Dumps may hold a part of a weight; where nothing tells they are taken for whole, as those of checkpoints are.
  local own  = case.scalars:where { primary = true, layer = layer }:where("value > 0")
  local norm = own:where { metric = "weight_norm" }:first()
  local size = norm and own:where { metric = "weight_rms", step = norm.step }:first()
  if #sizes > 10 or size and math.abs((norm.value / size.value) ^ 2 / total - 1) > 0.01 then return true end
  local sums = { 0 }
  for _, one in ipairs(sizes) do
    for i = 1, #sums do sums[#sums + 1] = sums[i] + one end
  end
  for _, sum in ipairs(sums) do
    if math.abs(sum / total - share) <= 1e-3 * share then return true end
  end
  return false
end

--- Whether a dumped batch has places of its last axis that are 0 in all rows, as categories that never come up: what
--- the first layer makes of them gets no gradient.
---@param case culprit.Case
---@return boolean
local function batch_has_zeros(case)
  local zeros = {}
  local dumped = case.tensors:where("match(name, 'batch.*') and match(dtype, '*float*') and numel <= 1000000 and "
    .. "not match(name, '*label*|*target*|*mask*|*weight*')")
  for row in dumped:sort("step"):slice(0, 8):rows() do
    local axis = row.shape and #row.shape - 1 or 0
    if axis >= 1 and row.shape[1] >= 2 and row.shape[axis + 1] <= 10000 then
      for place, largest in ipairs(row:along(axis, "abs_max")) do
        local key = row.name .. ":" .. place
        zeros[key] = largest == 0 and zeros[key] ~= false
      end
    end
  end
  for _, always in pairs(zeros) do
    if always then return true end
  end
  return false
end

--- A part of what is logged as one layer that never changes, as one weight of several: share and rows, or nil.
--- Embeddings have rows that no text asks for, and the first layer columns for which nothing ever comes; what starts at
--- zero, or has dead units, gets no gradient in part.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@param least number
---@param case culprit.Case?  whose dumps and checkpoints tell how many weights there are: of one no part is frozen
---@return table?
function freezing.part(layered, layer, least, case)
  local own    = layered:where { layer = layer }
  local shares = own:where { metric = "unchanged_share" }:sort("step")
  if shares:count() == 0 or layer:lower():glob("*emb*|*wte*|*wpe*|*tok*|*table*|*pos|*pos.*|*pos_*|*position*") then
    return nil
  end
  -- Rates that are learned have an entry for steps and layers that are not asked for.
  if layer:lower():glob("*learning_rate*|*inner_lr*|*lrs|*alphas*") or (numbers(layered, layer) or 99) < 32 then
    return nil
  end
  local share = freezing.still(shares, own:where { metric = "update_ratio" }, least)
  if not share then return nil end
  -- A weight stands still or moves as one; what stands still of a lone one are rows that no batch asks for.
  if case and not of_whole_weights(case, layer, share) then return nil end
  if layered:where { metric = "zero_share" }:where("value >= 0.9"):count() > 0 then return nil end
  for _, grads in layered:where { metric = "grad_norm" }:group("layer") do
    if grads:sort("step"):first().value == 0 and grads:max("value") > 0 then return nil end
  end
  if freezing.silent(layered, layer, share) then return nil end
  local first = layered:where { metric = "update_ratio" }:sort("place"):first()
  if case and first and first.layer == layer and batch_has_zeros(case) then return nil end
  return { layer = layer, share = share, rows = shares }
end

return freezing
