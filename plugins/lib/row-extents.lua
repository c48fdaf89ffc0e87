--- How far the rows of dumped batches go: up to the padding that ends them, whatever they hold: ids, frames, columns of
--- a picture.

local elements = require("elements")
local training = require("training-rows")

local extents = {}

local ROWS, VALUES = 160, 8192 -- rows of one tensor, and values of a row, that are read at most

---@class extents.Row
---@field long integer    places up to the padding
---@field width integer   places that there are
---@field batch culprit.Row
---@field row integer     from 0
---@field first number    its first value
---@field last number     the last value that is no padding

---@class extents.Found
---@field name string
---@field rows extents.Row[]
---@field first culprit.Row
---@field integers boolean
---@field padding number?  what rows are padded with
---@field whole boolean    whether what they are padded with hardly stands among what they are of, as it does in tables,
--- pictures and rows of switches

--- What most rows end in, where it stands twice at the end of two of them or more: the padding; nil where rows end in
--- what they are of.
local function padding_of(batches)
  local counts, best, most = {}, nil, 1
  for _, batch in ipairs(batches) do
    local rows = math.floor(batch.shape[1])
    local size = batch.numel // rows
    for row = 0, math.min(rows, 64) - 1 do
      local ends = batch:values(row * size + size - 2, 2)
      if ends[1] == ends[2] then
        counts[ends[1]] = (counts[ends[1]] or 0) + 1
        if counts[ends[1]] > most then best, most = ends[1], counts[ends[1]] end
      end
    end
  end
  return best
end

--- Whether a place of a row holds nothing but padding: a place is `inner` values in a row, or each `count`-th of a row
--- that is read `across`.
local function is_padding(x, t, count, inner, across, padding)
  for k = 1, inner do
    if (across and x[(k - 1) * count + t] or x[(t - 1) * inner + k]) ~= padding then return false end
  end
  return true
end

--- How many places a row goes on for, and how many of those before its last one look like padding.
local function long_of(x, count, inner, across, padding)
  local long, within = count, 0
  while long > 0 and is_padding(x, long, count, inner, across, padding) do long = long - 1 end
  for t = 1, long - 1 do
    if is_padding(x, t, count, inner, across, padding) then within = within + 1 end
  end
  return long, within
end

--- The rows of some batches along their first axis behind that of rows, or along their last; how many of them are
--- padded, and whether padding stands at their ends alone.
---@return extents.Row[] rows, integer padded, boolean whole
local function along(batches, across, padding)
  local out, padded, places, within = {}, 0, 0, 0
  for _, batch in ipairs(batches) do
    local shape, rows = batch.shape, math.floor(batch.shape[1])
    local size  = batch.numel // rows
    local count = math.floor(across and shape[#shape] or shape[2])
    for row = 0, math.min(rows, ROWS - #out) - 1 do
      local x, long, inside = elements.of(batch, row * size, size), count, 0
      if padding then long, inside = long_of(x, count, size // count, across, padding) end
      padded, places, within = padded + (long < count and 1 or 0), places + long, within + inside
      out[#out + 1] = { long = long, width = count, batch = batch, row = row, first = x[1],
        last = x[math.max(1, long * (size // count))] }
    end
  end
  return out, padded, within <= 0.02 * places
end

--- The dumped batches of one name that can be read as rows of places.
local function readable(dumped)
  local out = {}
  for batch in dumped:slice(0, 60):rows() do
    local shape = batch.shape or {}
    local rows  = shape[1] or 0
    if #shape >= 2 and rows >= 2 and math.max(shape[2], shape[#shape]) >= 6 and batch.numel // rows <= VALUES then
      out[#out + 1] = batch
    end
  end
  return out
end

--- The rows of every tensor of the batches that were trained on, by name, where they have places to be cut at.
---@param case culprit.Case
---@return extents.Found[]
function extents.of(case)
  local out = {}
  local dumped = training.batches(case):where("numel > 1 and nonfinite == 0 and not match(name, '*hash*|*mask*|*valid*|"
    .. "*_is_pad|*position_ids|*token_type*|*segment_ids|*seq_idx')")
  for name, rows in dumped:group("name") do
    local batches = readable(rows)
    if #batches > 0 then
      local padding = padding_of(batches)
      local found, padded, whole = along(batches, false, padding)
      if padding and padded == 0 and #batches[1].shape > 2 then
        local other, more, ends = along(batches, true, padding)
        if more > 0 then found, whole = other, ends end
      end
      out[#out + 1] = { name = name, rows = found, first = batches[1], padding = padding, whole = whole,
        integers = batches[1].dtype:glob("int*|uint*") }
    end
  end
  return out
end

---@class extents.Pile
---@field most integer     the greatest length
---@field at extents.Row[] rows that have it
---@field shorter extents.Row[]
---@field kinds integer    lengths that shorter rows have
---@field next integer     rows of the commonest of these
---@field room integer     places behind the longest row that no row of any batch uses

---@param rows extents.Row[]
---@return extents.Pile
function extents.pile(rows)
  local pile, counts = { most = 0, at = {}, shorter = {}, kinds = 0, next = 0, room = 1 << 30 }, {}
  for _, row in ipairs(rows) do pile.most = math.max(pile.most, row.long) end
  for _, row in ipairs(rows) do
    pile.room = math.min(pile.room, row.width - pile.most)
    if row.long == pile.most then pile.at[#pile.at + 1] = row else
      pile.shorter[#pile.shorter + 1] = row
      if not counts[row.long] then pile.kinds = pile.kinds + 1 end
      counts[row.long] = (counts[row.long] or 0) + 1
      pile.next = math.max(pile.next, counts[row.long])
    end
  end
  pile.room = math.max(0, pile.room)
  return pile
end

--- Whether lengths were clipped: those of data spread out to their end, and the greatest of them is not several times
--- as common as any other.
---@param pile extents.Pile
---@return boolean
function extents.clipped(pile)
  return pile.most >= 4 and #pile.at >= math.max(8, 0.12 * (#pile.at + #pile.shorter)) and #pile.shorter >= 8
    and pile.kinds >= 5 and #pile.at >= 4 * pile.next
end

return extents
