--- Rows of dumped batches that have one label and one input each: nothing else that the label may come from.

local elements = require("elements")

local labelled = {}

--- An expression over case.tensors: labels of whole rows by their names, whose values were dumped.
labelled.NAMES = "match(name, 'batch.y|batch.*label|batch.*labels|batch.*target|batch.*targets|batch.*class|"
  .. "batch.*classes|batch.*class_id|batch.*class_ids|batch.*category') and match(dtype, 'int*|uint*') and "
  .. "zero_share is not null and step is not null"

local TIMES = "batch.t|batch.*time|batch.*times|batch.*timestep|batch.*timesteps|batch.*sigma|batch.*sigmas|"
  .. "batch.*noise_level*"
local NOISES = "*noise*|*eps*|*x_0|*x0|*x_1|*x1|*z|*latent*"
local ROWS, COLUMNS = 240, 256 -- read at most

---@class labelled.Row
---@field x number[]
---@field label integer
---@field batch integer  counted from 1

---@class labelled.Found
---@field rows labelled.Row[]  without those that are like a row before them
---@field batches integer
---@field whole boolean        whether they are all rows of the batches
---@field labels culprit.Row   of the first batch
---@field input culprit.Row    the same batch's

--- A row of `width` values: all, or pieces of it that lie evenly over the whole.
local function row_of(tensor, row, width)
  local out = {}
  if width <= 4096 then
    local x = tensor:values(row * width, width)
    if width <= COLUMNS then return x end
    for i = 1, COLUMNS do out[i] = x[(i - 1) * width // COLUMNS + 1] end
  else
    for piece = 0, 15 do
      for _, v in ipairs(tensor:values(row * width + piece * (width - 16) // 15, 16)) do out[#out + 1] = v end
    end
  end
  return out
end

--- Whether values are drawn from a normal distribution of deviation 1, each by itself.
local function is_noise(tensor)
  local x = elements.of(tensor, 0, math.min(tensor.numel, 4096))
  local n, sum, square, beside = #x, 0, 0, 0
  for i, v in ipairs(x) do
    sum, square = sum + v, square + v * v
    if i > 1 then beside = beside + v * x[i - 1] end
  end
  return n >= 64 and math.abs(sum) < 5 * math.sqrt(n) and math.abs(square - n) < 5 * math.sqrt(2 * n)
    and math.abs(beside) < 5 * math.sqrt(n)
end

--- The one input of the rows that `labels` are of; nil where there is none, or what else labels may come from.
local function input_of(case, labels)
  local rows, found = labels.shape[1], nil
  local batch = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant }
    :where("match(name, 'batch.*') and numel > 1")
  for row in batch:rows() do
    local shape = row.shape or {}
    local float = row.dtype:glob("float*|bfloat*|uint8")
    local time  = float and #shape == 1 and shape[1] == rows and row.name:glob(TIMES)
    if row.name ~= labels.name and not time then
      if not float or row.zero_share == nil or shape[1] ~= rows or row.nonfinite > 0 then return nil end
      local noise = row.dtype:glob("float*") and row.name:glob(NOISES) and is_noise(row)
      if found and not noise then return nil end
      found = not noise and row or found
    end
  end
  return found and found.numel / rows >= 16 and found or nil
end

--- The rows that are like no row before them: a set that is gone through twice has each row twice.
local function distinct(rows)
  local known, out = {}, {}
  for _, row in ipairs(rows) do
    local key = {}
    for c = 1, math.min(16, #row.x) do key[c] = row.x[(c - 1) * #row.x // 16 + 1] end
    key = table.concat(key, " ")
    if not known[key] then known[key], out[#out + 1] = true, row end
  end
  return out
end

--- The rows of a run that labels of one name are of, of its first batches that have inputs alike; nil without one.
---@param case culprit.Case
---@param name string
---@param run string?
---@return labelled.Found?
function labelled.of(case, name, run)
  local rows, found, width = {}, nil, nil
  local series = case.tensors:where(labelled.NAMES):where("numel >= 8"):where { name = name, run = run }:sort("step")
  for labels in series:slice(0, 40):rows() do
    local n = labels.shape and math.floor(labels.shape[1] or 0) or 0
    local input = labels.numel == n and #rows < ROWS and input_of(case, labels)
    if input and (not found or input.name == found.input.name and input.numel / n == width) then
      found = found or { labels = labels, input = input, batches = 0, whole = true }
      width = math.floor(input.numel / n)
      found.batches = found.batches + 1
      for i, label in ipairs(labels:values(0, n)) do
        if #rows >= ROWS or label < 0 then -- a row that is told no class
          found.whole = false
        else
          rows[#rows + 1] = { x = row_of(input, i - 1, width), label = math.floor(label), batch = found.batches }
        end
      end
    end
  end
  if not found then return nil end
  found.rows  = distinct(rows)
  found.whole = found.whole and #found.rows == #rows
  return found
end

return labelled
