--- ## What it detects
--- Waiting for data that takes a large share of the logged step time, from when on, and whether the loss cared.
---
--- ## Why it matters
--- The model can be made no faster than its data arrives. The share of the wait is what a faster loader wins.
---
--- ## How to confirm
--- Feed one batch from memory again and again: the step takes what is left without the wait.
---
--- ## Known false positives
--- Loggers that time the loader's call on the device's clock: the host waits there for the device, and the loader is
--- blamed for it. Two files of a run have clocks of their own, as of a loop and of a recorder: where a row has both
--- times, these alone are compared. The first steps, which fill the loader's queue, are left out.
---
--- torchvision's references and their many copies call the wait `data`, which elsewhere is a term of the loss. It
--- counts as a wait beside a `time` in the same rows that is never shorter and no clock that runs on, if it does not
--- fall as a loss does. ESPnet's trainer and its copies call the wait `iter_time`, which elsewhere is the whole step.
--- It counts as a wait beside a `train_time` of the same rows that is never shorter and no clock that runs on, if what
--- is left of that without it does not grow as it does: a time of several steps beside that of one would.
---
--- ## References
--- https://github.com/espnet/espnet/blob/master/espnet2/train/trainer.py (iter_time, train_time)
--- https://github.com/pytorch/vision/blob/main/references/detection/utils.py (MetricLogger.log_every)
--- https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading

local runs = require("runs")

--- The last rows of a sparse log, if all of them wait for half of their time or more and none before them for a tenth:
--- two at least behind four, since one late batch may be any. Nil otherwise.
---@param both culprit.Table  with the share of the wait, by step
---@return culprit.Table?
local function late_end(both)
  local late = both:where("share >= 0.1"):first()
  if not late then return nil end
  local rest = both:where("step >= ?", late.step)
  local calm = both:count() - rest:count()
  return rest:count() >= 2 and calm >= 4 and rest:min("share") >= 0.5 and rest or nil
end

--- Whether what the steps take without their waits does not grow with these: by the slope of the one over the other,
--- against that of a time of several steps beside that of one.
local function grows_apart(steps)
  local x, y = steps:mean("value"), steps:mean("value_right") - steps:mean("value")
  local xx, xy = 0, 0
  for row in steps:rows() do
    xx = xx + (row.value - x) ^ 2
    xy = xy + (row.value - x) * (row.value_right - row.value - y)
  end
  return x > 0 and xx > 0 and xy / xx < 0.5 * y / x
end

--- The columns `data` and `time` of a run, or `iter_time` and `train_time`, if they time a step and the wait in it. Nil
--- otherwise.
---@param run culprit.Table  the `data` or `iter_time` of a run
---@param case culprit.Case
---@return culprit.Table?  the waits
---@return culprit.Table?  the times of their steps
local function timed_by_references(case, run, run_name)
  local wait  = run:where("finite(value)"):sort("step")
  local whole = run:first().name == "step_time"
  local time  = case.scalars:where { run = run_name }:where("value > 0")
    :where("match(raw_name, ?)", whole and "train_time|*/train_time" or "time")
  local steps = wait:select("step", "value", "place"):join(time:select("step", "value", "place"), "step")
    :where("place == place_right"):sort("step")
  if steps:count() < wait:count() or steps:where("value < 0 or value > value_right"):count() > 0 then return nil end
  local running, before = true, 0
  for row in steps:rows() do
    running, before = running and row.value_right >= before, row.value_right
  end
  local half = steps:count() // 2
  local falls = steps:slice(half, steps:count()):median("value") < 0.5 * steps:slice(0, half):median("value")
  if running or not whole and falls or whole and not grows_apart(steps) then return nil end
  return wait:select("step", "value"), time
end

--- Whether times rise by what their waits rise by, as they do where they contain them.
local function rises(both)
  local x, y, xx, xy = both:mean("value"), both:mean("value_right"), 0, 0
  for row in both:slice(0, 10000):rows() do
    xx = xx + (row.value - x) ^ 2
    xy = xy + (row.value - x) * (row.value_right - y)
  end
  return xx > 0 and xy >= 0.5 * xx
end

--- Whether a time is that of the whole run so far.
local function runs_on(both)
  local before = 0
  for row in both:slice(0, 10000):rows() do
    if row.value_right < before then return false end
    before = row.value_right
  end
  return both:count() >= 3 and both:last().value_right > 1.5 * both:first().value_right
end

