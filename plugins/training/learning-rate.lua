--- ## What it detects
--- A logged learning rate that is exactly zero over many steps, or that changes by a large factor from one row to the
--- next.
---
--- ## Why it matters
--- A scheduler that divides integers, steps once per process or has too short a period turns training off in silence.
---
--- ## How to confirm
--- Plot the schedule without the model: call `scheduler.step()` for the planned number of steps and print the rate.
---
--- ## Known false positives
--- Schedules that end at zero have one such row at the end, and warm-ups may start with one; a zero tail of more than a
--- tenth of the run is reported even when intended. A step down, which schedules do, is reported as information.
---
--- ## References
--- https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The learning rate is zero for long, or jumps",
  needs    = { scalars = { "step", "value", metric = "lr" } },
  symptoms = { "lr-zero", "lr-jump" },
  options  = {
    zero_share = { default = 0.10, doc = "Share of rows at zero worth reporting" },
    factor     = { default = 5.0,  doc = "Change between two rows that is a jump" },
    warmup     = { default = 0.05, doc = "Part of the run at its start in which jumps are normal" },
  },

  run = function(case)
    local opt = case.options
    for _, run in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rate  = run:sort("step"):where("finite(value)")
      local zeros = rate:where("value == 0")
      if zeros:count() >= 3 and zeros:count() >= opt.zero_share * rate:count() then
        local first = zeros:first()
        local good  = rate:where("step < ? and value > 0", first.step):last()
        report {
          symptom  = "lr-zero",
          score    = 0.98,
          at       = { step = first.step },
          message  = ("learning rate is exactly 0 in %d of %d rows, from step %d on; %s"):format(zeros:count(),
            rate:count(), first.step,
            good and ("it was %.3g at step %d"):format(good.value, good.step) or "it never was anything else"),
          evidence = { first, good or first },
        }
      end

      local calm = rate:slice(math.max(5, math.floor(opt.warmup * rate:count())), rate:count()):where("value > 0")
      if calm:count() >= 3 then
        local before = calm:with { change = calm:col("value"):log():diff() }
        local jump   = before:where("abs(change) > ?", math.log(opt.factor)):first()
        -- A schedule that runs out loses more and more of its rate at the end; that is no jump.
        if jump and (jump.change > 0
          or jump.step < calm:last().step - 0.05 * (calm:last().step - calm:first().step)) then
          report {
            symptom  = "lr-jump",
            score    = jump.change > 0 and 0.7 or 0.3, -- schedules in steps go down by design
            severity = "info", -- schedules jump by design; with a spike or a turn of the loss it becomes a cause
            at       = { step = jump.step },
            message  = ("learning rate changes by a factor of %.3g at step %d, to %.3g"):format(math.exp(jump.change),
              jump.step, jump.value),
            evidence = { jump, calm:around(jump, 2) },
          }
        end
      end
    end
  end,
}
