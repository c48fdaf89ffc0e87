--- ## What it detects
--- Errors of a job as kinds: the same type, the same message but for its numbers, the same innermost frame. One line a
--- kind, over all ranks and restarts, with how many, on which ranks, and where the first one stands.
---
--- ## Why it matters
--- A job of a thousand ranks dies with a thousand tracebacks, and the same job restarted ten times with ten thousand.
--- They are two or three kinds, of which the one that came first is to be explained and the others follow from it.
---
--- ## How to confirm
--- Read one example of each kind, beginning with the one that was first.
---
--- ## Known false positives
--- Messages that differ in words, as in names of layers, count as kinds of their own.
---
--- ## References
--- The first failure as the root cause of a job: https://docs.pytorch.org/docs/stable/elastic/errors.html

--- A message with its numbers and addresses as #, its first line, at most 120 characters.
local function form(text)
  local out, number = {}, false
  text = text:split("\n")[1]:sub(1, 200)
  for i = 1, text:len() do
    local code  = text:byte(i)
    local digit = code >= 48 and code <= 57
    -- Letters inside a number, as in 0x7f3a and 2.50e-3, and between numbers, as in 10.0.0.1:29500.
    local inner = number and ((code >= 97 and code <= 102) or code == 120 or code == 46)
    if digit or inner then
      if not number then out[#out + 1] = "#" end
      number = true
    else
      number = false
      out[#out + 1] = text:sub(i, i)
    end
  end
  return table.concat(out):trim():sub(1, 120)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Many errors that are few kinds",
  needs    = { errors = { "message" } },
  symptoms = { "errors-few-kinds" },
  options  = {
    min_errors = { default = 5, doc = "Errors below which each is told by itself" },
    per_kind   = { default = 2, doc = "Errors a kind, in the mean, worth a summary" },
    shown      = { default = 4, doc = "Kinds named in the message" },
  },

  run = function(case)
    local opt    = case.options
    local errors = case.errors:where("message is not null and (type is null or type != 'warning') and "
      .. "(role is null or role != 'advice')")
    local timed  = errors:where("wall_time is not null")
    -- In the order of time where all have one, else in that of the files.
    if timed:count() == errors:count() then errors = timed:sort("wall_time") end
    local order, kinds, total = {}, {}, 0
    for row in errors:slice(0, 10000):rows() do
      local frames = row.frames and row.frames:split(" < ") or {}
      local key    = table.concat({ row.type or "", form(row.message), frames[#frames] or "" }, "\n")
      local kind   = kinds[key]
      if not kind then
        kind = { first = row, n = 0, ranks = {}, num_ranks = 0, sources = {}, num_sources = 0 }
        kinds[key], order[#order + 1] = kind, kind
      end
      local n = 1 + (row.repeats or 0)
      kind.n, total = kind.n + n, total + n
      if row.rank and not kind.ranks[row.rank] then
        kind.ranks[row.rank], kind.num_ranks = true, kind.num_ranks + 1
      end
      if row.source and not kind.sources[row.source] then
        kind.sources[row.source], kind.num_sources = true, kind.num_sources + 1
      end
    end
    if total < opt.min_errors or total < opt.per_kind * #order then return end

    local texts, evidence = {}, {}
    for i = 1, math.min(#order, 10) do
      local kind, first = order[i], order[i].first
      evidence[i] = first
      if i <= opt.shown then
        local path  = first.source and first.source:split("/") or {}
        local line  = first.line and ("line %d of "):format(first.line) or ""
        local where = path[#path] and (", first in %s%s"):format(line, path[#path]) or ""
        local type  = first.type and not first.message:starts_with(first.type) and first.type .. ": " or ""
        texts[i] = ("%s%s (%s%s%s%s)"):format(type, first.message:split("\n")[1]:sub(1, 120),
          units.plural(kind.n, "time"),
          kind.num_ranks > 1 and (" on %d ranks"):format(kind.num_ranks) or kind.num_ranks == 1 and first.rank
            and (" on rank %d"):format(first.rank) or "",
          kind.num_sources > 1 and (" in %d files"):format(kind.num_sources) or "", where)
      end
    end
    report {
      symptom  = "errors-few-kinds",
      score    = 0.6,
      severity = "info",
      at       = { source = order[1].first.source, line = order[1].first.line, rank = order[1].first.rank },
      message  = ("%s errors are %s: %s%s"):format(units.count(total), units.plural(#order, "kind"),
        table.concat(texts, "; "), #order > #texts and ("; and %d more"):format(#order - #texts) or ""),
      evidence = evidence,
    }
  end,
}
