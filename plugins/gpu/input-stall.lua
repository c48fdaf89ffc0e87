--- ## What it detects
--- Time in which a device idles because the thread that launches its work is inside the data loader: the part of the
--- late-launch gaps that the loader's `__next__` covers.
---
--- ## Why it matters
--- Loader time alone is no cost while the device still has queued work. Only where a gap and the loader coincide does the
--- step get longer.
---
--- ## How to confirm
--- Replace the loader by one cached batch: the gaps vanish if it was the input, and stay if it was not.
---
--- ## Known false positives
--- A loader that waits on a lock another rank holds looks the same from one rank's profile.
---
--- ## References
--- The Kineto TensorBoard plug-in flags loader time above 5 % of the step without asking whether the device was idle.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The device waits for the next batch",
  needs    = { windows = { "dur" }, host_calls = { "start", "correlation" }, ranges = { "start", "stop", category = "dataloader" } },
  symptoms = { "input-stall" },
  options  = {
    min_share = { default = 0.05, doc = "Stalled share of the window worth reporting" },
  },

  run = function(case)
    local least
    local found = {}
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local loading = case.ranges:where { rank = window.rank, category = "dataloader" }
      local starved = case.gaps:where(here):where { state = "starved" }
      local stalls  = starved:intersect(loading)
      local stalled = stalls:sum("dur")
      -- What one rank alone waits for is another rank's gain, not the job's.
      least = math.min(least or stalled, stalled)
      if stalled >= case.options.min_share * window.dur then
        found[#found + 1] = { window = window, stalls = stalls, stalled = stalled, loading = loading }
      end
    end
    for _, f in ipairs(found) do
      local share = f.stalled / f.window.dur
      local name  = f.loading:first().name
      report {
        symptom     = "input-stall",
        score       = math.min(1, 0.6 + 2 * share),
        share       = share,
        recoverable = least,
        at          = { rank = f.window.rank, device = f.window.device },
        message     = ("GPU %d waits %s of %s (%s) for the next batch in %s; the longest of %d waits is %s"):format(
          f.window.device, units.format(f.stalled), units.format(f.window.dur), units.percent(share),
          name, f.stalls:count(), units.format(f.stalls:max("dur"))),
        evidence    = { f.stalls:top(5, "dur"), f.loading:top(5, "dur") },
      }
    end
  end,
}
