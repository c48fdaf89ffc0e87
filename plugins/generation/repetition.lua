--- ## What it detects
--- Answers that end in a loop: one piece of text, or of tokens, four times or more, up to the end of the answer or to
--- its last quarter, where the token limit cut it. Told are the period, the number of turns, where the loop begins, how
--- many answers loop, at what temperatures, and whether loops begin where a limit on the context lies.
---
--- ## Why it matters
--- A loop feeds itself: each turn makes the next one likelier, and the answer costs the whole token limit.
---
--- ## How to confirm
--- Send the prompt again at temperature 0.7 and greedily. What loops at both is in the model or its end token.
---
--- ## Known false positives
--- An answer that was to repeat something. It is let off where the prompt holds the piece, or where the answer ended by
--- itself after a few turns, as songs do. Rows of separators count only beyond 400 characters. Where each looping
--- answer ended by itself, as empty rows of a table do, how it was decoded says nothing.
---
--- ## References
--- Holtzman et al. (2020), arXiv:1904.09751. Xu et al. (2022), Learning to Break the Loop, arXiv:2206.02369.

local ANSWERS, PREVIEW = 5000, 60
local LIMITS = { "max_position_embeddings", "original_max_position_embeddings", "sliding_window", "max_model_len",
  "num_ctx", "n_ctx", "context_length" }

