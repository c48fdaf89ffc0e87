--- ## What it detects
--- Files of one model folder that contradict each other about its tokens: ids without a row in the embedding, a table
--- far larger than the tokenizer, end tokens that generation does not stop at, ids of special tokens that differ
--- between files, a first token that template and tokenizer both add, a chat template that never opens the answer,
--- and splits of text that are known to be wrong.
---
--- ## Why it matters
--- The files are copied, converted and edited one by one, and nothing checks them together. The weights are right and
--- the answers are not: they run on past their end, or begin in a state that the model never saw.
---
--- ## How to confirm
--- Render one conversation with the template, encode it as the server does, print the ids with their texts; compare
--- the last id of a training row with `generation_config.eos_token_id`.
---
--- ## Known false positives
--- A base model that ships the chat template of its sibling does not end turns. Placeholders of images or sounds may
--- lie beyond the table of a text model and are left out. A part of a table that is split over devices is left out
--- too.
---
--- ## References
--- https://huggingface.co/docs/transformers/chat_templating, https://github.com/ggml-org/llama.cpp/pull/6920

-- Tokens that templates end a turn with.
local TURN_ENDS = { "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|eot|>", "<|END_OF_TURN_TOKEN|>",
  "<|end_of_turn|>", "<|endofturn|>", "<|return|>", "[|endofturn|]", "<|eom_id|>", "<turn|>",
  "<|role_end|>" }
-- Tokens that open a turn, whose role the template has to write before the answer.
local OPENERS = { "<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|assistant|>", "<|start_of_role|>",
  "<|header_start|>", "<|START_OF_TURN_TOKEN|>" }
local TABLES = "*embed_tokens.weight|*wte.weight|*word_embeddings.weight|*tok_embeddings.weight|*embed_in.weight|"
  .. "token_embd.weight|shared.weight"
local PLACEHOLDERS = "*image*|*audio*|*video*|*vision*|*img*|*boi*|*eoi*|*speech*"

local function has(list, value)
  for _, v in ipairs(list) do
    if v == value then return true end
  end
  return false
end

--- The row of a key; of a tokenizer's, that of tokenizer_config.json where several files have one.
local function row_of(rows, key)
  local found = rows:where { key = key }:where("value != 'null'")
  return found:where("match(source, '*tokenizer_config.json*')"):first() or found:first()
end

--- Ids as a list, from `2` or `[1, 2]`.
local function ids_of(row)
  return row and row.value:numbers() or {}
end

--- The id of an added token, by its text.
local function id_of(rows, text)
  local row = rows:where("match(key, 'tokenizer.added_tokens.*')"):where { value = text }:first()
  return row and tonumber((row.key:replace("tokenizer.added_tokens.", "")))
end

local function list(ids)
  local out = {}
  for i, id in ipairs(ids) do out[i] = ("%d"):format(id) end
  return table.concat(out, ", ")
end

local function say(symptom, score, message, evidence, severity)
  report { symptom = symptom, score = score, message = message, evidence = evidence, severity = severity }
end

--- Ids against the rows of the embedding and both against the config.
local function check_sizes(case, run, rows, opt)
  local weight = case.tensors:where { run = run }:where("match(name, ?) and not match(name, '*pos*')", TABLES):first()
  local height = weight and #weight.shape == 2 and math.floor(weight.shape[1]) or nil
  local vocab  = row_of(rows, "vocab_size") or row_of(rows, "text_config.vocab_size")
  local size   = vocab and vocab.number
  if height and size and height < size and size % height == 0 then height = nil end -- one device's part
  if height and size and height ~= size then
    say("config-vocab-differs", 0.95, ("%s of the config is %d, and the table of the checkpoint has %d rows (%s)")
      :format(vocab.key, size, height, weight.name), { vocab, weight })
  end
  local ids, first = rows:where { key = "tokenizer.largest_id" }:first(), "the tokenizer"
  local largest = ids and ids.number
  if not ids then
    ids = rows:where { key = "gguf.tokenizer.ggml.tokens.count" }:first()
    largest, first = ids and ids.number - 1, "the tokenizer of the GGUF file"
  end
  local limit = height or size
  if not largest or not limit then return end
  local from = height and weight.name or vocab.key .. " of the config"
  if largest >= limit then
    local beyond, telling = 0, false
    for added in rows:where("match(key, 'tokenizer.added_tokens.*') and not match(key, '*.special') and match(source, "
      .. "'*tokenizer.json*')"):slice(0, 10000):rows() do
      local id = tonumber((added.key:replace("tokenizer.added_tokens.", "")))
      if id and id >= limit then
        beyond  = beyond + 1
        telling = telling or not added.value:lower():glob(PLACEHOLDERS)
      end
    end
    if beyond == 0 or telling then
      say("tokenizer-exceeds-table", 0.95, ("%s has ids up to %d, and there are %d rows (%s)"):format(first, largest,
        limit, from), { ids, height and weight or vocab })
    end
  elseif limit > opt.spare * (largest + 1) and limit > largest + 1024 then
    say("tokenizer-far-below-table", 0.85, ("%s has ids up to %d, and there are %d rows (%s): padding of a table is "
      .. "below %s, so this may be the tokenizer of another model"):format(first, largest, limit, from,
      units.percent(opt.spare - 1)), { ids, height and weight or vocab })
  end
