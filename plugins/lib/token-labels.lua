--- Labels beside the ids of their batch, place by place: what the two tell of each other, whatever the task is.

local elements = require("elements")
local targets = require("targets")

local token_labels = {}

local PLACES = 16384 -- that are read of a batch, at most

--- Ids and labels of a batch by flat index from 1, how many are read and how many a row has; whole rows alone.
---@param batch culprit.Row[]
---@return number[] ids, number[] labels, integer n, integer width
local function read(batch)
  local shape = batch[2].shape or {}
  local width = math.max(1, math.floor(shape[#shape] or 1))
  local n = math.min(batch[2].numel, PLACES) // width * width
  return elements.of(batch[1], 0, n), elements.of(batch[2], 0, n), n, width
end

--- By how many deviations a table of pairs is away from what chance makes of its margins (chi-square), and how much one
--- of a pair tells of the other, in nats.
---@param pairs_ number[][]  a list of { a, b }
---@return number deviations, number information
local function relation(pairs_)
  local of_a, of_b, of, kinds_a, kinds_b, n = {}, {}, {}, 0, 0, #pairs_
  for _, pair in ipairs(pairs_) do
    local a, b = pair[1], pair[2]
    if not of_a[a] then of_a[a], of[a], kinds_a = 0, {}, kinds_a + 1 end
    if not of_b[b] then of_b[b], kinds_b = 0, kinds_b + 1 end
    of_a[a], of_b[b], of[a][b] = of_a[a] + 1, of_b[b] + 1, (of[a][b] or 0) + 1
  end
  local chi, information = -n, 0
  for a, row in pairs(of) do
    for b, count in pairs(row) do
      chi = chi + n * count * count / (of_a[a] * of_b[b])
      information = information + count / n * math.log(n * count / (of_a[a] * of_b[b]))
    end
  end
  local free = (kinds_a - 1) * (kinds_b - 1)
  return free > 0 and (chi - free) / math.sqrt(2 * free) or 0, information
end

--- Whether labels are told by the ids of their own row, at their place or one of two around it, more than by those of
--- the row beside: what is drawn at random, or of another row, is not. Ids and labels that go by the place alone, as at
--- the start of a row, are the same in every row.
---@param batches culprit.Row[][]  ids and labels of one shape
---@param ignore integer
---@return boolean
function token_labels.related(batches, ignore)
  for lag = -2, 2 do
    local own, beside, known = {}, {}, {}
    for _, batch in ipairs(batches) do
      local x, y, n, width = read(batch)
      local again = false -- a row that was there before tells nothing new
      for i = 1, n > width and n or 0 do
        local at = (i - 1) % width + 1
        if at == 1 then
          local key = table.concat(x, " ", i, i + math.min(width, 32) - 1)
          again, known[key] = known[key], true
        end
        if not again and y[i] >= 0 and y[i] ~= ignore and at + lag >= 1 and at + lag <= width then
          own[#own + 1] = { x[i + lag], y[i] }
          beside[#beside + 1] = { x[(i - 1 + lag + width) % n + 1], y[i] }
        end
      end
    end
    local here, there = relation(own), relation(beside)
    if #own >= 64 and here > 6 and here > 2 * there + 6 then return true end
  end
  return false
end

--- Of the rows whose labels stand at their own ids, rather than at the next ones, the share of labels that are another
--- id than the one given: what a model is to put back. Labels that nobody moved are the ids at every place.
---@param batches culprit.Row[][]
---@param ignore integer
---@return number
function token_labels.restored(batches, ignore)
  local stands, other = 0, 0
  for _, batch in ipairs(batches) do
    local x, y, n, width = read(batch)
    for first = 0, n - width, width do
      local all, own, ahead = 0, 0, 0
      for i = first + 1, first + width do
        if y[i] >= 0 and y[i] ~= ignore then
          all = all + 1
          if y[i] == x[i] then own = own + 1 end
          if i < first + width and y[i] == x[i + 1] then ahead = ahead + 1 end
        end
      end
      if own >= 0.3 * all and own > 1.5 * ahead then stands, other = stands + all, other + all - own end
    end
  end
  return stands > 0 and other / stands or 0
end

--- Whether it is the ids that were changed, where labels are not the next id, and not the labels: beside the id before,
--- the label stands as pairs do that are right, and the id that is given does not.
---@param batches culprit.Row[][]
---@param ignore integer
---@return boolean
function token_labels.ids_changed(batches, ignore)
  local known, odd = {}, {}
  for _, batch in ipairs(batches) do
    local x, y, n, width = read(batch)
    for i = 2, n do
      -- Inside of a row, behind an id that is right itself.
      if i % width ~= 0 and i % width ~= 1 and y[i] >= 0 and y[i] ~= ignore and y[i - 1] == x[i] then
        if y[i] == x[i + 1] then
          known[x[i] * 1048576 + y[i]] = true
        else
          odd[#odd + 1] = { x[i], y[i], x[i + 1] }
        end
      end
    end
  end
  local label, given = 0, 0
  for _, one in ipairs(odd) do
    if known[one[1] * 1048576 + one[2]] then label = label + 1 end
    if known[one[1] * 1048576 + one[3]] then given = given + 1 end
  end
  return label - given > 4 * math.sqrt(label + given)
end

--- Whether rows hold two streams by turns, as of two channels: an id tells more of the second one behind it than of the
--- next, or nearly each stands at even or at odd places alone. In one stream what is further on is told less.
---@param batches culprit.Row[][]
---@return boolean
function token_labels.by_turns(batches)
  local next_, second, parity = {}, {}, {}
  for _, batch in ipairs(batches) do
    local x, _, n, width = read(batch)
    for i = 1, n do
      local left = width - 1 - (i - 1) % width
      parity[x[i]] = parity[x[i]] or { 0, 0 }
      parity[x[i]][(i - 1) % width % 2 + 1] = parity[x[i]][(i - 1) % width % 2 + 1] + 1
      if left >= 2 then
        next_[#next_ + 1]   = { x[i], x[i + 1] }
        second[#second + 1] = { x[i], x[i + 2] }
      end
    end
  end
  local kinds, all, most = 0, 0, 0
  for _, counts in pairs(parity) do
    kinds, all, most = kinds + 1, all + counts[1] + counts[2], most + math.max(counts[1], counts[2])
  end
  if all >= 16 * kinds and most >= 0.95 * all then return true end
  local one, tells = relation(next_)
  local two, told  = relation(second)
  return #second >= 64 and two > 6 and two > one + 6 and told > 1.1 * tells
end

--- Whether all that a model says of a row goes through one vector of it: between an output of the dump that has places
--- and the last that has them there are some without, as of a sequence that is put into a few numbers and read out of
--- them again, and none with. What is handed on from place to place has places in every layer.
---@param case culprit.Case
---@param labels culprit.Row
---@return boolean
function token_labels.through_one(case, labels)
  local width, rows = labels.shape[#labels.shape], labels.shape[1]
  local outputs = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant,
    rank = labels.rank }:where("role == 'output' and order is not null and numel > 1"):sort("order"):slice(0, 400)
  local function has_places(out) return #out.shape == 3 and out.shape[2] == width end
  local last = outputs:where("match(name, '*head*|*logits*|*out*')"):last()
  if not last or not has_places(last) then return false end
  local stage = 0 -- 1: places were seen; 2: behind them one vector a row
  for out in outputs:where("order < ?", last.order):rows() do
    if has_places(out) then
      if stage == 2 then return false end -- another way around it
      stage = 1
    elseif stage >= 1 and #out.shape == 2 and (out.shape[1] == 1 or out.shape[1] == rows and rows ~= width) then
      stage = 2
    elseif stage >= 1 then return false end
  end
  return stage == 2
end

--- Whether labels are classes of tokens, as tags, and no tokens themselves: the config names as many classes, or the
--- model puts out so many numbers a place, and the inputs have twice as many ids.
---@param case culprit.Case
---@param inputs culprit.Row
---@param labels culprit.Row
---@return boolean
function token_labels.are_classes(case, inputs, labels)
  local function fits(count) return labels.max < count and inputs.max >= 2 * count end
  local named = targets.classes(case)
  if named and not named.key:lower():glob("*vocab_size") then return fits(named.number) end
  for out in case.tensors:where { run = labels.run, role = "output" }:where("match(layer, '*classifier|*head|*logits')")
    :slice(0, 20):rows() do
    local shape = out.shape or {}
    local placed = #shape == #labels.shape + 1 and shape[#shape - 1] == labels.shape[#labels.shape]
    if placed then return fits(shape[#shape]) end
  end
  return false
end

return token_labels
