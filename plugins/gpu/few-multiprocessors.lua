--- ## What it detects
--- A device that is in use all the time, of whose multiprocessors few are.
---
--- ## Why it matters
--- "100 % utilisation" says that some kernel was resident, be it one block on one multiprocessor. Larger kernels, or
--- several side by side, would take the same time.
---
--- ## How to confirm
--- Double the batch: the step takes less than 1.3 times as long.
---
--- ## Known false positives
--- A collective that waits for its peers occupies a few multiprocessors and counts as use. Where the profile shows
--- collectives for much of the time, or the device draws little power, the kernels are not blamed; without a profile
--- and without power both explanations remain, and the message says so.
---
--- ## References
--- https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#profiling-metrics

local monitors = require("monitors")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A device is in use all the time, but few of its multiprocessors are",
  needs    = { counters = { "value", "device" } },
  symptoms = { "sm-active-low" },
  options  = {
    full        = { default = 95, doc = "Use in percent that says the device was never idle" },
    min_samples = { default = 20, doc = "Samples of such use below which nothing is judged" },
    few         = { default = 35, doc = "Active multiprocessors in percent below which a device is hardly used" },
    idle_power  = { default = 0.35, doc = "Share of the power limit below which a busy device waits" },
    collectives = { default = 0.20, doc = "Share of the kernel time from which on collectives explain it" },
  },

  run = function(case)
    local opt, judged = case.options, false

    --- Whether something else than small kernels explains it: collectives that wait, or the power of a spinning device.
    local function waits(rows, rank)
      local work = case.gpu_work:where { kind = "kernel" }
      if rank then work = work:where { rank = rank } end
      local comm = work:where { role = "communication" }
      if comm:count() > 0 and comm:covered() >= opt.collectives * work:covered() then return true end
      local limit = rows:where { name = "power_limit_watts" }:max("value")
      local power = rows:where { name = "power_watts" }:median("value")
      return power and limit and power < opt.idle_power * limit
    end

    local function look(rank, device, rows)
      local use = rows:where { name = "graphics_active" }:count() > 0 and "graphics_active" or "gpu_util"
      local all = monitors.beside(rows, { use, "sm_active" })
      all = all and all:where(use .. " >= ?", opt.full)
      if not all or all:count() < opt.min_samples then return end
      judged = true
      local active = all:mean("sm_active")
      if active < opt.few and not waits(rows, rank) then
        report {
          symptom  = "sm-active-low",
          severity = "warning",
          score    = 0.8,
          at       = { rank = rank, device = device },
          message  = ("GPU %d is in use all the time (%s at %d %% and more in %d samples), but only %.0f %% of its "
              .. "multiprocessors are: kernels too small to fill it, or a few multiprocessors that wait for a peer")
            :format(device, use, opt.full, all:count(), active),
          evidence = { all:slice(0, 5) },
        }
      end
    end
    monitors.each_device(case, look)
    if not judged then
      skip(("%d samples of a device in full use with the share of its active multiprocessors: dcgmi dmon -e "
        .. "155,1001,1002 -d 100"):format(opt.min_samples))
    end
  end,
}
