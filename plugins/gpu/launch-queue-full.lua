--- ## What it detects
--- Launch calls that block because the queue to the device is full: the host is far ahead, the device is the limit.
---
--- ## Why it matters
--- It acquits the host. Long launch calls look like launch overhead in a table of API times; here they are waiting time.
---
--- ## How to confirm
--- The distance between a launch and its kernel's start is then tens of milliseconds and constant.
---
--- ## Known false positives
--- Lazy module loading makes single launch calls long; this asks for many of them and a busy device.
---
--- ## References
--- HTA counts time at a queue length of 1024: https://hta.readthedocs.io/en/latest/source/features/augmented_counters.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Launches wait for a full queue, the device is the bottleneck",
  needs    = { windows = { "dur", "busy" }, host_calls = { "dur", role = "launch" } },
  symptoms = { "launch-blocked-on-device" },
  options  = {
    min_share = { default = 0.05, doc = "Share of the window spent in blocked launches worth reporting" },
    min_busy  = { default = 0.90, doc = "Busy share of the device without which launches are not blocked by it" },
    factor    = { default = 10.0, doc = "Launch duration over the lower quartile that counts as blocked" },
    min_calls = { default = 20,   doc = "Blocked launches below which they are incidents, not a state" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local launches = case.host_calls:where { rank = window.rank, role = "launch" }
        :where("start >= ? and stop <= ?", window.start, window.stop)
      if window.busy >= opt.min_busy * window.dur and launches:count() > 0 then
        local usual   = launches:quantile("dur", 0.25)
        local blocked = launches:where("dur > ?", opt.factor * usual)
        local waited  = blocked:sum("dur")
        local share   = waited / window.dur
        if share >= opt.min_share and blocked:count() >= opt.min_calls then
          report {
            symptom  = "launch-blocked-on-device",
            severity = "info",
            score    = math.min(1, 0.6 + share),
            share    = share,
            at       = { rank = window.rank, device = window.device },
            message  = ("%d of %d launches wait for a full queue, %s in all (usual launch %s): GPU %d is %s busy and the host is ahead of it")
              :format(blocked:count(), launches:count(), units.format(waited), units.format(usual), window.device,
                units.percent(window.busy / window.dur)),
            evidence = { blocked:top(5, "dur") },
          }
        end
      end
    end
  end,
}
