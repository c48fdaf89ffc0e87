--- ## What it detects
--- Whether the first non-finite value came after a build-up or out of nothing, between the last clean and the first bad
--- logged step.
---
--- ## Why it matters
--- Growth over many steps before it is overflow or divergence: the range or the learning rate. Flat curves until the
--- step itself are an undefined operation, a bad input or the hardware.
---
--- ## How to confirm
--- Log the largest activation and the gradient norm at every step between the two.
---
--- ## Known false positives
--- Curves logged so rarely that a fast build-up falls between two rows: nothing is called sudden where fewer than eight
--- rows lie before, or the last one is far away. A value whose square leaves the range, in the row that breaks, is not
--- called sudden either. Updates grow with the rate in a warm-up: theirs are taken over it.
---
--- ## References
--- https://arxiv.org/abs/2204.02311 for spikes without any warning in the loss

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "How the first non-finite value announced itself",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "nonfinite-after-growth", "nonfinite-at-once" },
  options  = {
    growth   = { default = 10.0, doc = "Factor over its own earlier median that is a build-up" },
    leap     = { default = 1000., doc = "Factor from the first row to the last that is one however few rows there "
      .. "are" },
    range    = { default = 1e18, doc = "Value at which the next product leaves the range of single precision" },
    large    = { default = 100., doc = "Level from which a growth of less than a hundred times is a build-up" },
    lift     = { default = 20.,  doc = "The same of a loss" },
    flat     = { default = 3.0,  doc = "Factor below which a curve is flat" },
    min_rows = { default = 8,    doc = "Logged values before the onset below which a curve is not judged" },
  },

  run = runs.apart(function(case, run)
    local opt  = case.options
    local all  = case.scalars:where { primary = true }
    local loss = all:where { name = "loss" }:sort("step")
    local bad  = loss:where("value is not null and not finite(value)"):first()
    local hook = all:where("metric == 'nonfinite' and value > 0"):sort("step"):first()
    if hook and (not bad or hook.step < bad.step) then bad = hook end
    if not bad then return end
    local clean = loss:where("finite(value) and step < ?", bad.step):last()
    if not clean then return skip("logged steps before the first non-finite one") end

    -- At a rate that rises updates grow with it, and nothing is built up.
    local rates = all:where("name == 'lr' and value > 0"):sort("step")
    local function rate(name, row)
      local now = name:starts_with("update_ratio") and rates:where("step <= ?", row.step):last()
      return now and now.value or 1
    end

    local best, judged, flat = nil, 0, 0
    local series = all:where("match(metric, "
      .. "'grad_norm|activation_max|activation_rms|max_attention_logit|loss|update_ratio')")
      :where("finite(value) and value > 0 and step < ?", bad.step)
    for name, values in series:group("name") do
      local rows = values:sort("step")
      local count = rows:count()
      local last  = rows:last()
      -- The last row has to be near the onset as the curve is logged.
      local spacing = count >= 2 and (last.step - rows:first().step) / (count - 1) or 0
      local leap = count >= 2 and last.value / rows:first().value * rate(name, rows:first()) / rate(name, last) or 0
      -- Of a loss a few times are plenty: sound training never lifts it above its first value.
      local enough = name == "loss" and opt.lift or opt.leap
      -- A layer that begins at nothing, behind a gate or a factor of 0, grows as many times and is sound.
      local reached = not last.layer or last.value >= (name:starts_with("update_ratio") and 1 or opt.large)
      if count < (last.layer and 4 or opt.min_rows) and leap >= enough and reached then
        -- Two rows suffice for a rise that no flat curve makes.
        judged = judged + 1
        if not best or leap > best.factor then
          best = { name = name, factor = leap, before = rows:first().value, level = last.value, last = last,
            rows = rows }
        end
      elseif count >= (last.layer and 4 or opt.min_rows) and bad.step - last.step <= 2 * spacing + 1 then
        judged = judged + 1
        local tail   = math.max(1, math.min(5, count // 8))
        local before = rows:slice(0, math.max(2, count - 2 * tail)):median("value")
        local level  = rows:slice(count - tail, tail):max("value")
        local factor = level / before * rate(name, rows:row((count - 2 * tail) // 2)) / rate(name, last)
        -- Growth from nothing is how a model begins; it has to reach beyond what it was at any time before.
        local peak = rows:slice(0, math.max(1, (2 * count) // 3)):max("value")
        -- Scores and norms grow tenfold in sound training; an overflow is reached by what passes any such level.
        -- One row alone that leaves all others behind is a jump, where rows are a step or so apart.
        local near = last.step - rows:slice(count - 2, 1):first().step
        local lone = near <= 2 and rows:slice(0, count - 1):max("value") < 1.5 * peak
        if lone and factor >= opt.growth then
          flat = flat + 1
        elseif factor >= opt.growth and level >= 2 * peak and (factor >= 100 or level >= opt.large) then
          if not best or factor > best.factor then
            best = { name = name, factor = factor, before = before, level = level, last = last, rows = rows }
          end
        elseif factor < opt.flat or level < 1.5 * peak then
          flat = flat + 1
        end
      end
    end
    -- A value near the end of the range where it breaks is no undefined operation, though it came within one step.
    local huge = all:where("match(metric, 'activation_max|activation_rms|max_attention_logit') and finite(value) and "
      .. "value >= ? and step >= ? and step <= ?", opt.range, clean.step, bad.step):top(1, "value"):first()
    local between = clean.step + 1 == bad.step and ("at step %d"):format(bad.step)
      or ("between steps %d and %d"):format(clean.step, bad.step)
    if best then
      report {
        symptom  = "nonfinite-after-growth",
        score    = best.factor >= 100 and 0.95 or 0.85,
        at       = { run = run, step = bad.step, layer = best.last.layer },
        message  = ("the first non-finite value comes %s, after %s has grown from %.3g in the median to %.4g, %.3g "
          .. "times"):format(
          between, best.name, best.before, best.level, best.factor),
        evidence = { bad, best.rows:slice(math.max(0, best.rows:count() - 5), 5) },
      }
    elseif huge then
      skip(("curves that stay in range: %s of %s is %.3g at step %d, and its square is none"):format(huge.metric,
        huge.layer or "the run", huge.value, huge.step), "nonfinite-at-once")
    elseif judged >= 1 and flat == judged then
      report {
        symptom  = "nonfinite-at-once",
        score    = judged >= 3 and 0.9 or 0.75,
        at       = { run = run, step = bad.step },
        message  = ("the first non-finite value comes %s out of nothing: none of %s rises before, the loss is %.4g "
          .. "at step %d")
          :format(between, units.plural(judged, "curve"), clean.value, clean.step),
        evidence = { clean, bad },
      }
    elseif judged == 0 then
      skip("eight logged values before the first non-finite one, near it")
    end
  end),
}
