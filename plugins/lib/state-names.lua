--- Which parameters an optimizer's states are of, where the file numbers them: PyTorch's state_dict does, in the order
--- of model.parameters(), and the weights lie in another file or under another key.

local state_names = {}

local SOURCES = 16 -- files of weights that are looked at, newest first

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i, size in ipairs(a) do
    if size ~= b[i] then return false end
  end
  return true
end

-- Parameters of one layer that have names of their own.
local PARTS = { ".weight_g", ".weight_v", ".weight_u", ".bias_v" }

local function layer_of(parameter)
  for _, part in ipairs(PARTS) do
    if parameter.layer:ends_with(part) then return parameter.layer:sub(1, #parameter.layer - #part) end
  end
  return parameter.layer
end

--- The layers of the parameters that have the shapes of the states in their order, if buffers alone are passed over;
--- nil where some are of none.
local function follow(states, parameters)
  local out, at = {}, 1
  for _, state in ipairs(states) do
    local shape = state.shape or {}
    while parameters[at] and not same_shape(parameters[at].shape or {}, shape) do
      if parameters[at].role == "weight" then return nil end
      at = at + 1
    end
    if not parameters[at] then return nil end
    out[#out + 1], at = layer_of(parameters[at]), at + 1
  end
  return out
end

--- Files of weights of a run, the newest first: what each has of parameters, in their order.
local function files(case, run)
  local weights = case.tensors:where { run = run }:where("variant is null and source is not null and layer is not null "
    .. "and (role == 'weight' or role == 'value') and match(dtype, '*float*') "
    .. "and not match(name, 'batch.*|battery.*|*running_mean|*running_var')")
  local out = {}
  for _, rows in weights:sort("-step"):group("source") do
    if #out == SOURCES then return out end
    local parameters = {}
    for row in rows:sort("order"):slice(0, 10000):rows() do parameters[#parameters + 1] = row end
    out[#out + 1] = parameters
  end
  return out
end

--- The layer of each state by its place, of states in the order of their numbers; nil where no file of weights has
--- parameters of these shapes in this order.
---@param case culprit.Case
---@param run string?
---@param states culprit.Row[]
---@return string[]?
function state_names.layers(case, run, states)
  for _, parameters in ipairs(files(case, run)) do
    local layers = #parameters >= #states and #parameters < 2 * #states and follow(states, parameters)
    if layers then return layers end
  end
end

--- The layer of each of `count` parameters by its place, where a file has as many and those with a state have its
--- shape; nil where none has.
---@param case culprit.Case
---@param run string?
---@param states table<integer, culprit.Row>  by place, of those that have one
---@param count number
---@return string[]?
function state_names.layers_at(case, run, states, count)
  for _, parameters in ipairs(files(case, run)) do
    local fits, layers = #parameters == count and next(states) ~= nil, {}
    for at, parameter in ipairs(fits and parameters or {}) do
      fits = fits and (not states[at] or same_shape(parameter.shape or {}, states[at].shape or {}))
      layers[at] = layer_of(parameter)
    end
    if fits then return layers end
  end
end

return state_names
