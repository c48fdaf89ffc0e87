--- ## What it detects
--- A loss that is not the cross-entropy of the dumped logits but that of their softmax: a softmax stands before a loss
--- that has one itself, or a sigmoid where labels are 0 and 1; and a loss with an element for each pair of predictions
--- and targets. The cross-entropy is that with the labels; of a contrastive loss, whose logits are a square of the
--- batch, that with the diagonal, of rows and of columns; of CTC that of all alignments; of pictures that of the pixels
--- that count, to which the terms that the config names (`ce + 0.5 dice`) add what such terms can at most.
---
--- ## Why it matters
--- Probabilities instead of logits squeeze the loss into 1 nat below ln V, with gradients many times too small; the
--- model learns a little and stops. Shapes that broadcast compare each prediction with each target.
---
--- ## How to confirm
--- Compute the cross-entropy of one dumped batch by hand.
---
--- ## Known false positives
--- Losses with other terms (z-loss, distillation) agree with neither form, and nothing is said. Of terms between 0 and
--- their weight, as one less an overlap, the loss has to be out of reach of the one form and within that of the other.
--- Contrastive losses have a matrix of pairs by design, of logits and not of losses. Of a layer with a name of its own
--- logits are told by their width: the classes of the config, its list of their names, or as many as labels count. A
--- label below 0 is of no class and left out. Labels that are the ids at their own places are held against the logits
--- one place before where these know them better: the model moves them itself.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html, Graves et al. (2006), Connectionist
--- Temporal Classification

local alignments = require("alignments")
local elements = require("elements")
local masked = require("masked")
local places = require("places")
local settings = require("settings")
local sides = require("sides")
local statistics = require("statistics")
local targets_of = require("targets")

--- The loss of binary labels y, of logits x, is the mean of ln(1 + e^x) - y x; a label of 1 may count `weight` times.
local function binary_loss(x, y, weight, squash)
  local sum = 0
  for i = 1, #x do
    local value = squash and 1 / (1 + math.exp(-x[i])) or x[i]
    local plain = math.max(value, 0) + math.log(1 + math.exp(-math.abs(value))) - y[i] * value
    sum = sum + plain * (1 + (weight - 1) * y[i])
  end
  return sum / #x
end

--- Outputs of one number a row beside labels of 0 and 1: what the loss is of. A second sigmoid keeps every term between
--- ln(1 + 1/e) and ln(1 + e), so that some hundred rows of a batch give its mean within some per cent.
---@param case culprit.Case
---@param dumped culprit.Table
---@return integer judged, table? found
local function binary(case, dumped)
  local said = case.config:where("match(key, 'pos_weight|*.pos_weight') and number > 0")
  local judged, plain, found, times, neither = 0, 0, nil, 0, 0
  local truth = "match(name, '*label|*labels|*target|*targets|*.y|*click*') and min == 0 and max == 1 and numel >= 16"
  for labels in dumped:where(truth):where("zero_share is not null"):slice(0, 100):rows() do
    local here = dumped:where { run = labels.run, step = labels.step, variant = labels.variant }
    local loss = here:where("match(name, 'loss.output') and numel == 1"):first()
    local y    = loss and labels.numel <= 10000 and labels:values(0, labels.numel)
    local outputs = here:where("role == 'output' and nonfinite == 0"):where { numel = labels.numel }
      :where("not match(name, 'loss*|*.loss*')")
    -- Two of that shape: which one the loss is of, nobody says.
    if y and outputs:distinct("name"):count() == 1 then
      local out     = outputs:first()
      local x       = out:values(0, out.numel)
      local value   = loss.mean
      -- A weight that the config has may be of another loss: it is this one's where that fits better.
      local own = said:where { run = labels.run }:first() or said:first()
      local once, twice = binary_loss(x, y, 1), binary_loss(x, y, 1, true)
      if own then
        local once_, twice_ = binary_loss(x, y, own.number), binary_loss(x, y, own.number, true)
        if math.min(math.abs(value - once_), math.abs(value - twice_))
          < math.min(math.abs(value - once), math.abs(value - twice)) then
          once, twice = once_, twice_
        end
      end
      local inside  = out.min >= 0 and out.max <= 1
      if labels:count_equal(0) + labels:count_equal(1) == labels.numel and value == value then
        judged = judged + 1
        -- Logits of a model that has learnt that most labels are 0 are below 0; probabilities never are.
        local already = inside and labels.mean < 0.5 and labels.step and labels.step > 10
          and math.abs(value - once) <= 0.01 * once
        local second  = math.abs(once - twice) > 0.1 * twice and math.abs(value - twice) <= 0.04 * twice
          and math.abs(value - twice) < 0.2 * math.abs(value - once)
        if already or second then
          times = times + 1
          found = { logits = out, labels = labels, value = value, once = once, twice = already and once or twice,
            already = already }
        elseif math.abs(value - once) <= 0.02 * once then
          plain = plain + 1
        elseif math.abs(once - twice) > 0.1 * twice or inside then
          neither = neither + 1
        end
      end
    end
  end
  return judged, times > plain + neither and found or nil
