--- ## What it detects
--- Moments of an output layer's bias, in a checkpoint, that no mean of gradients can have: old gradients are added to
--- the new ones, and more of them than the run accumulates.
---
--- ## Why it matters
--- A bias is added to each output, so that its gradient is the mean of the loss's slope over all terms. The slope of an
--- absolute difference, of a Huber loss and of a cross-entropy, by its logits, is 1 at most. So is then each gradient
--- of that bias, at every step of every run, whatever model, data and rate are; and each mean of them, as momentum and
--- Adam's first moment are, and the root of the mean of their squares.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- A loss that is a sum and no mean: the first loss has to be within twice that of a model that knows nothing. Outputs
--- that are scaled behind their layer, back to the units of the targets: twice the targets' spread is allowed as well,
--- and nothing is said where logits have a scale, nor unless a dump has one output of the layer for each target: what
--- is added up behind it has the slope of the sum. Sums over accumulated batches and devices are allowed. Weights of
--- classes or of the loss, and gradients that may be scaled as in fp16, are left out. Decay that is added to gradients
--- counts with what it can add.
---
--- ## References
--- https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

local ABSOLUTE = "l1|l1loss|l1_loss|mae|maeloss|mae_loss|mean_absolute_error|smooth_l1|smoothl1|smoothl1loss|"
  .. "smooth_l1_loss|huber|huberloss|huber_loss"
local CENTRE   = "*ctrness*|*centerness*|*centreness*"
local ENTROPY  = "ce|cross_entropy|crossentropy|crossentropyloss|cross_entropy_loss|xent"
local WEIGHTED = "*class_weight*|*pos_weight*|*loss_weight*|*sample_weight*|*logit_scale*|*logits_scale*|*temperature*|"
  .. "*output_mult*|*loss_scale*|*grad_scale*|*reduction*|*huber_delta|*smooth_l1_beta"

--- The layer that ends a model: the last of a checkpoint's weights, a bias behind a matrix with a row for each of its
--- elements, as no other layer has so many of. Its bias and what it is called.
---@param weights culprit.Table  of one checkpoint
---@return culprit.Row?
local function output_bias(weights)
  local rows = weights:sort("order")
  local bias = rows:last()
  local size = bias and #(bias.shape or {}) == 1 and bias.shape[1]
  if not size or not bias.name:ends_with("bias") then return nil end
  local matrix, others = nil, 0
  for row in rows:where("match(name, '*weight')"):slice(0, 10000):rows() do
    local shape = row.shape or {}
    if row.layer == bias.layer and #shape >= 2 and shape[1] == size then matrix = row
    elseif #shape >= 2 and shape[1] == size then others = others + 1 end
  end
  return matrix and others == 0 and bias or nil
end

--- Whether each term of the loss has its own output of that layer: what is dumped of it has `width` numbers for each of
--- the targets, and is not added up or shared behind it, as the outputs of atoms are in a molecule's.
local function one_each(case, bias, truth, width)
  for row in truth:slice(0, 100):rows() do
    for out in case.tensors:where { run = row.run, step = row.step, rank = row.rank, role = "output" }
      :where { numel = width * row.numel }:slice(0, 400):rows() do
      if bias.layer == out.layer or bias.layer:ends_with("." .. out.layer) then return true end
    end
  end
  return false
end

--- How large the slope of the loss by an output can be, how large the first loss of a model that knows nothing is, what
--- says so, and the name of that loss in the log; nil where no such loss is named, or the outputs do not fit it.
---@param case culprit.Case
---@param bias culprit.Row  of the output
---@return number? slope, number? chance, culprit.Row?, string?
local function slope_of(case, bias)
  local size = bias.numel
  -- One of a detector's terms has an output of its own: the binary cross-entropy of how central a place is.
  if bias.layer:glob(CENTRE) and size == 1 then
    local term = case.scalars:where("layer is null and match(name, ?) and not match(name, '*val*|*eval*|*test*') and "
      .. "finite(value)", CENTRE):sort("step"):first()
    return term and 1, math.log(2), term, term and term.name
  end
  local named = case.config:where("match(key, ?) and number is null and value is not null", targets.LOSS)
  if named:count() == 0 or named:distinct("value"):count() > 1 then return nil end
  local name = tostring(named:first().value):lower()
  if name:glob(ENTROPY) then
    local classes = targets.classes(case)
    local labels  = case.tensors:where("match(name, 'batch.*label*|batch.*target*|batch.y') and match(dtype, 'int*')")
    local fits    = classes and classes.number == size and size >= 2 and one_each(case, bias, labels, size)
    return fits and 1 or nil, math.log(size), named:first(), "loss"
  end
  if not name:glob(ABSOLUTE) then return nil end
  local truth = case.tensors:where("match(name, 'batch.y|batch.target|batch.targets|batch.label|batch.labels') and "
    .. "match(dtype, 'float*|bfloat*') and numel >= 4 and nonfinite == 0 and rms is not null")
  if truth:count() == 0 or not one_each(case, bias, truth, 1) then return nil end
  return math.max(1, 2 * truth:max("std")), math.max(truth:median("rms"), 1e-12), named:first(), "loss"
end

--- A setting by which the loss is no plain mean, or its gradients may be scaled.
local function weighted(case)
  return settings.on(case.config:where("match(key, ?)", WEIGHTED)):first()
    or settings.fp16(case)
end

--- What a decay that is added to gradients adds at most: its rate times the largest element that the bias has.
---@param bias culprit.Row  of the last checkpoint
---@param step number       of the checkpoint that is judged
local function decay_at(case, bias, step)
  local now = case.tensors:where("role == 'weight' and variant is null and step == ? and layer == ? and "
    .. "match(name, '*bias')", step, bias.layer):first()
  return (case.config:where("match(key, '*weight_decay') and number > 0"):max("number") or 0)
    * math.max(-(bias.min or 0), bias.max or 0, -(now and now.min or 0), now and now.max or 0)
