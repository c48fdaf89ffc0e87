--- ## What it detects
--- Samples at which the device reports use although the recorded process had nothing on it for the whole time that
--- such a sample covers.
---
--- ## Why it matters
--- Another process takes turns on the device. Kernels then take longer for no reason of their own, and no change to
--- this program helps.
---
--- ## How to confirm
--- `nvidia-smi pmon -c 10` lists the processes on the device: confirmed if another one has a share of the
--- multiprocessors.
---
--- ## Known false positives
--- Ranks of the same job on the same device are known only if they are recorded too. A sample is taken to cover one
--- second; work that a profiler lost would look like somebody else's. Where there is more than one device the numbers
--- of the counters and those of the process may differ, so nothing is said.
---
--- ## References
--- https://developer.nvidia.com/nvidia-system-management-interface

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Somebody else uses the device",
  needs    = { gpu_work = { "start", "stop", "device" },
    counters = { "at", "value", name = { "gpu_util", "sm_active" } } },
  relies   = { "whole-record" },
  symptoms = { "gpu-used-by-others" },
  options  = {
    min_use     = { default = 20, doc = "Use in percent that an idle device does not show" },
    covers      = { default = units.s, doc = "Time before a sample that it may speak of, in ns" },
    min_samples = { default = 5,  doc = "Such samples worth reporting" },
  },

  run = function(case)
    local opt = case.options
    local use = case.counters:where { name = "gpu_util" }
    if use:count() == 0 then use = case.counters:where { name = "sm_active" } end
    local devices = use:aggregate({ "device" }, { n = "count" }):count()
    local own     = case.gpu_work:aggregate({ "device" }, { n = "count" }):count()
    if devices > 1 or own > 1 then return skip("the counters of the one device that the process used") end
    local first, last = case.gpu_work:min("start"), case.gpu_work:max("stop")
    -- Between the first and the last piece of work the record is known to run.
    local samples = use:where("at - ? > ? and at < ?", opt.covers, first, last)
    local spans   = samples:with { start = samples:compute("at - ?", opt.covers), stop = samples:col("at") }
    local quiet   = spans:with { own = spans:overlap(case.gpu_work) }:where("own == 0")
    if quiet:count() < opt.min_samples then
      return skip(("%d samples of use at times when the process leaves the device alone for %s"):format(opt.min_samples,
        units.format(opt.covers)))
    end
    local used = quiet:where("value >= ?", opt.min_use)
    if used:count() >= opt.min_samples and used:count() * 2 >= quiet:count() then
      local row = used:first()
      report {
        symptom  = "gpu-used-by-others",
        severity = "warning",
        score    = 0.75,
        share    = used:count() / quiet:count(),
        at       = { device = row.device },
        message  = ("%d of %d samples at which the recorded process had run nothing for %s show %.0f %% use in the "
          .. "median: another process uses the device, or the profile lost work; an idle device would show 0 "
          .. "%%"):format(used:count(),
          quiet:count(), units.format(opt.covers), used:median("value")),
        evidence = { used:slice(0, 5) },
      }
    end
  end,
}
