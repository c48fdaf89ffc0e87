--- ## What it detects
--- The distance of training and validation loss: one that grows until validation is half as high again, and a training
--- loss that stays above the validation loss. Training is taken as the median of the rows around each evaluation.
---
--- ## Why it matters
--- A growing distance means that examples are stored and not their structure. A training loss above validation has
--- something in training that evaluation does not have: labels with noise, dropout, label smoothing, or another loss.
---
--- A label that is random with probability q costs about q times what knowing nothing costs, and that is the first
--- loss. A distance of less than a hundredth of it is none, however small both losses have become. What labels cost
--- shows when something is learned: as long as training is where it began, or is left near there by a rate that went to
--- nothing, two sets of rows are apart by what they hold.
---
--- ## How to confirm
--- Evaluate on the training data, in evaluation mode: equal to the training loss means noise in the labels, equal to
--- validation means dropout or smoothing.
---
--- ## Known false positives
--- Evaluations that have the numbers of epochs, or of the rows of a table, are not held against steps of these numbers.
--- A training loss that is the same multiple of validation throughout, while both fall to seven tenths, is a sum beside
--- a mean. A row of as many as there are evaluations may be the mean since the row before, and lags behind by half of
--- the way.
---
--- Sets of another kind are apart as soon as training has learned its own. Where they are so at the first evaluation,
--- and training has not come down to half since, nothing was seen to open. Rows are stored one by one: where validation
--- goes up between two evaluations, training hardly moves there and validation goes no higher from then on, another
--- model is evaluated, one of averaged weights say, or another set. Nor is it learned where training falls to a
--- thousandth within three rows and stays there: what the loss was taken of went away.
---
--- Dropout, augmentation, weights of classes, negatives drawn more seldom or harder, labels that are shares of several
--- classes, inputs that are the model's own or an adversary's, and losses with added terms keep training above
--- validation by design: where the config declares one, or its share is logged, nothing is said (of teacher forcing
--- where its ratio is between 0 and 1). Nor is it where the rows of dumped batches say so themselves: a random label
--- costs what one drawn at random does, and without as many of the dearest rows as that makes of the distance, and a
--- quarter more, the others cost no more than validation. A logged loss above what all rows of its batch cost is of
--- some of them, or weighs them. Without any config nobody knows what training adds, and it is a third as sure.
--- Label smoothing does so within a bound: against targets of 1
--- - e + e / K and e / K the loss of the best model is above its own cross-entropy by e (1 - 1 / K) ln((1 - e + e / K)
--- / (e / K)) at most, reached where it is sure of each row; half as much again is still taken for it. Averaged weights
--- are better by what the noise of the last steps costs: half as much again is taken for that, unless they have a
--- validation loss of their own. Where the config speaks of a teacher or of distillation the two losses are of
--- different kinds, and nothing is said. Batch normalisation takes each batch's own mean and deviation in training,
--- which few rows tell badly, and those of many batches in evaluation: below 16 rows a batch, or where the config names
--- no size, its noise makes models worse by itself, and training is not said to be above validation. With B rows the
--- mean of a batch is off by the root of 1 / B of the spread. Of what is normalised so a prediction is off by as much
--- of the spread of the targets, and knowing nothing costs the spread: an absolute error is larger by that part of the
--- first loss, at most, and half as much again is taken for it. Of losses that are smooth at their best, squares and
--- logarithms, it is the square of that part, which is nothing.
---
--- ## References
--- https://arxiv.org/abs/1803.08494 (figure 1: error by rows a batch under batch normalisation).
--- SageMaker Debugger's Overfit rule fires on (val - train) / train > 0.1 whatever its course.

local epochs_of = require("epochs")
local evaluations = require("evaluations")
local harder_rows = require("harder-rows")
local places = require("places")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

-- What makes training's own rows harder than those of validation, as a setting or as the share that is logged.
local LOGGED = "*sampling_prob*|*scheduled_sampling*|*adversarial*|*pgd*|*hard_neg*|*input_noise*|*word_drop*|"
  .. "*token_drop*"
local HARDER = LOGGED .. "|*corrupt*|*noise_std*"
-- A ratio of 1 has all inputs right, which is easier than what validation has, and one of 0 has none so.
local FORCED = "match(%s, '*teacher_forc*') and %s > 0 and %s < 1"

