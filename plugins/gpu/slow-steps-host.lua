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

local slow_steps = require("slow-steps")

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
  options  = slow_steps.options,

  run = function(case)
    local judged = false
    slow_steps.each(case, function(rank, blame)
      local seen = case.host_ops:where { rank = rank, category = "python" }:count() > 0
      for _, c in ipairs(Names) do
        local rows = slow_steps.called(case, rank, c[3])
        -- Ranges show what the program marked; that it did nothing else is known from Python frames only.
        judged = judged or seen or rows:count() > 0
        blame(c[1], c[2], rows:renamed(c[2]), "If the same calls took as long in the other steps, it would be no cause")
      end
    end)
    if not judged then
      skip(("at least %d steps with Python frames: with_stack=True in the profiler"):format(case.options.min_steps + 1))
    end
  end,
}
