--- ## What it detects
--- Rows or batches that are trained on again and again, epochs in the same order, and held-out rows that are among the
--- training rows: by `batch_hash` of the metrics and `batch.row_hash` of the dumps. How often a row was trained on is
--- the median over the rows: a few that stand in the data many times are copies, not passes.
---
--- Small images and short texts are equal by nature. How often a held-out row is expected among the training rows is
--- then known from these alone: a new row was seen before with a probability of 1 - (rows seen once in a pass) / (rows
--- of a pass), and of at most the rows of a pass times the share of equal pairs within batches. Held-out rows are
--- reported where more of them stand there than four deviations above that.
---
--- ## Why it matters
--- A small set is learned by heart: the training loss falls below what the data allow and says nothing any more. A
--- held-out row that was trained on makes the validation loss lie.
---
--- ## How to confirm
--- Count the distinct rows of the training set against the rows trained on; search validation rows in it.
---
--- ## Known false positives
--- Two or three epochs on purpose: below `passes` nothing is said; nor where the config plans as many epochs, as is
--- usual for images. Of one graph that is given whole to training and to validation all rows are in both, by design.
--- Where a held-out loss is logged, does not rise and is as good as that of training, nothing was learned by heart,
--- however many passes there were: training may be better by one batch's noise, since a held-out set may be harder than
--- others by as much. Held-out rows that are among those of training prove nothing of the kind. One batch at every step
--- is the whole set, of a graph, of points of an equation or for a method that needs all of it, unless the config has
--- more rows than a batch. What is drawn from a memory of past steps, as a game's, comes again by design. Where dumped
--- batches of one hash have other labels, it is of inputs that are meant to be the same, as the points at which
--- functions are known. Rows that are streams, each going on in the next batch, come in one order by need.
---
--- ## References
--- https://en.wikipedia.org/wiki/Good%E2%80%93Turing_frequency_estimation (rows seen once and new rows),
--- https://github.com/huggingface/transformers/issues/18730

local LIMIT = 400000

