--- ## What it detects
--- A loss that stays at the score of a model that knows nothing but how often each label occurs, though its weights
--- travel: of float targets their variance under a squared error, and where the config names an absolute error or
--- Huber's, the mean distance from the median or the least that a constant has; of two or more classes the entropy of
--- their shares under a cross-entropy. The labels are those of the dumped batches. Few of a masked language model's
--- count: what stands in its texts has the same shares.
---
--- ## Why it matters
--- With labels that have nothing to do with their inputs, the best that can be learned is a constant. The loss goes
--- there, mostly within the first steps, and stays, whatever is tuned.
---
--- ## How to confirm
--- Train on one batch again and again: it is learned by heart, where the labels are at fault and the model is not.
---
--- ## Known false positives
--- Tasks that hardly can be predicted, such as returns of shares or rare clicks: there the loss ends a little below the
--- bound. Less than 2 % below it, or than one standard error of a bound that few labels tell, is taken for nothing
--- learned, unless a logged area under the curve is 0.6 or more, or the validation loss goes on falling below it: the
--- training loss is then of something else than each row and its label. Where none of the dumped outputs has as many
--- numbers a row as the targets, the loss is no squared error of one each. Too few float targets to tell the bound are
--- held batch by batch against the loss of their own step: what three dumped batches behind the first say together has
--- to be that no loss is less than the best constant has on that very batch.
---
--- ## References
--- The constant with the least squared error is the mean, whose error is the variance; that with the least
--- cross-entropy are the shares of the labels. `training/plateau` holds the loss against ln V where the config says V,
--- which is left to it where labels are as even as that.

local batch_loss = require("batch-loss")
local learning = require("learning")
local masked  = require("masked")
local runs    = require("runs")
local targets = require("targets")

local LIMIT = 200000
-- Names of what may be the target, and may be compared on another scale: each batch has to bear it out.
local LOOSE = "batch.future_target|batch.future_targets|batch.future_values|batch.*_target|batch.*_targets|"
  .. "batch.rating|batch.ratings|batch.score|batch.scores|batch.seq_y|batch.y_*|batch.ground_truth"

