--- ## What it detects
--- Documents of a validation or test set that stand in the training documents: word for word, or with half or more of
--- their words in common runs of 13.
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
  summary  = "Held-out examples stand in the training data",
  needs    = { documents = { "text", "split" } },
  symptoms = { "test-documents-in-training" },
  options  = contamination.options,

  run = function(case)
    local texts  = case.documents:where("text is not null")
    local held   = "split == 'test' or split == 'validation'"
    -- Of runs that have both sides each is judged by itself: they may have been split anew in between.
    local parts, whole, judged = {}, false, false
    for _, own in texts:group("run") do
      local tests = own:where(held):count()
      parts[#parts + 1] = own
      whole = whole or tests > 0 and tests < own:count()
    end
    if not whole then parts = { texts } end
    for _, part in ipairs(parts) do
      local trained = part:where("split is null or split == 'train'")
      judged = contamination.look(case.options, part:where(held), "text", trained, "test-documents-in-training",
        "held-out examples") or judged
    end
    if not judged then skip("documents of a validation or test set, of 8 words or more, beside those of training") end
  end,
}
