--- What a run is to predict, and what its loss is made of: the number of classes, and the terms of a sum that the
--- config names ("ce + 0.5 dice"), with what each can be at least and at most. Bounds then hold for sums as well, and
--- nothing is said of a sum with a term that is not known.

local targets = {}

--- Keys of the number of classes.
targets.CLASSES = "*num_classes|*n_classes|*nclass|*nclasses|*num_labels|*num_class|classes|*.classes"
--- The setting of the number of tokens: `targets.vocabulary(case)`. A BertConfig has one of segments as well.
local TOKENS, SEGMENTS = "*vocab_size", "*type_vocab_size"
--- Layers whose output has a number for each of the classes or tokens.
targets.HEADS = "head|lm_head|*.head|*.lm_head|logits|*.logits|*output_layer"
--- Keys of the loss that is trained.
targets.LOSS = "loss|*.loss|loss_fn|*.loss_fn|loss_function|*.loss_function|loss_name|*.loss_name|loss_type|"
  .. "*.loss_type|criterion|*.criterion"

--- What says that the loss compares numbers, so that a number of classes is that of a condition (of a picture that is
--- to be drawn, of a series) and the loss has nothing to do with its logarithm: what a denoiser predicts, a loss of
--- differences, a dumped target with numbers that are no shares of classes. Nil where nothing does.
---@param case culprit.Case
---@return culprit.Row?
function targets.numbers(case)
  return case.config:where("match(key, '*prediction_type|*parameterization|*parametrization|*predict_target|"
    .. "*pred_type|*pred_target|*objective') and match(value, 'eps*|v|v_*|v-*|velocity*|x0|x_0|x_start|pred_x0|pred_v|"
    .. "pred_noise|sample|flow*|score*|noise|rectified*')"):first()
    or case.config:where("match(key, '*num_train_timesteps|*diffusion_steps|*flow_matching|*rectified_flow') and "
      .. "(number > 0 or value == 'true')"):first()
    or case.config:where("match(key, ?)", targets.LOSS):where("match(value, 'mse*|MSE*|l1|l2|L1*|L2*|mae|MAE*|*huber*|"
      .. "*Huber*|smooth_l1*|SmoothL1*|*squared_error*|*absolute_error*|*pinball*|*quantile*')"):first()
    or case.tensors:where("match(name, 'batch.target|batch.targets|batch.velocity|batch.future_target|"
      .. "batch.future_values') and match(dtype, 'float*|bfloat*') and numel > 1 and (min < 0 or max > 1)"):first()
end

--- Whether outputs of so many columns can be of so many tokens: a head may have columns to spare, or be one of 2, 4
--- or 8 parts. A narrower one is of something else, and the tokens are those of the inputs alone.
---@param width number
---@param count number
---@return boolean
function targets.covers(width, count)
  local parts = count / width
  return parts <= 1 or parts == 2 or parts == 4 or parts == 8
end

--- Settings that list the names of all classes, in one value or in a row each.
local LISTED = "class_names|*.class_names|class_labels|*.class_labels|classes|*.classes"
local EACH   = "class_names.*|*.class_names.*|class_labels.*|*.class_labels.*|id2label.*|*.id2label.*"

