--- ## What it detects
--- A detector whose classes go through a sigmoid twice: its fresh outputs lie at the prior probability that the config
--- sets, and the first focal loss is far above the most that outputs can cost there; a second sigmoid costs that much.
--- Later on no output is above where it began, at the things that are there neither.
---
--- ## Why it matters
--- Behind two sigmoids the probability is between .5 and .731 at each of thousands of places, whatever the model says.
--- All that is left to learn is to push every output down, and nothing is found.
---
--- ## How to confirm
--- Print the least and the largest of what the loss is given: logits have both signs or are far below 0, and
--- probabilities lie between 0 and 1. `sigmoid_focal_loss` takes logits.
---
--- ## Known false positives
--- The focal loss is a sum over all places and classes, divided by the number of places of a thing. With outputs in
--- [-m, m] a place of a thing costs alpha ln(1 + e^m) at most, and the rest of N, which are at the prior, costs all at
--- once if it is divided by one place. What is added up over accumulated batches, devices, weights of the loss is
--- allowed as well, and three times all that. A sum that nobody divides has at least one place for each thing, and is
--- larger than it could be, or is not told. Other terms are taken off with the most they can be: an overlap of boxes
--- with 2 (3 with the aspect ratio), a centre-ness of a fresh output with 2. Things are counted by the boxes that have
--- a size; without boxes a label of 0 may be padding where none is below 0, and the sum counts none of them.
---
--- ## References
--- Lin et al.: Focal Loss for Dense Object Detection (2017), section 4.1 on the prior;
--- https://docs.pytorch.org/vision/main/generated/torchvision.ops.sigmoid_focal_loss.html

local labelled_boxes = require("labelled-boxes")
local runs = require("runs")
local settings = require("settings")
local training = require("training-rows")

local CLASS_TERM = "*classification*|*loss_cls*|*cls_loss*|*class_loss*|*loss_class*|*loss_ce|*focal*"
local OTHER_ROWS = "*val*|*eval*|*test*|*acc*|*error*|*lr*|*weight*"
local WEIGHTS    = "*cls*weight|*class*loss*weight|*cls*coef|*ce_loss_coef|*class*coef|*focal*weight|*loss_weight*|"
  .. "*cls*gain"

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
local function softplus(x) return math.max(x, 0) + math.log(1 + math.exp(-math.abs(x))) end

--- The first loss of the classes, or nil: what the log has of it or, where the config names all terms, the least that
--- the others leave of the sum. Then the most, and the row.
---@param case culprit.Case
---@return number? least, number? most, culprit.Row?
local function first_cost(case)
  local term = case.scalars:where("primary and layer is null and step <= 1 and finite(value) and match(name, ?) and "
    .. "not match(name, ?)", CLASS_TERM, OTHER_ROWS):sort("step"):first()
  if term then return term.value, term.value, term end
  local named = case.config:where("match(key, 'loss|*.loss|loss_fn|*.loss_fn') and match(value, '*focal*')"):first()
  local loss  = case.scalars:where { name = "loss", primary = true }:where("finite(value) and step <= 1"):sort("step")
    :first()
  if not named or not loss then return nil end
  local others = 0
  for _, part in ipairs(tostring(named.value):lower():split("+")) do
    if part:glob("*ciou*") then others = others + 3
    elseif part:glob("*iou*|*centerness*|*centreness*|*ctrness*") then others = others + 2
    elseif not part:glob("*focal*") then return nil end
  end
  return loss.value - others, loss.value, loss
end