--- The waits of a run for its data and the times of its steps; of a row that has both, these. Without a time of steps
--- one of training beside the waits, and whether that has to be taken for one that does not contain them.
---@return culprit.Table?
---@return culprit.Table?
---@return boolean?
local function timed(case, run, run_name)
  if run:first().name ~= "data_time" then return timed_by_references(case, run, run_name) end
  local wait = run:sort("step"):where("finite(value) and value >= 0"):select("step", "value")
  local placed = run:select("step", "place")
  local times = case.scalars:where { name = "step_time", run = run_name }:where("value > 0")
  local training = times:count() == 0
  if training then
    times = case.scalars:where { run = run_name }:where("value > 0 and match(raw_name, 'train_time|*/train_time')")
  end
  for _, own in times:group("raw_name") do
    local beside = placed:join(own:select("step", "place"), "step"):where("place == place_right")
    if beside:count() >= 0.5 * wait:distinct("step"):count() then
      if not training then return wait, own end
      local both = wait:join(own:select("step", "value"), "step"):sort("step")
      if runs_on(both) then return nil end
      return wait, own, not rises(both)
    end
  end
  if training then return nil end
  return wait, case.scalars:where { name = "step_time", primary = true, run = run_name }:where("value > 0")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The step waits for its data",
  needs    = { scalars = { "step", "value", metric = { "data_time", "data", "train_time" } } },
  symptoms = { "data-time-high" },
  options  = {
    share    = { default = 0.20, doc = "Wait over step time worth reporting" },
    least    = { default = 2e-3, doc = "Wait in seconds below which it is no loader's" },
    min_rows = { default = 8,    doc = "Logged steps below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local waits = case.scalars:where { name = "data_time", primary = true }
    if waits:count() == 0 then waits = case.scalars:where { name = "data", primary = true } end
    if waits:count() == 0 and case.scalars:where("match(raw_name, 'train_time|*/train_time')"):count() > 0 then
      waits = case.scalars:where("match(raw_name, 'iter_time|*/iter_time') and name == 'step_time'")
    end
    for run_name, run in waits:group("run") do
      local wait, time, beside = timed(case, run, run_name)
      local both = wait and wait:join(time:select("step", "value"), "step"):sort("step")
      if both and both:count() >= opt.min_rows then
        judged = true
        both = both:slice(both:count() // 20 + 1, both:count())
        -- A step time below the wait does not contain it.
        local apart = beside or both:where("value > value_right"):count() > 0.02 * both:count()
        both = both:with { share = apart and "value / (value + value_right)" or "value / value_right" }
        local since = both
        local from
        for change in both:col("share"):change_points():rows() do
          if change.after > change.before + 0.1 then from = change; since = both:slice(change.at, both:count()) end
        end
        -- Of the time and not of the typical step: a loader that is late at every eighth batch costs as much.
        local total = apart and since:sum("value") + since:sum("value_right") or since:sum("value_right")
        local usual = since:sum("value") / total
        local late  = since:where("share >= ?", opt.share)
        local last  = late_end(both)
        -- Below some ms a wait is Python between two steps, and no loader wins it.
        if last and last:median("value") < opt.least then last = nil end
        if late:count() > 0 and late:median("value") < opt.least then late = late:slice(0, 0) end
        if usual < opt.share or since:count() < 8 or late:count() < math.max(3, 0.05 * since:count()) then
          if last then
            report {
              symptom  = "data-time-high",
              score    = 0.8,
              at       = { step = last:first().step },
              message  = ("waiting for data takes %s of the time or more in the last %d logged steps, from step %d on "
                .. "(%.3g s of %.3g s), and less than a tenth in the %d before"):format(
                units.percent(last:min("share")), last:count(), last:first().step, last:median("value"),
                last:median("value_right") + (apart and last:median("value") or 0), both:count() - last:count()),
              evidence = { last:slice(0, 5) },
            }
          end
        else
          local start = late:first()
          local some  = late:count() < 0.8 * since:count()
          local loss  = runs.series(case, "loss", run_name)
          report {
            symptom  = "data-time-high",
            score    = math.min(0.97, 0.6 + usual),
            at       = { step = start.step },
            message  = ("waiting for data takes %s of the time%s (%.3g s of %.3g s in a %s step)%s"):format(
              units.percent(usual), from and (" from step %d on, %s before"):format(since:first().step,
                units.percent(from.before)) or "", late:median("value"),
              late:median("value_right") + (apart and late:median("value") or 0), some and "late" or "typical",
              some and (", %d of %d logged steps are late"):format(late:count(), since:count()) or ""),
            evidence = { late:slice(0, 5), loss:where("step >= ?", start.step):slice(0, 1) },
          }
        end
      end
    end
    if not judged then skip(("%d steps with data_time and step_time"):format(opt.min_rows)) end
  end,
}
