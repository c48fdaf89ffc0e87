--- ## What it detects
--- A float input of the model that is far from mean 0 and deviation 1: pixels of 0 to 255 that nobody scaled,
--- features in raw units, or values scaled twice to nearly nothing.
---
--- ## Why it matters
--- Initialisation and learning rate are made for inputs of unit scale. Larger ones saturate the first layer, smaller
--- ones starve it.
---
--- ## How to confirm
--- Compare mean and deviation with those that the model's preprocessing promises.
---
--- ## Known false positives
--- Models that normalise their input in the first layer: where the dumped output of a layer that is given the input has
--- its shape, mean 0 and deviation 1, the scale before it says nothing; nor does it where a layer is given as many
--- numbers in another scale, or makes by far less or more of them than its weights would. Nor does a small deviation of
--- inputs that are nearly all 0, as of bags of words and one-hot classes: what a layer adds up is the few that are not.
--- Images of 0 to 1 are near enough and are not reported. Batches of ids alone have no scale, nor have columns of codes
--- that stand among others as floats and are looked up.
---
--- ## References
--- https://pytorch.org/vision/stable/models.html (mean and std of each model's transform)

local elements = require("elements")

--- The output of the layer that is given the input, where it is the input with mean 0 and deviation 1: no layer of
--- weights makes both by chance. Nil where none is dumped.
---@param case culprit.Case
---@param mean number  that of the input
---@param rms number
---@return culprit.Row?
local function normalised(case, mean, rms)
  local given = case.tensors:where("role == 'input' and layer is not null and numel >= 16 and std is not null")
  for row in given:sort("order"):slice(0, 20):rows() do
    local out = case.tensors:where { role = "output", layer = row.layer, step = row.step, run = row.run }:first()
    if out and out.std and out.numel == row.numel and #out.shape == #row.shape
      and math.abs(row.rms - rms) <= 0.25 * rms and math.abs(row.mean - mean) <= 0.25 * rms
      and math.abs(out.mean) <= 0.1 and math.abs(out.rms - 1) <= 0.1 then return out end
  end
end

--- A layer that is given as many numbers as the batch has, in another scale, or one whose weights would make more or
--- less by far of such an input than it says: the model scales its input itself. Its name and the scale; nil where no
--- layer tells.
---@param case culprit.Case
---@param first culprit.Row  the batch
---@param rms number
---@return string? layer, number? own
local function scaled_within(case, first, rms)
  local function far(own) return own > 0 and (own < rms / 3 or own > 3 * rms) end
  for row in case.tensors:where { run = first.run, step = first.step }:where("role == 'input' and layer is not null "
    .. "and layer != 'batch' and not match(name, 'batch.*') and rms is not null"):sort("order"):slice(0, 4):rows() do
    if row.numel == first.numel then return far(row.rms) and row.layer or nil, row.rms end
  end
  -- What a layer of weights w gives of n numbers of a size x is about w * sqrt(n) * x.
  local act = case.scalars:where("match(name, 'activation_rms/*') and value > 0"):sort("step"):first()
  -- A norm that comes first makes the scale itself.
  local acts = case.scalars:where { metric = "activation_rms", primary = true }:where("layer is not null")
  for row in (act and acts:where { step = act.step }:sort("place") or acts:slice(0, 0)):slice(0, 4):rows() do
    local at = case.scalars:where { metric = "activation_mean", layer = row.layer, step = row.step }:first()
    local even = at and math.abs(at.value) <= 0.1 and row.value > 0.6 and row.value < 1.1
    if even and row.layer:lower():glob("*norm*|*bn*") and far(row.value) then return row.layer, row.value end
  end
  local weight = act and case.tensors:where { run = first.run, layer = act.layer }:where("role == 'weight' and "
    .. "match(name, '*.weight') and rms > 0"):sort("step"):first()
  if not weight or #weight.shape < 2 or weight.shape[2] ~= first.shape[#weight.shape == 2 and #first.shape or 2] then
    return nil
  end
  local own = act.value / (weight.rms * math.sqrt(weight.numel / weight.shape[1]))
  return far(own) and act.layer or nil, own
end

--- The setting, or the part of the model, that takes a mean off pictures and divides them by a deviation, where one of
--- these fits values of 0 to 255: Detectron2 and OpenMMLab do so in the model. Caffe's weights want the mean off alone.
---@param case culprit.Case
---@return string?
local function preprocessor(case)
  for set in case.config:where("match(key, '*pixel_std*|*pixel_mean*|*data_preprocessor.std*|"
    .. "*data_preprocessor.mean*') and value is not null"):slice(0, 20):rows() do
    for _, part in ipairs(set.value:replace("[", ""):replace("]", ""):replace("(", ""):replace(")", ""):split(",")) do
      if (tonumber(part:trim()) or 0) >= 10 then return set.key end
    end
  end
  local kept = case.tensors:where("match(name, '*pixel_std|*pixel_mean') and absmax >= 10"):first()
  return kept and kept.name
end

--- The setting by which the model divides each series by its own mean or deviation, as GluonTS's do by `scaling` and
--- others by a reversible normalisation of windows; nil where none is set. Series of all sizes are what this is for.
---@param case culprit.Case
---@return culprit.Row?
local function scaled_by_series(case)
  return case.config:where("match(key, 'scaling|*.scaling|*revin|*use_revin|*rev_in|*scale_by_instance') and "
    .. "match(value, 'true|True|mean|std')"):first()
end

