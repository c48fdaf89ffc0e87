--- ## What it detects
--- Validation loss that rises over several evaluations while training loss still falls, that lies above the score of
--- knowing nothing, or that is not finite.
---
--- ## Why it matters
--- The model memorises. The best checkpoint is the one at the minimum, not the last one.
---
--- ## How to confirm
--- Evaluate the checkpoint at the minimum: a better score there confirms it.
---
--- ## Known false positives
--- A validation set of a few batches, whose noise is larger than the rise.
---
--- ## References
--- SageMaker Debugger's Overfit rule compares levels, (val - train) / train > 0.1, and so fires on any gap.

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Validation loss rises while training loss falls",
  needs    = { scalars = { "step", "value", metric = "val_loss" } },
  symptoms = { "val-loss-rises", "val-loss-above-chance", "val-loss-nonfinite" },
  options  = {
    rise      = { default = 0.05, doc = "Rise over the minimum worth reporting, as a share of it" },
    min_evals = { default = 4,    doc = "Evaluations below which a trend is not judged" },
  },

  run = function(case)
    local judged, compared = false, false
    local classes = case.config:where("match(key, '*vocab_size|*num_classes|*n_classes|*num_labels') and number > 1")
      :first()
    -- Several evaluation sets are a series each: val_loss/<set>.
    for run_name, series, run in case.scalars:where { metric = "val_loss", primary = true }:group("run", "name") do
      local broken = run:where("value is not null and not finite(value)"):sort("step"):first()
      if broken then
        local good = case.scalars:where(
          "name == 'loss' and primary == true and run == ? and step <= ? and finite(value)", run_name,
          broken.step):sort("step"):last()
        report {
          symptom  = "val-loss-nonfinite",
          score    = 0.97,
          severity = "error",
          at       = { step = broken.step },
          message  = ("%s is %s at step %d%s"):format(series == "val_loss" and "the validation loss" or series,
            units.number(broken.value), broken.step,
            good and ("; the training loss is %.4g there"):format(good.value) or ""),
          evidence = { broken, good or broken },
        }
      end

      local val = run:sort("step"):where("finite(value)")
      -- Better than chance in training, worse than chance outside: confident and wrong.
      if classes and val:count() >= 2 then
        local chance = math.log(classes.number)
        local last   = val:last()
        local train  = case.scalars:where(
          "name == 'loss' and primary == true and run == ? and step <= ? and finite(value)", run_name,
          last.step):sort("step")
        compared     = compared or train:count() >= 3
        local level  = train:count() >= 3 and train:slice(math.max(0, train:count() - 9), 9):median("value")
        if level and level < 0.95 * chance and last.value > 1.05 * chance
          and val:row(val:count() - 2).value > 1.05 * chance then
          report {
            symptom  = "val-loss-above-chance",
            score    = 0.9,
            at       = { step = last.step },
            message  = ("%s is %.4g at step %d, above ln %d = %.4g, while training is at %.4g: worse than knowing "
              .. "nothing"):format(series == "val_loss" and "validation loss" or series, last.value, last.step,
                math.floor(classes.number), chance, level),
            evidence = { last, classes },
          }
        end
      end
      if val:count() >= case.options.min_evals then
        judged = true
        local best, last = val:sort("value"):first(), val:last()
        local after = val:where("step > ?", best.step)
        local train = runs.series(case, "loss", run_name)
        local now   = train:where("step > ?", best.step)
        local then_ = train:where("step <= ?", best.step)
        -- The training level at the best evaluation; one that logs no more than the evaluations do has a point or two
        -- there, and must fall by a tenth to count.
        local level = then_:count() >= 3 and then_:slice(math.max(0, then_:count() - 5), 5):median("value")
          or then_:count() > 0 and 0.9 * then_:last().value
        if after:count() >= 2 and last.value > best.value * (1 + case.options.rise) and now:count() >= 3
          and level and now:median("value") < level then
          report {
            symptom  = "val-loss-rises",
            score    = 0.85,
            at       = { step = best.step },
            message  = ("%s rises from %.4g at step %d to %.4g at step %d over %d evaluations while "
              .. "training loss falls"):format(
              series == "val_loss" and "validation loss" or series, best.value, best.step, last.value, last.step,
              after:count()),
            evidence = { best, last },
          }
        end
      end
    end
    if not judged then skip(("at least %d evaluations"):format(case.options.min_evals), "val-loss-rises") end
    if not compared then
      skip("two evaluations, the training loss and vocab_size or num_classes in a config", "val-loss-above-chance")
    end
  end,
}
