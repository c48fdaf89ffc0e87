--- Series that runs log.

local runs = {}

--- The finite values of a name, by step: one a step and rank, where several files or a resumed run have more.
---@param case culprit.Case
---@param name string   as loss, lr, grad_norm
---@param run string?   of this run alone; nil: of all runs
---@return culprit.Table  rows of case.scalars
function runs.series(case, name, run)
  return case.scalars:where { name = name, primary = true, run = run }:where("finite(value)"):sort("step")
end

return runs
