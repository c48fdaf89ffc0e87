--- ## What it detects
--- A trainer and a rollout engine that give the same tokens different probabilities, by the figures that verl, TRL,
--- ms-swift and OpenRLHF log of it, and whether the gap is there from the start or grows.
---
--- ## Why it matters
--- The gradient is taken as if the tokens had been drawn from the policy that is trained. They were drawn from what
--- the engine computes, so every update is off-policy; the reward rises at first and then falls, with no other sign.
---
--- ## How to confirm
--- Let both score one fixed batch of tokens right after a weight update and compare token by token: temperature,
--- precision, template and weights are the four places where they part.
---
--- ## Known false positives
--- Asynchronous training samples from older weights by design; its gap is the staleness and stays level.
---
--- ## References
--- verl logs the mean gap of probabilities, healthy at 0.004 to 0.006 in bf16 and worth a search above 0.01; its guide
--- calls a KL above 0.1 a significant gap. ms-swift (training_inference_mismatch) defines KL, k3, chi squared and the
--- effective sample size. TRL logs the mean difference of log probabilities, in nats.

--- The figures: usual = what a sound pair shows at most, gross = where nothing else can be meant. Where more is better
--- the two stand the other way round.
local FIGURES = {
  { name = "rollout_prob_gap",         usual = 0.010, gross = 0.05, text = "mean gap of token probabilities %.3g" },
  { name = "rollout_prob_correlation", usual = 0.990, gross = 0.90, text = "correlation of token probabilities %.4g" },
  { name = "rollout_k3_kl",            usual = 0.020, gross = 0.10, text = "KL (k3) between trainer and engine %.3g" },
  { name = "rollout_kl",               usual = 0.020, gross = 0.10, text = "KL between trainer and engine %.3g" },
  { name = "rollout_logp_gap",         usual = 0.100, gross = 0.50, text = "mean gap of log probabilities %.3g nats" },
  { name = "rollout_sample_size",      usual = 0.500, gross = 0.30, text = "effective sample size %.3g of 1" },
}
local NAMES = {}
for i, figure in ipairs(FIGURES) do NAMES[i] = figure.name end

--- How far a level is on its way from usual (0) to gross (1) and beyond.
local function excess(figure, level)
  if figure.gross > figure.usual then level = math.abs(level) end -- a KL estimated from samples may be negative
  return (level - figure.usual) / (figure.gross - figure.usual)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Trainer and rollout engine disagree about the same tokens",
  needs    = { scalars = { "step", "value", metric = NAMES } },
  symptoms = { "rollout-mismatch", "rollout-mismatch-from-start", "rollout-mismatch-grows" },
  options  = {
    min_rows = { default = 3,   doc = "Logged values of a figure below which its level is not judged" },
    growth   = { default = 3.0, doc = "Last level over first from which the gap is said to grow" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { name = NAMES, primary = true }:group("run") do
      local worst
      for _, figure in ipairs(FIGURES) do
        local rows  = run:where { name = figure.name }:sort("step"):where("finite(value)")
        local count = rows:count()
        if count >= opt.min_rows then
          judged = true
          local part = math.max(1, count // 5)
          local head, tail = rows:slice(0, part), rows:slice(count - part, part)
          local found = { figure = figure, rows = rows, head = head, tail = tail,
                          first = head:median("value"), last = tail:median("value") }
          found.excess = excess(figure, found.last)
          if not worst or found.excess > worst.excess then worst = found end
        end
      end
      if worst and worst.excess > 0 then
        local figure, began = worst.figure, excess(worst.figure, worst.first) > 0
        report {
          symptom  = "rollout-mismatch",
          score    = math.min(0.98, 0.6 + 0.4 * worst.excess),
          at       = { step = worst.tail:first().step },
          message  = (figure.text .. " over the last %d logged steps, %.3g at the start; a sound pair shows "
            .. "%s %g"):format(worst.last, worst.tail:count(), worst.first,
            figure.gross > figure.usual and "at most" or "at least", figure.usual),
          evidence = { worst.tail },
        }
        local distance = figure.gross > figure.usual and { worst.first, worst.last }
          or { 1 - worst.first, 1 - worst.last }
        local grows = math.abs(distance[2]) >= opt.growth * math.abs(distance[1])
        if began and not grows then
          report {
            symptom  = "rollout-mismatch-from-start",
            score    = 0.9,
            at       = { step = worst.rows:first().step },
            message  = (figure.text .. " over the first %d logged steps already, before an update could part "
              .. "the two"):format(worst.first, worst.head:count()),
            evidence = { worst.head },
          }
        elseif grows then
          report {
            symptom  = "rollout-mismatch-grows",
            score    = 0.9,
            at       = { step = worst.tail:first().step },
            message  = (figure.text .. " at the end and %.3g at the start: the engine falls behind what is "
              .. "trained"):format(worst.last, worst.first),
            evidence = { worst.head, worst.tail },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged values of one figure"):format(opt.min_rows)) end
  end,
}
