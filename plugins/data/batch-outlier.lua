--- ## What it detects
--- One dumped batch whose inputs are distributed unlike those of all the others: by mean or deviation, by one value
--- throughout (of token ids between start, end and padding), by rows that repeat each other, or, of token ids, by
--- neighbours that stand beside each other in no other batch. Or one whose targets are of another size beside their
--- inputs than those of all the others: a shard in another unit.
---
--- ## Why it matters
--- A corrupt shard, a stuck tokenizer or a binary file in the corpus shows up as one batch that makes the loss jump.
---
--- ## How to confirm
--- Decode the batch; train on without it.
---
--- ## Known false positives
--- Corpora that mix languages or code in blocks. Of few rows, a batch may have another mean by chance: the distance is
--- taken in units of the spread of the batches or, where that is larger, of the standard error of so many rows, by how
--- the rows of a batch differ in mean and deviation; and half its rows have to lie beyond all rows of the others, which
--- one row of heavy tails does not do. Batches that differ by more than draws of rows do are each of something of its
--- own, as of one shop: their sizes may be of any order, and are compared by their logarithms. Rows of a group are one
--- value together. The first and the last dumped batch have others on one side alone: clocks and schedules go on, and
--- what a policy writes changes as it learns, so that they may differ from all the rest.
---
--- ## References
--- The statistics are those of the `tensors` table, so dumps of a few batches suffice. Ids drawn at random have the
--- mean and deviation that a corpus may have, but not its pairs: of V ids a language uses a small part of V * V.

-- What a model is given: any part of a batch but labels, masks, places and hashes, which are even by nature.
local INPUTS = "match(name, '*input_ids|*pixel_values|*tokens|batch.*') and not match(name, '*label*|*target*|batch.y|"
  .. "*mask*|*position*|*hash*|*segment*|*type_ids*|*domain*|*lang*|*task*|*seqlens*|*seq_lens*|*length*|*_lens|*_len|"
  .. "*.lens|*sizes|*frames|*durations|*num_nodes*|*num_edges*|*percents|*.ptr|batch.batch|*text|*transcript*|*weight*|"
  .. "*index|*indices|*.id|*reward*|*offset*|*splits|*edge*|*seed*|*epoch*')"

