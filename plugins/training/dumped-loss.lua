--- ## What it detects
--- A batch whose loss stands far above those before and after it, in a step that no row of the log has: dumps hold the
--- loss of their own batch.
---
--- ## Why it matters
--- A log of every 25th step shows one bad batch in 25. A recorder that dumps where something happens has the others.
---
--- ## How to confirm
--- Replay the batch of that step from the checkpoint before it: the same loss means data.
---
--- ## Known false positives
--- Batches of a few examples, of which one that nobody can know makes a jump: the rise has to be more than eight such
--- examples add, or the loss above that of knowing nothing. Dumps of another loss than the logged one: three in four
--- have to lie where the log is around them.
---
--- ## References
--- none

local targets = require("targets")

--- Losses in the log and in dumps, by step: { step, value }.
local function merged(logged, dumps)
  local all = {}
  for row in logged:rows() do all[#all + 1] = { row.step, row.value } end
  for _, dump in ipairs(dumps) do all[#all + 1] = { dump.step, dump.mean } end
  table.sort(all, function(a, b) return a[1] < b[1] end)
  return all
end

--- The highest of the `count` losses next to a step, on its one side or the other; nil of fewer than `least`.
local function highest(all, step, back, count, least)
  local most, found = 0, 0
  for i = back and #all or 1, back and 1 or #all, back and -1 or 1 do
    if found < count and (back and all[i][1] < step or not back and all[i][1] > step) then
      most, found = math.max(most, all[i][2]), found + 1
    end
  end
  return found >= least and most or nil
end

--- Whether a dumped loss lies where the log is around it: within a tenth of the two rows on either side.
local function fits(logged, dump)
  local before = logged:where("step <= ?", dump.step)
  local near   = before:slice(math.max(0, before:count() - 2), 2)
  local after  = logged:where("step >= ?", dump.step):slice(0, 2)
  if near:count() == 0 or after:count() == 0 then return false end
  return dump.mean >= 0.9 * math.min(near:min("value"), after:min("value"))
    and dump.mean <= 1.1 * math.max(near:max("value"), after:max("value"))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss of a dumped batch stands far above the logged ones around it",
  needs    = { scalars = { "step", "value", metric = "loss" }, tensors = { "name", "step", "mean" } },
  symptoms = { "loss-spike", "loss-spike-recovers" },
  options  = {
    factor   = { default = 1.5, doc = "Times the highest of the losses before and of those after" },
    before   = { default = 5,   doc = "Losses before that count; three at least" },
    after    = { default = 2,   doc = "Losses after that count, all of them needed" },
    examples = { default = 8,   doc = "Examples of which nothing is known that one batch may have for no reason" },
  },

  run = function(case)
    local opt = case.options
    local dumped = case.tensors:where("match(name, 'loss|loss.output') and numel == 1 and nonfinite == 0 and "
      .. "step is not null"):sort("step")
    local batch = case.config:where("match(key, '*batch_size') and not match(key, '*eval*|*val_*|*test*') and "
      .. "number >= 1"):first()
    local judged = false
    for name, rows in case.scalars:where { name = "loss", primary = true }:group("run") do
      local logged = rows:where("finite(value)"):sort("step")
      local agree, count, extra = 0, 0, {}
      for dump in dumped:where { run = name }:slice(0, 200):rows() do
        count = count + 1
        agree = agree + (fits(logged, dump) and 1 or 0)
        if logged:where { step = dump.step }:count() == 0 then extra[#extra + 1] = dump end
      end
      if agree >= 3 and 4 * agree >= 3 * count and #extra > 0 and logged:min("value") > 0 then
        judged = true
        local size = targets.classes(case)
        local nothing = size and math.log(size.number) or logged:slice(0, 3):median("value")
        local all = merged(logged, extra)
        for _, dump in ipairs(extra) do
          local before = highest(all, dump.step, true, opt.before, 3)
          local after  = highest(all, dump.step, false, opt.after, opt.after)
          if before and after and dump.mean > opt.factor * math.max(before, after)
            and (dump.mean > nothing or batch and dump.mean - before > opt.examples * nothing / batch.number) then
            for _, symptom in ipairs { "loss-spike", "loss-spike-recovers" } do
              report {
                symptom  = symptom,
                score    = 0.9,
                at       = { run = name, step = dump.step },
                message  = ("the batch dumped at step %d has a loss of %.4g; those around it are at most %.4g before "
                  .. "and %.4g after"):format(dump.step, dump.mean, before, after),
                evidence = { dump },
              }
            end
            return
          end
        end
      end
    end
    if not judged then skip("dumped losses that are those of the log, at steps that it leaves out") end
  end,
}