--- The index of the first of some points from which on all show the same, up to one that is known to.
---@param points table[]  eval, train
---@param known integer   the index of the one
---@param shows fun(point: table): boolean
---@return integer
local function since(points, known, shows)
  while known > 1 and shows(points[known - 1]) do known = known - 1 end
  return known
end

--- How far training fell from the middle of the rows around a look to the look itself. The last look has no rows behind
--- it, and where the loss is logged seldom and falls, those before it are of another time. Nothing where the halves of
--- the rows differ by no more than noise.
local function fallen(point, noise)
  if point.lag then return point.lag end
  local rows = point.rows:sort("step")
  local half = rows:count() // 2
  local early, late = rows:slice(0, half), rows:slice(rows:count() - half, half)
  local fall, time = early:mean("value") - late:mean("value"), late:mean("step") - early:mean("step")
  if fall <= 2 * noise or time <= 0 then return 0 end
  return fall / time * math.max(0, point.eval.step - rows:mean("step"))
end

--- Training over validation in all looks from `half` on together: by half as much again, by more than one batch of a
--- held-out set can be easier than others, and by five standard errors of the training losses. `more` and `excess` are
--- what averaged weights and label smoothing are allowed, `of_batch` is the noise of one batch's loss.
local function all_above(points, half, more, excess, of_batch, least, opt)
  local looks, rows, train, val, square = #points - half + 1, 0, 0, 0, 0
  for i = half, #points do
    local here = points[i].rows
    train, val = train + (here:mean("value") - fallen(points[i], of_batch)) / looks, val + points[i].eval.value / looks
    rows, square = rows + here:count(), square + (here:count() - 1) * (here:std("value") or 0) ^ 2
  end
  local error_ = math.sqrt(square / math.max(1, rows - looks) / rows)
  return looks >= 3 and rows >= 10 and val > 0 and train > (1 + opt.pooled + more) * val + excess
    and train - val > math.max(opt.pooled_sure * of_batch, 5 * error_, least)
end

