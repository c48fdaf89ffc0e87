--- What a loss of numbers compares: the tensor of the batch that an output is as far from as the loss of the step is
--- large. That shows what is told of the rows, whatever its name.

local batch_loss = require("batch-loss")
local elements = require("elements")

local compared = {}

local MOST   = 262144 -- values of a tensor that is read
local OTHERS = 6      -- rows that each row is held against

--- Costs of a row of the output, from `i` on, against a row of the target, from `j` on, each in the mean of its values.
local MEASURES = {}

function MEASURES.square(x, i, y, j, width)
  local sum = 0
  for k = 1, width do sum = sum + (x[i + k] - y[j + k]) ^ 2 end
  return sum / width
end

function MEASURES.distance(x, i, y, j, width)
  local sum = 0
  for k = 1, width do sum = sum + math.abs(x[i + k] - y[j + k]) end
  return sum / width
end

--- Of squares up to a difference of one, of distances beyond it.
function MEASURES.smooth(x, i, y, j, width)
  local sum = 0
  for k = 1, width do
    local d = math.abs(x[i + k] - y[j + k])
    sum = sum + (d < 1 and d * d / 2 or d - 0.5)
  end
  return sum / width
end

--- Of targets between 0 and 1, of which outputs are the log-odds.
function MEASURES.odds(x, i, y, j, width)
  local sum = 0
  for k = 1, width do
    local v = x[i + k]
    sum = sum + math.max(v, 0) + math.log(1 + math.exp(-math.abs(v))) - y[j + k] * v
  end
  return sum / width
end

--- How many decibels what is no multiple of the target is above what is, as of sounds that are to be cleaned.
function MEASURES.decibels(x, i, y, j, width)
  local mx, my, xx, yy, xy = 0, 0, 0, 0, 0
  for k = 1, width do mx, my = mx + x[i + k] / width, my + y[j + k] / width end
  for k = 1, width do
    local a, b = x[i + k] - mx, y[j + k] - my
    xx, yy, xy = xx + a * a, yy + b * b, xy + a * b
  end
  if xx == 0 or yy == 0 then return 0 end
  local like = xy * xy / yy
  return -10 * math.log((like + 1e-12) / (math.max(0, xx - like) + 1e-12), 10)
end

--- What rows cost against their own targets, in the mean.
local function own_cost(measure, rows)
  local sum, count = 0, #rows.x // rows.width
  for row = 0, count - 1 do
    sum = sum + measure(rows.x, row * rows.width, rows.y, row * rows.width, rows.width)
  end
  return sum / count
end

--- Each pair of an output and a target of as many numbers that were dumped together, with their values x and y, row by
--- row of `width`, and the loss of their step.
local function pairs_of(case, run)
  local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and step is not null")
    :where("match(dtype, 'float*|bfloat*') and nonfinite == 0 and numel >= 8"):sort("-step")
  -- A log may lie in a folder of its own, and dumps beside it.
  local own = dumped:where { run = run }
  if own:count() > 0 then dumped = own end
  local out = {}
  for target in dumped:where("match(name, 'batch.*') and numel <= ?", MOST):slice(0, 60):rows() do
    local here  = case.tensors:where { run = target.run, step = target.step, variant = target.variant }
    local rows  = target.shape and math.floor(target.shape[1] or 0) or 0
    -- What is given beside it: a batch of one tensor is its own target.
    local given = here:where("match(name, 'batch.*') and name != ? and numel > 1", target.name):count()
    local value = rows >= 8 and given > 0 and target.min < target.max and batch_loss.of(case, target, run)
    local outputs = here:where("role == 'output' and nonfinite == 0 and match(dtype, 'float*|bfloat*')")
      :where("numel == ? and not match(name, 'loss*|*.loss*|batch.*')", target.numel)
    for output in (value and outputs:slice(0, 20) or outputs:slice(0, 0)):rows() do
      local x, y = elements.of(output, 0, output.numel), elements.of(target, 0, target.numel)
      out[#out + 1] = { target = target, output = output, value = value, x = x, y = y, width = target.numel // rows }
    end
  end
  return out
end

--- By how much the costs of a measure have to be multiplied to be the losses of their steps, nil where they are none:
--- one at a step, or the same, whatever it is, at steps of different losses.
local function factor_of(measure, list)
  local low, high, least, most = math.huge, -math.huge, math.huge, -math.huge
  for _, one in ipairs(list) do
    local ratio = one.value / own_cost(measure, one)
    low, high     = math.min(low, ratio), math.max(high, ratio)
    least, most   = math.min(least, one.value), math.max(most, one.value)
  end
  -- A measure that costs nothing is none, nor is one of another sign.
  if low ~= low or high ~= high or low <= 0 or high == math.huge or high > 1.02 * low then return nil end
  if low >= 0.98 and high <= 1.02 then return 1 end
  return most > 1.1 * least and (low + high) / 2 or nil
end

--- What each row costs, and in the mean what it would with the targets of other rows of its batch.
local function costs_of(measure, factor, one, out)
  local width, count = one.width, #one.x // one.width
  for row = 0, count - 1 do
    local other, n = 0, 0
    for by = 1, math.min(OTHERS, count - 1) do
      local j = (row + by) % count
      other, n = other + measure(one.x, row * width, one.y, j * width, width), n + 1
    end
    local own = measure(one.x, row * width, one.y, row * width, width)
    out[#out + 1] = { own = factor * own, other = factor * other / n }
  end
end

--- The rows that were dumped from a step on with the output that the loss is of: what each costs, and what it would
--- with another row's target; nil where no dump shows what the loss compares.
---@param case culprit.Case
---@param run string?
---@param from number
---@return table[]? rows  own, other
---@return culprit.Row? output
---@return culprit.Row? target
function compared.numbers(case, run, from)
  local lists, order = {}, {}
  for _, one in ipairs(pairs_of(case, run)) do
    local key = one.output.name .. " " .. one.target.name
    if not lists[key] then lists[key], order[#order + 1] = {}, key end
    table.insert(lists[key], one)
  end
  for _, key in ipairs(order) do
    local list = lists[key]
    for _, name in ipairs({ "square", "distance", "smooth", "decibels", "odds" }) do
      local shares = true
      for _, one in ipairs(list) do shares = shares and one.target.min >= 0 and one.target.max <= 1 end
      local factor = (name ~= "odds" or shares) and factor_of(MEASURES[name], list)
      local rows = {}
      for _, one in ipairs(factor and list or {}) do
        if one.target.step >= from then costs_of(MEASURES[name], factor, one, rows) end
      end
      if #rows > 0 then return rows, list[1].output, list[1].target end
    end
  end
end

return compared
