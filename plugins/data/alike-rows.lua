--- ## What it detects
--- Batches whose rows are more alike than those of the run, where rows are of pictures, sound or other numbers and no
--- label says what kind they are: rows come in blocks instead of mixed. Rows are told by what any list of numbers has:
--- its mean and spread, that of each channel or line, and how rough it is along its axes. Where no one figure tells,
--- all of them are held together.
---
--- ## Why it matters
--- The model forgets one kind of rows while it sees another, and the last block wins.
---
--- ## How to confirm
--- Train on with a shuffle over the whole set.
---
--- ## Known false positives
--- Rows that were cut from one picture, store or film, or disturbed alike, make batches alike as well. These follow
--- each other by chance: of as many batches as show an order nothing is said if they show none, and of fewer it is far
--- less sure. What only grows or falls over the run is hardened step by step. One batch that is unlike all others is no
--- block, and where batches differ in the shape of a row they are told apart by it. Nothing is said where a setting
--- puts rows together, or what an agent sees changes with what it does.
---
--- ## References
--- The test is that of Kruskal and Wallis (1952), as a normal deviate (Wilson and Hilferty 1931); the order of batches
--- is told by successive differences (von Neumann 1941).

local elements = require("elements")
local lengths = require("row-lengths")
local likeness = require("likeness")
local put_together = require("put-together")
local statistics = require("statistics")
local training = require("training-rows")

-- Made by the model, drawn anew for each step, or beside the data.
local OTHER = "*noise*|*noisy*|*eps|*epsilon|*sigma*|*timestep*|batch.t|*velocity*|*x_t|*xt|*z_t|*mask*|*logit*|*prob*|"
  .. "*teacher*|*advantage*|*return*|*reward*|*value*|*weight*|*target*|*label*|*pred*|*output*|*hidden*|*obs*|*state*|"
  .. "*fake*|*generated*|*position*"
local VALUES = 2e6  -- that are read, at most
local MANY   = 24   -- batches by which an order shows
local FEWEST = 36   -- rows of which all figures together are judged
local LINES  = 64   -- of an axis of which each line has figures of its own, at most

