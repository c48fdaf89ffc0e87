--- ## What it detects
--- A loss that stays at the score of a model that knows nothing but how often each label occurs, though its weights
--- travel: the variance of float targets under a squared error, the entropy of their shares under a cross-entropy of
--- two or more classes. The labels are those of the dumped batches.
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
--- learned, unless a logged area under the curve is 0.6 or more.
---
--- ## References
--- The constant with the least squared error is the mean, whose error is the variance; that with the least
--- cross-entropy are the shares of the labels. `training/plateau` holds the loss against ln V where the config says V.

local runs = require("runs")

local LIMIT = 200000

--- Mean and variance, and how often each value stands there, of labels in several tensors.
local function summary(tensors)
  local n, sum, square, counts, kinds = 0, 0, 0, {}, 0
  for tensor in tensors:rows() do
    for from = 0, math.min(tensor.numel, LIMIT - n) - 1, 8192 do
      for _, v in ipairs(tensor:values(from, 8192)) do
        if v == v and v ~= -100 then
          n, sum, square = n + 1, sum + v, square + v * v
          if kinds <= 4096 then
            if not counts[v] then counts[v], kinds = 0, kinds + 1 end
            counts[v] = counts[v] + 1
          end
        end
      end
    end
  end
  return n, sum / n, math.max(0, square / n - (sum / n) ^ 2), counts, kinds
end

--- The score of the best constant, what it is, and how uncertain the number of labels leaves it; nil where that cannot
--- be told.
local function bound(tensors, float)
  local n, _, variance, counts, kinds = summary(tensors)
  if n < 64 then return nil end
  local binary = kinds == 2 and counts[0] and counts[1]
  if float and not binary then
    -- Of n values of a normal distribution the variance is known to sqrt(2 / n).
    return variance, "the variance of the targets", variance * math.sqrt(2 / n)
  end
  if kinds < 2 or kinds > n / 16 then return nil end
  local entropy, spread = 0, 0
  for _, count in pairs(counts) do
    local p = count / n
    entropy, spread = entropy - p * math.log(p), spread + p * math.log(p) ^ 2
  end
  -- The entropy of a sample is too small by (K - 1) / 2n on average.
  return entropy + (kinds - 1) / (2 * n), ("the entropy of %d labels"):format(kinds),
    math.sqrt(math.max(0, spread - entropy ^ 2) / n) + (kinds - 1) / (2 * n)
end

--- Whether a logged area under the curve says that rows are told apart: a half is chance.
local function ranks(case, run)
  local late = case.scalars:where { run = run }:where("match(name, '*auc|*auc[_/]*|auroc|*roc_auc*') and finite(value)")
    :sort("step")
  return late:count() >= 3 and late:slice(late:count() - 3, 3):median("value") >= 0.6
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
    -- Where the config has the number of classes training/plateau compares; labels that are ignored or smoothed have
    -- another bound.
    if case.config:where("match(key, '*vocab_size|*num_classes|*n_classes|*num_labels') and number > 1")
      :count() > 0 then
      return skip("a run without vocab_size or num_classes in its config; training/plateau looks at those")
    end
    local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null and numel >= 2 "
      .. "and step is not null")
    local float  = "match(dtype, 'float*|bfloat*')"
    -- What the loss compares with: the target, or a denoiser's noise, or labels.
    local labels
    for _, pattern in ipairs({ "batch.target|batch.targets", "batch.noise|batch.eps",
      "batch.label|batch.labels|batch.y|batch.click|batch.clicks" }) do
      labels = dumped:where("match(name, ?)", pattern)
      if labels:count() > 0 then break end
    end
    local noise = labels:count() > 0 and labels:first().name:glob("batch.noise|batch.eps")
    if labels:count() == 0 or noise and case.config:where("match(key, '*prediction_type') and not match(value, 'eps*')")
      :count() > 0 then
      return skip("dumped labels or targets of what the loss compares (culprit_recorder.watch)")
    end
    local level, what, error_ = bound(labels, labels:where(float):count() > 0)
    if not level or level <= 0 or error_ > 0.05 * level then
      return skip("more dumped labels: their frequencies are not known well enough")
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
        local allowed = math.max(opt.near * level, 2 * error_)
        local finish = loss:slice(rows - fifth, fifth):mean("value")
        -- Below it is what any model that has learned something comes to, so there less is put down to few labels.
        local slack = 2 * noise_ / math.sqrt(fifth)
        local even = finish <= level + allowed + slack
          and finish >= level - math.max(opt.near * level, error_) - slack and not ranks(case, run_name)
        -- No fifth of the run learned anything that was lost again, and the end is not on its way down.
        for part = 1, 4 do
          local here = loss:slice(part * fifth, fifth):mean("value")
          even = even and math.abs(here - finish) <= 0.01 * level + 2 * noise_ / math.sqrt(fifth)
        end
        if even and far >= opt.travelled and loss:slice(0, 3):median("value") <= 2 * level then
          report {
            symptom  = "loss-at-chance",
            score    = 0.9,
            at       = { step = loss:first().step },
            message  = ("loss stays at %.4g, %s, which is %.4g: the score of the best constant; the weights travelled "
              .. "%.2g times their norm"):format(finish, what, level, far),
            evidence = { loss:first(), loss:last(), labels:first() },
          }
        end
      end
    end
    if not judged then skip("10 logged losses and the update ratio of layers") end
  end,
}
