--- How far two sequences go together.

local prefixes = {}

--- How many of the `most` first units agree; `same(n)` says whether the n first do.
---@param most integer
---@param same fun(n: integer): boolean
---@return integer
function prefixes.agreeing(most, same)
  local low, high = 0, most
  while low < high do
    local middle = (low + high + 1) // 2
    if same(middle) then low = middle else high = middle - 1 end
  end
  return low
end

return prefixes
