--- ## What it detects
--- Answers that run into the length limit of the rollout more and more often.
---
--- ## Why it matters
--- A cut answer has no end to grade: it scores nothing for being long, or scores for its beginning. Either teaches
--- length instead of the task, and the throughput falls with it.
---
--- ## How to confirm
--- Compare the reward of cut and of finished answers of one step.
---
--- ## Known false positives
--- Tasks that want long answers and a limit set for speed: the share is then high and level from the start.
---
--- ## References
--- TRL: `completions/clipped_ratio`; verl: `response_length/clip_ratio`.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers run into the length limit",
  needs    = { scalars = { "step", "value", metric = "response_clip_ratio" } },
  symptoms = { "responses-hit-limit" },
  options  = {
    share    = { default = 0.3, doc = "Share of cut answers worth reporting" },
    min_rows = { default = 5,   doc = "Logged values below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { name = "response_clip_ratio", primary = true }:group("run") do
      local cut   = run:sort("step"):where("finite(value)")
      local count = cut:count()
      if count >= opt.min_rows then
        judged = true
        local part = math.max(3, count // 5)
        local was, is = cut:slice(0, part):median("value"), cut:slice(count - part, part):median("value")
        if is >= opt.share then
          local since = cut:where("value >= ?", opt.share):first()
          report {
            symptom  = "responses-hit-limit",
            score    = math.min(0.95, 0.5 + 0.5 * is),
            at       = { step = since.step },
            message  = ("%s of the answers are cut at the length limit over the last %d logged steps, %s at the "
              .. "start"):format(units.percent(is), part, units.percent(was)),
            evidence = { since, cut:last() },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged shares of cut answers"):format(opt.min_rows)) end
  end,
}
