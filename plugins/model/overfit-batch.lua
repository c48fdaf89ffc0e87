--- ## What it detects
--- One batch, repeated without dropout and weight decay (the recorder's overfitting battery), whose loss does not
--- fall to nearly nothing.
---
--- ## Why it matters
--- A sound model learns one batch by heart within some hundred steps. One that cannot has a fault between labels, loss,
--- gradient and update, and needs no large run to find it.
---
--- ## How to confirm
--- Repeat it with the rate divided and multiplied by ten.
---
--- ## Known false positives
--- Batches that hold one input twice with different labels have a floor above zero, as have label smoothing and noise
--- that is drawn anew.
---
--- ## References
--- https://karpathy.github.io/2019/04/25/recipe/ ("overfit one batch")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One batch cannot be learned by heart",
  needs    = { scalars = { "step", "value", metric = "overfit_loss" } },
  symptoms = { "one-batch-not-learned" },
  options  = {
    loss  = { default = 0.05, doc = "Loss below which a batch is learned" },
    share = { default = 0.01, doc = "Share of the first loss below which it is learned as well" },
    steps = { default = 100,  doc = "Steps below which nothing is said" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { metric = "overfit_loss" }:group("run") do
      local loss = run:where("finite(value)"):sort("step")
      if loss:count() >= 4 and loss:last().step - loss:first().step >= opt.steps then
        judged = true
        local first, count = loss:first().value, loss:count()
        local last = loss:slice(math.max(0, count - 3), 3):median("value")
        if last > opt.loss and last > opt.share * math.abs(first) then
          local norms = case.scalars:where { metric = "overfit_grad_norm" }:where("finite(value)")
          local norm  = norms:median("value")
          -- Still falling fast: the steps were too few or too small, and nothing more can be said.
          local half  = loss:slice(count // 2, 3):median("value")
          local falls = last < 0.6 * half
          report {
            symptom  = "one-batch-not-learned",
            score    = falls and 0.5 or 0.93,
            at       = { step = loss:last().step },
            message  = ("one batch repeated for %d steps ends at a loss of %s, from %s%s%s"):format(
              math.floor(loss:last().step - loss:first().step), units.number(last), units.number(first),
              falls and ", and still falls" or "",
              norm and (norm == 0 and "; its gradient is exactly 0" or ("; its gradient norm is %s in the "
                .. "median"):format(
              units.number(norm))) or ""),
            evidence = { loss:slice(0, 3), loss:slice(math.max(0, count - 3), 3) },
          }
        end
      end
    end
    if not judged then
      skip(("overfit_loss of %d steps: the overfitting battery of culprit_recorder.battery"):format(opt.steps))
    end
  end,
}
