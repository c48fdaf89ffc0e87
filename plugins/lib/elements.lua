--- Elements of a tensor, as many as are wanted: `values` gives 10,000 at a time.

local elements = {}

local PIECE = 8192

--- Puts `count` elements from `first` on behind those of `out`.
local function append(out, tensor, first, count)
  local n = #out
  for i, v in ipairs(tensor:values(first, count)) do out[n + i] = v end
end

--- Elements by flat index from 0, fewer where the tensor ends before.
---@param tensor culprit.Row
---@param first integer
---@param count integer
---@return number[]
function elements.of(tensor, first, count)
  if count <= PIECE then return tensor:values(first, count) end
  local out = {}
  for from = first, math.min(first + count, tensor.numel) - 1, PIECE do
    append(out, tensor, from, math.min(PIECE, first + count - from))
  end
  return out
end

--- The same, but of more than `most` only pieces of 1,024 that lie evenly over all of them.
---@param tensor culprit.Row
---@param first integer
---@param count integer
---@param most integer
---@return number[]
function elements.spread(tensor, first, count, most)
  if count <= most then return elements.of(tensor, first, count) end
  local out, pieces = {}, math.max(1, most // 1024)
  for i = 0, pieces - 1 do
    append(out, tensor, first + i * (count - 1024) // math.max(1, pieces - 1), 1024)
  end
  return out
end

return elements
