--- The loss of a batch that was dumped: what an output or a label of it can be held against.

local batch_loss = {}

--- The loss that was dumped beside a tensor, a single number.
---@param case culprit.Case
---@param beside culprit.Row  a tensor of the batch
---@return culprit.Row?
function batch_loss.dumped(case, beside)
  return case.tensors:where { run = beside.run, step = beside.step, variant = beside.variant, rank = beside.rank }
    :where("match(name, 'loss.output|loss') and numel == 1"):first()
end

--- Its loss, dumped or logged at its step; `run` is that of the log where dumps lie in a folder of their own.
---@param case culprit.Case
---@param beside culprit.Row  a tensor of the batch
---@param run string?
---@return number?
function batch_loss.of(case, beside, run)
  local dumped = batch_loss.dumped(case, beside)
  if dumped then return dumped.mean end
  local logged = case.scalars:where { name = "loss", primary = true, run = run or beside.run, step = beside.step }
    :first()
  return logged and logged.value
end

return batch_loss
