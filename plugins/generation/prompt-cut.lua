--- ## What it detects
--- Prompts of different lengths that all reached the model as one and the same largest number of tokens: a limit cut
--- them, where nobody said so. The number is compared with the limits of the config, and with the tokens that texts of
--- that length take otherwise.
---
--- ## Why it matters
--- What is cut off is usually the front: system prompt, passage, earlier turns. The answer is fluent, the usage counts
--- what was left, and no error tells.
---
--- ## How to confirm
--- Put a code word in the first line of a long prompt and ask for it.
---
--- ## Known false positives
--- Prompts of equal length, and batches padded to the longest: cut ones differ in length by a quarter and more, longer
--- ones never have fewer tokens, and shorter ones take fewer.
---
--- ## References
--- https://github.com/ollama/ollama/blob/main/docs/faq.md (context window)

local ROWS = 10000
local LIMITS = "match(key, '*max_model_len|*num_ctx|*n_ctx|*context_length|*truncate*|*max_input_length|"
  .. "*max_input_tokens|*max_position_embeddings|*model_max_length|*max_seq_len*')"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Long prompts all have the same number of tokens",
  needs    = { requests = { "prompt" }, any = { requests = { "prompt_tokens" },
    tokens = { "request", part = "prompt" } } },
  symptoms = { "prompt-tokens-saturate" },
  options  = {
    min    = { default = 4,    doc = "Different prompts at the limit" },
    spread = { default = 1.25, doc = "Ratio of their lengths" },
    lost   = { default = 1.15, doc = "Tokens that the longest should have, as a multiple of the limit" },
  },

  run = function(case)
    local opt, texts = case.options, {}
    local rows = case.requests:where("prompt is not null")
    local first = rows:where("hop is not null"):first()
    if first then rows = rows:where("hop is null or hop == ?", first.hop) end
    local seen, counted = {}, {}
    -- Where the count is not told the recorded tokens of the prompt are counted.
    for id, prompt in case.tokens:where("part == 'prompt'"):slice(0, 1000000):group("request") do
      counted[id] = prompt:count()
    end
    -- A batch has prompts in its input and counts in its output, under one id.
    for row in case.requests:where("id is not null and prompt is null and prompt_tokens > 0"):slice(0, ROWS):rows() do
      counted[row.id] = counted[row.id] or row.prompt_tokens
    end
    for row in rows:slice(0, ROWS):rows() do
      local tokens = row.prompt_tokens or counted[row.id or ""] or 0
      if #row.prompt < 65000 and tokens > 0 and not seen[row.prompt] then
        seen[row.prompt] = true
        table.insert(texts, { bytes = #row.prompt, tokens = tokens, row = row })
      end
    end
    if #texts < 2 * opt.min then
      return skip(("%d different prompts with their text and prompt_tokens"):format(2 * opt.min))
    end
    table.sort(texts, function(a, b) return a.bytes < b.bytes end)
    local limit = 0
    for _, t in ipairs(texts) do limit = math.max(limit, t.tokens) end
    ---@type table[], table[], table?
    local cut, below, shortest = {}, {}, nil
    for _, t in ipairs(texts) do
      if t.tokens == limit then
        shortest = shortest or t
        table.insert(cut, t)
      else
        table.insert(below, t)
      end
    end
    local longest = cut[#cut]
    if #cut < opt.min or #below < opt.min or longest.bytes < opt.spread * shortest.bytes then return end
    -- A longer text with fewer tokens speaks against a limit.
    local against = 0
    for _, t in ipairs(below) do if t.bytes > 1.1 * shortest.bytes then against = against + 1 end end
    if against > 0.05 * #cut then return end
    -- Tokens a byte of those that were not cut, beyond what the template takes in each.
    local n, sx, sy, sxx, sxy = #below, 0, 0, 0, 0
    for _, t in ipairs(below) do
      sx, sy, sxx, sxy = sx + t.bytes, sy + t.tokens, sxx + t.bytes ^ 2, sxy + t.bytes * t.tokens
    end
    local spread = n * sxx - sx * sx
    local slope = spread > 0 and (n * sxy - sx * sy) / spread or 0
    -- Texts of nearly one length tell no slope: the template is taken for free then.
    if slope < 0.1 or slope > 2 then slope = sy / sx end
    local should = sy / n + slope * (longest.bytes - sx / n)
    if should < opt.lost * limit then return end
    local named = case.config:where("number == ?", limit):where(LIMITS):first()
    local right, wrong, graded = 0, 0, 0
    for _, t in ipairs(cut) do
      if t.row.correct ~= nil then graded, wrong = graded + 1, wrong + (t.row.correct and 0 or 1) end
    end
    for _, t in ipairs(below) do if t.row.correct then right = right + 1 end end
    report {
      symptom = "prompt-tokens-saturate", score = math.min(0.95, 0.75 + 0.02 * #cut + (named and 0.1 or 0)),
      at = { name = longest.row.id },
      message = ("%d different prompts of %s to %s bytes have exactly %d prompt tokens each%s; by the %d shorter ones "
        .. "the longest (%s) should have about %d, so that %d are gone%s"):format(#cut, units.count(shortest.bytes),
        units.count(longest.bytes), limit, named and (", which is " .. named.key) or "", #below,
        longest.row.id or "no id", math.floor(should), math.floor(should - limit),
        graded > 0 and ("; %d of %d graded answers to these are wrong"):format(wrong, graded) or ""),
      evidence = { longest.row, cut[1].row, cut[#cut // 2 + 1].row, below[1].row, named },
    }
  end,
}
