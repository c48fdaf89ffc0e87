--- ## What it detects
--- Softmax kernels between two matrix products of the same stream, with no fused attention kernel doing that work: the
--- scores are written to memory and read back. Where host operators are recorded it says why: SDPA is not called, or
--- it was and fell back to its plain form, and for which mask, type or head size.
---
--- ## Why it matters
--- A fused kernel never writes the T x T scores. The softmax pass disappears and the two products get faster.
---
--- ## How to confirm
--- Force a fused backend, `with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)`: it runs and the softmax
--- kernels vanish, or its error says which condition forbids it. If nothing gets faster, attention is a small part of
--- the step.
---
--- ## Known false positives
--- A softmax over experts or classes that happens to stand between two products; its share is rarely a tenth. The
--- log-softmax of a loss is left out.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html

local operators = require("kernels").operators
local windows = require("windows")

--- Bytes of the first tensor in recorded shapes and types: `[[16, 128, 128], []]`, `['c10::BFloat16', '']`.
local function first_bytes(shapes, dtypes)
  local dims = string.numbers(string.split(shapes, "]")[1])
  if #dims == 0 then return nil end
  local count = 1
  for _, dim in ipairs(dims) do count = count * dim end
  local dtype = string.lower(string.split(dtypes or "", ",")[1] or "")
  local size = (dtype:contains("half") or dtype:contains("float16")) and 2 or dtype:contains("double") and 8 or 4
  return count * size
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention runs as separate product, softmax and product kernels",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  relies   = { "kernels" },
  symptoms = { "unfused-attention" },
  options  = {
    min_share  = { default = 0.10, doc = "Share of the kernel time in such softmax kernels worth reporting" },
    min_window = { default = 0.01, doc = "Share of the window below which a faster attention does not matter" },
    saved      = { default = 0.80,
                   doc = "Part of the softmax time that a fused kernel saves: what is left is its arithmetic" },
    min_count  = { default = 8,    doc = "Softmax kernels below which it is not a layer's attention" },
  },

  run = function(case)
    local opt      = case.options
    local products = "*gemm*|*Gemm*|*GEMM*|*cutlass*|*xmma*|*nvjet*|Cijk_*|*gemv*"
    local fusing   = "*flash*|*fmha*|*Fmha*|*fused_attention*|*mem_eff*|*AttentionKernel*|*attn_fwd*|*attn_bwd*|*sdpa*"
    local scores   = "*SoftMax*|*softmax*|*Softmax*"
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local work    = windows.work(case, window)
      local kernels = work:where { role = "compute" }
      local total   = kernels:sum("dur")
      local fused   = kernels:where("match(name, ?)", fusing):count()
      local softmax = kernels:where("match(name, ?) and not match(name, ?) and not match(name, "
        .. "'*LogSoftMax*|*log_softmax*')", scores, fusing)
      local matrix  = kernels:where("match(name, ?) and not match(name, ?) and not match(name, ?)", products, fusing,
        scores)

      -- Of products and softmax alone, in the order of a stream: masks, scales and casts in between do not matter.
      local between = nil
      for _, queue in matrix:with { product = 1 }:concat(softmax:with { product = 0 })
        :with { queue = "stream" }:sort("start"):group("queue") do
        local ahead = queue:with { from = queue:col("product"):diff() }:sort("-start")
        local inner = ahead:with { to = ahead:col("product"):diff() }:where("product == 0 and `from` == -1 and to == "
          .. "-1")
        between = between and between:concat(inner) or inner
      end
      if not between then -- streams were not recorded
        local queue = matrix:with { product = 1 }:concat(softmax:with { product = 0 }):sort("start")
        local ahead = queue:with { from = queue:col("product"):diff() }:sort("-start")
        between = ahead:with { to = ahead:col("product"):diff() }:where("product == 0 and `from` == -1 and to == -1")
      end

      local spent = between:sum("dur")
      if total > 0 and between:count() >= opt.min_count and fused < between:count() and spent >= opt.min_share * total
         and spent >= opt.min_window * window.dur then
        local why = "record host operators with shapes (record_shapes=True) to see why"
        local ops = case.host_ops:where { rank = window.rank, category = "operator" }
        if ops:count() > 0 then
          local sdpa = ops:where { name = "aten::scaled_dot_product_attention" }
          if sdpa:count() == 0 then
            why = "scaled_dot_product_attention is never called: an eager implementation, or attention weights are "
              .. "asked for"
          elseif ops:where { name = "aten::_scaled_dot_product_attention_math" }:count() == 0 then
            why = "scaled_dot_product_attention is called, but not for these"
          else
            why = "scaled_dot_product_attention falls back to its plain form"
            local call = sdpa:where("shapes is not null"):first()
            if call then
              local inputs, reasons = string.split(call.shapes, "],"), {}
              local query, mask = string.numbers(inputs[1]), inputs[4] and string.numbers(inputs[4]) or {}
              local head = math.tointeger(query[#query] or 0) or 0
              local dtype = string.lower(string.split(call.dtypes or "", ",")[1] or "")
              if dtype:contains("float") and not dtype:contains("float16") then
                reasons[#reasons + 1] = "the inputs are fp32"
              end
              if head > 256 or head % 8 ~= 0 then reasons[#reasons + 1] = ("the head size is %d"):format(head) end
              if #mask > 0 then
                reasons[#reasons + 1] = ("a mask of %d x %d is given"):format(mask[#mask - 1] or 1, mask[#mask])
              end
              if #reasons > 0 then why = why .. ": " .. table.concat(reasons, ", ") end
            end
          end
        end

        local matrices = ""
        local calls  = case.host_calls:where { rank = window.rank }
        local shaped = operators(between, calls, ops:where("shapes is not null"))[1]
        local bytes  = shaped and first_bytes(shaped.shapes, shaped.dtypes)
        if bytes then
          matrices = (", scores of %s] and %s each"):format(string.sub(string.split(shaped.shapes, "]")[1], 2),
            units.bytes(math.floor(bytes)))
        end

        -- The products get faster too, which is not counted; nor does it help where the next launch comes too late.
        local faster = between:with { saved = ("dur * %g"):format(opt.saved) }:select("start", "stop", "name", "saved")
        report {
          symptom     = "unfused-attention",
          score       = math.min(1, 0.7 + spent / total),
          share       = spent / window.dur,
          recoverable = work:join(faster, { "start", "stop", "name" }, "left")
            :ends_sooner("saved", calls),
          at          = here,
          message     = ("%d softmax kernels between two matrix products take %s of the kernel time on GPU %d (%s, %s "
            .. "of the window)%s, against %d fused attention kernels; %s")
            :format(between:count(), units.percent(spent / total), window.device, units.format(spent),
              units.percent(spent / window.dur), matrices, fused, why),
          evidence    = {
            between:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
              :renamed("kernels by time"),
            between:top(5, "dur"),
          },
        }
      end
    end
  end,
}
