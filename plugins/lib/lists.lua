--- Lists as people read them.

local lists = {}

--- The first `most` names, and how many more there are: a, b and 3 more.
---@param names string[]
---@param most integer
---@return string
function lists.first(names, most)
  return table.concat(names, ", ", 1, math.min(most, #names))
    .. (#names > most and (" and %d more"):format(#names - most) or "")
end

--- Numbered things: rank 3; ranks 0, 1 and 2; of more than ten the first eight and how many more.
---@param word string
---@param list any[]
---@return string
function lists.counted(word, list)
  if #list == 1 then return ("%s %s"):format(word, list[1]) end
  if #list > 10 then return ("%ss %s"):format(word, lists.first(list, 8)) end
  return ("%ss %s and %s"):format(word, table.concat(list, ", ", 1, #list - 1), list[#list])
end

--- One list behind the other.
---@param front any[]
---@param back any[]
---@return any[]
function lists.joined(front, back)
  local out = {}
  for _, list in ipairs { front, back } do
    for _, one in ipairs(list) do out[#out + 1] = one end
  end
  return out
end

return lists
