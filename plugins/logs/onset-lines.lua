--- ## What it detects
--- Kinds of log lines that first occur in the short time before the trouble begins, or come ten times as often in it as
--- before. The trouble begins with the first error, the first loss that is not a number, the first jump of the loss,
--- or the first of the requests that fail in a row.
---
--- ## Why it matters
--- What a run said for hours without harm did not start the fault. What it said for the first time a moment before may
--- have: a reconnect, another shard, a clock that stepped, a checkpoint that was written.
---
--- ## How to confirm
--- Look for the same line in earlier runs: one that is followed by the trouble each time belongs to it, one that came
--- alone was a coincidence.
---
--- ## Known false positives
--- Lines of a phase that begins for the first time, as the first validation. Logs of free text, whose every line is
--- new, are told by how many kinds of lines begin in stretches without trouble.
---
--- ## References
--- L4, temporal comparison of logs: https://arxiv.org/abs/2503.20263

local logs = require("logs")

local Severe = { warning = 1, error = 2, critical = 2 }

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Log lines that begin when the trouble begins",
  needs    = { log_templates = { "template", "first" }, any = { errors = { "line" }, scalars = { "value" },
               requests = { "status" } } },
  symptoms = { "log-line-at-onset" },
  options  = {
    lines     = { default = 50,  doc = "Lines before the trouble that count as its onset" },
    seconds   = { default = 60,  doc = "The same in seconds, for logs of other files" },
    history   = { default = 300, doc = "Lines before the onset that are needed to call a line new" },
    jump      = { default = 12,  doc = "Robust standard deviations above the losses before that are a jump" },
    increase  = { default = 10,  doc = "Times as often that counts as a rate that changed" },
    shown     = { default = 3,   doc = "Kinds of lines named in the message" },
  },

  run = function(case)
    local opt    = case.options
    local judged = false

    -- Where the trouble of a run begins, as a line of a log, and when.
    local function onsetOf(run, templates)
      local sources = templates:distinct("source"):select("source")
      local faults  = case.errors:where("(type is null or type != 'warning') and (role is null or role != 'advice')")
        :join(sources, { "source" }):where("line is not null")
      local first = faults:where("wall_time is not null"):sort("wall_time"):first() or faults:first()
      if first then
        return { source = first.source, line = first.line, time = first.wall_time, what = "the first error" }
      end
      -- A loss from a log stands in the line that its place says.
      local all  = case.scalars:where("run == ? and metric == 'loss' and layer is null", run)
      local loss, what = all:where("not finite(value)"):first(), "the first loss that is not a number"
      if not loss and all:count() >= 64 then
        loss = all:with { z = all:col("value"):robust_z(32) }
          :where("z > ? and value > ?", opt.jump, 1.5 * all:median("value")):first()
        what = "the first jump of the loss"
      end
      if loss then
        for source in sources:rows() do
          local line = case.log_lines:where("source == ? and line == ?", source.source, loss.place):first()
          if line and loss.raw_name and line.text:contains(loss.raw_name) then
            return { source = source.source, line = line.line, time = line.wall_time, what = what }
          end
        end
        if loss.wall_time then return { time = loss.wall_time, what = what } end
      end
      -- Requests that fail in a row, after a time in which none did.
      local asked = case.requests:where("run == ? and status is not null and at is not null", run):sort("at")
      local n     = asked:count()
      if n >= 40 then
        local failed = asked:where("status >= 500")
        local begun  = failed:first()
        if begun and failed:count() >= 5 and asked:where("at < ?", begun.at):count() >= n // 4 then
          return { time = begun.at, what = "the first request that fails" }
        end
      end
    end

    local goods, rest = logs.sides(case.log_templates)
    local known = goods:aggregate({ "template" }, { good_lines = "sum lines" })

    for run, templates in rest:group("run") do
      local onset = onsetOf(run, templates)
      local fresh = templates:join(known, { "template" }, "left"):where("good_lines is null")
      local found = {}

      local function take(row, distance, seconds, times)
        local text = row.example or row.template
        if logs.is_part(text) then return end
        found[#found + 1] = { row = row, distance = distance, seconds = seconds, times = times,
                              weight = (Severe[row.level] or 0) + (distance and 1 / (1 + distance) or 0) }
      end

      if onset and onset.line and onset.line > opt.history then
        judged = true
        local begin = onset.line - opt.lines
        local here  = fresh:where("source == ?", onset.source)
        -- How many kinds begin in a stretch of this length when nothing is wrong, once the start-up is over.
        local later   = onset.line // 4
        local usual   = here:where("first >= ? and first < ?", later, begin):count() * opt.lines / (begin - later)
        local warned  = here:where("first >= ? and first < ? and level is not null and level != 'info' and "
          .. "level != 'debug'", later, begin):count() * opt.lines / (begin - later)
        for row in here:where("first >= ? and first < ?", begin, onset.line):sort("first"):rows() do
          if (Severe[row.level] and warned or usual) < 0.25 then take(row, onset.line - row.first) end
        end
        -- Of small logs every line is on record, and rates can be told.
        local lines = case.log_lines:where { source = onset.source }
        if lines:where("line < ?", onset.line):count() >= 0.9 * (onset.line - 1) then
          local now  = lines:where("line >= ? and line < ?", begin, onset.line)
            :aggregate({ "template" }, { n = "count" }):where("n >= 5")
          local past = lines:where("line < ?", begin):aggregate({ "template" }, { was = "count" })
          for row in now:join(past, { "template" }):rows() do
            local times = row.n / opt.lines / (row.was / (begin - 1))
            if times >= opt.increase then
              local kind = here:where { template = row.template }:first()
              if kind then take(kind, nil, nil, times) end
            end
          end
        end
      end
      -- Other logs of the run, and an onset that only has a time.
      if onset and onset.time then
        local others = fresh:where("first_time is not null and source != ?", onset.source or "")
        for _, rows in others:group("source") do
          local start = rows:min("first_time")
          local later = start + (onset.time - start) / 4
          local begin = onset.time - opt.seconds
          if begin - later >= 5 * opt.seconds then
            judged = true
            local usual = rows:where("first_time >= ? and first_time < ?", later, begin):count() * opt.seconds
              / (begin - later)
            if usual < 0.25 then
              local near = rows:where("first_time >= ? and first_time <= ?", begin, onset.time)
              for row in near:sort("first_time"):slice(0, 1000):rows() do
                take(row, nil, onset.time - row.first_time)
              end
            end
          end
        end
      end

      if #found > 0 then
        table.sort(found, function(a, b)
          if a.weight ~= b.weight then return a.weight > b.weight end
          return a.row.first < b.row.first
        end)
        local texts, evidence = {}, {}
        for i = 1, math.min(#found, 10) do
          local one   = found[i]
          evidence[i] = one.row
          if i <= opt.shown then
            local path = one.row.source:split("/")
            local when = one.times and ("%.0f times as often as before"):format(one.times)
              or one.distance and ("first %s before it"):format(units.plural(one.distance, "line"))
              or ("first %s before it"):format(units.format(math.floor(one.seconds * 1e9)))
            texts[i] = ("\"%s\" (line %d of %s, %s)"):format((one.row.example or one.row.template):trim():sub(1, 160),
              one.row.first, path[#path], when)
          end
        end
        report {
          symptom  = "log-line-at-onset",
          score    = Severe[found[1].row.level] and 0.6 or 0.4,
          severity = "info",
          at       = { source = found[1].row.source, line = found[1].row.first, rank = found[1].row.rank },
          message  = ("%s of log lines begin right before %s%s: %s%s"):format(units.plural(#found, "kind"), onset.what,
            onset.line and (" (line %d)"):format(onset.line) or "", table.concat(texts, "; "),
            #found > #texts and ("; and %d more"):format(#found - #texts) or ""),
          evidence = evidence,
        }
      end
    end
    if not judged then
      skip(("a log with an error, a loss that jumps or is not a number, or failing requests, after %d quiet lines: the "
        .. "log from the start of the run"):format(opt.history))
    end
  end,
}
