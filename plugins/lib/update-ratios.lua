--- Updates over weights as a run logs them: of the layers that tell of the others' rates, and of all weights together.

local update_ratios = {}

---@class update_ratios.Found
---@field ratios culprit.Table  of the layers that tell, or of the whole where no layers are logged; by step
---@field usual culprit.Table   step, ratio (of the median layer), largest
---@field whole culprit.Table   of all weights together, which are logged more often than layers
---@field layered boolean       whether layers are logged
---@field base boolean          whether most of the model stands still, and what moves is trained beside it

--- What never moves, as a teacher or a base that is kept, has no updates; what begins at zero moves by all that it is
--- then, and by a large part of it for long. Neither tells of the others' rates.
---@param ratios culprit.Table  of layers, by step
---@return culprit.Table  ratios of the layers that tell; of all of them where none does
---@return boolean        whether more layers stand still than tell
local function telling(ratios)
  local kept, still, apart = {}, 0, false
  for layer, own in ratios:group("layer") do
    local first = own:first()
    if own:max("value") == 0 then
      still, apart = still + 1, true
    elseif first.step <= 1 and math.abs(first.value - 1) <= 1e-3 then
      apart = true
    else
      kept[#kept + 1] = layer
    end
  end
  if not apart then return ratios, false end
  return #kept > 0 and ratios:where { layer = kept } or ratios, still > #kept
end

--- What a run logs; nil where that are updates of second factors alone, which begin at zero.
---@param case culprit.Case
---@return update_ratios.Found?
function update_ratios.of(case)
  local rows   = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
  -- A second factor that begins at zero is small against its updates for long.
  local layers = rows:where("layer is not null and not match(layer, '*lora_b*|*lora_B*|*lora_up*')")
  local whole  = rows:where("layer is null"):sort("step")
  local layered, base, ratios = layers:count() > 0, false, whole
  if layered then ratios, base = telling(layers:sort("step")) end
  if ratios:count() == 0 and rows:count() > 0 then return nil end
  return {
    ratios = ratios, whole = whole, layered = layered, base = base,
    usual  = ratios:aggregate({ "step" }, { ratio = "median value", largest = "max value" }):renamed("update ratios"),
  }
end

return update_ratios
