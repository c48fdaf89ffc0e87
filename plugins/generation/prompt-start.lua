--- ## What it detects
--- Prompts as the engine has them, by their text or their ids, that begin without the first token that the tokenizer's
--- own template puts in front, or with it twice.
---
--- ## Why it matters
--- The first token is where attention rests; a model that never saw a text without it answers worse, and nothing fails.
---
--- ## How to confirm
--- Send one prompt as ids with the token in front, and compare the answers and their log probabilities.
---
--- ## Known false positives
--- Only prompts of an engine, of an endpoint that takes them as they are, or recorded as tokens count: what a client
--- sends has no template yet. Models without a first token have none in their template either.
---
--- ## References
--- https://huggingface.co/docs/transformers/chat_templating (special tokens in templates)

local ROWS = 5000

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Prompts lack the first token, or have it twice",
  needs    = { config = { "value", key = "tokenizer.bos_token" }, any = { requests = { "prompt" },
    tokens = { "request", "position", part = "prompt" } } },
  symptoms = { "chat-bos-missing", "chat-bos-doubled" },
  options  = {
    share = { default = 0.9, doc = "Share of prompts that must begin so" },
    min   = { default = 3,   doc = "Prompts below which nothing is said" },
  },

  run = function(case)
    local opt  = case.options
    local bos  = case.config:where("key == 'tokenizer.bos_token' and value is not null"):first()
    local text = bos and bos.value
    if not text or text == "" then return skip("tokenizer_config.json with a bos_token") end
    local template = case.config:where { key = "tokenizer.chat_template" }:first()
    local adds     = case.config:where { key = "tokenizer.add_bos_token" }:first()
    local by_template = template and template.value
      and (template.value:contains("bos_token") or template.value:contains(text))
    if not by_template and not (adds and adds.value == "true") then
      return skip("a chat_template that names bos_token, or add_bos_token: true")
    end
    local number
    for row in case.config:where("match(key, 'tokenizer.added_tokens.*') and value == ?", text):rows() do
      number = row.key:numbers()[1]
    end

    ---@type integer, integer, integer, culprit.Row?, culprit.Row?
    local all, lacks, twice, first_lack, first_twice = 0, 0, 0, nil, nil
    local function judge(missing, doubled, row)
      all = all + 1
      if missing then lacks, first_lack = lacks + 1, first_lack or row end
      if doubled then twice, first_twice = twice + 1, first_twice or row end
    end
    local counted, what = {}, "texts"
    local prompts = case.tokens:where("part == 'prompt' and position < 2"):slice(0, 2 * ROWS)
    if prompts:count() > 0 and (prompts:count("text") > 0 or number) then
      what = "ids"
      for id, rows in prompts:group("request") do
        rows = rows:sort("position")
        local a, b = rows:row(0), rows:row(1)
        -- By the id, where the tokenizer's table names it; a text may be shown without special tokens.
        local function is(row)
          if row == nil then return false end
          if number and row.id then return row.id == number end
          return row.text == text
        end
        counted[id] = true
        judge(not is(a), is(a) and is(b), a)
      end
    end
    -- A template puts the token down as text; add_bos_token adds it to the ids alone, which the text does not show.
    if all == 0 and by_template then
      local raw = case.requests:where("prompt is not null and (match(hop, 'engine') or match(endpoint, '*/generate|"
        .. "*/completion|*/completions') and not match(endpoint, '*chat/completions'))")
      for row in raw:slice(0, ROWS):rows() do
        judge(not row.prompt:starts_with(text), row.prompt:starts_with(text .. text), row)
      end
    end
    if all == 0 then
      return skip("prompts as the engine has them: vLLM's request log, prompt_logprobs, or TGI's prefill details")
    end
    local function say(symptom, n, row, how, more)
      report {
        symptom = symptom, score = math.min(0.97, 0.85 + 0.01 * n),
        at = { name = what == "texts" and row.id or row.request, token = 0 },
        message = ("%d of %s %s \"%s\"%s, by their %s; the tokenizer's %s puts it in front once%s"):format(n,
          units.plural(all, "prompt"), how, text, number and (" (id %d)"):format(number) or "", what,
          by_template and "chat template" or "add_bos_token", more),
        evidence = { row, template or adds },
      }
    end
    if lacks >= opt.min and lacks >= opt.share * all then
      local starts = what == "texts" and first_lack.prompt:sub(1, 24):replace("\n", "\\n") or nil
      say("chat-bos-missing", lacks, first_lack, "begin without",
        starts and (": the first one begins with \"%s\""):format(starts)
        or (": the first one begins with id %s"):format(tostring(first_lack.id)))
    elseif twice >= opt.min and twice >= opt.share * all then
      say("chat-bos-doubled", twice, first_twice, "begin twice with", "")
    end
  end,
}
