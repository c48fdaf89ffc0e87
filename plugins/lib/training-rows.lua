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

-- What is drawn anew for the same rows, and what is made of it.
local DRAWN = "match(name, '*noise*|*noisy*|*eps|*epsilon|*sigma*|*timestep*|batch.t|*velocity*|*x_t|*xt|*z_t|*mask*')"

--- The labels that differ between two dumped batches of one hash, so that it is of the inputs alone and these are the
--- same at several steps by design, as the points at which functions are known; nil where none do. What noise that is
--- drawn anew makes of the same rows is no label of others.
---@param case culprit.Case
---@param run string?
---@return string?
function training.told_anew(case, run)
  local dumped = training.batches(case):where { run = run }
  if dumped:where(DRAWN):count() > 0 then return nil end
  local hashes = case.scalars:where { metric = "batch_hash", primary = true, run = run }:where("finite(value)")
  local first = {}
  for labels in dumped:where("match(name, '*label|*labels|*target|*targets|batch.y')"):slice(0, 100):rows() do
    local hash = hashes:where { step = labels.step }:first()
    local key  = hash and labels.name .. (" %.17g"):format(hash.value)
    local was  = key and first[key]
    if was and (was.numel ~= labels.numel or was.mean ~= labels.mean or was.l2 ~= labels.l2) then
      return labels.name
    end
    if key then first[key] = was or labels end
  end
end

return training
