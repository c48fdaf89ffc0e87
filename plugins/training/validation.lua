--- ## What it detects
--- Validation loss that rises over several evaluations while training loss still falls, that lies above the score of
--- knowing nothing, that never was below it while training learned, or that is not finite. The number of classes is
--- the config's, or the width of dumped logits where the first training loss is its logarithm to 1 %.
---
--- ## Why it matters
--- The model memorises. The best checkpoint is the one at the minimum, not the last one. Where there is no minimum, all
--- that it learned are the rows of training: their labels have nothing to do with them, or validation is of another
--- kind.
---
--- ## How to confirm
--- Evaluate the checkpoint at the minimum: a better score there confirms it.
---
--- A rise counts against what was learned, which is the way from the first loss to the best: near nothing every wobble
--- is a large share of the minimum.
---
--- ## Known false positives
--- A validation set of a few batches, whose noise is larger than the rise. Where the config speaks of a teacher or of
--- distillation, the training loss is of another kind, and the two are not compared. A rise that is one jump between
--- two evaluations, from which validation goes no higher, is that of another model or set. Of two or three evaluations
--- behind the best a rise says nothing that is no larger than one before it, which was undone. An evaluation that is
--- not finite where the training loss is not either says no more than that. What a log does not call a loss and has
--- below 0 in all rows, as a log-likelihood, is trained to go up.
---
--- ## References
--- SageMaker Debugger's Overfit rule compares levels, (val - train) / train > 0.1, and so fires on any gap.

local breaks = require("breaks")
local epochs = require("epochs")
local evaluations = require("evaluations")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

