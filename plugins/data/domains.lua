--- ## What it detects
--- Batches that are mostly of one domain or class each, while the run as a whole has several: rows come in blocks
--- instead of mixed. Classes may be integers, or the 0 and 1 of a binary cross-entropy, however rare one of them is.
--- Where rows have neither, words or classes of pixels that some batches have in most rows and others in hardly any.
---
--- ## Why it matters
--- The model forgets one domain while it sees another; the loss saw-tooths with the blocks, and the last block wins.
---
--- ## How to confirm
--- Train on with a shuffle over the whole set.
---
--- ## Known false positives
--- Batches made of one domain on purpose that alternate; where neighbouring steps are dumped they tell, and settings of
--- a sampler that makes them do. So is the order of tasks that are learned one after the other, as the config has it.
--- Classes of which each batch has the same number of rows (P classes of K), and those of nodes or points, of which a
--- record has several, are left out; of an image with boxes the class of the first counts. A batch that is one bag of
--- instances has the bag's class in each row: where all batches are of one kind and follow each other by chance,
--- nothing is said if they have different numbers of rows, or if of thirty or more, which would show the order of a
--- list that comes again, none is found. Of 24 and more that are mostly of one kind, and show no order, each was put
--- together. Rows of like length, and several answers to one prompt, are together by design: where lengths go with the
--- batch, or rows of a batch begin alike, words are not looked at.
---
--- ## References
--- The test is a chi-square of batches against domains; of batches of one row, the runs test for several kinds (Barton
--- and David 1957). That of words is as a normal deviate (Wilson and Hilferty 1931), since many words are tried.

local elements = require("elements")
local lengths = require("row-lengths")
local put_together = require("put-together")
local training = require("training-rows")

--- How many standard deviations the runs of one kind in a list are fewer than those of a shuffled list.
local function lack_of_runs(list)
  local n, runs, counts = #list, 0, {}
  for i, kind in ipairs(list) do
    counts[kind] = (counts[kind] or 0) + 1
    if i == 1 or kind ~= list[i - 1] then runs = runs + 1 end
  end
  local squares, cubes = 0, 0
  for _, count in pairs(counts) do squares, cubes = squares + count ^ 2, cubes + count ^ 3 end
  local usual  = (n * (n + 1) - squares) / n
  local spread = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n ^ 3) / (n ^ 2 * (n - 1))
  return spread > 0 and (usual - runs) / math.sqrt(spread) or 0, runs, usual
end

local CLASS = "*label|*labels|*target|*targets|batch.y|batch.*click|batch.*clicks"

--- Whether batches are of some classes with as many rows each, as of a sampler that draws classes and then rows.
local function drawn_by_class(batches)
  local even = 0
  for _, batch in ipairs(batches) do
    local kinds, least, most = 0, math.huge, 0
    for _, n in pairs(batch.of) do kinds, least, most = kinds + 1, math.min(least, n), math.max(most, n) end
    if kinds >= 2 and least == most and least >= 2 then even = even + 1 end
  end
  return even >= 0.8 * #batches
end

--- Whether kinds come again after some number of batches, up to a third of them, or stay for a while.
local function have_order(kinds)
  local n, counts, expected = #kinds, {}, 0
  for _, kind in ipairs(kinds) do counts[kind] = (counts[kind] or 0) + 1 end
  for _, count in pairs(counts) do expected = expected + (count / n) ^ 2 end
  for lag = 1, n // 3 do
    local same = 0
    for i = 1, n - lag do same = same + (kinds[i] == kinds[i + lag] and 1 or 0) end
    if same / (n - lag) - expected >= 0.6 * (1 - expected) then return true end
  end
  return lack_of_runs(kinds) >= 2
end

-- Dumped batches of which chance alone leaves some order, and what is said of those that show none.
local MANY = 24
local PUT_TOGETHER = "batches in an order: each is mostly of one kind, and kinds follow each other as drawn anew for "
  .. "every batch"

