--- ## What it detects
--- Preference training (DPO and its kin) that does not prefer: a loss that stands at ln 2, pairs that are the wrong
--- way round, and chosen answers that go on becoming less likely for nothing.
---
--- ## Why it matters
--- The loss of a pair is -log sigmoid(margin). It is ln 2 where the margin is nought, whatever the model; and it falls
--- as well when both answers lose probability, the rejected one faster. The loss alone shows neither.
---
--- ## How to confirm
--- Score ten pairs with the reference and with the policy and look at both log probabilities, not at their difference.
---
--- ## Known false positives
--- Both rewards fall in sound training as well, since only their difference is trained, and the chosen one may end
--- below what the margin is wide. What is reported is a fall that buys nothing: neither margin nor accuracy grows any
--- more, here or in an evaluation, and meanwhile the chosen answer loses as much as the whole margin, and once again.
---
--- A margin of 0 says nothing of beta where the config has one and nothing is trained: weights that do not move, or
--- labels that count nothing, are as far from the reference as it is from itself. A tie is no pair the wrong way
--- round: accuracies count where there is a margin.
---
--- ## References
--- TRL logs `rewards/chosen`, `rewards/rejected`, `rewards/margins`, `rewards/accuracies`.

local settings = require("settings")

local LN2 = math.log(2)

--- Whether rows are there and their value is 0 in all.
local function all_zero(rows)
  return rows:count() > 0 and math.max(math.abs(rows:min("value")), math.abs(rows:max("value"))) < 1e-6
end

--- The last fifth of the rows, three at least.
local function tail(rows)
  local part = math.max(3, rows:count() // 5)
  return rows:slice(rows:count() - part, part)
end

--- As many rows from the middle.
local function middle(rows)
  local part = math.max(3, rows:count() // 5)
  return rows:slice((rows:count() - part) // 2, part)
end

--- Whether a series ends above its middle; what has too few rows to tell does not.
local function grows(rows)
  return rows:count() >= 6 and tail(rows):mean("value") > middle(rows):mean("value")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Preference training does not prefer",
  needs    = { scalars = { "step", "value", metric = { "rewards_margin", "rewards_chosen", "rewards_accuracy" } } },
  symptoms = { "preference-loss-constant", "preference-accuracy-low", "chosen-reward-falls" },
  options  = {
    min_rows = { default = 10, doc = "Logged values below which nothing is judged" },
  },

  run = function(case)
    local opt, judged, beta = case.options, {}, settings.number(case, "beta") or settings.number(case, "dpo_beta")
    for _, run in case.scalars:where { primary = true }:group("run") do
      local function series(name) return run:where { name = name }:sort("step"):where("finite(value)") end

      local margin, loss = series("rewards_margin"), series("loss")
      -- A policy that is the reference has gradients all the same: those of a frozen copy's difference.
      local stands = beta and beta > 0 and (all_zero(series("grad_norm")) or all_zero(series("logps_chosen")))
      if margin:count() >= opt.min_rows then
        judged.margin = true
        local still = loss:count() >= opt.min_rows
          and math.max(math.abs(loss:min("value") - LN2), math.abs(loss:max("value") - LN2)) < 1e-3
        if all_zero(margin) and (still or loss:count() == 0) and not stands then
          report {
            symptom  = "preference-loss-constant",
            score    = 0.97,
            at       = { step = margin:first().step },
            message  = ("the margin between chosen and rejected answers is 0 at all %d logged steps and the loss "
              .. "stands at ln 2 = 0.6931"):format(margin:count()),
            evidence = { margin:first(), margin:last(), loss:first(), loss:last() },
          }
        end
      end

      local right = series("rewards_accuracy")
      if run:where { name = "rewards_margin" }:count() > 0 then
        right = right:join(margin:where("value != 0"):select("step"), { "step" })
      end
      if right:count() >= opt.min_rows then
        judged.accuracy = true
        local level = tail(right):mean("value")
        if level < 0.4 then
          report {
            symptom  = "preference-accuracy-low",
            score    = math.min(0.95, 0.6 + (0.4 - level)),
            at       = { step = tail(right):first().step },
            message  = ("the policy prefers the chosen answer in only %s of the pairs over the last %d logged steps, "
              .. "less than a coin would"):format(units.percent(level), tail(right):count()),
            evidence = { tail(right) },
          }
        end
      end

      local chosen, rejected = series("rewards_chosen"), series("rewards_rejected")
      if chosen:count() >= opt.min_rows and rejected:count() >= opt.min_rows then
        judged.rewards = true
        local up, down = tail(chosen):median("value"), tail(rejected):median("value")
        local width    = up - down
        local before   = middle(chosen)
        local lost     = before:median("value") - up
        local gained   = width - (before:median("value") - middle(rejected):median("value"))
        local bought   = gained > lost / 4 or grows(right) or grows(series("eval_rewards/margins"))
        if up < 0 and width > 0 and lost >= width and not bought then
          report {
            symptom  = "chosen-reward-falls",
            score    = math.min(0.9, 0.5 + 0.1 * lost / width),
            at       = { step = before:last().step },
            message  = ("the reward of the chosen answers falls by %.3g from step %d to %d, and that of the rejected "
              .. "ones by %.3g: both become unlikely, and the margin ends at %.3g"):format(lost, before:first().step,
              chosen:last().step, lost + gained, width),
            evidence = { before, tail(chosen), tail(rejected) },
          }
        end
      end
    end
    local needed = ("at least %d logged "):format(opt.min_rows)
    if not judged.margin then skip(needed .. "margins of pairs", "preference-loss-constant") end
    if not judged.accuracy then skip(needed .. "accuracies of pairs", "preference-accuracy-low") end
    if not judged.rewards then skip(needed .. "rewards of chosen and rejected answers", "chosen-reward-falls") end
  end,
}
