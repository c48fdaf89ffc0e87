--- Rows that are streams: each batch goes on where the one before it ended, as for a recurrent network that keeps its
--- state (truncated backpropagation through time), or one with a memory of earlier rows.

local training = require("training-rows")

local streams = {}

--- Whether the row of ids at one step ends on the label that the same row of the next one begins with, in all rows;
--- nil where that tells nothing: rows that all end on the mark that all begin with go on in any order, so that four
--- rows are needed, three different ids, and none of them in more than half of the rows.
---@return boolean?
local function goes_on(labels, next_ids)
  local shape, after = labels.shape or {}, next_ids.shape or {}
  if #shape ~= 2 or #after ~= 2 or shape[1] ~= after[1] or shape[1] < 4 then return nil end
  local counts, different, most = {}, 0, 0
  for row = 0, shape[1] - 1 do
    local id = labels:element({ row, shape[2] - 1 })
    if id ~= next_ids:element({ row, 0 }) then return false end
    if not counts[id] then different = different + 1 end
    counts[id] = (counts[id] or 0) + 1
    most = math.max(most, counts[id])
  end
  if different < 3 or 2 * most > shape[1] then return nil end
  return true
end

--- What says that rows are streams: the setting that asks for it, or dumped batches of neighbouring steps, more of
--- which go on than do not (few ids agree by chance, and a stream ends); nil where nothing does. Streams cannot be
--- shuffled. Labels that are not shifted, as Transformers' models take them, share no id with the next batch: there the
--- setting alone tells.
---@param case culprit.Case
---@return string?  the key, or the name of the tensor
function streams.told(case)
  local asked = case.config:where("match(key, '*stateful*|*bptt*|*mem_len') and (number > 0 or number is null and "
    .. "value not in ('false', 'False', 'none', 'None', 'null', ''))"):first()
  if asked then return asked.key end
  local ids = training.batches(case):where("match(dtype, 'int*')")
  local told, pairs_, on = nil, 0, 0
  for labels in ids:where("match(name, '*labels|*targets')"):slice(0, 50):rows() do
    local after = ids:where { run = labels.run, variant = labels.variant, rank = labels.rank, step = labels.step + 1 }
      :where("match(name, '*input_ids|*tokens|*inputs')"):first()
    local goes = after and goes_on(labels, after)
    if goes ~= nil then pairs_ = pairs_ + 1 end
    if goes then told, on = after.name, on + 1 end
  end
  return 2 * on > pairs_ and told or nil
end

return streams
