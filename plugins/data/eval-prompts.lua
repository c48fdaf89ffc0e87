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

local contamination = require("contamination")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Prompts of an evaluation stand in the training data",
  needs    = { documents = { "text" }, requests = { "prompt" } },
  symptoms = { "eval-prompts-in-training" },
  options  = contamination.options,

  run = function(case)
    -- A prompt with the right answer beside it is one of an evaluation; what users ask may well be in the data.
    local prompts = case.requests:where("prompt is not null and (expected is not null or correct is not null)")
    local trained = case.documents:where("text is not null and (split is null or split == 'train')")
    if not contamination.look(case.options, prompts, "prompt", trained, "eval-prompts-in-training",
      "prompts of the evaluation") then
      skip("prompts with expected answers, of 8 words or more, beside the documents of training")
    end
  end,
}
