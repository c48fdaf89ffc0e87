--- ## What it detects
--- A dynamic loss scale that halves again and again instead of settling.
---
--- ## Why it matters
--- Each halving is a skipped step because a gradient was not finite. A scale that keeps falling says that every step
--- overflows, so the scale is not the problem.
---
--- ## How to confirm
--- Log which parameter's gradient holds the first Inf at the next skipped step.
---
--- ## Known false positives
--- The first ten steps: the scaler starts high and searches downwards. A fall of less than one halving in two thousand
--- steps follows gradients that grow, and is not reported while the scale is above 1. Of a log that has no column of
--- it, but lines of skipped steps, the search is over where no lower scale comes in the second half.
---
--- ## References
--- https://pytorch.org/docs/stable/amp.html#gradient-scaling

--- What lines of skipped steps say that the scale goes down to, of each log the last one that is lower than all before:
--- { line, to, lines }.
local function last_fall(lines)
  local found = {}
  for source, own in lines:group("source") do
    local lowest
    for line in own:where("match(text, '*loss scale*reducing to *|*reducing loss scale to *|*setting loss scale to*')")
      :sort("line"):slice(0, 10000):rows() do
      local parts = line.text:split("to")
      local to = string.numbers(parts[#parts])[1]
      if to and (not lowest or to < lowest.to) then lowest = { line = line, to = to, lines = own:max("line") } end
    end
    found[#found + 1] = lowest
  end
  return found
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss scale collapses",
  needs    = { any = { scalars = { "step", "value", metric = "loss_scale" }, log_lines = { "text", "line" } } },
  symptoms = { "loss-scale-collapse" },
  options  = {
    factor = { default = 16.0, doc = "Total fall after the first tenth of the run worth reporting" },
  },

  run = function(case)
    local scales = case.scalars:where { name = "loss_scale", primary = true }
    local falls  = scales:count() == 0 and last_fall(case.log_lines) or {}
    if scales:count() == 0 and #falls == 0 then
      return skip("the loss scale, as a column or in lines of skipped steps")
    end
    for _, fall in ipairs(falls) do
      if fall.line.line > fall.lines / 2 or fall.to <= 1 then
        skip(("a log that goes on for as long as the loss scale falls: it comes down to %g in line %d of %d"):format(
          fall.to, fall.line.line, fall.lines))
      end
    end
    for _, run in scales:group("run") do
      local scale  = run:sort("step"):where("finite(value)")
      local begin  = scale:count() > 0 and scale:first().step or 0
      local steady = scale:slice(scale:count() // 10, scale:count()):where("step >= ?", begin + 10)
      if steady:count() >= 2 then
        local top, last = steady:max("value"), steady:last()
        -- Gradients that grow take the scale down with them, over many thousand steps; each halving on the way up of a
        -- search, one in two thousand steps, is taken back. What falls by more is not settling.
        local since = steady:where("value >= ?", top):last().step
        local slow  = top > 0 and last.step - since > 2000 * math.log(math.max(2, top / last.value), 2)
        if top > 0 and last.value * case.options.factor <= top and not (slow and last.value >= 1) then
          local first = steady:where("value < ?", top):first()
          report {
            symptom  = "loss-scale-collapse",
            score    = 0.9,
            at       = { step = first.step },
            message  = ("loss scale falls from %g to %g between steps %d and %d: every halving is a step skipped for a "
              .. "non-finite gradient")
              :format(top, last.value, first.step, last.step),
            evidence = { first, last },
          }
        end
      end
    end
  end,
}
