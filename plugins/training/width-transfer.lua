--- ## What it detects
--- A best learning rate that moves with the width of the model, over a sweep of both.
---
--- ## Why it matters
--- In standard parametrisation the best rate of Adam falls about as one over the width. A rate tuned on the narrow
--- model is then too high on the wide one, by the ratio of the widths.
---
--- ## How to confirm
--- Train the widest model at the rate that is best for the narrowest and at that rate times the ratio of the widths.
---
--- ## Known false positives
--- A best rate at the edge of the sweep says only that the sweep is too narrow; such widths are left out. One step of
--- the sweep is within its resolution.
---
--- ## References
--- https://arxiv.org/abs/2203.03466

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The best learning rate moves with the width of the model",
  needs    = {
    scalars = { "step", "value", metric = { "loss", "val_loss" } },
    config  = { "key", "number" },
  },
  symptoms = { "best-lr-moves-with-width" },
  options  = {
    slope = { default = 0.30, doc = "Slope of log best rate over log width that is a drift" },
  },

  run = function(case)
    local widths = case.config:where("match(key, '*d_model|*n_embd|*hidden_size|*embed_dim|*width') and number > 1")
    local rates  = case.config:where("match(key, 'lr|*.lr|*learning_rate|*max_lr') and number > 0")
    if widths:distinct("number"):count() < 2 or rates:distinct("number"):count() < 3 then
      return skip("runs of two widths or more at three learning rates or more, with their configs")
    end
    local held  = case.scalars:where { name = "val_loss", primary = true }
    local curve = held:count() > 0 and held or case.scalars:where { name = "loss", primary = true }
    local by_width, order = {}, {}
    for run, values in curve:group("run") do
      local width, rate = widths:where { run = run }:first(), rates:where { run = run }:first()
      local series = values:sort("step")
      local final  = series:slice(math.max(0, series:count() - math.max(1, series:count() // 10)), series:count())
        :median("value") or math.huge
      if width and rate then
        if not by_width[width.number] then by_width[width.number] = {} order[#order + 1] = width.number end
        table.insert(by_width[width.number], { rate = rate.number, loss = final, row = series:last() })
      end
    end
    table.sort(order)
    local best = {}
    for _, width in ipairs(order) do
      local runs = by_width[width]
      table.sort(runs, function(a, b) return a.rate < b.rate end)
      local low = 1
      for i, one in ipairs(runs) do if one.loss < runs[low].loss then low = i end end
      if #runs >= 3 and low > 1 and low < #runs then
        best[#best + 1] = { width = width, rate = runs[low].rate, row = runs[low].row,
          step = math.max(runs[low + 1].rate / runs[low].rate, runs[low].rate / runs[low - 1].rate) }
      end
    end
    if #best < 2 then return skip("a best learning rate inside the sweep at two widths or more") end
    local a, b  = best[1], best[#best]
    local moved = math.log(b.rate / a.rate)
    local slope = moved / math.log(b.width / a.width)
    if math.abs(slope) < case.options.slope or math.abs(moved) < 1.01 * math.log(math.max(a.step,
      b.step)) then return end
    report {
      symptom  = "best-lr-moves-with-width",
      score    = 0.9,
      message  = ("the best learning rate is %.3g at width %g and %.3g at width %g: it goes with the width to the "
        .. "power %.2f")
        :format(a.rate, a.width, b.rate, b.width, slope),
      evidence = { a.row, b.row },
    }
  end,
}