--- The setting that names all classes, with how many they are as its number; nil where none does.
---@param case culprit.Case
---@return culprit.Row?
local function listed(case)
  local list = case.config:where("match(key, ?) and match(value, '*,*')", LISTED):slice(0, 1)
  local row  = list:first()
  if row and row.value:starts_with("[") then
    -- A name in quotes may have a comma.
    local text  = row.value
    local marks = #text:split('"') - 1
    return list:with { number = marks > 0 and marks // 2 or #text:split(",") }:first()
  end
  -- Names that a library fills in say nothing.
  local each = case.config:where("match(key, ?) and not match(value, 'LABEL_*')", EACH)
  local one  = each:first()
  local path = one and one.key:split(".") or {}
  local stem = table.concat(path, ".", 1, #path - 1)
  each = one and each:where { source = one.source }:where("match(key, ?)", stem .. ".*")
  local many = each and each:distinct("key"):count() or 0
  return many > 1 and each:slice(0, 1):with { number = many }:first() or nil
end

--- The settings of the number of tokens, of any kind of tokens but segments.
---@param case culprit.Case
---@return culprit.Table
function targets.vocabulary(case)
  return case.config:where("match(key, ?) and not match(key, ?) and number > 1", TOKENS, SEGMENTS)
end

--- The first setting of a number of classes or tokens, whatever the loss compares.
---@param case culprit.Case
---@return culprit.Row?
function targets.counted(case)
  return case.config:where("match(key, ?) and not match(key, ?) and number > 1",
    TOKENS .. "|*num_classes|*n_classes|*num_labels", SEGMENTS):first()
end

--- Losses that look for a row's partner among the rows of a batch.
local PARTNERS = "*negativesranking*|*negatives_ranking*|*contrastive*|*infonce*|*info_nce*|*ntxent*|*nt_xent*|"
  .. "*triplet*|*cosent*|*cosinesimilarity*|*cosine_similarity*"

--- What says that the loss looks for a row's partner among the rows of a batch and for no class: the number of these
--- rows is no setting.
---@param case culprit.Case
---@return culprit.Row?
function targets.partners(case)
  for row in case.config:where("match(key, ?) and value is not null", targets.LOSS):slice(0, 20):rows() do
    local value = tostring(row.value):lower()
    if value:glob(PARTNERS) and not value:glob("*cross*entropy*|*+*|*mlm*") then return row end
  end
end

--- The number of items that a recommender's cross-entropy tells apart; nil where it looks at some of them alone.
---@param case culprit.Case
---@return culprit.Row?
local function items(case)
  local over = case.config:where("match(key, ?) and match(value, 'CE|ce|*cross*entropy*|*Cross*Entropy*|softmax|full')",
    targets.LOSS):count() > 0
  local some = case.config:where("match(key, '*neg_sample*|*negative_sampl*|*num_neg*|*n_neg*|*sampled_softmax*')")
    :where("value is not null and not match(value, 'none|None|null|false|False|0|')"):count() > 0
  return over and not some
    and case.config:where("match(key, 'n_items|*.n_items|num_items|*.num_items|item_num|*.item_num|n_item|*.n_item') "
      .. "and number > 1"):first() or nil
end

--- The number of classes of an episode, which few-shot training tells apart ("5-way"); of several, that of training.
--- Where a number of all classes is set as well, the run may tell these apart: that goes first.
---@param case culprit.Case
---@return culprit.Row?
local function ways(case)
  local set = case.config:where("match(key, '*n_way|*n_ways|*num_ways|*train_way*|*train_n_way|*n_way_train|way|ways|"
    .. "*.way|*.ways|*classes_per_it*|*classes_per_episode*') and number > 1"):sort("key")
  return set:where("match(key, '*train*|*_tr')"):first() or set:where("not match(key, '*val*|*test*')"):first()
end

--- The setting of the number of classes, or of tokens, that the loss tells apart; nil where none is set, or where the
--- loss compares numbers or the rows of a batch. A classifier of texts has both, in any order: its classes count.
---@param case culprit.Case
---@return culprit.Row?
function targets.classes(case)
  local row = case.config:where("match(key, ?) and number > 1", targets.CLASSES):first()
    or listed(case) or targets.vocabulary(case):first() or items(case) or ways(case)
  return row and not targets.numbers(case) and not targets.partners(case) and row or nil
end

-- Terms by what their names begin with or hold, in lower case without what parts words.
local CROSS_ENTROPY = { ce = true, crossentropy = true, xent = true, softmaxcrossentropy = true, celoss = true,
  crossentropyloss = true, nll = true, nllloss = true, categoricalcrossentropy = true,
  sparsecategoricalcrossentropy = true }
-- One less an overlap of 0 to 1, a share of what is there.
local SHARES = { dice = true, diceloss = true, softdice = true, softdiceloss = true, jaccard = true,
  jaccardloss = true, iou = true, iouloss = true, softiou = true, tversky = true, tverskyloss = true,
  lovasz = true, lovaszsoftmax = true, lovaszloss = true }

--- A term of a sum, as in "0.5 dice", "0.5*dice" or "dice": weight and name.
local function term(text)
  local weight = 1
  local parts = text:trim():replace("*", " "):split(" ")
  local names = {}
  for _, part in ipairs(parts) do
    local value = tonumber(part)
    if value then weight = value elseif part ~= "" then names[#names + 1] = part end
  end
  if #names ~= 1 then return nil end
  return weight, names[1]:lower():replace("_", ""):replace("-", "")
end

--- What the training loss is the sum of: the weight of a cross-entropy of classes, and how much the other terms, each
--- of which is 0 to its weight, are at most. Nil where the config names no loss, or has a term that is not known, a
--- weight of classes or of rows, or labels that are smoothed or mixed: these make a cross-entropy another one.
---@param case culprit.Case
---@return number? cross_entropy, number shares, culprit.Row? source
function targets.terms(case)
  local named = case.config:where("match(key, ?) and number is null and value is not null", targets.LOSS)
  if named:count() == 0 or named:distinct("value"):count() > 1 then return nil, 0, nil end
  local other = case.config:where("match(key, '*smoothing*|*mixup*|*cutmix*|*class_weight*|*focal*|*ohem*|*topk_loss*|"
    .. "*pos_weight*|*loss_weight*|*lambda_*|*dice_weight*|*ce_weight*|*aux_loss*|*aux_weight*|*auxiliary*|"
    .. "*distill*|*deep_supervision*|*loss_scale*|*loss_reduction*')")
    :where("number != 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '', 'mean')")
  if other:count() > 0 then return nil, 0, nil end
  local source, entropy, shares = named:first(), 0, 0
  for _, text in ipairs(tostring(source.value):split("+")) do
    local weight, name = term(text)
    if not weight or weight <= 0 then return nil, 0, nil end
    if CROSS_ENTROPY[name] then entropy = entropy + weight
    elseif SHARES[name] then shares = shares + weight
    else return nil, 0, nil end
  end
  if entropy <= 0 then return nil, 0, nil end
  return entropy, shares, source
end

return targets
