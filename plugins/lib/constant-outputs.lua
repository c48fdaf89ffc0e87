--- Layers out of which the same numbers come, whatever goes in: weights of zero let nothing through, so that a layer
--- puts out its biases, and what follows it sees nothing of the batch.

local constant_outputs = {}

--- Whether batches of these two steps are known to differ: by their hashes, or by the means of a dumped tensor.
---@param case culprit.Case
---@param one integer
---@param other integer
---@return boolean
local function batches_differ(case, one, other)
  local hashes = case.scalars:where { name = "batch_hash", primary = true, step = { one, other } }
  if hashes:distinct("step"):count() > 1 then return hashes:distinct("value"):count() > 1 end
  local dumped = case.tensors:where { step = { one, other } }:where("match(name, 'batch.*') and mean is not null and "
    .. "not match(name, '*label*|*target*|*mask*')")
  for _, rows in dumped:group("name") do
    if rows:distinct("mean"):count() > 1 then return true end
  end
  return false
end

--- What three figures of a layer's outputs are at a step: root mean square, mean and largest.
---@param layered culprit.Table  scalars of layers
---@param step integer
---@return table<string, { rms: number, mean: number, max: number, row: culprit.Row }>  by layer
local function outputs_at(layered, step)
  local found = {}
  for key, metric in pairs { rms = "activation_rms", mean = "activation_mean", max = "activation_max" } do
    for row in layered:where { metric = metric, step = step }:slice(0, 5000):rows() do
      local one = found[row.layer] or {}
      one[key], found[row.layer] = row.value, one
      if key == "rms" then one.row = row end
    end
  end
  return found
end

--- Layers of a fresh model that put out the same numbers at the first two logged steps, of batches that differ, without
--- a gradient at the first: the first layer and a third of all on record, two at least. What is frozen and fed by
--- constants, as by positions, is not the first to see the batch.
---@param case culprit.Case
---@param layered culprit.Table  scalars of layers
---@param step integer           the first logged step
---@return { layer: string, message: string, evidence: culprit.Row[] }?
function constant_outputs.of(case, layered, step)
  local next_one = layered:where { metric = "activation_rms" }:where("step > ?", step):sort("step"):first()
  if not next_one then return nil end
  local before, after = outputs_at(layered, step), outputs_at(layered, next_one.step)
  local found, all, example, leads = {}, 0, nil, false
  for row in layered:where { metric = "activation_rms", step = step }:sort("place"):slice(0, 5000):rows() do
    local a, b = before[row.layer], after[row.layer]
    if b and b.rms then
      all = all + 1
      local grad = layered:where { metric = "grad_norm", step = step, layer = row.layer }:first()
      if a.mean and a.max and a.rms > 0 and a.rms < a.max and a.rms == b.rms and a.mean == b.mean and a.max == b.max
        and grad and grad.value == 0 then
        leads = leads or all == 1
        found[#found + 1], example = row.layer, example or { a.row, b.row }
      end
    end
  end
  if not leads or #found < 2 or 3 * #found < all or not batches_differ(case, step, next_one.step) then return nil end
  local first = before[found[1]]
  return {
    layer    = found[1],
    message  = ("what comes out of %s is the same at steps %d and %d, of other batches (%s: a root mean square of "
      .. "%.4g, a mean of %.4g), and they have no gradient: weights of zero let nothing through but biases"):format(
      table.concat(found, ", ", 1, math.min(4, #found)), step, next_one.step, found[1], first.rms, first.mean),
    evidence = example,
  }
end

return constant_outputs
