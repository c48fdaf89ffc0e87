--- Whether a model predicts what comes next, so that no position may see a later one. Most models with attention do
--- not: encoders of text, images and sound, denoisers and towers look both ways on purpose, and nothing in their
--- attention says so. So the settings have to say it, or the labels.

local causality = {}

local SETTING = "match(key, '*is_causal|*.causal|causal|*is_decoder|*autoregressive') and (number != 0 or value == "
  .. "'true')"
local CLASS   = "match(key, '*architecture*|*model_class*|*_target_') and match(value, '*CausalLM*|*LMHead*|"
  .. "*DecoderOnly*')"
local TASK    = "match(key, '*task_type|*task|*objective') and match(value, '*CAUSAL_LM*|*causal*|*language_model*|"
  .. "*clm') and not match(value, '*mask*|*Mask*|*non?causal*|*noncausal*|*permut*|*prefix*')"
-- Names that families of such models go by, behind a folder or an owner too.
local NAMES   = "*gpt*|*llama*|*mistral*|*mixtral*|*qwen*|*gemma*|phi*|*/phi*|*falcon*|*bloom*|opt|*/opt*|*pythia*|"
  .. "*olmo*|*deepseek*|*starcoder*|*codegen*|*smollm*|*internlm*|*baichuan*|*/yi-*|*mpt-*|*nemotron*|"
  .. "*transformer_lm*"
local KIND    = "match(key, 'model|*model_type|*model.type|*model_name*|*model.name|*name_or_path|*arch')"

--- Parts of a model that look both ways beside a decoder: its encoder, towers for images and sound.
causality.BOTH_WAYS = "*cross*|*encoder*|enc.*|*.enc.*|*image*|*img*|*video*|*patch*|*diffusion*|"
  .. "*denois*|*vision*|*visual*|*vit.*|*audio*|*speech*|*bert*|*unet*|*perceiver*"

--- The setting that says that a model looks both ways, or nil.
function causality.denied(case)
  return case.config:where("match(key, '*bidirectional|*is_encoder|*is_encoder_decoder|*prefix_lm') and (number != 0 "
    .. "or value == 'true')"):first()
    or case.config:where("match(key, '*is_causal|*.causal|causal') and (number == 0 or value == 'false')"):first()
    or case.config:where("match(key, '*architecture*|*model_type|model.type|type') and match(value, '*MaskedLM*|bert|"
      .. "roberta|electra|deberta*|vit|*encoder*')"):first()
end

local function by_name(case)
  for row in case.config:where(KIND):slice(0, 20):rows() do
    if (row.value or ""):lower():glob(NAMES) then return row end
  end
end

--- A dumped batch whose labels are the next tokens, or all tokens in their own place, as where the model shifts them.
--- Of masked tokens few count, and of those that do most were replaced.
local function by_labels(case)
  local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null and not match(name, 'battery.*')")
  for labels in dumped:where("match(name, '*labels|*targets')"):slice(0, 4):rows() do
    local ids = dumped:where { run = labels.run, step = labels.step, variant = labels.variant }
      :where("match(name, '*input_ids|*tokens')"):first()
    if ids and ids.numel == labels.numel and #labels.shape > 1 and labels.shape[#labels.shape] > 2 then
      local width = labels.shape[#labels.shape]
      local n = math.min(ids.numel, 8192) // width * width
      local x, y, own, next_one, count = ids:values(0, n), labels:values(0, n), 0, 0, 0
      for i = 1, #y do
        if y[i] >= 0 and i % width ~= 0 then
          count = count + 1
          if y[i] == x[i] then own = own + 1 end
          if y[i] == x[i + 1] then next_one = next_one + 1 end
        end
      end
      if count >= 4 and (next_one >= 0.8 * count or own >= 0.95 * count and count >= 0.3 * n) then return labels end
    end
  end
end

--- What says that a model predicts what comes next: a row of `config` or of `tensors`, or nil.
function causality.declared(case)
  return case.config:where(SETTING):first() or case.config:where(CLASS):first() or case.config:where(TASK):first()
    or by_name(case) or by_labels(case)
end

return causality