--- Whether training is a multiple of validation that stays while both go down: the one is added up over something that
--- the other is the mean of. What random labels cost does not fall with the rest, so that they raise the ratio.
local function other_scale(points)
  local first, last = points[1], points[#points]
  if last.train > 0.7 * first.train or last.eval.value > 0.7 * first.eval.value then return nil end
  local low, high = math.huge, -math.huge
  for _, p in ipairs(points) do
    if p.train <= 0 or p.eval.value <= 0 then return nil end
    local ratio = math.log(p.train / p.eval.value)
    low, high = math.min(low, ratio), math.max(high, ratio)
  end
  return low >= math.log(2) and high - low <= 0.2 * high and math.exp((low + high) / 2) or nil
end

--- Whether the rate is below a thousandth of its peak for half of the run and more, so that all looks from there on are
--- at one and the same model.
local function stopped(rate)
  return rate:count() >= 4 and rate:median("value") < 1e-3 * rate:max("value")
end

--- What says that batches are normalised by their own statistics, nil where nothing does, and how many rows they have,
--- where it is known.
local function batch_normalised(case)
  local size = case.config:where("match(key, '*batch_size*|*batchsize|*samples_per_gpu|*imgs_per_gpu') and "
    .. "not match(key, '*val*|*eval*|*test*') and number >= 1"):min("number")
  local set = settings.on(case.config:where("match(key, '*batchnorm*|*batch_norm*|*use_bn')"):where("not match(key, "
    .. "'*freeze*|*frozen*|*sync*|*momentum*|*eps*')")):first()
  if set then return set.key, size end
  local kind = case.config:where("match(key, 'norm|*.norm|*norm_type|*norm_layer|*normalization') and "
    .. "match(value, 'batch|batch_norm|batchnorm*|BatchNorm*|bn|BN')"):first()
  if kind then return kind.key, size end
  local layer = case.scalars:where("match(layer, 'bn|bn?|*.bn|*.bn?|bn_*|*.bn_*|*_bn|*batchnorm*|*batch_norm*|"
    .. "*BatchNorm*')"):first()
  if layer then return layer.layer, size end
  local kept = case.tensors:where("match(name, '*running_mean|*running_var')"):first()
  return kept and kept.name, size
end

--- The part of the first loss by which norms over `size` rows may raise a training loss that is an absolute error.
local function norms_raise(case, size)
  local absolute = case.config:where("match(key, 'loss|*.loss|*loss_fn|*loss_type|*loss_name|*criterion|*objective') "
    .. "and match(value, 'l1*|L1*|mae|MAE|*absolute*|*smooth_l1*|*SmoothL1*|huber*|Huber*|*L1Loss*')"):first()
  return absolute and 1 / math.sqrt(size) or 0
end

--- Where the loss falls to a thousandth within three rows and stays there, which nothing does that is learned; nil
--- where it does not.
local function fell_away(train)
  local rows = train:slice(0, 5000)
  local before
  for row in rows:rows() do
    local first = before and before[1]
    if first and row.value < 1e-3 * first.value
      and train:where("step >= ?", row.step):max("value") < 1e-2 * first.value then
      return { was = first.value, from = first.step, now = row.value, to = row.step }
    end
    before = before or {}
    before[#before + 1] = row
    if #before > 3 then table.remove(before, 1) end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Training and validation loss are far apart",
  needs    = { scalars = { "step", "value", metric = { "val_loss", "loss" } } },
  symptoms = { "generalisation-gap", "train-loss-above-val" },
  options  = {
    gap       = { default = 0.50, doc = "Validation over training, less one, that is far" },
    stored    = { default = 0.50, doc = "Last over first training level, by which rows are stored after a first gap" },
    learned   = { default = 0.80, doc = "Training over its first level below which a run that stopped has learned" },
    least     = { default = 0.01, doc = "Distance over the first loss that is worth a word" },
    above     = { default = 0.08, doc = "Training over validation, less one, that needs a reason" },
    sure      = { default = 2.5,  doc = "Noise of a batch's loss by which training has to be above validation" },
    pooled    = { default = 0.50, doc = "Training over validation, less one, of all rows of the second half together" },
    pooled_sure = { default = 1.5, doc = "Noise of a batch's loss by which their mean has to be above" },
    averaged  = { default = 0.50, doc = "The same where averaged weights may be what is validated" },
    smoothed  = { default = 1.50, doc = "Multiple of what label smoothing can account for" },
    norms     = { default = 1.50, doc = "Multiple of what the norms of a batch can account for" },
    min_evals = { default = 4,    doc = "Evaluations below which nothing is judged" },
    min_rows  = { default = 8,    doc = "Logged losses of training below which nothing is judged" },
    unsaid    = { default = 0.30, doc = "How sure it is where no config says what else raises the training loss" },
    batch     = { default = 16,   doc = "Rows of a batch below which its own statistics raise the training loss" },
  },

  run = function(case)
    local opt, judged, epochs = case.options, false, false
    local opened, apart_at_first, few_rows, jumps, explained
    local normalised, rows_normalised = batch_normalised(case)
    local by_norms = 0
    if normalised and rows_normalised and rows_normalised >= opt.batch then
      by_norms, normalised = opt.norms * norms_raise(case, rows_normalised), nil
    end
    local mixed = settings.distilled(case)
    if mixed then return skip("the training loss of one kind with validation: " .. mixed.key .. " adds a teacher's") end
    -- RecBole's augmentation makes more rows of a list, each as it is.
    local lists = case.config:where("match(key, '*max_item_list_length')"):count() > 0
    local declared = case.config:where(lists and "not match(key, '*data_augmentation')" or "key is not null")
      :where("match(key, '*dropout|drop|*.drop|*dropout_rate|*dropout_prob|*drop_rate|*drop_path*|"
      .. "*resid_pdrop|*attn_pdrop|*embd_pdrop|*mixup*|*aux_loss*|*z_loss*|*stochastic_depth*|*erasing*|*jitter*|"
      .. "*cutmix*|*cutout*|*spec_augment*|*randaug*|*augment*|*random_crop*|*random_flip*|*hflip*|*pos_weight*|"
      .. "*class_weight*|*focal*|*neg*downsampl*|*neg*subsampl*|*neg_sampl*|*negative_sampl*|*mask_ratio|*mask_prob*')")
      :where("number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '')"):first()
      or settings.on(case.config:where("match(key, ?)", HARDER)):first() or harder_rows.setting(case)
      or case.config:where(FORCED:format("key", "number", "number")):first()
      -- A share of rows that is kept. A whole number is of layers that make frames or pixels fewer.
      or case.config:where("match(key, '*downsampl*|*subsampl*') and number > 0 and number < 1"):first()
    local logged = case.scalars:where("match(name, ?) and value > 0", LOGGED):first()
      or case.scalars:where(FORCED:format("name", "value", "value")):first()
    -- What label smoothing can account for, and whether it is known.
    local smoothing = settings.smoothing(case)
    local classes = targets.counted(case)
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
    local batches = settings.accumulation(case):where("number > 1"):first()
    local function summed(ratio)
      return batches and math.abs(ratio / batches.number - 1) < 0.1
    end
    --- What training's rows cost where all of them cost more than those of validation; nil where they do not.
    local function rows_cost(points, half, run_name)
      local sum = 0
      for i = half, #points do sum = sum + points[i].eval.value end
      return harder_rows.throughout(case, run_name, points[half].eval.step, sum / (#points - half + 1))
    end
    for run_name, series, run in case.scalars:where { metric = "val_loss", primary = true }:group("run", "name") do
      local val   = run:sort("step"):where("finite(value)")
      local train = evaluations.part(case, run_name, val) or runs.series(case, "loss", run_name)
      local apart = epochs_of.counted(case, run_name, val)
      epochs = epochs or apart
      if not apart and val:count() >= opt.min_evals and train:count() >= opt.min_rows then
        judged = true
        local means = train:count() <= 1.2 * val:count()
        -- The training level at each of up to forty evaluations.
        local points = {}
        for eval in val:slice(math.max(0, val:count() - 40), 40):rows() do
          local before = train:where("step <= ?", eval.step)
          before = before:slice(math.max(0, before:count() - 5), 5)
          local after = train:where("step > ?", eval.step):slice(0, math.max(0, before:count() - 1))
          local rows  = before:concat(after)
          if rows:count() >= 3 then
            -- Of a row for each evaluation, as of an epoch, the level is that of its middle.
            local own, earlier = before:last(), before:slice(before:count() - 2, 1):first()
            local lag = means and earlier and math.max(0, earlier.value - own.value) / 2 or nil
            points[#points + 1] = { eval = eval, train = means and own.value or rows:median("value"), rows = rows,
              lag = lag }
          end
        end
        local later = train:slice(train:count() // 2, train:count())
        local noise = (later:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        -- Of four distances the deviation is known badly.
        if train:count() < 10 then noise = 1.5 * noise end
        local rate  = runs.series(case, "lr", run_name)
        local n     = #points
        local label = series == "val_loss" and "validation loss" or series
        if n >= opt.min_evals then
          local last, then_ = points[n], points[math.max(1, math.floor(0.4 * n))]
          local first = train:slice(0, 3):median("value")
          local start = math.max(train:first().value, val:first().value)
          local far, above = true, true
          local allowed = excess + by_norms * start
          local function is_far(p)
            return p.train > 0 and p.eval.value > (1 + opt.gap) * p.train
              and p.eval.value - p.train > math.max(noise, opt.least * start)
          end
          local function is_above(p)
            p.level = p.level or p.train - fallen(p, noise)
            return p.eval.value > 0 and p.level > (1 + needed) * p.eval.value + allowed
              and p.level - p.eval.value > math.max(opt.sure * noise, opt.least * start)
          end
          for i = n - 2, n do far = far and is_far(points[i]) end
          -- All evaluations of the second half. A held-out set no larger than a batch is harder or easier than others
          -- by the noise of one batch, each time the same.
          local half = math.min(n - 2, n // 2 + 1)
          for i = half, n do above = above and is_above(points[i]) end
          -- Of small batches the noise is that large that single looks do not tell, and all of them together do.
          local pooled = not above and all_above(points, half, needed - opt.above, allowed, noise,
            opt.least * start, opt)
          above = (above or pooled) and last.train < (stopped(rate) and opt.learned or 1) * start
          local grows = far and last.eval.value - last.train > then_.eval.value - then_.train + 0.02 * first
            and last.train < 0.8 * first
          -- A gap that opens is of rows that are stored, and each that is makes training's loss less.
          local known = grows and is_far(points[1]) and last.train > opt.stored * points[1].train
          local fell  = grows and fell_away(train)
          local other = grows and evaluations.jump(val, train)
          local held, trained = nil, nil
          if grows then held, trained = evaluations.swapped(case, run_name) end
          local plain = above and not (grows or normalised or declared or logged)
          local hard  = plain and rows_cost(points, half, run_name)
          local weighed = plain and not hard and excess == 0
            and harder_rows.weighed(case, run_name, points[half].eval.step)
          if fell then
            skip(("a training loss that comes down by and by: it is %.2g at step %d and %.2g at step %d, and what it "
              .. "is taken of went away"):format(fell.was, fell.from, fell.now, fell.to), "generalisation-gap")
          elseif known then
            apart_at_first = points[1]
          elseif held then
            skip(("held-out pairs whose labels are not swapped: %s is %.3g and %s %.3g"):format(held.name, held.value,
              trained.name, trained.value), "generalisation-gap")
          elseif other then
            jumps = other
          elseif grows then
            opened = true
            local step = points[since(points, n - 2, is_far)].eval.step
            report {
              symptom  = "generalisation-gap",
              score    = 0.85,
              at       = { step = step },
              message  = ("%s is %.4g at step %d where training is at %.4g; at step %d they were %.4g and %.4g; it "
                .. "is %s above training since step %d"):format(label, last.eval.value, last.eval.step, last.train,
                then_.eval.step, then_.eval.value, then_.train, units.percent(opt.gap), step),
              evidence = { then_.eval, last.eval, last.rows },
            }
          elseif above and normalised then
            few_rows = true
          elseif above and (declared or logged) then
            explained = last
          elseif hard then
            skip(("rows as hard as those of validation: the easiest %s of %d dumped ones cost %.3g in the mean, "
              .. "whatever the labels of the rest"):format(units.percent(hard.share), hard.of, hard.mean),
              "train-loss-above-val")
          elseif weighed then
            skip(("a training loss that is the mean over its rows: those of step %d cost %.3g by %s, and it is %.3g")
              :format(weighed.step, weighed.mean, weighed.output, weighed.value), "train-loss-above-val")
          elseif above and harder_rows.disturbed(case, run_name) then
            skip(("inputs as validation has them: those of %s were disturbed"):format(
              harder_rows.disturbed(case, run_name).name), "train-loss-above-val")
          elseif above and harder_rows.soft(case) then
            local soft, least = harder_rows.soft(case)
            skip(("a loss that can come to 0: the labels of %s are shares of several classes, and have an entropy of "
              .. "%.3g"):format(soft.name, least), "train-loss-above-val")
          elseif above and not averaged and other_scale(points) then
            skip(("a training loss on the scale of validation: it is %.3g times as large throughout, while both fall")
              :format(other_scale(points)), "train-loss-above-val")
          elseif above and not summed(last.train / last.eval.value) then
            -- Data and loss are chosen before the first step: so at the first look is so from the start.
            local begin = since(points, half, pooled and function(p) return p.train > (1 + needed) * p.eval.value end
              or is_above)
            local step, from = places.start(case, points[begin].eval.step, begin > 1)
            report {
              symptom  = "train-loss-above-val",
              score    = case.config:count() == 0 and opt.unsaid
                or math.min(0.95, 0.6 + last.train / last.eval.value - 1),
              at       = { step = step },
              message  = ("training stays above validation %s: %.4g and %.4g at step %d, %.4g and %.4g at step %d; %s")
                :format(from, points[n - 2].train, points[n - 2].eval.value, points[n - 2].eval.step, last.train,
                last.eval.value, last.eval.step, excess > 0 and ("label smoothing of %g over %d classes accounts for "
                .. "%.2g at most"):format(smoothing.number, math.floor(classes.number), excess / opt.smoothed)
                or averaged and "more than averaging of weights accounts for"
                or case.config:count() == 0 and "no config says whether there is dropout or augmentation"
                or "no dropout or label smoothing is configured"),
              evidence = { last.eval, last.rows },
            }
          end
        end
      end
    end
    if apart_at_first and not opened then
      skip(("an evaluation before the gap opens: at the first, at step %d, validation is at %.4g and training at %.4g, "
        .. "which hardly falls from there on"):format(apart_at_first.eval.step, apart_at_first.eval.value,
        apart_at_first.train), "generalisation-gap")
    end
    if jumps and not opened then
      skip(("a gap that opens by and by: %s"):format(evaluations.told(jumps)), "generalisation-gap")
    end
    if few_rows then
      skip(("a training loss without batch normalisation (%s), or a batch size of %d or more in the config")
        :format(normalised, opt.batch), "train-loss-above-val")
    end
    if explained then
      skip(("a training loss that no setting raises: %s may, from %.4g in validation to %.4g at step %d"):format(
        declared and declared.key or logged.name, explained.eval.value, explained.train, explained.eval.step),
        "train-loss-above-val")
    end
    if not judged and epochs then return skip("validation at the steps of training: it has the numbers of epochs") end
    if not judged then skip(("at least %d evaluations beside %d training losses"):format(opt.min_evals,
      opt.min_rows)) end
  end,
}
