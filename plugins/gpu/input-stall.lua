--- ## What it detects
--- Time in which a device idles because a thread that launches its work is inside the data loader: the part of the
--- late-launch gaps that the loader's `__next__` covers; and whether that thread loads itself (`num_workers=0`) or
--- waits for its workers.
---
--- ## Why it matters
--- Loader time alone is no cost while the device still has queued work. Only where a gap and the loader coincide does
--- the step get longer.
---
--- ## How to confirm
--- Replace the loader by one cached batch: the gaps vanish if it was the input, and stay if it was not.
---
--- ## Known false positives
--- The first fetch of a short record: where the loader explains less than a third of the idle time, its score falls
--- with that share. A loader that waits on a lock another rank holds looks the same from one rank's profile.
---
--- ## References
--- The Kineto TensorBoard plug-in flags loader time above 5 % of the step without asking whether the device was idle.

-- What the launching thread does in the loader, by the loader's own name and the operators inside its time.
local function how(case, window, stalls, name)
  if name:contains("SingleProcess") then
    return "the training thread loads it itself (num_workers=0)"
  end
  local inside = case.host_ops:where { rank = window.rank, category = "operator", tid = stalls:first().tid }
    :where("start < ? and stop > ?", window.stop, window.start)
  local worked = stalls:intersect(inside):sum("dur")
  if worked >= 0.3 * stalls:sum("dur") then
    return ("operators run on this thread for %s of it: it decodes and transforms the samples itself"):format(
      units.percent(worked / stalls:sum("dur")))
  end
  local reads = case.host_ops:where { rank = window.rank, category = "runtime" }
    :where("match(name, '*read*') or match(name, '*open*')")
  local read = stalls:intersect(reads):sum("dur")
  if read >= 0.3 * stalls:sum("dur") then
    return ("%s of it is spent in %s: the storage is slow"):format(units.percent(read / stalls:sum("dur")),
      reads:first().name)
  end
  if name:contains("MultiProcess") then
    return "its workers do not keep up"
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The device waits for the next batch",
  needs    = { windows = { "dur" }, host_calls = { "start", "correlation" },
    ranges = { "start", "stop", category = "dataloader" } },
  relies   = { "launches", "host-times", "whole-record" },
  symptoms = { "input-stall" },
  options  = {
    min_share = { default = 0.05, doc = "Stalled share of the window worth reporting" },
  },

  run = function(case)
    local least
    local found = {}
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local stalls  = case.gaps:where(here):where { host = "input" }
      local stalled = stalls:sum("dur")
      -- What one rank alone waits for is another rank's gain, not the job's.
      least = math.min(least or stalled, stalled)
      if stalled >= case.options.min_share * window.dur then
        found[#found + 1] = { window = window, stalls = stalls, stalled = stalled }
      end
    end
    for _, f in ipairs(found) do
      local window  = f.window
      local share   = f.stalled / window.dur
      local loading = case.ranges:where { rank = window.rank, category = "dataloader" }
      local name    = loading:top(1, "dur"):first().name
      local reason  = how(case, window, f.stalls, name)
      local idle    = case.gaps:where { rank = window.rank, device = window.device }:sum("dur")
      report {
        symptom     = "input-stall",
        -- A small part of the idle time is not what the run waits for.
        score       = math.min(1, 0.6 + 2 * share) * math.min(1, 3 * f.stalled / idle),
        share       = share,
        recoverable = least,
        at          = { rank = window.rank, device = window.device },
        message     = ("GPU %d waits %s of %s (%s) for the next batch in %s; %s%s"):format(
          window.device, units.format(f.stalled), units.format(window.dur), units.percent(share),
          name, f.stalls:count() == 1 and "it is one wait" or ("the longest of %d waits is %s"):format(f.stalls:count(),
            units.format(f.stalls:max("dur"))), reason and "; " .. reason or ""),
        evidence    = { f.stalls:top(5, "dur"), loading:top(5, "dur") },
      }
    end
  end,
}
