--- ## What it detects
--- Launch calls that block because the queue to the device is full: the host is far ahead, the device is the limit.
---
--- ## Why it matters
--- It acquits the host. Long launch calls look like launch overhead in a table of API times; here they are waiting
--- time.
---
--- ## How to confirm
--- The distance between a launch and its kernel's start is then tens of milliseconds and constant.
---
--- ## Known false positives
--- Lazy module loading makes single launch calls long; this asks for many of them and a busy device.
---
--- ## References
--- HTA counts time at a queue length of 1024:
--- https://hta.readthedocs.io/en/latest/source/features/augmented_counters.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Launches wait for a full queue, the device is the bottleneck",
  needs    = { windows = { "dur", "busy" }, host_calls = { "dur", role = "launch" } },
  relies   = { "launches", "host-times" },
  symptoms = { "launch-blocked-on-device" },
  options  = {
    min_share = { default = 0.05, doc = "Share of the window spent in blocked launches worth reporting" },
    min_busy  = { default = 0.90, doc = "Busy share of the device without which launches are not blocked by it" },
    factor    = { default = 10.0, doc = "Launch duration over the lower quartile that counts as blocked" },
    full      = { default = 1000,
                  doc = "Pieces of work waiting from which the queue counts as full; the driver's holds about 1024" },
    min_calls = { default = 20,   doc = "Blocked launches below which they are incidents, not a state" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      -- One row a call: a graph launch stands behind each of its kernels, and its length says nothing of the queue.
      local launches = case.launches:where { rank = window.rank, device = window.device, kind = "kernel" }
        :where("start >= ? and start <= ? and not match(call_name, '*Graph*')", window.start, window.stop)
          :distinct("call")
      if window.busy >= opt.min_busy * window.dur and launches:count() > 0 then
        local usual   = launches:quantile("call_dur", 0.25)
        local full    = launches:where("queued >= ?", opt.full)
        local blocked = launches:where("call_dur > ? and queued > 0", opt.factor * usual)
        local waited  = blocked:sum("call_dur")
        local share   = waited / window.dur
        if (share >= opt.min_share and blocked:count() >= opt.min_calls) or full:count() >= opt.min_calls then
          report {
            symptom  = "launch-blocked-on-device",
            severity = "info",
            score    = math.min(1, 0.6 + share),
            share    = share,
            at       = { rank = window.rank, device = window.device },
            message  = ("%s, %s (up to %s pieces of work waiting): GPU %d is %s busy and the host is ahead of it")
              :format(
              share >= opt.min_share
                and ("%d of %d launch calls are held up with work queued"):format(blocked:count(), launches:count())
                or ("%d of %d launches find a full queue"):format(full:count(), launches:count()),
              share >= opt.min_share
                and ("%s in all, the usual launch %s"):format(units.format(waited), units.format(usual))
                or ("%s after the call in the median"):format(units.format(launches:median("dur"))),
              units.count(launches:max("queued")), window.device, units.percent(window.busy / window.dur)),
            evidence = { blocked:top(5, "call_dur"), full:top(5, "queued") },
          }
        end
      end
    end
  end,
}
