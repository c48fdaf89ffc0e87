--- ## What it detects
--- Answers that do not end by themselves: most are cut at the token limit; the end token is never likely; it is likely
--- and not drawn, or drawn and passed over; answers that write markers of the chat template, which should have ended
--- them, and go on behind them.
---
--- ## Why it matters
--- Each such answer costs the whole limit, and what follows the true end is noise that looks like an answer.
---
--- ## How to confirm
--- Look at the probability of the end tokens behind a finished sentence, with special tokens shown.
---
--- ## Known false positives
--- Answers that are cut on purpose by a small `max_tokens`: without markers behind an end and without recorded end
--- probabilities the cut alone counts little. Answers that quote a template because the prompt does are let off.
---
--- ## References
--- https://github.com/vllm-project/vllm/issues/4180 (Llama 3 and <|eot_id|>)

local one_hop = require("requests").one_hop

local ANSWERS = 5000
--- What ends a turn in common templates, and what begins one.
local MARKERS = { "<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>",
  "<|END_OF_TURN_TOKEN|>", "<|end_of_text|>", "<|return|>", "<|im_start|>", "<|start_header_id|>", "<start_of_turn>",
  "[/INST]", "[INST]", "<|user|>", "<|assistant|>" }

--- Those that end one.
local ENDS = { "<|im_end|>", "<|eot_id|>", "<|end_of_turn|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>",
  "<|END_OF_TURN_TOKEN|>", "<|end_of_text|>", "<|return|>", "<eos>" }

--- The first marker of a text that its prompt does not hold, and where it stands.
local function marker_in(text, prompt)
  local first, which
  for _, marker in ipairs(MARKERS) do
    local at = text:index(marker)
    if at and (not first or at < first) and not (prompt and prompt:contains(marker)) then first, which = at, marker end
  end
  return which, first
end

