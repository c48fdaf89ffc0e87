--- Dumped rows, by what they were dumped for.

local training = {}

--- The rows of what was trained on: without those that a dump says are held out.
---@param rows culprit.Table  of case.tensors
---@return culprit.Table
function training.trained(rows)
  return rows:where("variant is null or not match(variant, 'val*|eval*|test*|held*')")
end

return training
