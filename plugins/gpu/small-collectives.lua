--- ## What it detects
--- Dozens of collectives per step whose typical one is over in microseconds: gradients sent one by one instead of in buckets.
---
--- ## Why it matters
--- A collective costs 10 to 30 us before the first byte moves. Four hundred of them are a fixed cost per step that no faster
--- link takes away.
---
--- ## How to confirm
--- Count the parameters: about as many all-reduces as parameters means that no bucketing is in place.
---
--- ## Known false positives
--- Tensor parallelism at inference sends small messages by design, two per layer.
---
--- ## References
--- DDP buckets gradients to 25 MB by default: https://pytorch.org/docs/stable/notes/ddp.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Many small collectives instead of few bucketed ones",
  needs    = { windows = { "dur", "steps" }, gpu_work = { "start", "stop", role = "communication" } },
  symptoms = { "many-small-collectives" },
  options  = {
    per_step  = { default = 50, doc = "Collectives per step from which they are many" },
    per_100ms = { default = 30, doc = "The same per 100 ms, where the profile has no steps" },
    small     = { default = 50 * units.us, doc = "A median collective shorter than this is small" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local here   = { rank = window.rank, device = window.device }
      local inside = case.gpu_work:where(here):where("start < ? and stop > ?", window.stop, window.start)
      local comm   = inside:where { role = "communication" }
      local many   = window.steps > 0 and comm:count() / window.steps
                     or comm:count() * 100 * units.ms / window.dur
      local limit  = window.steps > 0 and opt.per_step or opt.per_100ms
      if comm:count() > 0 and many >= limit and comm:median("dur") < opt.small then
        local exposed = comm:subtract(inside:where { role = "compute" }):sum("dur")
        report {
          symptom     = "many-small-collectives",
          score       = math.min(1, 0.7 + 0.1 * many / limit),
          share       = exposed / window.dur,
          recoverable = exposed,
          at          = here,
          message     = ("%.0f collectives per %s with a median of %s, %s of them exposed: %s"):format(
            many, window.steps > 0 and "step" or "100 ms", units.format(comm:median("dur")),
            units.format(exposed), comm:first().name),
          evidence    = { comm:top(5, "dur"), comm:slice(0, 5) },
        }
      end
    end
  end,
}
