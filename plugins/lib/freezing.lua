--- What a config declares as frozen: that it does not learn is no fault.

local freezing = {}

--- A function that says of a layer's name whether the config declares it as frozen: by a list of names
--- (freeze_layers), by a switch for all (freeze: true), or because adapters are trained and it is none.
---@param case culprit.Case
---@return fun(layer: string): boolean
function freezing.declared(case)
  local adapters = case.config:where("match(key, '*lora*|*peft*|*adapter*')"):count() > 0
  local frozen = {} -- what the config's lists name
  for setting in case.config:where("match(key, '*freeze*|*frozen*')"):slice(0, 1000):rows() do
    for _, name in ipairs(setting.value:replace("[", ""):replace("]", ""):replace('"', ""):replace("'", "")
      :split(",")) do
      name = name:trim():replace(".*", ""):replace("*", "")
      if name ~= "" and not name:lower():glob("false|none|null|0") then frozen[#frozen + 1] = name end
    end
  end
  return function(layer)
    if adapters and not layer:lower():glob("*lora*|*adapter*") then return true end
    for _, name in ipairs(frozen) do
      if name:lower() == "true" or layer == name or (layer .. "."):contains(name .. ".")
        or name:starts_with(layer .. ".") then
        return true
      end
    end
    return false
  end
end

return freezing
