--- ## What it detects
--- Warnings, errors and words of failure of a kind that one rank of a job logs and no other: told by the ranks that
--- lines or files name, of at least three that log. In logs without ranks the files of a folder are the ranks.
---
--- ## Why it matters
--- Ranks of a job run the same program on like machines and say the same things. What one alone complains of is its
--- own: its device, its node, its link, its share of the data. It is where to look when all others only wait.
---
--- ## How to confirm
--- Move the rank to another node, or swap its data shard with another's: a fault of the machine stays with the node,
--- one of the data goes with the shard.
---
--- ## Known false positives
--- A library that warns once a process where its own share of the data has an odd example. Warnings of rank 0 do not
--- count unless a good run has none, since many libraries warn there alone; nor does a single warning of a run that
--- logs no error.
---
--- ## References
--- L4, spatial comparison of logs: https://arxiv.org/abs/2503.20263

local logs = require("logs")

local Severe = { warning = 1, error = 2, critical = 2 }

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Log lines that one rank alone prints",
  needs    = { log_templates = { "template", "lines" }, log_lines = { "text" } },
  symptoms = { "log-line-one-rank" },
  options  = {
    min_lines = { default = 5, doc = "Lines a rank must log for its silence to mean anything" },
    repeats   = { default = 3, doc = "Times that a warning must come in a run without errors" },
    shown     = { default = 3, doc = "Kinds of lines named in the message" },
  },

  run = function(case)
    local opt    = case.options
    local judged = false
    local faults = case.errors:where("type is null or type != 'warning'")
    local goods, rest = logs.sides(case.log_templates)
    local known = goods:aggregate({ "template" }, { good_lines = "sum lines" })

    for run, templates in rest:group("run") do
      local lines  = case.log_lines:join(templates:distinct("source"):select("source"), { "source" })
      local unit   = "rank"
      local volume = lines:where("rank is not null"):aggregate({ "rank" }, { n = "count" })
      if volume:count() == 0 then
        unit   = "source"
        volume = lines:aggregate({ "source" }, { n = "count" })
      end
      volume = volume:where("n >= ?", opt.min_lines)
      if volume:count() >= 3 then
        judged = true
        -- Kinds of lines that one unit alone has; a row without a rank is of several, or of none.
        local named  = templates:where(unit .. " is not null")
        local shared = unit == "rank" and templates:where("rank is null"):distinct("template"):select("template"):with {
          shared = 1 } or nil
        local single = named:aggregate({ "template" }, { low = "min " .. (unit == "rank" and "rank" or "first"),
          high = "max " .. (unit == "rank" and "rank" or "first"), rows = "count" })
        single = unit == "rank" and single:where("low == high") or single:where("rows == 1")
        local alone = named:join(single, { "template" }):join(known, { "template" }, "left"):where("good_lines is null")
        if shared and shared:count() > 0 then
          alone = alone:join(shared, { "template" }, "left"):where("shared is null")
        end
        local troubled = faults:join(templates:distinct("source"):select("source"), { "source" }):count() > 0
        local lowest   = unit == "rank" and volume:min("rank") or nil
        local mine, units_seen = {}, 0
        for row in alone:sort("first"):slice(0, 5000):rows() do
          local text   = row.example or row.template
          local weight = Severe[row.level] or (not row.level and logs.speaks_of_failure(text) and 1 or nil)
          local at     = row[unit]
          -- Many libraries warn on the first rank alone; a good run that does not, tells otherwise.
          local usual  = at == lowest and weight == 1 and goods:count() == 0
          local rare   = weight == 1 and not troubled and row.lines < opt.repeats
          if weight and not usual and not rare and not text:starts_with(" ") and not text:starts_with("File \"") then
            if not mine[at] then
              mine[at]   = { weight = 0, rows = {} }
              units_seen = units_seen + 1
            end
            mine[at].weight = math.max(mine[at].weight, weight)
            table.insert(mine[at].rows, row)
          end
        end
        -- Where many ranks have lines of their own, each has its own texts and none is odd.
        if units_seen > 0 and units_seen <= math.max(1, volume:count() // 4) then
          for at, found in pairs(mine) do
            local own    = volume:where { [unit] = at }:first()
            local others = volume:where(unit .. " != ? and n >= ?", at, 0.2 * (own and own.n or 0))
            if others:count() >= 2 then
              local rows  = found.rows
              table.sort(rows, function(a, b)
                local x, y = Severe[a.level] or 1, Severe[b.level] or 1
                if x ~= y then return x > y end
                return a.first < b.first
              end)
              local texts, evidence = {}, {}
              for i = 1, math.min(#rows, 10) do
                evidence[i] = rows[i]
                if i <= opt.shown then
                  texts[i] = ("\"%s\" (%s, first in line %d)"):format((rows[i].example or rows[i].template):trim()
                    :sub(1, 160), units.plural(rows[i].lines, "line"), rows[i].first)
                end
              end
              local path = rows[1].source:split("/")
              report {
                symptom  = "log-line-one-rank",
                score    = found.weight == 2 and 0.7 or 0.5,
                severity = found.weight == 2 and "warning" or "info",
                at       = { source = rows[1].source, line = rows[1].first, rank = unit == "rank" and at or nil },
                message  = ("%s alone logs %s%s; %s that log as much do not"):format(
                  unit == "rank" and ("rank %d"):format(at) or path[#path], table.concat(texts, "; "),
                  #rows > #texts and (" and %d more kinds of lines"):format(#rows - #texts) or "",
                  units.plural(others:count(), unit == "rank" and "other rank" or "other file")),
                evidence = evidence,
              }
            end
          end
        end
      end
    end
    if not judged then skip("logs of three ranks: give the files of all ranks, or a log whose lines name theirs") end
  end,
}
