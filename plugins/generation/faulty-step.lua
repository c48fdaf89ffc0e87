--- ## What it detects
--- The token at which an answer goes wrong. With an `expected` answer: the first token where the two part, and whether
--- it was drawn with conviction (more than 0.9: the model or its context is wrong) or by a coin toss (less than 0.5,
--- and hardly more than the second: sampling). For an answer known to be wrong without an expected text: the closest
--- call that a confident stretch follows. For any: the place from which on its tokens become improbable.
---
--- ## Why it matters
--- A wrong answer is one wrong token and a consistent continuation. Conviction asks for another context or model,
--- a coin toss for another temperature.
---
--- ## How to confirm
--- Force the other alternative at that token and let the answer go on greedily.
---
--- ## Known false positives
--- An answer that is right in other words parts from the expected one too: only answers that begin as expected, or as
--- short as it, are compared, and none that are marked correct.
---
--- ## References
--- Kadavath et al. (2022), arXiv:2207.05221. Zhang et al. (2023), How Language Model Hallucinations Can Snowball,
--- arXiv:2305.13534.

--- The first token of an answer that is not how the expected text goes on; nil where the answer does not begin as it.
local function parting(tokens, expected)
  local done, n = "", 0
  for row in tokens:slice(0, 4000):rows() do
    local text = row.text or ""
    if n == 0 then text = text:sub(#text - #(("x" .. text):trim()) + 2) end -- without leading spaces
    local next_text = done .. text
    if not expected:starts_with(next_text) then
      if next_text:starts_with(expected) then return nil end -- it says that and more
      local begins = n >= 1 and #done >= 3
      local short  = n == 0 and #expected <= 16 and tokens:count() <= 8
      return (begins or short) and row or nil, done, n
    end
    done, n = next_text, n + 1
  end
end

--- Up to eight tokens around one, the faulty one marked, and what else was likely.
local function span(tokens, at)
  local words = {}
  for row in tokens:where("position >= ? and position <= ?", at.position - 5, at.position + 5):rows() do
    local text = (row.text or "?"):replace("\n", "\\n")
    table.insert(words, row.position == at.position and "[" .. text .. "]" or text)
  end
  local other = at.best and at.best ~= at.text and (", where \"%s\" had %s"):format(at.best:replace("\n", "\\n"),
    units.number(math.exp(at.best_logprob or -1e4), 2)) or ""
  return table.concat(words), other
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The token at which an answer goes wrong",
  needs    = { tokens = { "request", "position", "text", "logprob" } },
  symptoms = { "answer-leaves-expected", "wrong-step-confident", "wrong-step-coin-toss", "answer-derails" },
  options  = {
    sure   = { default = 0.9, doc = "Probability above which a token was drawn with conviction" },
    unsure = { default = 0.5, doc = "Probability below which it may have been a coin toss" },
    margin = { default = 0.1, doc = "Distance in nats to the second below which two tokens are as good" },
    rise   = { default = 2.0, doc = "Rise of the surprisal in nats that makes an answer derail" },
  },

  run = function(case)
    local opt    = case.options
    local answer = case.tokens:where("(part is null or part == 'answer') and logprob is not null"):slice(0, 500000)
    if answer:distinct("request"):count() > 5000 then answer = answer:slice(0, 20000) end
    -- Some servers leave the temperature out where decoding is greedy: then the likeliest token comes every time.
    local ranked  = answer:where("best_logprob is not null")
    local by_lot  = ranked:where("logprob < best_logprob - 0.01"):count()
    local unsure  = ranked:where("best_logprob < ?", math.log(0.7)):count()
    local certain = unsure >= 5 and by_lot <= 0.1 * unsure
    local confident, tossed, left, derailed, judged = {}, {}, {}, {}, 0
    -- Who draws lots is right now and then: where nearly all answers are wrong, chance is not the reason.
    local graded   = case.requests:where("correct is not null")
    local hopeless = graded:count() >= 8 and graded:where("correct == true"):count() <= 0.1 * graded:count()

    local function sort_out(at, tokens, id, request)
      -- vLLM writes -9999 for minus infinity.
      local p = math.exp(at.logprob)
      local entry = { at = at, id = id, tokens = tokens, p = p }
      -- Without sampling no coin is tossed.
      local greedy = request and request.temperature
      if greedy then greedy = greedy <= 0.01 else greedy = certain end
      -- The distance to the other candidate: up to the best where the chosen was not the likeliest itself.
      local margin = at.best_logprob and at.best_logprob > at.logprob and at.best_logprob - at.logprob or at.margin
      if p > opt.sure then
        table.insert(confident, entry)
      elseif not greedy and p < opt.unsure and margin and margin < opt.margin then
        table.insert(tossed, entry)
      end
    end

    for id, tokens in answer:group("request") do
      tokens = tokens:sort("position")
      local request = case.requests:where { id = id }:first()
      if tokens:count() >= 2 then judged = judged + 1 end
      local wrong   = request and request.correct == false
      local at, _, n
      if request and request.expected and request.correct ~= true then
        at, _, n = parting(tokens, request.expected:trim())
        if at then
          table.insert(left, { at = at, id = id, tokens = tokens, n = n })
          sort_out(at, tokens, id, request)
        end
      end
      if not at and wrong and tokens:has("margin") and tokens:count() >= 16 then
        -- The closest call after which the eight tokens that follow were all but certain.
        local best
        for call in tokens:where("margin < ? and logprob < ?", opt.margin, math.log(opt.unsure)):slice(0, 200):rows() do
          local after = tokens:where("position > ? and position <= ?", call.position, call.position + 8)
          if after:count() == 8 and math.exp(after:median("logprob")) > opt.sure
            and (not best or call.margin < best.margin) then
            best = call
          end
        end
        if best then sort_out(best, tokens, id, request) end
      end
      if tokens:count() >= 48 then
        local surprise = tokens:with { surprise = "0 - logprob" }
        for change in surprise:col("surprise"):change_points(16):rows() do
          if change.after - change.before >= opt.rise and change.after >= 3 * change.before
            and surprise:slice(change.at, 1e9 // 1):median("surprise") >= opt.rise then
            table.insert(derailed, { at = tokens:row(change.at), id = id, tokens = tokens, change = change })
            break
          end
        end
      end
    end
    if judged == 0 then return skip("answers of two tokens or more with log probabilities: logprobs=5") end

    local function say(symptom, list, score, message)
      local rows = {}
      for i = 1, math.min(5, #list) do rows[i] = list[i].at end
      report { symptom = symptom, score = score, at = { name = list[1].id, token = list[1].at.position },
        message = message, evidence = rows }
    end
    if #left > 0 then
      local f = left[1]
      local text, other = span(f.tokens, f.at)
      say("answer-leaves-expected", left, 0.9, ("%s of %d %s the expected text; %s does so at token %d, after %s: "
        .. "%s (probability %s)%s"):format(units.plural(#left, "answer"), judged, #left == 1 and "leaves" or "leave",
        f.id, f.at.position, units.plural(f.n, "token"), text, units.number(math.exp(f.at.logprob), 2), other))
    end
    if #confident > 0 then
      local f = confident[1]
      local text = span(f.tokens, f.at)
      -- One wrong answer among many is what a sound model gives as well.
      local score = (#confident >= 3 or #confident >= 0.25 * judged) and 0.9 or 0.2
      say("wrong-step-confident", confident, score, ("the wrong token had a probability of %s in %s: %s; what the "
        .. "model knows or was given is wrong, no draw"):format(units.number(f.p, 2), f.id, text))
    end
    if #tossed > 0 then
      local f = tossed[1]
      local text, other = span(f.tokens, f.at)
      -- As above: one lot among many sound answers is no fault of the settings.
      local score = (#tossed >= 3 or #tossed >= 0.25 * judged) and not hopeless and 0.9 or 0.2
      say("wrong-step-coin-toss", tossed, score, ("the token that went wrong was a coin toss in %s: %s (probability %s)"
        .. "%s; a lower temperature settles it"):format(f.id, text, units.number(f.p, 2), other))
    end
    if #derailed > 0 and #derailed >= 0.1 * judged then
      local f = derailed[1]
      local text = span(f.tokens, f.at)
      say("answer-derails", derailed, math.min(0.9, 0.4 + 0.1 * f.change.after), ("%s of %d %s: in %s the surprisal "
        .. "rises from %s to %s nats a token at token %d: %s"):format(units.plural(#derailed, "answer"), judged,
        #derailed == 1 and "derails" or "derail", f.id, units.number(f.change.before, 2),
        units.number(f.change.after, 2), f.at.position, text))
    end
  end,
}
