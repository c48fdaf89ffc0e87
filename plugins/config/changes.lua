--- ## What it detects
--- What was changed between two configurations of a case: a diff, folders or files called before and after (old and
--- new, good and bad, ...), or the settings of exactly two runs. Compared by meaning: notation, aliases, written-out
--- defaults and a batch size of other factors are no changes; names, paths and logging have no influence on results.
---
--- ## Why it matters
--- Of two things changed at once neither can be credited with what happened. A change that fixed the fault may hide
--- behind one that did nothing, and the fault comes back with the next change.
---
--- ## How to confirm
--- Take back all changes but the first one named and repeat the failing request or the first steps; then the next one.
---
--- ## Known false positives
--- Two runs that nobody meant to compare. Without anything wrong to explain, the changes are told as information. Two
--- model folders, as of training and serving, or of a draft and its target, are left to data/four-questions.
---
--- ## References
--- docs/tables.md, `config`; `culprit compare A B` prints the whole list.

local EARLIER = { before = true, old = true, good = true, baseline = true, control = true, previous = true }
local LATER   = { after = true, new = true, bad = true, candidate = true, treatment = true, canary = true,
  current = true }
local OTHERS  = "*draft*|*assistant*|*specul*|*reward*|*critic*|*adapter*|*teacher*|*tokenizer*|*eval*|*.cache*"
-- What a model passes through: two of these are no two versions of one thing.
local STAGES  = { "train", "serv", "infer", "client", "gateway", "engine", "base", "chat", "instruct" }

