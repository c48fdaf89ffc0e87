--- Evaluations that are counted, and have no steps of training.

local runs = require("runs")

local epochs = {}

--- Whether the numbers of evaluations are no steps: those of epochs, or of rows of a table. Each is by one more than
--- the one before, from 0 or 1 on, and the last is at a third of training or before: nobody evaluates at each of the
--- first steps and at none later. Or a second log of the training loss ends where they do, at a third or before: it is
--- theirs, and counts rows.
---@param case culprit.Case
---@param run string?
---@param evals culprit.Table  an evaluation's values, by step
---@return boolean
function epochs.counted(case, run, evals)
  if runs.by_epochs(case, run, evals) then return true end
  local rows = evals:count()
  if rows < 4 then return false end
  local first, last = evals:first().step, evals:last().step
  local train = runs.series(case, "loss", run)
  local beside = case.scalars:where { name = "loss", primary = false, run = run }:where("layer is null"):max("step")
  if beside and math.abs(beside - last) <= 1 and train:count() > 0 and train:last().step >= 3 * last then
    return true
  end
  return first <= 1 and last - first == rows - 1 and evals:distinct("step"):count() == rows and train:count() > 0
    and train:last().step >= 3 * last
end

return epochs
