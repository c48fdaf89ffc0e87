--- ## What it detects
--- A dynamic loss scale that halves again and again instead of settling.
---
--- ## Why it matters
--- Each halving is a skipped step because a gradient was not finite. A scale that keeps falling says that every step
--- overflows, so the scale is not the problem.
---
--- ## How to confirm
--- Log which parameter's gradient holds the first Inf at the next skipped step.
---
--- ## Known false positives
--- The first ten steps: the scaler starts high and searches downwards. A fall of less than one halving in two thousand
--- steps follows gradients that grow, and is not reported while the scale is above 1.
---
--- ## References
--- https://pytorch.org/docs/stable/amp.html#gradient-scaling

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss scale collapses",
  needs    = { scalars = { "step", "value", metric = "loss_scale" } },
  symptoms = { "loss-scale-collapse" },
  options  = {
    factor = { default = 16.0, doc = "Total fall after the first tenth of the run worth reporting" },
  },

  run = function(case)
    for _, run in case.scalars:where { name = "loss_scale", primary = true }:group("run") do
      local scale  = run:sort("step"):where("finite(value)")
      local begin  = scale:count() > 0 and scale:first().step or 0
      local steady = scale:slice(scale:count() // 10, scale:count()):where("step >= ?", begin + 10)
      if steady:count() >= 2 then
        local top, last = steady:max("value"), steady:last()
        -- Gradients that grow take the scale down with them, over many thousand steps; each halving on the way up of a
        -- search, one in two thousand steps, is taken back. What falls by more is not settling.
        local since = steady:where("value >= ?", top):last().step
        local slow  = top > 0 and last.step - since > 2000 * math.log(math.max(2, top / last.value), 2)
        if top > 0 and last.value * case.options.factor <= top and not (slow and last.value >= 1) then
          local first = steady:where("value < ?", top):first()
          report {
            symptom  = "loss-scale-collapse",
            score    = 0.9,
            at       = { step = first.step },
            message  = ("loss scale falls from %g to %g between steps %d and %d: every halving is a step skipped for a "
              .. "non-finite gradient")
              :format(top, last.value, first.step, last.step),
            evidence = { first, last },
          }
        end
      end
    end
  end,
}
