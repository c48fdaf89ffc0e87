--- ## What it detects
--- Losses that all lie on the grid of bf16: the loss is computed, or kept, in eight significant bits.
---
--- ## Why it matters
--- Between 2 and 4 the distance of two bf16 numbers is 1/64. Improvements below that do not show, averages of losses
--- drift, and a cross-entropy summed in bf16 is off by per cents.
---
--- ## How to confirm
--- Print `loss.dtype` before it is logged, and compute the same batch with the logits cast to fp32.
---
--- ## Known false positives
--- Losses that are whole numbers or small fractions by nature; values that need fewer than five bits do not count.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float32 lists cross-entropy

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss has no more precision than bf16",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-on-bf16-grid" },
  options  = {
    min_rows = { default = 24, doc = "Distinct losses below which nothing is judged" },
  },

  run = function(case)
    local loss = case.scalars:where { name = "loss", primary = true }
      :where("finite(value) and value > 0"):distinct("value")
    if loss:count() < case.options.min_rows then
      return skip(("%d distinct losses"):format(case.options.min_rows))
    end
    local on, off, fine = 0, 0, 0
    for row in loss:slice(0, 2000):rows() do
      local grid   = 2 ^ (math.floor(math.log(row.value, 2)) - 7)
      local scaled = row.value / grid
      local whole  = math.floor(scaled + 0.5)
      -- Logs print four decimals: a hundredth of the distance is theirs.
      if math.abs(scaled - whole) <= 0.01 then on = on + 1 else off = off + 1 end
      if whole % 8 ~= 0 then fine = fine + 1 end
    end
    if off > 0 or fine < on // 4 then return end
    local example = loss:row(loss:count() // 2)
    report {
      symptom  = "loss-on-bf16-grid",
      score    = 0.95,
      at       = { step = loss:first().step },
      message  = ("all %d distinct losses are bf16 numbers, such as %.8g at step %d: eight significant bits"):format(on,
        example.value, example.step),
      evidence = { loss:slice(0, 5) },
    }
  end,
}
