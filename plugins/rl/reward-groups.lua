--- ## What it detects
--- Groups of answers to one prompt that all get the same reward, and a reward that never moves.
---
--- ## Why it matters
--- GRPO and its kin subtract the mean of the group: where all answers score alike the advantage is zero and the prompt
--- teaches nothing. With most groups like that the run burns rollouts and stands still, whatever the reward shows.
---
--- ## How to confirm
--- Print the rewards of ten groups. All 0: too hard, or the answer is never parsed. All 1: too easy, or the check
--- accepts anything.
---
--- ## Known false positives
--- A task that is nearly solved at the end of a good run: the reward stands near its best and the groups agree.
---
--- ## References
--- TRL logs `frac_reward_zero_std`. Dropping such prompts is the dynamic sampling of DAPO.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers of a group all get the same reward",
  needs    = { scalars = { "step", "value", metric = { "frac_reward_zero_std", "reward_std", "reward" } } },
  symptoms = { "reward-groups-uniform", "reward-constant" },
  options  = {
    share    = { default = 0.7, doc = "Share of uniform groups worth reporting" },
    min_rows = { default = 5,   doc = "Logged values below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { name = { "frac_reward_zero_std", "reward_std", "reward" }, primary = true }
      :group("run") do
      local function series(name) return run:where { name = name }:sort("step"):where("finite(value)") end
      local reward, spread, dead = series("reward"), series("reward_std"), series("frac_reward_zero_std")
      -- Without the share itself: steps in which no two rewards of the whole batch differed.
      local logged = dead:count() >= opt.min_rows
      local groups = logged and dead or spread
      local function uniform(rows)
        return logged and rows:mean("value") or rows:where("value == 0"):count() / rows:count()
      end
      if reward:count() >= opt.min_rows then
        judged = true
        local low, high = reward:min("value"), reward:max("value")
        if low == high then
          report {
            symptom  = "reward-constant",
            score    = 0.97,
            at       = { step = reward:first().step },
            message  = ("the reward is exactly %.4g at all %d logged steps"):format(low, reward:count()),
            evidence = { reward:first(), reward:last() },
          }
        end
      end
      local count = groups:count()
      if count >= opt.min_rows then
        judged = true
        local part  = math.max(3, count // 5)
        local last  = groups:slice(count - part, part)
        local level = uniform(last)
        if level >= opt.share then
          local since = groups:where(logged and "value >= ?" or "value <= ?", logged and opt.share or 0):first()
          local now   = reward:count() > 0 and (", at a reward of %.3g"):format(reward:last().value) or ""
          report {
            symptom  = "reward-groups-uniform",
            score    = math.min(0.97, 0.5 + 0.5 * level),
            at       = { step = since.step },
            message  = ("in %s of the %s every answer gets the same reward over the last %d logged steps (%s at "
              .. "the start)%s: their advantage is zero"):format(units.percent(level),
              logged and "groups" or "batches", part, units.percent(uniform(groups:slice(0, part))), now),
            evidence = { since, groups:last() },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged rewards or spreads of them"):format(opt.min_rows)) end
  end,
}
