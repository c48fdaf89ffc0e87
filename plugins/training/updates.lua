--- ## What it detects
--- The size of the updates against the weights: exactly zero in every layer, far too large, or vanishing.
---
--- ## Why it matters
--- About a thousandth per step is healthy. Zero everywhere with a gradient and a learning rate above zero means that
--- the optimizer holds other parameters; a tenth and more tears the weights up.
---
--- ## How to confirm
--- Compare one parameter before and after `optimizer.step()`.
---
--- ## Known false positives
--- The first steps of a warm-up from zero, and the last step of a schedule that ends at zero; single steps are not
--- reported.
---
--- ## References
--- SageMaker Debugger flags ratios above 10 and below 1e-8, orders beyond what breaks a transformer.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates are zero, too large or vanishing",
  needs    = { scalars = { "step", "value", metric = "update_ratio" } },
  symptoms = { "update-zero", "update-ratio-high", "update-ratio-low" },
  options  = {
    zero_share = { default = 0.30, doc = "Share of the logged steps without any update worth reporting" },
    high       = { default = 0.10, doc = "Update over weight norm that is too large" },
    low        = { default = 5e-5, doc = "Median update over weight norm that is too small" },
    min_steps  = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = function(case)
    local opt  = case.options
    local rows = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)"):sort("step")
    local frozen, steps, from, since = 0, 0, nil, nil
    for step, layers in rows:group("step") do
      steps = steps + 1
      if layers:max("value") == 0 then
        frozen = frozen + 1
        since  = since or step
        from   = from or layers
      else
        since = nil
      end
    end
    if steps < opt.min_steps then
      return skip(("update ratios of at least %d steps"):format(opt.min_steps))
    end
    if frozen >= opt.zero_share * steps and frozen >= 3 then
      report {
        symptom  = "update-zero",
        score    = 0.97,
        at       = { step = from:first().step },
        message  = ("no layer changes in %d of %d logged steps, first at step %d%s"):format(frozen, steps,
          from:first().step,
          since and (", and none from step %d to the end"):format(since) or ""),
        evidence = { from:slice(0, 5) },
      }
    end

    local high  = rows:where("value >= ?", opt.high)
    local first = high:first()
    if first and high:distinct("step"):count() >= 2 then
      local worst = high:top(1, "value"):first()
      report {
        symptom  = "update-ratio-high",
        score    = math.min(0.95, 0.6 + worst.value),
        at       = { step = first.step, layer = worst.layer },
        message  = ("updates reach %.2g of the weights (%s, step %d); above %g at %d logged steps, first at step %d")
          :format(
          worst.value, worst.layer or "all", worst.step, opt.high, high:distinct("step"):count(), first.step),
        evidence = { worst, first },
      }
    end

    local usual = rows:median("value")
    if frozen < steps / 2 and usual > 0 and usual < opt.low then
      report {
        symptom  = "update-ratio-low",
        score    = 0.8,
        at       = { step = rows:first().step },
        message  = ("the median update is %.2g of the weights over %d steps; learning needs about 1e-3")
          :format(usual, steps),
        evidence = { rows:slice(0, 5) },
      }
    end
  end,
}
