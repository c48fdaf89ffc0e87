--- ## What it detects
--- Answers that are no language: broken characters (U+FFFD), control characters, words of two alphabets, neighbouring
--- words in a jumble of scripts, tokens that the model itself found improbable, and, beside expected answers, text in
--- the same letters that lacks the common words of the language; without expected answers, letters whose frequencies
--- are not at all those of the prompts. Told is whether an answer begins so or becomes so.
---
--- ## Why it matters
--- From the first character on, the wrong weights, tokenizer or template are at work; after a sound beginning, what
--- depends on the position: rotary settings, the cache, the window. Improbable tokens acquit the model: the sampler
--- drew them.
---
--- ## How to confirm
--- Decode the same prompt greedily with the reference implementation and compare the ids.
---
--- ## Known false positives
--- Answers in other languages, lists of translations, code and base64 are none of this: a word must mix two alphabets,
--- or a line three scripts. A character that the token limit cut at the very end is left out.
---
--- ## References
--- Unicode 15.1, section 3.9 (U+FFFD substitution).

local one_hop = require("requests").one_hop

local ANSWERS = 5000

--- What of a text is broken, as a share of its characters or words; nil where there is too little of it.
local function broken(text)
  local w = text:writing()
  if w.characters < 20 then return nil end
  local characters = (w.replaced + w.control) / w.characters
  local words = w.words >= 5 and (w.mixed + (w.scripts >= 3 and w.jumps or 0)) / w.words or 0
  return characters, words, w
end

--- The words of a text in small letters, without what stands around them.
local function words_of(text)
  local out = {}
  -- Markers of a template stand next to words without a space.
  for _, line in ipairs(text:lower():replace("<|", " <|"):replace("|>", "|> "):split("\n")) do
    for _, word in ipairs(line:split(" ")) do
      word = word:replace(".", ""):replace(",", ""):replace("?", ""):replace("!", ""):replace(":", "")
      if word ~= "" then table.insert(out, word) end
    end
  end
  return out
end

