--- ## What it detects
--- A run that was stopped and continued, told by steps that go back in its log or by a line between two rows that says
--- so, and a loss that is higher after that place than before it.
---
--- ## Why it matters
--- Weights, optimizer moments, schedule, data position and random state are five things to restore, and each one that
--- is forgotten leaves another trace: a loss that jumps up points at the optimizer's moments or the schedule, a loss
--- that stays at the data position or at nothing.
---
--- ## How to confirm
--- Save at step k, continue to k + 20 in one process and resume to k + 20 in another: losses have to be equal.
---
--- ## Known false positives
--- A log to which a second run from scratch was appended starts again at its first step; that is no resume and not
--- judged. Nor is a line of a data loader's worker that resumes from its shard. Files that log one run twice are told
--- apart from a resume by their line numbers.
---
--- ## References
--- https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html

-- What a run goes on from, and what only its data does: a worker goes on from its next shard all the time.
local OF_THE_RUN = "*heckpoint*|*CHECKPOINT*|*ckpt*|*step*|*Step*|*iter*|*Iter*|*epoch*|*Epoch*"
local OF_THE_DATA = "*shard*|*Shard*|*worker*|*Worker*|*loader*|*Loader*|*sampl*|*Sampl*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is higher after a resume than before",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "run-resumed", "loss-jump-at-resume" },
  options  = {
    sigmas = { default = 6.0,  doc = "Deviations of the loss's noise that its level must rise by" },
    rise   = { default = 0.03, doc = "Least rise of the level, as a share of it" },
  },

  run = function(case)
    local opt, judged = case.options, false

    -- The places where a run goes on: { step, from } by run.
    local resumes = {}
    for run_name, run in case.scalars:where("name == 'loss' and layer is null and step is not null"):group("run") do
      local moved = run:with { back = run:col("step"):diff(), on = run:col("place"):diff() }
      -- Lines go on and steps go back: one file, continued. Both go back: the next file.
      -- A row that does not count is a
      -- second record of the run, such as a progress bar's.
      local turns = moved:where("back < 0 and on > 0 and primary == true")
      local first = run:min("step")
      if turns:count() >= 1 and turns:count() <= 5 then
        for turn in turns:rows() do
          -- A run that goes on gets past the place where it stopped; the bar of a short last epoch does not.
          local further = run:where("place >= ?", turn.place):max("step")
          if turn.step > first + 5 and further > turn.step - turn.back then
            resumes[#resumes + 1] = { run = run_name, step = turn.step, last = turn.step - turn.back, row = turn }
          end
        end
      end
    end
    -- A log that says so between two rows, where the run stopped at its last row and steps need not go back.
    for run_name, run in case.scalars:where("name == 'loss' and layer is null and step is not null and primary == true "
      .. "and finite(value)"):group("run") do
      local said = false
      for _, resume in ipairs(resumes) do said = said or resume.run == run_name end
      local lines = case.log_lines:where("match(text, '*esuming from*|*esumed from*|*esume from*')")
        :where("match(text, ?) and not match(text, ?)", OF_THE_RUN, OF_THE_DATA)
      for line in (said and lines:slice(0, 0) or lines:slice(0, 20)):rows() do
        local rows   = run:sort("place")
        local before = rows:where("place < ?", line.line):last()
        local turn   = rows:where("place > ?", line.line):first()
        -- Of several logs the one that has the numbers of the row before in its line.
        local own = before and case.log_lines:where { line = before.place, source = line.source }:first()
        local step, value = false, false
        for _, number in ipairs(own and own.text:numbers() or {}) do
          step, value = step or number == before.step, value or number == before.value
        end
        if turn and step and value and turn.step > before.step then
          resumes[#resumes + 1] = { run = run_name, step = turn.step, last = before.step, row = turn, line = line }
        end
      end
    end
    for _, resume in ipairs(resumes) do
      judged = true
      report {
        symptom  = "run-resumed",
        score    = 0.9,
        severity = "info",
        at       = { step = resume.step },
        message  = ("the log reaches step %d and goes on from step %d: the run was resumed there"):format(resume.last,
          resume.step),
        evidence = { resume.line or resume.row },
      }
    end

    -- The level before and after each place, on the rows in the order of logging.
    for _, resume in ipairs(resumes) do
      local rows = case.scalars:where { name = "loss", run = resume.run }:where("layer is null and finite(value)")
      local before = rows:where("place < ? and step < ?", resume.row.place, resume.step)
      before = before:slice(math.max(0, before:count() - 32), 32)
      local after  = rows:where("place >= ? and step >= ?", resume.row.place, resume.step):slice(0, 8)
      if before:count() >= 8 and after:count() >= 3 then
        -- What the trend of the rows before would give there.
        local noise = (before:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        local was   = before:slice(before:count() // 2, 32):median("value")
        local now   = after:median("value")
        local jump  = now - was
        local error = noise * math.sqrt(1 / after:count() + 2 / before:count()) * 1.25
        if jump > opt.sigmas * error and jump > opt.rise * was and was > 0 then
          report {
            symptom  = "loss-jump-at-resume",
            score    = math.min(0.97, 0.6 + jump / was),
            at       = { step = resume.step },
            message  = ("the loss goes from %.4g before the resume at step %d to %.4g after it")
              :format(was, resume.step, now),
            evidence = { before:slice(before:count() - 3, 3), after:slice(0, 3) },
          }
        end
      end
    end

    if not judged then
      skip("a log whose steps go back, as that of a run which was resumed from a checkpoint and logs to the same file")
    end
  end,
}
