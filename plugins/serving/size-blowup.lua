--- ## What it detects
--- Prompts with many times the tokens that texts of their length have: more than a token a byte, which no text costs
--- by itself. Where the tokens are recorded, the id that fills the prompt; else the marker that the texts share. Also
--- one token in a long row within a recorded prompt.
---
--- ## Why it matters
--- Attention and cache grow with the tokens: one such prompt in a batch runs the device out of memory for all.
---
--- ## How to confirm
--- Tokenize one such text alone, and again without the marker, and compare the counts.
---
--- ## Known false positives
--- Images are hundreds of tokens behind one marker: prompts that name one are left out. Base64, emoji and rare scripts
--- stay below a token a byte. A long system prompt is the same for all and is taken off. Where some prompts have it, or
--- tools beside them, and their texts differ in length, each has as many tokens more: no text makes that of itself.
--- Padding stands at an end.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/tokenizer (special tokens)

local ROWS = 10000
local MEDIA = { "<image", "image_url", "<|image", "<|vision", "<img", "<audio", "<|audio", "<video", "[IMG", "<|media" }

--- The markers of a text, <|...|>, <...> and [...], each once.
local function markers(text)
  local out, seen, from = {}, {}, 1
  for _ = 1, 200 do
    local a, b = text:index("<", from), text:index("[", from)
    local at = a and b and math.min(a, b) or a or b
    if not at then break end
    local stop = text:index(text:sub(at, at) == "<" and ">" or "]", at)
    if not stop then break end
    local marker = text:sub(at, stop)
    if #marker >= 3 and #marker <= 40 and not marker:contains(" ") and not seen[marker] then
      seen[marker] = true
      table.insert(out, marker)
    end
    from = at + 1
  end
  return out
end

--- The longest run of one id within a prompt, not at its ends: id, text, first position, length.
local function longest_run(prompt)
  local ids, best = prompt:sort("position"):slice(0, ROWS):col("id"):values(), nil
  local from = 1
  for i = 2, #ids + 1 do
    if ids[i] ~= ids[from] then
      if ids[from] and from > 1 and i <= #ids and (not best or i - from > best.length) then
        best = { id = ids[from], from = from - 1, length = i - from }
      end
      from = i
    end
  end
  return best, #ids
end

