--- Optimizers that begin anew by design: at each task, round or rewinding of a run that goes on.

local restarts = {}

--- The setting by which tasks come one after the other, each with classes or data of its own; nil where none does.
---@param case culprit.Case
---@return culprit.Row?
function restarts.continual(case)
  return case.config:where("match(value, '*class_incremental*|*task_incremental*|*domain_incremental*|"
    .. "*class-incremental*|*task-incremental*|*domain-incremental*')"):first()
    or case.config:where("match(key, '*n_experiences') and number > 1"):first()
end

--- The setting by which the optimizer's state is made anew on the way; nil where none is.
---@param case culprit.Case
---@return culprit.Row?
function restarts.setting(case)
  return case.config:where("match(key, '*num_rounds|*n_rounds|*server_rounds|*comm_rounds|*communication_rounds|"
    .. "*n_experiences|*reset_interval|*reset_every|*reset_freq*|*rewind_step*|*rewind_epoch*|"
    .. "*rewind_iter*|*prune_iterations|*prune_rounds|*pruning_rounds|*prune_iters') and number >= 1"):first()
    or case.config:where("match(value, '*lottery*|FedAvg|fedavg')"):first() or restarts.continual(case)
end

--- Whether a state that counts its own updates began anew in turn: twice or more, and each time as many steps after the
--- last as the first time after the start, or a multiple. What is stopped and continued is so by accident.
---@param begun number[]  the steps at which it began, in order, with that of the start
---@return boolean
function restarts.in_turn(begun)
  if #begun < 3 or begun[2] - begun[1] < 2 then return false end
  local apart = begun[2] - begun[1]
  for _, step in ipairs(begun) do
    if (step - begun[1]) % apart ~= 0 then return false end
  end
  return true
end

return restarts
