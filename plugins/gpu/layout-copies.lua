--- ## What it detects
--- Kernels that only move values: layout conversions between channel orders, batched transposes and strided copies.
---
--- ## Why it matters
--- They do no arithmetic. A tenth of the kernel time in them usually means that one operator wants another memory format
--- than its neighbours.
---
--- ## How to confirm
--- Run model and input in `torch.channels_last`: the conversion kernels vanish or their number doubles; keep the better one.
---
--- ## Known false positives
--- Models that permute by design, such as window attention.
---
--- ## References
--- https://pytorch.org/tutorials/intermediate/memory_format_tutorial.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A large share of the kernel time goes to moving values around",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  symptoms = { "layout-copies" },
  options  = {
    min_share = { default = 0.15, doc = "Share of the kernel time in such kernels worth reporting" },
    saved     = { default = 0.50, doc = "Part of that time that one memory format throughout saves" },
  },

  run = function(case)
    local moving = "*nchwToNhwc*|*nhwcToNchw*|*batched_transpose*|*transpose_readWrite*|*transpose_kernel*|*direct_copy_kernel*|*tensorTransformGeneric*"
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local kernels = case.gpu_work:where(here):where { role = "compute" }
        :where("start < ? and stop > ?", window.stop, window.start)
      local moves   = kernels:where("match(name, ?)", moving)
      local spent, total = moves:sum("dur"), kernels:sum("dur")
      if total > 0 and spent >= case.options.min_share * total then
        report {
          symptom     = "layout-copies",
          score       = math.min(1, 0.5 + spent / total),
          share       = spent / total,
          recoverable = math.floor(case.options.saved * spent),
          at          = here,
          message     = ("%s of the kernel time on GPU %d only moves values, %d kernels such as %s"):format(
            units.percent(spent / total), window.device, moves:count(),
            string.sub(moves:top(1, "dur"):first().name, 1, 60)),
          evidence    = { moves:top(5, "dur") },
        }
      end
    end
  end,
}
