--- ## What it detects
--- Rows or batches that are trained on again and again, epochs in the same order, and held-out rows that are among the
--- training rows: by `batch_hash` of the metrics and `batch.row_hash` of the dumps.
---
--- ## Why it matters
--- A small set is learned by heart: the training loss falls below what the data allow and says nothing any more. A
--- held-out row that was trained on makes the validation loss lie.
---
--- ## How to confirm
--- Count the distinct rows of the training set against the rows trained on; search validation rows in it.
---
--- ## Known false positives
--- Two or three epochs on purpose: below `passes` nothing is said. Empty rows that are equal by nature.
---
--- ## References
--- https://github.com/huggingface/transformers/issues/18730

local LIMIT = 400000

--- The distinct values of some tensors, in a set, with how many values and how many distinct ones there were.
local function distinct(tensors)
  local set, all, different = {}, 0, 0
  for row in tensors:rows() do
    for from = 0, math.min(row.numel, LIMIT - all) - 1, 8192 do
      for _, hash in ipairs(row:values(from, 8192)) do
        all = all + 1
        if not set[hash] then set[hash], different = true, different + 1 end
      end
    end
  end
  return set, all, different
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The same rows again and again, or held-out rows in training",
  needs    = { any = { scalars = { "step", "value", metric = "batch_hash" }, tensors = { "name", "data" } } },
  symptoms = { "training-rows-repeat", "epochs-same-order", "eval-rows-in-training" },
  options  = {
    passes = { default = 5,    doc = "Passes over the same rows worth reporting" },
    leaked = { default = 0.02, doc = "Share of held-out rows in training worth reporting" },
  },

  run = function(case)
    local opt, judged, ordered = case.options, false, false
    local hashes = case.tensors:where("match(name, '*row_hash*') and match(dtype, '*int*') and zero_share is not null")
    local held   = hashes:where("match(variant, 'val*|eval*|test*|held*') or match(name, '*val*|*eval*')")
    local trained = hashes:where("variant is null or not match(variant, 'val*|eval*|test*|held*')")
      :where("not match(name, '*val*|*eval*')")
    local set, all, different = distinct(trained)
    -- Rows of a few dumped batches repeat only if the set is small; rows of all steps tell how often.
    local longest = case.scalars:where("primary == true"):max("step")
    if all >= 32 then
      judged = true
      local passes = all / different
      if passes >= opt.passes then
        report {
          symptom = "training-rows-repeat", score = math.min(0.95, 0.75 + 0.01 * passes),
          message = ("%s recorded training rows are %s distinct ones: each was trained on %.1f times%s"):format(
            units.count(all), units.count(different), passes,
            longest and (" by step %d"):format(longest) or ""),
          evidence = { trained:slice(0, 5) },
        }
      end
    end
    if held:count() > 0 and all >= 32 then
      local _, _, kept = distinct(held)
      local hits, example, seen = 0, nil, {}
      for row in held:rows() do
        for from = 0, math.min(row.numel, LIMIT) - 1, 8192 do
          for _, hash in ipairs(row:values(from, 8192)) do
            if set[hash] and not seen[hash] then seen[hash], hits, example = true, hits + 1, example or row end
          end
        end
      end
      if hits >= 2 and hits >= opt.leaked * kept then
        report {
          symptom = "eval-rows-in-training", score = 0.97,
          message = ("%s of %s distinct held-out rows (%s) are among the recorded training "
            .. "rows"):format(units.count(hits),
            units.count(kept), units.percent(hits / kept)),
          evidence = { example, trained:slice(0, 3) },
        }
      end
    end

    for _, run in case.scalars:where { metric = "batch_hash", primary = true }:group("run") do
      local series = run:where("finite(value)"):sort("step")
      if series:count() >= 20 then
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
        if again >= 0.5 * count and steps / math.max(period, 1) >= opt.passes then
          report {
            symptom = "training-rows-repeat", score = 0.9, at = { step = series:first().step + period },
            message = period <= 1 and ("every logged step trains on the same batch, %d times"):format(again + 1)
              or ("%d of %d logged batches had been trained on before, %d steps earlier in the median: %.0f "
                .. "passes over "
              .. "them"):format(again, count, period, steps / period),
            evidence = { series:slice(0, 5) },
          }
        end
        local same = 0
        for _, d in ipairs(distances) do if d == period then same = same + 1 end end
        if again >= 8 and period > 1 and same >= 0.9 * again then
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