--- The tokens that three texts and more of different lengths all have beyond what they explain, to a twentieth; nil
--- where they differ. What a text makes of itself differs with it.
local function added(prompts, excess)
  local least, most, short, long = math.huge, 0, math.huge, 0
  for _, text in ipairs(prompts) do
    least, most = math.min(least, excess(text)), math.max(most, excess(text))
    short, long = math.min(short, text.bytes), math.max(long, text.bytes)
  end
  return #prompts >= 3 and long >= 1.2 * short and most - least <= 0.05 * most and math.floor((least + most) / 2) or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A few prompts have far more tokens than their text",
  needs    = { any = { requests = { "prompt_tokens", "prompt" }, tokens = { "request", "id", part = "prompt" } } },
  symptoms = { "tokens-per-character-blowup", "special-token-run" },
  options  = {
    times  = { default = 4,   doc = "Times the median tokens a byte" },
    excess = { default = 256, doc = "Tokens beyond what the text explains" },
    run    = { default = 64,  doc = "Tokens of one id in a row worth reporting" },
    min    = { default = 8,   doc = "Requests below which there is no median to compare with" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local sized = case.requests:where("prompt is not null and prompt_tokens > 0")
    local fixed, ratios, texts = sized:min("prompt_tokens"), {}, {}
    for row in sized:slice(0, ROWS):rows() do
      local bytes, media = #row.prompt, false
      for _, word in ipairs(MEDIA) do media = media or row.prompt:contains(word) end
      -- Readers keep 64 KiB of a prompt: of a longer one the size is not known.
      if bytes >= 20 and bytes < 65000 and not media then
        local ratio = (row.prompt_tokens - fixed) / bytes
        table.insert(ratios, ratio)
        table.insert(texts, { row = row, ratio = ratio, bytes = bytes })
      end
    end
    local prompts, worst, rows = {}, nil, {}
    if #texts >= opt.min then
      judged = true
      table.sort(ratios)
      local median, others = math.max(ratios[#ratios // 2 + 1], 0.02), {}
      for _, text in ipairs(texts) do
        if text.ratio > math.max(1, opt.times * median)
          and text.row.prompt_tokens - fixed - median * text.bytes >= opt.excess then
          table.insert(prompts, text)
          if #rows < 5 then table.insert(rows, text.row) end
          if not worst or text.ratio > worst.ratio then worst = text end
        else
          table.insert(others, text)
        end
      end
      if worst then
        -- The marker that these texts share and the others lack.
        local shared
        for _, marker in ipairs(markers(worst.row.prompt)) do
          local with, without = 0, 0
          for _, text in ipairs(prompts) do if text.row.prompt:contains(marker) then with = with + 1 end end
          for _, text in ipairs(others) do if not text.row.prompt:contains(marker) then without = without + 1 end end
          local value = with / #prompts + without / #others
          if value > 1.5 and (not shared or value > shared.value) then
            shared = { marker = marker, with = with, value = value, others = #others - without }
          end
        end
        local beside = not shared and added(prompts, function(text)
          return text.row.prompt_tokens - fixed - median * text.bytes
        end)
        if beside then
          skip(("prompts with all that was sent: %d have some %s tokens more each, however long their texts are, as "
            .. "what stands beside these has"):format(#prompts, units.count(beside)), "tokens-per-character-blowup")
        else
          report {
            symptom = "tokens-per-character-blowup",
            score = math.min(0.97, 0.8 + 0.01 * worst.ratio / median + (shared and 0.1 or 0)),
            at = { name = worst.row.id },
            message = ("%d of %s have %.0f times the tokens of other texts of their length or more: %s tokens for %s "
              .. "bytes%s, where %s is usual%s"):format(#prompts, units.plural(#texts, "prompt"), opt.times,
              units.count(worst.row.prompt_tokens), units.count(worst.bytes),
              worst.row.id and (" in " .. worst.row.id) or "",
              units.plural(math.floor(median * worst.bytes + fixed), "token"),
              shared and ("; %d of these %d hold \"%s\", and %d of the %d others"):format(shared.with, #prompts,
                shared.marker, shared.others, #others) or ""),
            evidence = rows,
          }
        end
      end
    end

    local recorded = case.tokens:where("part == 'prompt' and id is not null"):slice(0, 1000000)
    local longest, whose, of
    if recorded:distinct("request"):count() > 5000 then recorded = recorded:slice(0, 200000) end
    for id, prompt in recorded:group("request") do
      judged = true
      local run, count = longest_run(prompt)
      if run and (not longest or run.length > longest.length) then longest, whose, of = run, id, count end
    end
    if longest and longest.length >= opt.run then
      local row = recorded:where { request = whose, position = longest.from }:first()
        or recorded:where { request = whose }:first()
      local named = case.config:where { key = ("tokenizer.added_tokens.%d"):format(longest.id) }:first()
      local text  = named and named.value or row.text
      -- Blank space and rules are long in many documents.
      local plain = text and text:trim():replace("-", ""):replace("=", ""):replace("*", ""):replace("_", "")
        :replace(".", ""):replace("#", "") == ""
      if not plain or longest.length >= 0.5 * of then
        report {
          symptom = "special-token-run", score = named and 0.95 or 0.85,
          at = { name = whose, token = longest.from },
          message = ("the prompt of %s holds id %d%s %s times in a row from token %d on, %s of its %s"):format(whose,
            longest.id, text and (" (\"%s\")"):format(text:replace("\n", "\\n")) or "", units.count(longest.length),
            longest.from, units.percent(longest.length / of), units.plural(of, "token")),
          evidence = { recorded:where { request = whose, id = longest.id }:slice(0, 3), named or row },
        }
      end
    end
    if not judged then skip(("%d prompts with their text and prompt_tokens, or their token ids"):format(opt.min)) end
  end,
}
