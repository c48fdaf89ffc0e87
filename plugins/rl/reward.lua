--- ## What it detects
--- A reward that climbs and then loses most of what it gained, one that falls from the first rows on and stays
--- below, and one that is never above its first level by more than its noise.
---
--- ## Why it matters
--- It is the one sight that a policy was learned and lost. What else moved at that step tells why: the gap to the
--- rollout engine, the KL to the reference, the entropy. One that never was above its first level was not learned at
--- all: what the update raises is another quantity than the reward, or the reward with the wrong sign.
---
--- ## How to confirm
--- Generate from the checkpoint at the best reward and from the last one with the same prompts, and read both.
---
--- ## Known false positives
--- A curriculum that gets harder lowers the reward by design, and so does a discriminator that gives it and learns:
--- where either is named nothing is said of a reward that falls from the start, or never rises. Nor is the latter where
--- the policy was loaded, as that of a language model is, and may know all there is to know, nor of a log that begins
--- in the middle, or of a reward that is the same in most rows.
---
--- ## References
--- Scale-free: the loss is measured against the rise of the same run, and both against its noise.

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The reward climbs and falls back, falls from the start, or never rises",
  needs    = { scalars = { "step", "value", metric = "reward" } },
  symptoms = { "reward-collapses", "reward-falls-from-start", "reward-never-rises" },
  options  = {
    lost     = { default = 0.5, doc = "Part of the rise that is lost again at the end" },
    below    = { default = 0.9, doc = "Share of the later rewards that is below all but a tenth of the first ones" },
    fallen   = { default = 0.1, doc = "Fall from the first level, as a share of its size" },
    min_rows = { default = 20,  doc = "Logged rewards below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    -- What a learned judge gives gets less as the judge learns, and harder tasks or opponents give less.
    local moving = case.scalars:where("match(name, '*discriminator*|*disc_*|*intrinsic*|*curiosity*|*rnd*')")
        :count() > 0
      or case.config:where("match(key, '*discriminator*|*gail*|*airl*|*curiosity*|*curricul*|*self_play*')")
        :where("value is null or not match(value, 'false|False|none|None|null|0|0.0|')"):count() > 0
    local loaded = settings.loaded(case) or case.scalars:where("match(name, '*response_len*|*completion_len*|"
      .. "*completions/*|*ref_kl*|objective/kl|*num_tokens*|*total_tokens*')"):count() > 0
    for _, run in case.scalars:where { name = "reward", primary = true }:group("run") do
      local reward = run:sort("step"):where("finite(value)")
      local rows   = reward:count()
      if rows >= opt.min_rows then
        judged = true
        local tenth  = math.max(3, rows // 10)
        local level  = reward:with { level = reward:col("value"):rolling(tenth, "median") }
        local best   = level:slice(tenth - 1, rows):top(1, "level"):first()
        local start  = reward:slice(0, tenth):median("value")
        local finish = reward:slice(rows - tenth, tenth):median("value")
        local rise, fall = best.level - start, best.level - finish
        local noise  = (reward:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        if rise > 3 * noise and fall > 3 * noise and fall >= opt.lost * rise then
          report {
            symptom  = "reward-collapses",
            score    = math.min(0.97, 0.6 + 0.3 * fall / rise),
            at       = { step = best.step },
            message  = ("the reward climbs from %.3g to %.3g by step %d and falls to %.3g by step %d: %s of the "
              .. "gain is lost"):format(start, best.level, best.step, finish, reward:last().step,
              units.percent(math.min(1, fall / rise))),
            evidence = { best, reward:last() },
          }
        end
        -- A policy that samples at random is where learning begins: below that is worse than knowing nothing.
        local early = reward:slice(0, tenth)
        local later = reward:slice(tenth, rows)
        local below = later:where("value < ?", early:quantile("value", 0.1)):count()
        if not moving and best.level <= start + 3 * noise
          and start - finish > math.max(3 * noise, opt.fallen * math.abs(start))
          and below >= opt.below * later:count() then
          report {
            symptom  = "reward-falls-from-start",
            score    = 0.9,
            at       = { step = reward:first().step },
            message  = ("the reward falls from the start: %.4g in the first %d rows and %.4g at step %d, with %s of "
              .. "the later rows below the first"):format(start, tenth, finish, reward:last().step,
              units.percent(below / later:count())),
            evidence = { early:slice(0, 5), reward:last() },
          }
        elseif not moving and not loaded and noise > 0 and finish <= start
          -- Two deviations of the difference of two medians.
          and best.level <= start + 2 * 1.25 * noise * math.sqrt(2 / tenth)
          and reward:first().step <= 0.1 * reward:last().step then
          report {
            symptom  = "reward-never-rises",
            score    = 0.7,
            at       = { step = reward:first().step },
            message  = ("the reward never rises by more than its noise: a median of %.4g in the first %d rows, of %.4g "
              .. "at best, by step %d, and of %.4g at step %d"):format(start, tenth, best.level, best.step, finish,
              reward:last().step),
            evidence = { early:slice(0, 5), best, reward:last() },
          }
        end
      end
    end
    if moving then
      skip("a reward that means the same throughout", "reward-falls-from-start", "reward-never-rises")
    end
    if loaded then skip("a policy that begins from nothing", "reward-never-rises") end
    if not judged then skip(("at least %d logged rewards"):format(opt.min_rows)) end
  end,
}
