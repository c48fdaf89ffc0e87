--- ## What it detects
--- A log that ends in an error which nothing else knows: a line of level error or critical, or one that begins as a
--- fatal error does, among its last lines, with no work behind it.
---
--- ## Why it matters
--- What a log says last is mostly why it says no more. A program, a driver or a script of one's own has errors that no
--- list holds, and a run that died of one is not healthy because it is not on a list.
---
--- ## How to confirm
--- Look for the text in the source of the program that printed it (`git grep`), and for what it was doing in the lines
--- before.
---
--- ## Known false positives
--- Programs that print what they tidy up at their end as errors. A kind of error that came earlier too, and that the
--- run went on after, is none that ended it, and is left out; so are servers, whose logs end anywhere.
---
--- ## References
--- L4, the last lines of failed jobs: https://arxiv.org/abs/2503.20263

local FATAL = "fatal: *|fatal error*|panic: *|aborted|aborted (*|terminate called*|*(core dumped)|killed|bus error*|"
  .. "assertion *failed*|error: *|error - *|critical: *|uncaught exception*"

local function is_severe(row)
  return row.level == "error" or row.level == "critical" or (row.text or ""):lower():trim():glob(FATAL)
end

local function quoted(text)
  text = text:trim()
  return '"' .. (text:len() > 160 and text:sub(1, 160) .. "..." or text) .. '"'
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A log ends in an error that nothing else knows",
  needs    = { log_lines = { "text", "line" }, log_templates = { "template", "first", "last" } },
  symptoms = { "log-ends-in-error" },
  options  = {
    tail   = { default = 30, doc = "Last lines of a log in which its last error is looked for" },
    behind = { default = 5,  doc = "Lines that may follow it" },
  },

  run = function(case)
    local opt = case.options
    if case.requests:count() > 0 then return skip("a log of a run: servers' logs end anywhere") end
    local known = case.errors:where("(type is null or type != 'warning') and (role is null or role != 'advice')")
    for source, kinds in case.log_templates:group("source") do
      local last  = kinds:max("last")
      local first, final, count = nil, nil, 0
      for row in case.log_lines:where("source == ? and line > ?", source, last - opt.tail):rows() do
        if is_severe(row) then
          local kind = kinds:where { template = row.template }:first()
          if kind and kind.first > last - opt.tail then
            first, final, count = first or row, row, count + 1
          end
        end
      end
      if final and last - final.line <= opt.behind and known:where { source = source }:count() == 0 then
        report {
          symptom  = "log-ends-in-error",
          score    = 0.7,
          severity = "error",
          at       = { source = source, line = first.line, rank = first.rank },
          message  = ("the log ends in an error that nothing here knows: %s in line %d of %d%s"):format(
            quoted(first.text), first.line, last,
            count > 1 and (", and then %s"):format(quoted(final.text)) or ""),
          evidence = count > 1 and { first, final } or { first },
        }
      end
    end
  end,
}
