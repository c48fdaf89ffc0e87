--- ## What it detects
--- Sigmoid or tanh layers whose units sit at their limits.
---
--- ## Why it matters
--- There the derivative is near zero: what lies upstream gets no gradient, and the layer passes on signs only.
---
--- ## How to confirm
--- Plot the inputs of the activation: beyond 5 in magnitude sigmoid's derivative is below 0.01.
---
--- ## Known false positives
--- Gates that are meant to be open or closed, after long training. Single steps are not reported.
---
--- ## References
--- https://proceedings.mlr.press/v9/glorot10a.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Sigmoid or tanh units sit at their limits",
  needs    = { scalars = { "step", "value", "layer", metric = "saturated_share" } },
  symptoms = { "saturated-units" },
  options  = {
    share = { default = 0.50, doc = "Share of the units at a limit that saturates a layer" },
  },

  run = function(case)
    local shares = case.scalars:where { metric = "saturated_share", primary = true }
      :where("layer is not null and finite(value)")
    local worst, layers = nil, 0
    for layer, values in shares:group("layer") do
      local flat = values:where("value >= ?", case.options.share)
      if flat:count() >= 3 and flat:count() >= 0.5 * values:count() then
        layers = layers + 1
        if not worst or flat:median("value") > worst.share then
          worst = { layer = layer, flat = flat, all = values:count(), share = flat:median("value") }
        end
      end
    end
    if not worst then return end
    report {
      symptom  = "saturated-units",
      score    = worst.share >= 0.7 and 0.95 or 0.8,
      at       = { layer = worst.layer, step = worst.flat:first().step },
      message  = ("%s of the units of %s are at a limit of their activation at %d of %d logged steps; %s so"):format(
        units.percent(worst.share), worst.layer, worst.flat:count(), worst.all,
        layers == 1 and "1 layer is" or ("%d layers are"):format(layers)),
      evidence = { worst.flat:slice(0, 5) },
    }
  end,
}
