--- ## What it detects
--- Per-layer activation statistics over the run: values that keep growing, attention scores of extreme size, layers
--- whose units are zero.
---
--- ## Why it matters
--- Growth by a constant factor per step has a date at which it passes the end of the number format. Scores of thousands
--- make softmax a hard maximum that no gradient leaves.
---
--- ## How to confirm
--- Extrapolate the logarithm of the largest value: the crossing of 65504 should fall on the first overflow.
---
--- ## Known false positives
--- Scores of a fresh model grow from nearly zero to tens or a hundred and stay there; growth is judged from two fifths
--- of the run.
---
--- ## References
--- QK-norm and z-loss were introduced against it: https://arxiv.org/abs/2302.05442, https://arxiv.org/abs/2204.02311

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Activations grow, saturate or die",
  needs    = { scalars = { "step", "value", "layer", metric = { "activation_max", "zero_share" } } },
  symptoms = { "activation-growth", "attention-logits-large", "dead-units" },
  options  = {
    growth = { default = 10.0,   doc = "Factor from two fifths of the run to its maximum worth reporting" },
    large  = { default = 1000.0, doc = "Largest attention score that is extreme" },
    dead   = { default = 0.99,   doc = "Share of zeros that makes a layer dead" },
  },

  run = function(case)
    local opt = case.options
    local grown
    local largest = case.scalars:where { metric = "activation_max",
      primary = true }:where("layer is not null and finite(value)")
    for layer, values in largest:group("layer") do
      local series = values:sort("step")
      if series:count() >= 5 then
        local from = series:row((2 * series:count()) // 5)
        local peak = series:where("step >= ?", from.step):top(1, "value"):first()
        if from.value > 0 and peak.value / from.value >= opt.growth
          and (not grown or peak.value / from.value > grown.factor) then
          grown = { layer = layer, from = from, peak = peak, factor = peak.value / from.value }
        end
      end
    end
    if grown then
      report {
        symptom  = "activation-growth",
        score    = 0.85,
        at       = { layer = grown.layer, step = grown.peak.step },
        message  = ("the largest value of %s grows from %.4g at step %d to %.5g at step %d")
          :format(grown.layer, grown.from.value,
          grown.from.step, grown.peak.value, grown.peak.step),
        evidence = { grown.from, grown.peak },
      }
    end

    local scores = largest:where("match(layer, '*scores*|*attn_logits*|*attention_logits*|*max_logit*')")
    local top    = scores:top(1, "value"):first()
    if top and top.value >= opt.large then
      report {
        symptom  = "attention-logits-large",
        score    = 0.9,
        at       = { layer = top.layer, step = top.step },
        message  = ("attention scores of %s reach %.5g at step %d; beyond some tens softmax is a hard maximum")
          :format(top.layer, top.value, top.step),
        evidence = { top },
      }
    end

    for layer, values in case.scalars:where { metric = "zero_share",
      primary = true }:where("layer is not null and finite(value)"):group("layer") do
      local dead = values:where("value >= ?", opt.dead)
      if dead:count() >= 3 and dead:count() >= 0.5 * values:count() then
        report {
          symptom  = "dead-units",
          score    = 0.85,
          at       = { layer = layer, step = dead:first().step },
          message  = ("%s of %s is zero at %d of %d logged steps"):format(units.percent(dead:median("value")), layer,
            dead:count(), values:count()),
          evidence = { dead:slice(0, 5) },
        }
      end
    end
  end,
}
