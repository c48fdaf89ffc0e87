--- Updates over weights as a run logs them: of the layers that tell of the others' rates, and of all weights together.

local freezing = require("freezing")

local update_ratios = {}

---@class update_ratios.Found
---@field ratios culprit.Table  of the layers that tell, or of the whole where no layers are logged; by step
---@field usual culprit.Table   step, ratio (of the median layer), largest
---@field whole culprit.Table   of all weights together, which are logged more often than layers
---@field layered boolean       whether layers are logged
---@field base boolean          whether most of the model stands still, and what moves is trained beside it
---@field projected number?      a step that is left out, since weights were projected there

--- What never moves, as a teacher or a base that is kept, has no updates; what begins at zero moves by all that it is
--- then, and by a large part of it for long. Neither tells of the others' rates. Nor does one number, as a temperature
--- or a width of noise: it is on its way from one value to another, and where it passes zero it moves by many times
--- itself.
---@param case culprit.Case
---@param ratios culprit.Table  of layers, by step
---@return culprit.Table  ratios of the layers that tell; of all of them where none does
---@return boolean        whether more layers stand still than tell
local function telling(case, ratios)
  local layered = case.scalars:where { primary = true }:where("match(metric, 'weight_norm|weight_rms')")
  local kept, numbers, still, apart = {}, 0, 0, false
  for layer, own in ratios:group("layer") do
    local first = own:first()
    if freezing.one_number(layered, layer) then
      numbers, apart = numbers + 1, true
    elseif own:max("value") == 0 then
      still, apart = still + 1, true
    elseif first.step <= 1 and math.abs(first.value - 1) <= 1e-3 then
      apart = true
    else
      kept[#kept + 1] = layer
    end
  end
  if not apart then return ratios, false end
  if #kept == 0 and still == 0 and numbers > 0 then return ratios:slice(0, 0), false end
  return #kept > 0 and ratios:where { layer = kept } or ratios, still > #kept
end

--- The steps whose updates no rate makes: what an update d takes from weights w it takes from their length as well,
--- |w|^2 - |w + d|^2 = |d|^2, in three of four of those that lose a third of themselves and more. So do weights that
--- are projected: pruned, masked, tied or rounded to what they share. The d of a gradient adds its own square instead,
--- and a decay by a factor takes more. The first ones of many such steps are looked at.
---@param case culprit.Case
---@param rows culprit.Table  update ratios, of layers or of the whole
---@return number[]
function update_ratios.projected(case, rows)
  local torn, out = rows:where("value >= 0.3 and value < 0.95"), {}
  local steps = torn:distinct("step"):sort("step"):slice(0, 10)
  if steps:count() == 0 then return out end
  local norms = case.scalars:where { metric = "weight_norm", primary = true }:where("finite(value)"):sort("step")
  norms = norms:where(torn:first().layer and "layer is not null" or "layer is null")
  for step, own in torn:where("step <= ?", steps:last().step):group("step") do
    local seen, fits = 0, 0
    local next_ = norms:where("step > ?", step):min("step")
    local here  = norms:where("step == ? or step == ?", step, next_ or step)
    for row in own:slice(0, 200):rows() do
      local same = row.layer and here:where { layer = row.layer } or here
      local before, after = same:where { step = step }:first(), same:where("step > ?", step):first()
      if before and after then
        local gone = (before.value ^ 2 - after.value ^ 2) / (row.value * before.value) ^ 2
        seen = seen + 1
        if gone > 0.9 and gone < 1.1 then fits = fits + 1 end
      end
    end
    if seen > 0 and fits >= 0.75 * seen and (seen >= 3 or not own:first().layer) then out[#out + 1] = step end
  end
  return out
end

--- What a run logs; nil where that are updates of second factors alone, which begin at zero.
---@param case culprit.Case
---@return update_ratios.Found?
function update_ratios.of(case)
  local rows   = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
  local projected
  for _, of in ipairs { rows:where("layer is not null"), rows:where("layer is null") } do
    for _, step in ipairs(update_ratios.projected(case, of)) do
      rows, projected = rows:where("step != ?", step), projected or step
    end
  end
  -- A second factor that begins at zero is small against its updates for long.
  local layers = rows:where("layer is not null and not match(layer, '*lora_b*|*lora_B*|*lora_up*')")
  local whole  = rows:where("layer is null"):sort("step")
  local layered, base, ratios = layers:count() > 0, false, whole
  if layered then ratios, base = telling(case, layers:sort("step")) end
  if ratios:count() == 0 and rows:count() > 0 then return nil end
  return {
    ratios = ratios, whole = whole, layered = layered, base = base, projected = projected,
    usual  = ratios:aggregate({ "step" }, { ratio = "median value", largest = "max value" }):renamed("update ratios"),
  }
end

return update_ratios
