--- ## What it detects
--- Prompts as training and as serving rendered them (`requests.prompt` or the prompt tokens of `tokens`, variants
--- `train` and `serve`), pair by pair: the first token missing or doubled, the marker that opens the answer missing, a
--- system prompt on one side alone, other white space, another token at the ends of turns, other markers.
---
--- ## Why it matters
--- A model answers well only to the very tokens that it was trained on; one missing or doubled token costs points and
--- raises nothing.
---
--- ## How to confirm
--- Render one conversation on both sides and compare the ids.
---
--- ## Known false positives
--- A system prompt that serving adds on purpose. Prompts that one side recorded as messages and the other as rendered
--- text are not compared.
---
--- ## References
--- https://huggingface.co/docs/transformers/chat_templating

local prefixes = require("prefixes")

local FIRST = { "<|begin_of_text|>", "<|startoftext|>", "<|begin▁of▁sentence|>", "<｜begin▁of▁sentence｜>", "<s>",
  "<bos>", "[CLS]", "[gMASK]" }
local ENDS  = { "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>", "<eos>", "</s>",
  "<|end|>", "<|eom_id|>", "<|endofturn|>", "<｜end▁of▁sentence｜>" }
local PAIRS_AT_MOST = 200

local function brief(text)
  if #text > 40 then text = text:sub(1, 37) .. "..." end
  return "'" .. text:replace("\n", "\\n") .. "'"
end

--- A text without any white space.
local function squeezed(text)
  return (text:replace(" ", ""):replace("\n", ""):replace("\t", ""):replace("\r", ""))
end

local function starting(text)
  for _, mark in ipairs(FIRST) do
    if text:starts_with(mark) then return mark end
  end
end

local function has_end(text)
  for _, mark in ipairs(ENDS) do
    if text:contains(mark) then return mark end
  end
end

