--- ## What it detects
--- Launch calls that take a hundred times the usual while the device has nothing to do: the first launch of a kernel
--- loads its code, and that time stands inside the recorded window.
---
--- ## Why it matters
--- It is set-up measured as steady state. Each kernel pays once, 1 ms to 1 s (more on the first of a library), and a
--- profile of few steps shows little else; tables of API time then blame launching.
---
--- ## How to confirm
--- Warm up with the same shapes before recording, or set `CUDA_MODULE_LOADING=EAGER`: the long calls are gone.
---
--- ## Known false positives
--- A launch that waits for a full queue is long too, but the device runs meanwhile: only its standing still counts.
---
--- ## References
--- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#lazy-loading

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Launch calls load code inside the recorded steps",
  needs    = { windows = { "dur" }, host_calls = { "start", "stop", role = "launch" } },
  relies   = { "launches", "host-times" },
  symptoms = { "launch-loads-code" },
  options  = {
    min_call  = { default = units.ms, doc = "A launch call from which loading is suspected" },
    factor    = { default = 100, doc = "Its length over the median launch call" },
    min_share = { default = 0.05, doc = "Share of the window in such calls worth reporting" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:where("dur > 0"):rows() do
      local here     = { rank = window.rank, device = window.device }
      local launches = case.launches:where(here)
        :where("start < ? and start + call_dur > ? and not match(call_name, '*Graph*')", window.stop, window.start)
        :distinct("call")
      local usual = launches:median("call_dur")
      if usual then
        local long  = launches:where("call_dur >= ? and call_dur >= ?", opt.min_call, opt.factor * usual)
        -- Only what the device stood still for: a launch that waits for a full queue is long while it runs.
        local lost  = case.gaps:where(here):intersect(long:with { stop = "start + call_dur" }):sum("dur")
        local share = lost / window.dur
        if share >= opt.min_share then
          local worst = long:top(1, "call_dur"):first()
          local name  = worst.name:len() > 80 and worst.name:sub(1, 80) .. " ..." or worst.name
          report {
            symptom     = "launch-loads-code",
            score       = math.min(1, 0.6 + share),
            share       = share,
            recoverable = lost,
            at          = here,
            message     = ("GPU %d stands still for %s of %s (%s) inside %d launch calls of %s and more, the usual one "
              .. "takes %s; the longest, %s, launches %s: code is loaded at its first use")
              :format(window.device, units.format(lost), units.format(window.dur), units.percent(share), long:count(),
                units.format(long:min("call_dur")), units.format(usual), units.format(worst.call_dur), name),
            evidence    = { long:top(5, "call_dur") },
          }
        end
      end
    end
  end,
}