--- Mean, deviation and root mean square of the columns that are left of a table of numbers without those of codes:
--- whole numbers from 0 on, which a layer looks up that has rows for all of them. Nil where there are none, or nothing
--- else.
---@param case culprit.Case
---@param inputs culprit.Table  of one name
---@return number? mean, number? std, number? rms
local function without_codes(case, inputs)
  local first = inputs:first()
  local width = #(first.shape or {}) == 2 and math.floor(first.shape[2]) or 0
  if width < 2 or width > 1024 then return nil end
  local sizes = {}
  for given in case.tensors:where("role == 'input' and layer is not null and match(dtype, 'int*|uint*')")
    :slice(0, 2000):rows() do
    local weight = case.tensors:where { run = given.run, layer = given.layer, role = "weight" }:first()
    if weight and #(weight.shape or {}) == 2 then sizes[#sizes + 1] = weight.shape[1] end
  end
  table.sort(sizes)
  local whole, most, sum, square, n = {}, {}, {}, {}, 0
  for c = 1, width do whole[c], most[c], sum[c], square[c] = true, 0, 0, 0 end
  for row in inputs:where { name = first.name }:where("zero_share is not null"):slice(0, 8):rows() do
    local count = math.min(row.numel, 65536) // width * width
    for i, v in ipairs(elements.of(row, 0, count)) do
      local c = (i - 1) % width + 1
      whole[c] = whole[c] and v >= 0 and v % 1 == 0
      most[c], sum[c], square[c] = math.max(most[c], v), sum[c] + v, square[c] + v * v
    end
    n = n + count // width
  end
  local columns, mean, all = 0, 0, 0
  for c = 1, width do
    if not (whole[c] and most[c] >= 2 and #sizes > 0 and most[c] < sizes[#sizes]) then
      columns, mean, all = columns + 1, mean + sum[c], all + square[c]
    end
  end
  if n == 0 or columns == width or columns == 0 then return nil end
  mean, all = mean / (n * columns), all / (n * columns)
  return mean, math.sqrt(math.max(0, all - mean * mean)), math.sqrt(all)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The model's input is not normalised",
  needs    = { tensors = { "name", "mean", "std" } },
  symptoms = { "input-scale-off" },
  options  = {
    large  = { default = 10,   doc = "Root mean square of the input that is too large" },
    small  = { default = 0.03, doc = "Deviation of the input that is too small" },
    offset = { default = 5,    doc = "Mean over deviation that is too far from 0" },
  },

  run = function(case)
    local opt = case.options
    local inputs = case.tensors:where("match(name, 'batch.input|batch.inputs|*pixel_values|*input_features|batch.x|"
      .. "batch.image*|batch.dense*|batch.features|batch.feats|batch.fbank*|batch.mel*|batch.spectrogram*|"
      .. "batch.waveform*|batch.wav*|batch.audio|batch.speech') and match(dtype, 'float*|bfloat*') and numel >= 16 and "
      .. "std is not null")
    if inputs:count() == 0 then
      -- Where all that the model is given are ids there is no scale that could be off.
      local batch = case.tensors:where("match(name, 'batch.*|*.batch.*') and not match(name, 'battery.*')")
      if batch:where("match(name, '*input_ids|*tokens|batch.ids|batch.src|batch.tgt') and match(dtype, 'int*')")
        :count() > 0 and batch:where("match(dtype, 'float*|bfloat*|uint8')"):count() == 0 then return end
      return skip("a dumped float input (batch.input): culprit_recorder.watch dumps batches")
    end
    -- One batch that differs is a matter of that batch.
    local rms, std, mean = inputs:median("rms"), inputs:median("std"), inputs:median("mean")
    local left, left_std, left_rms = without_codes(case, inputs)
    if left then rms, std, mean = left_rms, left_std, left end
    -- A waveform of full scale 1 is quiet for the most part.
    local small = inputs:first().name:glob("*wav*|*audio*") and 0.02 * opt.small or opt.small
    if rms < opt.large and std >= small and math.abs(mean) < opt.offset * std or rms == 0 then return end
    if rms < opt.large and std < small and inputs:where("zero_share >= 0.5"):count() > 0 then return end
    local norm = normalised(case, mean, rms)
    if norm then
      return skip(("an input that the model takes as it is: %s makes it one of mean %.2g and deviation %.3g")
        :format(norm.layer, norm.mean, norm.std))
    end
    local series = #(inputs:first().shape or {}) <= 3 and scaled_by_series(case)
    if series then
      return skip(("an input that the model takes as it is: by %s it scales each series by its own size"):format(
        series.key))
    end
    local inside = inputs:max("max") > 2 and inputs:max("max") <= 255 and preprocessor(case)
    if inside then
      return skip(("an input that the model takes as it is: by %s pictures are normalised in it"):format(inside))
    end
    local first = inputs:sort("step"):first()
    local within, own = scaled_within(case, first, first.rms or rms)
    if within then
      return skip(("an input that the model takes as it is: %s is given one of about %.2g"):format(within, own))
    end
    report {
      symptom  = "input-scale-off",
      -- Models that are given pictures as they are often scale them first, and no layer is on record that would say so.
      score    = #(first.shape or {}) >= 3 and inputs:min("min") >= 0 and inputs:max("max") > 2
        and inputs:max("max") <= 255 and case.scalars:where { metric = "activation_rms" }:count() == 0 and 0.5
        or rms >= 3 * opt.large and 0.95 or 0.85,
      at       = { step = first.step, name = first.name },
      message  = ("%s has mean %.4g and deviation %.4g over %s, values of %.4g to %.4g: not the mean 0 and "
        .. "deviation 1 that "
        .. "models are initialised for"):format(first.name, mean, std, units.plural(inputs:count(), "dumped batch",
        "dumped batches"), inputs:min("min"), inputs:max("max")),
      evidence = { inputs:slice(0, 5) },
    }
  end,
}
