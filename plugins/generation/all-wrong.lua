--- ## What it detects
--- Answers of which nearly none is right, by the grades that stand beside them.
---
--- ## Why it matters
--- A model that knows little is right at times, and one that draws lots as well. Where nothing is right the answers are
--- not those of the model to the questions: other weights, another vocabulary, another prompt, or the grader is broken.
---
--- ## How to confirm
--- Read five of the answers. What they have in common names the place: no language, another form, another subject.
---
--- ## Known false positives
--- Benchmarks that are too hard for the model, and graders that compare the letters of free text.
---
--- ## References
--- Wilson (1927): of 8 wrong answers of 8, a share of right ones above 0.32 is excluded at 95 %.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Nearly no answer is right",
  needs    = { requests = { "correct" } },
  symptoms = { "answers-all-wrong" },
  options  = {
    min   = { default = 8,   doc = "Graded answers below which nothing is said" },
    right = { default = 0.1, doc = "Share of right answers above which nothing is said" },
  },

  run = function(case)
    local opt    = case.options
    local graded = case.requests:where("correct is not null and (status is null or status < 400)")
    local first  = graded:where("hop is not null"):first()
    if first then graded = graded:where("hop is null or hop == ?", first.hop) end
    local all, right = graded:count(), graded:where("correct == true"):count()
    if all < opt.min then
      return skip(("%d graded answers (correct: true or false, beside the expected one)"):format(opt.min))
    end
    if right > opt.right * all then return end
    local wrong = graded:where("correct == false")
    local one   = wrong:where("response is not null"):first() or wrong:first()
    local text  = one.response and (": \"%s\""):format(one.response:sub(1, 50):replace("\n", "\\n"))
      .. (one.expected and (" where \"%s\" was expected"):format(one.expected:sub(1, 50):replace("\n", "\\n"))
        or "") or ""
    report {
      symptom = "answers-all-wrong", score = math.min(0.9, 0.6 + 0.02 * (all - right)), at = { name = one.id },
      message = ("%d of %d graded answers are wrong%s%s"):format(all - right, all, text,
        one.id and (" (%s)"):format(one.id) or ""),
      evidence = { wrong:slice(0, 5) },
    }
  end,
}
