--- ## What it detects
--- Trained weights that are held in bf16 or fp16, by their dtype or because their values lie on that grid.
---
--- ## Why it matters
--- It is no fault by itself: an optimizer with stochastic rounding or a master copy elsewhere is well. But updates can
--- be lost in rounding only where the weights are coarse, so the answer puts that cause on the list, or takes it off.
---
--- ## How to confirm
--- Print `{p.dtype for p in optimizer.param_groups[0]["params"]}`.
---
--- ## Known false positives
--- Checkpoints that are exported in bf16 from fp32 training; where their moments are in float32 nothing is said. Dumps
--- of a run with FSDP's mixed precision hold the cast copies.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/amp.html keeps the weights in fp32

local precision = require("precision")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The trained weights are held in half precision",
  needs    = { tensors = { "role", "dtype" } },
  symptoms = { "weights-in-half-precision" },

  run = function(case)
    local weights = case.tensors:where("role == 'weight' and numel >= 64 and nonfinite == 0 and match(dtype, "
      .. "'float32|bfloat16|float16')")
    if weights:count() == 0 then return skip("dumped weights of the training") end
    local half = weights:where("match(dtype, 'bfloat16|float16')")
    if half:count() > 0.5 * weights:count() then
      local moment = precision.moments(case)
      if moment then
        return skip(("weights as the optimizer steps them: %s is float32, so that 16-bit ones may be cast for the file")
          :format(moment.name))
      end
      report {
        symptom  = "weights-in-half-precision",
        severity = "info",
        score    = 0.9,
        at       = { step = half:first().step, layer = half:first().layer },
        message  = ("%d of %d dumped weights are %s, such as %s"):format(half:count(), weights:count(), half
          :first().dtype,
          half:first().name),
        evidence = { half:slice(0, 5) },
      }
      return
    end

    -- fp32 whose values have eight significant bits: widened from bf16.
    local row = weights:where { dtype = "float32" }:where("std > 0"):top(1, "numel"):first()
    if not row or row.numel > 2 ^ 40 then return end
    local ok, count = 0, 0
    local values = case.tensors:has("data") and row:values(0, math.min(512, row.numel)) or {}
    for _, x in ipairs(values) do
      if x ~= 0 then
        count = count + 1
        local scaled = math.abs(x) / 2 ^ (math.floor(math.log(math.abs(x), 2)) - 7)
        if scaled == math.floor(scaled) then ok = ok + 1 end
      end
    end
    if count >= 64 and ok == count then
      report {
        symptom  = "weights-in-half-precision",
        severity = "info",
        score    = 0.85,
        at       = { step = row.step, layer = row.layer },
        message  = ("%s is float32, and all of %d values looked at have the eight significant bits of bf16")
          :format(row.name, count),
        evidence = { row },
      }
    end
  end,
}
