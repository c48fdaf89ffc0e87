--- ## What it detects
--- Preference training (DPO and its kin) that does not prefer: a loss that stands at ln 2, pairs that are the wrong
--- way round, and chosen answers that become less likely.
---
--- ## Why it matters
--- The loss of a pair is -log sigmoid(margin). It is ln 2 where the margin is nought, whatever the model; and it falls
--- as well when both answers lose probability, the rejected one faster. The loss alone shows neither.
---
--- ## How to confirm
--- Score ten pairs with the reference and with the policy and look at both log probabilities, not at their difference.
---
--- ## Known false positives
--- A slight fall of the chosen answer's reward is usual; it is reported where it is as large as the margin it buys.
---
--- ## References
--- TRL logs `rewards/chosen`, `rewards/rejected`, `rewards/margins`, `rewards/accuracies`.

local LN2 = math.log(2)

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
    local opt, judged = case.options, {}
    for _, run in case.scalars:where { primary = true }:group("run") do
      local function series(name) return run:where { name = name }:sort("step"):where("finite(value)") end
      local function tail(rows)
        local part = math.max(3, rows:count() // 5)
        return rows:slice(rows:count() - part, part)
      end

      local margin, loss = series("rewards_margin"), series("loss")
      if margin:count() >= opt.min_rows then
        judged.margin = true
        local zero = math.max(math.abs(margin:min("value")), math.abs(margin:max("value")))
        local still = loss:count() >= opt.min_rows
          and math.max(math.abs(loss:min("value") - LN2), math.abs(loss:max("value") - LN2)) < 1e-3
        if zero < 1e-6 and (still or loss:count() == 0) then
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
        if up < 0 and down < up and -up >= up - down then
          report {
            symptom  = "chosen-reward-falls",
            score    = math.min(0.9, 0.5 + 0.1 * (-up) / (up - down)),
            at       = { step = tail(chosen):first().step },
            message  = ("the chosen answers end at a reward of %.3g and the rejected ones at %.3g: the margin of "
              .. "%.3g is bought by making both unlikely"):format(up, down, up - down),
            evidence = { tail(chosen), tail(rejected) },
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
