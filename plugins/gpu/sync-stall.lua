--- ## What it detects
--- Idle time of a device that follows a host call waiting for that very device: the call returns when the queue is empty,
--- and until the next launch arrives there is nothing to run.
---
--- ## Why it matters
--- The wait itself is free, the refill after it is not. `.item()`, `.cpu()`, `nonzero()` and printing a loss each drain the
--- queue once.
---
--- ## How to confirm
--- Run a few steps under `torch.cuda.set_sync_debug_mode("warn")`: it names the line of each hidden synchronisation.
---
--- ## Known false positives
--- The synchronisation that ends a benchmark's timed step is deliberate.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The device runs dry after the host waited for it",
  needs    = { windows = { "dur" }, host_calls = { "start", "stop", role = "sync" } },
  symptoms = { "sync-stall" },
  options  = {
    min_share = { default = 0.02, doc = "Share of the window lost after synchronisation worth reporting" },
  },

  run = function(case)
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local waits   = case.host_calls:where { rank = window.rank, role = "sync" }
      local loading = case.ranges:where { rank = window.rank, category = "dataloader" }
      local starved = case.gaps:where(here):where { state = "starved" }
      -- A gap that opens while the host waits is the refill after that wait.
      local refills = starved:with { wait = starved:containing(waits) }:where("wait is not null")
      local pieces  = refills:subtract(loading)
      local lost    = pieces:sum("dur")
      local share   = lost / window.dur
      if share >= case.options.min_share then
        report {
          symptom     = "sync-stall",
          score       = math.min(1, 0.5 + 2 * share),
          share       = share,
          recoverable = lost,
          at          = here,
          message     = ("GPU %d runs dry for %s of %s (%s) after %d host waits; each drains the queue and the host has to refill it")
            :format(window.device, units.format(lost), units.format(window.dur), units.percent(share), refills:count()),
          evidence    = { refills:top(5, "dur"), waits:top(5, "dur") },
        }
      end
    end
  end,
}
