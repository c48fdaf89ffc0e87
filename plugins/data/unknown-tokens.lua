--- ## What it detects
--- Token ids that stand for text the tokenizer does not know, in dumped batches and recorded prompts.
---
--- ## Why it matters
--- What became the unknown token is lost to the model: it is asked about a text that it does not see.
---
--- ## How to confirm
--- Encode one of the texts and decode the ids again: what comes back lacks what was lost.
---
--- ## Known false positives
--- Vocabularies of words or characters, which lose rare ones by design: then both the training and the reference
--- have them.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/tokenizer

local UNKNOWN = { "<unk>", "[UNK]", "<|unk|>", "⁇" }

--- The id of the unknown token, or nil. GPT-2's kind has none, and names the end token there.
local function unknown_id(case)
  local row = case.config:where("match(key, 'unk_token_id|*.unk_token_id|tokenizer.unk_id')")
    :where("number is not null"):first()
  if row then return math.floor(row.number), row end
  local text = case.config:where("key == 'tokenizer.unk_token' and value is not null"):first()
  if not text or text.value == "null" then return end
  local id = case.config:where("match(key, 'tokenizer.added_tokens.*')"):where { value = text.value }:first()
  if not id then return end
  return tonumber((id.key:replace("tokenizer.added_tokens.", ""))), text
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Much of the text is unknown to the tokenizer",
  needs    = { any = { tensors = { "name", "data" }, tokens = { "text", part = "prompt" } } },
  symptoms = { "unknown-tokens" },
  options  = {
    share = { default = 0.01, doc = "Share of unknown tokens worth reporting" },
    ids   = { default = 500,  doc = "Tokens below which a share says nothing" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local id, source  = unknown_id(case)
    local eos = case.config:where("match(key, '*eos_token_id|*pad_token_id|*bos_token_id') and number is not null")
    local own = id and eos:where("number == ?", id):count() == 0
    if own then
      local all, unknown, worst = 0, 0, nil
      for batch in case.tensors:where("match(name, '*input_ids') and match(dtype, 'int*') and zero_share is not null")
        :where("not match(name, 'battery.*')"):slice(0, 64):rows() do
        local n = batch:count_equal(id)
        all, unknown = all + batch.numel, unknown + n
        if n > 0 and (not worst or n / batch.numel > worst.share) then
          worst = { batch = batch, share = n / batch.numel }
        end
      end
      judged = judged or all >= opt.ids
      if all >= opt.ids and unknown >= opt.share * all then
        report {
          symptom = "unknown-tokens", score = 0.9, at = { step = worst.batch.step },
          message = ("%s of %s dumped token ids (%s) are the unknown token, id %d; at step %s they are %s"):format(
            units.count(unknown), units.count(all), units.percent(unknown / all), id, tostring(worst.batch.step),
            units.percent(worst.share)),
          evidence = { worst.batch, source },
        }
      end
    end

    local prompt = case.tokens:where("part == 'prompt' and text is not null")
    if prompt:count() >= opt.ids then
      judged = true
      local unknown = prompt:where { text = UNKNOWN }
      if unknown:count() >= opt.share * prompt:count() then
        report {
          symptom = "unknown-tokens", score = 0.9,
          message = ("%s of %s recorded prompt tokens (%s) are the unknown token, %s"):format(
            units.count(unknown:count()), units.count(prompt:count()),
            units.percent(unknown:count() / prompt:count()), unknown:first().text),
          evidence = { unknown:slice(0, 5) },
        }
      end
    end

    if not judged then
      skip(("%d dumped token ids and the id of the unknown token (unk_token_id, tokenizer files), or %d prompt tokens")
        :format(opt.ids, opt.ids))
    end
  end,
}
