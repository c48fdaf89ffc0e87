--- ## What it detects
--- Rows of any kind, of ids, frames or columns, that were cut at one length while what is asked of them was not. Told
--- by how far the rows of dumped batches go, up to their padding: many have the greatest length and none has more. Then
--- by what does not fit these rows alone: a number that is to be told lies where rows would have to be longer, by what
--- shorter ones have; lengths or a mask of the batch say more than there is; places to be found are nowhere; the token
--- in which the shorter rows end is missing. Where nothing of the kind is there, all rows that end at a limit of the
--- settings with a quarter of the width or more unused behind them count for less, and so do many more rows that end
--- there than one place before.
---
--- ## Why it matters
--- What lies behind the limit is never learned, and what is told of the whole cannot be learned from the rest.
---
--- ## How to confirm
--- Count the lengths of the samples before they are cut, and how many are longer than the limit.
---
--- ## Known false positives
--- Rows that are of one length by themselves, with a limit set to it, in batches that are padded to another one. Long
--- texts that are read in overlapping windows have windows without the answer by design; a stride in the settings says
--- so. A text may be dealt out in pieces, of which only the last has the end: such pieces do not all begin alike.
---
--- ## References
--- https://huggingface.co/docs/transformers/pad_truncation

local elements   = require("elements")
local extents    = require("row-extents")
local statistics = require("statistics")

local TARGETS = "batch.y|batch.*label*|batch.*target*|batch.*value|batch.*values|batch.*score*|batch.*property*"
local PLACES  = "batch.*start*|batch.*end_*|batch.*_end|batch.*position|batch.*positions|batch.*answer*|batch.*span*"
local LIMITS  = "*max*|*limit*|*trunc*|*cut*|*cap"
local ANSWERS = "batch.*target*|batch.*tgt*|batch.*label*|batch.*summar*|batch.*answer*|batch.*decoder*|"
  .. "batch.*caption*|batch.*transcript*|batch.*completion*|batch.*response*"

--- The other tensors of the batch that a row is of.
local function beside(case, row)
  local batch = row.batch
  return case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant, rank = batch.rank }
    :where("match(name, 'batch.*') and zero_share is not null and nonfinite == 0 and name != ?", batch.name)
end