--- What differs between two rendered texts: symptom and words, or nil.
local function compare_texts(a, b)
  if a == b then return end
  local mark = starting(a)
  if mark and not starting(b) then
    local rest = a:sub(#mark + 1)
    if rest == b or rest:sub(1, 8) == b:sub(1, 8) then
      return "chat-bos-missing", ("serving leaves out the first token of training, %s"):format(brief(mark))
    end
  end
  if mark and b:starts_with(mark .. mark) and not a:starts_with(mark .. mark) then
    return "chat-bos-doubled", ("serving begins with the first token of training, %s, twice"):format(brief(mark))
  end
  local n = prefixes.agreeing(math.min(#a, #b), function(k) return a:sub(1, k) == b:sub(1, k) end)
  local m = prefixes.agreeing(math.min(#a, #b) - n, function(k) return k == 0 or a:sub(-k) == b:sub(-k) end)
  local own, other = a:sub(n + 1, #a - m), b:sub(n + 1, #b - m)
  local where = ("from character %d on"):format(n + 1)
  if squeezed(a) == squeezed(b) then
    return "chat-markers-differ", ("training and serving differ in white space alone, first at character %d: training "
      .. "has %s there and serving %s"):format(n + 1, brief(a:sub(n + 1, n + 20)), brief(b:sub(n + 1, n + 20)))
  end
  if n == #b then
    return "chat-opener-missing", ("the prompt of serving ends where training goes on with %s, the marker that opens "
      .. "the answer"):format(brief(a:sub(n + 1)))
  end
  local lone = other == "" and own or own == "" and other or ""
  if lone:lower():contains("system") or lone:contains("<<SYS>>") then
    return "chat-markers-differ", ("the system prompt is there in %s alone: %s, %s"):format(
      other == "" and "training" or "serving", brief(lone), where)
  end
  -- The end of a turn may share its first characters with the other side's.
  local from = math.max(1, n - 18)
  local end_a, end_b = has_end(a:sub(from, n + 24)), has_end(b:sub(from, n + 24))
  if end_a and end_b and end_a ~= end_b then
    return "chat-markers-differ", ("training ends a turn with %s and serving with %s, first near character %d"):format(
      end_a, end_b, n + 1)
  end
  return "chat-markers-differ", ("training and serving render the same messages differently %s: %s against %s"):format(
    where, brief(own ~= "" and own or a:sub(n + 1, n + 20)), brief(other ~= "" and other or b:sub(n + 1, n + 20)))
end

--- The prompt tokens of one request as a list of ids (or texts) and one of texts.
local function tokens_of(rows)
  local units, texts = {}, {}
  for row in rows:sort("position"):slice(0, 10000):rows() do
    units[#units + 1] = row.id or row.text or ""
    texts[#texts + 1] = row.text or ""
  end
  return units, texts
end

local function named(units, texts, i)
  if not units[i] then return "nothing" end
  local id = type(units[i]) == "number" and ("id %d"):format(units[i])
  if texts[i] == "" then return id or "''" end
  return id and ("%s, %s"):format(id, brief(texts[i])) or brief(texts[i])
end

--- The same of two lists of tokens.
local function compare_tokens(a, b, text_a, text_b)
  local function agree(i, j)
    local n = 0
    while a[i + n] ~= nil and a[i + n] == b[j + n] do n = n + 1 end
    return n
  end
  local n = agree(1, 1)
  if n == #a and n == #b then return end
  if n == 0 and agree(2, 1) >= math.min(3, #b) then
    return "chat-bos-missing", ("serving leaves out the first token of training, %s"):format(named(a, text_a, 1))
  end
  if n == 1 and b[2] == a[1] and agree(2, 3) >= math.min(3, #a - 1) then
    return "chat-bos-doubled", ("serving begins with the first token of training, %s, twice"):format(
      named(a, text_a, 1))
  end
  local text_of_a, text_of_b = table.concat(text_a), table.concat(text_b)
  if text_of_a ~= "" and squeezed(text_of_a) == squeezed(text_of_b) then
    local what = text_of_a == text_of_b and "the same text is split differently" or "white space alone differs"
    return "chat-markers-differ", ("%s, first at token %d: %s in training and %s in serving"):format(what, n,
      named(a, text_a, n + 1), named(b, text_b, n + 1))
  end
  if n == #b then
    return "chat-opener-missing", ("the prompt of serving ends where training goes on for %d tokens (%s first), the "
      .. "marker that opens the answer"):format(#a - n, named(a, text_a, n + 1))
  end
  local m = 0
  while m < math.min(#a, #b) - n and a[#a - m] == b[#b - m] do m = m + 1 end
  local more_a, more_b = #a - n - m, #b - n - m
  if (more_a == 0 or more_b == 0) and more_a + more_b >= 3 then
    local more, text = more_a > 0 and a or b, more_a > 0 and text_a or text_b
    local words = table.concat(text, "", n + 1, n + more_a + more_b)
    -- Without texts the place tells: right behind the first markers.
    if words:lower():contains("system") or words:contains("<<SYS>>") or (words == "" and n <= 4) then
      return "chat-markers-differ", ("the system prompt is there in %s alone: %d tokens from token %d on (%s first)")
        :format(more_a > 0 and "training" or "serving", more_a + more_b, n, named(more, text, n + 1))
    end
  end
  -- One token in place of another wherever it stands.
  if #a == #b then
    local swaps, single = 0, true
    for i = n + 1, #a do
      if a[i] ~= b[i] then
        swaps, single = swaps + 1, single and a[i] == a[n + 1] and b[i] == b[n + 1]
      end
    end
    if single then
      local ends = has_end(text_a[n + 1]) or has_end(text_b[n + 1])
      return "chat-markers-differ", ("%s: %s in training is %s in serving, %d times, first at token %d"):format(
        ends and "another token ends turns" or "one token takes the place of another", named(a, text_a, n + 1),
        named(b, text_b, n + 1), swaps, n)
    end
  end
  return "chat-markers-differ", ("training and serving render the same messages to different tokens from token %d on: "
    .. "%s against %s"):format(n, named(a, text_a, n + 1), named(b, text_b, n + 1))
end

--- Whether a prompt is messages joined by culprit and no rendered text.
local function is_joined(text)
  for _, role in ipairs { "system: ", "user: ", "assistant: " } do
    if text:starts_with(role) then return true end
  end
  return false
end

--- Rows of one request on each side, by id; a lone request on either side is a pair whatever its id.
local function pairs_of(train, serve, key)
  local out, others, count = {}, {}, 0
  for _, rows in serve:group(key) do
    others[rows:first()[key]], count = rows, count + 1
  end
  local own = 0
  for id, rows in train:group(key) do
    own = own + 1
    if #out < PAIRS_AT_MOST and others[id] then out[#out + 1] = { rows, others[id] } end
  end
  if #out == 0 and own == 1 and count == 1 then out[1] = { train, serve } end
  return out
end

local ORDER = { "chat-bos-missing", "chat-bos-doubled", "chat-opener-missing", "chat-markers-differ" }

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Recorded prompts of training and of serving are rendered differently",
  needs    = { any = { requests = { "prompt", "variant" }, tokens = { "variant", part = "prompt" } } },
  symptoms = { "chat-bos-missing", "chat-bos-doubled", "chat-opener-missing", "chat-markers-differ" },
  options  = {
    share = { default = 0.5, doc = "Share of the prompts that have to differ in one way" },
  },

  run = function(case)
    local found, compared = {}, 0
    local function take(symptom, words, a, b)
      compared = compared + 1
      if not symptom then return end
      local known = found[symptom] or { n = 0, words = words, rows = { a, b } }
      known.n, found[symptom] = known.n + 1, known
    end
    local tokens = case.tokens:where("part == 'prompt' and request is not null")
    local both   = pairs_of(tokens:where { variant = "train" }, tokens:where { variant = "serve" }, "request")
    for _, pair in ipairs(both) do
      local a, text_a = tokens_of(pair[1])
      local b, text_b = tokens_of(pair[2])
      local symptom, words = compare_tokens(a, b, text_a, text_b)
      take(symptom, words, pair[1]:slice(0, 3), pair[2]:slice(0, 3))
    end
    -- Tokens say it best; texts are asked where there are none.
    if compared == 0 then
      local texts = case.requests:where("prompt is not null and id is not null")
      both = pairs_of(texts:where { variant = "train" }, texts:where { variant = "serve" }, "id")
      for _, pair in ipairs(both) do
        local a, b = pair[1]:first(), pair[2]:first()
        if is_joined(a.prompt) == is_joined(b.prompt) then
          local symptom, words = compare_texts(a.prompt, b.prompt)
          take(symptom, words, a, b)
        end
      end
    end
    if compared == 0 then
      return skip("the same prompts as training and as serving rendered them: responses with prompt tokens, or "
        .. "prompts, in folders train/ and serve/")
    end
    for _, symptom in ipairs(ORDER) do
      local seen = found[symptom]
      if seen and seen.n >= case.options.share * compared then
        report {
          symptom = symptom, score = 0.95,
          message = compared == 1 and seen.words
            or ("in %d of %d prompts %s"):format(seen.n, compared, seen.words),
          evidence = seen.rows,
        }
      end
    end
  end,
}
