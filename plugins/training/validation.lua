--- ## What it detects
--- Validation loss that rises over several evaluations while training loss still falls.
---
--- ## Why it matters
--- The model memorises. The best checkpoint is the one at the minimum, not the last one.
---
--- ## How to confirm
--- Evaluate the checkpoint at the minimum: a better score there confirms it.
---
--- ## Known false positives
--- A validation set of a few batches, whose noise is larger than the rise.
---
--- ## References
--- SageMaker Debugger's Overfit rule compares levels, (val - train) / train > 0.1, and so fires on any gap.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Validation loss rises while training loss falls",
  needs    = { scalars = { "step", "value", metric = "val_loss" } },
  symptoms = { "val-loss-rises" },
  options  = {
    rise      = { default = 0.05, doc = "Rise over the minimum worth reporting, as a share of it" },
    min_evals = { default = 4,    doc = "Evaluations below which a trend is not judged" },
  },

  run = function(case)
    local judged = false
    for run_name, run in case.scalars:where { name = "val_loss", primary = true }:group("run") do
      local val = run:sort("step"):where("finite(value)")
      if val:count() >= case.options.min_evals then
        judged = true
        local best, last = val:sort("value"):first(), val:last()
        local after = val:where("step > ?", best.step)
        local train = case.scalars:where { name = "loss", primary = true, run = run_name }:sort("step")
          :where("finite(value)")
        local now   = train:where("step > ?", best.step)
        local then_ = train:where("step <= ?", best.step)
        if after:count() >= 2 and last.value > best.value * (1 + case.options.rise) and now:count() >= 3
          and then_:count() >= 3
           and now:median("value") < then_:slice(math.max(0, then_:count() - 5), 5):median("value") then
          report {
            symptom  = "val-loss-rises",
            score    = 0.85,
            at       = { step = best.step },
            message  = ("validation loss rises from %.4g at step %d to %.4g at step %d over %d evaluations while "
              .. "training loss falls"):format(
              best.value, best.step, last.value, last.step, after:count()),
            evidence = { best, last },
          }
        end
      end
    end
    if not judged then skip(("at least %d evaluations"):format(case.options.min_evals)) end
  end,
}
