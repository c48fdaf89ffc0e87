--- ## What it detects
--- Copies between host and device: whether they run while no kernel does, whether they fill the device's time, whether
--- they move at the steady rate of a saturated link, whether they use pageable memory, and whether they are too many
--- and too small.
---
--- ## Why it matters
--- The remedy depends on the kind. Pageable memory is pinned; a copy in the way is moved to a stream of its own; small
--- copies are packed into one; a link that is already saturated needs fewer bytes, and pinning what is pinned helps
--- nobody.
---
--- ## How to confirm
--- Large pinned copies that all run at one rate within a few percent are limited by the link; compare it with
--- `nvbandwidth`. If the measured link is much faster, look for a NUMA-remote buffer or for another process on the
--- link.
---
--- ## Known false positives
--- The first copies of a process also pay for page faults and pinning.
---
--- ## References
--- Memory kinds differ between exports: Nsight Systems counts 0 as pageable and 1 as pinned, CUPTI 1 and 2.

local windows = require("windows")

--- Raw rates of links in GB/s. A copy reaches about 0.8 to 0.9 of one.
local links = {
  { 15.75, "PCIe 3 x16" }, { 31.5, "PCIe 4 x16" }, { 63.0, "PCIe 5 x16" }, { 126.0, "PCIe 6 x16" },
    { 450.0, "NVLink-C2C" },
}

