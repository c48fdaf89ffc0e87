--- ## What it detects
--- Slow steps that hold garbage collection, the writing of a checkpoint, or logging and evaluation, which other steps
--- lack.
---
--- ## Why it matters
--- Each of them stops the launching thread for a while, and the mean step time hides it.
---
--- ## How to confirm
--- Switch the named thing off for as many steps as were recorded: the slow steps are gone.
---
--- ## Known false positives
--- A function of the same name that does something else: read the name in the message. Activation checkpointing and
--- autograd's evaluate_function are not taken for either.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

-- Names by what they are. "*evaluate*" alone would take autograd's evaluate_function, "*checkpoint*" activation
-- checkpointing.
local Names = {
  { "slow-steps-gc", "garbage collection",
    "*gc.collect*|*gc_collect*|*Python GC*|*python_gc*|*Garbage Collect*|*garbage_collect*|GC|GC:*|gc" },
  { "slow-steps-checkpoint", "writing a checkpoint",
    "*torch.save*|*serialization.py*: save|*serialization.py*: _save|*save_checkpoint*|*_save_checkpoint*|"
    .. "*save_state_dict*|*distributed/checkpoint/*save*|*save_pretrained*|*save_model*|*checkpoint_save*|"
    .. "*checkpointing.py*: save*" },
  { "slow-steps-logging-or-eval", "logging or evaluation",
    "*evaluation_loop*|*: evaluate|evaluate|eval|evaluation|*: validate|validate|validation|*run_eval*|"
    .. "*eval_step*|*eval_loop*|*validation_step*|*wandb/*|*wandb.log*|*tensorboard/*|*add_scalar*|*add_histogram*|"
    .. "*mlflow*|*log_metrics*|*: _log_*" },
}

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Slow steps collect garbage, save, log or evaluate",
  needs    = { steps = { "start", "stop", "dur" },
    any = { host_ops = { category = "python" }, ranges = { category = "annotation" } } },
  relies   = { "launches", "host-times" },
  symptoms = { "slow-steps-gc", "slow-steps-checkpoint", "slow-steps-logging-or-eval" },
  options  = {
    min_steps = { default = 8,    doc = "Steps after the first below which nothing is judged" },
    mads      = { default = 5,    doc = "Median absolute deviations above the median from which on a step is slow" },
    min_over  = { default = 0.10, doc = "Share by which a slow step must exceed the median" },
    min_cost  = { default = 0.01, doc = "Share of the record that the slow steps must cost together" },
    explains  = { default = 0.50, doc = "Share of the excess that a cause must cover to be named" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for rank, all in case.steps:group("rank") do
      local n = all:count() - 1
      if n >= opt.min_steps then
        local steps  = all:sort("start"):slice(1, n)
        local median = steps:median("dur")
        local bar    = median + math.max(opt.mads * steps:col("dur"):robust_std() / 1.4826, opt.min_over * median)
        local slow   = steps:where("dur > ?", bar)
        local normal = steps:where("dur <= ?", bar)
        local k      = slow:count()
        local excess = slow:sum("dur") - k * median
        local device = case.windows:where { rank = rank }:first()
        local gaps   = case.gaps:where { rank = rank, device = device and device.device or 0 }

        -- Reports `rows` where slow steps hold more of them than the typical one, enough of what they take too long.
        local function blame(symptom, what, rows, contradict)
          if rows:count() == 0 or k == 0 or k * 2 >= n or excess < opt.min_cost * steps:sum("dur") then return end
          local usual, took = normal:overlap(rows):median() or 0, 0
          for _, v in ipairs(slow:overlap(rows):values()) do took = took + math.max(0, v - usual) end
          if took < opt.explains * excess then return end
          -- What a busy device hid cost nothing.
          local lost = device and slow:intersect(rows):intersect(gaps):sum("dur") or took
          if device and lost < 0.3 * took then return end
          local inside = rows:with { hit = rows:overlap(slow) }:where("hit > 0")
          local top    = inside:top(1, "hit"):first()
          local name   = inside:has("name") and top.name or nil
          report {
            symptom     = symptom,
            score       = math.min(0.95, 0.6 + 0.35 * took / excess),
            share       = took / steps:sum("dur"),
            recoverable = math.tointeger(math.min(took, lost, excess) // 1),
            at          = { rank = rank, step = slow:first().step, name = name },
            message     = ("%d slow steps (above %s) hold %s of %s%s more than others, %s of what they take too long; "
              .. "the typical step has %s of it. %s"):format(k, units.format(bar), units.format(took), what,
              name and (" (%s)"):format(name:sub(1, 80)) or "", units.percent(math.min(1, took / excess)),
              units.format(usual), contradict),
            evidence    = { inside:top(5, "hit"), slow:top(3, "dur") },
          }
        end

        local function called(globs)
          local columns = { "name", "start", "stop" }
          return case.host_ops:where { rank = rank }:where("match(name, ?) and category != 'operator'", globs)
            :select(table.unpack(columns))
            :concat(case.ranges:where { rank = rank }:where("match(name, ?) and category != 'step'", globs)
            :select(table.unpack(columns)))
        end
        local seen = case.host_ops:where { rank = rank, category = "python" }:count() > 0
        for _, c in ipairs(Names) do
          local rows = called(c[3])
          -- Ranges show what the program marked; that it did nothing else is known from Python frames only.
          judged = judged or seen or rows:count() > 0
          blame(c[1], c[2], rows:renamed(c[2]), "If the same calls took as long in the other steps, it would be no "
            .. "cause")
        end
      end
    end
    if not judged then
      skip(("at least %d steps with Python frames: with_stack=True in the profiler"):format(opt.min_steps + 1))
    end
  end,
}
