--- ## What it detects
--- Nothing that is wrong: whether the run has attention, reads tokens and runs on a GPU. Where the record shows that it
--- does not, causes that need it are out (`required` in their Signals).
---
--- ## Why it matters
--- A network without attention has no mask that could leak, pixels have no tokenizer, and a run on the CPU waits for no
--- cudaMalloc, whatever else looks alike.
---
--- ## How to confirm
--- `culprit sql RUN "SELECT DISTINCT layer FROM scalars"` and the dumped batch say the same.
---
--- ## Known false positives
--- Layers that are recorded as whole blocks do not show what is in them, and a batch that is not dumped may hold
--- anything: neither is judged, but for settings that describe or name pictures and say nothing of text. A number of
--- classes alone may be one of texts. A batch tells of no attention: networks without it have masks and queries too.
--- Whole numbers of which there is one for each pixel of a picture beside them are its classes, and no ids.
---
--- ## References
--- docs/ranking.md, what a cause needs

local ATTENTION = "*attn*|*attention*|*mha|*mha.*|*multihead*|*q_proj*|*query*|*qkv*|*transformer*|*perceiver*"
local WITH_ATTENTION = ATTENTION .. "|*gpt*|*bert*|*llama*|*mistral*|*qwen*|*gemma*|*t5-*|t5|*/t5*|*bart*|*vit*|*swin*|"
  .. "*clip*|dit|dit-*|*/dit*|*whisper*|*wav2vec*|*conformer*|*falcon*"

-- Learned tables of places.
local PLACES = "*pos_embed|*pos_embed.weight|*pos_emb|*pos_emb.weight|*position_embedding*|*wpe|*wpe.weight"

-- Not the ids of tokens, though whole numbers.
local OTHERS = "*label*|*target*|*mask*|*length*|*lens|*timestep*|*index*|*_idx|*class*|*actions*|*image*|*pixel*"

-- Settings that only runs on text have, and models of it, beside those that name a tokenizer or a length of rows.
local TEXT = "*text*|*token*|*lang*|*caption*|*sentence*|*prompt*|*corpus*|*max_len*|*maxlen*|*num_embeddings*|*nlp*|"
  .. "*char*|*_lm|*lm_*|*embedding_dim*"
local OF_TEXT = "*gpt*|*bert*|*llama*|*mistral*|*qwen*|*gemma*|*t5*|*bart*|*clip*|*blip*|*llava*|*whisper*|*text*|"
  .. "*lstm*|*gru*|*rnn*|*transformer*|*mamba*|*rwkv*|phi|phi?|phi?.?|phi-*|*/phi-*|opt|opt-*|*/opt-*|*donut*|*trocr*|"
  .. "*imdb*|sst*|*/sst*|*glue*|*ag_news*|*agnews*|*yelp*|*dbpedia*|*mnli*|*snli*|*squad*|*wiki*|*caption*|*lm1b*|*c4"
-- What the input of pictures, sounds and points is described by.
local PIXELS = "*image_size|*img_size|*imgsz|*in_channels|*in_chans|*crop_size|*n_mels|*num_points|*mixup|*cutmix|"
  .. "*img_scale"
-- Sets of pictures and networks that read nothing but these.
local OF_PIXELS = "*cifar*|*mnist*|*imagenet*|*svhn*|stl10|*coco*|*ade20k*|*cityscapes*|*pascal*|voc*|*celeba*|"
  .. "*food101*|*flowers102*|*eurosat*|*resnet*|*resnext*|*vgg*|*efficientnet*|*mobilenet*|*convnext*|*densenet*|"
  .. "*unet*|*deeplab*|*yolo*"

