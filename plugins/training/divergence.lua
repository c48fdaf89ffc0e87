--- ## What it detects
--- A loss that climbs away from its best level and stays there, and one that rises from the first steps on; of the
--- latter, one that rises steadily although no update is large against the weights.
---
--- ## Why it matters
--- The first learned and then lost it, which the step size or the numerics do. The second never learned, which a sign
--- or a target does, or a rate that overshoots from its first step on. Size tells them apart: a short step down the
--- gradient lowers the loss, so one that raises it, again and again, does not go down. Overshooting takes updates in
--- the order of the weights. Where no update is on record, Adam's are bounded by the rate in each element, and weights
--- behind n inputs are about 1 / sqrt(n): the rate times the root of the widest layer, four times the model's width.
---
--- ## How to confirm
--- Restart from a checkpoint before the best step with a third of the learning rate.
---
--- ## Known false positives
--- A change of data or of loss weights in the middle of the run. A loss that swings on its way up overshoots, and
--- counts as rising from the start only.
---
--- ## References
--- Thresholds are scale-free: they compare with the fall from the first to the best level of the same run.

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss climbs away and does not come back",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-diverges", "loss-rises-from-start", "loss-rises-at-small-updates",
    "diverges-while-lr-rises" },
  options  = {
    lost     = { default = 0.5, doc = "Part of the fall from first to best level that is lost again at the end" },
    small    = { default = 0.1, doc = "Update over weight norm up to which a step down the gradient cannot overshoot" },
    min_rows = { default = 10,  doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false

    --- The largest update of the median layer until the loss has doubled, and the next one logged; nil where none is.
    --- Adam's first updates are the rate in every element, so that only those of the weights' size count among them.
    --- Then whether the loss swings.
    local function climbs(run_name, loss, start)
      local top, swings, crossed = -math.huge, false, nil
      for row in loss:rows() do
        top = math.max(top, row.value)
        swings  = swings or top > 2 * start and row.value < start + 0.5 * (top - start)
        crossed = crossed or row.value > 1.3 * start and row.step or nil
      end
      local sizes = case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
        :where("finite(value)"):aggregate({ "step" }, { value = "median value" }):sort("step")
      local from  = sizes:first()
      if not crossed or not from or from.step > crossed then return nil, swings end
      local begin = from.step + math.max(10, 0.05 * (loss:last().step - loss:first().step))
      local next_one = sizes:where("step >= ? and step > ?", crossed, begin):first()
      if not next_one then return nil, swings end
      local until_then = sizes:where("step <= ?", next_one.step)
      return math.max(until_then:where("step > ?", begin):max("value") or 0,
        until_then:where("value >= 1"):max("value") or 0), swings
    end

    --- What an update of Adam is of the weights at most, by its rate and the model's width; nil where neither is known.
    local function bound_of_adam(run_name)
      local adam  = case.config:where("match(key, '*optim*') and match(value, '*adam*|*Adam*')"):first()
      local width = case.config:where("match(key, '*hidden_size|*d_model|*n_embd|*embed_dim|*hidden_dim|"
        .. "*embedding_dim') and number >= 1"):max("number")
      local rate  = runs.series(case, "lr", run_name):where("value > 0"):max("value")
      return adam and width and rate and rate * math.sqrt(4 * width) or nil
    end

    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      local rows = loss:count()
      if rows >= opt.min_rows then
        judged = true
        local tenth  = math.max(3, rows // 10)
        local level  = loss:with { level = loss:col("value"):rolling(5, "median") }
        local start  = loss:slice(0, 3):median("value")
        local finish = loss:slice(rows - tenth, tenth):median("value")
        local best   = level:sort("level"):first()
        local early  = best.step <= loss:row(math.max(1, rows // 20)).step
        local fall   = start - best.level
        -- From row to row a loss moves by its noise; a move of the level has to be larger. Losses around zero, such as
        -- policy-gradient ones, are noise and nothing else.
        local noise  = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        if early and finish > start * 1.3 and finish - start > math.max(0.1, 4 * noise) then
          report {
            symptom  = "loss-rises-from-start",
            score    = 0.95,
            at       = { step = loss:first().step },
            message  = ("loss rises from the start: %.4g at step %d, %.4g at step %d, and it was never lower than at "
              .. "step %d")
              :format(loss:first().value, loss:first().step, finish, loss:last().step, best.step),
            evidence = { loss:first(), loss:last() },
          }
          local largest, swings = climbs(run_name, loss, start)
          local bounded
          if not largest and case.scalars:where { metric = "update_ratio", run = run_name }:count() == 0 then
            largest = bound_of_adam(run_name)
            bounded = largest
          end
          if not largest then skip("update ratios from the start on", "loss-rises-at-small-updates") end
          if largest and largest <= opt.small and not swings then
            report {
              symptom  = "loss-rises-at-small-updates",
              score    = bounded and 0.8 or 0.95,
              at       = { step = loss:first().step },
              message  = ("the loss rises steadily from %.4g to %.4g while updates are %s of the weights: "
                .. "steps so short go down where they follow the gradient"):format(start, finish,
                bounded and ("at most about %.1g (the rate times the root of the widest layer)"):format(bounded)
                or ("below %.2g"):format(opt.small)),
              evidence = { loss:slice(0, 3), loss:last() },
            }
          end
        elseif not early and start > 0 and fall > math.max(0.05 * start, 4 * noise)
          and finish - best.level >= opt.lost * fall then
          local peak = loss:where("step >= ?", best.step):top(1, "value"):first()
          report {
            symptom  = "loss-diverges",
            score    = math.min(0.98, 0.6 + 0.3 * (finish - best.level) / fall),
            at       = { step = best.step },
            message  = ("loss falls to %.4g by step %d, then climbs to %.4g at step %d and ends at %.4g: %s of the "
              .. "gain is lost")
              :format(best.level, best.step, peak.value, peak.step, finish,
                units.percent(math.min(1, (finish - best.level) / fall))),
            evidence = { best, peak, loss:last() },
          }
          local rates = case.scalars:where { name = "lr", primary = true }:sort("step"):where("value > 0")
          local now   = rates:where("step <= ?", best.step):last()
          local later = rates:where("step > ?", best.step):slice(0, 10)
          if not now or later:count() == 0 then
            skip("the learning rate where the loss turns", "diverges-while-lr-rises")
          end
          if now and later:count() > 0 and later:max("value") > 1.05 * now.value then
            report {
              symptom  = "diverges-while-lr-rises",
              score    = 0.9,
              at       = { step = best.step },
              message  = ("the loss turns at step %d while the learning rate still rises, %.3g there and %.3g at step "
                .. "%d"):format(best.step,
                now.value, later:last().value, later:last().step),
              evidence = { now, later },
            }
          end
        end
      end
    end
    if not judged then skip(("at least %d logged losses"):format(opt.min_rows)) end
  end,
}