--- The mean and the spread of `of`, put into `into` under `name`.
local function add_moments(into, name, of)
  local sum, square = 0, 0
  for _, v in ipairs(of) do sum = sum + v end
  local mean = sum / #of
  for _, v in ipairs(of) do square = square + (v - mean) ^ 2 end
  into["mean" .. name] = mean
  into["spread" .. name] = math.sqrt(square / #of)
end

--- How far values `apart` places from each other differ in the mean, those of one line of `line` values alone.
local function roughness(x, apart, line)
  local sum, n = 0, 0
  for i = 1, #x - apart do
    if (i - 1) % line + apart < line then sum, n = sum + math.abs(x[i + apart] - x[i]), n + 1 end
  end
  return n > 0 and sum / n or 0
end

--- What is told of one row of `width` values: of those that were read, x, and of the shape that the batch has.
local function told(x, width, shape)
  local out, last = {}, math.floor(shape[#shape])
  add_moments(out, "", x)
  out["step from value to value"] = roughness(x, 1, last)
  if #shape >= 3 then
    out["step from line to line"] = roughness(x, last, last * math.floor(shape[#shape - 1]))
  end
  -- Channels first, as of pictures, or last, as of points.
  local first = #shape >= 3 and math.floor(shape[2]) or 0
  local plane = width // math.max(1, first)
  local of = #shape >= 4 and first >= 2 and first <= 4 and function(i) return (i - 1) // plane end
    or #shape >= 3 and last >= 2 and last <= 4 and function(i) return (i - 1) % last end
  if of then
    local channels = {}
    for i, v in ipairs(x) do
      local c = of(i)
      channels[c] = channels[c] or {}
      table.insert(channels[c], v)
    end
    for c, values in pairs(channels) do add_moments(out, (" of channel %d"):format(c), values) end
  end
  return out
end

--- Means of each line along the axes behind the first, for axes of a few lines, as bands of a spectrum or joints.
local function lines(x, shape)
  local out, apart = {}, 1
  for axis = #shape, 2, -1 do
    local n = math.floor(shape[axis])
    if n >= 2 and n <= LINES and #x % (apart * n) == 0 then
      local sums = {}
      for i, v in ipairs(x) do
        local at = (i - 1) // apart % n
        sums[at] = (sums[at] or 0) + v
      end
      for at, sum in pairs(sums) do out[("line %d of axis %d"):format(at, axis - 1)] = sum * n / #x end
    end
    apart = apart * n
  end
  return out
end

--- Ranks of all rows by one figure, ties in the middle: of each batch those of its rows.
local function ranked(batches, figure)
  local all = {}
  for b, batch in ipairs(batches) do
    for _, row in ipairs(batch.rows) do all[#all + 1] = { batch = b, value = row[figure] } end
  end
  table.sort(all, function(a, b) return a.value < b.value end)
  local of, from = {}, 1
  for b in ipairs(batches) do of[b] = {} end
  for i = 1, #all do
    if i == #all or all[i + 1].value ~= all[i].value then
      for k = from, i do table.insert(of[all[k].batch], (from + i) / 2) end
      from = i + 1
    end
  end
  return of, #all
end

--- How sure it is that batches differ, in standard deviations; how much more alike rows of one batch are, as a share of
--- what they could be; and the mean rank of each batch.
local function differ(batches, figure)
  local ranks, n = ranked(batches, figure)
  local k, middle, between, within, squares, means = #batches, (n + 1) / 2, 0, 0, 0, {}
  for b, own in ipairs(ranks) do
    local sum = 0
    for _, r in ipairs(own) do sum = sum + r end
    means[b] = sum / #own
    between  = between + #own * (means[b] - middle) ^ 2
    squares  = squares + #own * #own
    for _, r in ipairs(own) do within = within + (r - means[b]) ^ 2 end
  end
  if between + within == 0 then return 0, 0, means end
  local h      = between / (between + within) * (n - 1) / (k - 1)
  local spread = 2 / (9 * (k - 1))
  local size   = (n - squares / n) / (k - 1)
  local b_, w_ = between / (k - 1), within / (n - k)
  return (h ^ (1 / 3) - 1 + spread) / math.sqrt(spread), (b_ - w_) / (b_ + (size - 1) * w_), means
end

--- By how many standard deviations batches that follow each other are more alike than any two.
local function order(means)
  local n, sum, steps, square = #means, 0, 0, 0
  for i, v in ipairs(means) do
    sum = sum + v
    if i > 1 then steps = steps + (v - means[i - 1]) ^ 2 end
  end
  for _, v in ipairs(means) do square = square + (v - sum / n) ^ 2 end
  if square == 0 then return 0 end
  return (2 - steps / square) / (2 * math.sqrt((n - 2) / (n * n - 1)))
end

--- Whether batches only go up or only down over the run, but for some: by Spearman's correlation.
local function drifts(means)
  local n, sum = #means, 0
  for i, v in ipairs(means) do
    local rank = 1
    for _, other in ipairs(means) do rank = rank + (other < v and 1 or other == v and 0.5 or 0) end
    sum = sum + (rank - 0.5 - i) ^ 2
  end
  return math.abs(1 - 6 * sum / (n * (n * n - 1))) >= 0.8
end

--- The batches without the one that is farthest from all others by a figure: one odd batch is no block.
local function without_farthest(batches, means)
  local middle = {}
  for i, v in ipairs(means) do middle[i] = v end
  local center, far = statistics.median(middle), 1
  for b, v in ipairs(means) do
    if math.abs(v - center) > math.abs(means[far] - center) then far = b end
  end
  local out = {}
  for b, batch in ipairs(batches) do
    if b ~= far then out[#out + 1] = batch end
  end
  return out
end

--- Whether rows are of two kinds by a figure: a gap that is as wide as either, with a tenth of the rows on each side.
local function two_kinds(batches, figure)
  local all, wide, at = {}, 0, 0
  for _, batch in ipairs(batches) do
    for _, row in ipairs(batch.rows) do all[#all + 1] = row[figure] end
  end
  table.sort(all)
  for i = 2, #all do
    if all[i] - all[i - 1] > wide then wide, at = all[i] - all[i - 1], i end
  end
  return at > 0.1 * #all and at <= 0.9 * #all and wide >= math.max(all[at - 1] - all[1], all[#all] - all[at])
end

--- What is told of the rows of the dumped batches of one tensor, by up to `wide` values of each, each batch once; nil
--- where their shapes differ.
local function read(tensors, wide)
  local out, known, read_, shape, rows = {}, {}, 0, nil, 0
  for batch in tensors:rows() do
    local own  = table.concat(batch.shape, " ", 2)
    local n    = math.floor(batch.shape[1])
    local same = ("%d %.17g %.17g"):format(batch.numel, batch.mean or 0, batch.std or 0)
    if shape and shape ~= own then return nil end
    shape = own
    local width = batch.numel // math.max(1, n)
    if n >= 4 and width >= 16 and not known[same] and read_ < VALUES then
      known[same] = true
      local one = { row = batch, rows = {}, lines = {} }
      for i = 0, math.min(n, 32) - 1 do
        local x = elements.of(batch, i * width, math.min(width, wide))
        one.rows[#one.rows + 1] = told(x, width, batch.shape)
        one.lines[#one.lines + 1] = lines(x, batch.shape)
      end
      read_, rows = read_ + math.min(n, 32) * math.min(width, wide), rows + #one.rows
      out[#out + 1] = one
    end
  end
  return out, rows
end

--- How sure it is that batches differ by all figures together, and how much more alike their rows are; without the
--- batch that is farthest from all.
local function differ_by_all(batches)
  local function members(left_out)
    local out, group = {}, 0
    for b, batch in ipairs(batches) do
      if b ~= left_out then
        group = group + 1
        for i, row in ipairs(batch.rows) do
          local of = {}
          for figure, v in pairs(row) do of[figure] = v end
          for figure, v in pairs(batch.lines[i]) do of[figure] = v end
          out[#out + 1] = { group = group, of = of }
        end
      end
    end
    return out
  end
  local _, _, farthest = likeness.within(members(nil))
  return likeness.within(members(farthest))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Rows of a batch are more alike than rows of the run",
  needs    = { tensors = { "name", "step", "data" } },
  symptoms = { "domains-in-blocks" },
  options  = {
    rows  = { default = 64,   doc = "Dumped rows below which no one figure is judged" },
    wide  = { default = 8192, doc = "Values of a row that are read, from its first on" },
    alike = { default = 0.3,  doc = "Likeness within batches beyond that of the run, as a share of the largest" },
    sure  = { default = 5.5,  doc = "Standard deviations by which batches differ, as many figures are tried" },
    order = { default = 2.0,  doc = "Standard deviations by which batches that follow each other are more alike" },
    all   = { default = 4.0,  doc = "Standard deviations by which batches differ by all figures together" },
  },

  run = function(case)
    local opt, found, by_all, by_chance, mixed = case.options, nil, nil, false, false
    local together = put_together.rows_or_tasks(case)
    if together then return skip("batches that no setting puts together: the config has " .. together.key) end
    local acts = put_together.by_an_agent(case)
    if acts then return skip("rows that do not come from what an agent does: the config has " .. acts.key) end
    local floats = training.batches(case):where("match(dtype, 'float*|bfloat*') and nonfinite == 0 and numel >= 64")
    for _, _, dumped in floats:where("not match(name, ?)", OTHER):group("run", "name") do
      local shape = dumped:first().shape or {}
      if #shape >= 2 and dumped:count() >= 6 and lengths.of_records(case, dumped:first()) then
        local batches, rows = read(dumped:sort("step"), opt.wide)
        if batches and #batches >= 6 and rows >= FEWEST then
          local surest, order_, steadily = -math.huge, 0, false
          for figure in pairs(batches[1].rows[1]) do
            local by_one, _, means = differ(batches, figure)
            if by_one > surest then surest, order_, steadily = by_one, order(means), drifts(means) end
            local rest = without_farthest(batches, means)
            local sure, alike, left = differ(rest, figure)
            mixed = mixed or alike < 0.5 * opt.alike and two_kinds(batches, figure)
            if #rest >= 6 and rows >= opt.rows and sure >= opt.sure and alike >= opt.alike and not drifts(left) then
              local own = { sure = sure, alike = alike, figure = "the " .. figure, batches = #batches, rows = rows,
                order = order(means), row = dumped:first() }
              if not found or own.order > found.order or own.order == found.order and own.figure < found.figure then
                found = own
              end
            end
          end
          if not steadily then
            local sure, alike = differ_by_all(batches)
            if sure >= opt.all and (not by_all or sure > by_all.sure) then
              by_all = { sure = sure, alike = alike, figure = "figures of all kinds together", batches = #batches,
                rows = rows, order = order_, row = dumped:first() }
            end
          end
        end
      end
    end
    found = found or by_all
    if found and found.batches >= MANY and found.order < opt.order then by_chance, found = true, nil end
    if not found and mixed and not by_chance then return end
    if not found then
      return skip(by_chance and "batches in an order: rows of a batch are alike, and batches follow each other by "
        .. "chance" or "rows whose kind shows in their mean, spread and roughness")
    end
    report {
      symptom  = "domains-in-blocks",
      score    = found.order >= opt.order and 0.8 or 0.3,
      at       = { step = found.row.step },
      message  = ("by %s rows of one batch of %s are %s more alike than those of the run (%d batches, %d rows, "
        .. "%.1f standard deviations)%s: what belongs together comes in blocks"):format(found.figure, found.row.name,
        units.percent(found.alike), found.batches, found.rows, found.sure, found.order >= opt.order
        and ", and so are batches that follow each other" or ""),
      evidence = { found.row },
    }
  end,
}
