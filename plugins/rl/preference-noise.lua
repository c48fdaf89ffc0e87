--- ## What it detects
--- Pairs of training that the model tells right less often than held-out pairs, by more than as many held-out pairs can
--- differ by chance: the share of training preferences that would have to be random for it.
---
--- ## Why it matters
--- A pair whose better answer was drawn at random is told right half of the time, whatever the model knows. What all
--- pairs of training are below held-out ones is that half, times the share of such pairs. The loss shows it too, but
--- has no scale of its own there.
---
--- ## How to confirm
--- Read twenty pairs of training that the model has wrong by the largest margin.
---
--- ## Known false positives
--- Held-out pairs of another source, with answers that are easier to tell, and dropout, which costs training a little:
--- the share has to be above its rate and a tenth. Training is taken from the first to the last of the late
--- evaluations, so that a model that still gets on does so in both. How many pairs are held out is taken from the
--- accuracies themselves, which are multiples of one over their number; nothing is said where they are multiples of
--- nothing, and of fewer than 32 pairs.
---
--- ## References
--- https://arxiv.org/abs/2403.00409 (provably robust DPO: preferences flipped at random, section 3). The accuracy of n
--- pairs has a standard error of sqrt(p (1 - p) / n).

local settings = require("settings")

--- How many pairs the accuracies are of, by the least number of which all of them are multiples; nil where that is more
--- than 2,000, of which five digits tell nothing.
local function pairs_of(accuracies)
  local values = accuracies:col("value"):values()
  for n = 1, 2000 do
    local whole = true
    for _, v in ipairs(values) do
      whole = whole and math.abs(v * n - math.floor(v * n + 0.5)) <= math.max(0.01, 1e-5 * n)
    end
    if whole then return n end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Pairs of training are told right less often than held-out ones, as where some are random",
  needs    = { scalars = { "step", "value", "name" } },
  symptoms = { "labels-share-random" },
  options  = {
    share  = { default = 0.15, doc = "Share of random preferences worth reporting" },
    sure   = { default = 2.5,  doc = "Standard errors of the difference by which training has to be below" },
    rows   = { default = 5,    doc = "Logged accuracies of training below which nothing is said" },
    looks  = { default = 3,    doc = "Evaluations below which nothing is said" },
    pairs  = { default = 32,   doc = "Held-out pairs below which nothing is said" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local needed = opt.share
    for row in settings.on(case.config:where("match(key, '*dropout*|*pdrop|*drop_rate')")):rows() do
      needed = math.max(needed, (row.number and row.number <= 1 and row.number or 0) + 0.1)
    end
    local shares = case.scalars:where { primary = true }:where("match(name, '*reward*accurac*|*accurac*reward*') and "
      .. "finite(value) and value >= 0 and value <= 1")
    local held_out = "match(name, '*eval*|*val_*|*val/*|*valid*|*test*')"
    for run, all in shares:group("run") do
      local held  = all:where(held_out):sort("step")
      local train = all:where("not " .. held_out):sort("step")
      local looks = held:count()
      local first = looks >= opt.looks and held:slice((looks - 1) // 2, 1):first()
      if first and held:distinct("name"):count() == 1 and train:distinct("name"):count() == 1 then
        local late   = held:where("step >= ?", first.step)
        local rows   = train:where("step >= ? and step <= ?", first.step, late:last().step)
        local number, count = pairs_of(held), rows:count()
        local known = late:mean("value")
        if number and number >= opt.pairs and count >= opt.rows and known > 0.5 then
          judged = true
          local told   = rows:mean("value")
          -- The looks are at the same pairs, so that their errors are not averaged away; few rows tell their deviation
          -- badly, by what Student's distribution is wider.
          local spread = (rows:std("value") or 0) ^ 2 / count * (count - 1) / (count - 3)
          local error_ = math.sqrt(known * (1 - known) / number + spread)
          local share  = (known - told) / (known - 0.5)
          if share >= needed and share < 1.5 and known - told >= opt.sure * error_ then
            report {
              symptom  = "labels-share-random",
              score    = math.min(0.9, 0.6 + 0.1 * ((known - told) / error_ - opt.sure)),
              at       = { step = first.step },
              message  = ("from step %d on training has %.3g of its pairs right and validation %.3g of its %d: as if "
                .. "%s of the preferences of training were random"):format(first.step, told, known, number,
                units.percent(math.min(1, share))),
              evidence = { late, rows:slice(0, 5) },
            }
          end
        end
      end
    end
    if not judged then
      skip("accuracies of training pairs beside three evaluations of held-out ones, each a multiple of one over their "
        .. "number")
    end
  end,
}
