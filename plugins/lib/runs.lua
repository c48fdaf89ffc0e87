--- Series that runs log, and the runs of a folder one by one.

local runs = {}

--- The finite values of a name, by step: one a step and rank, where several files or a resumed run have more.
---@param case culprit.Case
---@param name string   as loss, lr, grad_norm
---@param run string?   of this run alone; nil: of all runs
---@return culprit.Table  rows of case.scalars
function runs.series(case, name, run)
  return case.scalars:where { name = name, primary = true, run = run }:where("finite(value)"):sort("step")
end

--- What is trained to go up: a series that the run itself calls neither a loss nor a cost, and that is above 0 in no
--- row, as the logarithm of a probability is; its first row, nil of any other.
---@param series culprit.Table  finite values by step
---@return culprit.Row?
function runs.maximised(series)
  local first  = series:first()
  local called = first and tostring(first.raw_name or first.name):lower()
  if not first or called:glob("*loss*|*cost*|*err*|*nll*|*energy*") then return nil end
  return series:max("value") <= 0 and first or nil
end

--- Whether evaluations are counted in epochs and training in steps, as where a table of epochs stands beside a log of
--- steps: the last evaluation has the number of the last epoch, of which training has several steps each.
---@param case culprit.Case
---@param run string?
---@param evals culprit.Table  an evaluation's values
---@return boolean
function runs.by_epochs(case, run, evals)
  local epochs, train = runs.series(case, "epoch", run), runs.series(case, "loss", run)
  if epochs:count() == 0 or train:count() == 0 or evals:count() == 0 then return false end
  local last = evals:max("step")
  return math.abs(epochs:max("value") - last) <= 1 and train:max("step") >= 3 * math.max(1, last)
end

--- Whether each step takes the whole data, as far as epochs or settings say so: a step that is an epoch has it all in
--- its batch.
---@param case culprit.Case
---@return boolean
function runs.whole_data(case)
  local epochs = runs.series(case, "epoch")
  local passed = epochs:count() >= 4 and epochs:last().value - epochs:first().value
  return passed and passed >= 0.9 * (epochs:last().step - epochs:first().step)
    or case.config:where("match(key, '*full_batch') and match(value, 'true|True') or match(key, '*batch_size') and "
      .. "match(value, 'full|all|-1')"):count() > 0
end

--- Whether the same batches come again and again: of those whose hash is on record half and more came before.
---@param case culprit.Case
---@return boolean
function runs.same_batches(case)
  local hashes = case.scalars:where { name = "batch_hash", primary = true }
  return hashes:count() >= 4 and hashes:distinct("value"):count() <= 0.5 * hashes:count()
end

--- The settings of one run: its own and those of the folders above it; all where it has none, since then they are
--- written beside it.
local function settings_of(case, name)
  local own = {}
  for row in case.config:distinct("run"):slice(0, 1000):rows() do
    if row.run and (row.run == name or name:starts_with(row.run .. "/")) then own[#own + 1] = row.run end
  end
  local found = #own > 0 and case.config:where { run = own }
  return found and found:count() > 0 and found or case.config
end

--- A detector's `run` that looks at each run of a folder by itself. Two networks that are trained side by side, the
--- trials of a sweep and the folds of a validation have layers of the same names and none in common: what one of them
--- logs says nothing of the other's. Where there are several runs the case that `judge` gets holds what it has below,
--- and no other table.
---@param judge fun(case: culprit.Case, run: string?)  run: nil where there is but one, else its name for `at`
---@return fun(case: culprit.Case)
function runs.apart(judge)
  return function(case)
    local names = {}
    local function add(rows)
      for row in rows:where("run is not null"):distinct("run"):slice(0, 1000):rows() do names[#names + 1] = row.run end
    end
    add(case.scalars:where("layer is not null"))
    if #names == 0 then add(case.scalars) end
    if #names == 0 then add(case.tensors) end
    if #names < 2 then return judge(case, nil) end
    for _, name in ipairs(names) do
      judge({
        options   = case.options,
        inputs    = case.inputs,
        log_lines = case.log_lines,
        scalars   = case.scalars:where("run is null or run == ?", name),
        tensors   = case.tensors:where("run is null or run == ?", name),
        config    = settings_of(case, name),
      }, name)
    end
  end
end

return runs