--- How many things a row of the first dumped batch has, at least and at most; nil without labels.
---@return number? least, number? most, culprit.Row?
local function first_things(case)
  local dumped = training.batches(case)
  local labels = dumped:where("match(name, '*labels|*.classes|*category_ids') and match(dtype, 'int*') and step <= 1 "
    .. "and numel > 0 and min is not null"):first()
  if not labels then return nil end
  local boxes, sized = labelled_boxes.beside(dumped, labels)
  local named = labels.numel - (labels.min < 0 and labels:count_equal(labels.min) or 0)
  local most  = boxes and math.min(named, sized) or named
  local least = (boxes or labels.min ~= 0) and most or named - labels:count_equal(0)
  local rows  = math.max(1, (labels.shape or {})[1] or 1)
  return least / rows, most / rows, labels
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A detector's classes go through a sigmoid twice",
  needs    = { scalars = { "step", "value", metric = "loss" }, tensors = { "shape", "max" },
    config = { "key", "number" } },
  symptoms = { "loss-of-softmaxed-logits" },
  options  = {
    times = { default = 3.0, doc = "Times the most that fresh outputs can cost, from which the loss is of others" },
    steps = { default = 10,  doc = "Steps from which a dump shows what was learnt" },
    near  = { default = 0.2, doc = "Relative distance of the fresh outputs' mean from the prior" },
  },

  run = runs.apart(function(case, run)
    local prior = settings.number(case, "prior_probability") or settings.number(case, "prior_prob")
    local alpha, gamma = settings.number(case, "focal_alpha"), settings.number(case, "focal_gamma")
    if not prior or not alpha or not gamma or prior <= 0 or prior >= 0.2 or alpha <= 0 or alpha >= 1 then
      return skip("a focal loss and the probability that its outputs begin at, in the config")
    end
    local kinds = case.config:where("match(key, '*num_classes|*n_classes') and number > 1"):first()
    local start = math.log(prior / (1 - prior))
    local least, most, row = first_cost(case)
    if not least or not kinds then return skip("the number of classes, and the first loss of the classes") end

    -- What was learnt of each place and class, of all levels in one piece: rows, places, classes.
    local output
    for out in case.tensors:where("role == 'output' and variant is null and step >= ? and nonfinite == 0 and "
      .. "match(layer, '*cls*|*class*|*logit*')", case.options.steps):sort("step"):slice(0, 100):rows() do
      local shape = out.shape or {}
      if #shape == 3 and shape[3] >= kinds.number and shape[3] <= kinds.number + 1 then output = out end
    end
    if not output then return skip("the outputs of a later batch in a dump, for each place and class") end
    local fresh = case.scalars:where("primary and step <= 1 and layer == ?", output.layer)
    local mean  = fresh:where { metric = "activation_mean" }:sort("step"):first()
    local root  = fresh:where { metric = "activation_rms" }:sort("step"):first()
    local large = fresh:where { metric = "activation_max" }:sort("step"):first()
    if not mean or not root or not large then
      return skip("mean, root mean square and largest of the fresh outputs of " .. output.layer)
    end

    -- Where fresh outputs lie, as logits or as the probabilities that a sigmoid has made of them, all of them close.
    local squashed = mean.value > 0 and math.abs(mean.value - prior) < case.options.near * prior
    local begin    = squashed and prior or start
    if not squashed and math.abs(mean.value - start) > 0.05 * math.abs(start) or large.value > 2 * math.abs(begin)
      or root.value > (squashed and 1.05 or 1.02) * math.abs(mean.value) then
      return skip(("fresh outputs at the prior of %g; those of %s have a mean of %.3g"):format(prior, output.layer,
        mean.value))
    end
    -- A focal loss raises what is at a thing as long as it is low; behind a second sigmoid the rest outweighs it.
    if output.max >= begin then return skip("outputs that have all come down from where they began") end

    -- A first batch with things in it.
    local fewest, things, labelled = first_things(case)
    if not fewest or fewest <= 0 then return skip("the labels of the first batch in a dump") end
    local batch  = case.config:where("match(key, '*batch_size') and not match(key, '*eval*|*val_*|*test*') and "
      .. "number >= 1"):first()
    local rows   = math.max(output.shape[1], batch and batch.number or 1)
    local places = rows * output.numel / output.shape[1]
    fewest, things = fewest * rows, things * rows

    -- The most that a place of a thing costs, and each of the others, that are as far above the prior as below it.
    local bound = alpha * softplus(squashed and math.log(4 / prior) or large.value)
    local high  = squashed and large.value or sigmoid(math.min(0, 2 * start + large.value))
    local rest  = (1 - alpha) * high ^ gamma * -math.log(1 - high)
    local weight = case.config:where("match(key, ?) and number > 1", WEIGHTS):max("number") or 1
    local sums   = settings.accumulated(case) * weight
    local allowed = (bound + places * rest) * sums
    -- A sum that is not divided: at least a place for every other thing, at what it costs at the prior.
    local undivided = 0.5 * fewest * alpha * (1 - prior) ^ gamma * -math.log(prior)
    -- Behind a second sigmoid all places cost the same, and the divisor is at least as large as things are many.
    local again   = sigmoid(prior)
    local twice   = (1 - alpha) * again ^ gamma * -math.log(1 - again) * places * sums
    local divisor = { twice / most, twice / math.max(least, 1e-9) }
    if least <= case.options.times * allowed or most >= undivided or divisor[2] < 0.5 * things
      or divisor[1] > places / output.shape[3] then
      return skip(("a first loss of the classes that outputs at the prior cannot have: it is %.3g"):format(row.value))
    end
    report {
      symptom  = "loss-of-softmaxed-logits",
      score    = 0.95,
      at       = { run = run, step = row.step },
      message  = ("%s begins at the prior of %g%s, where classes can cost %.3g at most, and the first loss has %.3g of "
        .. "them%s; a second sigmoid costs that for %.0f places of %.0f things, and at step %d no output is above "
        .. "%.3g: the sigmoid is applied twice"):format(output.layer, prior, squashed and ", as probabilities" or
        (", as logits of %.3g"):format(mean.value), allowed, least, least < most and " at least" or "",
        (divisor[1] * divisor[2]) ^ 0.5, things, math.floor(output.step), output.max),
      evidence = { row, mean, output, labelled },
    }
  end),
}
