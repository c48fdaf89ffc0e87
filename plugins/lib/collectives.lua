--- Collectives and their ranks, in words and figures.

local collectives = {}

--- Ranks as people read them: rank 3; ranks 0, 1 and 2; of more than ten the first eight and how many more.
---@param list integer[]
---@return string
function collectives.ranks(list)
  if #list == 1 then return "rank " .. list[1] end
  local shown = {}
  for i = 1, math.min(#list, #list > 10 and 8 or 10) do shown[i] = tostring(list[i]) end
  if #shown < #list then return ("ranks %s and %d more"):format(table.concat(shown, ", "), #list - #shown) end
  local last = table.remove(shown)
  return ("ranks %s and %s"):format(table.concat(shown, ", "), last)
end

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