--- How often each value stands in some tensors, how many values and distinct ones there are, and of pairs within a
--- batch (the last axis) how many there are and how many are equal.
local function distinct(tensors)
  local set, all, different, pairs_, equal = {}, 0, 0, 0, 0
  for row in tensors:rows() do
    local width = math.max(1, math.min(8192, math.floor(row.shape[#row.shape] or 1)))
    for from = 0, math.min(row.numel, LIMIT - all) - 1, width do
      local batch, here = {}, row:values(from, width)
      for _, hash in ipairs(here) do
        all = all + 1
        if not set[hash] then set[hash], different = 0, different + 1 end
        set[hash] = set[hash] + 1
        equal = equal + (batch[hash] or 0)
        batch[hash] = (batch[hash] or 0) + 1
      end
      pairs_ = pairs_ + #here * (#here - 1) / 2
    end
  end
  return set, all, different, pairs_, equal
end

--- How often the median row was trained on, the share of rows that were about as often, and the probability that a new
--- row of the same kind was among them.
local function passed(set, all, different, pairs_, equal)
  local counts = {}
  for _, count in pairs(set) do counts[#counts + 1] = count end
  table.sort(counts)
  local least, median = counts[1] or 1, counts[(#counts + 1) // 2] or 1
  local alike, single = 0, 0
  for _, count in ipairs(counts) do
    if math.abs(count - median) <= math.max(1, 0.1 * median) then alike = alike + 1 end
    -- A last pass that is not whole leaves some rows one time more; after a single pass that cannot be told from
    -- copies.
    if count <= (least >= 2 and least + 1 or 1) then single = single + 1 end
  end
  local draws = all / least
  local known = 1 - math.min(1, single / draws)
  -- Two rows of a batch are equal with probability c; a new one is then among n with n * c at most. A sampler that
  -- draws without replacement has no pass's row twice in a batch.
  if pairs_ >= 1000 then known = math.min(known, draws * (equal + 2) / pairs_) end
  return median, alike / math.max(1, different), known
end

local places = require("places")
local runs = require("runs")
local streams = require("streams")
local training = require("training-rows")

--- The rows of a held-out loss that show no distance to training and do not rise, each by more than the noise of one
--- batch: the last two of three or more, beside the training losses between these two, or in the last third of the
--- run where so few are logged. Of the first run that has them; nil where there are none.
local function as_good(case)
  for run_name, series in case.scalars:where { metric = "val_loss", primary = true }:group("run") do
    local val, train = series:where("finite(value)"):sort("step"), runs.series(case, "loss", run_name)
    local rows = val:count()
    if rows >= 3 and train:count() >= 12 then
      local late  = train:slice(train:count() - train:count() // 3, train:count())
      local noise = (late:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      local last  = val:slice(rows - 2, 2):mean("value")
      local now   = train:where("step > ? and step <= ?", val:row(rows - 2).step, val:last().step)
      if now:count() < 5 then now = late end
      if last > now:median("value") + noise or last > val:min("value") + noise then return nil end
      return val
    end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The same rows again and again, or held-out rows in training",
  needs    = { any = { scalars = { "step", "value", metric = "batch_hash" }, tensors = { "name", "data" } } },
  symptoms = { "training-rows-repeat", "training-set-passed-often", "epochs-same-order", "eval-rows-in-training" },
  options  = {
    passes = { default = 5,    doc = "Passes over the same rows worth reporting" },
    even   = { default = 0.9,  doc = "Share of rows trained on equally often that makes them passes over one set" },
    leaked = { default = 0.02, doc = "Share of held-out rows in training worth reporting, above what chance has" },
    sure   = { default = 4,    doc = "Deviations above chance from which held-out rows were trained on" },
  },

  run = function(case)
    local opt, judged, ordered = case.options, false, false
    -- A set of data is chosen before the first step.
    local begin = places.first_step(case)
    local hashes = case.tensors:where("match(name, '*row_hash*') and match(dtype, '*int*') and zero_share is not null")
    local held   = hashes:where("match(variant, 'val*|eval*|test*|held*') or match(name, '*val*|*eval*')")
      :where("variant is null or not match(variant, '*train*')")
    local trained = training.trained(hashes)
      :where("not match(name, '*val*|*eval*')")
    -- Of several runs, as the folds of a cross-validation, what one holds out another trains on: the first with both.
    for name in held:where("run is not null"):group("run") do
      local own = trained:where { run = name }
      if own:count() > 0 then held, trained = held:where { run = name }, own break end
    end
    local set, all, different, pairs_, equal = distinct(trained)
    local passes, alike, known = passed(set, all, different, pairs_, equal)
    local planned = case.config:where("match(key, '*epochs|*num_train_epochs|*max_epochs|*n_epochs') and number > 1")
      :max("number")
    local leaks = false
    local longest = case.scalars:where("primary == true"):max("step")
    -- One graph is given whole to both; which of its nodes count is what is held out.
    local graph = case.tensors:where("match(name, 'batch.*edge_index*|batch.*adj|batch.*adj_t|batch.*train_mask|"
      .. "batch.*val_mask|batch.*test_mask')"):first()
    local _, _, kept = distinct(held)
    if held:count() > 0 and all >= 32 and not (graph and kept >= 0.9 * different) then
      local hits, example, seen = 0, nil, {}
      for row in held:rows() do
        for from = 0, math.min(row.numel, LIMIT) - 1, 8192 do
          for _, hash in ipairs(row:values(from, 8192)) do
            if set[hash] and not seen[hash] then seen[hash], hits, example = true, hits + 1, example or row end
          end
        end
      end
      local chance = known * kept
      if hits >= 2 and hits >= chance + opt.leaked * kept
        and hits >= chance + opt.sure * math.sqrt(chance * (1 - known)) then
        leaks = true
        report {
          symptom = "eval-rows-in-training", score = 0.97, at = { step = begin },
          message = ("from the start %s of %s distinct held-out rows (%s) are among the recorded training rows%s")
            :format(units.count(hits), units.count(kept), units.percent(hits / kept), chance >= 1
            and (", where %s would be by chance"):format(units.count(math.floor(chance + 0.5))) or ""),
          evidence = { example, trained:slice(0, 3) },
        }
      end
    end
    local good = not leaks and as_good(case)
    local sound = good and ("a held-out loss that is worse than training's, or rises: it is %.4g at step %d, no worse "
      .. "than that of training, and nothing was learned by heart"):format(good:last().value, good:last().step)
    -- Rows of a few dumped batches repeat only if the set is small; rows of all steps tell how often.
    if all >= 32 then
      judged = true
      if passes >= opt.passes and planned and planned >= 0.8 * passes then
        skip(("a plan of fewer passes than the %d of the config"):format(math.floor(planned)), "training-rows-repeat",
          "training-set-passed-often")
      elseif passes >= opt.passes and sound then
        skip(sound, "training-rows-repeat", "training-set-passed-often")
      elseif passes >= opt.passes then
        report {
          symptom = "training-rows-repeat", score = math.min(0.95, 0.75 + 0.01 * passes), at = { step = begin },
          message = ("%s recorded training rows are %s distinct ones: the median one was trained on %d times%s"):format(
            units.count(all), units.count(different), passes,
            longest and (", from the start to step %d"):format(longest) or ""),
          evidence = { trained:slice(0, 5) },
        }
        if alike >= opt.even then
          report {
            symptom = "training-set-passed-often", score = 0.95, at = { step = begin },
            message = ("%s of %s distinct rows were trained on %d times, give or take one pass: a set of %s was gone "
              .. "through again and again, from the start"):format(units.percent(alike), units.count(different), passes,
              units.count(different)),
            evidence = { trained:slice(0, 5) },
          }
        end
      end
    end
    local replay = case.config:where("match(key, '*replay*|*buffer_size|*memory_size|*learning_starts')")
      :where("not match(key, '*shuffle*|*bucket*|*read_buffer*') and number > 1"):first()
    for name, run in case.scalars:where { metric = "batch_hash", primary = true }:group("run") do
      local series = run:where("finite(value)"):sort("step")
      local anew = series:count() >= 20 and training.told_anew(case, name)
      if anew then
        judged, ordered = true, true
        skip(("hashes of whole batches: those of one hash have other %s, and it is of the inputs alone"):format(anew),
          "training-rows-repeat", "epochs-same-order")
      elseif series:count() >= 20 then
        judged, ordered = true, true
        -- Distances to the last time that the same batch was seen.
        local last, distances, again, before = {}, {}, 0, {}
        for row in series:slice(0, 10000):rows() do
          local hash = math.floor(row.value)
          if last[hash] then again = again + 1 distances[again] = row.step - last[hash] end
          last[hash] = row.step
        end
        local count = math.min(series:count(), 10000)
        table.sort(distances)
        local period = distances[math.max(1, again // 2)]
        local steps  = series:last().step - series:first().step
        -- The same at every step is the whole set at once, unless the set is known to hold more.
        local total = case.config:where("match(key, '*num_samples|*num_examples|*num_train_examples|*dataset_size|"
          .. "*train_size|*n_train|*num_rows') and number > 1"):max("number")
        local size  = case.config:where("match(key, '*batch_size') and number > 0"):max("number")
        local rounds = again > 0 and steps / math.max(period, 1) or 0
        local whole = again > 0 and period <= 1 and not (total and size and total > size)
        local meant = whole or replay or planned and planned >= 0.8 * rounds
        if again >= 0.5 * count and rounds >= opt.passes and meant then
          skip(replay and "batches that are no draws of a memory, as those of the config's " .. replay.key .. " are"
            or whole and "the number of training rows in a config: one batch at every step may be all of them"
            or ("a plan of fewer passes than the %d of the config"):format(math.floor(planned)), "training-rows-repeat")
        elseif again >= 0.5 * count and rounds >= opt.passes and sound and period > 1 then
          skip(sound, "training-rows-repeat")
        elseif again >= 0.5 * count and rounds >= opt.passes then
          report {
            symptom = "training-rows-repeat", score = 0.9, at = { step = series:first().step },
            message = period <= 1 and ("every logged step trains on the same batch, %d times, %s"):format(again + 1,
              places.since(series:first().step, begin))
              or ("%d of %d logged batches had been trained on before, %d steps earlier in the median: %.0f passes "
                .. "over them, %s"):format(again, count, period, steps / period,
                places.since(series:first().step, begin)),
            evidence = { series:slice(0, 5) },
          }
        end
        local same = 0
        for _, d in ipairs(distances) do if d == period then same = same + 1 end end
        local ordered_alike = again >= 8 and period > 1 and same >= 0.9 * again
        local stream = ordered_alike and streams.told(case)
        if stream then
          skip("rows that may be shuffled: these go on from batch to batch, as " .. stream .. " says",
            "epochs-same-order")
        elseif ordered_alike then
          report {
            symptom = "epochs-same-order", score = 0.95, at = { step = series:first().step + period },
            message = ("%d of %d batches that came again came exactly %d steps after they had come before: "
              .. "every epoch has "
              .. "the same order"):format(same, again, period),
            evidence = { series:slice(0, 5) },
          }
        end
      end
    end
    if all < 32 then skip("batch.row_hash of 32 training rows", "training-set-passed-often") end
    if not judged then
      skip("batch_hash in metrics.jsonl for 20 steps, or batch.row_hash of 32 rows in dumps (culprit_recorder.watch)")
    else
      if not ordered then skip("batch_hash in metrics.jsonl for 20 steps", "epochs-same-order") end
      if held:count() == 0 or all < 32 then
        skip("row hashes of held-out batches beside 32 of training", "eval-rows-in-training")
      end
    end
  end,
}
