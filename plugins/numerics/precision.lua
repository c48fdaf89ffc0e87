--- ## What it detects
--- Whether the run computes in fp16, from the precision its config names and from the dtypes of dumped tensors; and
--- that it does not, from a loss that is too large for it.
---
--- ## Why it matters
--- It is no fault. But fp16 ends at 65504, and what can overflow there cannot in bf16 or fp32: the answer takes whole
--- families of causes off the list, or puts them on it.
---
--- Two fp16 numbers differ by less than 2^17, and the square of that is 2^34. A loss beyond 2^64 would be a sum of a
--- thousand million such squares: what it is made of is no fp16.
---
--- ## How to confirm
--- Print `torch.get_autocast_dtype("cuda")` inside the forward pass.
---
--- ## Known false positives
--- Configs that name fp16 for a part of the run only, such as communication. The dtype of a checkpoint in a model's
--- config is no answer where it is another: what is stored in bf16 may be computed in fp16.
---
--- ## References
--- https://pytorch.org/docs/stable/amp.html

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The run computes in fp16",
  needs    = { any = { config = { "value" }, scalars = { "value", metric = "loss" } } },
  symptoms = { "runs-in-fp16" },

  run = function(case)
    local beyond = case.scalars:where { metric = "loss", primary = true }
      :where("finite(value) and abs(value) > ?", 2. ^ 64)
    if case.config:count() == 0 then
      if beyond:count() == 0 then skip("the precision of the run in a config") end
      return
    end
    local named = case.config:where(
      "match(key, '*precision*|*dtype*|*fp16*|*bf16*|half|*.half|*_half|amp|amp.*|amp_*|*.amp|*_amp|*.amp.*|*.amp_*')")
    local half  = named:where("(match(value, '*fp16*|*float16*|16-mixed|16') and not match(value, '*bf*'))"
               .. " or (match(key, '*fp16*|half|*.half|*_half|*half_prec*') and match(value, 'true|True'))")
    for row in half:slice(0, 100):rows() do
      if settings.is_off(case, row.key) then half = half:where("key != ?", row.key) end
    end
    -- Results of a recorder's check are stored in the format that it chose, which says nothing about the run.
    local exact  = case.tensors:where("not match(name, 'battery.*')")
    local dumped = exact:where("dtype == 'float16'")
    if half:count() == 0 and dumped:count() == 0 then
      -- How a checkpoint stores its weights is not what it is computed in: bf16 weights are served in fp16 where a GPU
      -- has nothing else. A setting of the run is an answer, and so are dumped activations.
      local own = named:where("not match(key, '*torch_dtype*|model.*|gguf.*|dtype|*.dtype|*kv_cache*|*comm*')")
      local seen = exact:where("match(dtype, 'float32|bfloat16|float64') and role is not null and "
        .. "not match(role, 'weight|grad|bias|buffer')")
      if own:count() == 0 and seen:count() == 0 and beyond:count() == 0 then
        skip("the precision of the run in a config")
      end
      return
    end
    local setting = half:first()
    report {
      symptom  = "runs-in-fp16",
      severity = "info",
      score    = 0.9,
      message  = setting and ("the config sets %s = %s"):format(setting.key, setting.value)
                 or ("%d dumped tensors are float16, such as %s"):format(dumped:count(), dumped:first().name),
      evidence = { setting or dumped:slice(0, 5) },
    }
  end,
}
