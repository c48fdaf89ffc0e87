--- ## What it detects
--- Two sides (before and after, two models) whose answers are wrong at different rates, beyond chance: by the pairs of
--- one prompt where both sides answered it, else by both counts.
---
--- ## Why it matters
--- Of a hundred answers, three wrong ones against one are nothing. Deciding by eye ships regressions and rolls back
--- good releases.
---
--- ## How to confirm
--- Grade as many answers again as there are wrong ones now.
---
--- ## Known false positives
--- Sides with other prompts, or other graders.
---
--- ## References
--- McNemar (1947); Fisher's exact test; Newcombe (1998) for the interval.

local statistics = require("statistics")

--- Wilson's interval of 95 %.
local function wilson(k, n)
  local z, p = 1.96, k / n
  local middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
  return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One side answers wrongly more often than the other",
  needs    = { requests = { "correct", "variant" } },
  symptoms = { "incorrect-rate-differs" },
  options  = {
    p   = { default = 0.01, doc = "Chance of such a difference between equal sides" },
    min = { default = 10,   doc = "Graded answers a side below which nothing is judged" },
  },

  run = function(case)
    local opt, sides = case.options, {}
    for name, rows in case.requests:where("correct is not null"):slice(0, 10000):group("variant") do
      local wrong = rows:where("correct == false"):count()
      table.insert(sides, { name = name, rows = rows, n = rows:count(), wrong = wrong })
    end
    if #sides ~= 2 or sides[1].n < opt.min or sides[2].n < opt.min then
      return skip(("two sides of %d graded answers each (correct: true or false)"):format(opt.min))
    end
    table.sort(sides, function(a, b) return a.wrong / a.n > b.wrong / b.n end)
    local bad, good = sides[1], sides[2]
    -- By pairs, where both sides answered the same prompts.
    local other, both, lost, won = {}, 0, 0, 0
    for row in good.rows:rows() do
      local key = row.prompt or row.id
      if key then other[key] = row.correct end
    end
    for row in bad.rows:rows() do
      local then_ = other[row.prompt or row.id or ""]
      if then_ ~= nil then
        both = both + 1
        if then_ and not row.correct then lost = lost + 1 elseif not then_ and row.correct then won = won + 1 end
      end
    end
    local paired = both >= 0.8 * math.max(bad.n, good.n)
    local p
    if paired then
      local f, n, sum = statistics.log_factorials(lost + won), lost + won, 0
      for x = math.max(lost, won), n do sum = sum + math.exp(f[n] - f[x] - f[n - x] - n * math.log(2)) end
      p = math.min(1, 2 * sum)
    else
      p = statistics.fisher(bad.wrong, bad.n, good.wrong, good.n)
    end
    if p <= opt.p then
      local a1, a2 = wilson(bad.wrong, bad.n)
      local b1, b2 = wilson(good.wrong, good.n)
      report {
        symptom = "incorrect-rate-differs", score = p <= 1e-4 and 0.95 or 0.85, at = { name = bad.name },
        message = ("%s answers %d of %d wrongly (%s, 95 %% interval %s to %s), %s %d of %d (%s, %s to %s)%s; by chance "
          .. "with p = %s"):format(bad.name, bad.wrong, bad.n, units.percent(bad.wrong / bad.n), units.percent(a1),
          units.percent(a2), good.name, good.wrong, good.n, units.percent(good.wrong / good.n), units.percent(b1),
          units.percent(b2), paired and ("; of %d prompts answered by both, %d are lost and %d won"):format(both, lost,
            won) or "", units.number(p, 2)),
        evidence = { bad.rows:where("correct == false"):slice(0, 5) },
      }
    end
  end,
}
