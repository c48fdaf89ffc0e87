--- ## What it detects
--- One dumped batch whose token ids or inputs are distributed unlike all the others.
---
--- ## Why it matters
--- A corrupt shard, a stuck tokenizer or a binary file in the corpus shows up as one batch that makes the loss jump.
---
--- ## How to confirm
--- Decode the batch; train on without it.
---
--- ## Known false positives
--- Corpora that mix languages or code in blocks.
---
--- ## References
--- The statistics are those of the `tensors` table, so dumps of a few batches suffice.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One batch differs grossly from the others",
  needs    = { tensors = { "name", "step", "mean", "std" } },
  symptoms = { "batch-outlier" },
  options  = {
    min_batches = { default = 4,   doc = "Dumped batches below which none can stand out" },
    factor      = { default = 6.0, doc = "Distance over the spread of the others that stands out" },
  },

  run = function(case)
    local dumped = case.tensors:where("match(name, '*input_ids|batch.input|*pixel_values|*tokens')")
      -- A held-out batch, dumped without a step, is none of those that were trained on.
      :where("not match(name, 'battery.*') and step is not null"):sort("step")
    local judged = false
    for _, batches in dumped:group("name") do
      local enough = batches:distinct("step"):count() >= case.options.min_batches
      judged = judged or enough
      -- One value throughout, where every other batch has many: a padded, cleared or unread buffer.
      local even = enough and batches:where("min == max")
      if even and even:count() > 0 and even:distinct("step"):count() <= 0.2 * batches:distinct("step"):count() then
        local first = even:first()
        return report {
          symptom  = "batch-outlier",
          score    = 0.95,
          at       = { step = first.step },
          message  = ("the batch of step %d stands out: every value of %s is %g, that of the other %d batches varies")
            :format(first.step, first.name, first.min, batches:count() - even:count()),
          evidence = { first, batches },
        }
      end
      for _, column in ipairs(enough and { "mean", "std" } or {}) do
        local usual  = batches:median(column) or 0
        -- Half the batches lie within the middle quartiles; their width is the spread of the normal ones.
        local spread = math.max((batches:quantile(column, 0.75) or 0) - (batches:quantile(column, 0.25) or 0),
          0.02 * math.abs(usual), 1e-9)
        local far    = batches:with { distance = ("abs(%s - %.17g) / %.17g"):format(column, usual, spread) }:top(1,
          "distance"):first()
        if far and far.distance >= case.options.factor then
          return report {
            symptom  = "batch-outlier",
            score    = math.min(0.95, 0.6 + 0.02 * far.distance),
            at       = { step = far.step },
            message  = ("the batch of step %d stands out: %s %.4g against %.4g of the other %d, %.0f times their "
              .. "spread; its values lie in %g to %g")
              :format(far.step, column, far[column], usual, batches:count() - 1, far.distance, far.min, far.max),
            evidence = { far, batches },
          }
        end
      end
    end
    if not judged then skip(("at least %d dumped batches"):format(case.options.min_batches)) end
  end,
}