end

---@class output_bias.Mean  What an optimizer keeps as a mean of gradients.
---@field row culprit.Row
---@field size number   the largest element of the mean, corrected for the zeros that it began with
---@field what string   words for it
---@field step number   of the checkpoint
---@field bound number  what no mean of gradients is above

--- The buffer of momentum as a mean: the sum of old gradients, each mu times the one behind it, times 1 - mu. Nil where
--- the config has no mu, or gradients are added in part.
local function momentum(case, size)
  local mu   = case.config:where("match(key, '*momentum') and number > 0 and number < 1"):max("number")
  local damp = case.config:where("match(key, '*dampening') and number > 0"):count() > 0
  if not mu or damp then return nil end
  return size * (1 - mu), "momentum, times 1 - mu,"
end

--- Adam's moment as a mean, and the root of the second as one: divided by what a mean of ones that began at zero has.
---@param state culprit.Table  of one checkpoint
local function adam_moment(case, state, row, layer, size)
  local counts  = state:where("numel == 1 and match(name, '*state.*.step')")
  local updates = counts:where("layer == ?", layer):min("mean") or counts:min("mean")
  local beta1, beta2 = optimizers.betas(case, "*betas")
  if not updates or updates < 1 or beta1 >= 1 or beta2 >= 1 then return nil end
  if row.name:ends_with("_sq") then return (size / (1 - beta2 ^ updates)) ^ 0.5, "root of the second moment" end
  return size / (1 - beta1 ^ updates), "first moment"
end

--- The largest mean of the bias' gradients, of all checkpoints, that is above what it can be; nil where none is.
---@param state culprit.Table   of the optimizer, at all steps
---@param bias culprit.Row
---@param bound number          what each gradient is at most, without decay
---@param plain boolean         whether it descends by the gradient or its momentum
---@return output_bias.Mean?
local function above_bound(case, state, bias, bound, plain)
  local worst
  for at in state:distinct("step"):sort("step"):slice(0, 100):rows() do
    local here  = state:where("step == ?", at.step)
    local limit = bound + decay_at(case, bias, at.step)
    for row in here:where("layer == ? and match(name, '*.exp_avg|*.exp_avg_sq|*.momentum_buffer')", bias.layer)
      :slice(0, 16):rows() do
      local buffer = row.name:ends_with(".momentum_buffer")
      local same   = #(row.shape or {}) == 1 and row.numel == bias.numel
      local most   = math.max(math.abs(row.min), math.abs(row.max))
      local size, what
      if same and buffer and plain then
        size, what = momentum(case, most)
      elseif same and not plain then
        size, what = adam_moment(case, here, row, bias.layer, most)
      end
      if size and size > case.options.above * limit and (not worst or size > worst.size) then
        worst = { row = row, size = size, what = what, step = at.step, bound = limit }
      end
    end
  end
  return worst
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Moments of the output's bias that no mean of gradients has",
  needs    = { tensors = { "name", "role", "step", "shape", "max", "min" },
    scalars = { "step", "value", metric = "loss" }, config = { "key", "value" } },
  symptoms = { "gradient-is-running-sum" },
  options  = {
    above  = { default = 1.1, doc = "Times the bound from which a moment is above it" },
    chance = { default = 2.0, doc = "Times the loss of knowing nothing up to which the first loss is a mean" },
    later  = { default = 1.2, doc = "The same where the first one in the log is of a later step" },
  },

  run = runs.apart(function(case, run)
    local opt, plain = case.options, optimizers.plain(case)
    if not plain and not optimizers.keeps_means(case) then
      return skip("an optimizer in the config that keeps means of gradients")
    end
    local set = weighted(case)
    if set then return skip("a loss that is a plain mean: " .. set.key .. " is set") end
    local state = case.tensors:where("role == 'state' and step is not null and variant is null and nonfinite == 0")
    local step  = state:max("step")
    local bias  = step and output_bias(case.tensors:where("role == 'weight' and variant is null and step == ?", step))
    if not bias then
      return skip("a checkpoint with the optimizer's state, of a model that ends in a layer with a bias")
    end
    local slope, chance, source, name = slope_of(case, bias)
    local first = name and case.scalars:where { name = name }:where("layer is null and finite(value)"):sort("step")
      :first()
    if not slope or not first then
      return skip("a loss in the config that is an absolute difference or a cross-entropy, of so many outputs, and "
        .. "values of it")
    end
    -- A later one has come down already.
    if first.value > (first.step <= 1 and opt.chance or opt.later) * chance then
      return skip(("a first loss that is a mean: %.3g is %.3g times that of knowing nothing"):format(first.value,
        first.value / chance))
    end

    local sums  = settings.accumulated(case)
    local worst = above_bound(case, state, bias, slope * sums, plain)
    -- A sum that swings, or of clipped gradients, may be small: nothing is ruled out.
    if not worst then return skip("moments of the output's bias above what a mean of gradients can be") end
    report {
      symptom  = "gradient-is-running-sum",
      score    = 0.9,
      at       = { run = run, step = worst.step },
      message  = ("the %s of %s is %.3g in the checkpoint of step %d; its gradient is the mean of slopes of the loss "
        .. "(%s), %.3g at most%s: more is added up than one step's gradients"):format(worst.what, bias.name, worst.size,
        math.floor(worst.step), name == "loss" and source.value or name, worst.bound,
        sums > 1 and (", with %g that are summed"):format(sums) or ""),
      evidence = { worst.row, source, first },
    }
  end),
}
