--- ## What it detects
--- Batches that are mostly of one domain or class each, while the run as a whole has several: rows come in blocks
--- instead of mixed. Classes may be integers, or the 0 and 1 of a binary cross-entropy, however rare one of them is.
---
--- ## Why it matters
--- The model forgets one domain while it sees another; the loss saw-tooths with the blocks, and the last block wins.
---
--- ## How to confirm
--- Train on with a shuffle over the whole set.
---
--- ## Known false positives
--- Batches made of one domain on purpose that alternate; where neighbouring steps are dumped they tell.
---
--- ## References
--- The test is a chi-square of batches against domains; of batches of one row, the runs test for several kinds (Barton
--- and David 1957).

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

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Domains or classes come in blocks, not mixed",
  needs    = { tensors = { "name", "step", "data" } },
  symptoms = { "domains-in-blocks" },
  options  = {
    rows   = { default = 64,  doc = "Dumped rows below which chance makes blocks of its own" },
    alike  = { default = 0.22, doc = "Likeness within batches beyond that of the run, as a share of the largest" },
    lack   = { default = 3.3, doc = "Standard deviations by which runs are too few: one case in 2,000 by chance" },
  },

  run = function(case)
    local dumped = case.tensors:where("zero_share is not null and not match(name, 'battery.*')")
      :where("variant is null or not match(variant, 'val*|eval*|test*|held*')")
    local domains = dumped:where("match(dtype, 'int*') and match(name, '*domain*|*source_id*|*dataset_id*')")
    local what = "domain"
    if domains:count() == 0 then -- of a classifier the class
      domains, what = classes(dumped), "class"
    end
    local total, rows, batches, single = {}, 0, {}, {}
    for batch in domains:where("step is not null"):sort("step"):rows() do
      if batch.numel == 1 then
        single[#single + 1] = batch:values(0, 1)[1]
      elseif (#batch.shape == 1 or #batch.shape == 2 and batch.shape[2] == 1) and batch.numel <= 10000 then
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
      before = { step = batch.step, most = most }
    end
    for _, of_all in pairs(total) do expected = expected + (of_all / rows) ^ 2 end
    local free = (#batches - 1) * (kinds - 1)
    local together = pure / pairs_
    -- How much more alike rows of one batch are, as a share of what they could be: of rare clicks two rows of the run
    -- are alike nearly always.
    if chi < free + 6 * math.sqrt(2 * free) or together - expected < case.options.alike * (1 - expected) then return end
    if neighbours >= 4 and turns >= 0.8 * neighbours * (1 - expected) then return end -- alternate by design
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
