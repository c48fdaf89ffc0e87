--- ## What it detects
--- Requests that repeat one that failed, and the order in which trouble began: a prompt of many times the usual tokens,
--- out of memory, slow answers, timeouts, retries.
---
--- ## Why it matters
--- Retries arrive when the server is slowest and make it slower. What came first is the cause, and the rest follows
--- from it; lowering the retries mends nothing if a prompt takes the memory.
---
--- ## How to confirm
--- Send the first oversized prompt to an idle server: the same error without any load.
---
--- ## Known false positives
--- Clients that wait for a rate limit (429) and come again are well-behaved and not counted. Clocks of several machines
--- may differ by seconds; where the first two events are closer, the order says little.
---
--- ## References
--- Google SRE book, chapter 22: Addressing Cascading Failures.

local standing = require("requests").standing

local ROWS = 10000
local LATE = "(status == 408 or status == 499 or status == 504 or status == 524 or contains(error, 'imeout') "
  .. "or contains(error, 'imed out') or contains(error, 'TIMEOUT'))"

--- The requests that come again after a failure, and the first of them.
local function repeats(requests)
  local again, first, failed, limited, rows = 0, nil, {}, {}, {}
  for row in requests:sort("at"):slice(0, ROWS):rows() do
    local key = row.id or (row.prompt and #row.prompt >= 20 and row.prompt) or nil
    local was_limited = key and limited[key]
    if not was_limited and ((row.attempt and row.attempt > 1) or (key and failed[key] and not row.attempt)) then
      again = again + (row.weight or 1)
      first = first or row
      if #rows < 5 then table.insert(rows, row) end
    end
    if key then
      failed[key]  = (row.status and (row.status >= 500 or row.status == 408 or row.status == 499))
        or (not row.status and row.error ~= nil)
      limited[key] = row.status == 429
    end
  end
  return again, first, rows
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Failed requests are repeated, and what began it",
  needs    = { requests = { "at" }, any = { requests = { "status" }, errors = { "line" } } },
  symptoms = { "requests-retried", "oom-before-timeouts", "blown-up-prompt-before-oom" },
  options  = {
    share = { default = 0.1, doc = "Share of repeated requests worth reporting" },
    min   = { default = 5,   doc = "Repeated requests below which nothing is said" },
    times = { default = 8,   doc = "Times the median tokens that make a prompt oversized" },
    slow  = { default = 3,   doc = "Times the usual latency that makes an answer slow" },
  },

  run = function(case)
    local opt   = case.options
    -- One hop: a request that is recorded at three places is no retry.
    local requests = case.requests:where("at is not null")
    if requests:has("hop") then requests = requests:where { hop = requests:first().hop or "client" } end
    local total = standing(requests:sort("at"):slice(0, ROWS))
    local again, first_retry, retried = repeats(requests)

    -- Each kind of trouble with its first time.
    local chain = {}
    local function began(what, at, row)
      if at and row then table.insert(chain, { what = what, at = at, row = row }) end
    end
    local usual = requests:where("prompt_tokens > 0"):median("prompt_tokens")
    local big   = usual and requests:where("prompt_tokens >= ?", math.max(opt.times * usual, 2048)):sort("at"):first()
    if big then began(("a prompt of %s tokens"):format(units.count(big.prompt_tokens)), big.at, big) end
    -- An error has its own time, or that of its line.
    local logged = case.errors:where { signature = "cuda-oom" }
    local known  = logged:where("wall_time is not null"):sort("wall_time"):first()
    local oom    = known and { row = known, wall_time = known.wall_time, message = known.message }
    if not oom then
      local times = case.log_lines:where("wall_time is not null"):select("source", "line", "wall_time")
      local lines = times:with { logged_at = "wall_time" }:select("source", "line", "logged_at")
      local row   = logged:join(lines, { "source", "line" }):sort("logged_at"):first()
      oom = row and { row = row, wall_time = row.logged_at, message = row.message }
    end
    local died   = requests:where("contains(error, 'out of memory') or contains(error, 'OutOfMemory')"):sort("at")
      :first()
    local oom_at, oom_text = oom and oom.wall_time, oom and oom.message
    oom = oom and oom.row
    -- A request fails when it ends, not when it arrives.
    local function ended(row) return row and row.at + (row.latency or 0) end
    if died and (not oom_at or ended(died) < oom_at) then oom, oom_at, oom_text = died, ended(died), died.error end
    began("out of memory", oom_at, oom)
    local quick = requests:where("latency > 0 and status == 200"):quantile("latency", 0.25)
      or requests:where("latency > 0"):quantile("latency", 0.25)
    -- Long answers are slow on any day: more than nearly all that came before the first trouble.
    local trouble = math.min(big and big.at or math.huge, oom_at or math.huge)
    local calm = trouble < math.huge and requests:where("latency > 0 and status == 200 and at < ?", trouble) or nil
    local high = calm and calm:count() >= 15 and calm:quantile("latency", 0.9) or 0
    local slow = quick and requests:where("latency >= ?", math.max(opt.slow * quick, 1.5 * high))
      :where("prompt_tokens is null or prompt_tokens < ?", opt.times * (usual or 1e12)):sort("at"):first()
    if slow then
      began(("answers %d times slower than usual"):format(math.floor(slow.latency / quick)), ended(slow), slow)
    end
    local late    = requests:where(LATE):sort("at"):first()
    local late_at = ended(late)
    began("timeouts", late_at, late)
    if again >= opt.min then began("retries", first_retry.at, first_retry) end
    table.sort(chain, function(a, b) return a.at < b.at end)
    local order, evidence = {}, {}
    for i, event in ipairs(chain) do
      local since = units.number(event.at - chain[1].at, 3)
      table.insert(order, i == 1 and event.what or ("%s (+%s s)"):format(event.what, since))
      table.insert(evidence, event.row)
    end
    local story = #chain > 1 and ("; in order of first sight: " .. table.concat(order, ", ")) or ""

    if again >= opt.min and again >= opt.share * total then
      report {
        symptom = "requests-retried", score = math.min(0.95, 0.7 + 0.8 * again / total),
        message = ("%d of %s (%s) repeat one that failed%s"):format(again, units.plural(total, "request"),
          units.percent(again / total), story),
        evidence = retried,
      }
    end
    local next_at = math.min(late_at or math.huge, first_retry and first_retry.at or math.huge)
    if oom_at and oom_at <= next_at and next_at < math.huge then
      report {
        symptom = "oom-before-timeouts", score = 0.9,
        message = ("the device runs out of memory %s s before the first %s%s"):format(units.number(next_at - oom_at, 3),
          next_at == late_at and "timeout" or "retry", story),
        evidence = evidence,
      }
    end
    if oom_at and not usual then skip("prompt_tokens of requests", "blown-up-prompt-before-oom") end
    if oom_at and big and big.at <= oom_at and oom_at - big.at <= 120 then
      local share = standing(requests:where("prompt_tokens >= ?", big.prompt_tokens)) / standing(requests)
      report {
        symptom = "blown-up-prompt-before-oom", score = share <= 0.2 and 0.9 or 0.5,
        at = { name = big.id },
        message = ("%s%s, %.0f times the median, arrives %s s before the first out-of-memory error%s"):format(
          ("a prompt of %s tokens"):format(units.count(big.prompt_tokens)), big.id and (" (" .. big.id .. ")") or "",
          big.prompt_tokens / usual, units.number(oom_at - big.at, 3),
          oom_text and (" (" .. oom_text:sub(1, 80) .. ")") or ""),
        evidence = { big, oom },
      }
    end
  end,
}
