--- ## What it detects
--- An optimizer step that launches its kernels for each parameter tensor in turn, where a foreach or fused
--- implementation would launch a few for all of them.
---
--- ## Why it matters
--- Adam by single tensors is about a dozen tiny kernels a parameter. The host launches thousands of them, the device
--- waits for each, and none of it depends on the batch.
---
--- ## How to confirm
--- Build the optimizer with `foreach=True` or `fused=True`: its kernels are called `multi_tensor_apply_kernel`, some
--- dozens of them, and the step gets shorter by about the time reported. If the number stays, a hook or a wrapper
--- steps by parameter.
---
--- ## Known false positives
--- Optimizers that multiply matrices for each parameter by design (Muon, Shampoo): their products are left out of the
--- count.
---
--- ## References
--- torch/profiler/_pattern_matcher.py, OptimizerSingleTensorPattern ;
--- https://pytorch.org/docs/stable/optim.html#algorithms

local windows = require("windows")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The optimizer launches kernels for each parameter",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", "correlation", role = "compute" },
    host_calls = { "correlation" },
               ranges = { category = "optimizer" } },
  relies   = { "launches", "kernels" },
  symptoms = { "optimizer-many-launches" },
  options  = {
    min_launches = { default = 100,
                     doc = "Kernels a step outside of foreach kernels below which there is little to win" },
    max_batched  = { default = 0.10,
                     doc = "Share of the launches that work on many tensors at once from which the optimizer is "
                         .. "batched" },
    min_window   = { default = 0.02,
                     doc = "Share of the window that the optimizer's kernels and the waits between them take" },
    saved        = { default = 0.80,
                     doc = "Part of those waits that foreach saves; it launches a tenth to a hundredth as often" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local calls   = case.host_calls:where { rank = window.rank }
      local kernels = windows.work(case, window):where { role = "compute" }
      local steps   = case.ranges:where { rank = window.rank, category = "optimizer" }
      local own     = kernels:with { step = kernels:launched_by(calls, steps) }:where("step is not null")
      local single  = own:where("not match(name, "
        .. "'*multi_tensor_apply*|*foreach*|*fused_adam*|*FusedAdam*|*gemm*|*cutlass*|*triton_*')")
      local count   = own:distinct("step"):count()
      if count > 0 and single:count() >= opt.min_launches * count
        and own:count() - single:count() <= opt.max_batched * own:count() then
        -- The device runs the update in one stretch; where it waits in there, the host is busy with the next launch.
        local spans = single:aggregate({ "step" }, { start = "min start", stop = "max stop" })
        local waits = case.gaps:where(here):intersect(spans)
        local lost  = waits:sum("dur") + single:sum("dur")
        if lost >= opt.min_window * window.dur then
          local ops    = case.host_ops:where { rank = window.rank, category = "operator" }
          local called = single:with { op = single:launched_by(calls, ops) }
          -- An operator that every update needs once runs once a parameter: the rarest of the common ones.
          local names, most = {}, 0
          for row in called:aggregate({ "op" }, { count = "count" }):top(10000, "count"):rows() do
            local name = ops:row(row.op).name
            names[name] = (names[name] or 0) + 1
          end
          for _, n in pairs(names) do most = math.max(most, n) end
          local tensors = math.huge
          for _, n in pairs(names) do
            if n >= 0.5 * most then tensors = math.min(tensors, n) end
          end
          tensors = tensors < math.huge and math.floor(tensors / count + 0.5) or 0
          local each = tensors > 0 and (" for about %d parameter tensors"):format(tensors) or ""
          report {
            symptom     = "optimizer-many-launches",
            score       = math.min(1, 0.6 + lost / window.dur),
            share       = lost / window.dur,
            recoverable = math.floor(opt.saved * waits:sum("dur")), -- the bytes of the update have to move either way
            at          = here,
            message     = ("the optimizer on GPU %d launches %d kernels a step one by one%s, such as %s: they take %s "
              .. "and the device waits %s between them, %s of the window in all")
              :format(window.device, single:count() // count, each, string.sub(single:first().name, 1, 70),
                units.format(single:sum("dur")), units.format(waits:sum("dur")), units.percent(lost / window.dur)),
            evidence    = {
              single:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
                :renamed("kernels by time"),
              waits:top(3, "dur"), steps:slice(0, 2),
            },
          }
        end
      end
    end
  end,
}
