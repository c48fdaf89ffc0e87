--- ## What it detects
--- Answers that end by themselves too soon: empty ones, and those whose last line stops in the middle of a sentence
--- although the model says it has finished.
---
--- ## Why it matters
--- An end token that is too likely, or a stop text that occurs in answers, cuts every long answer; it looks like a
--- terse model.
---
--- ## How to confirm
--- Send a cut prompt with `ignore_eos` and without stop texts: the answer goes on where it was cut.
---
--- ## Known false positives
--- Labels, lists and titles end without a full stop: only a last line of 60 characters that stops in lower case or at a
--- comma counts, and none where hardly an answer ends a sentence anywhere, as of headlines, keywords and lines of code.
--- Answers cut at the token limit are another matter.
---
--- ## References
--- OpenAI API: `finish_reason`, `stop`.

local one_hop = require("requests").one_hop

--- Whether a text stops within a sentence: a long last line that ends in a small letter or a comma.
local function stops_short(text)
  local lines = text:split("\n")
  local last  = lines[#lines]
  local byte  = last:byte(-1) or 0
  return #last >= 60 and (byte == 44 or (byte >= 97 and byte <= 122)) and last:contains(" ")
    and not last:contains("http") and not last:contains("=")
end

--- Whether a text ends a sentence anywhere.
local function ends_sentence(text)
  local last = text:sub(-1, -1)
  if last == "." or last == "!" or last == "?" or text:ends_with("。") then return true end
  for _, stop in ipairs { ". ", "! ", "? ", ".\n", "!\n", "?\n", "。" } do
    if text:contains(stop) then return true end
  end
  return false
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers end in the middle of a sentence, or before they begin",
  needs    = { requests = { "finish_reason" } },
  symptoms = { "answers-end-early" },
  options  = {
    share = { default = 0.2, doc = "Share of answers worth reporting" },
    min   = { default = 5,   doc = "Finished answers below which nothing is judged" },
  },

  run = function(case)
    local opt, all, empty, short, written, rows, example = case.options, 0, 0, 0, 0, {}, nil
    -- No text beside a count of tokens is an empty answer; no text alone is one that was not recorded.
    for row in one_hop(case.requests):where("match(finish_reason, 'stop|end_turn|eos|STOP') and (response is not null "
      .. "or "
      .. "completion_tokens <= 1)"):slice(0, 5000):rows() do
      all = all + 1
      local text, bad = (row.response or ""):trim(), false
      written = written + (ends_sentence(text) and 1 or 0)
      if text == "" then
        empty, bad = empty + 1, true
      elseif stops_short(text) then
        short, bad = short + 1, true
        example = example or text
      end
      if bad and #rows < 5 then table.insert(rows, row) end
    end
    if all < opt.min then return skip(("%d answers with finish_reason and text"):format(opt.min)) end
    -- Headlines, keywords and lines of code have no full stops at all.
    if short > 0 and empty < opt.share * all and written < opt.share * all then
      return skip(("answers in sentences: %d of %d end any"):format(written, all))
    end
    if empty + short >= opt.share * all then
      report {
        symptom = "answers-end-early", score = math.min(0.9, 0.5 + 0.5 * (empty + short) / all),
        at = { name = rows[1].id },
        message = ("of %d answers that ended by themselves %d are empty and %d stop within a sentence%s"):format(all,
          empty, short, example and (": \"...%s\""):format(example:sub(-40, -1)) or ""),
        evidence = rows,
      }
    end
  end,
}
