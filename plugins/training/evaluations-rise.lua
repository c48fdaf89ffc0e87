--- ## What it detects
--- A validation loss that is higher at each evaluation than at the one before, from the first to the last, while
--- training does not fall either.
---
--- ## Why it matters
--- What learns by heart pays for it in validation and gains in training; what has come to its end goes up and down by
--- its noise. A model that gets a little worse every time, on what it is trained on as well, is walking up: its steps
--- follow the gradient of another thing than the loss, as with a flipped sign. A loss with an upper bound shows it by
--- little, and one batch differs from the next by more than all of it; the same held-out examples do not. Where no
--- update is large against the weights it cannot have overshot either.
---
--- ## How to confirm
--- Take one batch, evaluate it before and after one step at a tenth of the rate: the loss has to fall.
---
--- ## Known false positives
--- A rate that is too high throws a loss up and down, and seldom up each time. A target that follows the model, an
--- adversary and a curriculum have losses that go up as they should; beside those nothing is said. Nor of a model that
--- was loaded, which has little to gain and forgets what it is not tuned on, of a log that begins in the middle, of
--- what is trained to go up, or where nothing moves the weights.
---
--- ## References
--- Five values that are all alike come in rising order once in 120 times.

local freezing = require("freezing")
local runs = require("runs")
local settings = require("settings")
local update_ratios = require("update-ratios")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Each evaluation is worse than the one before, and training does not fall",
  needs    = { scalars = { "step", "value", metric = { "loss", "val_loss" } } },
  symptoms = { "loss-rises-from-start", "loss-rises-at-small-updates" },
  options  = {
    evaluations = { default = 5, doc = "Evaluations that tell" },
    rows        = { default = 4, doc = "Logged training losses that tell" },
    rise        = { default = 1e-3, doc = "Rise of validation in all, over its first value, that is one" },
    small       = { default = 0.03, doc = "Update over weights up to which a step down the gradient cannot overshoot" },
    still       = { default = 1e-3, doc = "Updates over weights, all added up, below which these are where they were" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local follower = freezing.follower(case.scalars:where { primary = true }:where("layer is not null"))
    if settings.moving(case) or follower or settings.harder(case) or settings.grown(case) then
      return skip("a loss of one task against a target that stays")
    elseif settings.loaded(case) then
      return skip("a model that begins from nothing: a loaded one may only lose")
    end
    local val  = runs.series(case, "val_loss"):where("finite(value)")
    local loss = runs.series(case, "loss"):where("finite(value)")
    if val:count() < opt.evaluations or loss:count() < opt.rows then
      return skip(("%d evaluations and %d training losses"):format(opt.evaluations, opt.rows))
    end
    local rates = runs.series(case, "lr"):where("finite(value)")
    if loss:first().step > 0.1 * loss:last().step then
      return skip("losses from the beginning of the run on")
    elseif runs.maximised(loss) then
      return skip("a loss: what is logged is trained to go up")
    elseif rates:count() > 0 and rates:max("value") == 0 then
      return skip("a rate above 0")
    end
    if val:with { rise = val:col("value"):diff() }:where("rise <= 0"):count() > 0 then return end
    local tenth = math.max(1, loss:count() // 10)
    local begun = loss:slice(0, tenth):median("value")
    local ended = loss:slice(loss:count() // 2, loss:count()):median("value")
    local first, last = val:first(), val:last()
    if ended < begun or last.value - first.value < opt.rise * math.abs(first.value) then return end
    -- Evaluations may be counted by epochs where training is by steps.
    local from = not runs.by_epochs(case, run, val) and first.step or nil
    report {
      symptom  = "loss-rises-from-start",
      score    = last.value - first.value > 0.02 * math.abs(first.value) and 0.85 or 0.7,
      at       = { run = run, step = from },
      message  = ("each of %d evaluations is worse than the one before, from %.5g at step %d to %.5g at step %d, and "
        .. "training does not fall (%.4g at first, %.4g in the later half)"):format(val:count(), first.value,
        first.step, last.value, last.step, begun, ended),
      evidence = { val:slice(0, 8), loss:first(), loss:last() },
    }
    local seen = update_ratios.of(case)
    local most = seen and seen.usual:top(1, "ratio"):first()
    if not most then
      skip("update ratios", "loss-rises-at-small-updates")
    elseif most.ratio <= opt.small
      and seen.usual:median("ratio") * (loss:last().step - loss:first().step) >= opt.still then
      report {
        symptom  = "loss-rises-at-small-updates",
        score    = 0.85,
        at       = { run = run, step = from },
        message  = ("validation rises each time while updates are %.2g of the weights at most: steps so short go down "
          .. "where they follow the gradient"):format(most.ratio),
        evidence = { val:slice(0, 8), most },
      }
    end
  end),
}