--- Of each batch the share of neighbouring ids that are neighbours in no other, as a whole and of each row: a list of
--- { batch, share, pairs, rows }.
local function unseen_pairs(batches)
  local list, holders = {}, {}
  for batch in batches:rows() do
    local width, pairs_, ends = math.floor(batch.shape[#batch.shape]), {}, {}
    for from = 0, math.min(batch.numel, 16384) - width, width do
      local ids = batch:values(from, width)
      for i = 2, #ids do
        local pair = ids[i - 1] * 1048576 + ids[i]
        pairs_[#pairs_ + 1] = pair
        local known = holders[pair]
        holders[pair] = (known == nil or known == #list + 1) and #list + 1 or 0 -- 0: of several batches
      end
      ends[#ends + 1] = #pairs_
    end
    list[#list + 1] = { batch = batch, pairs = pairs_, rows = ends }
  end
  for place, one in ipairs(list) do
    local alone, row, from, before = 0, 1, 0, 0
    for i, pair in ipairs(one.pairs) do
      if holders[pair] == place then alone = alone + 1 end
      if i == one.rows[row] then
        one.rows[row], before, from, row = (alone - before) / math.max(1, i - from), alone, i, row + 1
      end
    end
    one.share, one.pairs = #one.pairs > 0 and alone / #one.pairs or 0, #one.pairs
  end
  return list
end

--- Whether nine of ten rows of the first of a list have a larger share than any row of the others. A corrupt batch is
--- so throughout; some rows of a kind that no other dumped batch has, as of a rare subject, stand beside rows like any.
local function throughout(list)
  local high, beyond = 0, 0
  for i = 2, #list do for _, share in ipairs(list[i].rows) do high = math.max(high, share) end end
  for _, share in ipairs(list[1].rows) do if share > high then beyond = beyond + 1 end end
  return beyond >= 0.9 * #list[1].rows
end

--- The deviation of some numbers.
local function deviation(list)
  local n, sum, square = #list, 0, 0
  for _, v in ipairs(list) do sum, square = sum + v, square + v * v end
  return n > 1 and math.sqrt(math.max(0, (square - sum * sum / n) / (n - 1))) or 0
end

--- Mean and deviation of each row of each batch, by the batch's id: { mean = {...}, std = {...} }.
local function row_figures(batches)
  local figures = {}
  for batch in batches:slice(0, 100):rows() do
    local rows = math.floor(batch.shape and batch.shape[1] or 1)
    if batch.zero_share ~= nil and batch.numel > 0 and batch.shape and #batch.shape >= 1 and rows <= 10000 then
      local mean, std = batch:along(0, "mean"), {}
      for i, rms in ipairs(batch:along(0, "rms")) do
        std[i]  = mean[i] and rms and math.sqrt(math.max(0, rms * rms - mean[i] * mean[i])) or 0
        mean[i] = mean[i] or 0
      end
      figures[#figures + 1] = { step = batch.step, mean = mean, std = std }
    end
  end
  return figures
end

--- Whether the numbers of a name may stand for something that has no size: whole ones of one a row, as classes, counts
--- and what points to other rows; or those that all lie below the number of rows of another tensor beside them, which
--- is not the same in all batches.
local function points(case, batches)
  local first = batches:first()
  if not first.dtype:glob("int*|uint*|bool*") then return false end
  if #(first.shape or {}) < 2 then return true end
  local below, all, sizes = 0, 0, 0
  local seen = {}
  for batch in batches:slice(0, 20):rows() do
    local fits
    for other in case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant }
      :where("match(name, 'batch.*') and name != ?", batch.name):slice(0, 40):rows() do
      local rows = other.shape and other.shape[1]
      if rows and rows ~= batch.shape[1] and batch.max < rows and batch.max >= 0.5 * rows then fits = rows end
    end
    all = all + 1
    if fits then
      below = below + 1
      if not seen[fits] then seen[fits], sizes = true, sizes + 1 end
    end
  end
  return below >= 0.8 * all and sizes >= 2
end

--- Whether mean and deviation are of the batch and of none of its rows: these have all the same, in half the batches.
local function of_the_batch(figures)
  local alike = 0
  for _, one in ipairs(figures) do
    local same = #one.mean > 1
    for i = 2, #one.mean do same = same and one.mean[i] == one.mean[1] and one.std[i] == one.std[1] end
    if same then alike = alike + 1 end
  end
  return 2 * alike >= #figures and alike > 0
end

--- The chance that all rows of a batch are one value throughout, by how many rows of the others are; and whether each
--- of theirs is so, as of numbers of one a row.
local function chance_of_even(figures, step)
  local even, rows, own, value = 0, 0, 1, nil
  for _, one in ipairs(figures) do
    if one.step == step then own, value = #one.mean, one.mean[1] end
    for i = 1, one.step == step and 0 or #one.mean do
      rows = rows + 1
      if one.std[i] <= 1e-6 * math.abs(one.mean[i]) then even = even + 1 end
    end
  end
  local chance, each = ((even + 1) / (rows + 2)) ^ own, even == rows
  -- Of numbers of one a row every row is so: then all of them have to be the same.
  if each then
    even = 0
    -- Rows of one group, as the answers to one prompt, have it together: how often a row has it behind one that has.
    local has, behind, again = 0, 0, 0
    for _, one in ipairs(figures) do
      local most, counts = 0, {}
      for i, v in ipairs(one.step == step and {} or one.mean) do
        counts[v] = (counts[v] or 0) + 1
        most = math.max(most, counts[v])
        if v == value then
          has = has + 1
          if i < #one.mean then behind, again = behind + 1, again + (one.mean[i + 1] == value and 1 or 0) end
        end
      end
      even = even + most
    end
    local first, next_ = (has + 1) / (rows + 2), (again + 1) / (behind + 2)
    chance = math.max(((even + 1) / (rows + 2)) ^ own, first * math.max(first, next_) ^ (own - 1))
  end
  return chance, each
end

--- The root of the mean square of a list, without the largest: what stands out is no measure of the others.
local function usual_size(list)
  table.sort(list)
  local sum = 0
  for i = 1, #list - 1 do sum = sum + list[i] * list[i] end
  return #list > 1 and math.sqrt(sum / (#list - 1)) or list[1] or 0
end

--- What chance leaves of mean and deviation of a batch: their standard errors, from all batches together, since those
--- of two rows may lie together by chance. Rows are what is independent; the values within one need not be.
local function standard_errors(figures)
  local means, stds = {}, {}
  for _, one in ipairs(figures) do
    local rows, between = #one.mean, deviation(one.mean)
    means[#means + 1] = between / math.sqrt(rows)
    stds[#stds + 1] = math.max(deviation(one.std) / math.sqrt(rows), between / math.sqrt(2 * rows))
  end
  return { mean = usual_size(means), std = usual_size(stds) }
end

--- Whether a mean or deviation is not far from those of all batches by their logarithms, where all have one sign.
local function of_like_order(batches, column, value, factor)
  local list = {}
  for _, v in ipairs(batches:col(column):values()) do
    if v * value <= 0 then return false end
    list[#list + 1] = math.log(v / value)
  end
  table.sort(list)
  local n = #list
  local width = list[math.max(1, (3 * n) // 4)] - list[n // 4 + 1]
  return math.abs(list[(n + 1) // 2]) < factor * width
end

--- Whether half the rows of a batch lie beyond all rows of the others, which one row with a large value does not make.
local function most_rows_beyond(figures, step, column)
  local low, high, own = math.huge, -math.huge, nil
  for _, one in ipairs(figures) do
    if one.step == step then own = one[column] end
    for _, v in ipairs(one.step == step and {} or one[column]) do low, high = math.min(low, v), math.max(high, v) end
  end
  local beyond = 0
  for _, v in ipairs(own or {}) do if v < low or v > high then beyond = beyond + 1 end end
  return not own or beyond >= 0.5 * #own
end

--- Of each batch of ids the share of its commonest id in half its rows at least, and the largest share that this id has
--- in a row of any other batch; that of the batch where the first is furthest above the second. Padding at the end of a
--- row, ids that are the last of a row twice running, is left out.
local function commonest_id(batches)
  local list = {}
  for batch in batches:slice(0, 100):rows() do
    local width, rows, total = math.floor(batch.shape[#batch.shape]), {}, {}
    for from = 0, math.min(batch.numel, 16384) - width, width do
      local ids, counts = batch:values(from, width), {}
      local stop = width
      if ids[width] == ids[width - 1] then
        while stop > 1 and ids[stop] == ids[width] do stop = stop - 1 end
      end
      if stop == 1 then stop = width end -- one id throughout is no padding
      for t = 1, stop do counts[ids[t]] = (counts[ids[t]] or 0) + 1 end
      for id, n in pairs(counts) do counts[id] = n / stop end
      for id, share in pairs(counts) do total[id] = (total[id] or 0) + share end
      rows[#rows + 1] = counts
    end
    local most
    for id, share in pairs(total) do
      if not most or share > total[most] or share == total[most] and id < most then most = id end
    end
    list[#list + 1] = { batch = batch, rows = rows, id = most }
  end
  local found
  for _, one in ipairs(list) do
    local shares, other = {}, 0
    for _, counts in ipairs(one.rows) do shares[#shares + 1] = counts[one.id] or 0 end
    table.sort(shares, function(a, b) return a > b end)
    for _, two in ipairs(list) do
      for _, counts in ipairs(two ~= one and two.rows or {}) do other = math.max(other, counts[one.id] or 0) end
    end
    local share = shares[(#shares + 1) // 2] or 0 -- at least half the rows have it
    if not found or share - other > found.share - found.other then
      found = { batch = one.batch, id = one.id, share = share, other = other,
        rows = #one.rows }
    end
  end
  return found
end

--- The share of a batch's rows that are equal to one before them, of at most 256 rows; nil for rows of fewer than four
--- values, which may well come twice, and for fewer than four rows. And whether all of these stand behind all others,
--- as where the last batch of a pass is filled up.
local function repeated_rows(batch)
  local rows = math.floor(batch.shape and batch.shape[1] or 0)
  if #batch.shape < 2 or rows < 4 or batch.zero_share == nil then return nil end
  local width, seen, equal, n, last = math.floor(batch.numel / rows), {}, 0, 0, nil
  if width < 4 then return nil end
  for row = 0, math.min(rows, 256) - 1 do
    local key = table.concat(batch:values(row * width, math.min(width, 256)), " ")
    if seen[key] then equal, last = equal + 1, last or row elseif last then last = math.huge end
    seen[key], n = true, n + 1
  end
  return equal / n, last ~= nil and last < math.huge
end

--- Of the batches of which targets and inputs are numbers: the logarithm of the size of each row's target over that of
--- its input, a list for each step, and the tensors; nil where fewer than `least` steps have both. Of four rows chance
--- alone puts half beyond those of three other batches in one case in a hundred, of eight in one of some thousand.
local function sizes_beside(dumped, target_name, input_name, least)
  local figures = {}
  for target in dumped:where { name = target_name }:slice(0, 100):rows() do
    local input = dumped:where { name = input_name, step = target.step, run = target.run, variant = target.variant }
      :first()
    local rows = target.shape and #target.shape >= 1 and target.shape[1] or 0
    -- Shares of classes have a size by how many are mixed.
    local shares = rows > 0 and target.min and target.mean and target.min >= 0 and target.max <= 1
      and math.abs(target.mean * target.numel / rows - 1) < 1e-3
    if input and not shares and rows >= 8 and rows <= 10000 and input.shape and #input.shape >= 2
      and input.shape[1] == rows then
      local list, said = {}, target:along(0, "rms")
      for row, given in ipairs(input:along(0, "rms")) do
        local own = said[row]
        if own and own > 0 and given > 0 and own < math.huge and given < math.huge then
          list[#list + 1] = math.log(own / given)
        end
      end
      if #list >= 8 then figures[#figures + 1] = { step = target.step, size = list, target = target, input = input } end
    end
  end
  return #figures >= least and figures or nil
end

--- The one step at which half the rows or more are of another size than all rows of the others, by `factor` times what
--- they differ by from batch to batch or within one; with the medians of its rows and of the others.
local function of_another_size(figures, factor)
  local middles = {}
  for i, one in ipairs(figures) do
    local sorted = {}
    for k, v in ipairs(one.size) do sorted[k] = v end
    table.sort(sorted)
    one.middle = sorted[(#sorted + 1) // 2]
    one.width  = (sorted[math.max(1, (3 * #sorted) // 4)] - sorted[#sorted // 4 + 1]) / math.sqrt(#sorted)
    middles[i] = one.middle
  end
  table.sort(middles)
  local n = #middles
  local usual = middles[(n + 1) // 2]
  local spread = math.max(middles[math.max(1, (3 * n) // 4)] - middles[n // 4 + 1], 1e-3)
  local far
  for _, one in ipairs(figures) do
    if not far or math.abs(one.middle - usual) > math.abs(far.middle - usual) then far = one end
  end
  for _, one in ipairs(figures) do if one ~= far then spread = math.max(spread, one.width) end end
  -- Stages and schedules go on: what stands out has batches like the others on both sides.
  if far.step == figures[1].step or far.step == figures[#figures].step then return nil end
  if math.abs(far.middle - usual) >= factor * spread and most_rows_beyond(figures, far.step, "size") then
    return far, usual
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One batch differs grossly from the others",
  needs    = { tensors = { "name", "step", "mean", "std" } },
  symptoms = { "batch-outlier" },
  options  = {
    min_batches = { default = 4,   doc = "Dumped batches below which none can stand out" },
    factor      = { default = 6.0, doc = "Distance over the spread of the others that stands out" },
    one         = { default = 0.5, doc = "Share of one id in half the rows, twice that in any row of the others" },
    repeated    = { default = 0.5, doc = "Share of rows that repeat another, of the others' a fifth at most" },
    unseen      = { default = 2.0, doc = "Share of new pairs of ids over the largest of the others that stands out" },
  },

  run = function(case)
    local dumped = case.tensors:where(INPUTS)
      -- A held-out batch, dumped without a step, is none of those that were trained on.
      :where("not match(name, 'battery.*') and step is not null"):sort("step")
    local judged = false
    for run, name, batches in dumped:group("run", "name") do -- another run may have other data
      local enough = batches:distinct("step"):count() >= case.options.min_batches
      judged = judged or enough
      -- One value throughout, where every other batch has many: a padded, cleared or unread buffer.
      local even = enough and batches:where("min == max")
      local figures = enough and row_figures(batches)
      local first = even and even:first()
      -- A flag that few rows have is none's in some batches, and of few batches each may be anything.
      local by_chance, each = 1, false
      if first then by_chance, each = chance_of_even(figures, first.step) end
      if first and even:distinct("step"):count() <= 0.2 * batches:distinct("step"):count()
        and by_chance <= (#(first.shape or {}) >= 2 and not each and 0.2 or 1e-4) then
        return report {
          symptom  = "batch-outlier",
          score    = 0.95,
          at       = { run = run, step = first.step },
          message  = ("the batch of step %d stands out: every value of %s is %g, that of the other %d batches varies")
            :format(first.step, first.name, first.min, batches:count() - even:count()),
          evidence = { first, batches },
        }
      end
      local chance  = enough and standard_errors(figures)
      local sized   = enough and not points(case, batches) and not of_the_batch(figures)
      -- Clocks, schedules and stages go on: what stands out has batches like the others on both sides.
      local from, to = batches:min("step"), batches:max("step")
      local function inner(row) return row.step > from and row.step < to end
      for _, column in ipairs(sized and { "mean", "std" } or {}) do
        local usual  = batches:median(column) or 0
        -- Half the batches lie within the middle quartiles; their width is the spread of the normal ones.
        local spread = math.max((batches:quantile(column, 0.75) or 0) - (batches:quantile(column, 0.25) or 0),
          0.02 * math.abs(usual), 1e-9, chance[column])
        local far    = batches:with { distance = ("abs(%s - %.17g) / %.17g"):format(column, usual, spread) }:top(1,
          "distance"):first()
        -- Batches that differ by more than draws of rows do are of different things, whose sizes may be of any order.
        local differ = spread > 3 * chance[column]
        if far and far.distance >= case.options.factor and inner(far)
          and most_rows_beyond(figures, far.step, column)
          and not (differ and of_like_order(batches, column, far[column], case.options.factor)) then
          return report {
            symptom  = "batch-outlier",
            score    = math.min(0.95, 0.6 + 0.02 * far.distance),
            at       = { run = run, step = far.step },
            message  = ("the batch of step %d stands out: %s %.4g against %.4g of the other %d, %.0f times their "
              .. "spread; its values lie in %g to %g")
              :format(far.step, column, far[column], usual, batches:count() - 1, far.distance, far.min, far.max),
            evidence = { far, batches },
          }
        end
      end
      -- Rows that are copies of each other, where every other batch has different ones.
      local most_equal, next_equal, copies, filled
      for batch in (enough and batches:slice(0, 100) or batches:slice(0, 0)):rows() do
        local share, behind = repeated_rows(batch)
        if share and (not most_equal or share > most_equal) then
          most_equal, next_equal, copies, filled = share, most_equal, batch, behind
        elseif share then next_equal = math.max(next_equal or 0, share) end
      end
      if next_equal and most_equal >= case.options.repeated and next_equal <= 0.2 * most_equal then
        return report {
          symptom  = "batch-outlier",
          score    = filled and 0.6 or 0.9,
          at       = { run = run, step = copies.step },
          message  = ("the batch of step %d stands out: %s of the rows of %s repeat another row, of the other batches' "
            .. "%s at most"):format(copies.step, units.percent(most_equal), name, units.percent(next_equal)),
          evidence = { copies, batches },
        }
      end
      -- Ids in an order of their own: most of this batch's pairs are new, and of the others' about as few each.
      local ids = enough and name:glob("*input_ids|*tokens|batch.src*|batch.tgt*|batch.source*|batch.ids")
        and batches:where("match(dtype, 'int*|uint*') and zero_share is not null")
      if ids and ids:count() >= case.options.min_batches and #ids:first().shape >= 2 and ids:min("min") >= 0
        and ids:max("max") < 1048576 then
        local one = commonest_id(ids)
        -- What a policy writes itself is another text when it has learned: the first and the last batch may be so.
        if one and inner(one.batch) and one.rows >= 2 and one.share >= case.options.one
          and one.share >= 2 * one.other then
          return report {
            symptom  = "batch-outlier",
            score    = 0.95,
            at       = { run = run, step = one.batch.step },
            message  = ("the batch of step %d stands out: in half its rows %s of %s are the id %g, in the rows of the "
              .. "other %d at most %s"):format(one.batch.step, units.percent(one.share), name, one.id,
              ids:count() - 1, units.percent(one.other)),
            evidence = { one.batch, batches },
          }
        end
        local list = unseen_pairs(ids)
        table.sort(list, function(a, b) return a.share > b.share end)
        local most, next_ = list[1], list[2]
        -- Both shares are of so many pairs; of a small batch they may differ by chance.
        local apart = most.share - next_.share
        local error_ = math.sqrt(most.share * (1 - most.share) / most.pairs
          + next_.share * (1 - next_.share) / next_.pairs)
        if inner(most.batch) and most.pairs >= 32 and most.share >= 0.5
          and most.share >= case.options.unseen * next_.share and apart >= 6 * error_ and throughout(list) then
          return report {
            symptom  = "batch-outlier",
            score    = 0.9,
            at       = { run = run, step = most.batch.step },
            message  = ("the batch of step %d stands out: %s of its %d pairs of neighbouring %s stand in no other "
              .. "dumped batch, of the others %s at most"):format(most.batch.step, units.percent(most.share),
              most.pairs, name, units.percent(next_.share)),
            evidence = { most.batch, batches },
          }
        end
      end
    end
    local numbers = case.tensors:where("match(dtype, 'float*|bfloat*') and match(name, 'batch.*') and "
      .. "zero_share is not null and step is not null"):sort("step")
    local answers = numbers:where("match(name, '*target|*targets|*label|*labels|batch.y|*future_values') and "
      .. "not match(name, '*past*')")
    local questions = numbers:where("(match(name, '*past*') or not match(name, '*target*|*label*|batch.y|*future*')) "
      .. "and not match(name, '*mask*|*observed*|*time_feat*|*weight*|*noise*|*timestep*|*sigma*|*position*')")
    for target_name in answers:group("name") do
      for input_name in questions:group("name") do
        local figures = sizes_beside(numbers, target_name, input_name, case.options.min_batches)
        judged = judged or figures
        local far, usual = nil, 0
        if figures then far, usual = of_another_size(figures, case.options.factor) end
        if far then
          return report {
            symptom  = "batch-outlier",
            score    = 0.95,
            at       = { step = far.step },
            message  = ("the batch of step %d stands out: %s is %.3g times the size of %s in the middle of its rows, "
              .. "in the other %d %.3g times, and half its rows are beyond all of theirs"):format(far.step, target_name,
              math.exp(far.middle), input_name, #figures - 1, math.exp(usual)),
            evidence = { far.target, far.input },
          }
        end
      end
    end
    if not judged then skip(("at least %d dumped batches"):format(case.options.min_batches)) end
  end,
}
