--- ## What it detects
--- Device allocation and free calls (`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and their driver and HIP kin) that run while
--- the device has nothing to do.
---
--- ## Why it matters
--- `cudaFree` waits for the device and both calls take the context's lock. A caching allocator makes them rare after the
--- first step; if they stay, it is being emptied, fragmented, or fed shapes that change.
---
--- ## How to confirm
--- Compare `torch.cuda.memory_stats()["num_alloc_retries"]` before and after a steady step: above zero confirms it.
---
--- ## Known false positives
--- A profile that holds the first step alone: allocation is then set-up, told by `allocator-in-first-step` where the profile
--- has steps.
---
--- ## References
--- https://pytorch.org/docs/stable/notes/cuda.html#memory-management

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Device memory is allocated or freed while the device waits",
  needs    = { windows = { "dur" }, host_calls = { "start", "stop", "role" } },
  relies   = { "launches", "host-times", "whole-record" },
  symptoms = { "allocator-stall", "allocator-in-first-step" },
  options  = {
    min_share = { default = 0.01, doc = "Share of the window lost to allocation worth reporting" },
  },

  run = function(case)
    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local calls = case.host_calls:where { rank = window.rank }:where("role == 'allocate' or role == 'free'")
      local lost  = case.gaps:where(here):where { host = "allocate" }:sum("dur")
      local share = lost / window.dur
      if share >= case.options.min_share and window.dur >= units.ms then
        local during = calls:where("start < ? and stop > ?", window.stop, window.start)
        local frees  = during:where { role = "free" }
        local asks   = during:where { role = "allocate" }
        report {
          symptom     = "allocator-stall",
          score       = math.min(1, 0.6 + 2 * share),
          share       = share,
          recoverable = lost,
          at          = here,
          message     = ("GPU %d waits %s of %s (%s) for allocation: %d allocating calls take %s, %d freeing calls %s"):format(
            window.device, units.format(lost), units.format(window.dur), units.percent(share), asks:count(),
            units.format(asks:sum("dur")), frees:count(), units.format(frees:sum("dur"))),
          evidence    = { during:top(5, "dur") },
        }
      end

      local steps = case.steps:where { rank = window.rank }:sort("start")
      if steps:count() >= 2 then
        local first  = steps:first()
        local inside = calls:where("start >= ? and start < ?", first.start, first.stop)
        local later  = calls:where("start >= ?", first.stop)
        local took   = inside:sum("dur")
        if later:count() == 0 and took >= case.options.min_share * first.dur then
          report {
            symptom  = "allocator-in-first-step",
            score    = 0.8,
            at       = { rank = window.rank, device = window.device, step = first.step },
            message  = ("all %d allocation calls (%s) fall into the first recorded step; the later ones have none")
              :format(inside:count(), units.format(took)),
            evidence = { inside:top(5, "dur") },
          }
        end
      end
    end
  end,
}
