--- ## What it detects
--- A run that stood still between two logged steps, and a clock that goes back, by the times of the log.
---
--- ## Why it matters
--- A pause costs what the whole job costs, and the curves over steps do not show it. A clock that goes back makes every
--- duration computed from it wrong, throughput and step times included.
---
--- ## How to confirm
--- Look at what else has the time of the pause: a checkpoint, an evaluation, the scheduler's log of the cluster, the
--- file system.
---
--- ## Known false positives
--- Runs that are suspended on purpose. A wait with an evaluation between its two rows is the evaluation's, where half
--- of the rows with one are as long.
---
--- ## References
--- Thresholds are relative: a pause is 20 times as long as the run's own steps make it, and a minute at least.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The run stood still, or its clock goes back",
  needs    = { scalars = { "step", "wall_time", metric = "loss" } },
  symptoms = { "run-paused", "clock-goes-back" },
  options  = {
    factor   = { default = 20,  doc = "Times the typical duration that make a pause" },
    least    = { default = 60,  doc = "Seconds below which nothing is a pause" },
    min_rows = { default = 10,  doc = "Logged times below which no duration is typical" },
  },

  run = function(case)
    local opt, judged = case.options, false
    --- Of long waits those that no evaluation explains: none lies between the two rows, or fewer than half of all
    --- evaluations take as long.
    local function unexplained(slow, run_name)
      local looks = case.scalars:where { run = run_name }
        :where("match(name, 'val_*|*/val_*|eval*|*/eval*|test_*') and step is not null"):distinct("step")
      local steps, with = {}, 0
      for row in slow:slice(0, 1000):rows() do
        if looks:where("step >= ? and step <= ?", row.step - row.steps, row.step):count() == 0 then
          steps[#steps + 1] = row.step
        else
          with = with + 1
        end
      end
      return with > 0 and 2 * with + 1 >= looks:count() and slow:where { step = steps } or slow
    end

    for run_name, run in case.scalars:where { name = "loss", primary = true }:where("finite(wall_time)"):group("run") do
      local rows = run:sort("step")
      if rows:count() >= opt.min_rows then
        judged = true
        local timed = rows:with { took = rows:col("wall_time"):diff(), steps = rows:col("step"):diff() }
          :where("steps > 0")
        local pace  = timed:with { each = timed:compute("took / steps") }:where("took > 0"):median("each")
        local back  = timed:where("took < 0")
        if back:count() > 0 then
          local worst = back:sort("took"):first()
          report {
            symptom  = "clock-goes-back",
            score    = 0.9,
            severity = "warning",
            at       = { step = worst.step },
            message  = ("the clock goes back by %s at step %d%s: durations over it are wrong"):format(
              units.format(-worst.took * units.s), worst.step,
              back:count() > 1 and (", and at %d more"):format(back:count() - 1) or ""),
            evidence = { worst },
          }
        end
        local slow = pace and timed:where("took > ? and took > steps * ?", opt.least, opt.factor * pace)
        slow = slow and unexplained(slow, run_name)
        if slow and slow:count() > 0 then
          local longest, lost = slow:top(1, "took"):first(), slow:sum("took")
          local share = lost / (rows:last().wall_time - rows:first().wall_time)
          report {
            symptom  = "run-paused",
            score    = math.min(0.95, 0.6 + share),
            severity = "warning",
            at       = { step = longest.step },
            message  = ("the run stood still for %s before step %d, where a step takes %s; %s, %s of the run's time")
              :format(units.format(longest.took * units.s), longest.step, units.format(pace * units.s),
              units.plural(slow:count(), "such pause"), units.percent(share)),
            evidence = { slow:top(5, "took") },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged losses with their time"):format(opt.min_rows)) end
  end,
}