--- "88 % of PCIe 4 x16" for the slowest link that carries so much.
local function of_link(rate)
  for _, link in ipairs(links) do
    if rate <= link[1] then return (", %s of %s"):format(units.percent(rate / link[1]), link[2]) end
  end
  return ""
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Host-device copies hold up the device",
  needs    = { windows = { "dur", "busy" }, gpu_work = { "start", "stop", kind = "copy", "copy_kind" } },
  relies   = { "kernels", "whole-record" },
  symptoms = { "copies-exposed", "copies-dominate", "copies-at-link-rate", "pageable-copies", "small-copies" },
  options  = {
    min_exposed  = { default = 0.05, doc = "Exposed share of the window worth reporting" },
    min_dominate = { default = 0.50, doc = "Share of the busy time from which copies dominate" },
    min_pageable = { default = 0.01, doc = "Exposed share of pageable copies worth reporting" },
    min_small    = { default = 0.02, doc = "Exposed share of small copies worth reporting" },
    small        = { default = 64 * units.KiB, doc = "Bytes below which a copy's latency is longer than its transfer" },
    many         = { default = 20, doc = "Small copies a step, or in 100 ms without steps, that are many" },
    large        = { default = 1 * units.MiB, doc = "Bytes from which a copy is long enough to show the link's rate" },
    link_floor   = { default = 10.0, doc = "GB/s below which no PCIe 3 x16 link is saturated" },
    steady       = { default = 0.80, doc = "Slow tenth over fast tenth from which all copies run at one rate" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local inside  = windows.work(case, window)
      local kernels = inside:where { kind = "kernel" }
      local copies  = inside:where("copy_kind == 'HtoD' or copy_kind == 'DtoH'")
      local exposed = copies:subtract(kernels):sum("dur")
      local covered = copies:covered()
      local bytes   = copies:sum("bytes")
      local pageable = copies:where("src_kind == 'pageable' or dst_kind == 'pageable'")
      local pinned   = copies:where("src_kind == 'pinned' or dst_kind == 'pinned'")

      --- "446 pinned, 47.4 GiB at 27.7 GB/s"
      local function part(label, rows)
        if rows:count() == 0 then return "no " .. label .. " ones" end
        return ("%d %s, %s at %.1f GB/s"):format(rows:count(), label, units.bytes(rows:sum("bytes")),
          rows:sum("bytes") / math.max(1, rows:sum("dur"))) -- bytes a nanosecond are GB/s
      end

      -- Overlap can hide a copy only under kernels that no copy runs beside yet.
      local hideable = math.min(exposed, kernels:subtract(copies):sum("dur"))

      if exposed >= opt.min_exposed * window.dur then
        report {
          symptom     = "copies-exposed",
          score       = math.min(1, 0.5 + exposed / window.dur),
          share       = exposed / window.dur,
          recoverable = hideable,
          at          = here,
          message     = ("host-device copies take %s of %s on GPU %d with no kernel running (%s): %d copies, %s (%s; "
            .. "%s)"):format(
            units.format(exposed), units.format(window.dur), window.device, units.percent(exposed / window.dur),
            copies:count(), units.bytes(bytes), part("pinned", pinned), part("pageable", pageable)),
          evidence    = { copies:top(5, "dur") },
        }
      end

      -- A device that is idle but for a few copies is not dominated by them.
      local dominate = covered >= opt.min_dominate * window.busy and covered >= opt.min_exposed * window.dur
      if dominate and window.busy > 0 then
        report {
          symptom     = "copies-dominate",
          score       = math.min(1, 0.5 + 0.5 * covered / window.busy),
          share       = covered / window.dur,
          recoverable = exposed,
          at          = here,
          message     = ("GPU %d spends %s of its busy time on host-device copies and %s on kernels")
            :format(window.device,
            units.percent(covered / window.busy), units.percent(kernels:covered() / window.busy)),
          evidence    = { copies:top(5, "dur") },
        }
      end

      local large = copies:where("bytes >= ? and dur > 0", opt.large)
      local matter = exposed >= opt.min_exposed * window.dur or dominate
      if large:count() >= 10 and matter then -- a healthy pinned copy under kernels runs at the link's rate too
        local rated = large:with { rate = "bytes / dur" }
        local slow, usual, fast = rated:quantile("rate", 0.1), rated:median("rate"), rated:quantile("rate", 0.9)
        if usual >= opt.link_floor and slow >= opt.steady * fast then
          local each = window.steps > 1 and (", %d a step"):format(large:count() // window.steps) or ""
          report {
            symptom  = "copies-at-link-rate",
            score    = 0.95,
            share    = large:covered() / window.dur,
            at       = here,
            message  = ("%d copies of %s in all%s run at one rate, %.1f GB/s (tenth to ninth tenth %.1f to %.1f)%s: "
              .. "the link of GPU %d is the limit")
              :format(large:count(), units.bytes(large:sum("bytes")), each, usual, slow, fast, of_link(usual),
                window.device),
            evidence = { rated:top(5, "dur") },
          }
        end
      end

      local held = pageable:subtract(kernels):sum("dur")
      if held >= opt.min_pageable * window.dur then
        report {
          symptom     = "pageable-copies",
          score       = math.min(1, 0.6 + 2 * held / window.dur),
          share       = held / window.dur,
          recoverable = held,
          at          = here,
          message     = ("%d of %d host-device copies on GPU %d use pageable memory and hold it up for %s (%s), at "
            .. "%.1f GB/s"):format(
            pageable:count(), copies:count(), window.device, units.format(held), units.percent(held / window.dur),
            pageable:sum("bytes") / math.max(1, pageable:sum("dur"))),
          evidence    = { pageable:top(5, "dur") },
        }
      end

      local small  = copies:where("bytes < ?", opt.small)
      local spent  = small:subtract(kernels):sum("dur")
      local period = window.steps > 0 and window.steps or window.dur / (100 * units.ms)
      local rate   = small:count() / math.max(1, period)
      if rate >= opt.many and spent >= opt.min_small * window.dur then
        report {
          symptom     = "small-copies",
          score       = math.min(1, 0.6 + 2 * spent / window.dur),
          share       = spent / window.dur,
          recoverable = math.floor(spent * (1 - 1 / rate)), -- packed into one a step, one latency is left
          at          = here,
          message     = ("%d host-device copies below %s on GPU %d, %.0f %s, hold it up for %s (%s): %s in the median "
            .. "for %s, latency and not bandwidth")
            :format(small:count(), units.bytes(opt.small), window.device, rate, window.steps > 0 and "a step"
              or "in 100 ms",
              units.format(spent), units.percent(spent / window.dur), units.format(small:median("dur")),
              units.bytes(math.floor(small:median("bytes")))),
          evidence    = { small:top(5, "dur") },
        }
      end
    end
  end,
}
