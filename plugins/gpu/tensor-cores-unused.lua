--- ## What it detects
--- Matrix products and convolutions that run in fp32 kernels without the matrix units (sgemm, scudnn, ffma, fp32 Winograd
--- and implicit products), on a device that has them.
---
--- ## Why it matters
--- The matrix units are worth 2x to 8x on these kernels. The time that can be won is bounded by how far the host is ahead: a
--- kernel that gets shorter than its launch leaves a gap instead.
---
--- ## How to confirm
--- One step under `torch.autocast("cuda", dtype=torch.bfloat16)` (fp16 on Volta and Turing): the kernel names change to
--- `s16816`, `h884` or `wgmma`, and the step gets shorter.
---
--- ## Known false positives
--- Double precision and small fp32 heads that must stay fp32; they rarely reach a tenth of the kernel time.
---
--- ## References
--- Kineto's plug-in only reports a share of exactly zero; kernel names follow cuBLAS, cuDNN and CUTLASS.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Matrix products bypass the matrix units",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  symptoms = { "tensor-cores-idle" },
  options  = {
    min_share = { default = 0.10, doc = "Share of the kernel time in fp32 matrix kernels worth reporting" },
    saved     = { default = 0.50, doc = "Part of such a kernel's time that the matrix units save" },
    ahead     = { default = 256,  doc = "Launches over which the host must stay ahead for a shorter kernel to help" },
  },

  run = function(case)
    local plain = "*sgemm*|*scudnn*|*ffma*|*f32f32_f32f32_f32*|*implicit_convolve_sgemm*|*dgrad_engine<float*|"
               .. "*wgrad_alg0_engine<float*|*dgrad2d_alg1*<float*|*winograd*float*|*fft2d*float*|*gcgemm*|*gemmSN*<float*"
    local units_used = "*tensorop*|*tf32*|*s1688*|*s16816*|*s884*|*h884*|*h1688*|*wmma*|*wgmma*|*hmma*|*bf16*"
    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local model = case.devices:where(here):first()
      local able  = not model or model.compute_major == nil or model.compute_major >= 7
      local kernels = case.gpu_work:where(here):where { role = "compute" }
        :where("start < ? and stop > ?", window.stop, window.start)
      local total  = kernels:sum("dur")
      local matrix = kernels:where("match(name, ?) and not match(name, ?)", plain, units_used)
      local spent  = matrix:sum("dur")
      if able and total > 0 and spent >= case.options.min_share * total then
        -- A shorter kernel helps only while the host stays ahead: before a late launch it just makes the gap longer.
        local launched = kernels:join(case.host_calls, { "rank", "correlation" })
          :with { lead = "start - stop_right" }:sort("-start")
        local ahead = launched:with { ahead = launched:col("lead"):rolling(case.options.ahead, "min"),
                                      half  = ("dur * %g"):format(case.options.saved) }
          :where("match(name, ?) and not match(name, ?)", plain, units_used)
        local bound = ahead:where("ahead < half and ahead > 0"):sum("ahead") + ahead:where("ahead >= half"):sum("half")
        if launched:count() == 0 then bound = case.options.saved * spent end
        local busiest = matrix:top(1, "dur"):first()
        report {
          symptom     = "tensor-cores-idle",
          score       = math.min(1, 0.5 + spent / total),
          share       = spent / total,
          recoverable = math.floor(bound),
          at          = here,
          message     = ("%s of the kernel time on GPU %d%s is fp32 matrix work outside the matrix units, %d kernels such as %s"):format(
            units.percent(spent / total), window.device, model and model.model and (" (" .. model.model .. ")") or "",
            matrix:count(), string.sub(busiest.name, 1, 60)),
          evidence    = { matrix:top(5, "dur") },
        }
      end
    end
  end,
}
