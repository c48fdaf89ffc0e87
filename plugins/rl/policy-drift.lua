--- ## What it detects
--- A policy that runs away from its reference (KL), clips most of its updates, or stops exploring (entropy).
---
--- ## Why it matters
--- A reward model is right only near the text it was trained on. Far from the reference its score rises while the
--- answers get worse; a policy without entropy draws the same answer each time and has nothing left to compare.
---
--- ## How to confirm
--- Read answers from before and after the turn. Restart there with a stronger penalty or a third of the learning rate.
---
--- ## Known false positives
--- Runs without a penalty (beta 0) may drift on purpose; entropy falls in every run, by a factor of two or three. That
--- of a supervised run, beside a loss and nothing of a policy, is not judged.
---
--- ## References
--- PPO clips a few percent of its tokens; above 20 % the step is too large for what was sampled.

--- Whether an entropy beside a loss is that of a supervised model's predictions, which trainers log by the same name
--- (TRL's SFTTrainer): nothing in the run is of a policy.
local function supervised(run)
  return run:where { name = "loss" }:first() and not run:where("match(name, 'reward*|score|kl|clip_ratio|policy_*|"
    .. "value_loss|episode_*|response_*') or match(raw_name, '*actor*|*policy*|*rollout*')"):first()
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The policy runs away from its reference or stops exploring",
  needs    = { scalars = { "step", "value", metric = { "kl", "entropy", "clip_ratio" } } },
  symptoms = { "policy-kl-runs-away", "policy-entropy-collapses", "policy-entropy-explodes", "policy-clips-often" },
  options  = {
    runaway  = { default = 5.0,  doc = "Last level of the KL over that of the middle of the run" },
    collapse = { default = 0.15, doc = "Entropy over that of the start that counts as none left" },
    clipped  = { default = 0.2,  doc = "Share of clipped tokens that is too much" },
    min_rows = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, {}
    for _, run in case.scalars:where { primary = true }:group("run") do
      --- The first, middle and last part of a series, and the series.
      local function parts(name)
        local rows  = run:where { name = name }:sort("step"):where("finite(value)")
        local count = rows:count()
        if count < opt.min_rows then return end
        judged[name] = true
        local part = math.max(3, count // 10)
        return rows:slice(0, part), rows:slice(count // 2 - part // 2, part), rows:slice(count - part, part), rows
      end

      local _, middle, last, kl = parts("kl")
      if kl then
        local was, is = middle:median("value"), last:median("value")
        if is > 0.1 and is >= opt.runaway * math.max(was, 0) then
          report {
            symptom  = "policy-kl-runs-away",
            score    = math.min(0.95, 0.6 + 0.05 * is / math.max(was, 1e-3)),
            at       = { step = last:first().step },
            message  = ("the KL to the reference model is %.3g at step %d and %.3g at step %d: it grows faster "
              .. "and faster"):format(was, middle:first().step, is, last:last().step),
            evidence = { middle, last },
          }
        end
      end

      local first, _, late, entropy
      if not supervised(run) then first, _, late, entropy = parts("entropy") end
      if entropy then
        local was, is = first:median("value"), late:median("value")
        local falls = was > 0 and is <= opt.collapse * was
        if falls or (was > 0 and is >= 2 * was and is - was > 0.5) then
          report {
            symptom  = falls and "policy-entropy-collapses" or "policy-entropy-explodes",
            score    = falls and math.min(0.95, 0.6 + 0.4 * (1 - is / (opt.collapse * was))) or 0.8,
            at       = { step = late:first().step },
            message  = ("the entropy of the policy goes from %.3g nats at step %d to %.3g at step %d: %s"):format(was,
              first:first().step, is, late:last().step,
              falls and "it chooses the same each time" or "its choices become random"),
            evidence = { first, late },
          }
        end
      end

      local _, _, final, clips = parts("clip_ratio")
      if clips and final:median("value") > opt.clipped then
        report {
          symptom  = "policy-clips-often",
          score    = math.min(0.95, 0.5 + final:median("value")),
          at       = { step = final:first().step },
          message  = ("%s of the samples have their update clipped over the last %d logged steps"):format(
            units.percent(final:median("value")), final:count()),
          evidence = { final },
        }
      end
    end
    local needed = ("at least %d logged values of "):format(opt.min_rows)
    if not judged.kl then skip(needed .. "the KL divergence", "policy-kl-runs-away") end
    if not judged.entropy then
      skip(needed .. "a policy's entropy", "policy-entropy-collapses", "policy-entropy-explodes")
    end
    if not judged.clip_ratio then skip(needed .. "the clip ratio", "policy-clips-often") end
  end,
}
