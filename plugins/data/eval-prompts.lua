--- ## What it detects
--- Prompts of an evaluation, those with an expected answer or a verdict beside them, that stand in the training
--- documents: word for word, or with half or more of their words in common runs of 13.
---
--- ## Why it matters
--- A question that was trained on measures memory. Scores and validation loss then look good and say nothing of new
--- questions.
---
--- ## How to confirm
--- Read a question beside the training document that is named. Take the questions that were found out of the set and
--- compare the two scores.
---
--- ## Known false positives
--- Quotations that the question is about: a passage of an encyclopaedia in a reading test, whose question is not in
--- the training data. What many documents share (templates, few-shot examples, licences) does not count, nor do
--- texts of fewer than 8 words.
---
--- ## References
--- https://arxiv.org/abs/2005.14165 appendix C (13-grams), https://arxiv.org/abs/2307.09288 section A.6,
--- https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/decontamination.md

--- Reports what of `tests` stands in `trained`; false when there is nothing to be judged.
local function look(case, tests, column, trained, symptom, what)
  local opt    = case.options
  local judged = tests:standing_in(column, trained, "text")
  local all    = judged:count()
  if all == 0 then return false end
  local hits  = judged:where("share >= ?", opt.share)
  local n     = hits:count()
  if n == 0 then return true end
  local exact = hits:where("exact"):count()
  local worst = hits:top(1, "longest"):first()
  local names = {}
  for row in hits:slice(0, 3):rows() do names[#names + 1] = row.id or ("line %d"):format(row.place) end
  local match = trained:row(worst.found_in)
  report {
    symptom  = symptom,
    severity = n < opt.telling * all and "warning" or nil,
    score    = n < opt.telling * all and 0.6 or 0.97,
    message  = ("%s of %s %s (%s) stand in the training documents, %s: %s%s; the longest piece in common has %s words "
      .. "(%s, in %s)"):format(units.count(n), units.count(all), what, units.percent(n / all), exact == n
      and "all of them word for word" or ("%s of them word for word and the others with %s or more of their words")
      :format(units.count(exact), units.percent(opt.share)), table.concat(names, ", "), n > #names and " ..." or "",
      units.count(worst.longest), worst.id or "a prompt", match.id),
    evidence = { worst, match, hits:slice(0, 5) },
  }
  return true
end

--- The first documents, as far as they can be looked at in time.
local function bounded(documents, bytes)
  local all = documents:sum("bytes")
  return all <= bytes and documents or documents:slice(0, math.floor(documents:count() * bytes / all))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Prompts of an evaluation stand in the training data",
  needs    = { documents = { "text" }, requests = { "prompt" } },
  symptoms = { "eval-prompts-in-training" },
  options  = {
    share   = { default = 0.5,   doc = "Share of a text's words that have to stand in one training document" },
    telling = { default = 0.01,  doc = "Share of the examples below which the score of the whole set stays right" },
    bytes   = { default = 1e9,   doc = "Training text that is looked at: more takes too long" },
  },

  run = function(case)
    -- A prompt with the right answer beside it is one of an evaluation; what users ask may well be in the data.
    local prompts = case.requests:where("prompt is not null and (expected is not null or correct is not null)")
    local trained = case.documents:where("text is not null and (split is null or split == 'train')")
    if prompts:count() == 0 or trained:count() == 0 or not look(case, prompts, "prompt",
      bounded(trained, case.options.bytes), "eval-prompts-in-training", "prompts of the evaluation") then
      skip("prompts with expected answers, of 8 words or more, beside the documents of training")
    end
  end,
}
