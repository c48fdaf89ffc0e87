--- ## What it detects
--- fp16 gradients a large share of which is exactly zero although others of the same tensor are not, at the low end of
--- the format.
---
--- ## Why it matters
--- fp16 ends at 6e-8. Gradients below are flushed to zero one by one, small ones first, and a loss term with a small
--- weight stops learning without a sign.
---
--- ## How to confirm
--- Multiply the loss by 1024 and divide the gradients by 1024 in fp32: zeros that become values were flushed.
---
--- ## Known false positives
--- Embeddings, whose rows of absent tokens are zero, and gradients behind a rectifier; the largest value has to lie
--- near the low end of the format too.
---
--- ## References
--- https://arxiv.org/abs/1710.03740, section 3.2

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Small gradients are flushed to zero in fp16",
  needs    = { tensors = { "role", "dtype", "zero_share" } },
  symptoms = { "gradient-flushed-to-zero" },
  options  = {
    zeros   = { default = 0.30, doc = "Share of exact zeros worth reporting" },
    largest = { default = 1e-4, doc = "Largest gradient of a tensor that lies at the low end" },
  },

  run = function(case)
    local grads = case.tensors:where("role == 'grad' and dtype == 'float16' and numel >= 64 and absmax > 0"
      .. " and not match(name, '*embed*|*wte*|*wpe*')")
    if grads:count() == 0 then return skip("dumped fp16 gradients") end
    local flushed = grads:where("zero_share >= ? and absmax < ?", case.options.zeros, case.options.largest)
    local worst   = flushed:top(1, "zero_share"):first()
    if not worst then return end
    report {
      symptom  = "gradient-flushed-to-zero",
      score    = 0.9,
      at       = { step = worst.step, layer = worst.layer },
      message  = ("%s of %s at step %s is exactly 0 and the largest value is %.3g, %.3g times the smallest number of "
        .. "fp16; so are "
        .. "%d of %d gradients"):format(units.percent(worst.zero_share), worst.name, tostring(worst.step), worst.absmax,
        worst.absmax / 2 ^ -24, flushed:count(), grads:count()),
      evidence = { flushed:top(5, "zero_share") },
    }
  end,
}