end

--- What generation stops at against what the template ends a turn with. Ids are told apart by `texts`.
local function check_ends(rows, template, eos, eos_id)
  local generation, model = row_of(rows, "generation.eos_token_id"), row_of(rows, "eos_token_id")
  local stop = generation or model
  if not stop then return end
  local ids, strings = ids_of(stop), row_of(rows, "generation.stop_strings")
  if template and not strings then
    local text, lacking = template.value, nil
    local found = false
    for _, mark in ipairs(TURN_ENDS) do
      local id = text:contains(mark) and id_of(rows, mark)
      -- A message may have several parts, of which only the last ends the answer.
      if id and not (mark == "<|end|>" and text:contains("<|return|>")) then
        found   = found or has(ids, id)
        lacking = lacking or { mark = mark, id = id }
      end
    end
    if not lacking and eos_id and text:contains("eos_token") then
      lacking, found = { mark = eos.value, id = eos_id }, has(ids, eos_id)
    end
    if lacking and not found then
      local known = eos_id == lacking.id
      say("stop-set-lacks-turn-end", known and 0.85 or 0.95, ("the chat template ends a turn with %s (id %d), and "
        .. "%s is %s: generation does not stop there%s"):format(lacking.mark, lacking.id, stop.key, list(ids),
        known and " unless the server adds the tokenizer's own end token" or ""), { stop, template })
    end
  end
  if generation and model and #ids_of(model) > 0 then
    local common = false
    for _, id in ipairs(ids_of(model)) do common = common or has(ids, id) end
    if not common then
      return say("special-token-ids-differ", 0.85, ("generation_config.json ends at %s and config.json at %s"):format(
        list(ids), list(ids_of(model))), { generation, model })
    end
  end
  if eos_id and not has(ids, eos_id) then
    say("special-token-ids-differ", 0.85, ("the tokenizer's end token is %s (id %d), and %s is %s"):format(eos.value,
      eos_id, stop.key, list(ids)), { eos, stop })
  end
end

--- Whether the tokenizer itself puts the first token in front, and the row that says so.
local function adds_first(rows, bos)
  local flag = row_of(rows, "tokenizer.add_bos_token") or rows:where { key = "gguf.tokenizer.ggml.add_bos_token" }
    :first()
  if flag then return flag.value == "true" and flag or nil end
  local begin = row_of(rows, "tokenizer.template.begin")
  return begin and begin.value == bos and begin or nil
end

local function check_first(case, rows, template, bos)
  local adds = adds_first(rows, bos.value)
  local text = template.value:sub(1, 4000)
  if not adds or not (text:contains("bos_token") or text:contains(bos.value)) then return end
  say("bos-added-twice", 0.9, ("the chat template writes %s, and the tokenizer adds it too (%s): a text that is "
    .. "rendered first and encoded with special tokens then begins with it twice"):format(bos.value, adds.key),
    { template, adds }, "info")
end

