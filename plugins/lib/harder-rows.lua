--- What makes training's own rows harder than held-out ones, and wrong labels do not.

local batch_loss = require("batch-loss")
local elements = require("elements")
local settings = require("settings")
local token_labels = require("token-labels")
local training = require("training-rows")

local harder = {}

-- Inputs or weights that are disturbed, attacked or masked in training alone, and terms beside the cost of the labels.
local KEYS = "*attack*|*pgd*|*fgsm*|*adv_train*|*adv_eps*|*specaug*|*time_mask*|*freq_mask*|*mask_ratio*|"
  .. "*masking_ratio*|*sam_rho|*sam_start*|vib|vib_*|*.vib|*.vib_*|*_vib|*use_vib|*kl_weight|*kl_coef*|*weight_noise*|"
  .. "*noise_level*|*drop_connect*|*dropconnect*|*rdrop*|*r_drop*"

--- The setting that says so; nil where none does.
---@param case culprit.Case
---@return culprit.Row?
function harder.setting(case)
  return settings.on(case.config:where("match(key, ?)", KEYS)):first()
    or case.config:where("match(key, '*optim*|opt|*.opt') and match(value, 'sam|SAM|asam|ASAM|*.sam|*_sam|sam_*|gsam')")
      :first()
    or case.config:where("match(key, 'model|*.model|*model_type|*model_name|*arch|*architecture') and "
      .. "match(value, 'vib|VIB|*_vib|*-vib|vib_*|vib-*|*VIB|*variational_bottleneck*')"):first()
end

--- The dumped inputs that were disturbed on purpose: by their name, or by ids beside which the labels stand as pairs do
--- that are right, and the ids that are given do not; nil where none were.
---@param case culprit.Case
---@param run string?
---@return culprit.Row?
function harder.disturbed(case, run)
  local batches = training.batches(case):where { run = run }
  local named = batches:where("match(name, '*noisy*|*corrupted*|*degraded*|*perturbed*') and "
    .. "match(dtype, 'float*|bfloat*') and not match(name, '*label*|*target*')"):first()
  if named then return named end
  local pairs_, first = {}, nil
  for labels in batches:where("match(dtype, 'int*') and match(name, '*labels|*targets')"):slice(0, 8):rows() do
    local ids = batches:where { step = labels.step, variant = labels.variant, numel = labels.numel }
      :where("match(name, '*input_ids|*tokens')"):first()
    if ids and #(labels.shape or {}) == 2 then
      pairs_[#pairs_ + 1], first = { ids, labels }, first or ids
    end
  end
  return #pairs_ > 0 and token_labels.ids_changed(pairs_, -100) and first or nil
end

--- The labels of the batches that are trained on, the last ones first.
local function labelled(case, run, from)
  return training.trained(case.tensors:where("match(name, 'batch.*label|batch.*labels|batch.*target|"
    .. "batch.*targets|batch.y|*.labels|*.targets') and match(dtype, 'int*|uint*') and zero_share is not null"))
    :where("step >= ?", from):where { run = run }:sort("-step")
end

--- The loss that is logged of a dumped batch, or dumped beside it, and what may be its logits.
---@return number?, culprit.Table
local function logged(case, labels)
  local here = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant }
  return batch_loss.of(case, labels), here:where("role == 'output' and nonfinite == 0 and "
    .. "match(dtype, 'float*|bfloat*')"):where("not match(name, 'loss*|*.loss*')")
end

