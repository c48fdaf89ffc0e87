--- ## What it detects
--- Softmax kernels that take a large share of the kernel time beside matrix products, with no fused attention kernel in
--- sight: the scores are written to memory and read back.
---
--- ## Why it matters
--- A fused kernel never writes the T x T scores. The softmax pass disappears and the two products get faster.
---
--- ## How to confirm
--- Force a fused backend, `with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)`: it runs, or its error says which
--- condition (mask, dtype, head size, returned weights) forbids it.
---
--- ## Known false positives
--- A very large vocabulary softmax in a small model.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention runs as separate product, softmax and product kernels",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  symptoms = { "unfused-attention" },
  options  = {
    min_share = { default = 0.10, doc = "Share of the kernel time in softmax kernels worth reporting" },
    saved     = { default = 0.80, doc = "Part of the softmax time that a fused kernel saves" },
    min_count = { default = 8,    doc = "Softmax kernels below which it is not a layer's attention" },
  },

  run = function(case)
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local kernels = case.gpu_work:where(here):where { role = "compute" }
        :where("start < ? and stop > ?", window.stop, window.start)
      local softmax  = kernels:where("match(name, '*SoftMaxForward*|*softmax_warp_forward*|*softmax_kernel*|*SoftMaxBackward*|*softmax_warp_backward*')")
      local products = kernels:where("match(name, '*gemm*|*Gemm*|*GEMM*|*cutlass*|*xmma*')"):count()
      local fused    = kernels:where("match(name, '*flash*|*fmha*|*fused_attention*|*mem_eff*|*AttentionKernel*')"):count()
      local spent, total = softmax:sum("dur"), kernels:sum("dur")
      if total > 0 and fused == 0 and softmax:count() >= case.options.min_count and products >= 2 * softmax:count()
         and spent >= case.options.min_share * total then
        report {
          symptom     = "unfused-attention",
          score       = math.min(1, 0.7 + spent / total),
          share       = spent / total,
          recoverable = math.floor(case.options.saved * spent),
          at          = here,
          message     = ("%d separate softmax kernels take %s of the kernel time on GPU %d (%s) between %d matrix products, and no fused attention kernel runs")
            :format(softmax:count(), units.percent(spent / total), window.device, units.format(spent), products),
          evidence    = { softmax:top(5, "dur") },
        }
      end
    end
  end,
}
