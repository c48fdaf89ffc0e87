--- ## What it detects
--- The share of training labels that would have to be random for training to be as much worse than held-out data as it
--- is: by the losses, where logits are dumped, and by the accuracies. Where both can be told they have to agree.
---
--- ## Why it matters
--- Wrong labels put a floor under the loss that no setting removes, and slow learning down by what their gradients
--- push about. A gap between training and validation alone may as well be dropout; that of a tenth of random labels is
--- larger than dropout of a tenth makes, in loss and accuracy alike.
---
--- ## How to confirm
--- Evaluate on training data, in evaluation mode: dropout closes the gap, wrong labels leave it. Look at the rows where
--- the model is sure of another label.
---
--- ## Known false positives
--- Evaluations that have the numbers of epochs beside training that has those of steps are not compared with it.
--- Training inputs that are made harder (augmentation, mixup, negatives drawn on purpose, weighted rows) and held-out
--- data that are easier. Where the config declares the first, nothing is said; nor where the dumped rows cost more than
--- validation without the dearest of them, as many as random labels would make so and a quarter more; the gap has to be
--- above what one batch of a held-out set can be easier than others; and where dropout, of units or of whole branches,
--- is declared, the share has to be above its rate and a tenth, and a tenth of images, which are turned and cut more
--- often than configs say. Rows that are told from the others of their batch have no classes, and are left out, but for
--- texts beside pictures or sounds: of these another row's text is what chance says, and the gap has to grow from the
--- first look on, since a larger or smaller batch would be another task from the start.
---
--- ## References
--- With a share q of random labels the loss of any predictor is (1 - q) L + q R, where L is its loss on true labels and
--- R that on random ones, and its accuracy (1 - q) A + q / K. L and A are those on held-out data, R is the mean of
--- -log p over all classes of dumped rows: so q = (train - val) / (R - val), and (A - train) / (A - 1 / K). Without
--- logits R is more than where the run began; twice the share is then asked for.

local batch_loss = require("batch-loss")
local compared = require("compared")
local elements = require("elements")
local epochs = require("epochs")
local harder_rows = require("harder-rows")
local places = require("places")
local settings = require("settings")
local targets = require("targets")
local token_labels = require("token-labels")

local HARDER = "*mixup*|*aux_loss*|*z_loss*|*erasing*|*jitter*|*cutmix*|*cutout*|*spec_augment*|*specaug*|*randaug*|"
  .. "*augment*|*random_crop*|*random_flip*|*hflip*|*pos_weight*|*class_weight*|*focal*|*neg*downsampl*|*neg*subsampl*|"
  .. "*neg_sampl*|*negative_sampl*|*mask_ratio|*mask_prob*|*noise_std*|*input_noise*|*word_dropout*|*token_dropout*|"
  .. "*scheduled_sampl*|*sampling_prob*|*distill*|*temperature*|*soft_label*"
local DROPPED = "*dropout*|*drop_rate|*drop_prob*|*drop_path*|*pdrop|*stochastic_depth*|*layerdrop*|*droppath*"

--- What training was at a step, by the line through the rows around it, with its standard error: rows half a logging
--- interval later as well, since a logged value may be the mean of the interval before it. Nothing of few rows.
local function around(rows, step, reach)
  local near = rows:where("step >= ? and step <= ?", step - reach, step + reach)
  local n = near:count()
  if n < 3 then return nil end
  local mean, center = near:mean("value"), near:mean("step")
  local slope, width, left = 0, 0, 0
  local values, steps = near:col("value"):values(), near:col("step"):values()
  for i = 1, n do
    slope, width = slope + (steps[i] - center) * (values[i] - mean), width + (steps[i] - center) ^ 2
  end
  slope = width > 0 and slope / width or 0
  for i = 1, n do left = left + (values[i] - mean - slope * (steps[i] - center)) ^ 2 end
  local at = step + (near:max("step") - near:min("step")) / (n - 1) / 2
  local variance = left / math.max(1, n - 2)
  return mean + slope * (at - center), variance * (1 / n + (width > 0 and (at - center) ^ 2 / width or 0)), variance
end

