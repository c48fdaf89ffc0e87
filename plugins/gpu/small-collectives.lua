--- ## What it detects
--- Dozens of collectives per step whose typical one is small: over in microseconds, or below a megabyte. Where the
--- record shows how many parameters get a gradient, it says whether there is one collective a parameter.
---
--- ## Why it matters
--- A collective costs 10 to 30 us before the first byte moves. Four hundred of them are a fixed cost per step that no
--- faster link takes away. Their bus bandwidth is low by nature and says nothing about the link.
---
--- ## How to confirm
--- Count the parameters: about as many all-reduces as parameters means that no bucketing is in place.
---
--- ## Known false positives
--- Tensor parallelism at inference sends small messages by design, two per layer. Small messages that the compute
--- hides cost nothing and are not reported.
---
--- ## References
--- DDP buckets gradients to 25 MB by default: https://pytorch.org/docs/stable/notes/ddp.html

local windows = require("windows")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Many small collectives instead of few bucketed ones",
  needs    = { windows = { "dur", "steps" }, gpu_work = { "start", "stop", role = "communication" } },
  relies   = { "kernels", "whole-record" },
  symptoms = { "many-small-collectives" },
  options  = {
    per_step    = { default = 50, doc = "Collectives per step from which they are many" },
    per_100ms   = { default = 30, doc = "The same per 100 ms, where the profile has no steps" },
    small       = { default = 50 * units.us, doc = "A median collective shorter than this is small" },
    small_bytes = { default = 1000000, doc = "A median message below this is small" },
    min_share   = { default = 0.01, doc = "Exposed share of the window worth reporting" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:where("dur > 0"):rows() do
      local here   = { rank = window.rank, device = window.device }
      local inside = windows.work(case, window)
      local comm   = inside:where { role = "communication" }
      local many   = window.steps > 0 and comm:count() / window.steps
                     or comm:count() * 100 * units.ms / window.dur
      local limit  = window.steps > 0 and opt.per_step or opt.per_100ms
      if comm:count() > 0 and many >= limit then
        local sized   = case.collectives:where(here)
                          :where("start < ? and stop > ? and bytes is not null", window.stop, window.start)
        local bytes   = sized:count() * 2 >= comm:count() and sized:median("bytes")
        local exposed = comm:subtract(inside:where { role = "compute" }):sum("dur")
        local small   = comm:median("dur") < opt.small or bytes and bytes < opt.small_bytes
        if small and exposed >= opt.min_share * window.dur then
          local message = ("%.0f collectives per %s with a median of %s%s, %s of them exposed: %s"):format(
            many, window.steps > 0 and "step" or "100 ms", units.format(comm:median("dur")),
            bytes and " and " .. units.bytes(bytes) or "", units.format(exposed), comm:first().name)
          -- Autograd's node that adds a parameter's gradient runs once a parameter and backward pass.
          local added = window.steps > 0 and case.host_ops:where { rank = window.rank }
                          :where { name = "torch::autograd::AccumulateGrad" }
                          :where("start < ? and stop > ?", window.stop, window.start):count()
          if added and added > 0 then
            local parameters = added / window.steps
            message = message .. (many >= 0.8 * parameters and many <= 1.25 * parameters
              and ("; %.0f parameters get a gradient, so one collective each"):format(parameters)
              or  ("; %.0f parameters get a gradient"):format(parameters))
          end
          report {
            symptom     = "many-small-collectives",
            score       = math.min(1, 0.7 + 0.1 * many / limit),
            share       = exposed / window.dur,
            recoverable = exposed,
            at          = here,
            message     = message,
            evidence    = { comm:top(5, "dur"), comm:slice(0, 5) },
          }
        end
      end
    end
  end,
}
