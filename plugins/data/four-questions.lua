--- ## What it detects
--- Of two model folders in one case, as of training and serving or of before and after, the first of four questions
--- that has two answers: which checkpoint, which tokenizer, which template and special tokens around the text, which
--- settings of decoding and precision. Answered from the files alone.
---
--- ## Why it matters
--- Most "the model got worse" reports end at one of the four. Asked in this order, each answer makes the next one
--- cheap; asked out of order, a prompt is tuned for a week against the wrong checkpoint.
---
--- ## How to confirm
--- Load the one file that differs from the other side and repeat one request.
---
--- ## Known false positives
--- Two models on purpose: a draft beside its target, a policy beside its reward model. Folders that are named so are
--- left out.
---
--- ## References
--- https://huggingface.co/docs/transformers/model_doc/auto

local name_of = require("settings").name_of

local MEANT = "*draft*|*assistant*|*specul*|*reward*|*critic*|*adapter*|*lora*|*teacher*|*ref_model*|*reference*"

-- Keys of each question. A key counts where both sides have it.
local QUESTIONS = {
  { name = "checkpoint", symptom = "sides-checkpoint-differs",
    keys = "architectures|model_type|hidden_size|n_embd|num_hidden_layers|n_layer|num_attention_heads|"
      .. "num_key_value_heads|intermediate_size|head_dim|vocab_size|num_experts|num_local_experts|tie_word_embeddings|"
      .. "hidden_act|rms_norm_eps|rope_theta|rope_scaling|rope_scaling.*|rope_parameters|rope_parameters.*|"
      .. "quantization_config|quantization_config.*|total_size|text_config.*|gguf.general.architecture|"
      .. "gguf.general.file_type|gguf.general.name|gguf.*.block_count|gguf.*.embedding_length|"
      .. "gguf.*.attention.head_count|gguf.*.rope.freq_base|gguf.*.rope.scaling.*" },
  { name = "tokenizer", symptom = "sides-tokenizer-differs",
    keys = "tokenizer.vocab_size|tokenizer.base_vocab_size|tokenizer.largest_id|tokenizer.merges|tokenizer.type|"
      .. "tokenizer.pre_tokenizer*|tokenizer.normalizer*|tokenizer.added_tokens.*|gguf.tokenizer.ggml.model|"
      .. "gguf.tokenizer.ggml.pre|gguf.tokenizer.ggml.tokens.count|gguf.tokenizer.ggml.merges.count" },
  { name = "template", symptom = "sides-template-differs",
    keys = "tokenizer.chat_template|tokenizer.chat_template.0|tokenizer.bos_token|tokenizer.eos_token|"
      .. "tokenizer.add_bos_token|tokenizer.add_eos_token|tokenizer.template.*|gguf.tokenizer.chat_template|"
      .. "gguf.tokenizer.ggml.add_bos_token|gguf.tokenizer.ggml.*_token_id" },
  { name = "decoding", symptom = "sides-decoding-differs",
    keys = "generation.*|torch_dtype|dtype|attn_implementation|_attn_implementation|max_position_embeddings|"
      .. "sliding_window|tokenizer.padding_side|tokenizer.model_max_length|tokenizer.truncation*" },
}

--- A value for a message.
local function brief(value)
  if #value > 60 then value = value:sub(1, 57) .. "..." end
  return "'" .. value:replace("\n", "\\n") .. "'"
end

