--- ## What it detects
--- A score of the training rows (accuracy, Dice, IoU, F1, AUC) that falls below its first level while the loss of the
--- same rows falls.
---
--- ## Why it matters
--- A loss and its score are two views of the same predictions. Where the loss gets better all along and the score worse
--- than that of a fresh model, the loss rewards what the score calls wrong: a term enters with the wrong sign, or
--- labels and predictions are turned round in one of the two.
---
--- ## How to confirm
--- Compute both by hand for one batch with perfect predictions: the loss must be at its least there.
---
--- ## Known false positives
--- Rare classes: a model that learns to say the frequent one first may lose a little of a score at first, and gains it
--- back. A score that is meant to fall, as of a discriminator or of the domain that features are to hide: names of such
--- are left out. A loss that weighs rare classes more: nothing is said where the config names such weights, nor where a
--- curriculum or growing rows make the task another one.
---
--- ## References
--- Scale-free: every later row is compared with the lowest of the first ones.

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The score falls together with the loss",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "score-falls-with-loss" },
  options  = {
    below    = { default = 0.9, doc = "Share of the later scores that is below the lowest of the first ones" },
    fallen   = { default = 0.2, doc = "Fall of the score, as a share of its first level" },
    min_rows = { default = 20,  doc = "Logged scores below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local scores = case.scalars:where("primary == true and finite(value) and layer is null and match(name, 'accuracy|"
      .. "*accuracy|*_acc|acc|*/acc|*dice|*iou|*miou|*f1|*auc|*rewards_accuracy') and not match(name, '*val*|*test*|"
      .. "*eval*|*valid*|*dev_*|*held*|*loss*|*disc*|*domain*|*adv*|*grad_acc*')")
    local weighted = case.config:where("match(key, '*pos_weight*|*class_weight*|*focal*|*balanced*')")
      :where("not match(value, 'false|False|none|None|null|0|1|1.0|')"):first()
    if weighted then
      return skip("a loss that counts rows as the score does: " .. weighted.key .. " weighs them")
    end
    local set = settings.harder(case)
    local grown = not set and settings.grown(case)
    if set or grown then
      return skip(("a score of one and the same task: %s makes it another one on the way"):format(set and set.key
        or grown.name))
    end
    for run_name, name, rows in scores:group("run", "name") do
      local score = rows:sort("step")
      local loss  = case.scalars:where { name = "loss", primary = true, run = run_name }
        :where("finite(value)"):sort("step")
      local count, n = score:count(), loss:count()
      if count >= opt.min_rows and n >= opt.min_rows then
        judged = true
        local tenth = math.max(3, count // 10)
        local early, later = score:slice(0, tenth), score:slice(tenth, count)
        local was, is = early:median("value"), score:slice(count - tenth, tenth):median("value")
        local noise = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        local first, last = loss:slice(0, 3):median("value"), loss:slice(n - 3, 3):median("value")
        if was > 0 and is <= (1 - opt.fallen) * was and first - last > math.max(4 * noise, 0.02 * math.abs(first))
          and later:where("value < ?", early:min("value")):count() >= opt.below * later:count() then
          report {
            symptom  = "score-falls-with-loss",
            score    = 0.9,
            at       = { step = score:first().step },
            message  = ("%s falls from %.4g in the first rows to %.4g at step %d while the loss falls from %.4g to "
              .. "%.4g: the two disagree on what is better"):format(name, was, is, score:last().step, first, last),
            evidence = { early:slice(0, 3), score:last(), loss:last() },
          }
        end
      end
    end
    if not judged then skip(("a score of the training rows in %d rows"):format(opt.min_rows)) end
  end,
}
