--- ## What it detects
--- A loss that falls to nearly zero within the first half of the run, whether the validation loss does so too, and one
--- that is exactly zero.
---
--- ## Why it matters
--- Language has entropy; a model that predicts it without error sees the answer. Where held-out data is predicted as
--- well, the answer is inside each example: a leak or labels that are the inputs. Where it is not, the training data
--- was learned by heart. Exactly zero means that nothing was scored.
---
--- ## How to confirm
--- Compare the labels of one batch with its inputs, and change a later token: earlier logits must not move.
---
--- ## Known false positives
--- Deliberate overfitting of one batch, and tasks without noise.
---
--- ## References
--- With a leak the loss passes any estimate of the data's entropy within a hundred steps.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is too good to be true",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-too-good", "val-loss-too-good", "loss-zero" },
  options  = {
    share    = { default = 0.03, doc = "Loss over first loss that counts as nearly zero" },
    within   = { default = 0.50, doc = "Part of the run within which it gets there" },
    min_rows = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss  = run:sort("step"):where("finite(value)")
      local rows  = loss:count()
      -- A loss of 0 beside a gradient norm of NaN is a logger that leaves the NaN out (hidden-nonfinite).
      local broken = case.scalars:where { name = "grad_norm", primary = true, run = run_name }
        :where("value is not null and not finite(value)"):distinct("step"):select("step"):with { broken = true }
      local zeros  = loss:where("value == 0"):join(broken, "step", "left"):where("broken is null")
      judged = judged or rows >= opt.min_rows
      if zeros:count() >= math.max(3, 0.1 * rows) then
        report {
          symptom  = "loss-zero",
          score    = 0.95,
          at       = { step = zeros:first().step },
          message  = ("%d of %d logged losses are exactly 0, the first at step %d"):format(zeros:count(), rows,
            zeros:first().step),
          evidence = { zeros:slice(0, 5) },
        }
      elseif rows >= opt.min_rows then
        local start = loss:slice(0, 3):median("value")
        local level = loss:with { level = loss:col("value"):rolling(5, "median") }
        local there = level:where("level < ?", opt.share * start):first()
        local first, last = loss:first().step, loss:last().step
        local val = case.scalars:where { metric = "val_loss", primary = true, run = run_name }:where("finite(value)")
          :sort("step"):last()
        if there and start > 0 and there.step - first <= opt.within * (last - first) then
          report {
            symptom  = "loss-too-good",
            score    = 0.9,
            at       = { step = there.step },
            message  = ("loss falls from %.4g to %.4g by step %d of %d and ends at %.4g: %s")
              :format(start, there.level, there.step, last, loss:last().value,
                val and val.value > 5 * opt.share * start
                  and ("the training data is known by heart, validation is at %.4g"):format(val.value)
                  or "less than the data can allow unless the answer is in the input"),
            evidence = { there, loss:last() },
          }
          if val and val.value <= 2 * opt.share * start then
            report {
              symptom  = "val-loss-too-good",
              score    = 0.9,
              at       = { step = val.step },
              message  = ("the validation loss is %.4g at step %d as well: the answer is in each example, or the "
                .. "validation data in the training data"):format(val.value, val.step),
              evidence = { val },
            }
          end
        end
      end
    end
    if not judged then skip(("at least %d logged losses"):format(opt.min_rows)) end
  end,
}
