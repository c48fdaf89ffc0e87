--- ## What it detects
--- Activations whose size depends on the width of the model, over runs that differ in width.
---
--- ## Why it matters
--- A learning rate carries over from a narrow model to a wide one only if activations keep their size. A slope of the
--- logarithms of half means that the widest layer moves twice as far at four times the width.
---
--- ## How to confirm
--- Train three widths for ten steps on one batch and plot the activations of each layer against the width.
---
--- ## Known false positives
--- Width sweeps in standard parametrisation always have slopes; they are information there. It is a fault where the
--- config speaks of muP or the learning rate is the same at all widths.
---
--- ## References
--- https://arxiv.org/abs/2203.03466, the coordinate check of its appendix

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Activations depend on the width of the model",
  needs    = {
    scalars = { "step", "value", "layer", metric = "activation_rms" },
    config  = { "key", "number" },
  },
  symptoms = { "activation-scale-depends-on-width" },
  options  = {
    slope = { default = 0.10, doc = "Slope of log activation over log width that is not flat" },
  },

  run = function(case)
    local widths = case.config:where("match(key, '*d_model|*n_embd|*hidden_size|*embed_dim|*width') and number > 1")
    if widths:distinct("number"):count() < 3 then return skip("runs of three widths or more, with their configs") end
    local acts = case.scalars:where { metric = "activation_rms", primary = true }
      :where("layer is not null and value > 0 and finite(value)")

    -- The last step that every run has: what training has made of the scale counts, not the initialisation alone.
    local runs, last = {}, nil
    for run, values in acts:group("run") do
      local width = widths:where { run = run }:first()
      if width then
        runs[#runs + 1] = { run = run, width = width }
        last = math.min(last or math.maxinteger, values:max("step"))
      end
    end
    if #runs < 3 then return skip("activations of runs of three widths or more") end

    local worst, layers = nil, 0
    for layer in acts:where { run = runs[1].run, step = last }:group("layer") do
      local x, y, first, final = {}, {}, nil, nil
      for _, one in ipairs(runs) do
        local row = acts:where { run = one.run, layer = layer, step = last }:first()
        if row then
          x[#x + 1], y[#y + 1] = math.log(one.width.number), math.log(row.value)
          first, final = first or row, row
        end
      end
      local n, sx, sy, sxx, sxy = #x, 0, 0, 0, 0
      for i = 1, n do sx, sy, sxx, sxy = sx + x[i], sy + y[i], sxx + x[i] ^ 2, sxy + x[i] * y[i] end
      local spread = n * sxx - sx ^ 2
      if n >= 3 and spread > 0 then
        layers = layers + 1
        local slope = (n * sxy - sx * sy) / spread
        local offset, left = (sy - slope * sx) / n, 0
        for i = 1, n do left = left + (y[i] - offset - slope * x[i]) ^ 2 end
        local deviation = math.sqrt(left / (n - 2) * n / spread)
        if math.abs(slope) > case.options.slope and math.abs(slope) > 2 * deviation
          and (not worst or math.abs(slope) > math.abs(worst.slope)) then
          worst = { layer = layer, slope = slope, first = first, final = final, deviation = deviation }
        end
      end
    end
    if layers == 0 then return skip("one layer that runs of three widths log at the same step") end
    if not worst then return end
    local claimed = case.config:where("match(key, '*mup*|*base_width*|*base_d_model*') and not match(value, "
      .. "'false|False|0|null')")
    local rates   = case.config:where("match(key, 'lr|*.lr|*learning_rate') and number > 0")
    local same    = rates:distinct("run"):count() >= 3 and rates:distinct("number"):count() == 1
    local fault   = claimed:count() > 0 or same
    report {
      symptom  = "activation-scale-depends-on-width",
      severity = fault and "error" or "info",
      score    = fault and math.min(0.95, 0.6 + math.abs(worst.slope)) or 0.5,
      at       = { layer = worst.layer, step = last },
      message  = ("the activations of %s at step %d grow with the width to the power %.2f (+- %.2f over %d widths)%s")
        :format(
        worst.layer, last, worst.slope, worst.deviation, #runs, same and ", at one learning rate for all" or ""),
      evidence = { worst.first, worst.final, runs[1].width, runs[#runs].width },
    }
  end,
}
