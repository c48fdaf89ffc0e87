--- ## What it detects
--- Finite values beyond half of the largest number of a narrow format (fp16, fp8), and tensors whose values mostly lie
--- below its normal range, other than a few weights.
---
--- ## Why it matters
--- The next doubling overflows; what lies below the range has lost its digits already.
---
--- ## How to confirm
--- Compare with the same tensor computed in fp32.
---
--- ## Known false positives
--- Sentinels such as the most negative finite number in masks; name them `*mask*`.
---
--- ## References
--- fp16 ends at 65504, fp8 e4m3 at 448, e5m2 at 57344; bf16 shares fp32's range and is not judged.

local MASKS = require("masks").NAMES

local FEW = 0.1 -- of the weights of a model

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Values at the edge of their number format",
  needs    = { tensors = { "dtype", "absmax", "subnormal_share" } },
  symptoms = { "near-dtype-max", "many-subnormals" },
  options  = {
    subnormal = { default = 0.20, doc = "Share of values below the normal range worth reporting" },
  },

  run = function(case)
    local narrow = case.tensors:where("match(dtype, 'float16|float8*') and not match(name, ?)", MASKS)
    if narrow:count() == 0 then return skip("a dump that holds fp16 or fp8 tensors") end
    local limits = { float16 = 65504, float8_e4m3 = 448, float8_e5m2 = 57344, float8_e4m3fnuz = 240,
      float8_e5m2fnuz = 57344,
                     float8_e8m0fnu = 2 ^ 127 }
    -- The last values before the overflow say more than what is left after it.
    local near = narrow:where("near_max_share > 0 and nonfinite == 0"):top(1, "absmax"):first()
                 or narrow:where("near_max_share > 0"):top(1, "absmax"):first()
    if near then
      report {
        symptom  = "near-dtype-max",
        score    = 0.9,
        at       = { step = near.step, layer = near.layer },
        message  = ("%s at step %s reaches %.5g of the %g that %s can hold"):format(near.name, tostring(near.step),
          near.absmax,
          limits[near.dtype], near.dtype),
        evidence = { near },
      }
    end
    local tiny = narrow:where("subnormal_share >= ? and numel >= 64", case.options.subnormal)
    -- A few weights that decay has brought to nothing may be saved in half precision: no step was lost by it.
    local of_model = "match(role, 'weight|bias|value')"
    local few = tiny:where(of_model):count() <= math.max(1, FEW * narrow:where("numel >= 64"):where(of_model):count())
    local small = (few and tiny:where("role is null or not match(role, 'weight|bias|value')") or tiny)
      :top(1, "subnormal_share"):first()
    if small then
      report {
        symptom  = "many-subnormals",
        score    = 0.8,
        at       = { step = small.step, layer = small.layer },
        message  = ("%s of %s at step %s lies below the normal range of %s")
          :format(units.percent(small.subnormal_share), small.name,
          tostring(small.step), small.dtype),
        evidence = { small },
      }
    end
  end,
}
