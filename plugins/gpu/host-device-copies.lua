--- ## What it detects
--- Copies between host and device: whether they run while no kernel does, whether they fill the device's time, whether they
--- move at the steady rate of a saturated link, and whether they use pageable memory.
---
--- ## Why it matters
--- The remedy depends on the kind. Pageable memory is pinned; a copy in the way is moved to a stream of its own; a link that
--- is already saturated needs fewer bytes, and pinning what is pinned helps nobody.
---
--- ## How to confirm
--- Large pinned copies that all run at one rate within a few percent are limited by the link; compare it with `nvbandwidth`.
---
--- ## Known false positives
--- The first copies of a process also pay for page faults and pinning.
---
--- ## References
--- Memory kinds differ between exports: Nsight Systems counts 0 as pageable and 1 as pinned, CUPTI 1 and 2.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Host-device copies hold up the device",
  needs    = { windows = { "dur", "busy" }, gpu_work = { "start", "stop", kind = "copy", "copy_kind" } },
  symptoms = { "copies-exposed", "copies-dominate", "copies-at-link-rate", "pageable-copies" },
  options  = {
    min_exposed  = { default = 0.05, doc = "Exposed share of the window worth reporting" },
    min_dominate = { default = 0.50, doc = "Share of the busy time from which copies dominate" },
    min_pageable = { default = 0.01, doc = "Exposed share of pageable copies worth reporting" },
    large        = { default = 1 * units.MiB, doc = "Bytes from which a copy is long enough to show the link's rate" },
    link_floor   = { default = 10.0, doc = "GB/s below which no PCIe 3 x16 link is saturated" },
    steady       = { default = 0.80, doc = "Slow tenth over fast tenth from which all copies run at one rate" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local inside  = case.gpu_work:where(here):where("start < ? and stop > ?", window.stop, window.start)
      local kernels = inside:where { kind = "kernel" }
      local copies  = inside:where("copy_kind == 'HtoD' or copy_kind == 'DtoH'")
      local exposed = copies:subtract(kernels):sum("dur")
      local covered = copies:covered()
      local bytes   = copies:sum("bytes")

      if exposed >= opt.min_exposed * window.dur then
        report {
          symptom     = "copies-exposed",
          score       = math.min(1, 0.5 + exposed / window.dur),
          share       = exposed / window.dur,
          recoverable = exposed,
          at          = here,
          message     = ("host-device copies take %s of %s on GPU %d with no kernel running (%s): %d copies, %s"):format(
            units.format(exposed), units.format(window.dur), window.device, units.percent(exposed / window.dur),
            copies:count(), units.bytes(bytes)),
          evidence    = { copies:top(5, "dur") },
        }
      end

      if window.busy > 0 and covered >= opt.min_dominate * window.busy then
        report {
          symptom     = "copies-dominate",
          score       = math.min(1, 0.5 + 0.5 * covered / window.busy),
          share       = covered / window.dur,
          recoverable = exposed,
          at          = here,
          message     = ("GPU %d spends %s of its busy time on host-device copies and %s on kernels"):format(window.device,
            units.percent(covered / window.busy), units.percent(kernels:covered() / window.busy)),
          evidence    = { copies:top(5, "dur") },
        }
      end

      local large = copies:where("bytes >= ? and dur > 0", opt.large)
      local matter = exposed >= opt.min_exposed * window.dur or covered >= opt.min_dominate * window.busy
      if large:count() >= 10 and matter then -- a healthy pinned copy under kernels runs at the link's rate too
        local rated = large:with { rate = "bytes / dur" } -- bytes a nanosecond are GB/s
        local slow, usual, fast = rated:quantile("rate", 0.1), rated:median("rate"), rated:quantile("rate", 0.9)
        if usual >= opt.link_floor and slow >= opt.steady * fast then
          report {
            symptom  = "copies-at-link-rate",
            score    = 0.95,
            share    = large:covered() / window.dur,
            at       = here,
            message  = ("%d copies of %s in all run at one rate, %.1f GB/s (tenth to ninth tenth %.1f to %.1f): the link of GPU %d is the limit")
              :format(large:count(), units.bytes(large:sum("bytes")), usual, slow, fast, window.device),
            evidence = { rated:top(5, "dur") },
          }
        end
      end

      local pageable = copies:where("src_kind == 'pageable' or dst_kind == 'pageable'")
      local held     = pageable:subtract(kernels):sum("dur")
      if held >= opt.min_pageable * window.dur then
        report {
          symptom     = "pageable-copies",
          score       = math.min(1, 0.6 + 2 * held / window.dur),
          share       = held / window.dur,
          recoverable = held,
          at          = here,
          message     = ("%d of %d host-device copies on GPU %d use pageable memory and hold it up for %s (%s), at %.1f GB/s"):format(
            pageable:count(), copies:count(), window.device, units.format(held), units.percent(held / window.dur),
            pageable:sum("bytes") / math.max(1, pageable:sum("dur"))),
          evidence    = { pageable:top(5, "dur") },
        }
      end
    end
  end,
}
