--- ## What it detects
--- A gradient norm that falls within the first tenth of the run to less than a ten-thousandth of what it was, and stays
--- there, while the loss is not near zero.
---
--- ## Why it matters
--- Batches differ, and so do their gradients: one that is learned as far as it can be still has a gradient of its own,
--- which the next one takes back. A norm that goes to nothing at a loss that does not is of a model that answers
--- everything alike, or with units at their ends: updates in the order of the weights put it where no gradient comes
--- through, in a few steps, and no later rate brings it back. The plateau that is left looks like a rate too low.
---
--- ## How to confirm
--- Restart with a tenth of the rate: the norm stays within a factor of a hundred of its first value.
---
--- ## Known false positives
--- Steps that take the whole data end where their gradient is zero, at any loss: those of a run that has neither three
--- layers on record nor a batch size in its config, or whose config or batches say so, are not judged, nor are those on
--- one batch again and again, nor norms beside a loss scale that falls or grows a hundredfold. Targets that are
--- probabilities have a loss above zero at their best; no run comes within a ten-thousandth of that in its first tenth.
--- A norm of exactly zero is training/gradient-norm's.
---
--- ## References
--- https://arxiv.org/abs/1903.06733 (units that die), https://arxiv.org/abs/2110.09348 (embeddings that collapse)

local dying = require("dying")
local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The gradient dies in the first steps, at a loss that does not",
  needs    = { scalars = { "step", "value", metric = "grad_norm" } },
  symptoms = { "gradient-dies-early" },
  options  = {
    gone     = { default = dying.usual.gone,
      doc = "Median norm over the larger of the first two from which it is gone" },
    ever     = { default = dying.usual.ever, doc = "Largest norm over the first one that it may come back to" },
    level    = { default = dying.usual.level, doc = "Last over first loss from which nothing much was learned" },
    part     = { default = dying.usual.part, doc = "Part of the run in which it dies" },
    layers   = { default = dying.usual.layers,
      doc = "Layers from which steps on the whole data leave no zero gradient so soon" },
    min_rows = { default = dying.usual.min_rows, doc = "Rows after that part below which nothing is judged" },
  },

  run = runs.apart(function(case, run)
    local found, needed = dying.early(case, case.options)
    if needed then return skip(needed) end
    if not found then return end
    local late = found.late
    report {
      symptom  = "gradient-dies-early",
      score    = 0.9,
      at       = { run = run, step = late:first().step },
      message  = ("the gradient norm is %.3g at step %d, %.2g at step %d and %.2g in the median since, while the loss "
        .. "stands at %.4g: the first updates put the model where no gradient comes through"):format(found.first.value,
        found.first.step, late:first().value, late:first().step, found.usual, found.finish),
      evidence = { found.norm:slice(0, 2), late:slice(0, 3) },
    }
  end),
}
