--- Masked language models: some tokens are hidden behind a mask token, and those alone are to be predicted, at their
--- own places. What is right for a model that predicts what comes next is not for them: labels stand at their own
--- tokens, most of them are ignored, ends too, and a model says at a place that is not hidden what stands there.

local elements = require("elements")

local masked = {}

--- What the loss leaves out beside all negative labels, which are no classes: the setting, else `default`.
---@param case culprit.Case
---@param default integer
---@return integer
function masked.ignored(case, default)
  local row = case.config:where("match(key, '*ignore_index|*ignore_label|*label_pad_token_id|*pad_token_label_id|"
    .. "*void_label') and number is not null"):first()
  return row and math.floor(row.number) or default
end

--- Whether two tensors of ids and labels are of masked tokens: of the places whose label counts and is not the id that
--- is given, one and the same id is given at half, it stands nowhere else, and is nobody's label. Random ids stand at
--- some of the others.
---@param ids culprit.Row
---@param labels culprit.Row   of the same shape
---@param ignore integer
---@return boolean
function masked.hides(ids, labels, ignore)
  local n = math.min(ids.numel, 16384)
  local x, y = elements.of(ids, 0, n), elements.of(labels, 0, math.min(labels.numel, n))
  local label, at, all, places = {}, {}, {}, 0
  for i = 1, math.min(#x, #y) do
    all[x[i]] = (all[x[i]] or 0) + 1
    if y[i] >= 0 and y[i] ~= ignore then
      label[y[i]] = true
      if y[i] ~= x[i] then at[x[i]], places = (at[x[i]] or 0) + 1, places + 1 end
    end
  end
  for given, count in pairs(at) do
    if not label[given] and count >= 0.5 * places then return count >= 6 and count >= 0.9 * all[given] end
  end
  return false
end

--- What says that the run trains a masked language model: a setting, or a dumped batch; nil where nothing does.
---@param case culprit.Case
---@return culprit.Row?
function masked.by(case)
  -- Collators have a share to hide by default, which counts for nothing where hiding is off.
  local off = case.config:where("match(key, 'mlm|*.mlm|*use_mlm') and match(value, 'false|False|0')"):count() > 0
  local setting = not off and case.config:where("match(key, '*mlm|*mlm_probability|*mlm_prob|*masked_lm*|*mask_prob|"
    .. "*mlm_mask*|*masking_ratio|*masking_prob*') and (number > 0 or value == 'true')"):first()
    or case.config:where("match(key, '*architectures*|*model_class*|*objective|*task') and match(value, "
      .. "'*MaskedLM*|*masked_lm*|mlm|*ForPreTraining*|fill-mask')"):first()
  if setting then return setting end
  local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null and not match(name, 'battery.*')")
  for labels in dumped:where("match(name, '*labels|*targets')"):slice(0, 8):rows() do
    local ids = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, numel = labels.numel }
      :where("match(name, '*input_ids|*tokens')"):first()
    if ids and masked.hides(ids, labels, -100) then return ids end
  end
  return nil
end

return masked
