--- What a config declares as frozen: that it does not learn is no fault. And parts of layers, or of the whole model,
--- that never move.

local freezing = {}

--- Networks that follow another and are never trained by the loss: teachers, averages, targets, reference models.
local followers = "*teacher*|*momentum_enc*|*encoder_k|*encoder_k.*|ema|ema.*|*.ema|*.ema.*|*ema_model*|*target_net*"
  .. "|*target_enc*|*target_model*|*target_q*|*ref_model*|*reference_model*|*lpips*"

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
  local named = case.scalars:where("layer is not null and match(layer, ?)", "*" .. name .. "*"):count() > 0
  return named and name or nil
end

--- What the recorder found with requires_grad off, told by the names of parameters: a function that says of a layer's
--- name the first of its parameters in that list, or nil; and whether there is such a list at all. Of long ones the
--- recorder keeps the first 200 names.
---@param case culprit.Case
---@return fun(layer: string): string?, boolean known
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
    for _, name in ipairs(names) do
      if name == layer or name:starts_with(layer .. ".") then return name end
    end
  end, known
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

--- A function that says of a layer's name whether it is frozen by declaration or design: by a list of names
--- (freeze_layers), by a switch for a part or for all (freeze_stem, freeze: true), because adapters are trained and
--- it is none, because it follows another network, as a table of sines, or as part of a backbone that was trained
--- before: where the config says that features are taken as they are, or names the weights to start from.
---@param case culprit.Case
---@return fun(layer: string): boolean
function freezing.declared(case)
  local adapters = case.config:where("match(key, '*lora*|*peft*|*adapter*')"):count() > 0
  local frozen, parts = {}, {} -- what the config's lists name, and its switches
  -- A probe, or features that are taken as they are: all but the output layer is frozen.
  local probe = case.config:where("match(key, '*feature_extract|*feature_extracting|*linear_prob*|*head_only|"
    .. "*train_head|*only_head') and (match(value, 'true|True') or number == 1)"):count() > 0
  local flagged, known = freezing.flagged(case)
  local kept = known and (probe or not adapters and backbone(case, flagged))
  for setting in case.config:where("match(key, '*freeze*|*frozen*|*stop_grad*')"):slice(0, 1000):rows() do
    for _, name in ipairs(setting.value:replace("[", ""):replace("]", ""):replace('"', ""):replace("'", "")
      :split(",")) do
      name = name:trim():replace(".*", ""):replace("*", "")
      local switch = name:lower() == "true" and part_of_switch(case, setting.key)
      if switch then
        parts[#parts + 1] = switch
      elseif name ~= "" and not name:lower():glob("false|none|null|0") then
        frozen[#frozen + 1] = name
      end
    end
  end
  return function(layer)
    -- The recorder's list is surer than names.
    if flagged(layer) and (kept or layer:lower():glob(taken)) then return true end
    if probe and not known and not layer:lower():glob("*head*|fc|*.fc|*classifier*|*output*|*probe*|*logits*") then
      return true
    end
    if adapters and not layer:lower():glob("*lora*|*adapter*") then return true end
    if layer:lower():glob(followers) or sines(case, layer) then return true end
    -- Models without a task of their own come with a pooler, which nothing uses.
    if layer:lower():glob("*.pooler|*.pooler.*|pooler|pooler.*") then return true end
    for _, name in ipairs(parts) do
      if layer:lower():contains(name) then return true end
    end
    for _, name in ipairs(frozen) do
      if name:lower() == "true" or layer == name or (layer .. "."):contains(name .. ".")
        or name:starts_with(layer .. ".") then
        return true
      end
    end
    return false
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
  local same = moving:where("value <= ?", low + 2e-3 * low):count()
  if low >= least and high < 1 and same >= math.max(4, 0.8 * moving:count()) and high - low <= 0.02 * low
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

--- A part of what is logged as one layer that never changes, as one weight of several: share and rows, or nil.
--- Embeddings have rows that no text asks for; what starts at zero, or has dead units, gets no gradient in part.
---@param layered culprit.Table  scalars of layers
---@param layer string
---@param least number
---@return table?
function freezing.part(layered, layer, least)
  local own    = layered:where { layer = layer }
  local shares = own:where { metric = "unchanged_share" }:sort("step")
  if shares:count() == 0 or layer:lower():glob("*emb*|*wte*|*wpe*|*tok*|*table*|*pos|*pos.*|*pos_*|*position*") then
    return nil
  end
  local share = freezing.still(shares, own:where { metric = "update_ratio" }, least)
  if not share then return nil end
  if layered:where { metric = "zero_share" }:where("value >= 0.9"):count() > 0 then return nil end
  for _, grads in layered:where { metric = "grad_norm" }:group("layer") do
    if grads:sort("step"):first().value == 0 and grads:max("value") > 0 then return nil end
  end
  if freezing.silent(layered, layer, share) then return nil end
  return { layer = layer, share = share, rows = shares }
end

return freezing