--- Dumped rows or prompts that begin with the first token twice.
local function check_batch(case, bos_id)
  local seen, twice, first = 0, 0, nil
  for batch in case.tensors:where("match(name, '*input_ids') and match(dtype, 'int*') and zero_share is not null and "
    .. "not match(name, 'battery.*')"):slice(0, 64):rows() do
    local width = batch.shape[#batch.shape]
    if #batch.shape <= 2 and width >= 4 then
      for line = 0, math.min(batch.numel, 64 * width) - width, width do
        local ids, at = batch:values(line, math.min(width, 4096)), 1
        -- Padding in front may be any one id, the first token itself too: then nothing can be told.
        while ids[at] and ids[at] ~= bos_id and ids[at] == ids[1] do at = at + 1 end
        if ids[at] == bos_id then
          seen = seen + 1
          if ids[at + 1] == bos_id and ids[at + 2] ~= bos_id then
            twice, first = twice + 1, first or batch
          end
        end
      end
    end
  end
  if twice > 0 and 2 * twice >= seen then
    say("bos-twice-in-batch", 0.97, ("%d of %d dumped rows that begin with the first token, id %d, have it twice")
      :format(twice, seen, bos_id), { first })
  end
end

local function check_split(rows)
  local model = rows:where { key = "gguf.tokenizer.ggml.model" }:first()
  if model and model.value == "gpt2" then
    local pre = rows:where { key = "gguf.tokenizer.ggml.pre" }:first()
    if not pre or pre.value == "default" then
      say("pretokenizer-wrong", pre and 0.75 or 0.92, ("the GGUF file has a byte-level BPE and %s: text is split by a "
        .. "default that fits no such model"):format(pre and "tokenizer.ggml.pre is 'default'" or
        "no tokenizer.ggml.pre"), { pre or model })
    end
  end
  -- Mistral's Tekken splits words where the case changes; converted files had the pattern of Llama 3.
  local size, pattern = row_of(rows, "tokenizer.vocab_size"), row_of(rows, "tokenizer.pre_tokenizer.pattern")
  if size and pattern and size.number == 131072 and id_of(rows, "[INST]") and not pattern.value:contains("\\p{Lu}") then
    say("pretokenizer-wrong", 0.92, "the tokenizer is Mistral's Tekken (131072 ids, [INST]), and its pattern does not "
      .. "split words where the case changes, as that of training does", { pattern, size })
  end
end

local function check_folder(case, run, rows, opt)
  check_sizes(case, run, rows, opt)
  local template = row_of(rows, "tokenizer.chat_template") or row_of(rows, "tokenizer.chat_template.0")
  local eos, bos, pad = row_of(rows, "tokenizer.eos_token"), row_of(rows, "tokenizer.bos_token"),
    row_of(rows, "tokenizer.pad_token")
  check_ends(rows, template, eos, eos and id_of(rows, eos.value))
  for name, token in pairs({ bos = bos, pad = pad }) do
    local id, told = id_of(rows, token.value), row_of(rows, ("generation.%s_token_id"):format(name))
    if id and told and told.number and told.number ~= id then
      say("special-token-ids-differ", 0.6, ("the tokenizer's %s token is %s (id %d), and %s is %d"):format(name,
        token.value, id, told.key, told.number), { token, told }, "warning")
    end
  end
  if pad and eos and pad.value == eos.value then
    say("pad-is-eos", 0.95, ("padding and end are one token, %s: a loss mask by pad id also masks the ends of answers")
      :format(eos.value), { pad, eos }, "info")
  end
  if template then
    if bos then check_first(case, rows, template, bos) end
    local text, opener = template.value, nil
    for _, mark in ipairs(OPENERS) do
      if text:contains(mark) then opener = opener or mark end
    end
    if opener and text:contains("messages") and not text:contains("add_generation_prompt") then
      say("template-lacks-opener", 0.9, ("the chat template opens turns with %s and never asks for "
        .. "add_generation_prompt: the prompt ends before the answer's own opener"):format(opener), { template })
    end
  end
  check_split(rows)
  local bos_id = bos and id_of(rows, bos.value)
  if bos_id then check_batch(case, bos_id) end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Files of a model folder contradict each other about its tokens",
  needs    = { config = { "key", "value", "source" } },
  symptoms = { "tokenizer-exceeds-table", "tokenizer-far-below-table", "config-vocab-differs",
    "stop-set-lacks-turn-end", "special-token-ids-differ", "pad-is-eos", "bos-added-twice", "bos-twice-in-batch",
    "template-lacks-opener", "pretokenizer-wrong" },
  options  = {
    spare = { default = 1.1, doc = "Rows of a table for one id of the tokenizer that padding still explains" },
  },

  run = function(case)
    local any = false
    for run, rows in case.config:group("run") do
      if rows:where("match(key, 'tokenizer.*|gguf.tokenizer.*|generation.eos_token_id')"):count() > 0 then
        any = true
        check_folder(case, run, rows, case.options)
      end
    end
    if not any then
      skip("the tokenizer's files (tokenizer.json, tokenizer_config.json, generation_config.json) or a GGUF file")
    end
  end,
}
