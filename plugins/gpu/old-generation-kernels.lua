--- ## What it detects
--- Matrix kernels built for an older architecture than the device: `cutlass_75`, `turing`, `volta`, or the `s1688` and `h884`
--- instruction shapes on compute capability 8 and later.
---
--- ## Why it matters
--- cuBLAS and CUTLASS fall back to them when a dimension or a leading stride is not a multiple of 8, or when the library is
--- older than the card. They reach a fraction of the card's rate.
---
--- ## How to confirm
--- Pad the dimensions to a multiple of 8 (64 for Hopper): the kernel names change to the card's own generation.
---
--- ## Known false positives
--- Tiny products for which no newer kernel exists.
---
--- ## References
--- https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Matrix kernels of an older architecture run on a newer device",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" }, devices = { "compute_major" } },
  symptoms = { "old-generation-kernels" },
  options  = {
    min_share = { default = 0.10, doc = "Share of the kernel time in such kernels worth reporting" },
    saved     = { default = 0.40, doc = "Part of such a kernel's time that the card's own kernels save" },
  },

  run = function(case)
    local older = "*cutlass_70*|*cutlass_75*|*turing_*|*volta_*|*_s1688gemm*|*_h1688gemm*|*_s884gemm*|*_h884gemm*"
    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local model = case.devices:where(here):first()
      if model and model.compute_major and model.compute_major >= 8 and model.vendor == "nvidia" then
        local kernels = case.gpu_work:where(here):where { role = "compute" }
          :where("start < ? and stop > ?", window.stop, window.start)
        local old   = kernels:where("match(name, ?) and not match(name, '*tf32*')", older)
        local spent, total = old:sum("dur"), kernels:sum("dur")
        if total > 0 and spent >= case.options.min_share * total then
          report {
            symptom     = "old-generation-kernels",
            score       = math.min(1, 0.6 + spent / total),
            share       = spent / total,
            recoverable = math.floor(case.options.saved * spent),
            at          = here,
            message     = ("%s of the kernel time on GPU %d%s runs in %d kernels of an older generation such as %s"):format(
              units.percent(spent / total), window.device, model.model and (" (" .. model.model .. ")") or "", old:count(),
              string.sub(old:top(1, "dur"):first().name, 1, 70)),
            evidence    = { old:top(5, "dur") },
          }
        end
      end
    end
  end,
}
