--- ## What it detects
--- An average of the weights that still holds much of the first ones, and scores worse than the weights themselves.
---
--- ## Why it matters
--- With decay d the first weights have the share d^n after n updates: 0.9999 leaves 90 % of them after 1,000. They are
--- random, and so is what the average predicts.
---
--- ## How to confirm
--- Evaluate the raw weights of the same checkpoint.
---
--- ## Known false positives
--- An average that begins late or grows its decay holds less; where the config warms it up, nothing is said. One that
--- starts from trained weights holds something of use.
---
--- ## References
--- https://www.tensorflow.org/api_docs/python/tf/train/ExponentialMovingAverage: min(decay, (1 + n) / (10 + n))

local runs     = require("runs")
local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "An average of the weights still holds the first ones",
  needs    = { config = { "key", "number" }, scalars = { "step", "value" } },
  symptoms = { "average-holds-first-weights" },
  options  = {
    left  = { default = 0.05, doc = "Share of the first weights that is much" },
    worse = { default = 0.10, doc = "Loss of the average over that of the raw weights, less one, that is worse" },
  },

  run = function(case)
    local decay = case.config:where("match(key, '*ema_decay|*ema_rate|*ema.decay|*decay_ema|*ema_beta') "
      .. "and number > 0.5 and number < 1"):first()
    local warmed = case.config:where("match(key, '*ema*warm*|*ema*gamma*|*ema*power*|*ema*tau*|*ema*start*|*ema*every*|"
      .. "*ema*interval*|*ema*freq*')"):where("value is not null and not match(value, 'false|False|0|none|None|null|')")
      :first()
    if decay and settings.is_off(case, decay.key) then decay = nil end
    if not decay then return skip("the decay of an average in a config") end
    if warmed then return skip("an average with a constant decay: " .. warmed.key .. " is set") end
    if settings.loaded(case) then return skip("a run from random weights: it goes on from trained ones") end
    local judged = false
    -- Of an evaluation: an "ema" of the training loss is that loss smoothed, of the weights themselves.
    local losses = case.scalars:where("finite(value) and match(name, '*ema*loss*|*loss*ema*') and match(name, "
      .. "'*val*|*eval*|*valid*|*test*') and not match(name, '*semantic*|*schema*')")
    for run_name, name, rows in losses:group("run", "name") do
      local ema = rows:sort("step"):last()
      local raw = case.scalars:where { name = "val_loss", primary = true, run = run_name }
        :where("finite(value) and step == ?", ema.step):last()
      -- The power of the decay is the number of updates, which epochs are not.
      if raw and not runs.by_epochs(case, run_name, rows) then
        judged = true
        local left = decay.number ^ ema.step
        if left >= case.options.left and ema.value > (1 + case.options.worse) * raw.value then
          report {
            symptom  = "average-holds-first-weights",
            score    = 0.95,
            at       = { step = ema.step },
            message  = ("%s = %g leaves %s of the first weights in the average after %d updates, and %s is %.4g "
              .. "where %s is %.4g"):format(decay.key, decay.number, units.percent(left), ema.step, name, ema.value,
              raw.name, raw.value),
            evidence = { decay, ema, raw },
          }
        end
      end
    end
    if not judged then skip("a loss of the average beside one of the raw weights, by steps") end
  end,
}
