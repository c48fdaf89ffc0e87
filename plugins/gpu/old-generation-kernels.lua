--- ## What it detects
--- Matrix kernels that are not the best the device has: built for an older architecture (`cutlass_75`, `turing`,
--- `volta` on compute capability 8 and later), or for operands that are not aligned to 16 bytes (`align1`, `align2`);
--- with the dimension to pad, where shapes are recorded. On compute capability 9 and later, kernels of the generation
--- before are noted too, with less weight.
---
--- ## Why it matters
--- cuBLAS and CUTLASS fall back to such kernels when a dimension or a leading stride is not a multiple of 8 (16-bit
--- types) or 4 (TF32), or when the library is older than the card. They reach a fraction of the card's rate.
---
--- ## How to confirm
--- Time the product with the named dimension padded: the kernel's name changes and it gets faster although it does more
--- work. If time grows with the size, the library is too old, or the product is bound by memory.
---
--- ## Known false positives
--- Tiny products for which no newer kernel exists. TF32 kernels say `s1688` on every architecture and are not meant;
--- fp32 kernels outside the matrix units belong to another detector. Ampere kernels are normal for some operators on
--- Hopper.
---
--- ## References
--- https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html ; CUTLASS names its
--- kernels `cutlass_ARCH_UNIT_TYPE_SHAPE_TILE_LAYOUT_alignN`, N in elements.

local operators = require("kernels").operators
local windows = require("windows")

--- The numbers in one operand of `[[16, 5185, 64], [16, 64, 5185]]`, a list for each.
local function operands(shapes)
  local found = {}
  for _, part in ipairs(string.split(shapes, "]")) do
    local dims = string.numbers(part)
    if #dims >= 2 then found[#found + 1] = dims end
  end
  return found
end