--- Where two texts part, and the next characters of each.
local function parting(a, b)
  local low, high = 0, math.min(#a, #b)
  while low < high do
    local middle = (low + high + 1) // 2
    if a:sub(1, middle) == b:sub(1, middle) then low = middle else high = middle - 1 end
  end
  return low, a:sub(low + 1, low + 40), b:sub(low + 1, low + 40)
end

--- The settings of one question as key and row; the first row of a key, as files are read in the order of their names.
local function settings(rows, keys)
  local out, count = {}, 0
  for row in rows:where("match(key, ?) and value is not null", keys):slice(0, 10000):rows() do
    local skipped = row.key:ends_with("transformers_version") or row.key:ends_with("_from_model_config")
    if not out[row.key] and not skipped then out[row.key], count = row, count + 1 end
  end
  return out, count
end

--- The first setting that differs, how many do and how many were compared.
local function differing(a, b)
  local first, differ, compared = nil, 0, 0
  for key, row in pairs(a) do
    local other = b[key]
    if other then
      compared = compared + 1
      if other.value ~= row.value and not (row.number and row.number == other.number) then
        differ, first = differ + 1, first or key
      end
    end
  end
  return first, differ, compared
end

--- What differs among the names, sizes and types of weights; nil when nothing does or a side has none.
local function weights(case, left, right)
  local function of(run)
    return case.tensors:where("run == ? and role == 'weight' and step is null", run):select("name", "numel", "dtype")
      :distinct("name")
  end
  local a, b = of(left), of(right)
  if a:count() == 0 or b:count() == 0 then return nil, 0 end
  local missing = a:join(b, { "name" }, "left"):where("dtype_right is null")
  local extra   = b:join(a, { "name" }, "left"):where("dtype_right is null")
  if missing:count() + extra:count() > 0 then
    local row = missing:first() or extra:first()
    return ("%d weights of one side have no partner on the other, %s first"):format(missing:count() + extra:count(),
      row.name), a:count(), row
  end
  local both = a:join(b, { "name" })
  local size, kind = both:where("numel != numel_right"), both:where("dtype != dtype_right")
  if size:count() > 0 then
    return ("%d weights differ in size, %s first"):format(size:count(), size:first().name), a:count(), size:first()
  end
  if kind:count() > 0 then
    local row = kind:first()
    return ("%d weights differ in type, %s first: %s and %s"):format(kind:count(), row.name, row.dtype,
      row.dtype_right), a:count(), row
  end
  return nil, a:count()
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Two model folders of one case differ in checkpoint, tokenizer, template or decoding",
  needs    = { config = { "key", "value", "source" } },
  symptoms = { "sides-checkpoint-differs", "sides-tokenizer-differs", "sides-template-differs",
    "sides-decoding-differs" },

  run = function(case)
    local sides = {}
    for run, rows in case.config:where("match(key, 'model_type|architectures|tokenizer.*|generation.*|gguf.*')")
      :group("run") do
      if not name_of(run):lower():glob(MEANT) then sides[#sides + 1] = { run = run, rows = rows } end
    end
    if #sides ~= 2 then return skip("two model folders, such as those of training and serving, in one case") end
    local left, right = sides[1], sides[2]
    local a_rows, b_rows = case.config:where { run = left.run }, case.config:where { run = right.run }
    local same, unknown = {}, {}
    for number, question in ipairs(QUESTIONS) do
      local a, a_count = settings(a_rows, question.keys)
      local b, b_count = settings(b_rows, question.keys)
      local key, differ, compared = differing(a, b)
      local message, evidence
      if key then
        local x, y = a[key], b[key]
        evidence = { x, y }
        if #x.value > 60 and #y.value > 60 then
          local at, here, there = parting(x.value, y.value)
          message = ("%s parts after %s: %s and %s"):format(key, units.plural(at, "character"), brief(here),
            brief(there))
        else
          message = ("%s is %s and %s"):format(key, brief(x.value), brief(y.value))
        end
        if differ > 1 then message = message .. (differ == 2 and ", and 1 more setting differs"
          or (", and %d more settings differ"):format(differ - 1)) end
      elseif question.name == "checkpoint" then
        local what, count, row = weights(case, left.run, right.run)
        message, evidence = what, row and { row } or {}
        compared = compared + (count > 0 and 1 or 0)
      elseif question.name == "template" and a_count > 0 and b_count > 0 then
        -- A template that only one side has: the other one uses a default or none.
        local one, two = a["tokenizer.chat_template"] or a["tokenizer.chat_template.0"],
          b["tokenizer.chat_template"] or b["tokenizer.chat_template.0"]
        if one and not two or two and not one then
          message  = ("only %s has a chat template"):format(name_of(one and left.run or right.run))
          evidence = { one or two }
        end
      end
      if message then
        for later = number + 1, #QUESTIONS do
          local c, d = settings(a_rows, QUESTIONS[later].keys), settings(b_rows, QUESTIONS[later].keys)
          if differing(c, d) then message = message .. ("; %s differs as well"):format(QUESTIONS[later].name) end
        end
        if #same > 0 then message = message .. ("; equal: %s"):format(table.concat(same, ", ")) end
        if #unknown > 0 then message = message .. ("; not known: %s"):format(table.concat(unknown, ", ")) end
        return report {
          symptom = question.symptom, score = 0.95, severity = "warning",
          message = ("%s and %s, %s: %s"):format(name_of(left.run), name_of(right.run), question.name, message),
          evidence = evidence,
        }
      end
      local list = compared > 0 and same or unknown
      list[#list + 1] = question.name
    end
    if #unknown > 0 then
      skip(("for the questions of %s the files of both sides (config.json, tokenizer.json, tokenizer_config.json, "
        .. "generation_config.json)"):format(table.concat(unknown, ", ")))
    end
  end,
}
