--- ## What it detects
--- A busy device that waits for its own memory: its memory is active most of the time and its matrix units are not.
---
--- ## Why it matters
--- "100 % utilisation" says that some kernel was resident. Whether the device then computed or waited for memory
--- decides what would help: faster arithmetic or fewer bytes. Names of kernels do not tell it, the hardware does.
---
--- ## How to confirm
--- `dcgmi dmon -e 1001,1002,1004,1005 -d 100` over some steps: `DRAMA` near 0.8 and `TENSO` low. A lower memory clock
--- then slows the step and a lower clock of the multiprocessors hardly does.
---
--- ## Known false positives
--- Decoding of single tokens is bound by memory by its nature, whatever the code does.
---
--- ## References
--- https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html#profiling-metrics ; 0.8 of the peak
--- is what memory reaches in practice.

local monitors = require("monitors")

--- Polls with the activity of memory and matrix units, and the counter that tells use; nsys has reads and writes apart.
local function samples(rows)
  for _, use in ipairs { "graphics_active", "gpu_util", "sm_active" } do
    local all = monitors.beside(rows, { use, "dram_active", "tensor_active" })
    if all then return all, use end
    local apart = monitors.beside(rows, { use, "dram_read_util", "dram_write_util", "tensor_active" })
    if apart then return apart:with { dram_active = "dram_read_util + dram_write_util" }, use end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A busy device waits for its memory",
  needs    = { counters = { "value", "device" } },
  symptoms = { "dram-active-high" },
  options  = {
    busy        = { default = 80, doc = "Use in percent from which on a device is busy" },
    min_samples = { default = 20, doc = "Busy samples below which nothing is judged" },
    dram        = { default = 70, doc = "Activity of the memory in percent from which on it is the limit" },
    tensor      = { default = 30, doc = "Activity of the matrix units in percent from which on they are used well" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local function look(rank, device, rows)
      local all, use = samples(rows)
      all = all and all:where(use .. " >= ?", opt.busy)
      if not all or all:count() < opt.min_samples then return end
      judged = true
      local active, tensor = all:mean("dram_active"), all:mean("tensor_active")
      if active >= opt.dram and tensor < opt.tensor then
        report {
          symptom  = "dram-active-high",
          score    = 0.9,
          at       = { rank = rank, device = device },
          message  = ("the memory of GPU %d moves data %.0f %% of the time in the mean of %d samples with %s of %d %% "
              .. "and more, its matrix units work %.0f %%: the kernels wait for memory; about 80 %% is the most that "
              .. "memory reaches"):format(device, active, all:count(), use, opt.busy, tensor),
          evidence = { all:slice(0, 5) },
        }
      end
    end
    monitors.each_device(case, look)
    if not judged then
      skip(("%d samples of a busy device with use, matrix units and memory beside each other: dcgmi dmon -e "
        .. "1001,1002,1004,1005 -d 100, or nsys profile --gpu-metrics-devices=all"):format(opt.min_samples))
    end
  end,
}
