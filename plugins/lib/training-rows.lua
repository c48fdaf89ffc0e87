--- Dumped rows, by what they were dumped for.

local training = {}

--- The rows of what was trained on: without those that a dump says are held out.
---@param rows culprit.Table  of case.tensors
---@return culprit.Table
function training.trained(rows)
  return rows:where("variant is null or not match(variant, 'val*|eval*|test*|held*')")
end

--- The tensors of the batches that were trained on whose values were dumped, by step.
---@param case culprit.Case
---@return culprit.Table
function training.batches(case)
  return training.trained(case.tensors:where("match(name, 'batch.*') and zero_share is not null and step is not null"))
    :sort("step")
end

return training