--- The words of the last part of a path.
local function words(path)
  local parts = path:split("/")
  local name  = parts[#parts]:lower()
  for _, mark in ipairs { "-", "_", "." } do name = name:replace(mark, " ") end
  return name:split(" "), parts[#parts]
end

local function role(path)
  for _, word in ipairs(words(path)) do
    if EARLIER[word] then return "earlier" elseif LATER[word] then return "later" end
  end
end

--- The two sides among the values of a column: { name, rows } each, and whether their names say which comes first.
local function sides_by(tbl, column)
  local list, first, second = {}, {}, {}
  for path, rows in tbl:group(column) do
    local _, name = words(path)
    local side    = { path = path, name = name, rows = rows }
    local r = role(path)
    if r == "earlier" then table.insert(first, side) elseif r == "later" then table.insert(second, side) end
    if not name:lower():glob(OTHERS) then table.insert(list, side) end
  end
  if #first == 1 and #second == 1 then return first[1], second[1], true end
  if column ~= "run" or #list ~= 2 then return end
  local a, b = list[1].path, list[2].path
  -- A folder within the other is a part of it.
  if a:starts_with(b .. "/") or b:starts_with(a .. "/") or a == "" or b == "" or a == "." or b == "." then return end
  for _, stage in ipairs(STAGES) do
    if list[1].name:lower():contains(stage) ~= list[2].name:lower():contains(stage) then return end
  end
  return list[1], list[2], false
end

--- What there is to explain: ids of symptoms that the rows of the case show at a glance, with a word for each.
local function seen_in(case, later)
  local seen, order = {}, {}
  local function add(id, text)
    if not seen[id] then table.insert(order, id) end
    seen[id] = seen[id] or text
  end
  local oom = case.errors:where("signature == 'cuda-oom' and (role is null or role != 'advice')")
  if oom:count() > 0 then add("log-cuda-oom", "out of memory") end
  local requests = case.requests:where("status is not null or error is not null")
  local failed   = requests:where("status >= 500")
  if requests:count() >= 20 and failed:count() >= 0.02 * requests:count() then
    add("error-rate-jumps", ("%s of the requests fail"):format(units.percent(failed:count() / requests:count())))
  end
  local late = case.requests:where("status == 408 or status == 504 or match(error, '*timed out*|*timeout*|*Timeout*')")
  if late:count() >= 3 then add("requests-time-out", units.plural(late:count(), "timeout")) end
  local cut = case.requests:where("finish_reason == 'length'")
  if cut:count() >= 5 and cut:count() >= 0.3 * case.requests:count("finish_reason") then
    add("answers-cut-at-limit", ("%d answers cut at their limit"):format(cut:count()))
  end
  local judged = case.requests:where("correct is not null")
  local wrong  = judged:where("correct == false")
  if wrong:count() >= 5 and wrong:count() >= 0.03 * judged:count() then
    add("incorrect-rate-differs", ("%d of %d answers wrong"):format(wrong:count(), judged:count()))
  end
  for variant, rows in case.requests:where("variant is not null and latency > 0"):group("variant") do
    local others = case.requests:where("variant is not null and variant != ? and latency > 0", variant)
    if rows:count() >= 20 and others:count() >= 20 and rows:median("latency") > 1.5 * others:median("latency") then
      add("latency-differs", ("%s is slower"):format(variant))
    end
  end
  local loss = case.scalars:where("metric == 'loss' and layer is null and value is not null")
  if later and loss:where { run = later.path }:count() > 0 then loss = loss:where { run = later.path } end
  if loss:where("not finite(value)"):count() > 0 then
    add("loss-nonfinite", "a loss that is not finite")
  else
    local best, last = loss:min("value"), loss:last()
    if best and best > 0 and loss:count() >= 20 and last.value > 2 * best and last.value > 1 then
      add("loss-diverges", ("a loss of %s after %s"):format(units.number(last.value, 3), units.number(best, 3)))
    end
  end
  return seen, order
end

--- What more of something brings about, and less of it does not.
local OF_MORE = { ["log-cuda-oom"] = true, ["requests-time-out"] = true, ["latency-differs"] = true }

--- Whether a change is of a size that became smaller: a limit of tokens, a batch.
local function is_less(change)
  local a, b = tonumber(change.before or ""), tonumber(change.after or "")
  return a and b and b < a and not change.key:lower():contains("time") and not change.key:lower():contains("mem")
end

--- The likeliest cause of a change that the case shows, and its place in the list.
local function fitting(change, order)
  local less = is_less(change)
  for place, cause in ipairs((change.causes or ""):split(" ")) do
    for _, id in ipairs(order) do
      if cause == id and not (less and OF_MORE[id]) then return id, place end
    end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Several settings were changed at once",
  needs    = { any = { config = { "key", "value", "run" }, packages = { "name", "version", "run" } } },
  symptoms = { "several-settings-changed", "one-setting-changed", "packages-changed" },
  options  = {
    shown  = { default = 8,   doc = "Changes named in the message" },
    common = { default = 0.5, doc = "Share of the smaller side's keys that two runs must have in common" },
  },

  run = function(case)
    local from, to, named = sides_by(case.config:where("run is not null"), "run")
    if not from then from, to, named = sides_by(case.config:where("source is not null"), "source") end
    local packages = case.packages
    local packages_from, packages_to = sides_by(packages:where("run is not null"), "run")
    if not packages_from then packages_from, packages_to = sides_by(packages:where("source is not null"), "source") end
    if not from and not packages_from then
      return skip("the settings before and after: a diff, or folders or files that are called so")
    end

    local seen, order = seen_in(case, to)
    local changes, things, all = nil, 0, {}
    if from then
      changes, things = from.rows:changes(to.rows)
      local lone = changes:where("before_row is null"):count()
      if not named then
        -- Files of other kinds share few keys; a list of all that differs would say nothing.
        local gone = changes:where("after_row is null"):count()
        local less = math.min(from.rows:count() - gone, to.rows:count() - lone)
        if less < case.options.common * math.min(from.rows:count(), to.rows:count()) then
          return skip("two sides whose settings have the same keys")
        end
      end
      -- Another seed alone is what noise is told by.
      if changes:where("effect == 'results' and kind != 'seed'"):count() > 0 then
        for change in changes:where { effect = "results" }:rows() do table.insert(all, change) end
      end
    end

    local upgraded, computing = {}, nil
    if packages_from then
      computing = packages_from.rows:changes(packages_to.rows):where("effect == 'results'")
      for change in computing:rows() do table.insert(upgraded, change.says) end
    end
    if #upgraded > 0 then
      report {
        symptom = "packages-changed", score = #order > 0 and 0.85 or 0.3,
        severity = #order > 0 and "warning" or "info",
        message = ("%s that compute changed version between %s and %s: %s; a default may have changed with them")
          :format(units.plural(#upgraded, "package"), packages_from.name, packages_to.name,
            table.concat(upgraded, ", ", 1, math.min(#upgraded, case.options.shown))),
        evidence = { packages_to.rows:slice(0, 3) },
      }
      things = things + 1
    end
    if #all == 0 then return end

    -- A change that can bring about what the case shows comes before others; the list has the weightiest first.
    -- Of two that can, the one that has it among its likelier effects: a timeout before a limit of tokens.
    local first, why, best = all[1], nil, math.huge
    for _, change in ipairs(all) do
      local id, place = fitting(change, order)
      if id and place < best then
        first, best = change, place
        why = ("because it can cause %s, and the case shows %s"):format(id, seen[id])
      end
    end
    local causes = (first.causes or ""):split(" ")
    why = why or (first.known
      and ("because it can cause %s"):format(table.concat(causes, ", ", 1, math.min(3, #causes)))
      or "because nothing is known of what it does")

    local texts, evidence = {}, {}
    for i, change in ipairs(all) do
      if i <= case.options.shown then table.insert(texts, change.says) end
      if i <= 5 then
        if change.before_row then table.insert(evidence, from.rows:row(change.before_row)) end
        if change.after_row then table.insert(evidence, to.rows:row(change.after_row)) end
      end
    end
    local rest = #all > #texts and (" and %d more"):format(#all - #texts) or ""
    if things >= 2 then
      report {
        symptom = "several-settings-changed", score = #order > 0 and 0.9 or 0.3,
        severity = #order > 0 and "warning" or "info", at = { name = first.key },
        message = ("%s%s: %d semantic changes at once, the effect cannot be attributed; change one at a time, first %s "
          .. "%s"):format(table.concat(texts, ", "), rest, things, first.key, why),
        evidence = evidence,
      }
    else
      report {
        symptom = "one-setting-changed", score = #order > 0 and 0.8 or 0.3,
        severity = #order > 0 and "warning" or "info", at = { name = first.key },
        message = ("%s is all that changed between %s and %s, %s"):format(table.concat(texts, ", "), from.name, to.name,
          why),
        evidence = evidence,
      }
    end
  end,
}
