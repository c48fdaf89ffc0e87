--- ## What it detects
--- Layers whose units output zero for all inputs.
---
--- ## Why it matters
--- A rectified unit that is negative for every input has no gradient and cannot come back. A layer without a rectifier
--- that gives zeros only has weights of zero.
---
--- ## How to confirm
--- Feed a thousand samples and count the units that never fire.
---
--- ## Known false positives
--- Half of a rectified layer is zero in health, and up to nine tenths in large language models; only all of it is
--- reported. A padded or masked batch is zero by design at single steps.
---
--- ## References
--- https://arxiv.org/abs/1903.06733

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The units of a layer are zero for every input",
  needs    = { scalars = { "step", "value", "layer", metric = "zero_share" } },
  symptoms = { "dead-units", "layer-output-zero" },
  options  = {
    dead = { default = 0.99, doc = "Share of zeros that makes a layer dead" },
  },

  run = function(case)
    local shares = case.scalars:where { metric = "zero_share", primary = true }:where("layer is not null and "
      .. "finite(value)")
      :where("not match(layer, '*scores*|*probs*|*logits*')")
    local norms  = case.scalars:where { metric = "weight_norm", primary = true }:where("layer is not null and "
      .. "finite(value)")
    for layer, values in shares:group("layer") do
      local dead = values:where("value >= ?", case.options.dead)
      local size = norms:where { layer = layer }
      -- Weights of zero give zeros too, and are another check's.
      local empty = size:count() > 0 and size:max("value") == 0
      if dead:count() >= 3 and dead:count() >= 0.5 * values:count() and not empty then
        -- What has no rectifier of its own gives zeros only where its weights are zero.
        local linear = layer:lower():glob("*attn|*attention|*proj|*head|*embed*|*norm*|*ln_*|*.q|*.k|*.v|*_q|*_k|*_v")
          and not layer:lower():glob("*act*|*relu*")
        report {
          symptom  = linear and "layer-output-zero" or "dead-units",
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
