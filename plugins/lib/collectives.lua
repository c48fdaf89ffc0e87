--- Collectives and their ranks, in words and figures.

local lists = require("lists")

local collectives = {}

--- Ranks as people read them: rank 3; ranks 0, 1 and 2.
---@param list integer[]
---@return string
function collectives.ranks(list) return lists.counted("rank", list) end

--- The process group of a row: group 0 (default_pg).
---@param row culprit.Row  with group and group_name
---@return string
function collectives.group(row)
  return row.group_name and ("group %s (%s)"):format(row.group, row.group_name) or "group " .. row.group
end

--- The number of elements of all tensors of a list of shapes: 10 for [[2, 3], [4]]. Nil without one.
---@param shapes string?
---@return number?
function collectives.elements(shapes)
  if not shapes then return nil end
  local sum = 0
  for _, part in ipairs(shapes:split("]")) do
    local sizes = part:numbers()
    if #sizes > 0 or part:ends_with("[") then
      local product = 1
      for _, size in ipairs(sizes) do product = product * size end
      sum = sum + product
    end
  end
  return sum
end

return collectives
