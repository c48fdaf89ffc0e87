--- What the optimizer of a checkpoint holds, beside what it has a state for: PyTorch's make the state of a parameter
--- when they first step it, which they do where it has a gradient.

local state_names = require("state-names")

local held = {}

local LISTED = "match(key, '*param_groups.*.num_params') and number is not null"

--- The newest files that list what their optimizers hold, the last one first: of files that differ by numbers alone
--- one, as networks that learn against each other have a file each.
local function listing(case)
  local newest, order = {}, {}
  for row in case.config:where(LISTED):distinct("source"):slice(0, 1000):rows() do
    local letters = row.source
    for digit = 0, 9 do letters = letters:replace(tostring(digit), "") end
    if not newest[letters] then order[#order + 1] = letters end
    newest[letters] = row
  end
  -- Of many it is not known which are of the run.
  local last = case.config:where(LISTED):last()
  local out  = { last }
  for _, letters in ipairs(#order <= 4 and order or {}) do
    if newest[letters].source ~= last.source then out[#out + 1] = newest[letters] end
  end
  return out
end

--- What one file lists its optimizers to hold: the number of parameters, whether they keep moments of them by their
--- settings, and what stands before the names of each.
---@param case culprit.Case
---@param last culprit.Row  of config, of that file
---@return { held: number, minded: boolean, run: string?, source: string, rows: culprit.Table, whose: table }?
local function holding(case, last)
  local sizes  = case.config:where(LISTED)
  local groups = case.config:where { source = last.source }
  local rows   = sizes:where { source = last.source }
  local whose, several = {}, 0
  for row in rows:rows() do
    local own = row.key:split("param_groups.")[1]
    if not whose[own] then whose[own], several = true, several + 1 end
  end
  -- Counts do not say which of several optimizers lacks a state, where one of them may keep none.
  for own in pairs(several > 1 and whose or {}) do
    if groups:where("starts_with(key, ?) and (match(key, '*.betas') or match(key, '*.momentum') and number > 0)",
      own .. "param_groups."):count() == 0 then return nil end
  end
  -- LBFGS keeps one state for all parameters, at the first of them.
  if groups:where("match(key, '*param_groups.*.history_size')"):count() > 0 then return nil end
  local momenta = groups:where("match(key, '*param_groups.*.momentum') and number is not null")
  local plain   = momenta:where("number == 0"):count()
  -- Nor do they say which of its groups does, where one keeps a momentum and one does not.
  if plain > 0 and plain < momenta:count() then return nil end
  local minded = groups:where("match(key, '*param_groups.*.betas|*param_groups.*.momentum')"):count() > 0
  return { held = rows:sum("number"), minded = minded and plain == 0, run = last.run, source = last.source,
    rows = rows, whose = whose }
end

--- Whether a number stands in a file's name or its folder's, in whatever form: checkpoint-40, ckpt_40.pt, iter0000040.
---@param source string
---@param number number
---@return boolean
local function named(source, number)
  local parts = source:split("/")
  for i = math.max(1, #parts - 1), #parts do
    local digits = ""
    for k = 1, #parts[i] + 1 do
      local one = parts[i]:sub(k, k)
      if tonumber(one) then digits = digits .. one
      elseif tonumber(digits) == number then return true
      else digits = "" end
    end
  end
  return false
end

--- Whether a file is of a step, by its name or a counter in it. One that was saved before the first step has no state
--- of any parameter, whatever stands beside it.
---@param case culprit.Case
---@param source string
---@param step number
---@return boolean
local function is_of(case, source, step)
  return named(source, step) or case.config:where { source = source }
    :where("match(key, '*step*|*iter*|*epoch*') and number == ?", step):count() > 0
end

--- How many parameters have a state in the last checkpoint that has weights or a state; nil where that is told apart
--- by rank, or other optimizers than those that are listed have one.
---@param case culprit.Case
---@param run string?
---@param listed table  what stands before the names of each optimizer
---@return integer? states, integer? step, culprit.Table rows
local function stepped(case, run, listed)
  local all  = case.tensors:where { run = run }:where("step is not null and (role == 'state' or role == 'weight')")
  local step = all:max("step")
  local rows = all:where { role = "state", step = step }:where("match(name, '*state.*')")
  if not step or rows:where("rank is not null"):count() > 0 or rows:count() > 10000 then return nil, nil, rows end
  local seen, count, other, kinds, optimizers = {}, 0, false, 0, {}
  for row in rows:rows() do
    local parts = row.name:split(".")
    local of    = table.concat(parts, ".", 1, #parts - 1)
    local whose = row.name:split("state.")[1]
    if not optimizers[whose] then optimizers[whose], kinds = true, kinds + 1 end
    other = other or not listed[whose]
    if not seen[of] then seen[of], count = true, count + 1 end
  end
  -- A dump of weights alone may be later than the checkpoint that has the states.
  if kinds > 1 and other or count == 0 and case.tensors:where { run = run, role = "state" }:count() > 0 then
    return nil, nil, rows
  end
  return count, step, rows
end

---@class held.Found
---@field held integer    parameters in the optimizer's groups
---@field states integer  of which it has a state
---@field step integer    of the checkpoint
---@field rows culprit.Table
---@field run string?

--- What one file lists, and what has a state in the last checkpoint of its run; nil where it cannot be told.
local function found_of(case, last, early)
  local holds = holding(case, last)
  if not holds then return nil end
  local states, step, rows = stepped(case, holds.run, holds.whose)
  if not states or not step or step < (early or 2) then return nil end
  -- Without moments there is nothing to keep; and more states than parameters are of another file.
  if states > holds.held or states == 0 and not holds.minded then return nil end
  if states == 0 and not is_of(case, holds.source, step) then return nil end
  return { held = math.floor(holds.held), states = states, step = math.floor(step), run = holds.run,
    rows = states > 0 and rows or holds.rows }
end

--- What is held and what has a state in the last checkpoint, of an optimizer that lacks states where there is one; nil
--- where it cannot be told.
---@param case culprit.Case
---@param early number?  a checkpoint of a step below this tells nothing (2): parameters may not have had their turn
---@return held.Found?
function held.found(case, early)
  local first
  for _, last in ipairs(listing(case)) do
    local found = found_of(case, last, early)
    if found and found.states < found.held then return found end
    first = first or found
  end
  return first
end

--- The same of states that are numbered, in the order of the parameters: the layers of a file of weights that has as
--- many as are held, in shapes that those with a state have. The layer of each parameter, and whether it has a state.
local function by_number(case, found)
  local states = {}
  for row in found.rows:where("match(name, '*.exp_avg|*.momentum_buffer|*.exp_avg_sq')"):slice(0, 10000):rows() do
    local place = tonumber(row.layer)
    if not place then return nil end
    states[place + 1] = row
  end
  local layers = state_names.layers_at(case, found.run, states, found.held)
  return layers, states
end

--- The layers of a list of which nothing has a state, each once, and whether all stand before or behind those that have
--- one; nil where there are none of either.
local function of_list(order, has)
  local stepped, listed, layers = {}, {}, {}
  for at, layer in ipairs(order) do stepped[layer] = stepped[layer] or has(at) or false end
  local begun, upstream, behind = false, true, true
  for _, layer in ipairs(order) do
    if stepped[layer] then
      begun, behind = true, behind and #layers == 0
    elseif not listed[layer] then
      listed[layer] = true
      layers[#layers + 1], upstream = layer, upstream and not begun
    end
  end
  if #layers == 0 or not begun then return nil end
  return layers, upstream, behind
end

--- The layers of which no parameter has a state, in the order of the file, and whether all of them stand before those
--- that have one, or behind. Nil where nothing names the states, or other weights are held than the model's.
---@param case culprit.Case
---@param found held.Found
---@return string[]? layers, boolean? upstream, boolean? behind
function held.unstepped(case, found)
  if found.states == 0 then return nil end
  local numbered, has = by_number(case, found)
  if numbered then return of_list(numbered, function(at) return has[at] ~= nil end) end
  local all = case.tensors:where { run = found.run, step = found.step }:where("variant is null and (role == 'weight' "
    .. "or role == 'value' and match(dtype, '*float*') and not match(name, '*running_*|batch.*'))")
  local weights = all:where { role = "weight" }
  -- Parameters of names of their own, as places, are among what has the role of a value, and so are buffers.
  if weights:count() > found.held or all:count() < found.held then return nil end
  local stepped, known, order = {}, {}, {}
  for row in all:sort("order"):slice(0, 10000):rows() do
    if not known[row.layer] then
      known[row.layer] = true
      if row.role == "weight" then order[#order + 1] = row.layer end
    end
  end
  for row in found.rows:where { role = "state" }:slice(0, 10000):rows() do
    if not known[row.layer] then return nil end
    stepped[row.layer] = true
  end
  return of_list(order, function(at) return stepped[order[at]] end)
end

--- Whether so many of the model's parameters are not held, and all that are have had a gradient other than zero: then
--- what stands still was frozen before the optimizer was made. What is cut off, or behind dead units, is held.
---@param case culprit.Case
---@param least integer  layers that stand still
---@return boolean
function held.without(case, least)
  local found = held.found(case)
  if not found or found.states ~= found.held then return false end
  local weights = case.tensors:where { run = found.run, role = "weight", step = found.step }:where("variant is null")
  local zero = found.rows:where("numel > 1 and l2 == 0 and match(name, '*.exp_avg_sq|*.momentum_buffer|*.square_avg')")
  return weights:count() - found.held >= least and zero:count() == 0
end

return held
