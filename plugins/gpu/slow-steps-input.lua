--- ## What it detects
--- Slow steps that wait longer for the next batch than others while the device idles.
---
--- ## Why it matters
--- Average throughput of the loader says nothing about a shard that is opened every N steps.
---
--- ## How to confirm
--- Replay one cached batch: the slow steps vanish.
---
--- ## Known false positives
--- A loader that waits on a lock another rank holds.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

local slow_steps = require("slow-steps")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Slow steps wait longer for the next batch",
  needs    = { steps = { "start", "stop", "dur" }, windows = { "dur" },
    ranges = { "start", "stop", category = "dataloader" } },
  relies   = { "launches", "host-times" },
  symptoms = { "slow-steps-input" },
  options  = slow_steps.options,

  run = function(case)
    local judged = slow_steps.each(case, function(rank, blame, gaps)
      blame("slow-steps-input", "waiting for the next batch",
        case.ranges:where { rank = rank, category = "dataloader" }:intersect(gaps),
        "Only waits with an idle device count")
    end)
    if not judged then skip(("at least %d steps: record more of them"):format(case.options.min_steps + 1)) end
  end,
}
