--- ## What it detects
--- A first loss far from ln V, where V is the configured vocabulary: what a fresh model that knows nothing must score.
---
--- ## Why it matters
--- Far above: the initial logits are too large, or labels and vocabulary disagree. Far below: pretrained weights, a
--- leak, or a mean over positions that score nothing.
---
--- ## How to confirm
--- Evaluate the untrained model on random tokens: ln V again means that the data knows something.
---
--- ## Known false positives
--- Fine-tuning: a pretrained model starts far below, and rightly so. It is reported as information then.
---
--- ## References
--- Losses in bits instead of nats are 1.4427 times larger and are recognised by that factor.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The first loss is far from the logarithm of the vocabulary",
  needs    = { scalars = { "step", "value", metric = "loss" }, config = { "number" } },
  symptoms = { "initial-loss-off" },
  options  = {
    tolerance = { default = 0.25, doc = "Relative distance from ln V worth reporting" },
  },

  run = function(case)
    local sizes = case.config:where("match(key, '*vocab_size|*num_classes|*n_classes') and number > 1")
    if sizes:count() == 0 then return skip("vocab_size in a config") end
    for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local first = run:sort("step"):first()
      if first.step > 1 then return skip("the loss of step 0 or 1") end
      local size   = sizes:first()
      local chance = math.log(size.number)
      local off    = math.abs(first.value - chance) / chance
      local bits   = math.abs(first.value / chance - 1.4427) < 0.05
      if off > case.options.tolerance and off < math.huge and not bits then
        report {
          symptom  = "initial-loss-off",
          score    = first.value > chance and 0.8 or 0.3,
          severity = first.value > chance and "warning" or "info",
          at       = { step = first.step },
          message  = ("the first loss is %.4g, chance is ln %d = %.4g: %s")
            :format(first.value, math.floor(size.number), chance,
            first.value > chance and "the initial logits are too large or the labels do not fit the vocabulary"
            or "the model starts with knowledge"),
          evidence = { first, size },
        }
      end
    end
  end,
}