--- The last evaluation of another held-out set that ends below `level`; nil where none does.
local function other_that_gains(case, run_name, series, level)
  local others = case.scalars:where { metric = "val_loss", primary = true, run = run_name }:where("finite(value)")
  for name, set in others:sort("step"):group("name") do
    local last = set:last()
    if name ~= series and last.value < level then return last end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Validation loss rises while training loss falls",
  needs    = { scalars = { "step", "value", metric = "val_loss" } },
  symptoms = { "val-loss-rises", "val-loss-above-chance", "val-loss-never-below-chance",
    "val-loss-nonfinite" },
  options  = {
    rise      = { default = 0.05, doc = "Rise over the minimum worth reporting, as a share of it" },
    undone    = { default = 0.01, doc = "The same as a share of the way from the first loss to the minimum" },
    learned   = { default = 0.70, doc = "Training loss over chance that shows that something is learned" },
    min_evals = { default = 4,    doc = "Evaluations below which a trend is not judged" },
  },

  run = function(case)
    local judged, compared = false, false
    local mixed = settings.distilled(case)
    local _, shares = targets.terms(case)
    local classes = shares == 0 and targets.classes(case) or nil
    local outputs = not classes and not targets.numbers(case)
      and case.tensors:where("numel > 1 and role == 'output' and match(layer, ?)", targets.HEADS)
    --- Classes by the outputs of a run: where a fresh model says nothing its loss is the logarithm of their number.
    local function width(run_name)
      local first = runs.series(case, "loss", run_name):first()
      if not outputs or not first or first.step > 1 then return nil end
      for row in outputs:slice(0, 8):rows() do
        local own = row.shape or {}
        local n   = #own >= 2 and own[#own] or 0
        if n >= 3 and math.abs(first.value / math.log(n) - 1) <= 0.01 then return { number = n, row = row } end
      end
    end
    -- Several evaluation sets are a series each: val_loss/<set>.
    for run_name, series, run in case.scalars:where { metric = "val_loss", primary = true }:group("run", "name") do
      local broken = run:where("value is not null and not finite(value)"):sort("step"):first()
      local cause = broken and breaks.before(case, run_name, broken.step)
      if cause then
        skip(("an evaluation before the training loss becomes %s, at step %d: what was trained so is worth as little")
          :format(units.number(cause.value), cause.step), "val-loss-nonfinite")
      elseif broken then
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
      if mixed then val = val:slice(0, 0) end
      -- Better than chance in training, worse than chance outside: confident and wrong.
      -- A held-out loss that begins far above a fresh model's, and falls with training, is on another scale.
      local begun = runs.series(case, "loss", run_name):first()
      local known = classes or width(run_name)
      local other = known and begun and val:count() >= 2 and val:first().value > 1.5 * math.max(begun.value,
        math.log(known.number)) and val:last().value <= 0.9 * val:first().value
        and val:last().value <= 1.1 * val:min("value")
      if other then
        skip(("validation on the scale of training: it falls from %.4g to %.4g, where a fresh model has %.4g"):format(
          val:first().value, val:last().value, begun.value), "val-loss-above-chance", "val-loss-never-below-chance")
      end
      local kinds, never = nil, false
      if not other then kinds = classes and { number = classes.number, row = classes } or known end
      -- What another held-out set gains by is no rows learned by heart, and this set is one of other rows.
      local gains = kinds and other_that_gains(case, run_name, series, 0.95 * math.log(kinds.number))
      if gains then
        skip(("rows that are held out and alike: %s comes to %.4g, below ln %d, and %s is of others"):format(gains.name,
          gains.value, math.floor(kinds.number), series), "val-loss-above-chance", "val-loss-never-below-chance")
        kinds = nil
      end
      if kinds and val:count() >= 2 then
        local chance = math.log(kinds.number)
        local last   = val:last()
        local train  = case.scalars:where(
          "name == 'loss' and primary == true and run == ? and step <= ? and finite(value)", run_name,
          last.step):sort("step")
        compared     = compared or train:count() >= 3
        local level  = train:count() >= 3 and train:slice(math.max(0, train:count() - 9), 9):median("value")
        local least = val:sort("value"):first()
        if level and val:count() >= case.options.min_evals and level < case.options.learned * chance
          and least.value >= 0.97 * chance then
          never = true
          report {
            symptom  = "val-loss-never-below-chance",
            score    = 0.9,
            at       = { step = least.step },
            message  = ("the least %s of %d evaluations is %.4g, at step %d, and ln %d is %.4g, while training comes "
              .. "to %.4g: what it learns is of its own rows alone"):format(series == "val_loss" and "validation loss"
              or series, val:count(), least.value, least.step, math.floor(kinds.number), chance, level),
            evidence = { least, last, kinds.row },
          }
          skip("an evaluation that is better than knowing nothing", "val-loss-above-chance")
        elseif level and level < 0.95 * chance and last.value > 1.05 * chance
          and val:row(val:count() - 2).value > 1.05 * chance then
          report {
            symptom  = "val-loss-above-chance",
            score    = 0.9,
            at       = { step = last.step },
            message  = ("%s is %.4g at step %d, above ln %d = %.4g, while training is at %.4g: worse than knowing "
              .. "nothing"):format(series == "val_loss" and "validation loss" or series, last.value, last.step,
                math.floor(kinds.number), chance, level),
            evidence = { last, kinds.row },
          }
        end
      end
      -- There is no best model to go back to where none was better than knowing nothing.
      if never then
        judged = true
        skip("an evaluation that is better than knowing nothing", "val-loss-rises")
      elseif epochs.counted(case, run_name, val) then
        judged = true
        skip("validation at the steps of training: it has the numbers of epochs", "val-loss-rises")
      elseif val:count() >= case.options.min_evals then
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
        local way   = math.max(val:first().value, train:count() > 0 and train:first().value or 0) - best.value
        if after:count() >= 2 and last.value > best.value * (1 + case.options.rise)
          and last.value - best.value > case.options.undone * way and now:count() >= 3
          and level and now:median("value") < level then
          local jump = evaluations.jump(val, train)
          -- Of few evaluations since a rise is one where it is more than such as were undone before.
          local before = val:where("step <= ?", best.step)
          local undone = after:count() < 4 and before:count() >= 3 and before:col("value"):diff():max() or 0
          local held, trained = evaluations.swapped(case, run_name)
          local raised = runs.maximised(val)
          if raised then
            skip(("a validation loss: %s is above 0 in no row, and training is to raise it"):format(
              tostring(raised.raw_name)), "val-loss-rises")
          elseif held then
            skip(("held-out pairs whose labels are not swapped: %s is %.3g and %s %.3g"):format(held.name, held.value,
              trained.name, trained.value), "val-loss-rises")
          elseif jump then
            skip("a rise that comes by and by: " .. evaluations.told(jump), "val-loss-rises")
          elseif last.value - best.value <= undone then
            skip(("more than %d evaluations since the best one, before which a rise of %.4g was undone"):format(
              after:count(), undone), "val-loss-rises")
          else
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
    end
    if mixed then
      return skip("the training loss of one kind with validation: " .. mixed.key .. " adds a teacher's",
        "val-loss-rises", "val-loss-above-chance", "val-loss-never-below-chance")
    end
    if not judged then skip(("at least %d evaluations"):format(case.options.min_evals), "val-loss-rises") end
    if not compared then
      skip("two evaluations, the training loss and vocab_size or num_classes in a config", "val-loss-above-chance",
        "val-loss-never-below-chance")
    end
  end,
}
