--- ## What it detects
--- Weight decay that forgets within some hundred steps: the rate times the decay is what it takes of each weight a
--- step, and one over that is how many steps a weight remembers.
---
--- ## Why it matters
--- Under decoupled decay a weight is the running mean of its updates over the last 1 / (lr * wd) steps. What a batch
--- taught is gone when as many steps have passed, so that the model knows no more than these batches. Recipes that work
--- have thousands to hundreds of thousands: 3e-4 * 0.1 is 33,000, 0.003 * 0.3 is 1,100. That it is the decay and not
--- the rate takes a decay of its own size: an update of AdamW is a fifth of the rate and more in each element, against
--- which decay takes wd times a weight, of a tenth or so: a part of a quarter at wd = 0.5. Plain descent adds decay to
--- the gradient, and momentum m multiplies both: lr * wd / (1 - m). It takes the settings and the logged rate, no
--- weights.
---
--- ## How to confirm
--- Plot the norm of the weights: it falls as exp(-lr * wd * steps) at first.
---
--- ## Known false positives
--- Libraries whose decay is not multiplied by the rate, or is a fraction of its own; there the setting is small. Runs
--- so short that decay takes nothing are left out. Where decay is added to the gradient of an adaptive optimizer, what
--- it takes depends on the gradient: training/weight-decay judges that by the norms.
---
--- ## References
--- https://arxiv.org/abs/2405.13698 (the time scale of AdamW's decay)

local optimizers = require("optimizers")
local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Weight decay forgets within some hundred steps",
  needs    = { scalars = { "step", "value", metric = "lr" }, config = { "key", "value", "number" } },
  symptoms = { "decay-forgets-soon" },
  options  = {
    part     = { default = 0.004, doc = "Part of a weight that decay takes a step from which it forgets too soon" },
    adaptive = { default = 0.5,   doc = "Decoupled decay that is large whatever the rate is" },
    plain    = { default = 5e-3,  doc = "The same of decay that plain descent adds to the gradient" },
    taken    = { default = 0.5,   doc = "Sum of these parts over the run below which nothing was taken yet" },
  },

  run = function(case)
    local opt  = case.options
    local set  = case.config:where("match(key, 'weight_decay|*.weight_decay|wd|*.wd|*adam_weight_decay|"
      .. "*weight_decay_rate')")
    if set:count() == 0 then return skip("weight_decay in a config") end
    local wd   = set:where("number > 0"):first()
    if not wd then return end
    local plain = optimizers.plain(case)
    -- LAMB's is part of an update that is then measured by the weights.
    if not plain and optimizers.decoupled(case) ~= true then
      return skip("an optimizer whose decay is a part of the weights: AdamW, Lion or plain descent")
    end
    if wd.number < (plain and opt.plain or opt.adaptive) then return end
    local momentum = plain and case.config:where("match(key, 'momentum|*.momentum') and number > 0 and number < 1")
      :first()
    local gain  = momentum and 1 / (1 - momentum.number) or 1
    for run_name in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rates = runs.series(case, "lr", run_name)
      local part  = gain * wd.number * (rates:count() > 0 and rates:median("value") or 0)
      local steps = rates:count() > 0 and rates:last().step - math.min(1, rates:first().step) or 0
      if part >= opt.part and part * steps >= opt.taken then
        report {
          symptom  = "decay-forgets-soon",
          score    = part >= 2.5 * opt.part and 0.95 or 0.8,
          at       = { step = rates:first().step },
          message  = ("%s = %g at a learning rate of %.3g%s takes %.2g of each weight a step: what a step taught is "
            .. "gone after about %d steps"):format(wd.key, wd.number, rates:median("value"),
            momentum and (" and momentum %g"):format(momentum.number) or "", part,
            math.max(1, math.floor(1 / part + 0.5))),
          evidence = { wd, rates:slice(0, 3) },
        }
      end
    end
  end,
}
