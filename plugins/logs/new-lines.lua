--- ## What it detects
--- Kinds of log lines of a run that no good run of the case has: warnings, errors and words of failure, and whatever
--- else is new right before the first error. Good are logs in a folder or file named good, baseline, reference, golden,
--- before, control or old; where nothing is named so, runs without an error beside one with an error.
---
--- ## Why it matters
--- A long job prints thousands of lines, warnings among them that mean nothing, and the run that worked prints those
--- too. What it did not print is a handful, and the first sign of a fault is nearly always among them.
---
--- ## How to confirm
--- Read the line in its place, then run the good setup again: the line must stay away. One that comes without harm
--- belongs to the environment and not to the fault.
---
--- ## Known false positives
--- Good runs of another version of the program or its libraries: their warnings differ. A warning of the start, or one
--- that comes once in a run without an error, counts only if it speaks of a failure. Numbers, paths, hashes and
--- names with digits do not count, nor does one word of a long sentence; lines that a longer run prints later are left
--- out unless they warn.
---
--- ## References
--- L4, cross-job comparison of logs: https://arxiv.org/abs/2503.20263

local logs = require("logs")

local Severe = { warning = 2, error = 3, critical = 3 }

--- The words of a template.
local function words(template)
  local out = {}
  for _, word in ipairs(template:split(" ")) do
    if word ~= "" then out[#out + 1] = word end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Log lines that no good run has",
  needs    = { log_templates = { "template", "first" } },
  symptoms = { "log-line-new" },
  options  = {
    near    = { default = 50, doc = "Lines before the first error in which lines without a level count too" },
    repeats = { default = 3,  doc = "Lines of a warning that are needed in a run without an error" },
    shown   = { default = 3,  doc = "Kinds of lines named in the message" },
  },

  run = function(case)
    local opt    = case.options
    local all    = case.log_templates
    local faults = case.errors:where("(type is null or type != 'warning') and (role is null or role != 'advice')")
    local good, rest = logs.sides(all)
    if good:count() == 0 then
      -- Nothing is called good: runs that log no error, beside one that does.
      local clean, failed = {}, {}
      for run, rows in all:group("run") do
        local bad = rows:join(faults, { "source" }):count() > 0
          or rows:where { level = { "error", "critical" } }:count() > 0
        local list = bad and failed or clean
        list[#list + 1] = run
      end
      if #clean > 0 and #failed > 0 then
        good, rest = all:where { run = clean }, all:where { run = failed }
      end
    end
    if good:count() == 0 then
      skip("a run that worked: give the log of one beside it, in a folder named good")
      return
    end
    if rest:count() == 0 then skip("a run to judge beside the good ones"); return end
    local length = good:max("last")
    local known  = good:aggregate({ "template" }, { good_lines = "sum lines" })
    local fresh  = rest:join(known, { "template" }, "left"):where("good_lines is null")

    -- Good sentences by their number of words, read when one is asked for: the same sentence but for one word, as a
    -- host's name, is no new kind.
    local byCount
    local function hasTwin(template)
      local mine = words(template)
      if #mine < 5 then return false end
      if not byCount then
        byCount = {}
        for row in known:slice(0, 5000):rows() do
          local theirs = words(row.template)
          byCount[#theirs] = byCount[#theirs] or {}
          table.insert(byCount[#theirs], theirs)
        end
      end
      for _, theirs in ipairs(byCount[#mine] or {}) do
        local differ = 0
        for i = 1, #mine do
          if mine[i] ~= theirs[i] then
            differ = differ + 1
            if differ > 1 then break end
          end
        end
        if differ <= 1 then return true end
      end
      return false
    end

    for run, rows in fresh:group("run") do
      local mine    = rest:where { run = run }
      local errors  = faults:join(mine:distinct("source"):select("source"), { "source" })
      local timed   = errors:where("wall_time is not null"):sort("wall_time")
      local onset   = timed:first() or errors:first()
      local found   = {}
      -- Where every line is new, as in logs of free text, a new line near the error means nothing. The start does not
      -- count: a run of other settings begins in other words.
      local start  = onset and onset.line // 10 or 0
      local near   = math.min(opt.near, start)
      local before = onset and rows:where("source == ? and first > ? and first < ?", onset.source, start,
        onset.line - near) or rows
      local chance = onset and before:count() * near / math.max(onset.line - near - start, 1) or 0
      for row in rows:sort("first"):slice(0, 5000):rows() do
        local here     = onset and row.source == onset.source
        local distance = here and onset.line - row.first or nil
        local seconds  = onset and onset.wall_time and row.first_time and onset.wall_time - row.first_time or nil
        local earlier  = not onset
        if here then earlier = distance > 0 elseif seconds then earlier = seconds >= 0 end
        local weight = Severe[row.level]
        local text   = row.example or row.template
        local failure = weight ~= 3 and logs.speaks_of_failure(text)
        if not weight and not row.level and failure then weight = 2 end
        -- Libraries warn once of this and that, most at the start, in one run and not in the next. Without an error
        -- that follows, a warning has to come again or to speak of a failure.
        local talk = weight == 2 and not failure and (not onset and row.lines < opt.repeats
          or row.first <= length // 10 and not (here and distance <= near))
        if not weight and here and distance > 0 and distance <= near and row.first <= length and chance < 0.5 then
          weight = 1
        end
        if earlier and weight and not talk and not logs.is_part(text) and not hasTwin(row.template) then
          local nearness = distance and 1 / (1 + distance / 100) or 0
          found[#found + 1] = { row = row, distance = distance, seconds = seconds,
                                weight = weight + nearness + 1 / (1 + math.log(row.lines, 10)) }
        end
      end
      if #found > 0 then
        table.sort(found, function(a, b)
          if a.weight ~= b.weight then return a.weight > b.weight end
          return a.row.first < b.row.first
        end)
        local named, evidence = {}, {}
        for i = 1, math.min(#found, 10) do
          local row = found[i].row
          evidence[i] = row
          if i <= opt.shown then
            local where = found[i].distance and (", %s before the first error"):format(
              found[i].seconds and found[i].seconds > 0 and units.format(math.floor(found[i].seconds * 1e9))
              or units.plural(found[i].distance, "line")) or ""
            local path = row.source:split("/")
            local rank = row.rank and (", rank %d"):format(row.rank) or ""
            local text = (row.example or row.template):trim():sub(1, 160)
            named[i] = ("\"%s\" (%s, first in line %d of %s%s%s)"):format(text, units.plural(row.lines, "line"),
              row.first, path[#path], rank, where)
          end
        end
        report {
          symptom  = "log-line-new",
          score    = found[1].row.level and Severe[found[1].row.level] and 0.6 or 0.4,
          severity = "info",
          at       = { source = found[1].row.source, line = found[1].row.first, rank = found[1].row.rank },
          message  = ("%s of log lines that no good run has%s: %s%s"):format(units.plural(#found, "kind"),
            onset and " come before the first error" or "", table.concat(named, "; "),
            #found > #named and ("; and %d more"):format(#found - #named) or ""),
          evidence = evidence,
        }
      end
    end
  end,
}
