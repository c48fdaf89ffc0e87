--- ## What it detects
--- A loss that never leaves its first level, and one that stops improving while it is still high.
---
--- ## Why it matters
--- Flat from the start means that no step changes the model, or that there is nothing to learn. A later plateau that is
--- still far from zero asks whether the step size went away.
---
--- ## How to confirm
--- Overfit one batch: a loss that stays up there is a broken step, not a hard task.
---
--- ## Known false positives
--- A task whose floor is high, such as text with much entropy. A level below `min_level` of the first loss is taken for
--- a floor and not reported.
---
--- ## References
--- Identical curves come from a learning rate of zero and from an optimizer that holds other parameters; only `lr`
--- tells.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss stops improving, or never starts",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-plateau", "loss-flat-from-start" },
  options  = {
    flat      = { default = 0.02,
                  doc = "Change of level over the run that counts as none, as a share of the first loss" },
    still     = { default = 0.01, doc = "Change of level over the last half that counts as none" },
    min_level = { default = 0.40, doc = "Level over first loss below which a plateau is taken for the task's floor" },
    min_rows  = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      local rows = loss:count()
      if rows >= opt.min_rows then
        judged = true
        local fifth = rows // 5
        local start = loss:slice(0, math.min(5, fifth)):median("value")
        local low, high
        for part = 0, 4 do
          local level = loss:slice(part * fifth, fifth):median("value")
          low, high = math.min(low or level, level), math.max(high or level, level)
        end
        local middle = loss:slice(rows // 2, fifth):median("value")
        local finish = loss:slice(rows - fifth, fifth):median("value")
        if high - low <= opt.flat * start and math.abs(finish - start) <= opt.flat * start and start > 1e-3 then
          report {
            symptom  = "loss-flat-from-start",
            score    = 0.95,
            at       = { step = loss:first().step },
            message  = ("loss never leaves its first level: %.4g at step %d, %.4g at step %d, fifths of the run "
              .. "between %.4g and %.4g")
              :format(start, loss:first().step, finish, loss:last().step, low, high),
            evidence = { loss:first(), loss:last() },
          }
        elseif math.abs(middle - finish) <= opt.still * start and finish >= opt.min_level * start
          and finish < 0.98 * start then
          report {
            symptom  = "loss-plateau",
            score    = 0.6,
            at       = { step = loss:row(rows // 2).step },
            message  = ("loss stands still at %.4g from step %d on (%.4g there), %s of where it started"):format(finish,
              loss:row(rows // 2).step, middle, units.percent(finish / start)),
            evidence = { loss:row(rows // 2), loss:last() },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged losses"):format(opt.min_rows)) end
  end,
}