-- Whether a layer is a block of which nothing inside is recorded: blocks.3, encoder.layer.0, backbone.
local function is_closed(name, all)
  local parts = name:lower():split(".")
  local last, before = parts[#parts], parts[#parts - 1] or ""
  if not (tonumber(last) and before:glob("*block*|*layer*|h|*stage*|*transformer*")
    or last:glob("*block|*stage|*encoder|*decoder|*backbone|*tower|*trunk")) then
    return false
  end
  for _, other in ipairs(all) do
    if other:starts_with(name .. ".") then return false end
  end
  return true
end

-- A setting or a metric that only models with attention have, and its name.
local function attention(case)
  local heads = case.config:where("match(key, '*n_head*|*num_heads*|*attention_heads*|*nhead|*heads') and number >= 1 "
    .. "and not match(key, '*medusa*|*output_heads|*task_heads|*n_heads_out')")
    :first() or case.config:where("match(key, '*attn*|*attention*') and not match(value, 'false|False|none|None|null|"
      .. "0')"):first()
  if heads then return heads, heads.key end
  local models = case.config:where("match(key, 'model|arch|*model_type|*model.type|*model_name*|*architecture*|"
    .. "*name_or_path|*_target_|*.arch|*.model')")
  for row in models:slice(0, 50):rows() do
    if (row.value or ""):lower():glob(WITH_ATTENTION) then return row, row.key end
  end
  local metric = case.scalars:where("match(metric, '*attention*')"):first()
  return metric, metric and metric.metric
end

-- Names of layers, and a row of each. What a batch holds is no layer, whatever it is called.
local function layers_of(case)
  local names, rows_of = {}, {}
  local dumped = case.tensors:where("layer is not null and not match(name, 'batch|batch.*')")
  for _, rows in ipairs({ case.scalars:where("layer is not null"), dumped }) do
    for row in rows:distinct("layer"):slice(0, 2000):rows() do
      if not rows_of[row.layer] then rows_of[row.layer], names[#names + 1] = row, row.layer end
    end
  end
  return names, rows_of
end

local function has(part, row, what)
  report { symptom = "has-" .. part, score = 1, severity = "info", message = what, evidence = { row } }
end

local function judge_attention(case)
  local found, name = attention(case)
  local names, rows, closed = {}, {}, nil
  if not found then names, rows = layers_of(case) end
  for _, layer in ipairs(names) do
    if layer:lower():glob(ATTENTION) then found, name = rows[layer], layer break end
    closed = closed or is_closed(layer, names) and layer
  end
  -- What is told where each of its inputs stands mixes them as attention does, by whatever name.
  local places = not found and case.tensors:where("match(name, ?) and not match(name, 'batch|batch.*')", PLACES):first()
  if found or places then
    has("attention", found or places, "the run has attention: " .. (name or places.name))
  elseif #names < 3 or closed then
    skip(closed and ("what is in %s: statistics of the layers inside"):format(closed) or "statistics of layers",
      "has-attention")
  end
end

-- Whether the settings describe pixels or sounds, or name pictures, and nothing in them is of text. Classes have both.
local function of_pixels(case)
  local about = case.config:where("match(key, ?)", PIXELS):count() > 0
  local named = case.config:where("match(key, '*model*|*arch*|*backbone*|*encoder*|*data*|*task*|*name*')")
  for row in named:slice(0, 200):rows() do
    local name = tostring(row.value or ""):lower()
    if name:glob(OF_TEXT) then return false end
    about = about or name:glob(OF_PIXELS)
  end
  return about and case.config:where("match(key, ?)", TEXT):count() == 0
end

-- Whether a shape without one of its axes is another one.
local function is_without(shape, axis, other)
  if #shape ~= #other + 1 then return false end
  for i, size in ipairs(other) do
    if shape[i < axis and i or i + 1] ~= size then return false end
  end
  return true
end

-- Whether whole numbers are one for each pixel of a picture of the same batch: what is left of its shape without the
-- channels, which stand first, behind the rows, or last.
local function is_map(ids, batch)
  for picture in batch:where("match(dtype, 'float*|bfloat*|uint8')"):where { run = ids.run, step = ids.step,
    variant = ids.variant, rank = ids.rank }:slice(0, 20):rows() do
    local shape = picture.shape or {}
    local n = #shape
    if n == 3 and shape[1] <= 4 and is_without(shape, 1, ids.shape)
      or n >= 4 and (is_without(shape, 2, ids.shape) or shape[n] <= 4 and is_without(shape, n, ids.shape)) then
      return true
    end
  end
  return false
end

local function judge_tokens(case)
  local batch = case.tensors:where("match(name, 'batch.*')")
  local found = case.requests:first() or case.tokens:first() or case.documents:first()
  local name  = "requests, tokens or documents"
  for row in batch:where("match(dtype, 'int*') and not match(name, ?)", OTHERS):slice(0, 100):rows() do
    if not found and #(row.shape or {}) >= 2 and not is_map(row, batch) then found, name = row, row.name end
  end
  local setting = case.config:where("match(key, '*tokenizer*|*vocab*')"):first()
  -- A forecaster's rows have a length too, and its inputs are numbers; where a batch is dumped it says what is read.
  if batch:count() == 0 and case.config:where("match(key, '*pred_len*|*prediction_length*|*horizon*|*label_len|"
    .. "*forecast*')"):count() == 0 then
    setting = setting or case.config:where("match(key, '*max_seq*|*seq_len*|*context_length*|*block_size')"):first()
  end
  if not found and setting then found, name = setting, setting.key end
  if found then
    has("tokens", found, "the run reads tokens or ids: " .. name)
  elseif batch:count() == 0 and not of_pixels(case) then
    skip("a dumped batch", "has-tokens")
  end
end

local function judge_gpu(case)
  local cuda   = case.config:where("match(key, '*torch_cuda|*cuda_version')"):first()
  local device = case.config:where("match(key, 'device|*.device|*accelerator')"):first()
  local record = case.gpu_work:first() or case.devices:first() or case.host_calls:first()
  local named  = cuda and not (cuda.value or ""):lower():glob("null|none|") and cuda
    or device and (device.value or ""):lower():glob("cuda*|gpu*|mps*|xpu*") and device
  if record then
    has("gpu", record, "the run has a GPU: its record is here")
  elseif named then
    has("gpu", named, "the run has a GPU: " .. named.key)
  elseif not cuda and not (device and (device.value or ""):lower() == "cpu") then
    skip("the manifest of the recorder, or a setting that names the device", "has-gpu")
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Whether the run has attention, tokens, a GPU",
  needs    = { any = { scalars = { "value" }, tensors = { "name" }, config = { "key" }, requests = { "id" },
    gpu_work = { "start" } } },
  symptoms = { "has-attention", "has-tokens", "has-gpu" },

  run = function(case)
    judge_attention(case)
    judge_tokens(case)
    judge_gpu(case)
  end,
}
