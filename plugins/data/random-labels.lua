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
--- Training inputs that are made harder (augmentation, mixup, negatives drawn on purpose, weighted rows) and held-out
--- data that are easier. Where the config declares the first, nothing is said; the gap has to be above what one batch
--- of a held-out set can be easier than others; and where dropout, of units or of whole branches, is declared, the
--- share has to be above its rate and a tenth, and a tenth of images, which are turned and cut more often than configs
--- say. Rows that are told from the others of their batch have no classes, and are left out.
---
--- ## References
--- With a share q of random labels the loss of any predictor is (1 - q) L + q R, where L is its loss on true labels and
--- R that on random ones, and its accuracy (1 - q) A + q / K. L and A are those on held-out data, R is the mean of
--- -log p over all classes of dumped rows: so q = (train - val) / (R - val), and (A - train) / (A - 1 / K). Without
--- logits R is more than where the run began; twice the share is then asked for.

local places = require("places")

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
  local looks = val:slice(n // 2, n - n // 2)
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
  -- Neighbouring looks share rows, so that their errors are not averaged away.
  return { train = sum / used, val = held / used, error = math.sqrt(error_ / used), batch = math.sqrt(batch / used),
    all = worse == used, first = looks:first(), last = looks:last() }
end

--- A dumped batch whose labels are its own ids, those of the next place or of the same: none of them is random.
local function own_ids(case, allowed)
  local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null and not match(name, 'battery.*')")
  for labels in dumped:where("match(name, '*labels|*targets')"):sort("-step"):slice(0, 4):rows() do
    local ids = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, numel = labels.numel }
      :where("match(name, '*input_ids|*tokens|*prev_output_tokens')")
    for row in ids:rows() do
      local most = math.max(row.numel > 8 and labels:equal_share(row, 0, -100) or 0,
        row.numel > 8 and labels:equal_share(row, 1, -100) or 0)
      if most >= 1 - allowed then return labels end
    end
  end
end

--- The loss that random labels would have: the mean of -log p over all classes, of the logits whose cross-entropy with
--- the labels of their step is the loss there; the latest such logits of the second half. And the number of classes.
local function random_loss(case, from)
  local other = nil -- false: logits were dumped, and the loss is another one than theirs
  local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and step is not null")
  local labels = dumped:where("match(name, '*label|*labels|*target|*targets|batch.y|*click|*clicks') and numel >= 8")
    :where("step >= ?", from):sort("-step")
  for batch in labels:slice(0, 20):rows() do
    local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
    local said  = here:where("match(name, 'loss.output|loss') and numel == 1"):first()
    local value = said and said.mean
    if not value then
      local logged = case.scalars:where { name = "loss", primary = true, step = batch.step }:first()
      value = logged and logged.value
    end
    local binary = batch.dtype:glob("float*|bfloat*") and batch.min == 0 and batch.max == 1
      and batch:count_equal(0) + batch:count_equal(1) == batch.numel
    local outputs = here:where("role == 'output' and nonfinite == 0 and match(dtype, 'float*|bfloat*')")
      :where("not match(name, 'loss*|*.loss*')")
    for out in (value and outputs:slice(0, 200) or outputs:slice(0, 0)):rows() do
      local classes = out.shape and out.shape[#out.shape] or 0
      if binary and out.numel == batch.numel and batch.numel <= 20000 then
        local x, y = out:values(0, out.numel), batch:values(0, batch.numel)
        local own, even, same, positive = 0, 0, 0, batch.mean
        for i = 1, #x do
          local soft = math.max(x[i], 0) + math.log(1 + math.exp(-math.abs(x[i])))
          own, even, same = own + soft - y[i] * x[i], even + soft - x[i] / 2, same + soft - positive * x[i]
        end
        other = false
        if math.abs(own / #x - value) <= 0.02 * value then return math.max(even, same) / #x, 2, out, positive end
      -- As many classes as rows: the others of the batch are what each is told from, and a larger batch is harder.
      elseif not binary and batch.dtype:glob("int*|uint*") and classes >= 2 and classes ~= batch.numel
        and out.numel == batch.numel * classes and batch.max < classes then
        local own = out:cross_entropy(batch, 0, -100)
        if own then other = false end
        if own and math.abs(own - value) <= 0.3 * value then
          classes = math.floor(classes)
          local most, rows, sum, square = math.max(1, 200000 // classes), 0, 0, 0
          for row, label in ipairs(batch:values(0, math.min(batch.numel, 65536))) do
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
          if whole then near = 0.02 * value end
          if rows > 0 and math.abs(own - value) <= near then return sum / rows, classes, out end
        end
      end
    end
  end
  return other
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
  },

  run = function(case)
    local opt = case.options
    local set = "(number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', ''))"
    -- A share of rows that is kept; a whole number is of layers that make frames or pixels fewer.
    local harder = case.config:where("match(key, '" .. HARDER .. "')"):where(set):first()
      or case.config:where("match(key, '*downsampl*|*subsampl*') and number > 0 and number < 1"):first()
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
    local summed = case.config:where("match(key, '*accumulation_steps|*accumulate_grad_batches|*grad_accum*') "
      .. "and number > 1"):first()
    local known = case.config:where("match(key, '*num_classes|*n_classes|*num_labels|*vocab_size') and number > 1")
      :first()
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
      local loss = second_half(series("loss"), series("val_loss"), 1)
      local hits = second_half(series("accuracy"), series("val_accuracy"), -1)
      local by_loss, by_hits, chance, logits, classes
      if loss then chance, classes, logits = random_loss(case, series("loss"):last().step // 2) end
      -- Without logits: random labels cost a model that has learned something more than knowing nothing does.
      local least = loss and chance == nil and dropout and series("loss"):slice(0, 3):median("value")
      local wanted = least and 2 * needed or needed
      chance = chance or least or nil
      classes = classes or known and known.number
      -- Of smoothed labels the loss of training has another floor, and of summed ones another scale.
      if loss and chance and not smoothed and not summed and chance > 1.2 * loss.val and loss.val > 0 then
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
      if (by_loss or by_hits and not dropout) and sure >= (both and 4 or 3) and clear(by_loss, loss)
        and clear(by_hits, hits) and (not both or math.max(by_loss, by_hits) <= 2.5 * math.min(by_loss, by_hits)) then
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
