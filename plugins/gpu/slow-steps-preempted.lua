--- ## What it detects
--- Slow steps in which the launching thread waits for a CPU longer than in others while the device idles.
---
--- ## Why it matters
--- The step is slow because of somebody else: no change to the program helps.
---
--- ## How to confirm
--- Give the process CPUs of its own: the slow steps vanish.
---
--- ## Known false positives
--- Coarse scheduler traces stretch states.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

local slow_steps = require("slow-steps")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "In slow steps the launching thread has no CPU",
  needs    = { steps = { "start", "stop", "dur" }, windows = { "dur" }, thread_states = { "start", "stop", "state" } },
  relies   = { "launches" },
  symptoms = { "slow-steps-preempted" },
  options  = slow_steps.options,

  run = function(case)
    local judged = slow_steps.each(case, function(rank, blame, gaps)
      local starved, tids = gaps:where { state = "starved" }, {}
      for tid in starved:group("tid") do tids[#tids + 1] = tid end
      local wants = case.thread_states:where { rank = rank, state = "runnable", tid = tids }
      blame("slow-steps-preempted", "a launching thread that wants a CPU", wants:intersect(starved),
        "Only a runnable thread with an idle device counts, not one that sleeps")
    end)
    if not judged then skip(("at least %d steps: record more of them"):format(case.options.min_steps + 1)) end
  end,
}
