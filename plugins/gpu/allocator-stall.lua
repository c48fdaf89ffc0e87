--- ## What it detects
--- Device allocation and free calls (`cudaMalloc`, `cudaFree`, `cudaHostAlloc` and their driver and HIP kin) that run
--- while the device has nothing to do.
---
--- ## Why it matters
--- `cudaFree` waits for the device and both calls take the context's lock. A caching allocator makes them rare after
--- the first step; if they stay, it is being emptied, fragmented, or fed shapes that change.
---
--- ## How to confirm
--- Compare `torch.cuda.memory_stats()["num_alloc_retries"]` before and after a steady step: above zero confirms it.
---
--- ## Known false positives
--- A profile that holds the first step alone: allocation is then set-up, told by `allocator-in-first-step` where the
--- profile has steps. A record of a few kernels is not judged: its allocation is set-up as well.
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
    min_work  = { default = 32,
                  doc = "Pieces of work below which a profile without two steps is too short to judge" },
  },

  run = function(case)
    local judged = false
    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local calls = case.host_calls:where { rank = window.rank }:where("role == 'allocate' or role == 'free'")
      local lost  = case.gaps:where(here):where { host = "allocate" }:sum("dur")
      local share = lost / window.dur
      local steps = case.steps:where { rank = window.rank }:sort("start")
      local fair  = steps:count() >= 2 or case.gpu_work:where(here):count() >= case.options.min_work
      judged = judged or fair
      if fair and share >= case.options.min_share and window.dur >= units.ms then
        local during = calls:where("start < ? and stop > ?", window.stop, window.start)
        local frees  = during:where { role = "free" }
        local asks   = during:where { role = "allocate" }
        local parts  = {}
        if asks:count() > 0 then
          parts[1] = ("%s %s"):format(units.plural(asks:count(), "allocating call takes", "allocating calls take"),
            units.format(asks:sum("dur")))
        end
        if frees:count() > 0 then
          parts[#parts + 1] = ("%s %s"):format(units.plural(frees:count(), "freeing call"),
            units.format(frees:sum("dur")))
        end
        report {
          symptom     = "allocator-stall",
          -- A hundredth of the window is a fact, but no diagnosis.
          score       = math.min(1, 0.2 + 6 * share),
          share       = share,
          recoverable = lost,
          at          = here,
          message     = ("GPU %d waits %s of %s (%s) for allocation: %s"):format(window.device, units.format(lost),
            units.format(window.dur), units.percent(share), table.concat(parts, ", ")),
          evidence    = { during:top(5, "dur") },
        }
      end

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
            message  = ("the first recorded step has %s (%s), the later ones none")
              :format(units.plural(inside:count(), "allocation call"), units.format(took)),
            evidence = { inside:top(5, "dur") },
          }
        end
      end
    end
    if not judged then
      skip(("at least %d pieces of device work or two steps: record more steps"):format(case.options.min_work))
    end
  end,
}
