--- ## What it detects
--- Settings of Adam that make its updates inert or unsteady: an epsilon that outweighs the root of the second moment,
--- a second moment that forgets faster than the first, and a rate in the order of any weights.
---
--- ## Why it matters
--- Adam divides by sqrt(v) + eps. Where eps is the larger, steps shrink with the gradient and the rate that was tuned
--- for Adam does nothing. Its first update moves each weight by the rate itself, whatever the gradient, and weights of
--- a layer with n inputs begin near 1 / sqrt(n): a rate of 0.3 replaces those of ten inputs and more. With beta2 below
--- beta1 squared, v forgets a large gradient while m still holds it, and the quotient has no bound.
---
--- ## How to confirm
--- Compare sqrt(exp_avg_sq) with eps for a few parameters; run 200 steps with beta2 = 0.99.
---
--- ## Known false positives
--- An epsilon that is raised on purpose, for reinforcement learning or sparse gradients: it is compared with what the
--- run measured, not with the default.
---
--- ## References
--- https://arxiv.org/abs/1412.6980 (the condition on the betas is in its theorem 4.1), https://arxiv.org/abs/2208.09632

local places = require("places")
local statistics = require("statistics")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Adam's epsilon or betas make its updates inert or unsteady",
  needs    = { config = { "key", "value" } },
  symptoms = { "adam-epsilon-dominates", "adam-beta2-below-bound", "first-updates-outgrow-weights" },
  options  = {
    rate  = { default = 0.30, doc = "Logged learning rate that is in the order of any weights" },
    small = { default = 0.50, doc = "First update over learning rate that shows the epsilon" },
  },

  run = function(case)
    local all   = case.scalars:where { primary = true }:where("finite(value)")
    local other = case.config:where("match(key, '*optim*|*optimizer*|*optimizer.name|*optim.name') and "
      .. "match(value, '*sgd*|*SGD*|*lion*|*Lion*|*adafactor*|*Adafactor*|*muon*|*Muon*|*rmsprop*')"):count() > 0
    if other then
      return skip("an optimizer whose first update is its rate: the one in the config is another",
        "first-updates-outgrow-weights")
    end
    local adam  = case.config:where("match(key, '*optim*|*optimizer*') and match(value, '*adam*|*Adam*')"):first()
    local rates = all:where { name = "lr" }:sort("step")
    local hot   = adam and rates:where("value >= ?", case.options.rate):first()
    if hot then
      report {
        symptom  = "first-updates-outgrow-weights",
        score    = 0.9,
        at       = { step = hot.step },
        message  = ("the learning rate of %s is %.3g at step %d, and that is how far its first updates move each "
          .. "weight, in the order of the weights"):format(adam.value, hot.value, hot.step),
        evidence = { hot, adam },
      }
    else
      skip("update ratios of the first steps", "first-updates-outgrow-weights")
    end

    local betas, beta1, beta2 = nil, nil, nil
    for setting in case.config:where("match(key, '*betas|*adam_betas|*beta2|*beta_2|*beta1|*beta_1|*betas.0|*betas.1')")
      :slice(0, 20):rows() do
      local numbers = setting.value:numbers()
      if #numbers == 2 then betas, beta1, beta2 = setting, numbers[1], numbers[2] end
      if #numbers == 1 and setting.key:lower():glob("*1|*.0") then beta1 = numbers[1] end
      if #numbers == 1 and setting.key:lower():glob("*2|*.1") and not setting.key:lower():glob("*.0") then
        betas, beta2 = setting, numbers[1]
      end
    end
    -- Moments of other kinds have bounds of their own: NovoGrad's second one is a number a layer, and .5 is usual.
    local stranger = not adam and case.config:where("match(key, '*optimizer|*optim|*optimizer_type|*optimizer_name|"
      .. "*optimizer.type|*optimizer.name|*optimizer_class|*optimizer._target_') and not match(value, '*lamb*|*LAMB*')")
      :first()
    if not beta2 or stranger then
      skip(stranger and ("betas of Adam: the optimizer is %s"):format(tostring(stranger.value))
        or "Adam's betas in a config", "adam-beta2-below-bound")
    elseif beta2 < (beta1 or 0.9) ^ 2 then
      report {
        symptom  = "adam-beta2-below-bound",
        score    = 0.9,
        at       = { step = places.first_step(case) },
        message  = ("beta2 is %g, below beta1 squared = %.3g: the second moment forgets in %.3g steps what the first "
          .. "holds for %.3g, from the start"):format(beta2, (beta1 or 0.9) ^ 2, 1 / (1 - beta2),
          1 / (1 - (beta1 or 0.9))),
        evidence = { betas },
      }
    end

    if stranger then
      return skip(("an Adam: the optimizer is %s"):format(tostring(stranger.value)), "adam-epsilon-dominates")
    end
    local setting = case.config:where("match(key, 'eps|*.eps|*_eps|*epsilon|*adam_eps*') and not match(key, "
      .. "'*norm*|*label*|*clip*') and number > 0"):first()
    local seconds = all:where { metric = "exp_avg_sq_rms" }:where("value > 0")
    if setting and seconds:count() >= 3 then
      -- The root of v's own root mean square is above the typical sqrt(v), so this errs on the silent side.
      local usual = math.sqrt(seconds:median("value"))
      if usual < setting.number then
        report {
          symptom  = "adam-epsilon-dominates",
          score    = usual < 0.3 * setting.number and 0.95 or 0.85,
          at       = { step = seconds:sort("step"):first().step },
          message  = ("%s = %g outweighs the root of Adam's second moment, %.2g in the median layer: updates are "
            .. "%.2g of what "
            .. "they should be"):format(setting.key, setting.number, usual, usual / (usual + setting.number)),
          evidence = { setting, seconds:slice(0, 5) },
        }
      end
      return
    end

    -- Without moments: the first update of Adam is the learning rate in every element. With momentum and moment
    -- corrected for their start it is rate * g / (|g| + eps), so each layer tells the epsilon beside its gradient.
    local moved = all:where { metric = "update_rms" }:where("layer is not null")
    local first = moved:sort("step"):first()
    local rate  = first and all:where { name = "lr", step = first.step }:first()
    local named = case.config:where("match(key, '*optim*|*optimizer*') and match(value, '*adam*|*Adam*')"):count() > 0
    -- Variants that begin as plain descent, or that average what they update.
    local slow  = case.config:where("match(key, '*optim*|*optimizer*') and match(value, "
      .. "'*radam*|*RAdam*|*free*|*Free*|*dadapt*|*DAdapt*|*nadam*|*NAdam*')"):count() > 0
    if slow then return skip("an Adam whose first update is its rate", "adam-epsilon-dominates") end
    if not (betas or named) then return skip("Adam's betas or epsilon in a config") end
    if not rate or first.step > 1 or rate.value <= 0 then
      return skip("sizes of the first update, or exp_avg_sq, beside the config: record layers from step 0",
        "adam-epsilon-dominates")
    end
    local now = all:where { step = first.step }
    --- The same layer's row of another metric at that step.
    local function beside(metric, layer)
      local row = now:where { metric = metric, layer = layer }:first()
      return row and row.value
    end
    local sizes, hints = {}, {}
    for row in moved:where { step = first.step }:slice(0, 2000):rows() do
      local norm = beside("grad_norm", row.layer)
      -- What has no gradient is moved by its decay alone; rows of a table that no sample names are not moved at all.
      if row.value > 0 and norm ~= 0 then
        local share = math.max(0, 1 - (beside("unchanged_share", row.layer) or 0))
        local size  = share > 0 and row.value / math.sqrt(share) / rate.value or 1
        local ratio, weight = beside("update_ratio", row.layer), beside("weight_norm", row.layer)
        sizes[#sizes + 1] = size
        if norm and ratio and weight and size < 0.9 then
          -- As many elements as make this root mean square that norm.
          hints[#hints + 1] = norm * row.value / (ratio * weight) * (1 / size - 1)
        end
      end
    end
    if #sizes < 3 then
      return skip("first updates of three layers with a gradient", "adam-epsilon-dominates")
    end
    local size = statistics.median(sizes)
    if size < case.options.small then
      local hint = #hints >= 3 and statistics.median(hints)
      -- Layers of different gradients that tell the same epsilon have measured it.
      local agree = hint and #hints >= 4
      for _, one in ipairs(hints) do agree = agree and one > 0.4 * hint and one < 2.5 * hint end
      report {
        symptom  = "adam-epsilon-dominates",
        score    = agree and 0.97 or 0.8,
        at       = { step = first.step },
        message  = ("Adam's first update is %.2g of the learning rate in the median of %d layers with a gradient, and "
          .. "is 1 where epsilon is small%s"):format(size, #sizes,
          hint and ("; an epsilon of about %.1g would do that"):format(hint) or ""),
        evidence = { moved:where { step = first.step }:slice(0, 5), rate },
      }
    end
  end,
}