--- What each row of a dumped batch costs, and what a label drawn at random would in its place, where labels and the
--- logits of classes lie beside each other and their mean is the logged loss. `out` and `random` get the costs.
local function costs(case, labels, out, random)
  local value, logits = logged(case, labels)
  if not value or labels.numel < 1 then return end
  for one in logits:slice(0, 100):rows() do
    local classes = math.floor(one.shape and one.shape[#one.shape] or 0)
    if classes >= 2 and classes ~= labels.numel and one.numel == labels.numel * classes and labels.max < classes then
      local own = one:cross_entropy(labels, 0, -100)
      if own and math.abs(own - value) <= 0.02 * value then
        local most = math.max(1, 100000 // classes)
        for i, label in ipairs(elements.of(labels, 0, math.min(labels.numel, most))) do
          if label >= 0 then
            local x = one:values((i - 1) * classes, classes)
            local top, total, mean = -math.huge, 0, 0
            for _, v in ipairs(x) do top, mean = math.max(top, v), mean + v / classes end
            for _, v in ipairs(x) do total = total + math.exp(v - top) end
            out[#out + 1], random[#random + 1] = top + math.log(total) - x[math.floor(label) + 1],
              top + math.log(total) - mean
          end
        end
        return
      end
    end
  end
end

--- Where the logged loss is no mean of what its rows cost: the logits of each of three dumped batches and more, beside
--- their labels, cost a tenth less than the loss of their step, and no output costs as much. So it is where the dearest
--- rows alone count, or some count more than others. Nil where it is such a mean, or that cannot be told.
---@param case culprit.Case
---@param run string?
---@param from number  the step from which on
---@return table?  mean, value, step, output
function harder.weighed(case, run, from)
  local labels, found, dumps = labelled(case, run, from), nil, 0
  for row in labels:slice(0, 24):rows() do
    local value, logits = logged(case, row)
    local below, same = nil, false
    for one in (value and value > 0 and logits or case.tensors:slice(0, 0)):rows() do
      local classes = math.floor(one.shape and one.shape[#one.shape] or 0)
      if classes >= 2 and classes ~= row.numel and one.numel == row.numel * classes and row.max < classes then
        local own = one:cross_entropy(row, 0, -100)
        same = same or own ~= nil and math.abs(own - value) <= 0.05 * value
        if own and own < 0.9 * value then below = { mean = own, value = value, step = row.step, output = one.name } end
      end
    end
    if same then return nil end
    if below then found, dumps = found or below, dumps + 1 end
  end
  return dumps >= 3 and found or nil
end

--- Whether training costs more than validation row by row, and not by some of its rows. Where a share of the labels is
--- random each of these costs what a random label does, and the others what held-out rows do. So without as many of the
--- dearest rows as that share, what is left costs no more than held-out rows. Nil where it does not, or where few rows
--- were dumped.
---@param case culprit.Case
---@param run string?
---@param from number   the step from which on
---@param val number    what validation costs there in the mean
---@return table?  mean, share, of
function harder.throughout(case, run, from, val)
  local all, random = {}, {}
  for row in labelled(case, run, from):slice(0, 24):rows() do
    if #all < 20000 then costs(case, row, all, random) end
  end
  local sum, chance = 0, 0
  for i = 1, #all do sum, chance = sum + all[i], chance + random[i] end
  local train, wrong = sum / math.max(1, #all), chance / math.max(1, #all)
  if #all < 60 or val <= 0 or train <= val or wrong <= train then return nil end
  table.sort(all)
  -- A quarter more than are wrong by the mean.
  local kept = #all - math.ceil(1.25 * #all * (train - val) / (wrong - val))
  if kept < 20 then return nil end
  local left, square = 0, 0
  for i = 1, kept do left, square = left + all[i], square + all[i] ^ 2 end
  local mean  = left / kept
  local error = math.sqrt(math.max(0, square / kept - mean ^ 2) / kept)
  if mean - 3 * error <= 1.1 * val then return nil end
  return { mean = mean, share = kept / #all, of = #all }
end

--- Labels that are shares of classes, as of mixed rows: dumped floats that are none below 0, add up to 1 in each row,
--- and are in one row of ten or more those of several classes. No loss of them is below their entropy, which held-out
--- labels of one class each do not have.
---@param case culprit.Case
---@return culprit.Row?, number? entropy
function harder.soft(case)
  local floats = training.batches(case):where("match(dtype, 'float*|bfloat*') and min >= 0 and max <= 1.0001 and "
    .. "match(name, '*label*|*target*|batch.y')")
  for row in floats:slice(0, 8):rows() do
    local shape = row.shape or {}
    local width = #shape == 2 and math.floor(shape[2]) or 0
    local rows, mixed, entropy, whole = 0, 0, 0, width >= 2
    for first = 0, whole and math.min(row.numel, 16384) - width or -1, math.max(1, width) do
      local sum, most = 0, 0
      for _, p in ipairs(elements.of(row, first, width)) do
        sum, most = sum + p, math.max(most, p)
        entropy = entropy - (p > 0 and p * math.log(p) or 0)
      end
      whole = whole and math.abs(sum - 1) < 1e-3
      rows, mixed = rows + 1, mixed + (most < 0.99 and 1 or 0)
    end
    if whole and rows >= 8 and mixed >= 0.1 * rows then return row, entropy / rows end
  end
end

return harder
