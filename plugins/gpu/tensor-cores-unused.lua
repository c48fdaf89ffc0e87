--- ## What it detects
--- Matrix products and convolutions that run in fp32 kernels without the matrix units (sgemm, scudnn, ffma, simt, fp32
--- Winograd, FFT and implicit products), on a device that has them; and which of four reasons it has: no mixed
--- precision at all, TF32 off, operators outside autocast, or an optimizer that multiplies matrices (Muon, Shampoo).
--- Volta and Turing have neither TF32 nor bf16: there it says so too, since only fp16 helps.
---
--- ## Why it matters
--- The matrix units are worth 2x to 8x on these kernels. The time that can be won is bounded by how far the host is
--- ahead: a kernel that gets shorter than its launch leaves a gap instead.
---
--- ## How to confirm
--- One step under `torch.autocast("cuda", dtype=torch.bfloat16)` (fp16 on Volta and Turing): the kernel names change
--- to `s16816`, `h884` or `wgmma`, and the step gets shorter. If names change and times do not, the products are bound
--- by memory.
---
--- ## Known false positives
--- Small fp32 heads and solvers that must stay fp32; they rarely reach a tenth of the kernel time. Double precision is
--- left out. Triton kernels do not say what they compute with: where they are most of the time there is no verdict.
--- Where the device is not recorded, kernels named `volta_` or `turing_` without any of a later generation tell it;
--- libraries run some of these on Ampere too, and there TF32 would do as well as fp16.
---
--- ## References
--- Kineto's plug-in only reports a share of exactly zero; kernel names follow cuBLAS, cuDNN and CUTLASS.

local windows = require("windows")

--- The generation without TF32 that `kernels` tell of in their names; nil where some are of a later one.
local function old_generation(kernels)
  local later = "*ampere*|*hopper*|*sm8?_*|*sm9?_*|*sm1??_*|*cutlass_8?_*|*cutlass_9?_*|*s16816*|*h16816*|*tf32*|"
             .. "*tensorop_s1688*|*bf16*|*wgmma*|*nvjet*"
  if kernels:where("match(name, ?)", later):count() > 0 then return end
  -- Turing runs kernels of Volta too, not the other way round.
  if kernels:where("match(name, '*turing_*')"):count() > 0 then return "Turing" end
  if kernels:where("match(name, '*volta_*')"):count() > 0 then return "Volta" end
end

