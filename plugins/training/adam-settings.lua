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
--- run measured, not with the default. Behind a clipping threshold that leaves next to nothing of the gradients any
--- epsilon outweighs them, and then nothing is said of it.
---
--- ## References
--- https://arxiv.org/abs/1412.6980 (the condition on the betas is in its theorem 4.1), https://arxiv.org/abs/2208.09632

local optimizers = require("optimizers")
local places = require("places")
local settings = require("settings")
local statistics = require("statistics")

--- The largest distance of a logarithm from their median.
local function spread(values)
  local logs = {}
  for _, value in ipairs(values) do logs[#logs + 1] = math.log(value) end
  local usual, most = statistics.median(logs), 0
  for _, value in ipairs(logs) do most = math.max(most, math.abs(value - usual)) end
  return most
end

--- The epsilon that a layer's first update tells once its decay is taken off; nil where that leaves nothing, or cannot
--- be told. The decay's part is the rate times itself times the weights, beside Adam's (AdamW) or within the gradient
--- (Adam). The weights of a fresh layer have nothing to do with its gradient, so that the squares of both add up; gains
--- that are all 1 have.
---@param gradient number  root mean square, as size and weight
---@param size number      of the update, in rates
---@param weight number
---@param decay number
---@param beside boolean
---@return number?
local function without_decay(gradient, size, weight, decay, beside)
  if math.abs(weight - 1) < 0.01 then return nil end
  if not beside then return math.sqrt(gradient ^ 2 + (decay * weight) ^ 2) * (1 / size - 1) end
  local square = size ^ 2 - (decay * weight) ^ 2
  -- Sizes are logged with four digits.
  if square < 0.002 * size ^ 2 then return nil end
  return gradient * (1 / math.sqrt(square) - 1)
end

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
    local adam  = optimizers.adam(case)
    local named = optimizers.named(case)
    local kind  = optimizers.kind(case)
    if optimizers.plain(case) or kind:glob("*lion*|*adafactor*|*muon*|*rmsprop*|*adagrad*|*adadelta*|*lars*") then
      return skip("an optimizer whose first update is its rate: the one in the config is another",
        "first-updates-outgrow-weights")
    end
    local rates = all:where { name = "lr" }:sort("step")
    local hot   = adam and rates:where("step is not null and value >= ?", case.options.rate):first()
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
    for setting in case.config:where("match(key, '*betas|*adam_betas|*beta2|*beta_2|*beta1|*beta_1|*betas.0|*betas.1|"
      .. "*adam_b1|*adam_b2')")
      :slice(0, 20):rows() do
      local numbers = setting.value:numbers()
      if #numbers == 2 then betas, beta1, beta2 = setting, numbers[1], numbers[2] end
      if #numbers == 1 and setting.key:lower():glob("*1|*.0") then beta1 = numbers[1] end
      if #numbers == 1 and setting.key:lower():glob("*2|*.1") and not setting.key:lower():glob("*.0") then
        betas, beta2 = setting, numbers[1]
      end
    end
    -- Moments of other kinds have bounds of their own: NovoGrad's second one is a number a layer, and .5 is usual.
    local stranger = not kind:glob("*adam*|*lamb*") and named or nil
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
    -- Of the optimizer; there are others, of norms, of losses, of exploration and of privacy.
    local setting = case.config:where("match(key, 'eps|*optim*eps|*optim*epsilon|*adam*eps|*adam*epsilon|*Adam*eps|"
      .. "*Adam*epsilon|opt_eps') and not match(key, '*steps') and number > 0"):first()
      or case.config:where("match(key, '*.eps|epsilon|*.epsilon') and not match(key, '*norm*|*label*|*clip*|*loss*|"
      .. "*privacy*|*dp*|*attack*|*explor*|*agent*|*policy*|*smooth*|*env*|*ln*|*bn*') and number > 0 and number <= 1")
      :first()
    local seconds = all:where { metric = "exp_avg_sq_rms" }:where("value > 0")
    if setting and seconds:count() >= 3 then
      -- The root of v's own root mean square is above the typical sqrt(v), so this errs on the silent side.
      local usual = math.sqrt(seconds:median("value"))
      -- What clipping leaves of gradients may be below any epsilon, and then it is clipping that makes updates short.
      local limit = settings.clipping(case):sort("number"):first()
      local norms = all:where { name = "grad_norm" }:where("layer is null and value > 0")
      if usual < setting.number and setting.number <= 1e-6 and limit and norms:count() > 0
        and limit.number < 1e-3 * norms:median("value") then
        return skip(("gradients as they are: %s = %g leaves %.1g of a norm of %.3g"):format(limit.key, limit.number,
          limit.number / norms:median("value"), norms:median("value")), "adam-epsilon-dominates")
      end
      if usual < setting.number then
        report {
          symptom  = "adam-epsilon-dominates",
          -- A rate makes up for a factor of some.
          score    = usual < 0.1 * setting.number and 0.95 or 0.7,
          at       = { step = seconds:sort("step"):first().step },
          message  = ("%s = %g outweighs the root of Adam's second moment, %.2g in the median layer: updates are "
            .. "%.2g of what they are with a small one"):format(setting.key, setting.number, usual,
            usual / (usual + setting.number)),
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
    if named and not adam then return skip("an Adam whose first update is its rate", "adam-epsilon-dominates") end
    if not (betas or adam) then return skip("Adam's betas or epsilon in a config") end
    -- Moments that were loaded have met gradients before.
    if case.config:where("match(key, '*resume|*resume_from*|*load_checkpoint*|*ckpt_path') and value is not null and "
      .. "not match(value, 'false|False|none|None|null|0|auto|allow|must|never|')"):count() > 0 then
      return skip("a run that is not resumed: moments that were loaded make no first update", "adam-epsilon-dominates")
    end
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
    local sizes, hints, gradients, without = {}, {}, {}, {}
    local decay = case.config:where("match(key, '*weight_decay|wd|*.wd') and number > 0"):first()
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
          local gradient = norm * row.value / (ratio * weight)
          gradients[#gradients + 1], hints[#hints + 1] = gradient, gradient * (1 / size - 1)
          without[#without + 1] = decay and without_decay(gradient, size, row.value / ratio, decay.number,
            optimizers.kind(case):glob("*adamw*"))
        end
      end
    end
    if #sizes < 3 then
      return skip("first updates of three layers with a gradient", "adam-epsilon-dominates")
    end
    local size = statistics.median(sizes)
    if size < case.options.small then
      -- Layers of different gradients that tell the same epsilon have measured it. Gradients of which most elements are
      -- zero make short updates as well, and so does a rate that is logged a step ahead: then layers are alike in how
      -- short, whatever their gradients, and each tells another epsilon.
      local agree = #hints >= 4 and spread(hints) <= math.log(2.5)
      -- The decay's part of an update says nothing of the epsilon, and may be most of it.
      if not agree and #without >= 4 and 2 * #without >= #hints and spread(without) <= math.log(2.5) then
        hints, agree = without, true
      end
      if #hints >= 4 and not agree and spread(hints) >= 0.7 * spread(gradients) then
        return skip("first updates that are short by one epsilon: each layer's tell another", "adam-epsilon-dominates")
      end
      local hint = #hints >= 3 and statistics.median(hints)
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
