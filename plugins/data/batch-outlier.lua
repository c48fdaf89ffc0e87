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
    local batches = case.tensors:where("match(name, '*input_ids|batch.input|*pixel_values|*tokens')"):sort("step")
    if batches:distinct("step"):count() < case.options.min_batches then
      return skip(("at least %d dumped batches"):format(case.options.min_batches))
    end
    for _, column in ipairs { "mean", "std" } do
      local usual  = batches:median(column)
      -- Half the batches lie within the middle quartiles; their width is the spread of the normal ones.
      local spread = math.max(batches:quantile(column, 0.75) - batches:quantile(column, 0.25), 0.02 * math.abs(usual))
      local far    = batches:with { distance = ("abs(%s - %.17g) / %.17g"):format(column, usual, spread) }:top(1, "distance"):first()
      if far.distance >= case.options.factor then
        return report {
          symptom  = "batch-outlier",
          score    = math.min(0.95, 0.6 + 0.02 * far.distance),
          at       = { step = far.step },
          message  = ("the batch of step %d stands out: %s %.4g against %.4g of the other %d, %.0f times their spread; its values lie in %g to %g")
            :format(far.step, column, far[column], usual, batches:count() - 1, far.distance, far.min, far.max),
          evidence = { far, batches },
        }
      end
    end
  end,
}
