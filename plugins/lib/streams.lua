--- Rows that are streams: each batch goes on where the one before it ended, as for a recurrent network that keeps its
--- state (truncated backpropagation through time), or one with a memory of earlier rows.

local training = require("training-rows")

local streams = {}

--- Whether the row of ids at one step ends on the label that the same row of the next one begins with, in all rows.
local function goes_on(labels, next_ids)
  local shape, after = labels.shape or {}, next_ids.shape or {}
  if #shape ~= 2 or #after ~= 2 or shape[1] ~= after[1] or shape[1] < 4 then return false end
  for row = 0, shape[1] - 1 do
    if labels:element({ row, shape[2] - 1 }) ~= next_ids:element({ row, 0 }) then return false end
  end
  return true
end

--- What says that rows are streams: the setting that asks for it, or two dumped batches of neighbouring steps; nil
--- where nothing does. Streams cannot be shuffled.
---@param case culprit.Case
---@return string?  the key, or the name of the tensor
function streams.told(case)
  local asked = case.config:where("match(key, '*stateful*|*bptt*|*mem_len') and (number > 0 or number is null and "
    .. "value not in ('false', 'False', 'none', 'None', 'null', ''))"):first()
  if asked then return asked.key end
  local ids = training.batches(case):where("match(dtype, 'int*')")
  for labels in ids:where("match(name, '*labels|*targets')"):slice(0, 50):rows() do
    local after = ids:where { run = labels.run, variant = labels.variant, rank = labels.rank, step = labels.step + 1 }
      :where("match(name, '*input_ids|*tokens|*inputs')"):first()
    if after and goes_on(labels, after) then return after.name end
  end
  return nil
end

return streams
