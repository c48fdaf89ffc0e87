--- ## What it detects
--- A run that its config plans for fewer than a thousand updates, and that has not gone beyond them.
---
--- ## Why it matters
--- It is no fault. Some causes come of thousands of updates alone: what looks like them in a short run has another
--- reason, most often the rate.
---
--- ## How to confirm
--- The config names the number of steps, and the last logged row is not beyond it.
---
--- ## Known false positives
--- A run that goes on from trained weights has the updates of those behind it, too, so that nothing is said of one; nor
--- where steps may be epochs, samples or tokens.
---
--- ## References
--- https://arxiv.org/abs/2309.14322 sees attention logits grow over thousands of steps

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A run of few updates",
  needs    = { scalars = { "step", "value", name = "loss" }, config = { "key", "number" } },
  symptoms = { "has-few-updates" },
  options  = {
    updates = { default = 1000, doc = "Updates below which a run is short" },
  },

  run = function(case)
    local planned = case.config:where("match(key, '*max_steps|*max_iters|*total_steps|*num_train_steps|"
      .. "*num_training_steps|*train_steps|*max_updates') and not match(key, '*env*|*episode*') "
      .. "and number is not null and number > 0")
      :top(1, "number"):first()
    if not planned then return skip("the planned number of updates, such as max_steps") end
    local loss = case.scalars:where { name = "loss", primary = true }:where("layer is null")
    local last = loss:max("step")
    if not last or last > planned.number then return skip("rows of steps up to the planned number of updates") end
    if settings.loaded(case) then return skip("a run that begins from weights nobody has trained") end
    if planned.number < case.options.updates then
      report {
        symptom  = "has-few-updates",
        severity = "info",
        score    = 0.9,
        at       = { step = last },
        message  = ("the run is planned for %.0f updates: what takes thousands is not its trouble"):format(
          planned.number),
        evidence = { planned, loss:sort("step"):last() },
      }
    end
  end,
}
