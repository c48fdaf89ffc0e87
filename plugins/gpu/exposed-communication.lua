--- ## What it detects
--- Collectives that run while no compute kernel does: the part of communication that the step has to wait for.
---
--- ## Why it matters
--- Only exposed communication costs time. A high share of hidden communication is a sign of a good overlap, not of a problem.
---
--- ## How to confirm
--- Run the step with the collectives left out (`no_sync()` under DDP): the step shortens by about the exposed time.
---
--- ## Known false positives
--- A rank that waits for a late peer shows it as a long exposed collective; with the profiles of several ranks
--- `gpu/collective-skew` tells waiting from transfer.
---
--- ## References
--- TraceLens flags above 5 %; NVIDIA's Megatron-Bridge notes keep exposed and blocking communication apart.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Collectives run while nothing is computed",
  needs    = { windows = { "dur" }, gpu_work = { "start", "stop", role = "communication" } },
  symptoms = { "exposed-communication" },
  options  = {
    min_share = { default = 0.10, doc = "Exposed share of the window worth reporting" },
  },

  run = function(case)
    local least
    local found = {}
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local inside  = case.gpu_work:where(here):where("start < ? and stop > ?", window.stop, window.start)
      local comm    = inside:where { role = "communication" }
      local exposed = comm:subtract(inside:where { role = "compute" })
      local lost    = exposed:sum("dur")
      least = math.min(least or lost, lost)
      if lost >= case.options.min_share * window.dur then
        found[#found + 1] = { window = window, here = here, comm = comm, exposed = exposed, lost = lost }
      end
    end
    for _, f in ipairs(found) do
      local share = f.lost / f.window.dur
      report {
        symptom     = "exposed-communication",
        score       = math.min(1, 0.5 + share),
        share       = share,
        recoverable = least,
        at          = f.here,
        message     = ("%s of %s of collectives on GPU %d are exposed, %s of the window: no compute kernel runs meanwhile")
          :format(units.format(f.lost), units.format(f.comm:covered()), f.window.device, units.percent(share)),
        evidence    = { f.exposed:top(5, "dur"), f.comm:top(5, "dur") },
      }
    end
  end,
}
