--- ## What it detects
--- The moment at which the share of failed requests changes, and of what class the failures are; failures that all
--- come after one and the same time, which is a limit that somebody set, and whether sound answers come close to it.
---
--- ## Why it matters
--- What was changed at that moment is the suspect. A limit just above the usual latency fails with the first load.
---
--- ## How to confirm
--- Compare the time with the log of deployments; send one of the failed requests with ten times the limit.
---
--- ## Known false positives
--- Requests turned away by a rate limit (429), wrong requests (400 to 404, 422) and cancelled ones are no failures of
--- the server and are not counted.
---
--- ## References
--- RFC 9110, section 15 (status codes).

local standing = require("requests").standing

local ROWS = 10000
local LATE = "(status == 408 or status == 504 or status == 524 or contains(error, 'imeout') "
  .. "or contains(error, 'imed out') or contains(error, 'TIMEOUT'))"

--- The split of a list of 0 and 1 that two rates explain best: its place, its gain in nats, and both rates. An entry
--- counts as often as its weight says, and gains no more than once: what was thinned out was not read.
local function best_split(fails, weights, from)
  local all, total = 0, 0
  for i, f in ipairs(fails) do all, total = all + f * weights[i], total + weights[i] end
  local function fit(k, m)
    return (k > 0 and k * math.log(k / m) or 0) + (k < m and (m - k) * math.log(1 - k / m) or 0)
  end
  local left, count, best, at, before, after = 0, 0, 0, nil, nil, nil
  for i = 1, #fails - from do
    left, count = left + fails[i] * weights[i], count + weights[i]
    if i >= from then
      local g = (fit(left, count) + fit(all - left, total - count) - fit(all, total)) * #fails / total
      if g > best then best, at, before, after = g, i, left / count, (all - left) / (total - count) end
    end
  end
  return at, best, before, after
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The share of failed requests changes, or requests time out",
  needs    = { any = { requests = { "status" }, errors = { "line" } } },
  symptoms = { "error-rate-jumps", "requests-time-out", "timeout-near-usual-latency" },
  options  = {
    min  = { default = 40, doc = "Requests below which no rate is judged" },
    nats = { default = 10, doc = "Log likelihood that two rates must gain over one" },
    near = { default = 0.5, doc = "Share of the limit that the 90th percentile of sound answers reaches" },
  },

  run = function(case)
    local opt = case.options
    local requests = case.requests:where("status is not null or error is not null")
    if requests:has("hop") then requests = requests:where { hop = requests:first().hop or "client" } end
    if requests:count() == 0 then return skip("the status of requests: an access log, or the client's record") end

    local timed = requests:where("at is not null"):sort("at"):slice(0, ROWS)
    local fails, weights, rows, kinds = {}, {}, {}, {}
    for row in timed:rows() do
      local bad = row.status and (row.status >= 500 or row.status == 408) or (not row.status and row.error ~= nil)
      table.insert(fails, bad and 1 or 0)
      table.insert(weights, row.weight or 1)
      table.insert(rows, row)
    end
    if #fails >= opt.min then
      local at, gain, before, after = best_split(fails, weights, 10)
      if at and gain >= opt.nats and after > before then
        for i = at + 1, #rows do
          local row = rows[i]
          if fails[i] == 1 then
            local kind = row.status and tostring(row.status) or (row.error or ""):sub(1, 40)
            kinds[kind] = (kinds[kind] or 0) + weights[i]
          end
        end
        local list, first = {}, rows[at + 1]
        for kind, n in pairs(kinds) do table.insert(list, { kind = kind, n = n }) end
        table.sort(list, function(a, b) return a.n > b.n end)
        for i, k in ipairs(list) do list[i] = ("%d of %s"):format(k.n, k.kind) end
        report {
          symptom = "error-rate-jumps", score = math.min(0.95, 0.6 + 0.01 * gain), at = { name = first.id },
          message = ("from request %d of %d on, %s s after the first, %s of the requests fail, %s before: %s"):format(
            at + 1, #rows, units.number(first.at - rows[1].at, 4), units.percent(after), units.percent(before),
            table.concat(list, ", ", 1, math.min(3, #list))),
          evidence = { timed:slice(at, 10):where("status >= 500 or status == 408 or error is not null"):slice(0, 5) },
        }
      end
    end

    local late = requests:where(LATE)
    if late:count() >= 3 then
      local limit = late:count("latency") >= 3 and late:median("latency") or nil
      local spread = limit and late:quantile("latency", 0.9) - late:quantile("latency", 0.1)
      local same   = limit and spread <= 0.05 * limit
      local set    = same and case.config:where("match(key, '*timeout*') and number > 0"):first() or nil
      local share  = standing(late) / standing(requests)
      report {
        symptom = "requests-time-out", score = math.min(0.95, 0.7 + share),
        at = { name = late:first().id },
        message = ("%d of %s time out%s%s"):format(standing(late), units.plural(standing(requests), "request"),
          same and (", all after about %s s"):format(units.number(limit, 3)) or "",
          set and ("; %s = %s"):format(set.key, set.value or units.number(set.number)) or ""),
        evidence = { late:slice(0, 5), set },
      }
      local sound = requests:where("status == 200 and latency > 0")
      local usual = sound:count() >= 20 and sound:quantile("latency", 0.9)
      if not limit or sound:count() < 20 then
        skip("latencies of 20 sound requests and of those that timed out", "timeout-near-usual-latency")
      end
      if same and usual and usual >= opt.near * limit then
        report {
          symptom = "timeout-near-usual-latency", score = 0.9,
          message = ("the limit of %s s cuts into ordinary work: a tenth of the answers that succeed take %s s or more")
            :format(units.number(limit, 3), units.number(usual, 3)),
          evidence = { late:first(), sound:top(3, "latency") },
        }
      end
    end
    if #fails < opt.min then
      skip(("the status and time of at least %d requests"):format(opt.min), "error-rate-jumps")
    end
  end,
}