--- Which dimensions of a product M x K by K x N are no multiple of `unit`, as text: "K = 2798 (pad to 2800)".
local function misfits(shapes, unit)
  local list, said, seen = operands(shapes), {}, {}
  local a, b = list[#list - 1], list[#list]
  local named = a and b and a[#a] == b[#b - 1]
    and { { "M", a[#a - 1] }, { "K", a[#a] }, { "N", b[#b] } } or nil
  if not named then -- an operator of another kind: the last two dimensions of each operand
    named = {}
    for _, dims in ipairs(list) do
      named[#named + 1] = { "a dimension", dims[#dims - 1] }
      named[#named + 1] = { "a dimension", dims[#dims] }
    end
  end
  for _, dim in ipairs(named) do
    local label, size = dim[1], math.tointeger(dim[2])
    if size and size > unit and size % unit ~= 0 and not seen[label .. size] then
      seen[label .. size] = true
      said[#said + 1] = ("%s = %d (pad to %d)"):format(label, size, (size // unit + 1) * unit)
    end
  end
  return table.concat(said, ", ")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Matrix kernels are of an older architecture or for unaligned operands",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" }, devices = { "compute_major" } },
  relies   = { "kernels" },
  symptoms = { "old-generation-kernels", "misaligned-matrix-kernels", "previous-generation-kernels" },
  options  = {
    min_share    = { default = 0.10, doc = "Share of the matrix kernels' time in such kernels worth reporting" },
    min_window   = { default = 0.01, doc = "Share of the window below which a faster kernel does not matter" },
    saved        = { default = 0.40,
                     doc = "Part of such a kernel's time that the card's own kernels save; padding one product of 8193 "
                         .. "rows saved 0.87" },
    min_previous = { default = 0.50, doc = "Share of the matrix time in kernels one generation old worth a note" },
  },

  run = function(case)
    local opt    = case.options
    local matrix = "*gemm*|*cutlass*|*xmma*|*nvjet*|*s884*|*h884*|*s1688*|*s16816*|*hmma*|*convolve*"
      .. "|*dgrad*|*wgrad*|*fprop*"
    local others = "*flash*|*fmha*|*elementwise*|*reduce_kernel*|*splitKreduce*|*oftmax*|*SoftMax*"
    local fp32   = "*sgemm*|*scudnn*|*ffma*|*_simt_*|*f32f32_f32f32_f32*"
    local older  = "*cutlass_70_*|*cutlass_75_*|*turing_*|*volta_*|*sm70_*|*sm75_*|*_s884gemm*|*_h884gemm*"
    local single = "*align1|*align1_*|*align1:*|*align1>*|*align1(*|*align2|*align2_*|*align2:*|*align2>*|*align2(*"
    -- eight bytes in a 16-bit type, all sixteen in TF32
    local short  = "*align4|*align4_*|*align4:*|*align4>*|*align4(*"
    local half   = "*f16*|*bf16*|*h1688*|*h16816*|*fp16*"
    local before = "*cutlass_80_*|*ampere_*|*sm80_*"

    for window in case.windows:rows() do
      local here  = { rank = window.rank, device = window.device }
      local model = case.devices:where(here):first()
      if model and model.compute_major and model.compute_major >= 7 and model.vendor == "nvidia" then
        local work  = windows.work(case, window)
        local all   = work:where { role = "compute" }:where("match(name, ?) and not match(name, ?)", matrix, others)
        local total = all:sum("dur")
        local calls = case.host_calls:where { rank = window.rank }
        local title = model.model and (" (" .. model.model .. ")") or ""

        --- What faster kernels would win, as far as the host launches early enough for what follows.
        local function won(slow)
          local faster = slow:with { saved = ("dur * %g"):format(opt.saved) }:select("start", "stop", "name", "saved")
          return work:join(faster, { "start", "stop", "name" }, "left"):ends_sooner("saved", calls)
        end
        local function evidence(slow)
          return {
            slow:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
              :renamed("kernels by time"),
            slow:top(5, "dur"),
          }
        end
        --- The products behind the kernels that take longest, with what does not fit.
        local function dimensions(slow, unit)
          local ops      = case.host_ops:where { rank = window.rank, category = "operator" }:where("shapes is not null")
          local products = operators(slow, calls, ops)
          local said, seen = {}, {}
          for i = 1, math.min(5, #products) do
            local wrong = misfits(products[i].shapes, unit)
            local line  = ("%s: %s"):format(products[i].name, wrong)
            if wrong ~= "" and not seen[line] and #said < 3 then
              said[#said + 1] = line
              seen[line] = true
            end
          end
          if #said > 0 then return "; " .. table.concat(said, "; ") end
          if #products > 0 then return "; the recorded shapes fit, so look at strides or at the library's version" end
          return "; record shapes (record_shapes=True) to see which dimension does not fit"
        end
        local function matters(slow)
          local spent = slow:sum("dur")
          return total > 0 and spent >= opt.min_share * total and spent >= opt.min_window * window.dur
        end
        local function shares(slow)
          local spent = slow:sum("dur")
          return ("%s of the matrix time on GPU %d%s, %s or %s of the window,"):format(units.percent(spent / total),
            window.device, title, units.format(spent), units.percent(spent / window.dur))
        end

        local old = model.compute_major >= 8 and all:where("match(name, ?) and not match(name, ?)", older, fp32)
          or all:slice(0, 0)
        if matters(old) then
          local tf32_only = old:where("match(name, ?)", half):count() == 0
          report {
            symptom     = "old-generation-kernels",
            score       = math.min(1, 0.6 + old:sum("dur") / total),
            share       = old:sum("dur") / window.dur,
            recoverable = won(old),
            at          = here,
            message     = ("%s runs in %s of an older generation such as %s%s")
              :format(shares(old), units.plural(old:count(), "kernel"),
              string.sub(old:top(1, "dur"):first().name, 1, 70), dimensions(old, tf32_only and 4 or 8)),
            evidence    = evidence(old),
          }
        end

        local skewed = all:where("match(name, ?) or (match(name, ?) and match(name, ?))", single, short, half)
        if matters(skewed) then
          local tf32_only = skewed:where("match(name, ?)", half):count() == 0
          report {
            symptom     = "misaligned-matrix-kernels",
            score       = math.min(1, 0.6 + skewed:sum("dur") / total),
            share       = skewed:sum("dur") / window.dur,
            recoverable = won(skewed),
            at          = here,
            message     = ("%s runs in %s for operands that are not aligned to 16 bytes, such as %s%s"):format(
              shares(skewed), units.plural(skewed:count(), "kernel"),
                string.sub(skewed:top(1, "dur"):first().name, 1, 90),
              dimensions(skewed, tf32_only and 4 or 8)),
            evidence    = evidence(skewed),
          }
        end

        local last = model.compute_major >= 9
          and all:where("match(name, ?) and not match(name, ?) and not match(name, ?)", before, fp32, single)
            or all:slice(0, 0)
        if matters(last) and last:sum("dur") >= opt.min_previous * total then
          report {
            symptom  = "previous-generation-kernels",
            severity = "warning",
            score    = 0.5, -- the library also picks them where they are the fastest
            share    = last:sum("dur") / window.dur,
            at       = here,
            message  = ("%s runs in %s built for the generation before, such as %s")
              :format(shares(last), units.plural(last:count(), "kernel"),
              string.sub(last:top(1, "dur"):first().name, 1, 70)),
            evidence = evidence(last),
          }
        end
      end
    end
  end,
}