--- The values of several tensors, but for ignored labels, in the order of their size.
local function sorted_values(tensors)
  local list = {}
  for tensor in tensors:rows() do
    for from = 0, math.min(tensor.numel, LIMIT - #list) - 1, 8192 do
      for _, v in ipairs(tensor:values(from, 8192)) do
        if v == v and v ~= -100 then list[#list + 1] = v end
      end
    end
  end
  table.sort(list)
  return list
end

--- Huber's loss of a constant: a square up to a distance of 1, a line beyond.
local function huber(list, constant)
  local sum = 0
  for _, v in ipairs(list) do
    local far = math.abs(v - constant)
    sum = sum + (far < 1 and far * far / 2 or far - 0.5)
  end
  return sum / #list
end

--- What the best constant scores under the loss of float targets: { level, what, error }.
---@param list number[]
---@param kind string?  what the config calls the loss, if it is no squared error
local function of_floats(list, kind)
  local n, mean, variance, absolute = #list, 0, 0, 0
  for _, v in ipairs(list) do mean = mean + v / n end
  local median = (list[(n + 1) // 2] + list[n // 2 + 1]) / 2
  for _, v in ipairs(list) do
    variance, absolute = variance + (v - mean) ^ 2 / n, absolute + math.abs(v - median) / n
  end
  -- Of n values of a normal distribution the variance is known to sqrt(2 / n).
  local part = math.sqrt(2 / n)
  if not kind then return { variance, "the variance of the targets", variance * part } end
  if kind:lower():glob("*huber*|*smooth*") then
    local low, high = list[1], list[n]
    for _ = 1, 40 do -- Huber's loss is convex in the constant
      local a, b = low + (high - low) / 3, high - (high - low) / 3
      if huber(list, a) < huber(list, b) then high = b else low = a end
    end
    return { huber(list, low), "the least Huber loss of a constant", huber(list, low) * part }
  end
  -- The mean distance of such values varies less than their square: by sqrt(pi / 2 - 1) of itself.
  return { absolute, "the mean distance of the targets from their median", absolute * math.sqrt((math.pi / 2 - 1) / n) }
end

--- What the shares of labels score: { level, what, error }; nil where there are too few of too many kinds.
local function of_kinds(list)
  local n, kinds, entropy, spread, from = #list, 0, 0, 0, 1
  for i = 1, n do
    if list[i + 1] ~= list[i] then
      local p = (i - from + 1) / n
      kinds, from = kinds + 1, i + 1
      entropy, spread = entropy - p * math.log(p), spread + p * math.log(p) ^ 2
    end
  end
  if kinds < 2 or kinds > n / 6 then return nil end
  -- The entropy of a sample is too small by (K - 1) / 2n on average.
  local bias = (kinds - 1) / (2 * n)
  return { entropy + bias, ("the entropy of %d labels"):format(kinds),
    math.sqrt(math.max(0, spread - entropy ^ 2) / n) + bias, bias }
end

--- What the best constant scores, by what the targets are: float ones that are 0 and 1 alone are classes.
local function of_targets(list, float, kind)
  local binary = list[1] == 0 and list[#list] == 1
  for _, v in ipairs(binary and list or {}) do binary = binary and (v == 0 or v == 1) end
  if not float or binary then return of_kinds(list) end
  return of_floats(list, kind)
end

--- Whether the loss of every batch that was dumped behind the first is no less than the best constant has on that very
--- batch, which no constant chosen beforehand has: how few labels they are is then the same on both sides. How many
--- such batches; nil where one has less, or there are fewer than three.
local function none_better(case, labels, kind, near)
  local first, judged = labels:min("step"), 0
  for batch in labels:where("step > ? and numel >= 16", first):sort("step"):slice(0, 8):rows() do
    local value = batch_loss.of(case, batch)
    local list  = value and sorted_values(labels:where { run = batch.run, step = batch.step, variant = batch.variant })
      or {}
    -- The score that the message names, as this very batch has it; one of a single class tells nothing.
    local best = #list >= 16 and of_targets(list, true, kind)
    if best then
      if not (value >= (1 - near) * (best[1] - (best[4] or 0))) then return nil end
      judged = judged + 1
    end
  end
  return judged >= 3 and judged or nil
end

--- The words of the texts of a masked language model: its ids but for the mask, for padding, and for the token that all
--- rows begin with and the one that all end in. Nil where the run trains no such model.
local function words_of(case, dumped, labels)
  if not masked.by(case) then return nil end
  local rows, hidden, first, last = {}, {}, nil, nil -- false: rows differ in it
  for batch in labels:slice(0, 50):rows() do
    local here = dumped:where { run = batch.run, step = batch.step, variant = batch.variant, numel = batch.numel }
    local ids  = here:where("match(name, '*input_ids|*tokens')"):first()
    local mask = here:where("match(name, '*attention_mask')"):first()
    local width = batch.shape and math.floor(batch.shape[#batch.shape]) or 0
    for from = 0, ids and width > 2 and math.min(batch.numel, 65536) - width or -1, width do
      local x, y = ids:values(from, width), batch:values(from, width)
      local m, stop = mask and mask:values(from, width), width
      while stop > 1 and m and m[stop] == 0 do stop = stop - 1 end
      if first ~= false then first = (first or x[1]) == x[1] and x[1] end
      if last ~= false then last = (last or x[stop]) == x[stop] and x[stop] end
      rows[#rows + 1] = { x = x, y = y, stop = stop }
      for t = 1, stop do
        if y[t] ~= -100 and y[t] ~= x[t] then hidden[x[t]] = (hidden[x[t]] or 0) + 1 end
      end
    end
  end
  local mask_id, most = nil, 0
  for id, count in pairs(hidden) do
    if count > most or count == most and mask_id and id < mask_id then mask_id, most = id, count end
  end
  local list = {}
  for _, row in ipairs(rows) do
    for t = 1, row.stop do
      local id = row.y[t] ~= -100 and row.y[t] or row.x[t]
      if id ~= mask_id and id ~= first and id ~= last then list[#list + 1] = id end
    end
  end
  table.sort(list)
  return #list > 0 and list or nil
end

--- What the config calls a loss of differences that are not squared; nil where it names none.
local function kind_of(case)
  local kind = case.config:where("match(key, '*loss*|*criterion*|*objective*') and match(value, '*huber*|*Huber*|"
    .. "*smooth*|*Smooth*|*l1*|*L1*|*mae*|*MAE*|*absolute*')"):first()
  return kind and kind.value
end

--- The score of the best constant, what it is and how uncertain the labels leave it; nil where there are too few.
local function bound(case, dumped, labels, float)
  local list = sorted_values(labels)
  if #list < 64 and not float then
    list = words_of(case, dumped, labels) or list
  end
  local n = #list
  if n < 64 then return nil end
  return of_targets(list, float, kind_of(case))
end

--- Whether a logged area under the curve says that rows are told apart: a half is chance.
local function ranks(case, run)
  local late = case.scalars:where { run = run }:where("match(name, '*auc|*auc[_/]*|auroc|*roc_auc*') and finite(value)")
    :sort("step")
  return late:count() >= 3 and late:slice(late:count() - 3, 3):median("value") >= 0.6
end

--- Whether a validation loss ends below the bound by more than held-out labels can differ in their shares, and has come
--- down to it: a model that knows nothing but frequencies has that of the held-out labels from the start.
local function learns(case, run, level, near)
  local held = case.scalars:where { name = "val_loss", primary = true, run = run }:where("finite(value)"):sort("step")
  local n = held:count()
  if n < 3 then return nil end
  local first, last = held:first(), held:slice(n - 2, 2):max("value")
  return last < (1 - 2.5 * near) * level and last < first.value - 2 * near * level and held:last() or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss stays at the score of the best constant",
  needs    = { scalars = { "step", "value", metric = "loss" }, tensors = { "name", "data" } },
  symptoms = { "loss-at-chance" },
  options  = {
    near      = { default = 0.02, doc = "Distance from the best constant's score, as a share of it, that is none" },
    travelled = { default = 0.30, doc = "Sum of the updates over the weights' norm that gives a model its chance" },
    min_rows  = { default = 10,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and numel >= 2 "
      .. "and step is not null")
    local float_ = "match(dtype, 'float*|bfloat*')"
    local numbers = targets.numbers(case)
    -- What the loss compares with: the target, or a denoiser's noise, or labels.
    local labels, loose
    for i, pattern in ipairs({ "batch.target|batch.targets", "batch.noise|batch.eps",
      "batch.label|batch.labels|batch.y|batch.click|batch.clicks", LOOSE }) do
      labels, loose = dumped:where("match(name, ?)", pattern), i == 4
      -- Classes beside a loss of numbers are a condition, and no label.
      if numbers or loose then labels = labels:where(float_) end
      if labels:count() > 0 then break end
    end
    if loose and labels:distinct("name"):count() > 1 then labels = labels:slice(0, 0) end
    local noise = labels:count() > 0 and labels:first().name:glob("batch.noise|batch.eps")
    if labels:count() == 0 or noise and case.config:where("match(key, '*prediction_type') and not match(value, 'eps*')")
      :count() > 0 then
      return skip("dumped labels or targets of what the loss compares (culprit_recorder.watch)")
    end
    local float  = labels:where(float_):count() > 0
    -- The score of even classes is that which training/plateau holds the loss against.
    local classes = not float and targets.counted(case)
    local one = bound(case, dumped, labels, float)
    local few = one and one[1] > 0 and (loose or one[3] > 0.05 * one[1])
    local paired = few and float and one[3] <= 0.2 * one[1] and none_better(case, labels, kind_of(case), opt.near)
    if not one or one[1] <= 0 or few and not paired then
      return skip("more dumped labels: their frequencies are not known well enough")
    end
    local level, what, error_ = one[1], one[2], one[3]
    local other = float and learning.other_loss(case, labels)
    if other then return skip("a loss of one output for each number that is told: " .. other) end
    if classes and math.abs(level - math.log(classes.number)) <= math.max(0.01 * level, error_) then
      return skip("labels that are less even than the classes of the config: training/plateau looks at these")
    end
    for run_name in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = runs.series(case, "loss", run_name):where("finite(value)")
      local rows = loss:count()
      local ratio = case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
        :where("finite(value)"):aggregate({ "step" }, { value = "median value" })
      if rows >= opt.min_rows and ratio:count() >= 3 then
        judged = true
        local far   = ratio:mean("value") * (ratio:max("step") - ratio:min("step") + 1)
        local fifth = rows // 5
        local noise_ = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        local finish = loss:slice(rows - fifth, fifth):mean("value")
        local slack = 2 * noise_ / math.sqrt(fifth)
        -- Below it is what any model that has learned something comes to, so there less is put down to few labels.
        local even = finish <= level + math.max(opt.near * level, 2 * error_) + slack
          and finish >= level - math.max(opt.near * level, error_) - slack and not ranks(case, run_name)
        -- No fifth of the run learned anything that was lost again, and the end is not on its way down.
        for part = 1, 4 do
          local here = loss:slice(part * fifth, fifth):mean("value")
          even = even and math.abs(here - finish) <= 0.01 * level + slack
        end
        local learned = even and learns(case, run_name, level, opt.near)
        if learned then
          skip(("a validation loss that stays as well: %.4g at step %d is below what the best constant has, so that "
            .. "something is learned"):format(learned.value, learned.step))
        elseif even and far >= opt.travelled and loss:slice(0, 3):median("value") <= 2 * level then
          report {
            symptom  = "loss-at-chance",
            score    = 0.9,
            at       = { step = loss:first().step },
            message  = ("loss stays at %.4g, %s, which is %.4g: the score of the best constant%s; the weights "
              .. "travelled %.2g times their norm"):format(finish, what, level, paired and (", which on none of %d "
              .. "dumped batches has more than the model"):format(paired) or "", far),
            evidence = { loss:first(), loss:last(), labels:first() },
          }
        end
      end
    end
    if not judged then skip("10 logged losses and the update ratio of layers") end
  end,
}
