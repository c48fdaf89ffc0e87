--- ## What it detects
--- Two sides of a release (canary and control, before and after) of which one fails more of its requests, by Fisher's
--- exact test. Latencies of the two are compared by serving/latency, graded answers by generation/incorrect-rate.
---
--- ## Why it matters
--- A canary gets few requests: three failures of forty look bad and may be chance.
---
--- ## How to confirm
--- Send the same hundred requests to both.
---
--- ## Known false positives
--- Requests turned away by a rate limit (429), wrong and cancelled ones (400 to 499 but 408) are no failures of the
--- server. Where the two sides get other kinds of requests, the kinds differ and not the servers; models and lengths of
--- the two are named where they do.
---
--- ## References
--- Fisher (1922), On the interpretation of chi-squared from contingency tables.

local statistics = require("statistics")

local ROWS = 10000
local FAILED = "(status >= 500 or status == 408 or status is null and error is not null)"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One side of a release fails more of its requests",
  needs    = { requests = { "variant" } },
  symptoms = { "error-rate-differs" },
  options  = {
    p    = { default = 0.01, doc = "Chance of such a difference between equal sides" },
    min  = { default = 20,   doc = "Requests a side below which nothing is judged" },
    more = { default = 0.01, doc = "Difference of the shares worth reporting" },
  },

  run = function(case)
    local opt, sides = case.options, {}
    local known = case.requests:where("status is not null or error is not null")
    if known:has("hop") then known = known:where { hop = known:first().hop or "client" } end
    for name, rows in known:group("variant") do
      rows = rows:slice(0, ROWS)
      table.insert(sides, { name = name, rows = rows, n = rows:count(), bad = rows:where(FAILED):count() })
    end
    if #sides ~= 2 or sides[1].n < opt.min or sides[2].n < opt.min then
      return skip(("%d requests with their status on each of two sides (canary and control)"):format(opt.min))
    end
    table.sort(sides, function(a, b) return a.bad / a.n > b.bad / b.n end)
    local worse, better = sides[1], sides[2]
    local p = statistics.fisher(worse.bad, worse.n, better.bad, better.n)
    if p > opt.p or worse.bad / worse.n - better.bad / better.n < opt.more then return end
    local failed, kinds = worse.rows:where(FAILED), {}
    for status, rows in failed:group("status") do table.insert(kinds, ("%d with status %d"):format(rows:count(),
      status)) end
    local other = failed:where("status is null"):count()
    if other > 0 then table.insert(kinds, ("%d without an answer"):format(other)) end
    local longer = (worse.rows:mean("prompt_tokens") or 1) / math.max(better.rows:mean("prompt_tokens") or 1, 1e-9)
    report {
      symptom = "error-rate-differs", score = (p <= 1e-4 and 0.95 or 0.85) * ((longer > 1.5 or longer < 0.67) and 0.7
        or 1),
      at = { name = worse.name },
      message = ("%s fails %d of %d requests (%s), %s %d of %d (%s); by chance with p = %s; %s%s"):format(worse.name,
        worse.bad, worse.n, units.percent(worse.bad / worse.n), better.name, better.bad, better.n,
        units.percent(better.bad / better.n), units.number(p, 2), table.concat(kinds, ", "),
        (longer > 1.5 or longer < 0.67) and ("; prompts of %s have %s times the tokens"):format(worse.name,
        units.number(longer, 2)) or ""),
      evidence = { failed:slice(0, 5) },
    }
  end,
}
