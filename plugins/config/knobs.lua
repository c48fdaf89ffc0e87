--- ## What it detects
--- Settings of decoding (temperature, top_p, limits, penalties) or retries that were turned between two sides of a
--- case, while nothing on the earlier side speaks for them and what was wrong is as frequent after as before.
---
--- ## Why it matters
--- Turning knobs until it looks better hides the cause: the fault is still there, the settings are no longer those
--- that anybody chose, and the next comparison has two reasons for each difference.
---
--- ## How to confirm
--- Set the knobs back. If the share of bad requests does not move, they had nothing to do with it; then look at what
--- the bad requests have in common.
---
--- ## Known false positives
--- Settings that were turned for another reason, such as cost. A temperature that was beyond 1.2, greedy answers that
--- loop, answers cut at their limit, and retries where servers were busy are evidence, and their knobs are not
--- counted.
---
--- ## References
--- docs/tables.md, `requests` and `config`

local name_of = require("settings").name_of

local EARLIER = { before = true, old = true, bad = true, baseline = true, control = true, base = true, first = true }
local LATER   = { after = true, new = true, good = true, candidate = true, treatment = true, canary = true,
  second = true }
local KNOBS   = "temperature|*.temperature|top_p|*.top_p|top_k|*.top_k|min_p|max_tokens|*.max_tokens|max_new_tokens|"
  .. "*.max_new_tokens|max_completion_tokens|repetition_penalty|*.repetition_penalty|frequency_penalty|"
  .. "presence_penalty|do_sample|*.do_sample|max_retries|*.max_retries|retries|retry_attempts|num_retries|*.retries|"
  .. "no_repeat_ngram_size|num_beams|*.num_beams|best_of|length_penalty"
local ROWS = 2000

local function role(path)
  local name = name_of(path):lower():replace("_", "-"):replace(".", "-")
  for _, word in ipairs(name:split("-")) do
    if EARLIER[word] then return "earlier" elseif LATER[word] then return "later" end
  end
end

--- Requests and settings of both sides, by the values of a column; nil unless there are two that are told apart.
local function sides_by(requests, config, column)
  local first, second
  for path, rows in requests:where(column .. " is not null"):group(column) do
    local r = role(path)
    if r == "earlier" and not first then first = { path = path, name = name_of(path), requests = rows }
    elseif r == "later" and not second then second = { path = path, name = name_of(path), requests = rows } end
  end
  if not first or not second then return end
  for path, rows in config:where("run is not null"):group("run") do
    local r = role(path)
    if r == "earlier" then first.config = rows elseif r == "later" then second.config = rows end
  end
  return first, second
end

--- Of some requests how many are bad in a way, for each way that can be told.
local function ways(rows)
  local out, n = {}, rows:count()
  local told   = rows:where("status is not null or error is not null")
  if told:count() >= 20 then
    out.failed = { n = told:where("status >= 500 or status == 408 or (status is null and error is not null)"):count(),
      of = told:count(), text = "of the requests fail" }
  end
  local judged = rows:where("correct is not null")
  if judged:count() >= 20 then
    out.wrong = { n = judged:where("correct == false"):count(), of = judged:count(), text = "of the answers are wrong" }
  end
  local answers, loops = rows:where("response is not null"):slice(0, ROWS), 0
  for row in answers:rows() do
    local loop = row.response:loop(6)
    if loop and loop.length >= 60 and loop.length >= 0.3 * #row.response then loops = loops + 1 end
  end
  if answers:count() >= 20 then out.loops = { n = loops, of = answers:count(), text = "of the answers loop" } end
  local ended = rows:where("finish_reason is not null")
  if ended:count() >= 20 then
    out.cut = { n = ended:where("finish_reason == 'length'"):count(), of = ended:count(),
      text = "of the answers are cut at their limit" }
  end
  return out, n
end

--- What of the earlier side speaks for turning a knob.
local function evidence_for(key, before, rows)
  local share = function(way) return before[way] and before[way].n / before[way].of or 0 end
  if key:contains("retr") or key:contains("attempt") then
    local busy = rows:where("status == 429 or status == 502 or status == 503"):count()
    return busy >= 0.01 * rows:count() and busy > 0
  end
  if key:contains("max_") then return share("cut") >= 0.05 end
  if key:contains("penalty") or key:contains("ngram") then return share("loops") >= 0.02 end
  local t = rows:median("temperature")
  return t ~= nil and t > 1.2 or share("loops") >= 0.02
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Knobs of decoding were turned and the fault stayed",
  needs    = { requests = {}, any = { requests = { "variant" }, config = { "key", "value" } } },
  symptoms = { "knobs-turned-fault-stays" },
  options  = {
    share = { default = 0.02, doc = "Share of bad requests on the earlier side that is a fault" },
    stays = { default = 0.6,  doc = "Part of that share which must be left on the later side" },
  },

  run = function(case)
    local opt = case.options
    local first, second = sides_by(case.requests, case.config, "variant")
    if not first then first, second = sides_by(case.requests, case.config, "run") end
    if not first then return skip("requests before and after the change, in folders or files that are called so") end

    local turned, rows, known = {}, {}, {}
    if first.config and second.config then
      local changes = first.config:changes(second.config)
      for change in changes:where("effect == 'results' and match(key, ?)", KNOBS):rows() do
        table.insert(turned, { key = change.key:lower(), says = change.says })
        known[change.key:lower()] = true
        if change.before_row then table.insert(rows, first.config:row(change.before_row)) end
        if change.after_row then table.insert(rows, second.config:row(change.after_row)) end
      end
    end
    for _, key in ipairs { "temperature", "top_p", "max_tokens" } do
      local a, b = first.requests:median(key), second.requests:median(key)
      if a and b and math.abs(a - b) > 1e-6 and not known[key] then
        table.insert(turned, { key = key, says = ("%s %s -> %s"):format(key, units.number(a), units.number(b)) })
      end
    end
    if #turned == 0 then return end

    local before, after = ways(first.requests), ways(second.requests)
    local fault, fault_after
    for _, way in ipairs { "failed", "wrong", "loops", "cut" } do
      local a, b = before[way], after[way]
      if a and b and a.n >= 3 and a.n / a.of >= opt.share and (not fault or a.n / a.of > fault.n / fault.of) then
        fault, fault_after = a, b
      end
    end
    if not next(before) or not next(after) then
      return skip("20 requests a side with their status, or answers judged right or wrong")
    end
    if not fault then return end
    local idle = {}
    for _, knob in ipairs(turned) do
      if not evidence_for(knob.key, before, first.requests) then table.insert(idle, knob.says) end
    end
    local p, q = fault.n / fault.of, fault_after.n / fault_after.of
    -- Gone, or fewer than chance explains: the knobs may have done it.
    local spread = math.sqrt(p * (1 - p) * (1 / fault.of + 1 / fault_after.of))
    if #idle == 0 or q < opt.stays * p or p - q > 2 * spread then return end
    local bad = second.requests:where("status >= 500 or status == 408 or error is not null or correct == false")
    report {
      symptom = "knobs-turned-fault-stays", score = math.min(0.95, 0.7 + 0.1 * #idle), severity = "warning",
      at = { name = turned[1].key },
      message = ("%s: turned without anything that speaks for it, and the fault stays: %s %s before (%d of %d), %s "
        .. "after (%d of %d)"):format(table.concat(idle, ", "), units.percent(p), fault.text, fault.n, fault.of,
        units.percent(q), fault_after.n, fault_after.of),
      evidence = { rows[1], rows[2], bad:slice(0, 3) },
    }
  end,
}
