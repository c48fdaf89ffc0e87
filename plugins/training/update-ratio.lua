--- ## What it detects
--- Updates that are a large, or a vanishing, fraction of the weights.
---
--- ## Why it matters
--- Between a thousandth and a hundredth a step is healthy. A tenth and more tears the weights up; below a
--- ten-thousandth a model that starts from nothing does not get anywhere.
---
--- ## How to confirm
--- Compare one parameter before and after `optimizer.step()`, in the middle of the schedule.
---
--- ## Known false positives
--- The first steps of a warm-up and the end of a schedule that ends at zero: the median over the run is judged. Layers
--- that begin at zero, as biases and the second factor of LoRA do: the median over the layers is judged. Fine-tuning at
--- rates of 1e-6 moves a model that already knows; a first loss far below that of chance weakens the report.
---
--- ## References
--- SageMaker Debugger flags ratios above 10 and below 1e-8, orders beyond what breaks a transformer.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates are too large or vanishing against the weights",
  needs    = { scalars = { "step", "value", metric = "update_ratio" } },
  symptoms = { "update-ratio-high", "update-ratio-low" },
  options  = {
    high      = { default = 0.10, doc = "Update over weight norm that is too large" },
    low       = { default = 1e-4, doc = "Median update over weight norm that is too small" },
    min_steps = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = function(case)
    local opt    = case.options
    local rows   = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
    local layers = rows:where("layer is not null")
    local ratios = (layers:count() > 0 and layers or rows):sort("step")
    local usual  = ratios:aggregate({ "step" }, { ratio = "median value",
      largest = "max value" }):renamed("update ratios")
    local high = usual:where("ratio >= ?", opt.high)
    -- One step is enough where it replaces the weights altogether.
    local torn = high:where("ratio >= ?", 10 * opt.high):count() > 0
    if usual:count() < opt.min_steps and not torn then
      return skip(("update ratios of at least %d steps"):format(opt.min_steps))
    end

    if high:count() >= 2 or torn then
      local first, worst = high:first(), high:top(1, "ratio"):first()
      report {
        symptom  = "update-ratio-high",
        score    = math.min(0.95, 0.6 + worst.ratio),
        at       = { step = first.step, layer = ratios:where { step = worst.step }:top(1, "value"):first().layer },
        message  = ("updates reach %.2g of the weights in the median layer (step %d); above %g at %d of %d logged "
          .. "steps, "
          .. "first at step %d"):format(worst.ratio, worst.step, opt.high, high:count(), usual:count(), first.step),
        evidence = { high:top(5, "ratio"), ratios:where { step = worst.step }:top(3, "value") },
      }
    end

    local moving = usual:where("ratio > 0")
    local median = moving:count() > usual:count() / 2 and moving:median("ratio") or nil
    if median and median < opt.low then
      local size = case.config:where("match(key, '*vocab_size|*num_classes|*n_classes') and number > 1"):first()
      local loss = case.scalars:where { name = "loss", primary = true }:where("finite(value)"):sort("step"):first()
      local knows = size and loss and loss.value < 0.75 * math.log(size.number)
      report {
        symptom  = "update-ratio-low",
        score    = knows and 0.3 or median < 0.2 * opt.low and 0.9 or 0.75,
        at       = { step = moving:first().step },
        message  = ("the median update is %.2g of the weights over %d logged steps, at most %.2g; learning from "
          .. "nothing needs about 1e-3"):format(median, usual:count(), moving:max("ratio")),
        evidence = { moving:top(3, "ratio"), ratios:slice(0, 5) },
      }
    end
  end,
}
