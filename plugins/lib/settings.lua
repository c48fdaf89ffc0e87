--- Settings of a run: rows of case.config.

local settings = {}

--- The first number that a setting has whose key is `name`, or ends in `.name`; nil where there is none.
---@param case culprit.Case
---@param name string
---@return number?
function settings.number(case, name)
  local row = case.config:where("match(key, ?)", name .. "|*." .. name):where("number is not null"):first()
  return row and row.number
end

--- The last part of a path, which names a run.
---@param path string
---@return string
function settings.name_of(path)
  local parts = path:split("/")
  return parts[#parts]
end

return settings
