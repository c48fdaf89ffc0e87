--- ## What it detects
--- Slow steps that compile or load code while others do not.
---
--- ## Why it matters
--- A guard that fails, or a path that was not warmed up, costs seconds in single steps.
---
--- ## How to confirm
--- `TORCH_LOGS=recompiles` names the guard and the step.
---
--- ## Known false positives
--- A first evaluation in the middle of the record loads its kernels once.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

local slow_steps = require("slow-steps")

local COMPILERS = "*_dynamo/convert_frame.py*|*compile_fx.py*: compile_fx*|*entire_frame_compile*|"
  .. "*triton/compiler/compiler.py*: compile*|*backend_compile*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Slow steps compile or load code",
  needs    = { steps = { "start", "stop", "dur" },
    any = { host_calls = { role = "load" }, host_ops = { category = "python" } } },
  relies   = { "launches", "host-times" },
  symptoms = { "slow-steps-compile" },
  options  = slow_steps.options,

  run = function(case)
    local judged = slow_steps.each(case, function(rank, blame)
      local load = case.host_calls:where { rank = rank, role = "load" }:select("name", "start", "stop")
        :concat(slow_steps.called(case, rank, COMPILERS))
      blame("slow-steps-compile", "compiling or loading code", load,
        "Set-up of every step would be in the other steps too")
    end)
    if not judged then skip(("at least %d steps: record more of them"):format(case.options.min_steps + 1)) end
  end,
}