--- How much of the expected texts their dozen commonest words make up, and how much of the answers: text of another
--- vocabulary has the letters of the language and not its words. Also some of these words, and the words counted.
local function common_words(graded)
  local seen, list, total = {}, {}, 0
  for _, row in ipairs(graded) do
    for _, word in ipairs(words_of(row.expected)) do
      if not seen[word] then
        seen[word] = { word = word, n = 0 }
        table.insert(list, seen[word])
      end
      seen[word].n, total = seen[word].n + 1, total + 1
    end
  end
  table.sort(list, function(a, b) return a.n > b.n end)
  local top, in_expected, in_answers, answered, example = {}, 0, 0, 0, {}
  for i = 1, math.min(12, #list) do
    top[list[i].word], in_expected = true, in_expected + list[i].n
    if i <= 4 then table.insert(example, list[i].word) end
  end
  for _, row in ipairs(graded) do
    -- What rambles on behind a sound beginning is another matter.
    local limit = 1.5 * #words_of(row.expected)
    for i, word in ipairs(words_of(row.response)) do
      if i > limit then break end
      answered = answered + 1
      if top[word] then in_answers = in_answers + 1 end
    end
  end
  return total > 0 and in_expected / total or 0, answered > 0 and in_answers / answered or 1, example, total, answered
end

--- How often each of the letters a to z stands in the texts, 200 texts and 400 bytes of each at most; how many in all,
--- how many kinds.
local function letters_of(texts)
  local counts, all, kinds, taken = {}, 0, 0, 0
  for _, text in ipairs(texts) do
    taken = taken + 1
    if taken > 200 then break end
    text = text:lower()
    for i = 1, math.min(400, #text) do
      local letter = text:sub(i, i)
      if letter >= "a" and letter <= "z" then
        if not counts[letter] then counts[letter], kinds = 0, kinds + 1 end
        counts[letter], all = counts[letter] + 1, all + 1
      end
    end
  end
  return counts, all, kinds
end

--- The cosine between two counts: languages in Latin letters, code and names are at 0.6 and more to each other.
local function likeness(a, b)
  local both, aa, bb = 0, 0, 0
  for letter, n in pairs(a) do both, aa = both + n * (b[letter] or 0), aa + n * n end
  for _, n in pairs(b) do bb = bb + n * n end
  return aa > 0 and bb > 0 and both / math.sqrt(aa * bb) or 1
end

--- The share of answers that hold a rare word of their own prompt, one of four letters or more that few prompts have:
--- who answers so has read the question. Nil where there are too few such prompts.
local function on_topic(graded)
  local uses, bags = {}, {}
  for i, row in ipairs(graded) do
    bags[i] = {}
    for _, word in ipairs(words_of(row.prompt or "")) do
      if #word >= 4 and not bags[i][word] then
        bags[i][word] = true
        uses[word] = (uses[word] or 0) + 1
      end
    end
  end
  local asked, met = 0, 0
  for i, row in ipairs(graded) do
    local rare, hit = false, false
    local answer = row.response:lower()
    for word in pairs(bags[i]) do
      if uses[word] <= 0.34 * #graded then rare, hit = true, hit or answer:contains(word) end
    end
    if rare then asked, met = asked + 1, met + (hit and 1 or 0) end
  end
  return asked >= 5 and met / asked or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers are no language",
  needs    = { any = { requests = { "response" }, tokens = { "request", "logprob" } } },
  symptoms = { "answers-garbled", "garbled-from-start", "garbled-later", "answers-lack-language",
    "answers-of-other-form", "tokens-improbable" },
  options  = {
    characters = { default = 0.01, doc = "Share of broken characters that makes an answer garbled" },
    letters    = { default = 0.5,  doc = "Likeness of letter frequencies to the prompts' below which no language is" },
    words      = { default = 0.10, doc = "Share of words of two alphabets, or beside a word of a third script" },
    foreign    = { default = 0.3,  doc = "Part of their usual share below which the common words are missing" },
    surprise   = { default = 5.0,  doc = "Median surprisal in nats above which tokens are improbable" },
  },

  run = function(case)
    local opt, judged, found, early, late = case.options, 0, {}, 0, 0
    local graded, all_right, said, asked, seen = {}, 0, {}, {}, {}
    for answer in one_hop(case.requests:where("response is not null")):slice(0, ANSWERS):rows() do
      local text = answer.response
      -- Each text once: an answer that comes again is no more text.
      if #text > 0 and not seen[text] then
        seen[text] = true
        table.insert(said, text)
      end
      if answer.prompt and not seen[answer.prompt] then
        seen[answer.prompt] = true
        table.insert(asked, answer.prompt)
      end
      if answer.expected and #graded < 500 and #answer.expected >= 10 and #text > 0 then
        table.insert(graded, answer)
        if answer.correct then all_right = all_right + 1 end
      end
      local characters, words, w = broken(text)
      if characters then
        judged = judged + 1
        if (characters >= opt.characters and w.replaced + w.control >= 2)
          or (words >= opt.words and w.mixed + w.jumps >= 3) then
          table.insert(found, { row = answer, w = w, share = math.max(characters, words) })
          -- The first quarter against the second half, where both are long enough to tell.
          if #text >= 160 then
            local c1, w1 = broken(text:sub(1, #text // 4))
            local c2, w2 = broken(text:sub(#text // 2, -1))
            local first, last = math.max(c1 or 0, w1 or 0), math.max(c2 or 0, w2 or 0)
            if last > 0 and first <= 0.1 * last then
              late = late + 1
            elseif first >= 0.5 * last then
              early = early + 1
            end
          end
        end
      end
    end
    if #found > 0 then
      table.sort(found, function(a, b) return a.share > b.share end)
      local worst, rows = found[1], {}
      for i = 1, math.min(5, #found) do rows[i] = found[i].row end
      local what, w = {}, worst.w
      if w.replaced > 0 then table.insert(what, units.plural(w.replaced, "broken character")) end
      if w.control > 0 then table.insert(what, units.plural(w.control, "control character")) end
      if w.mixed > 0 then table.insert(what, units.plural(w.mixed, "word") .. " of two alphabets") end
      if w.jumps > 0 then
        table.insert(what, ("%d changes between scripts, of %d in all"):format(w.jumps, w.scripts))
      end
      local at = w.first_replaced > 0 and w.first_replaced or w.first_mixed
      report {
        symptom = "answers-garbled", score = math.min(0.95, 0.7 + worst.share),
        at = { name = worst.row.id },
        message = ("%d of %s are garbled; the worst%s has %s among %d characters%s: \"%s\""):format(#found,
          units.plural(judged, "answer"), worst.row.id and (" (" .. worst.row.id .. ")") or "",
          table.concat(what, ", "), w.characters, at > 0 and (", the first at character %d"):format(at) or "",
          worst.row.response:sub(1, 60):replace("\n", "\\n")),
        evidence = rows,
      }
      if late > early then
        report { symptom = "garbled-later", score = 0.85, evidence = rows, message =
          ("%d of the %s begin sound and break later on"):format(late, units.plural(#found, "garbled answer")) }
      elseif early > 0 then
        report { symptom = "garbled-from-start", score = 0.85, evidence = rows, message =
          ("%d of the %s are so from their first quarter on"):format(early, units.plural(#found, "garbled answer")) }
      end
    end

    -- Broken or not, whether answers have the words of the language that was expected.
    local usual, found_share, common, expected_words, answer_words = 0, 1, {}, 0, 0
    if #graded >= 8 then
      usual, found_share, common, expected_words, answer_words = common_words(graded)
      if expected_words >= 40 and answer_words >= 0.3 * expected_words then
        judged = judged + 1
        if usual >= 0.3 and found_share <= opt.foreign * usual and all_right <= 0.05 * #graded then
          local rows = {}
          for i = 1, math.min(5, #graded) do rows[i] = graded[i] end
          -- Text of the language about the question, in a form in which nobody answers.
          local read = on_topic(graded)
          local other_form = read and read >= 0.4
          report {
            symptom = other_form and "answers-of-other-form" or "answers-lack-language",
            score = math.min(0.95, 1 - 0.5 * found_share / usual),
            at = { name = graded[1].id },
            message = ("the commonest words of the expected answers (\"%s\") make up %s of these and %s of what "
              .. "came%s: "
              .. "\"%s\" where \"%s\" was expected%s"):format(table.concat(common, "\", \""), units.percent(usual),
              units.percent(found_share), other_form
                and (", though %s of the answers name what was asked about"):format(units.percent(read)) or "",
              graded[1].response:sub(1, 50):replace("\n", "\\n"),
              graded[1].expected:sub(1, 50), graded[1].id and (" (" .. graded[1].id .. ")") or ""),
            evidence = rows,
          }
        end
      end
    end

    -- Where nobody graded: letters of another alphabet's order have frequencies that no language has.
    if #graded < 8 then
      local a, a_all, a_kinds = letters_of(asked)
      local b, b_all, b_kinds = letters_of(said)
      if math.min(a_all, b_all) >= 200 and math.min(a_kinds, b_kinds) >= 12 then
        local like = likeness(a, b)
        judged = judged + 1
        if like <= opt.letters then
          local rows, example = {}, nil
          for answer in one_hop(case.requests:where("response is not null")):slice(0, 5):rows() do
            table.insert(rows, answer)
            if not example and #answer.response >= 12 then example = answer end
          end
          example = example or rows[1]
          report {
            symptom = "answers-lack-language", score = 0.85, at = { name = example.id },
            message = ("the letters of the answers have other frequencies than those of the prompts: a likeness of %s "
              .. "over %d and %d letters, where texts of one alphabet have 0.6 and more: \"%s\"%s"):format(
              units.number(like, 2), a_all, b_all, example.response:sub(1, 50):replace("\n", "\\n"),
              example.id and (" (" .. example.id .. ")") or ""),
            evidence = rows,
          }
        end
      end
    end

    -- By the model's own measure; -9999 stands for minus infinity.
    local drawn = case.tokens:where("logprob is not null and (part is null or part == 'answer')")
    if drawn:count() >= 64 then
      judged = judged + 1
      local middle = -drawn:median("logprob")
      local rare   = drawn:where("logprob < ?", -opt.surprise)
      if middle >= opt.surprise then
        local first = rare:first()
        report {
          symptom = "tokens-improbable", score = math.min(0.95, 0.6 + 0.05 * middle),
          at = { name = first.request, token = first.position },
          message = ("half of %s had a probability below %s, by the model itself%s: a sampler that draws past the "
            .. "model, or text that another one wrote"):format(units.plural(drawn:count(), "drawn token"),
            units.number(math.exp(-middle), 2),
            first.best and (" (where \"%s\" was drawn, \"%s\" had %s)"):format(first.text or "?", first.best,
              units.number(math.exp(first.best_logprob or -1e4), 2)) or ""),
          evidence = { rare:slice(0, 5) },
        }
      end
    end
    if judged == 0 then skip("answers of 20 characters, or 64 of their tokens with log probabilities") end
  end,
}