--- Whether each batch is one record of several rows, as a bag of instances: all have rows of one kind, and kinds come
--- in the order of chance. Few batches show no order if they are far apart; that they have as many rows as each happens
--- to have tells of records then, as blocks are cut into batches of one length.
local function are_records(batches)
  local kinds, counts, most = {}, {}, 0
  for _, batch in ipairs(batches) do
    for kind, n in pairs(batch.of) do
      if n ~= batch.n then return false end
      kinds[#kinds + 1] = kind
    end
    counts[batch.n] = (counts[batch.n] or 0) + 1
    most = math.max(most, counts[batch.n])
  end
  return (most <= 0.5 * #batches or #batches >= 30) and not have_order(kinds)
end

--- The classes of dumped rows: integers, or floats that are all 0 or 1, as a binary cross-entropy takes them.
local function classes(tensors)
  local whole = tensors:where("match(name, ?) and match(dtype, 'int*|uint*|bool')", CLASS)
  if whole:count() > 0 then return whole end
  local floats = tensors:where("match(name, ?) and match(dtype, 'float*|bfloat*')", CLASS)
  for row in floats:slice(0, 1000):rows() do
    if row:count_equal(0) + row:count_equal(1) ~= row.numel then return whole end
  end
  return floats
end

local IDS = "match(dtype, 'int*|uint*') and match(name, '*input_ids|*tokens|*label|*labels|*target|*targets|*mask|"
  .. "*masks|*segmentation') and not match(name, '*attention*|*padding*|*loss_mask|*assistant*|*completion*|"
  .. "*token_mask')"
local VALUES = 2e6 -- that are read, at most

--- The sum over batches of how far `of` is from what its share of all would be, of things that a row has or has not;
--- and by how much rows of one batch are more alike than those of the run, as a share of what they could be.
local function unevenness(of, sizes, rows)
  local all, chi, same, pairs_ = 0, 0, 0, 0
  for b = 1, #sizes do all = all + (of[b] or 0) end
  local p = all / rows
  for b, n in ipairs(sizes) do
    local own = of[b] or 0
    chi   = chi + (own - n * p) ^ 2 / (n * p * (1 - p))
    same  = same + own * (own - 1) + (n - own) * (n - own - 1)
    pairs_ = pairs_ + n * (n - 1)
  end
  return chi, (same / pairs_ - p * p - (1 - p) ^ 2) / (2 * p * (1 - p)), p
end

--- Whether rows of a batch belong together by design: they are of like length, or begin with the same eight ids.
local function together_by_design(list)
  local n, sum, square, within, alike, pairs_ = 0, 0, 0, 0, 0, 0
  for _, one in ipairs(list) do
    local own, own_square = 0, 0
    for _, v in ipairs(one.lengths) do own, own_square = own + v, own_square + v * v end
    n, sum, square = n + #one.lengths, sum + own, square + own_square
    within = within + own_square - own * own / #one.lengths
    for i = 2, #one.begins do
      pairs_ = pairs_ + 1
      if one.begins[i] == one.begins[i - 1] then alike = alike + 1 end
    end
  end
  local total = square - sum * sum / n
  return total > 0 and within < 0.7 * total * (n - #list) / (n - 1) or pairs_ > 0 and alike >= 0.2 * pairs_
end

--- Ids that a tenth to nine tenths of all rows have, and the rows of some batches far more often than those of others:
--- the one of which it is surest, with the batches that have it in most rows and in hardly any.
local function uneven_ids(batches, opt)
  local list, with, sizes, rows, read, known = {}, {}, {}, 0, 0, {}
  for batch in batches:rows() do
    local n = math.floor(batch.shape[1])
    local width = batch.numel // n
    -- Of few rows the same batch comes once more, and tells nothing new.
    local same = ("%d %.17g %.17g"):format(batch.numel, batch.mean or 0, batch.std or 0)
    local again = known[same]
    known[same] = #batch.shape == 2 -- of a few classes maps agree by chance
    if n >= 4 and width >= 4 and read < VALUES and not again then
      local one = { batch = batch, lengths = {}, begins = {} }
      list[#list + 1], sizes[#sizes + 1], rows, read = one, n, rows + n, read + n * math.min(width, 16384)
      for row = 0, n - 1 do
        local ids = elements.spread(batch, row * width, width, 16384)
        local seen, start, stop = {}, 1, #ids
        while stop > 1 and ids[stop] == ids[stop - 1] do stop = stop - 1 end
        while start < stop and ids[start] == ids[start + 1] do start = start + 1 end
        one.lengths[#one.lengths + 1] = stop - start
        one.begins[#one.begins + 1] = table.concat(ids, " ", 1, math.min(8, width))
        for _, v in ipairs(ids) do
          if not seen[v] then
            seen[v], with[v] = true, with[v] or {}
            with[v][#list] = (with[v][#list] or 0) + 1
          end
        end
      end
    end
  end
  if #list < 6 or rows < opt.rows then return nil, false end
  if #batches:first().shape == 2 and together_by_design(list) then return nil, true end
  local free, best = #list - 1, nil
  for id, of in pairs(with) do
    local chi, alike, p = unevenness(of, sizes, rows)
    if p >= 0.1 and p <= 0.9 and alike >= opt.alike then
      local sure = ((chi / free) ^ (1 / 3) - 1 + 2 / (9 * free)) / math.sqrt(2 / (9 * free))
      local high, low = 0, 0
      local neighbours, turns, before, order = 0, 0, nil, {}
      for b, n in ipairs(sizes) do
        order[b] = (of[b] or 0) > n * p
        local share = (of[b] or 0) / n
        if share >= (1 + p) / 2 then high = high + 1 elseif share <= p / 2 then low = low + 1 end
        local own = { step = list[b].batch.step, many = share > p }
        if before and own.step - before.step <= 2 and own.step > before.step then
          neighbours, turns = neighbours + 1, turns + (own.many ~= before.many and 1 or 0)
        end
        before = own
      end
      -- Batches of one kind each that follow each other mixed are so by design.
      if neighbours >= 4 and turns >= 0.8 * neighbours * 2 * p * (1 - p) then high = 0 end
      -- One document that fills a batch is no block: several batches have it, and several have not.
      if sure >= opt.sure and high >= 2 and low >= 2 and (not best or sure > best.sure
        or sure == best.sure and id < best.id) then
        best = { id = id, sure = sure, p = p, high = high, low = low, rows = rows, batches = #list,
          first = list[1].batch, order = order }
      end
    end
  end
  return best, true
end

--- The class of each image of a detector's batch, that of the first of its boxes: labels that are padded with a class
--- below 0, beside as many boxes. Boxes of one image are no rows of their own, as they are of one scene. Nil of others.
local function of_scenes(dumped, labels)
  local shape = labels.shape or {}
  if #shape ~= 2 or shape[2] < 2 or labels.numel > 100000 then return nil end
  local boxes = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank,
    numel = 4 * labels.numel }:where("match(name, '*box*')"):first()
  if not boxes or #boxes.shape ~= 3 or boxes.shape[3] ~= 4 then return nil end
  local out, width, values = {}, math.floor(shape[2]), elements.of(labels, 0, labels.numel)
  for from = 0, labels.numel - width, width do
    for i = from + 1, from + width do
      if values[i] >= 0 then
        out[#out + 1] = values[i]
        break
      end
    end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Domains or classes come in blocks, not mixed",
  needs    = { tensors = { "name", "step", "data" } },
  symptoms = { "domains-in-blocks" },
  options  = {
    rows   = { default = 64,  doc = "Dumped rows below which chance makes blocks of its own" },
    alike  = { default = 0.22, doc = "Likeness within batches beyond that of the run, as a share of the largest" },
    sure   = { default = 5.5, doc = "Standard deviations of which a word has to be uneven, as many words are tried" },
    lack   = { default = 3.3, doc = "Standard deviations by which runs are too few: one case in 2,000 by chance" },
  },

  run = function(case)
    local dumped = training.trained(case.tensors:where("zero_share is not null and not match(name, 'battery.*')"))
    local domains = dumped:where("match(dtype, 'int*') and match(name, '*domain*|*source_id*|*dataset_id*')")
    local what = "domain"
    if domains:count() == 0 then -- of a classifier the class
      domains, what = classes(dumped), "class"
    end
    local total, rows, batches, single = {}, 0, {}, {}
    for batch in domains:where("step is not null"):sort("step"):rows() do
      local scenes = what == "class" and of_scenes(dumped, batch)
      if batch.numel == 1 then
        single[#single + 1] = batch:values(0, 1)[1]
      elseif scenes then
        if #scenes >= 2 then
          local own = { n = #scenes, step = batch.step, row = batch, of = {} }
          for _, class in ipairs(scenes) do
            own.of[class], total[class] = (own.of[class] or 0) + 1, (total[class] or 0) + 1
          end
          batches[#batches + 1], rows = own, rows + #scenes
        end
      elseif (#batch.shape == 1 or #batch.shape == 2 and batch.shape[2] == 1) and batch.numel <= 10000
        and lengths.of_records(case, batch) then
        local own = { n = 0, step = batch.step, row = batch, of = {} }
        for _, domain in ipairs(batch:values()) do
          own.of[domain], own.n = (own.of[domain] or 0) + 1, own.n + 1
          total[domain], rows = (total[domain] or 0) + 1, rows + 1
        end
        batches[#batches + 1] = own
      end
    end
    if #batches == 0 and #single >= case.options.rows then
      local lack, runs, usual = lack_of_runs(single)
      if lack < case.options.lack then return end
      return report {
        symptom  = "domains-in-blocks",
        score    = 0.95,
        at       = { step = domains:sort("step"):first().step },
        message  = ("%d batches of one row change their %s %d times, %.0f would be usual of shuffled rows: they come "
          .. "in blocks"):format(#single, what, runs - 1, usual - 1),
        evidence = { domains:slice(0, 5) },
      }
    end
    if #batches == 0 then
      local found, judged
      local apart = put_together.rows(case)
      local several = dumped:where(IDS):where("step is not null")
      if apart and several:count() > 0 then
        return skip("batches that no setting puts together: the config has " .. apart.key)
      end
      for _, own in several:group("name") do
        own = own:sort("step")
        -- A mask of two axes says how long rows are; eight pictures are hardly all cut out of one.
        local shape = own:first().shape or {}
        if (#shape == 2 and not own:first().name:glob("*mask|*masks") or #shape >= 3 and shape[1] >= 8)
          and lengths.of_records(case, own:first()) then
          local best, enough = uneven_ids(own, case.options)
          judged = judged or enough
          if best and (not found or best.sure > found.sure) then found = best end
        end
      end
      if found and #found.order >= MANY and not have_order(found.order) then
        return skip(PUT_TOGETHER)
      elseif found then
        return report {
          symptom  = "domains-in-blocks",
          score    = 0.9,
          at       = { step = found.first.step },
          message  = ("%s of the rows have the id %g in %s, in %d of %d dumped batches far more and in %d hardly any "
            .. "(%d rows, %.1f standard deviations from mixed rows): what belongs together comes in blocks"):format(
            units.percent(found.p), found.id, found.first.name, found.high, found.batches, found.low, found.rows,
            found.sure),
          evidence = { found.first },
        }
      end
      if judged then return end
    end
    local kinds, most_rows = 0, 0
    for _, n in pairs(total) do kinds, most_rows = kinds + 1, math.max(most_rows, n) end
    if #batches < 6 or rows < case.options.rows then
      return skip(("batch.domain (one integer a row) of 6 dumped batches, %d rows in all: culprit_recorder.watch dumps "
        .. "what the batch has"):format(case.options.rows))
    end
    if kinds < 2 then return end
    if rows - most_rows < 8 then return skip("eight dumped rows that are not of the commonest kind") end

    -- How often two rows are of one kind: in one batch, and in the run.
    local chi, pure, pairs_, expected, turns, neighbours = 0, 0, 0, 0, 0, 0
    local before
    for _, batch in ipairs(batches) do
      local most, most_n = nil, 0
      for kind, of_all in pairs(total) do
        local seen, want = batch.of[kind] or 0, batch.n * of_all / rows
        chi   = chi + (seen - want) ^ 2 / want
        pure  = pure + seen * (seen - 1)
        if seen > most_n then most, most_n = kind, seen end
      end
      pairs_ = pairs_ + batch.n * (batch.n - 1)
      if before and batch.step - before.step <= 2 then
        neighbours = neighbours + 1
        if most ~= before.most then turns = turns + 1 end
      end
      before, batch.most = { step = batch.step, most = most }, most
    end
    for _, of_all in pairs(total) do expected = expected + (of_all / rows) ^ 2 end
    local free = (#batches - 1) * (kinds - 1)
    local together = pure / pairs_
    -- How much more alike rows of one batch are, as a share of what they could be: of rare clicks two rows of the run
    -- are alike nearly always.
    if chi < free + 6 * math.sqrt(2 * free) or together - expected < case.options.alike * (1 - expected) then return end
    if neighbours >= 4 and turns >= 0.8 * neighbours * (1 - expected) then return end -- alternate by design
    local apart = put_together.rows_or_tasks(case)
    if apart then return skip("batches that no setting puts together: the config has " .. apart.key) end
    if what == "class" and drawn_by_class(batches) then
      return skip("batches of rows that were drawn at random: each has as many rows of each of its classes")
    end
    if are_records(batches) then return skip("batches of several records: each is of one " .. what) end
    local order = {}
    for i, batch in ipairs(batches) do order[i] = batch.most end
    if #order >= MANY and not have_order(order) then return skip(PUT_TOGETHER) end
    report {
      symptom  = "domains-in-blocks",
      score    = 0.95,
      at       = { step = batches[1].step },
      message  = ("two rows of one batch are of the same %s in %s of cases and two of the run in %s (%d batches, %d "
        .. "rows, %d kinds): they come in blocks"):format(what, units.percent(together),
          units.percent(expected), #batches,
        rows, kinds),
      evidence = { domains:slice(0, 5) },
    }
  end,
}