--- Names of the operators that launched `kernels`, at most three, those with the most kernel time first.
local function operators(kernels, calls, ops)
  local total, names = {}, {}
  local each = kernels:with { op = kernels:launched_by(calls, ops) }:aggregate({ "op" }, { total = "sum dur" })
  for row in each:top(2000, "total"):rows() do
    local name = ops:row(row.op).name
    if not total[name] then names[#names + 1] = name end
    total[name] = (total[name] or 0) + row.total
  end
  table.sort(names, function(a, b) return total[a] > total[b] end)
  return { names[1], names[2], names[3] }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Matrix products bypass the matrix units",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  relies   = { "kernels" },
  symptoms = { "tensor-cores-idle", "matrix-units-without-tf32" },
  options  = {
    min_share = { default = 0.10, doc = "Share of the kernel time in fp32 matrix kernels worth reporting" },
    min_window = { default = 0.01, doc = "Share of the window below which a faster kernel does not matter" },
    saved     = { default = 0.50,
                  doc = "Part of such a kernel's time that the matrix units save; peak rates differ 8-fold" },
    mixed     = { default = 0.20,
                  doc = "Share of the matrix time on the matrix units from which some operators do use them" },
    triton    = { default = 0.50, doc = "Share of the kernel time in Triton kernels from which names say too little" },
  },

  run = function(case)
    local opt = case.options
    local plain = "*sgemm*|*scudnn*|*ffma*|*_simt_*|*f32f32_f32f32_f32*|*implicit_convolve_sgemm*|*dgrad_engine<float*|"
               .. "*wgrad_alg0_engine<float*|*dgrad2d_alg1*<float*|*winograd*float*|*fft2d*float*|*gcgemm*"
               .. "|*gemmSN*<float*"
    local half  = "*s16816*|*s884*|*h884*|*h1688*|*h16816*|*wmma*|*wgmma*|*hmma*|*bf16*|*_f16*|*fp16*"
               .. "|*nvjet*|*e4m3*|*i16832*"
    local tf32  = "*tf32*|*tensorop_s1688*|*s1688gemm*|*s1688fprop*|*s1688dgrad*|*s1688wgrad*"
    local judged = false
    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local model = case.devices:where(here):first()
      local major = model and model.compute_major
      local amd   = model and model.vendor == "amd" -- Tensile names mean other things
      local work  = windows.work(case, window)
      local kernels = work:where { role = "compute" }
      local total = kernels:sum("dur")
      local fp32  = kernels:where("match(name, ?) and not match(name, ?) and not match(name, ?)", plain, half, tf32)
      local spent = fp32:sum("dur")
      local opaque = kernels:where("match(name, 'triton_*')"):sum("dur") >= opt.triton * total
      -- Turing's GTX 16 boards were built without matrix units.
      local without = model and model.model and model.model:glob("*GTX 16??*")
      local able  = not amd and not without and (major == nil or major >= 7)
      judged = judged or (not amd and total > 0 and (spent > 0 or not opaque))
      if able and total > 0 and spent >= opt.min_share * total and spent >= opt.min_window * window.dur then
        local on_half = kernels:where("match(name, ?)", half):sum("dur")
        local on_tf32 = kernels:where("match(name, ?) and not match(name, ?)", tf32, half):sum("dur")
        local matrix  = spent + on_half + on_tf32

        local calls   = case.host_calls:where { rank = window.rank }
        local steps   = case.ranges:where { rank = window.rank, category = "optimizer" }
        local updates = fp32:with { step = fp32:launched_by(calls, steps) }:where("step is not null"):sum("dur")
        local names   = operators(fp32, calls, case.host_ops:where { rank = window.rank, category = "operator" })

        local old, guessed -- a generation whose matrix units take half precision only
        if major == 7 then
          old = (model.compute_minor or 0) >= 5 and "Turing" or "Volta"
        elseif major == nil then
          old = old_generation(case.gpu_work:where(here):where { role = "compute" })
          guessed = old
        end

        local why
        if updates >= 0.5 * spent then
          why = "most of it is launched inside the optimizer step, outside any autocast"
        elseif on_half >= opt.mixed * matrix then
          why = ("%s of the matrix time does use them, so some operators run outside autocast%s"):format(
            units.percent(on_half / matrix), #names > 0 and ": " .. table.concat(names, ", ") or "")
        elseif on_tf32 >= opt.mixed * matrix then
          why = ("%s of the matrix time uses TF32, so TF32 is on for some operators only%s"):format(
            units.percent(on_tf32 / matrix), #names > 0 and "; these stay fp32: " .. table.concat(names, ", ") or "")
        elseif guessed then
          why = ("mixed precision is off; the names of the kernels are those of %s, which has no TF32"):format(old)
        elseif old then
          why = "mixed precision is off, and this generation has no TF32"
        else
          why = "neither mixed precision nor TF32 is on"
        end

        -- Half of each kernel's time, as far as the host launches early enough for the next piece of work to move up.
        local faster  = fp32:distinct("role", "name"):with { part = opt.saved }:select("role", "name", "part")
        local shorter = work:join(faster, { "role", "name" }, "left"):with { saved = "dur * part" }
        report {
          symptom     = "tensor-cores-idle",
          score       = math.min(1, 0.5 + spent / total),
          share       = spent / window.dur,
          recoverable = shorter:ends_sooner("saved", calls),
          at          = here,
          message     = ("%s of the kernel time on GPU %d%s is fp32 matrix work outside the matrix units, %s such as "
            .. "%s (%s, %s of the window); %s"):format(
            units.percent(spent / total), window.device, model and model.model and (" (" .. model.model .. ")") or "",
            units.plural(fp32:count(), "kernel"), string.sub(fp32:top(1, "dur"):first().name, 1, 60),
              units.format(spent),
            units.percent(spent / window.dur), why),
          evidence    = {
            fp32:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
              :renamed("kernels by time"),
            fp32:top(5, "dur"),
          },
        }
        if old then
          report {
            symptom  = "matrix-units-without-tf32",
            severity = "info",
            score    = guessed and 0.8 or 1,
            at       = here,
            message  = ("the matrix units of GPU %d take fp16 only: %s%s has neither TF32 nor bf16"):format(
              window.device, old, guessed and ", whose kernels it runs," or ""),
            evidence = guessed and { fp32:top(5, "dur") } or { case.devices:where(here) },
          }
        end
      end
    end
    if not judged then
      return skip("kernel names that tell what they compute with: Triton and AMD kernels do not; profile one step "
        .. "without compilation")
    end
  end,
}