--- Means over the looks of the second half: training, held-out data, the standard error of the first and the deviation
--- of a batch; and by how many of the looks training is worse. `sign` is -1 of what is better when it is larger.
local function second_half(train, val, sign)
  local n = val:count()
  if n < 3 or train:count() < 10 then return nil end
  -- Of very many looks the last thousand: each asks for the rows around it.
  local first = math.max(n // 2, n - 1000)
  local looks = val:slice(first, n - first)
  local reach = (val:last().step - val:first().step) / math.max(1, n - 1)
  local sum, held, error_, batch, used, worse = 0, 0, 0, 0, 0, 0
  for look in looks:rows() do
    local value, square, variance = around(train, look.step, reach)
    if value then
      sum, held, error_, batch = sum + value, held + look.value, error_ + square, batch + variance
      used, worse = used + 1, worse + ((value - look.value) * sign > 0 and 1 or 0)
    end
  end
  if used < 2 then return nil end
  local begun = around(train, val:first().step, reach)
  -- Neighbouring looks share rows, so that their errors are not averaged away.
  return { train = sum / used, val = held / used, error = math.sqrt(error_ / used), batch = math.sqrt(batch / used),
    all = worse == used, begun = begun and (begun - val:first().value) * sign, first = looks:first(),
    last = looks:last() }
end

--- A dumped batch whose labels are its own ids, those of the next place or of the same, or would be but for ids that
--- were changed: none of them is random.
local function own_ids(case, allowed)
  local changed = {}
  local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null and not match(name, 'battery.*')")
  for labels in dumped:where("match(name, '*labels|*targets')"):sort("-step"):slice(0, 4):rows() do
    local ids = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, numel = labels.numel }
      :where("match(name, '*input_ids|*tokens|*prev_output_tokens')")
    for row in ids:rows() do
      local most = math.max(row.numel > 8 and labels:equal_share(row, 0, -100) or 0,
        row.numel > 8 and labels:equal_share(row, 1, -100) or 0)
      if most >= 1 - allowed then return labels end
      if most >= 0.5 and #labels.shape == 2 then changed[#changed + 1] = { row, labels } end
    end
  end
  -- Those that differ may be right, and the ids be changed on purpose.
  return token_labels.ids_changed(changed, -100) and changed[1][2] or nil
end

--- Whether the second axis of `out` is that of the classes and its others those of `labels`, as of pictures.
local function classes_second(out, labels)
  local a, b = out.shape or {}, labels.shape or {}
  if #a < 3 or #a ~= #b + 1 or a[1] ~= b[1] or a[2] < 2 or a[2] > 1024 then return false end
  for i = 3, #a do if a[i] ~= b[i - 1] then return false end end
  return true
end

--- The cross-entropy of logits whose classes are the second axis, and the mean of -log p over all classes.
local function by_places(out, labels, ignore)
  local rows, classes = math.floor(out.shape[1]), math.floor(out.shape[2])
  local places_, own, all, n = out.numel // (rows * classes), 0, 0, 0
  if out.numel > 2e6 then return nil end
  for row = 0, rows - 1 do
    local x, y = elements.of(out, row * classes * places_, classes * places_), elements.of(labels, row * places_,
      places_)
    for p = 1, places_ do
      if not ignore(y[p]) then
        if y[p] >= classes then return nil end
        local top, total, mean = -math.huge, 0, 0
        for c = 0, classes - 1 do
          local v = x[c * places_ + p]
          top, mean = math.max(top, v), mean + v / classes
        end
        for c = 0, classes - 1 do total = total + math.exp(x[c * places_ + p] - top) end
        local z = top + math.log(total)
        own, all, n = own + z - x[math.floor(y[p]) * places_ + p], all + z - mean, n + 1
      end
    end
  end
  if n > 0 then return own / n, all / n, classes end
end

