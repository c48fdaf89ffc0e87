--- ## What it detects
--- The distance of training and validation loss: one that grows until validation is half as high again, and a training
--- loss that stays above the validation loss. Training is taken as the median of the rows around each evaluation.
---
--- ## Why it matters
--- A growing distance means that examples are stored and not their structure. A training loss above validation has
--- something in training that evaluation does not have: labels with noise, dropout, label smoothing, or another loss.
---
--- ## How to confirm
--- Evaluate on the training data, in evaluation mode: equal to the training loss means noise in the labels, equal to
--- validation means dropout or smoothing.
---
--- ## Known false positives
--- Dropout, augmentation and losses with added terms keep training above validation by design: where the config
--- declares one, nothing is reported. Label smoothing does so within a bound: against targets of 1 - e + e / K and e /
--- K the loss of the best model is above its own cross-entropy by e (1 - 1 / K) ln((1 - e + e / K) / (e / K)) at most,
--- reached where it is sure of each row; half as much again is still taken for it. Averaged weights are better by what
--- the noise of the last steps costs: half as much again is taken for that, unless they have a validation loss of their
--- own.
---
--- ## References
--- SageMaker Debugger's Overfit rule fires on (val - train) / train > 0.1 whatever its course.

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Training and validation loss are far apart",
  needs    = { scalars = { "step", "value", metric = { "val_loss", "loss" } } },
  symptoms = { "generalisation-gap", "train-loss-above-val" },
  options  = {
    gap       = { default = 0.50, doc = "Validation over training, less one, that is far" },
    above     = { default = 0.08, doc = "Training over validation, less one, that needs a reason" },
    sure      = { default = 2.5,  doc = "Noise of a batch's loss by which training has to be above validation" },
    averaged  = { default = 0.50, doc = "The same where averaged weights may be what is validated" },
    smoothed  = { default = 1.50, doc = "Multiple of what label smoothing can account for" },
    min_evals = { default = 4,    doc = "Evaluations below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local declared = case.config:where("match(key, '*dropout|*dropout_rate|*dropout_prob|*drop_rate|*drop_path*|"
      .. "*resid_pdrop|*attn_pdrop|*embd_pdrop|*mixup*|*aux_loss*|*z_loss*|*stochastic_depth*|*erasing*|*jitter*|"
      .. "*cutmix*|*cutout*|*spec_augment*|*randaug*|*augment*|*random_crop*|*random_flip*|*hflip*')")
      :where("number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '')"):first()
    -- What label smoothing can account for, and whether it is known.
    local smoothing = case.config:where("match(key, '*label_smoothing|*label_smoothing_factor') and number > 0"):first()
    local classes = case.config:where("match(key, '*vocab_size|*num_classes|*n_classes|*num_labels') and number > 1")
      :first()
    local excess = 0
    if smoothing and classes and smoothing.number < 1 then
      local e, k = smoothing.number, classes.number
      excess = opt.smoothed * e * (1 - 1 / k) * math.log((1 - e + e / k) / (e / k))
    elseif smoothing then declared = declared or smoothing
    end
    local averaged = case.config:where("match(key, '*ema_decay|*ema_rate|*use_ema|*swa*') and number > 0"):first()
    if averaged and case.scalars:where("match(name, '*val*ema*|*ema*val*|*eval*ema*|*ema*eval*')"):count() > 0 then
      averaged = nil
    end
    local needed = averaged and math.max(opt.above, opt.averaged) or opt.above
    -- A training loss that is the sum over accumulated batches is above by their number, and initial-loss says so.
    local batches = case.config:where("match(key, '*accumulation_steps|*accumulate_grad_batches|*grad_accum*') "
      .. "and number > 1"):first()
    local function summed(ratio)
      return batches and math.abs(ratio / batches.number - 1) < 0.1
    end
    for run_name, series, run in case.scalars:where { metric = "val_loss", primary = true }:group("run", "name") do
      local val   = run:sort("step"):where("finite(value)")
      local train = runs.series(case, "loss", run_name)
      if val:count() >= opt.min_evals and train:count() >= 10 then
        judged = true
        -- The training level at each of up to forty evaluations.
        local points = {}
        for eval in val:slice(math.max(0, val:count() - 40), 40):rows() do
          local before = train:where("step <= ?", eval.step)
          before = before:slice(math.max(0, before:count() - 5), 5)
          local after = train:where("step > ?", eval.step):slice(0, before:count() - 1)
          local rows  = before:concat(after)
          if rows:count() >= 3 then
            points[#points + 1] = { eval = eval, train = rows:median("value"), rows = rows }
          end
        end
        local later = train:slice(train:count() // 2, train:count())
        local noise = (later:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        local n     = #points
        local label = series == "val_loss" and "validation loss" or series
        if n >= opt.min_evals then
          local last, then_ = points[n], points[math.max(1, math.floor(0.4 * n))]
          local first = train:slice(0, 3):median("value")
          local far, above = true, true
          for i = n - 2, n do
            local p = points[i]
            far = far and p.train > 0 and p.eval.value > (1 + opt.gap) * p.train and p.eval.value - p.train > noise
          end
          -- All evaluations of the second half. A held-out set no larger than a batch is harder or easier than others
          -- by the noise of one batch, each time the same.
          for i = math.min(n - 2, n // 2 + 1), n do
            local p = points[i]
            above = above and p.eval.value > 0 and p.train > (1 + needed) * p.eval.value + excess
              and p.train - p.eval.value > opt.sure * noise
          end
          if far and last.eval.value - last.train > then_.eval.value - then_.train + 0.02 * first
            and last.train < 0.8 * first then
            report {
              symptom  = "generalisation-gap",
              score    = 0.85,
              at       = { step = last.eval.step },
              message  = ("%s is %.4g at step %d where training is at %.4g; at step %d they were %.4g and %.4g"):format(
                label, last.eval.value, last.eval.step, last.train, then_.eval.step, then_.eval.value, then_.train),
              evidence = { then_.eval, last.eval, last.rows },
            }
          elseif above and not declared and not summed(last.train / last.eval.value) then
            report {
              symptom  = "train-loss-above-val",
              score    = math.min(0.95, 0.6 + last.train / last.eval.value - 1),
              at       = { step = points[math.min(n - 2, n // 2 + 1)].eval.step },
              message  = ("training stays above validation: %.4g and %.4g at step %d, %.4g and %.4g at step %d; %s")
                :format(points[n - 2].train, points[n - 2].eval.value, points[n - 2].eval.step, last.train,
                last.eval.value, last.eval.step, excess > 0 and ("label smoothing of %g over %d classes accounts for "
                .. "%.2g at most"):format(smoothing.number, math.floor(classes.number), excess / opt.smoothed)
                or averaged and "more than averaging of weights accounts for"
                or "no dropout or label smoothing is configured"),
              evidence = { last.eval, last.rows },
            }
          end
        end
      end
    end
    if not judged then skip(("at least %d evaluations beside 10 training losses"):format(opt.min_evals)) end
  end,
}