local NEEDED = {
  ["answers-cut-at-limit"]        = "finish reasons of MIN answers",
  ["answer-runs-past-end-marker"] = "the text of answers",
  ["end-token-suppressed"]        = "the likeliest token of each place (logprobs), with an end among them",
  ["end-never-likely"]            = "end_logprob of 64 tokens",
}

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers do not end by themselves",
  needs    = { any = { requests = {}, tokens = { "logprob" } } },
  symptoms = { "answers-cut-at-limit", "end-never-likely", "end-token-suppressed", "answer-runs-past-end-marker" },
  options  = {
    share   = { default = 0.5,  doc = "Share of answers cut at the limit worth reporting" },
    min     = { default = 5,    doc = "Answers below which a share is not judged" },
    sure    = { default = 0.9,  doc = "Probability of an end token above which a model wants to end" },
    unlikely = { default = 1e-3, doc = "Probability below which an end counts as never likely" },
  },

  run = function(case)
    local opt, judged = case.options, {}
    local told = one_hop(case.requests:where("finish_reason is not null"))
    local cut  = told:where("match(finish_reason, 'length|max_tokens|MAX_TOKENS')")
    if told:count() >= opt.min then
      judged["answers-cut-at-limit"] = true
      local share = cut:count() / told:count()
      if share >= opt.share then
        local tight = cut:median("max_tokens") or cut:median("completion_tokens")
        report {
          symptom = "answers-cut-at-limit",
          -- A small limit is set on purpose; hundreds of tokens are room for an end.
          score = (tight and tight <= 64) and 0.2 or 0.5 * share,
          severity = "warning",
          message = ("%d of %s are cut at the token limit%s"):format(cut:count(),
            units.plural(told:count(), "answer"),
            tight and (", %d tokens in the median"):format(math.floor(tight)) or ""),
          evidence = { cut:slice(0, 5) },
        }
      end
    end

    -- An answer that writes a marker and goes on.
    local past, example, marker, answers, where = 0, nil, nil, 0, nil
    local rows = {}
    for answer in one_hop(case.requests:where("response is not null")):slice(0, ANSWERS):rows() do
      answers = answers + 1
      local which, at = marker_in(answer.response, answer.prompt)
      if which and #answer.response:trim() >= at + #which + 8 then
        past = past + 1
        if #rows < 5 then table.insert(rows, answer) end
        if not example then example, marker, where = answer, which, at end
      end
    end
    judged["answer-runs-past-end-marker"] = answers > 0
    if example and (past >= 2 or answers <= opt.min) then
      local rest = example.response:sub(where + #marker, where + #marker + 49):replace("\n", "\\n")
      report {
        symptom = "answer-runs-past-end-marker", score = math.min(0.95, 0.8 + 0.3 * past / answers),
        at = { name = example.id },
        message = ("%d of %s hold a marker of the chat template and go on behind it: %s at character %d%s, then \"%s\"")
          :format(past, units.plural(answers, "answer"), marker, where, example.id and (" of " .. example.id) or "",
            rest),
        evidence = rows,
      }
    end

    -- The model wants to end and is not let: its end token is masked, or drawn and passed over.
    local drawn = case.tokens:where("text is not null and (part is null or part == 'answer')"):slice(0, 1000000)
    local last = drawn:aggregate({ "request" }, { last = "max position" })
    local own  = case.config:where { key = "tokenizer.eos_token" }:first()
    local ends_of, names = {}, {}
    for _, marker in ipairs(ENDS) do ends_of[marker] = true end
    if own and own.value then ends_of[own.value] = true end
    for marker in pairs(ends_of) do table.insert(names, marker) end
    local wanted = drawn:where { best = names }:where("best_logprob > ?", math.log(opt.sure))
    local masked = wanted:where("text != best")
    -- A high temperature passes over likely tokens of any kind.
    if case.requests:where("temperature > 1.2"):count() > 0 then masked = masked:slice(0, 0) end
    local passed = drawn:where { text = names }:join(last, { "request" }):where("position < last")
    local held   = masked:count() + passed:count()
    -- The chance that a sampler misses these ends: two at 0.999 say more than three at 0.9.
    local chance = 0
    for row in masked:slice(0, 1000):rows() do
      chance = chance + math.log(math.max(1e-6, 1 - math.exp(row.best_logprob)))
    end
    judged["end-token-suppressed"] = wanted:count() + passed:count() > 0
    if (passed:count() >= 3 or held >= 2 and chance <= math.log(1e-4)) and
      (passed:count() >= 3 or masked:count() >= 0.5 * wanted:count()) then
      local row = masked:first() or passed:first()
      report {
        symptom = "end-token-suppressed", score = math.min(0.95, 0.8 + 0.02 * held),
        at = { name = row.request, token = row.position },
        message = masked:count() >= passed:count() and
          ("%d of %d times the model put more than %s on its end token, another one was drawn: at token %d of %s "
            .. "\"%s\" had %s and \"%s\" came"):format(masked:count(), wanted:count(), units.number(opt.sure),
            row.position, row.request or "one answer", row.best, units.number(math.exp(row.best_logprob), 3),
            row.text:replace("\n", "\\n"))
          or ("%s draw their end token and go on behind it: \"%s\" at token %d of %s, and %d tokens more"):format(
            units.plural(passed:distinct("request"):count(), "answer"), row.text, row.position,
            row.request or "one answer", passed:first().last - row.position),
        evidence = { masked:slice(0, 3), passed:slice(0, 3) },
      }
    end

    -- The end token's own probability, over answers that did not end.
    local ends = case.tokens:where("end_logprob is not null and (part is null or part == 'answer')")
    local answered = case.tokens:where("logprob is not null and (part is null or part == 'answer')")
    if ends:count() >= 64 and ends:count() >= 0.5 * answered:count() then
      judged["end-never-likely"] = true
      local best = ends:top(1, "end_logprob"):first()
      if math.exp(best.end_logprob) <= opt.unlikely then
        report {
          symptom = "end-never-likely", score = 0.9, at = { name = best.request, token = best.position },
          message = ("at none of %s an end token had a probability of more than %s (at most at token %d%s)"):format(
            units.plural(ends:count(), "position"), units.number(math.exp(best.end_logprob), 2), best.position or 0,
            best.request and (" of " .. best.request) or ""),
          evidence = { best, cut:first() or best },
        }
      end
    end
    for symptom, needed in pairs(NEEDED) do
      if not judged[symptom] then skip(needed:replace("MIN", tostring(opt.min)), symptom) end
    end
  end,
}
