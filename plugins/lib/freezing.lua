--- What a config declares as frozen: that it does not learn is no fault. And parts of layers, or of the whole model,
--- that never move.

local freezing = {}

--- Networks that follow another and are never trained by the loss: teachers, averages, targets, reference models.
local followers = "*teacher*|*momentum_enc*|*encoder_k|*encoder_k.*|ema|ema.*|*.ema|*.ema.*|*ema_model*|*target_net*"
  .. "|*target_enc*|*target_model*|*target_q*|*ref_model*|*reference_model*|*lpips*"

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

--- A function that says of a layer's name whether it is frozen by declaration or design: by a list of names
--- (freeze_layers), by a switch for a part or for all (freeze_stem, freeze: true), because adapters are trained and
--- it is none, because it follows another network, or as a table of sines.
---@param case culprit.Case
---@return fun(layer: string): boolean
function freezing.declared(case)
  local adapters = case.config:where("match(key, '*lora*|*peft*|*adapter*')"):count() > 0
  local frozen, parts = {}, {} -- what the config's lists name, and its switches
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
    if adapters and not layer:lower():glob("*lora*|*adapter*") then return true end
    if layer:lower():glob(followers) or sines(case, layer) then return true end
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

--- The share of a layer's elements, or the model's, that no update changes: the same number, to four digits, at every
--- logged step from the first on, while the rest moves. What is lost in rounding, has no gradient for this batch or
--- belongs to tokens that it lacks comes and goes. Nil where it is none; `known` is whether it could be told.
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
  if low >= least and high < 1 and high - low <= 2e-3 * low and moving:count() >= 0.5 * both:count() then
    return moving:median("value"), true
  end
  return nil, true
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
  if shares:count() == 0 or layer:lower():glob("*emb*|*wte*|*wpe*|*tok*|*table*") then return nil end
  local share = freezing.still(shares, own:where { metric = "update_ratio" }, least)
  if not share then return nil end
  if layered:where { metric = "zero_share" }:where("value >= 0.9"):count() > 0 then return nil end
  for _, grads in layered:where { metric = "grad_norm" }:group("layer") do
    if grads:sort("step"):first().value == 0 and grads:max("value") > 0 then return nil end
  end
  return { layer = layer, share = share, rows = shares }
end

return freezing