--- What the rows' batches say of each row by one number, in the order of rows: a list for each tensor that has as many
--- numbers as rows.
---@return { name: string, values: table<integer, number> }[]
local function numbers_of(case, rows, globs, types)
  local out, by_name, of = {}, {}, {}
  for i, row in ipairs(rows) do
    local batch = row.batch
    if not of[batch] then
      of[batch] = {}
      for other in beside(case, row):where("match(name, ?) and match(dtype, ?) and numel == ?", globs, types,
        batch.shape[1]):slice(0, 20):rows() do
        table.insert(of[batch], { name = other.name, values = elements.of(other, 0, math.min(other.numel, 4096)) })
      end
    end
    for _, own in ipairs(of[batch]) do
      local list = by_name[own.name]
      if not list then
        list = { name = own.name, values = {} }
        by_name[own.name], out[#out + 1] = list, list
      end
      list.values[i] = own.values[row.row + 1]
    end
  end
  return out
end

--- The line of numbers over lengths of rows: slope, its standard error, the value at a length and the variance about
--- it.
local function line_of(rows, y, at)
  local n, x_, y_ = 0, 0, 0
  for i, row in ipairs(rows) do if y[i] then n, x_, y_ = n + 1, x_ + row.long, y_ + y[i] end end
  if n < 8 then return nil end
  x_, y_ = x_ / n, y_ / n
  local xx, xy, left = 0, 0, 0
  for i, row in ipairs(rows) do
    if y[i] then xx, xy = xx + (row.long - x_) ^ 2, xy + (row.long - x_) * (y[i] - y_) end
  end
  if xx == 0 then return nil end
  local slope = xy / xx
  for i, row in ipairs(rows) do
    if y[i] then left = left + (y[i] - y_ - slope * (row.long - x_)) ^ 2 / (n - 2) end
  end
  return slope, math.sqrt(left / xx), y_ + slope * (at - x_), left * (1 / n + (at - x_) ^ 2 / xx)
end

--- What is to be told of the longest rows is what only longer ones have, by the line through the shorter ones. Rows
--- that are as long by themselves lie on that line.
local function beyond(case, pile)
  local told = numbers_of(case, pile.at, TARGETS, "float*|bfloat*")
  for k, own in ipairs(numbers_of(case, pile.shorter, TARGETS, "float*|bfloat*")) do
    local slope, error_, expected, variance = line_of(pile.shorter, own.values, pile.most)
    local n, sum, square = 0, 0, 0
    for i in ipairs(pile.at) do
      local v = told[k] and told[k].name == own.name and told[k].values[i]
      if v then n, sum, square = n + 1, sum + v, square + v * v end
    end
    if slope and n >= 8 and math.abs(slope) > 5 * error_ then
      local mean = sum / n
      local by = math.sqrt(math.max(0, square / n - mean * mean) / n + variance)
      local longer = (mean - expected) / slope
      if longer >= 0.1 * pile.most and math.abs(mean - expected) > 4 * by then
        return 0.93, ("%s of these is %.3g on average, and %.3g by the line through the shorter ones: that of rows "
          .. "of %d"):format(own.name, mean, expected, math.floor(pile.most + longer + 0.5))
      end
    end
  end
end

--- How many ones a mask of the batch has for a row, where they stand at its beginning.
local function masks_of(case, rows)
  local out, of = {}, {}
  for i, row in ipairs(rows) do
    local batch = row.batch
    if of[batch] == nil then
      of[batch] = beside(case, row):where("match(name, '*mask|*valid*') and numel == ? and min >= 0 and max == 1",
        batch.shape[1] * row.width):first() or false
    end
    if of[batch] then
      local sum = 0
      for _, v in ipairs(of[batch]:values(row.row * row.width, row.width)) do sum = sum + v end
      out[i] = sum
    end
  end
  return { name = "the mask", values = out }
end

--- Lengths that the batch has are those of the shorter rows, and more than there is of the longest.
local function says_more(case, pile)
  local function all(rows)
    local out = numbers_of(case, rows, "batch.*len*|batch.*frames|batch.*_n|batch.n_*|batch.num_*|batch.*size*|"
      .. "batch.*duration*", "int*|uint*")
    out[#out + 1] = masks_of(case, rows)
    return out
  end
  local longest = all(pile.at)
  for k, own in ipairs(all(pile.shorter)) do
    local n, equal, more, known = 0, 0, 0, 0
    for i, row in ipairs(pile.shorter) do
      local v = own.values[i]
      if v then n, equal = n + 1, equal + (v == row.long and 1 or 0) end
    end
    for i in ipairs(pile.at) do
      local v = longest[k] and longest[k].name == own.name and longest[k].values[i]
      if v then known, more = known + 1, more + (v > pile.most and 1 or 0) end
    end
    if n >= 4 and equal >= 0.95 * n and more >= math.max(4, 0.5 * known) then
      return 0.93, ("%s says so of the shorter ones, and of %d of these that they are longer"):format(own.name, more)
    end
  end
end

--- Places that are to be found are nowhere in many of the longest rows: all the same, which hardly any shorter one has.
local function nowhere(case, pile)
  if case.config:where("match(key, '*stride*|*overlap*') and number > 0"):count() > 0 then return nil end
  local longest = numbers_of(case, pile.at, PLACES, "int*")
  for k, own in ipairs(numbers_of(case, pile.shorter, PLACES, "int*")) do
    local counts, n, m, common = {}, 0, 0, nil
    for i in ipairs(pile.at) do
      local v = longest[k] and longest[k].name == own.name and longest[k].values[i]
      if v then
        n, counts[v] = n + 1, (counts[v] or 0) + 1
        if v <= 0 and (not common or counts[v] > counts[common]) then common = v end
      end
    end
    local few = 0
    for i in ipairs(pile.shorter) do
      local v = own.values[i]
      if v then m, few = m + 1, few + (v == common and 1 or 0) end
    end
    local many = common and counts[common] or 0
    if n >= 8 and m >= 8 and many >= 4 and many / n > few / m and statistics.fisher(many, n, few, m) < 1e-4 then
      return 0.9, ("%s is %d in %d of %d of these and in %d of the %d shorter ones: what it is to find was cut off")
        :format(own.name, math.floor(common), many, n, few, m)
    end
  end
end

--- The share of rows that have the commonest of their first or last values, and that value.
local function common_of(rows, which)
  local counts, best = {}, nil
  for _, row in ipairs(rows) do
    local v = row[which]
    counts[v] = (counts[v] or 0) + 1
    if not best or counts[v] > counts[best] then best = v end
  end
  return best, best and counts[best] / #rows or 0
end

--- The id that the shorter rows end in is missing in the longest. Of a text that is dealt out in pieces the last one
--- alone has the end: pieces do not all begin alike, and an answer beside its question is none.
local function endless(case, found, pile)
  if not found.integers then return nil end
  local last, share = common_of(pile.shorter, "last")
  local ended = 0
  for _, row in ipairs(pile.at) do ended = ended + (row.last == last and 1 or 0) end
  if share < 0.95 or ended > 0.5 * #pile.at then return nil end
  local first, alike = common_of(pile.shorter, "first")
  local begun = 0
  for _, row in ipairs(pile.at) do begun = begun + (row.first == first and 1 or 0) end
  local whole = alike >= 0.95 and begun >= 0.95 * #pile.at
  local asked = pile.at[1].batch.name:glob(ANSWERS)
    or beside(case, pile.at[1]):where("match(name, 'batch.*') and not match(name, '*len*|*hash*|*mask*|*position*|"
      .. "*token_type*|*segment*')"):where("numel >= ?", pile.at[1].batch.shape[1]):count() > 0
  if not whole and not asked then return nil end
  return 0.9, ("%d of them end in %d, as %d %% of the shorter ones do"):format(ended, math.floor(last),
    math.floor(100 * share + 0.5))
end

--- A setting that is the greatest length, one that says so before any other.
local function setting_of(case, most)
  local equal = case.config:where("number == ?", most)
  return equal:where("match(key, ?) and not match(key, '*grad*|*norm*|*step*|*epoch*|*size*')", LIMITS):first()
end

--- Lengths alone: all of one length at a limit, with much room behind it. Nobody pads rows of the greatest length that
--- they may have by a third for the model's sake.
local function alone(case, found, pile)
  local limit = setting_of(case, pile.most)
  if not limit or not found.padding or pile.room < 0.25 * (pile.most + pile.room) then return nil end
  return 0.7, "what is longer was cut there, with room behind it", limit
end

--- Lengths that pile up at a limit far inside the width: many times as many rows have it as have one place less, and
--- rows that are of all lengths by themselves thin out towards the longest.
local function heaped(case, found, pile, all)
  local limit = #pile.shorter > 0 and pile.most >= 3 and found.padding and setting_of(case, pile.most)
  if not limit or pile.room < 0.25 * (pile.most + pile.room) then return nil end
  local next_ = 0
  for _, row in ipairs(pile.shorter) do next_ = next_ + (row.long == pile.most - 1 and 1 or 0) end
  if #pile.at < math.max(16, 0.4 * all) or #pile.at < 2.5 * next_ then return nil end
  return 0.6, ("one place less have %d, and there is room behind it"):format(next_), limit
end

--- What the rows of one tensor show: a score and words, or nil; whether they can show anything.
local function judge(case, found)
  local pile = extents.pile(found.rows)
  local all  = #found.rows
  if all < 16 or not found.whole then return nil end
  local many    = pile.most >= 4 and #pile.at >= math.max(8, 0.12 * all)
  local clipped = many and extents.clipped(pile)
  local fixed   = #pile.shorter == 0 and pile.room >= 2 and pile.most >= 2
  local score, words, limit
  if clipped then score, words = beyond(case, pile) end
  if not score and many and #pile.shorter >= 4 then
    score, words = says_more(case, pile)
    if not score then score, words = nowhere(case, pile) end
    if not score then score, words = endless(case, found, pile) end
  end
  if not score and fixed then score, words, limit = alone(case, found, pile) end
  if not score then score, words, limit = heaped(case, found, pile, all) end
  if not score then return nil, pile end
  limit = limit or setting_of(case, pile.most)
  return { score = score, words = words, limit = limit, found = found, all = all }, pile
end

local NOTHING = "rows of one length of several, padded, beside what is asked of them"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Rows were cut at one length, and what is asked of them was not",
  needs    = { tensors = { "name", "shape", "data" } },
  symptoms = { "rows-cut-at-limit" },

  run = function(case)
    local best, pile
    local spread = false -- whether rows of several lengths do not pile up at the greatest
    for _, found in ipairs(extents.of(case)) do
      local seen, its = judge(case, found)
      spread = spread or its and #its.shorter > 0 and #its.at < math.max(8, 0.12 * #found.rows)
      if seen and (not best or seen.score > best.score) then best, pile = seen, its end
    end
    -- That nothing shows says little: rows may be cut, and filled up, before any of this can be seen.
    if not best and spread then return end
    if not best then return skip(NOTHING, "rows-cut-at-limit") end
    report {
      symptom  = "rows-cut-at-limit",
      score    = best.score,
      at       = { step = best.found.first.step },
      message  = ("%d of %d dumped rows of %s have %d places%s, and none has more: %s"):format(#pile.at, best.all,
        best.found.name, pile.most, best.limit and (", which is %s"):format(best.limit.key) or "", best.words),
      evidence = { best.found.first, best.limit },
    }
  end,
}