end

--- The outputs of a name, of which more dumps have the loss of a second softmax than another one: a loss that falls
--- passes any value by chance once.
local function most_often(tally, plain)
  for _, one in ipairs(tally) do
    if one.times > plain + one.neither then return one.found end
  end
end

--- Whether probabilities are far enough from even ones for their softmax to be told from them: near the even ones a
--- cross-entropy with either is ln of the number of classes.
local function uneven(probabilities, classes)
  return (probabilities.std or 0) * classes > 0.3
end

--- The mean of -ln of the probability of each label: the loss of a model that ends in a softmax, where the loss takes
--- the logarithm. Nil where labels and probabilities are not place by place.
local function of_probabilities(probabilities, labels, ignore, lag)
  local width = math.floor(probabilities.shape[#probabilities.shape])
  local row   = math.floor(labels.shape[#labels.shape])
  local places_ = probabilities.numel // width
  if labels.numel < places_ or places_ > 10000 then return nil end
  local sum, n = 0, 0
  for i, y in ipairs(labels:values(0, places_)) do
    if y >= 0 and y ~= ignore and y < width and (i - 1) % row >= lag then
      sum, n = sum - math.log(math.max(1e-12, probabilities:values((i - 1 - lag) * width + math.floor(y), 1)[1])), n + 1
    end
  end
  return n > 0 and sum / n or nil
end

--- How many places a label stands behind the logits that the loss compares it with. A model may be given labels at
--- their own tokens and move them itself: they are the ids, and the logits know them better one place before.
local function moved(here, logits, labels, ignore)
  local ids = labels.shape and #labels.shape == 2 and sides.beside(here:where("match(name, '*input_ids|*tokens') and "
    .. "match(dtype, 'int*')"):where { numel = labels.numel }, labels.name)
  if not ids or (labels:equal_share(ids, 0, ignore) or 0) < 0.9 then return 0 end
  local own, before = logits:cross_entropy(labels, 0, ignore), logits:cross_entropy(labels, 1, ignore)
  return own and before and before < own and 1 or 0
end

--- The label that the loss leaves out of a batch: a negative one is no class, whatever the setting says, and `ignore`
--- is none of these labels then.
local function left_out(labels, ignore)
  return labels.min < 0 and labels:count_equal(ignore) == 0 and math.floor(labels.min) or ignore
end

--- How far the loss of a batch may be from that of a second softmax on the rows that were dumped of it. Its terms lie
--- within one nat, so that the mean of n is known to half of one by the root of n at most; that much is allowed where
--- no logged loss leaves the range that a second softmax has.
---@param logged culprit.Table  training losses
---@param logits culprit.Row
---@param counted integer  labels of the dumped rows
---@param twice number
local function sampled(logged, logits, counted, twice)
  local most  = math.log(math.exp(1) + logits.shape[#logits.shape] - 1)
  local least = logged:min("value")
  local fits  = least and logged:count() >= 10 and least >= 0.98 * (most - 1) and logged:max("value") <= 1.02 * most
  return math.max(0.04 * twice, fits and counted >= 16 and 0.6 / math.sqrt(counted) or 0)
end

--- What is counted of the outputs of a name.
local function of_name(tally, name)
  for _, one in ipairs(tally) do if one.name == name then return one end end
  tally[#tally + 1] = { name = name, times = 0, neither = 0 }
  return tally[#tally]
end

--- The dumps of a run with CTC: how many tell what the loss is of, and one whose loss is that of a second softmax.
local function ctc(case, dumped, truth)
  local said = case.config:where("match(key, '*ctc*|*blank*') and not match(value, 'false|False|none|None|null')")
    :first() or case.config:where("match(value, '*ctc*|*CTC*')"):first()
  if not said then return 0 end
  local blank = case.config:where("match(key, '*blank|*blank_id|*blank_idx|*blank_index|*blank_token_id') and "
    .. "number is not null"):first()
  local outputs = "role == 'output' and numel > 1 and not match(name, 'loss*|*.loss*')"
  local judged, plain, tally = 0, 0, {}
  for labels in dumped:where(truth):where("numel >= 8"):sort("step"):slice(0, 12):rows() do
    local here = dumped:where { run = labels.run, step = labels.step, variant = labels.variant }
    local loss = here:where("match(name, 'loss.output') and numel == 1"):first()
    for logits in here:where(outputs):where("nonfinite == 0"):slice(0, 4):rows() do
      local classes = logits.shape and logits.shape[#logits.shape] or 0
      local fits = not blank or blank.number >= 0 and blank.number < classes
      if loss and loss.mean == loss.mean and labels.max < classes and fits then
        local one = of_name(tally, logits.name)
        local kind, value, once = alignments.loss_of(here, logits, labels, loss.mean,
          blank and { math.floor(blank.number) } or { 0, classes - 1 })
        local probabilities = logits.min >= 0 and logits.max <= 1.0001 and math.abs(logits.mean * classes - 1) < 1e-3
          and uneven(logits, classes)
        if kind == "once" or kind == "twice" then judged = judged + 1 end
        if kind == "once" and probabilities then
          one.times = one.times + 1
          one.found = { logits = logits, labels = labels, value = loss.mean, twice = value, already = true }
        elseif kind == "twice" and once and math.abs(once - value) > 0.1 * value then
          one.times = one.times + 1
          one.found = { logits = logits, labels = labels, value = loss.mean, once = once, twice = value }
        elseif kind == "once" then
          plain = plain + 1
        elseif kind == "neither" then
          one.neither = one.neither + 1
        end
      end
    end
  end
  return judged, most_often(tally, plain)
end

--- The contrastive losses of a square of logits, against its diagonal: mean over rows, over columns, and of both.
local function of_diagonal(values, n, twice)
  local across, down = 0, 0
  for i = 1, n do
    local row, column = {}, {}
    for j = 1, n do row[j], column[j] = values[(i - 1) * n + j], values[(j - 1) * n + i] end
    across = across - statistics.log_softmax(row, twice)[i] / n
    down   = down - statistics.log_softmax(column, twice)[i] / n
  end
  return { across, down, (across + down) / 2 }
end

--- The dumps with a square of logits: how many tell what the loss is of, and one whose loss is that of a second
--- softmax.
local function contrastive(dumped)
  local judged, plain, tally = 0, 0, {}
  local squares = dumped:where("role == 'output' and nonfinite == 0 and zero_share is not null and numel >= 64 and "
    .. "numel <= 262144 and match(dtype, 'float*|bfloat*') and not match(name, '*loss*|*attn*|*attention*')")
  for logits in squares:sort("step"):slice(0, 200):rows() do
    local n = logits.shape and #logits.shape == 2 and logits.shape[1] == logits.shape[2] and logits.shape[1]
    local loss = n and dumped:where { run = logits.run, step = logits.step, variant = logits.variant }
      :where("match(name, 'loss.output') and numel == 1"):first()
    if loss and loss.mean == loss.mean then
      local values, value = elements.of(logits, 0, logits.numel), loss.mean
      local once, twice = of_diagonal(values, n, false), of_diagonal(values, n, true)
      local one, kind, at = of_name(tally, logits.name), nil, nil
      for i = 1, 3 do
        local near = 0.005 * math.abs(value)
        if math.abs(once[i] - value) <= near then kind, at = "once", i break end
        if math.abs(twice[i] - value) <= near and math.abs(once[i] - value) > 0.1 * math.abs(value) then
          kind, at = kind or "twice", at or i
        end
      end
      local probabilities = logits.min >= 0 and logits.max <= 1.0001 and math.abs(logits.mean * n - 1) < 1e-3
        and uneven(logits, n)
      if kind then judged = judged + 1 end
      if kind == "once" and probabilities then
        one.times = one.times + 1
        one.found = { logits = logits, labels = logits, value = value, twice = once[at], already = true }
      elseif kind == "twice" then
        one.times = one.times + 1
        one.found = { logits = logits, labels = logits, value = value, once = once[at], twice = twice[at] }
      elseif kind == "once" then
        plain = plain + 1
      else
        one.neither = one.neither + 1 -- a layer as wide as the batch is a square too
      end
    end
  end
  return judged, most_often(tally, plain)
end

--- The cross-entropies of a picture's logits, whose classes are the second axis, over the pixels that count: of the
--- logits, of their softmax, and where they are probabilities themselves, which sum up to 1, that of their logarithms.
local function of_pixels(logits, labels, void)
  local rows, classes = math.floor(logits.shape[1]), math.floor(logits.shape[2])
  local pixels = logits.numel // (rows * classes)
  local sums = logits.min >= 0 and logits.max <= 1.0001 and math.abs(logits.mean * classes - 1) < 1e-3
  local once, twice, plain, n = 0, 0, 0, 0
  for row = 0, rows - 1 do
    local x = elements.of(logits, row * classes * pixels, classes * pixels)
    local y = elements.of(labels, row * pixels, pixels)
    for p = 1, pixels do
      local label = y[p]
      if label >= 0 and label ~= void then
        if label >= classes then return nil end
        local top, total = -math.huge, 0
        for c = p, classes * pixels, pixels do top = math.max(top, x[c]) end
        for c = p, classes * pixels, pixels do total = total + math.exp(x[c] - top) end
        local own, again = x[math.floor(label) * pixels + p], 0
        for c = p, classes * pixels, pixels do again = again + math.exp(math.exp(x[c] - top) / total) end
        once  = once + math.log(total) + top - own
        twice = twice + math.log(again) - math.exp(own - top) / total
        plain = plain - math.log(math.max(own, 1e-12))
        n = n + 1
      end
    end
  end
  if n > 0 then return once / n, twice / n, sums and plain / n or nil end
end

--- Whether a loss can be the sum of a cross-entropy and of terms that are 0 to `shares` together; of a cross-entropy
--- alone it is the value itself.
local function can_be(value, cross_entropy, shares)
  local slack = 0.005 * math.abs(value)
  return value >= cross_entropy - slack and value <= cross_entropy + shares + slack
end

--- The dumps of pictures with a label for each pixel: how many tell what the loss is of, and one whose loss is that of
--- a second softmax. Other terms that the config names leave a range for it; without a word of the config the
--- cross-entropy is taken to stand alone, and a loss that is neither says nothing.
local function pictures(case, dumped, truth)
  local weight, shares = targets_of.terms(case)
  if not weight then weight, shares = 1, 0 end
  local kinds = targets_of.classes(case)
  local named = settings.ignored(case):first()
  local judged, plain, tally, read = 0, 0, {}, 0
  for labels in dumped:where(truth):where("numel >= 64"):sort("step"):slice(0, 40):rows() do
    local here = dumped:where { run = labels.run, step = labels.step, variant = labels.variant }
    local loss = here:where("match(name, 'loss.output') and numel == 1"):first()
    local only, several
    local outputs = here:where("role == 'output' and nonfinite == 0 and zero_share is not null")
    for out in (loss and outputs:slice(0, 400) or outputs:slice(0, 0)):rows() do
      local a, b = out.shape or {}, labels.shape or {}
      local fits = #a >= 3 and #a == #b + 1 and a[1] == b[1] and a[2] >= 2 and a[2] <= 256
      for i = 3, fits and #a or 0 do fits = fits and a[i] == b[i - 1] end
      if fits and (kinds and a[2] == kinds.number or not kinds and out.name:glob("*head*|*logits*|*classifier*")) then
        only, several = only or out, only ~= nil
      end
    end
    if only and not several and loss.mean == loss.mean and read + only.numel <= 400000 then
      read = read + only.numel
      local once, twice, logarithm = of_pixels(only, labels, named and named.number or 255)
      if once then
        local one, value = of_name(tally, only.name), loss.mean
        local as_once  = can_be(value, weight * (logarithm or once), shares)
        local as_twice = can_be(value, weight * (logarithm and once or twice), shares)
        -- What a shift of the loss by a part of itself would make the other is told by neither.
        local near = can_be(value * 0.95, weight * (logarithm or once), shares)
          or can_be(value * 1.05, weight * (logarithm or once), shares)
        if as_once and not as_twice then
          judged, plain = judged + 1, plain + 1
        elseif as_twice and not as_once and not near then
          judged, one.times = judged + 1, one.times + 1
          one.found = one.found or { logits = only, labels = labels, value = value, once = weight * once,
            twice = weight * (logarithm and once or twice), already = logarithm ~= nil, shares = shares }
        elseif not as_once and not as_twice then
          one.neither = one.neither + 1
        end
      end
    end
  end
  return judged, most_often(tally, plain)
end

local PIXELS = "match(name, 'batch.*label|batch.*labels|batch.*target|batch.*targets|batch.*mask|batch.*masks|"
  .. "batch.*segmentation*') and match(dtype, 'int*|uint*') and zero_share is not null"

--- Elementwise losses of predictions and targets.
local ELEMENTWISE = {
  { name = "squared difference", of = function(x, y) return (x - y) ^ 2 end },
  { name = "absolute difference", of = function(x, y) return math.abs(x - y) end },
  { name = "Huber loss", of = function(x, y)
    local d = math.abs(x - y)
    return d < 1 and d * d / 2 or d - 0.5
  end },
  { name = "binary cross-entropy", of = function(x, y)
    return math.max(x, 0) + math.log(1 + math.exp(-math.abs(x))) - y * x
  end },
}

--- The elementwise loss whose mean over all pairs is `value`, to one per cent, and whose mean over each and its own is
--- not; nothing where the value is that of each and its own, or neither, or where it is not `only`, the loss of another
--- dump.
local function broadcast_loss(x, y, value, only)
  for _, loss in ipairs(ELEMENTWISE) do
    local own, all = 0, 0
    if only and only ~= loss.name then goto other end
    for i = 1, #x do
      own = own + loss.of(x[i], y[i]) / #x
      for j = 1, #y do all = all + loss.of(x[i], y[j]) / (#x * #y) end
    end
    local near = 0.01 * math.abs(value)
    if math.abs(own - value) <= near then return false end
    if math.abs(all - value) <= near and math.abs(own - value) > 3 * near then
      return { name = loss.name, own = own, exact = math.abs(all - value) <= 1e-4 * math.abs(value) }
    end
    ::other::
  end
  return false
end

-- The part of a loss that is of the classes, by its name.
local OF_CLASSES = "*loss_cls*|*cls_loss*|*loss_ce*|*ce_loss*|*cross_entropy*|*class_loss*|*loss_class*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is not that of the logits, or compares everything with everything",
  needs    = { tensors = { "name", "shape" } },
  symptoms = { "loss-of-softmaxed-logits", "loss-broadcast" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
  },

  run = function(case)
    local dumped = case.tensors:where("not match(name, 'battery.*')")
    local ignore = masked.ignored(case, case.options.ignore)
    local judged, softmaxed, times, plain, neither, since, before = false, nil, 0, 0, 0, nil, false
    local refuted, compared = false, false -- of a second softmax; whether logits were held against labels
    local logged = case.scalars:where { name = "loss", primary = true }:where("finite(value)")
    local outputs = "match(name, 'head.output|lm_head.output|*.head.output|*.lm_head.output|*logits|out.output|"
      .. "fc_out.output')"
    local truth   = "match(name, '*labels|*targets|batch.label|batch.target|batch.y') and match(dtype, 'int*') and "
      .. "zero_share is not null"
    -- Of a layer with another name: outputs of the labels' shape and one number for each class of the config, or as the
    -- labels count them; where two layers have it, none is taken.
    if dumped:where(outputs):count() == 0 then
      local kinds  = targets_of.classes(case)
      local labels = dumped:where(truth):first()
      local most   = labels and dumped:where(truth):max("max") or 0
      local count  = kinds and kinds.number or most > 1 and most + 1 or nil
      local only, several
      for row in dumped:where("role == 'output' and numel > 1"):slice(0, labels and count and 1000 or 0):rows() do
        local shape = row.shape or {}
        -- A table's target is a column of its own: [B, 1] beside logits [B, C].
        local column = #shape == 2 and #labels.shape == 2 and labels.shape[2] == 1
        if (column or #shape == #labels.shape + 1) and shape[#shape] == count and shape[1] == labels.shape[1] then
          several = several or only ~= nil and only ~= row.name
          only    = only or row.name
        end
      end
      if only and not several then outputs = "match(name, '" .. only .. "')" end
    end
    -- Labels without places of their own, which no shape tells from labels of so many places.
    local aligned, squeezed = ctc(case, dumped, truth)
    judged = aligned > 0
    if squeezed then softmaxed, times = squeezed, 1 end
    local terms = case.scalars:where("primary and layer is null and finite(value)")
      :where("match(name, '*loss_*|*_loss') and not match(name, '*val*|*eval*|*test*|*scale*|*weight*|*train_*|"
      .. "*total*|*avg*|*mean*|*epoch*|*smooth*|*running*|*best*|*ema*|*aux*|*z_loss*')")
    local all = dumped:where(outputs):where("zero_share is not null"):sort("step")
    for logits in (judged and all:slice(0, 0) or all):rows() do
      local here   = dumped:where { run = logits.run, step = logits.step, variant = logits.variant }
      local labels = here:where(truth):first()
      local loss   = here:where("match(name, 'loss.output') and numel == 1"):first()
      local value  = loss and loss.mean
      if not value and logits.step then
        local now = case.scalars:where { name = "loss", primary = true, step = logits.step }:first()
        value = now and now.value
      end
      -- Of a loss of several parts the one of the classes counts, and none where the log does not have it there.
      local parts   = terms:where { run = logits.run }
      local classes = parts:where("match(name, ?)", OF_CLASSES)
      if classes:count() > 0 and parts:distinct("name"):count() >= 2 then
        local own = logits.step and classes:where { step = logits.step }:first()
        value = own and own.value
      end
      local void  = labels and left_out(labels, ignore) or ignore
      local lag   = labels and moved(here, logits, labels, void) or 0
      local once  = labels and logits:cross_entropy(labels, lag, void)
      local twice = once and logits:cross_entropy(labels, lag, void, "twice")
      if once and value and value == value and once == once then
        judged, compared = true, true
        local width = logits.shape[#logits.shape]
        local probabilities = logits.nonfinite == 0 and logits.min >= 0 and logits.max <= 1.0001
          and math.abs(logits.mean * width - 1) < 1e-3
        -- Both forms are near ln V before training; they have to differ by more than the thinned batch does. A softmax
        -- of a softmax spreads losses over one nat at most, so that some rows of the batch give its mean within some
        -- per cent; a loss that weighs rows in another way lies near it by chance, and not at every dump. Of a batch
        -- that is dumped whole nothing but rounding is left.
        local whole = case.config:where("match(key, '*batch_size*') and number == ?", logits.shape[1]):count() > 0
        local counted = (labels.numel - labels:count_equal(void)) * math.min(1, logits.shape[1] / labels.shape[1])
        local near    = whole and 0.005 * twice or sampled(logged, logits, counted, twice)
        local logarithm = probabilities and of_probabilities(logits, labels, void, lag)
        if logarithm and math.abs(value - once) >= 0.2 * math.abs(value - logarithm) then
          -- That of the logarithms, or not told from it: a model may end in a softmax where its loss takes none.
          if math.abs(value - logarithm) < 0.2 * math.abs(value - once) then plain = plain + 1 end
        elseif probabilities and math.abs(value - once) < 0.1 * once then
          times, softmaxed = times + 1, { logits = logits, labels = labels, value = value, twice = once,
            already = true }
        elseif math.abs(once - twice) > 0.1 * twice and math.abs(value - twice) < 0.2 * math.abs(value - once)
          and math.abs(value - twice) <= near then
          times, softmaxed = times + 1, { logits = logits, labels = labels, value = value, once = once, twice = twice }
        elseif math.abs(value - once) < 0.2 * math.abs(value - twice) then
          plain = plain + 1
        elseif math.abs(once - twice) > 0.1 * twice then
          neither = neither + 1
          -- A softmax of a softmax has losses within one nat, so that the mean of n of them is known to half of one by
          -- the root of n; from three times that on it is none, whatever the loss is.
          if whole or math.abs(value - twice) > 1.5 / math.sqrt(math.max(1, counted)) then refuted = true end
        end
        if softmaxed and not since then since, before = logits.step, plain + neither > 0 end
      end
    end
    local sigmoid = false
    if not judged then
      local rows, found = binary(case, dumped)
      judged = rows > 0
      if found then softmaxed, times, sigmoid = found, 1, true end
    end
    if not judged then
      local rows, found = contrastive(dumped)
      judged = rows > 0
      if found then softmaxed, times = found, 1 end
    end
    if not judged then
      local rows, found = pictures(case, dumped, PIXELS)
      judged = rows > 0
      if found then softmaxed, times = found, 1 end
    end
    if softmaxed and times > plain + neither then
      -- The loss is set up once: where no dump before speaks for another, it was this one.
      local step, from = places.start(case, since, before)
      report {
        symptom  = "loss-of-softmaxed-logits",
        score    = 0.97,
        at       = { step = step },
        message  = (sigmoid
          and ("the loss at step %s is %s: that of %s as logits is %s, and %s behind a sigmoid%s; the sigmoid is "
            .. "applied twice"):format(tostring(softmaxed.logits.step), units.number(softmaxed.value),
            softmaxed.logits.name, units.number(softmaxed.once), units.number(softmaxed.twice),
            softmaxed.already and ", of which it comes already: all are within 0 and 1" or "")
          or softmaxed.already
          and ("%s holds probabilities, its rows add up to 1, and the loss of %s is their cross-entropy as if "
            .. "they were "
          .. "logits (%s): the softmax is applied twice"):format(softmaxed.logits.name, units.number(softmaxed.value),
            units.number(softmaxed.twice))
          or ("the loss at step %s is %s; the dumped logits give %s, and %s after a second softmax"):format(
            tostring(softmaxed.logits.step), units.number(softmaxed.value), units.number(softmaxed.once),
            units.number(softmaxed.twice))) .. ((softmaxed.shares or 0) > 0
            and (", and its other terms %s at most"):format(units.number(softmaxed.shares)) or "") .. "; " .. from,
        evidence = { softmaxed.logits, softmaxed.labels },
      }
    end

    local of_pairs = sides.preference(case)
    if of_pairs and times == 0 then
      skip("a loss of the logits alone: this one is of pairs of answers, and holds them against a reference",
        "loss-of-softmaxed-logits")
    elseif compared and plain + times == 0 and not refuted then
      skip("logits that tell once from twice: of so few rows, or with other terms in the loss, they do not",
        "loss-of-softmaxed-logits")
    end

    for loss in dumped:where("match(name, '*loss*') and not match(name, '*logits*|*mask*') and numel > 1"):rows() do
      local targets = dumped:where { run = loss.run, step = loss.step, variant = loss.variant }
        :where("match(name, '*labels|*targets')")
        :first()
      if targets and #loss.shape == 2 and loss.shape[1] == loss.shape[2] and loss.shape[1] == targets.shape[1]
        and loss.numel == targets.numel * targets.numel then
        judged = true
        return report {
          symptom  = "loss-broadcast",
          score    = 0.95,
          at       = { step = loss.step, name = loss.name },
          message  = ("%s is %d x %d for %d targets: each prediction is compared with each target"):format(loss.name,
            loss.shape[1], loss.shape[2], targets.numel),
          evidence = { loss, targets },
        }
      end
    end
    -- Predictions [B, 1] against float targets [B] broadcast to [B, B] in any elementwise loss, unless something takes
    -- the last axis away before it. What the loss is says so.
    -- Of many dumps any value is near one of several by chance: one loss has to fit them, all but a fifth.
    local fits, others, match = 0, 0, nil
    for targets in dumped:where("match(name, '*labels|*targets') and match(dtype, 'float*|bfloat*')"):rows() do
      local rows, out = targets.shape[1], nil
      if #targets.shape == 1 and rows > 1 then
        out = dumped:where { run = targets.run, step = targets.step, variant = targets.variant }:where(outputs):first()
      end
      local loss = out and dumped:where { run = targets.run, step = targets.step, variant = targets.variant }
          :where("match(name, 'loss.output') and numel == 1"):first()
      local value = loss and loss.mean
      if not value and out and targets.step then
        local logged = case.scalars:where { name = "loss", primary = true, step = targets.step }:first()
        value = logged and logged.value
      end
      local kind = value and value == value and #out.shape == 2 and out.shape[1] == rows and out.shape[2] == 1
        and rows <= 1000 and broadcast_loss(out:values(0, rows), targets:values(0, rows), value,
          match and match.kind.name)
      judged = judged or kind ~= nil
      if kind then
        fits  = fits + 1
        match = match or { kind = kind, out = out, targets = targets, rows = rows, value = value }
      elseif kind == false then
        others = others + 1
      end
    end
    if match and fits >= 4 * others and (fits >= 2 or match.kind.exact) then
      return report {
        symptom  = "loss-broadcast",
        score    = 0.95,
        at       = { step = match.targets.step, name = match.out.name },
        message  = ("%s is %d x 1 and the float targets are %d: the loss is %s, the %s of each prediction and each "
          .. "target; of each prediction and its own it would be %s"):format(match.out.name, match.rows, match.rows,
          units.number(match.value), match.kind.name, units.number(match.kind.own)),
        evidence = { match.out, match.targets },
      }
    end
    if not judged then
      skip("logits (head.output), labels and loss.output of one step in a dump (culprit_recorder.watch)")
    end
  end,
}
