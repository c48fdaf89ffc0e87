--- ## What it detects
--- An update that puts other weights in the place of all there are, told from rates and gradient norms where updates
--- are not on record.
---
--- ## Why it matters
--- The update of plain descent is the rate times the gradient, and with momentum m at least the rate times (the norm of
--- the gradient less m times that of the buffer), which is at most the norms so far, each times m for every step since.
--- RAdam does the same in its first five steps with its first moment. Weights are never longer than they were at first
--- and all updates together. A run that is thrown out within its first steps has no row of updates to show for it, and
--- where it ends in NaN these few rows are all there is.
---
--- ## How to confirm
--- Start again at a hundredth of the rate; the norm of the weights after step 2 is that of step 0.
---
--- ## Known false positives
--- The norms have to be those that the optimizer got: a clipping threshold bounds them, and runs with a loss scale or
--- in fp16, which has one, are not judged. Nor are those with dampening, with a momentum that is named and not set, or
--- with rates for some weights that are not logged. A decay counts with all that it can take. A model that begins at
--- zero moves by all that it is at first, with momentum by 1.9 times that at the second step: its first update is not
--- looked at, and later ones have to be three times the weights.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html (no second moment while rho is 5 or less)

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")

--- How the optimizer makes an update of a gradient: the share of the old moment and of the gradient in a new one, and
--- how many steps this is so for. Nil where the length of a gradient is not that of an update, or where the momentum is
--- not on record: by its name it has one.
---@return table?  keep, take, steps
local function rule_of(case)
  if optimizers.plain(case) then
    local set = case.config:where("match(key, 'momentum|*.momentum|*_momentum') and not match(key, '*bn*|*norm*|"
      .. "*batch*|*ema*') and number >= 0 and number < 1"):max("number")
    local has = optimizers.kind(case):glob("*momentum*|*nesterov*")
      or settings.on(case.config:where("match(key, '*nesterov')")):count() > 0
    if not set and has or case.config:where("match(key, '*dampening') and number != 0"):count() > 0 then return nil end
    return { keep = set or 0, take = 1, steps = math.huge, name = optimizers.named(case) }
  end
  if optimizers.kind(case):glob("*radam*") then
    local beta1, beta2 = optimizers.betas(case, "*betas")
    -- While 2 / (1 - beta2) - 1 - 2 t beta2^t / (1 - beta2^t) is 5 or less, which is up to t = 5 with .9 and more.
    if beta2 >= 0.9 and beta1 < 1 then
      return { keep = beta1, take = 1 - beta1, steps = 5, corrected = true, name = optimizers.named(case) }
    end
  end
end

--- A setting by which some weights have a rate of their own, or gradients may be logged as they are scaled.
local function apart_from_logged(case)
  local groups  = case.config:where("match(key, '*param_groups.*.lr') and number is not null")
  local unnamed = groups:where("source is null")
  if unnamed:distinct("number"):count() > 1 then return unnamed:first() end
  -- Of one checkpoint: a schedule makes others of later ones.
  for _, own in groups:group("source") do
    if own:distinct("number"):count() > 1 then return own:first() end
  end
  return settings.on(case.config:where("match(key, '*lr_mult*|*lr_scale*|*backbone_lr|*lr_backbone|*encoder_lr|"
    .. "*head_lr|*lr_head|*layer_decay*|*layerwise_lr*|*llrd*|*lr_ratio*')")):first()
    or settings.fp16(case)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Rates and gradient norms make updates larger than all weights",
  needs    = { scalars = { "step", "value", metric = "grad_norm" }, config = { "key", "value" } },
  symptoms = { "update-ratio-high", "first-updates-outgrow-weights" },
  options  = {
    ratio = { default = 3.0, doc = "Least update over the largest weights from which others are in their place" },
  },

  run = runs.apart(function(case, run)
    local rule = rule_of(case)
    if not rule then return skip("plain descent, or RAdam, named in a config: updates as long as gradients") end
    local set = apart_from_logged(case)
    if set then return skip(("one rate, and gradient norms that were not scaled: %s is set"):format(set.key)) end
    local all = case.scalars:where { primary = true }:where("finite(value) and layer is null")
    if all:where { metric = "loss_scale" }:where("value > 1"):count() > 0 then
      return skip("gradient norms that were not scaled")
    end
    local norms = all:where { name = "grad_norm" }:sort("step")
    local first = norms:first()
    local weights = first and all:where { metric = "weight_norm", step = first.step }:first()
    if not first or first.step > 1 or not weights or weights.value <= 0 then
      return skip("the norms of all weights and of the gradient at the first step")
    end
    local limit  = settings.clipping(case):first()
    local rates  = runs.series(case, "lr")
    local decay  = case.config:where("match(key, '*weight_decay') and number > 0"):max("number") or 0
    local most   = weights.value -- the weights at most
    local moment = 0             -- the momentum's buffer at most
    for i, row in ipairs({ norms:row(0), norms:row(1), norms:row(2), norms:row(3), norms:row(4) }) do
      local rate = rates:where { step = row.step }:first()
      if row.step ~= first.step + i - 1 or not rate or i > rule.steps then break end
      local norm = math.min(row.value, limit and limit.number or math.huge)
      local full = rule.corrected and 1 - rule.keep ^ i or 1
      -- A decay that is added to the gradient is along the weights, for or against it.
      local added = decay * most
      local least = rate.value * (rule.take * (norm - added) - rule.keep * moment) / full
      if i > 1 and least >= case.options.ratio * most then
        local found = {
          score    = 0.95,
          at       = { run = run, step = row.step },
          message  = ("the update of step %d is at least %.3g long, by a rate of %.3g and a gradient norm of %.3g, and "
            .. "all weights are %.3g at most: it puts others in their place"):format(math.floor(row.step), least,
            rate.value, norm, most),
          evidence = { row, rate, weights, rule.name },
        }
        found.symptom = "update-ratio-high"
        report(found)
        -- No warm-up mends it where the rate is that of the whole run already.
        if rate.value >= 0.7 * rates:max("value") then
          found.symptom = "first-updates-outgrow-weights"
          report(found)
        end
        return
      end
      moment = rule.keep * moment + rule.take * (norm + added)
      -- Nesterov's looks one step ahead.
      most   = most + rate.value * (rule.take * (norm + added) + rule.keep * moment + moment) / full
    end
    return skip("updates of later steps")
  end),
}
