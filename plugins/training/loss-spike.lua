--- ## What it detects
--- A loss that jumps many robust deviations above its trailing median, and whether it comes back.
---
--- ## Why it matters
--- A spike that recovers within tens of steps points at one batch; one that does not, at the step size or the numerics.
---
--- ## How to confirm
--- Replay the batch of that step from the checkpoint before it: the same spike means data, none means hardware or
--- state.
---
--- ## Known false positives
--- Runs logged as means over many steps hide spikes; very noisy small-batch runs show a few above 8 deviations.
---
--- ## References
--- Megatron-LM calls a loss spiky at 10 times the largest of the first 100, which misses nearly all of them.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss jumps far above its trailing median",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-spike", "loss-spike-recovers" },
  options  = {
    window   = { default = 64,   doc = "Rows in the trailing window" },
    sigmas   = { default = 8.0,  doc = "Robust deviations that count as a spike" },
    relative = { default = 0.10, doc = "Least rise over the trailing median, as a share of it" },
    recovery = { default = 50,   doc = "Rows after the spike in which the loss has to come back" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      judged = judged or loss:count() > 8 -- a deviation needs eight values before it
      local z    = loss:col("value"):robust_z(opt.window)
      local hot  = loss:with { z = z, usual = loss:col("value"):rolling(opt.window, "median") }
        :where("z > ? and value > usual * ?", opt.sigmas, 1 + opt.relative)
      local spike = hot:top(1, "z"):first()
      if spike then
        report {
          symptom  = "loss-spike",
          score    = math.min(0.99, 1 - 0.5 * opt.sigmas / spike.z),
          at       = { step = spike.step },
          message  = ("loss jumps to %.4g at step %d, %s robust deviations above its trailing median of %.4g"):format(
            spike.value, spike.step, units.count(math.floor(math.min(spike.z, 1e6))), spike.usual),
          evidence = { spike, loss:around(spike, 4) },
        }
        local after = loss:where("step > ?", spike.step):slice(0, opt.recovery)
        local back  = after:slice(math.min(3, after:count() // 2), opt.recovery)
        local band  = spike.usual + 0.1 * (spike.value - spike.usual)
        if after:count() >= 5 and back:median("value") <= band then
          local calm = after:where("value <= ?", band):first()
          report {
            symptom  = "loss-spike-recovers",
            score    = 0.9,
            at       = { step = spike.step },
            message  = ("the loss is back at %.4g by step %d, %d step%s after the spike"):format(calm.value, calm.step,
              calm.step - spike.step, calm.step - spike.step == 1 and "" or "s"),
            evidence = { calm, after:slice(0, 5) },
          }
        end
      end
    end
    if not judged then skip("at least 9 logged losses") end
  end,
}
