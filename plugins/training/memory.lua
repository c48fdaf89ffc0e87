--- ## What it detects
--- Allocated memory that grows from step to step over the whole run.
---
--- ## Why it matters
--- A training step allocates and frees the same amounts. What grows is kept by somebody: a list of losses with their
--- graphs, a cache without a bound, evaluation outputs.
---
--- ## How to confirm
--- Take two memory snapshots 100 steps apart and compare the allocations by stack.
---
--- ## Known false positives
--- Where a logged length, size or number of targets grows on the way, nothing is said.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Allocated memory grows step after step",
  needs    = { scalars = { "step", "value", metric = "memory_allocated" } },
  symptoms = { "memory-grows" },
  options  = {
    growth   = { default = 0.10, doc = "Growth over the run after its first tenth worth reporting" },
    rising   = { default = 7,    doc = "Of nine steps from tenth to tenth, how many must rise" },
    min_rows = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for run_name, run in case.scalars:where { name = "memory_allocated", primary = true }:group("run") do
      local used = run:sort("step"):where("finite(value)")
      local rows = used:count()
      if rows >= opt.min_rows then
        judged = true
        local tenth, rises, last = rows // 10, 0, nil
        for part = 0, 9 do
          local level = used:slice(part * tenth, tenth):median("value")
          if last and level > last then rises = rises + 1 end
          last = level
        end
        local start = used:slice(tenth, tenth):median("value")
        local larger = settings.grown(case, run_name)
        if larger and rises >= opt.rising then
          skip(("rows of one size: %s grows as well"):format(larger.name))
        elseif rises >= opt.rising and last >= start * (1 + opt.growth) then
          report {
            symptom  = "memory-grows",
            score    = 0.9,
            at       = { step = used:row(tenth).step },
            message  = ("allocated memory grows from %.4g to %.4g between steps %d and %d, in %d of 9 tenths of the "
              .. "run"):format(start,
              last, used:row(tenth).step, used:last().step, rises),
            evidence = { used:row(tenth), used:last() },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged values"):format(opt.min_rows)) end
  end,
}
