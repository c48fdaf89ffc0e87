--- ## What it detects
--- A training loss that becomes NaN or infinite, when it happened, what it was just before, and whether the first
--- logged value already was.
---
--- ## Why it matters
--- One NaN reaches every weight within one optimizer step; everything after the first one is a consequence. A run that
--- is NaN from its first step has a different cause than one that breaks after hundreds of good ones. Where rows are
--- far apart the first one may be NaN long after the first step: finite gradients of earlier steps say so.
---
--- ## How to confirm
--- Replay the step before the first one with `torch.autograd.set_detect_anomaly(True)`.
---
--- ## Known false positives
--- None. Trainers that filter NaN from their logs hide it instead: Hugging Face's `logging_nan_inf_filter` is on by
--- default.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.logging_nan_inf_filter

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss becomes NaN or infinite",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-nonfinite", "loss-nonfinite-at-first-step" },

  run = function(case)
    for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss   = run:sort("step")
      local broken = loss:where("value is not null and not finite(value)")
      local first  = broken:first()
      if first then
        local good = loss:where("step < ? and finite(value)", first.step):last()
        report {
          symptom  = "loss-nonfinite",
          score    = 0.99,
          severity = "error",
          at       = { step = first.step },
          message  = ("loss is %s from step %d on (%d of %d logged values); %s"):format(units.number(first.value),
            first.step,
            broken:count(), loss:count(), good and ("it was %.4g at step %d"):format(good.value, good.step)
            or "no finite value was logged before"),
          evidence = { first, good or first },
        }
        -- A gradient that was finite before is of a loss that was.
        local before = case.scalars:where { metric = "grad_norm", primary = true, run = first.run }
          :where("finite(value) and value > 0 and step < ?", first.step - 1)
        if first.step == loss:first().step and before:count() == 0 then
          report {
            symptom  = "loss-nonfinite-at-first-step",
            score    = 0.99,
            severity = "error",
            at       = { step = first.step },
            message  = ("the first logged loss, step %d, is already %s"):format(first.step, units.number(first.value)),
            evidence = { first },
          }
        end
      end
    end
  end,
}
