--- Whether something was learned of labels, by what a model that knows nothing but how often each occurs would score:
--- labels that are drawn at random, or are of other rows, leave a held-out loss no lower.

local batch_loss = require("batch-loss")
local elements = require("elements")

local learning = {}

local VALUES = 65536 -- that are read, at most

--- The entropy of some counts, in nats.
---@param counts table<any, number>
---@return number
function learning.entropy(counts)
  local all, sum = 0, 0
  for _, n in pairs(counts) do all = all + n end
  for _, n in pairs(counts) do sum = sum - n / all * math.log(n / all) end
  return sum
end

--- Which loss of numbers a dump shows: that of an output of the labels' shape is the loss of its step, to two parts in
--- a hundred, as a mean of squares or of distances.
---@param case culprit.Case
---@param labels culprit.Row
---@return string?  "square" or "distance"
local function shown(case, labels)
  local here = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank }
  local loss = batch_loss.dumped(case, labels)
  local n = math.min(labels.numel, VALUES)
  local outputs = here:where("role == 'output' and nonfinite == 0 and numel == ?", labels.numel)
  for out in (loss and labels.numel <= VALUES and outputs:slice(0, 20) or outputs:slice(0, 0)):rows() do
    local x, y, square, distance = elements.of(out, 0, n), elements.of(labels, 0, n), 0, 0
    for i = 1, #x do
      square, distance = square + (x[i] - y[i]) ^ 2 / n, distance + math.abs(x[i] - y[i]) / n
    end
    if math.abs(square - loss.mean) <= 0.02 * loss.mean then return "square" end
    if math.abs(distance - loss.mean) <= 0.02 * loss.mean then return "distance" end
  end
end

--- What says that a loss of numbers is no mean of squares or distances of one output each: dumped outputs of which none
--- has as many numbers a row as the targets, as where a scale is told as well. Nil where nothing does.
---@param case culprit.Case
---@param labels culprit.Table
---@return string?
function learning.other_loss(case, labels)
  local seen, fits = 0, 0
  for row in labels:slice(0, 8):rows() do
    local each = row.numel / math.max(1, (row.shape or {})[1] or 1)
    local outputs = case.tensors:where { run = row.run, step = row.step, variant = row.variant, rank = row.rank }
      :where("role == 'output' and numel > 1 and not match(name, 'loss*|*.loss*')")
    for out in outputs:slice(0, 400):rows() do
      seen = seen + 1
      if out.numel / math.max(1, (out.shape or {})[1] or 1) == each or out.numel == row.numel then fits = fits + 1 end
    end
  end
  return seen > 0 and fits == 0 and ("none of %d dumped ones has as many numbers a row as %s"):format(seen,
    labels:first().name) or nil
end

--- What the best constant scores: of whole numbers, which are classes, the entropy; of others the variance or the mean
--- distance from the mean, whichever a dump shows the loss to be. Nil where none does, or labels are all one.
---@param case culprit.Case
---@param labels culprit.Row[]
---@return number?
function learning.of_constant(case, labels)
  local counts, values, mean, kind = {}, {}, 0, nil
  local whole = labels[1].dtype:glob("int*|uint*|bool*")
  for _, row in ipairs(labels) do
    if not whole then kind = kind or shown(case, row) end
    for _, v in ipairs(elements.of(row, 0, math.min(row.numel, VALUES - #values))) do
      if v == v and (not whole or v >= 0) then
        values[#values + 1], counts[v], mean = v, (counts[v] or 0) + 1, mean + v
      end
    end
  end
  if #values < 2 then return nil end
  if whole then return learning.entropy(counts) end
  mean = mean / #values
  local level = 0
  for _, v in ipairs(values) do
    level = level + (kind == "square" and (v - mean) ^ 2 or math.abs(v - mean)) / #values
  end
  return kind and level or nil
end

--- The last row of the held-out loss, or of the training loss where none is held out, if the last three are above 0 and
--- below a part of what the best constant scores; nil where they are not.
---@param case culprit.Case
---@param run string?
---@param level number?  what the best constant scores
---@param part number
---@return culprit.Row?
function learning.of(case, run, level, part)
  for _, name in ipairs({ "val_loss", "loss" }) do
    local series = case.scalars:where { name = name, primary = true, run = run }:where("finite(value)"):sort("step")
    local n = series:count()
    if n > 0 then
      local late = series:slice(math.max(0, n - 3), 3)
      local low  = level and level > 0 and late:min("value") > 0 and late:max("value") < part * level
      return n >= 3 and low and series:last() or nil
    end
  end
end

return learning
