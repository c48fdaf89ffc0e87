--- ## What it detects
--- Weights that are not finite: how many of them and from which dump on, and NaN in weights of a run whose loss goes on
--- looking finite.
---
--- ## Why it matters
--- One NaN in the loss reaches every weight within one optimizer step, and every checkpoint from there on is lost. A
--- NaN in a weight that few inputs touch hides until they come.
---
--- ## How to confirm
--- Count `torch.isnan(p).any()` over all parameters of the last two checkpoints.
---
--- ## Known false positives
--- None known: a weight is finite or it is not.
--- Once the loss is NaN its gradient is, and so is every weight that it moves: that all weights of a later dump are
--- broken says no more than the loss does, and is not reported.
---
--- ## References
--- https://github.com/pytorch/pytorch/issues/40497

local breaks = require("breaks")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Weights are not finite",
  needs    = { tensors = { "role", "nonfinite" } },
  symptoms = { "weights-all-nonfinite", "weight-nonfinite-hidden" },
  options  = {
    share = { default = 0.80, doc = "Share of the dumped weights that is nearly all" },
  },

  run = function(case)
    local weights = case.tensors:where { role = "weight" }:sort("step")
    if weights:count() == 0 then return skip("dumped weights: checkpoints or dumps of parameters") end
    local bad = weights:where("nonfinite > 0")
    local first = bad:first()
    if not first then return end
    local there  = first.step and weights:where { step = first.step } or weights:where("step is null")
    local broken = there:where("nonfinite > 0")
    local before = first.step and weights:where("step < ?", first.step):last()
    local clean  = before and weights:where { step = before.step }:sum("nonfinite") == 0

    if there:count() >= 2 and broken:count() >= case.options.share * there:count() then
      local loss = first.step and breaks.before(case, first.run, first.step - 1)
      if loss then
        return skip(("weights from before step %d, where the loss becomes %s and takes all weights with it"):format(
          loss.step, units.number(loss.value)), "weights-all-nonfinite")
      end
      report {
        symptom  = "weights-all-nonfinite",
        score    = 0.95,
        severity = "error",
        at       = { step = first.step, layer = first.layer },
        message  = ("%d of %d dumped weights hold NaN or Inf%s%s: look at the gradients of the step before"):format(
          broken:count(), there:count(), first.step and (" at step %d"):format(first.step) or "",
          clean and (", all were finite at step %d"):format(before.step) or ""),
        evidence = { broken:slice(0, 5) },
      }
      return
    end
    local loss = case.scalars:where { name = "loss", primary = true }
    local near = first.step and loss:where("step >= ? and step <= ?", first.step, first.step + 10)
      :where("finite(value)"):first()
    if near then
      local worst = broken:top(1, "nonfinite"):first()
      report {
        symptom  = "weight-nonfinite-hidden",
        score    = 0.95,
        severity = "error",
        at       = { step = first.step, layer = worst.layer },
        message  = ("%s holds %s of %s at step %d, first at %s, while the loss is %.4g: it hides until an input "
          .. "touches it")
          :format(worst.name, units.plural(worst.nonfinite, "non-finite value"), units.count(worst.numel), first.step,
          worst.first_nonfinite and worst:unravel(worst.first_nonfinite) or "an unknown place", near.value),
        evidence = { broken:slice(0, 5), near },
      }
    end
  end,
}
