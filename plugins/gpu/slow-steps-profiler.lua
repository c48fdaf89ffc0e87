--- ## What it detects
--- Slow steps that hold the overhead which the profiler records of itself.
---
--- ## Why it matters
--- Such steps are the measurement's, not the run's.
---
--- ## How to confirm
--- The step times logged without the profiler lack the slow steps.
---
--- ## Known false positives
--- None known: the profiler says it itself.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

local slow_steps = require("slow-steps")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Slow steps are the profiler's own",
  needs    = { steps = { "start", "stop", "dur" }, profiler_events = { "start", "stop", kind = "overhead" } },
  relies   = { "launches" },
  symptoms = { "slow-steps-profiler" },
  options  = slow_steps.options,

  run = function(case)
    local judged = slow_steps.each(case, function(rank, blame)
      blame("slow-steps-profiler", "the profiler's own work",
        case.profiler_events:where { rank = rank, kind = "overhead" }:where("start is not null and stop is not null"),
        "Without the profiler these steps are as fast as the others: it is not the run's fault")
    end)
    if not judged then skip(("at least %d steps: record more of them"):format(case.options.min_steps + 1)) end
  end,
}