--- Whether a loop of a text is more than what people write.
local function is_loop(text, loop, answer)
  local piece = text:sub(loop.onset, loop.onset + loop.period - 1)
  local ended = answer.finish_reason == "stop" or answer.finish_reason == "end_turn"
  local bare  = piece:trim():replace("-", ""):replace("=", ""):replace("*", ""):replace("|", ""):replace("_", "")
    :replace(".", ""):replace("#", ""):replace(" ", "") == ""
  if loop.length < (bare and 400 or 100) or (loop.period < 8 and loop.repeats < 8) then return false end
  if ended and (loop.repeats < 8 or loop.length < 0.5 * #text) then return false end
  -- Asked for: the piece is a part of the prompt and the answer begins with it. An echo of the whole prompt is not.
  local asked = piece:trim()
  if answer.prompt and #asked >= 3 and answer.prompt:contains(asked) and loop.onset <= loop.period + 64
    and #asked < 0.8 * #answer.prompt then
    return false
  end
  return true, ended
end

--- The loop at the end of a text. One that was cut at the limit may have come apart by then, at positions that the
--- model hardly knows: six turns over more than half of the text are one all the same.
local function find_loop(text, turns, cut)
  local loop = text:loop(turns)
  if loop or not cut or #text < 160 then return loop end
  for _, share in ipairs { 0.95, 0.9, 0.85, 0.8, 0.75 } do
    loop = text:sub(1, math.floor(share * #text)):loop(turns)
    if loop and loop.repeats >= 6 and loop.length >= 0.5 * #text then return loop end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers end in a loop",
  needs    = { any = { requests = { "response" }, tokens = { "request", "position" } } },
  symptoms = { "answers-loop", "answers-loop-greedy", "answers-loop-sampled", "answers-loop-at-context-limit",
    "answers-one-token" },
  options  = {
    repeats = { default = 4, doc = "Turns that make a loop" },
    tokens  = { default = 32, doc = "Tokens of a loop worth reporting, where only tokens are recorded" },
  },

  run = function(case)
    local opt   = case.options
    local found, answers, seen = {}, 0, {}
    local tokens = case.tokens:where("part is null or part == 'answer'"):slice(0, 1000000)

    for answer in case.requests:where("response is not null"):slice(0, ANSWERS):rows() do
      local text = answer.response:trim()
      -- An answer that the client and the engine recorded is one.
      if #text > 0 and not (answer.id and seen[answer.id] == text) then
        answers = answers + 1
        if answer.id then seen[answer.id] = text end
        local loop = find_loop(text, opt.repeats, answer.finish_reason == "length")
        local yes, ended = false, false
        if loop then yes, ended = is_loop(text, loop, answer) end
        if yes then
          table.insert(found, { row = answer, id = answer.id, loop = loop, ended = ended, unit = "character",
            piece = text:sub(loop.onset, loop.onset + loop.period - 1), size = #text, onset = loop.onset,
            temperature = answer.temperature, cut = answer.finish_reason == "length" })
        end
      end
    end
    -- Answers of which only tokens are recorded.
    if tokens:distinct("request"):count() > 20000 then tokens = tokens:slice(0, 20000) end
    for id, rows in tokens:group("request") do
      if not seen[id] then
        rows = rows:sort("position")
        local by   = rows:has("id") and "id" or "text"
        local loop = rows:has(by) and rows:col(by):loop(opt.repeats)
        answers = answers + 1
        if loop and loop.length >= opt.tokens and (loop.period >= 2 or loop.repeats >= 2 * opt.tokens) then
          local request, piece = case.requests:where { id = id }:first(), {}
          for row in rows:slice(loop.onset, math.min(loop.period, 24)):rows() do table.insert(piece, row.text or "") end
          local ended = request and request.finish_reason == "stop"
          if not ended or loop.repeats >= 8 then
            table.insert(found, { row = rows:row(loop.onset), id = id, loop = loop, unit = "token", ended = ended,
              piece = table.concat(piece), size = rows:count(), onset = loop.onset, request = request,
              temperature = request and request.temperature, cut = request and request.finish_reason == "length" })
          end
        end
      end
    end
    if answers == 0 then return skip("answers with text, or their tokens: log the response") end
    if #found == 0 then return end

    -- The loop as tokens, where both are recorded: how likely, and where it begins.
    local at_limit, limit_of, lengths = {}, {}, {}
    for _, key in ipairs(LIMITS) do
      for row in case.config:where("number >= 256 and number <= 1e7 and match(key, ?)", key .. "|*." .. key):rows() do
        table.insert(lengths, { value = row.number, row = row })
      end
    end
    for _, f in ipairs(found) do
      local rows = f.id and tokens:where { request = f.id }:sort("position")
      local loop = f.unit == "token" and f.loop or (rows and rows:count() > 0 and rows:has("id") and
        rows:col("id"):loop(opt.repeats)) or nil
      if loop and rows then
        f.token  = loop.onset
        local p  = rows:slice(loop.onset + loop.period, loop.length):median("logprob")
        f.likely = p and math.exp(p)
      end
      local request = f.request or (f.unit == "character" and f.row) or nil
      if f.token and request and request.prompt_tokens then
        for _, limit in ipairs(lengths) do
          if math.abs(request.prompt_tokens + f.token - limit.value) <= 0.02 * limit.value then
            table.insert(at_limit, f)
            limit_of = limit
          end
        end
      end
    end

    table.sort(found, function(a, b) return a.loop.repeats > b.loop.repeats end)
    local worst, rows, cut, sure, open = found[1], {}, 0, 0.6, 0
    for i, f in ipairs(found) do
      if i <= 5 then table.insert(rows, f.row) end
      if f.cut then cut = cut + 1 end
      if not f.ended then sure, open = 0.95, open + 1 end
    end
    -- One loop among many answers is a weaker sign of anything common to all.
    local weight = 0.4 + 0.6 * math.min(1, 5 * #found / answers)
    local piece = worst.piece:replace("\n", "\\n")
    if #piece > PREVIEW then piece = piece:sub(1, PREVIEW) .. "..." end
    report {
      symptom = "answers-loop", score = (sure - 0.02 * math.max(0, 8 - worst.loop.repeats)) * weight,
      at = { name = worst.id, token = worst.token },
      message = ("%d of %s end in a loop%s; the longest%s repeats \"%s\" (%s) %d times from %s %d of %d on%s%s"):format(
        #found, units.plural(answers, "answer"), cut > 0 and (", %d of them up to the token limit"):format(cut) or "",
        worst.id and (" (" .. worst.id .. ")") or "", piece, units.plural(worst.loop.period, worst.unit),
        worst.loop.repeats, worst.unit, worst.onset, worst.size,
        worst.token and worst.unit == "character" and (", token %d"):format(worst.token) or "",
        worst.likely and (", with a median probability of %s a token"):format(units.number(worst.likely, 2)) or ""),
      evidence = rows,
    }
    -- The argmax of NaN is token 0, which is "!" in many vocabularies.
    local single = worst.loop.period == 1 and worst.loop.repeats >= 64
    if single and worst.loop.length >= 0.5 * worst.size then
      report {
        symptom = "answers-one-token", score = worst.piece == "!" and 0.9 or 0.6, at = { name = worst.id },
        message = ("the answer is \"%s\" and nothing else from %s %d of %d on: what is drawn when the logits are NaN")
          :format(piece, worst.unit, worst.onset, worst.size),
        evidence = { worst.row },
      }
    end
    -- Where no temperature is told: whether the likeliest token came each time the model was unsure.
    local unsure = tokens:where("best_logprob < ? and logprob is not null", math.log(0.7))
    local seen_greedy = unsure:count() >= 5
      and unsure:where("logprob < best_logprob - 0.01"):count() <= 0.1 * unsure:count()
    local cold, hot, untold = 0, 0, 0
    for _, f in ipairs(found) do
      if f.temperature == nil and seen_greedy then cold, untold = cold + 1, untold + 1 end
      if f.temperature and f.temperature <= 0.3 then cold = cold + 1 end
      if f.temperature and f.temperature >= 0.6 then hot = hot + 1 end
    end
    local warm = case.requests:where("response is not null and temperature >= 0.6"):count()
    if open == 0 then
      skip("loops that the model does not leave: each answer ended by itself", "answers-loop-greedy",
        "answers-loop-sampled")
    elseif cold >= 0.9 * #found then
      report {
        symptom = "answers-loop-greedy", score = 0.9 * weight, at = { name = worst.id },
        message = ("%d of %s decoded %s%s"):format(cold,
          units.plural(#found, "looping answer") .. (#found == 1 and " was" or " were"),
          untold > 0 and "greedily, since the likeliest token came each time"
            or "at a temperature of 0.3 or less",
          warm > 0 and (", and none of the %d at 0.6 or more loops"):format(warm) or ""),
        evidence = rows,
      }
    elseif hot > 0 and hot >= 0.5 * #found then
      report {
        symptom = "answers-loop-sampled", score = 0.85, at = { name = worst.id },
        message = ("%d of %s were sampled at a temperature of 0.6 or more, where chance breaks a weak loop")
          :format(hot, units.plural(#found, "looping answer")),
        evidence = rows,
      }
    end
    if #at_limit >= math.max(1, 0.5 * #found) then
      report {
        symptom = "answers-loop-at-context-limit", score = #at_limit > 1 and 0.9 or 0.7,
        at = { token = at_limit[1].token },
        message = ("%s where prompt and answer together reach %s = %d tokens"):format(
          #at_limit == 1 and "the loop begins" or ("%d of the loops begin"):format(#at_limit), limit_of.row.key,
          math.floor(limit_of.value)),
        evidence = { limit_of.row, at_limit[1].row },
      }
    end
  end,
}