--- The loss that random labels would have: the mean of -log p over all classes, of the logits whose cross-entropy with
--- the labels of their step is the loss there; the latest such logits of the second half. And the number of classes.
local function random_loss(case, run, from)
  if targets.numbers(case) then return nil end
  local tried = 0
  local other = nil -- false: logits were dumped, and the loss is another one than theirs
  local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and step is not null")
  local said   = dumped:where("match(name, '*label|*labels|*target|*targets|batch.y|*click|*clicks')")
  -- Classes under any other name are those whose cross-entropy is the loss, where the run has none of these.
  local labels = (said:count() > 0 and said or dumped:where("match(name, 'batch.*') and (match(dtype, 'int*|uint*') "
    .. "or min == 0 and max == 1)")):where("numel >= 8 and step >= ?", from):sort("-step")
  for batch in labels:slice(0, 20):rows() do
    local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
    local value = batch_loss.of(case, batch, run)
    local binary = batch.dtype:glob("float*|bfloat*") and batch.min == 0 and batch.max == 1
      and batch:count_equal(0) + batch:count_equal(1) == batch.numel
    local outputs = here:where("role == 'output' and nonfinite == 0 and match(dtype, 'float*|bfloat*')")
      :where("not match(name, 'loss*|*.loss*')")
    for out in (value and outputs:slice(0, 200) or outputs:slice(0, 0)):rows() do
      local classes = out.shape and out.shape[#out.shape] or 0
      if binary and out.numel == batch.numel and batch.numel <= 20000 then
        local x, y = elements.of(out, 0, out.numel), elements.of(batch, 0, batch.numel)
        local own, even, same, positive = 0, 0, 0, batch.mean
        for i = 1, #x do
          local soft = math.max(x[i], 0) + math.log(1 + math.exp(-math.abs(x[i])))
          own, even, same = own + soft - y[i] * x[i], even + soft - x[i] / 2, same + soft - positive * x[i]
        end
        other = false
        if math.abs(own / #x - value) <= 0.02 * value then return math.max(even, same) / #x, 2, out, positive end
      elseif not binary and batch.dtype:glob("int*|uint*") and tried < 4 and classes_second(out, batch) then
        tried = tried + 1
        local own, all, of = by_places(out, batch, function(v) return v < 0 or v == 255 end)
        if own then other = false end
        if own and math.abs(own - value) <= 0.02 * value then return all, of, out end
      -- As many classes as rows: the others of the batch are what each is told from, and a larger batch is harder.
      elseif not binary and batch.dtype:glob("int*|uint*") and classes >= 2 and classes ~= batch.numel
        and out.numel == batch.numel * classes and batch.max < classes then
        local own = out:cross_entropy(batch, 0, -100)
        if own then other = false end
        if own and math.abs(own - value) <= 0.3 * value then
          classes = math.floor(classes)
          local most, rows, sum, square = math.max(1, 200000 // classes), 0, 0, 0
          for row, label in ipairs(elements.of(batch, 0, math.min(batch.numel, 65536))) do
            if label >= 0 and rows < most then -- of masked tokens few labels count
              local x = out:values((row - 1) * classes, classes)
              local top, total, mean = -math.huge, 0, 0
              for _, v in ipairs(x) do top, mean = math.max(top, v), mean + v / classes end
              for _, v in ipairs(x) do total = total + math.exp(v - top) end
              rows, sum = rows + 1, sum + top + math.log(total) - mean
              square = square + (top + math.log(total) - x[math.floor(label) + 1] - own) ^ 2
            end
          end
          -- Of a batch that was dumped in part the loss is that of the whole within what so many rows tell.
          local near = math.max(0.02 * value, rows >= 8 and 2 * math.sqrt(square) / rows or 0)
          local whole = case.config:where("match(key, '*batch_size*') and number == ?", batch.shape[1]):count() > 0
          if whole or said:count() == 0 then near = 0.02 * value end
          if rows > 0 and math.abs(own - value) <= near then return sum / rows, classes, out end
        end
      end
    end
  end
  return other
end

--- The same of texts that are sought for pictures or sounds, and these for texts: what a text of another row costs, by
--- the latest logits, square of the batch, whose cross-entropy with their diagonal is the loss there. Not of two views
--- of one picture, of which training makes other ones than validation.
local function pairs_loss(case, from)
  local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and step is not null")
  local texts = dumped:where("match(name, 'batch.*input_ids|batch.*text*|batch.*caption*|batch.tokens') and "
    .. "match(dtype, 'int*') and step >= ?", from):sort("-step")
  for text in texts:slice(0, 20):rows() do
    local here = dumped:where { run = text.run, step = text.step, variant = text.variant }
    local rows = text.shape and math.floor(text.shape[1] or 0) or 0
    local shown = here:where("match(name, 'batch.*pixel*|batch.*image*|batch.*audio*|batch.*video*|batch.*mel*') and "
      .. "match(dtype, 'float*|bfloat*|uint8')"):first()
    local said = batch_loss.dumped(case, text)
    local outputs = here:where("role == 'output' and nonfinite == 0 and match(dtype, 'float*|bfloat*')")
      :where("numel == ?", rows * rows)
    for out in (shown and said and rows >= 8 and rows <= 512 and outputs:slice(0, 4) or outputs:slice(0, 0)):rows() do
      local x = elements.of(out, 0, rows * rows)
      local found, own, other = 0, 0, 0 -- logarithms of sums; of the pairs; of all others
      for i = 1, rows do
        for _, one in ipairs({ { (i - 1) * rows + 1, i * rows, 1 }, { i, rows * rows, rows } }) do
          local top, total = -math.huge, 0
          for k = one[1], one[2], one[3] do top = math.max(top, x[k]) end
          for k = one[1], one[2], one[3] do total = total + math.exp(x[k] - top) end
          found = found + (top + math.log(total)) / (2 * rows)
        end
        for k = 1, rows do
          local v = x[(i - 1) * rows + k]
          if k == i then own = own + v / rows else other = other + v / (rows * (rows - 1)) end
        end
      end
      if #out.shape == 2 and math.abs(found - own - said.mean) <= 0.02 * said.mean then
        return found - other, rows, out
      end
    end
  end
end

--- The loss that another row's targets would have, of a loss of numbers; nil where none is shown, or where held-out
--- rows cost half as much and more, as where little was learned. `agrees`: dumped rows say as well that some are wrong.
--- One or more cost half of what they would with another row's target, counted from held-out ones, and the others what
--- these do but for a part of the gap; where training is harder, or of another scale than validation, all cost more.
local function numbers_loss(case, run, loss)
  local rows, output = compared.numbers(case, run, loss.first.step)
  if not rows or #rows < 12 then return nil end
  local other = 0
  for _, row in ipairs(rows) do other = other + row.other / #rows end
  if other - loss.val < 0.45 * math.abs(other) then return nil end
  local wrong, rest, right = 0, 0, 0
  for _, row in ipairs(rows) do
    local way = (row.own - loss.val) / math.max(1e-12, row.other - loss.val)
    if way >= 0.5 then wrong = wrong + 1 else rest, right = rest + way, right + 1 end
  end
  local share = (loss.train - loss.val) / (other - loss.val)
  return { chance = other, output = output, agrees = wrong > 0 and right > 0 and rest / right <= 0.5 * share }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Training is as much worse than validation as a share of random labels makes it",
  needs    = { scalars = { "step", "value", metric = { "val_loss", "val_accuracy" } } },
  symptoms = { "labels-share-random" },
  options  = {
    share   = { default = 0.05, doc = "Share of random labels worth reporting" },
    dropped = { default = 0.10, doc = "The same where dropout is declared: at least this, and its rate" },
    batch   = { default = 1.3,  doc = "Deviations of a batch by which a held-out set may be easier, of two measures" },
    alone   = { default = 1.6,  doc = "The same of one measure" },
    paired  = { default = 0.15, doc = "Share of wrong pairs worth reporting, of texts beside pictures or sounds" },
    grown   = { default = 1.3,  doc = "Times the gap at the first look that of later ones has to be, of pairs" },
  },

  run = function(case)
    local opt = case.options
    local set = "(number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', ''))"
    -- A share of rows that is kept; a whole number is of layers that make frames or pixels fewer.
    local harder = case.config:where("match(key, '" .. HARDER .. "')"):where(set):first()
      or case.config:where("match(key, '*downsampl*|*subsampl*') and number > 0 and number < 1"):first()
      or harder_rows.setting(case)
    if harder then
      return skip("a run that does not make its training harder on purpose: the config has " .. harder.key)
    end
    local averaged = case.config:where("match(key, '*ema_decay|*ema_rate|*use_ema|*swa*') and number > 0"):first()
    if averaged then return skip("the validation loss of the weights themselves: the config has " .. averaged.key) end
    local needed, dropout = opt.share, nil
    for row in case.config:where("match(key, '" .. DROPPED .. "')"):where(set):rows() do
      local rate = row.number and row.number <= 1 and row.number or 0
      needed, dropout = math.max(needed, opt.dropped, rate), row
    end
    local smoothed = case.config:where("match(key, '*label_smoothing*') and number > 0"):first()
    local summed = settings.accumulation(case):where("number > 1"):first()
    local known = targets.counted(case)
    -- Images are turned and cut more often than configs say.
    local inputs = case.tensors:where("match(name, 'batch.*') and match(dtype, 'float*|bfloat*|uint8')"):slice(0, 8)
    for row in inputs:rows() do
      if row.shape and #row.shape >= 4 then needed = math.max(needed, opt.dropped) end
    end
    local own = own_ids(case, 0.5 * opt.share)
    if own then return skip("labels that are no ids of their inputs: those of " .. own.name .. " are") end
    local judged = false
    for run in case.scalars:where { primary = true }:where("name in ('val_loss', 'val_accuracy')"):group("run") do
      local function series(name)
        return case.scalars:where { name = name, primary = true, run = run }:where("finite(value)"):sort("step")
      end
      -- Of evaluations that have the numbers of epochs, or of rows, training at the same number is another time.
      local function held_out(name, trained)
        local evals = series(name)
        local own = epochs.counted(case, run, evals) and series(trained):count() > 1.2 * evals:count()
        return own and evals:slice(0, 0) or evals
      end
      local loss = second_half(series("loss"), held_out("val_loss", "loss"), 1)
      local hits = second_half(series("accuracy"), held_out("val_accuracy", "accuracy"), -1)
      local by_loss, by_hits, chance, logits, classes
      if loss then chance, classes, logits = random_loss(case, run, series("loss"):last().step // 2) end
      local pairs_, of_pairs = nil, false
      if loss and not chance then pairs_, classes, logits = pairs_loss(case, series("loss"):last().step // 2) end
      if pairs_ then
        -- Other numbers of candidates are another task, and differ from the start; wrong pairs are told from others no
        -- sooner than right ones are.
        local shared = case.config:where("match(key, '*world_size') and number > 1"):first()
          or case.config:where("match(key, '*eval*batch_size*|*val*batch_size*|*test*batch_size*') and number != ?",
            classes):first()
        local same = not shared and loss.begun and loss.train - loss.val >= opt.grown * loss.begun
        chance, classes, of_pairs = same and pairs_ or nil, nil, true
      end
      local numbers = loss and not chance and not of_pairs and numbers_loss(case, run, loss) or nil
      if numbers then chance, logits, needed = numbers.chance, numbers.output, math.max(needed, opt.dropped) end
      -- Without logits: random labels cost a model that has learned something more than knowing nothing does.
      local least = loss and chance == nil and not of_pairs and dropout and series("loss"):slice(0, 3):median("value")
      local wanted = least and 2 * needed or of_pairs and math.max(needed, opt.paired) or needed
      chance = chance or least or nil
      classes = classes or known and known.number
      -- Of smoothed labels the loss of training has another floor, and of summed ones another scale.
      if loss and chance and not smoothed and not summed and (numbers or chance > 1.2 * loss.val and loss.val > 0) then
        by_loss = (loss.train - loss.val) / (chance - loss.val)
      end
      if hits and hits.val > 0 then
        local one = hits.val > 1.5 and 100 or 1
        local floor = one / (classes or 1)
        if classes and hits.val > 1.5 * floor then by_hits = (hits.val - hits.train) / (hits.val - floor) end
      end
      judged = judged or by_loss or by_hits
      local both  = by_loss and by_hits
      local limit = both and opt.batch or opt.alone
      local sure  = math.max(by_loss and math.abs(loss.train - loss.val) / math.max(loss.error, 1e-9) or 0,
        by_hits and math.abs(hits.train - hits.val) / math.max(hits.error, 1e-9) or 0)
      local function clear(share, of)
        if not share then return true end
        local gap = math.abs(of.train - of.val)
        return share >= (of == loss and wanted or needed) and share < 1 and of.all and gap >= limit * of.batch
          and gap >= 2 * of.error
      end
      -- Accuracy alone says too little where dropout is declared.
      local hard = by_loss and loss.train > loss.val
        and harder_rows.throughout(case, loss.first.run, loss.first.step, loss.val)
      if hard then
        skip(("rows as hard as those of validation: the easiest %s of %d dumped ones cost %.3g in the mean, whatever "
          .. "the labels of the rest"):format(units.percent(hard.share), hard.of, hard.mean))
      elseif (by_loss or by_hits and not dropout) and (not numbers or numbers.agrees) and sure >= (both and 4 or 3)
        and clear(by_loss, loss) and clear(by_hits, hits)
        and (not both or math.max(by_loss, by_hits) <= 2.5 * math.min(by_loss, by_hits)) then
        local share = math.min(by_loss or 1, by_hits or 1)
        local step, from = places.start(case, (loss or hits).first.step, false)
        local parts = {}
        if by_loss then
          parts[1] = ("training is at %.4g and validation at %.4g, where %s at %.4g: %s%s"):format(loss.train, loss.val,
            least and "the run began" or "random labels would be", chance, units.percent(by_loss),
            least and " at most" or "")
        end
        if by_hits then
          parts[#parts + 1] = ("accuracy is %.3g in training and %.3g in validation: %s"):format(hits.train, hits.val,
            units.percent(by_hits))
        end
        report {
          symptom  = "labels-share-random",
          score    = math.min(0.95, (by_loss and by_hits and 0.8 or 0.7) + 0.5 * share),
          at       = { step = step },
          message  = ("training is as much worse than validation as if %s of its labels were random, %s: %s%s"):format(
            units.percent(share), from, table.concat(parts, "; "), dropout and ("; %s of %s is no such share"):format(
              dropout.key, dropout.value) or ""),
          evidence = { (loss or hits).first, (loss or hits).last, by_loss and logits or (hits or loss).last },
        }
      end
    end
    if not judged then
      skip("three evaluations beside training: accuracies of both, or losses and the logits and labels of a late step")
    end
  end,
}
