--- ## What it detects
--- A clipping threshold far below the usual gradient norm, and one that is exceeded at nearly every step, of eight norms
--- and more; of three, where a hundredth of each is left. A tenth that is left of plain descent is a weaker sign, where
--- its updates are shorter than learning from nothing asks for.
---
--- ## Why it matters
--- Where every step is clipped, the threshold and not the gradient sets the length of the step. A threshold a hundred
--- times below the norm makes plain descent a hundred times slower, and drowns Adam's denominator in its epsilon.
---
--- ## How to confirm
--- Compare the norm that the clipping call returns with its threshold.
---
--- ## Known false positives
--- Norms logged after clipping never exceed the threshold, so nothing is reported. Norms that grow away from the
--- threshold in the run, as those of a loss that climbs, are judged by where they began. A first loss of several times
--- that of chance is of logits as many times too large, whose gradients are so as well, and behind large weights by
--- the square of that: so much more is asked of the norm then. Plain descent whose updates are a thousandth of the
--- weights takes steps that are long enough, whatever a sum over rows makes of the norm. Clipping at nearly every step
--- is common. Adam, Lion, Muon and whatever else divides by the gradient's own size take the same step at any
--- threshold, until what is left of an element is no longer far above epsilon: a threshold t leaves t over the root of
--- the number of weights. A threshold of elements (`clip_value`) or of units against their weights (adaptive clipping)
--- is no norm of all, and is not held against it. One of each variable's own norm (Keras's `clipnorm`) leaves at most
--- the root of their number times as much of all, and is judged as that; their number is a guess, twice that of the
--- layers on record and a hundred at least.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The clipping threshold sets the size of the steps",
  needs    = { scalars = { "step", "value", metric = "grad_norm" }, config = { "key", "number" } },
  symptoms = { "clip-far-below-norm", "clipped-at-nearly-every-step" },
  options  = {
    above = { default = 3.0, doc = "What clipping leaves of an element over epsilon, up to which epsilon counts" },
    over  = { default = 2.0, doc = "First loss over that of chance from which its square is allowed in the norm" },
    far   = { default = 30.0, doc = "Median norm over threshold that is far" },
    short = { default = 6.0, doc = "The same of plain descent whose updates are short" },
    tiny  = { default = 1e2, doc = "The same that three logged norms tell" },
    moves = { default = 1e-3, doc = "Median update over weight norm of steps that are long enough" },
    share = { default = 0.90, doc = "Share of clipped steps that is nearly all" },
  },

  run = function(case)
    local opt    = case.options
    local limits = settings.clipping(case)
    --- How much of all gradients a threshold leaves, in units of it; above 1 where it is of each variable.
    local units_of_limit = 1
    if limits:count() == 0 then
      limits = case.config:where("match(key, 'clipnorm|*.clipnorm|*_clipnorm') and number > 0")
      -- A weight and a bias of each layer on record, or as many as a network of fifty layers has: a layer on record may
      -- be a block of many.
      local layers = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null")
        :distinct("layer"):count()
      units_of_limit = limits:count() > 0 and math.sqrt(math.max(2 * layers, 100)) or 1
    end
    if limits:count() == 0 then
      -- A threshold of null is an answer: nothing is clipped.
      if case.config:where("match(key, "
        .. "'*grad_norm|*grad_clip|*clip_grad|*clip_grad_norm|*gradient_clip*|*clip_norm|*norm_clip|*clipnorm')")
        :count() > 0 then
        return
      end
      return skip("the clipping threshold in a config")
    end
    local parts = settings.clipped_by_parts(case)
    if parts then
      return skip(("a threshold of the norm of all gradients: %s = %s is one of elements or units"):format(parts.key,
        tostring(parts.value)))
    end
    if units_of_limit > 1 then
      skip("a threshold of the norm of all gradients: this one is of each variable", "clipped-at-nearly-every-step")
    end
    local whole = case.scalars:where { name = "grad_norm", primary = true }:where("finite(value)")
    local power = 1
    if whole:count() == 0 then
      -- The root of the sum over the layers is at most the norm of all.
      whole = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null and finite(value)")
        :with { square = "value * value" }:aggregate({ "run", "step" }, { value = "sum square" })
        :renamed("squared gradient norms of the layers"):sort("step")
      power = 2
    end
    --- Whether an optimizer that divides by the gradient's size makes up for a threshold: what is left of an element is
    --- far above its epsilon.
    local divides, epsilon = optimizers.scale_free(case), nil
    if divides then
      epsilon = case.config:where("match(key, 'eps|*optim*eps|*adam*eps') and number > 0 "
        .. "and not match(key, '*norm*|*steps')")
        :first()
    end
    local function made_up(limit)
      if not divides then return false end
      local now, count = case.scalars:where { primary = true }:where("layer is not null and value > 0"), 0
      local first = now:where { metric = "update_rms" }:sort("step"):first()
      now = first and now:where { step = first.step }
      for row in first and now:where { metric = "update_rms" }:slice(0, 5000):rows() or function() end do
        local ratio = now:where { metric = "update_ratio", layer = row.layer }:first()
        local norm  = now:where { metric = "weight_norm", layer = row.layer }:first()
        if ratio and norm then count = count + (ratio.value * norm.value / row.value) ^ 2 end
      end
      -- A small model where nothing tells how large it is.
      return limit / math.sqrt(count > 0 and count or 1e4) > opt.above * (epsilon and epsilon.number or 1e-8)
    end

    -- Where plain descent moves the weights by a usual part, its threshold leaves steps long enough: a norm that is far
    -- above it is of a loss that is summed over rows, or large, and the rate was set for steps of that length.
    local moved = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value) and value > 0")
    local moves = not divides and moved:count() >= 3 and moved:median("value") >= opt.moves
    local short = not divides and moved:count() >= 3 and not moves

    for _, norms in whole:group("run") do
      local run   = norms:first().run
      local limit = limits:where { run = run }:first() or limits:first()
      -- Norms that grow far above the threshold in the run began near it: what made them grow is not the threshold.
      local begun = norms:sort("step"):slice(0, 3):min("value")
      local median = norms:median("value") ^ (1 / power)
      local usual  = math.min(median, begun ^ (1 / power))
      local least = limit.number * units_of_limit
      local above = norms:where("value > ?", least ^ power)
      local share = above:count() / norms:count()
      local ratio = usual / least
      -- A threshold that leaves a thousandth of each norm needs no more than three of them.
      local enough = norms:count() >= (power == 2 and 4 or 8) or norms:count() >= 3 and ratio >= opt.tiny
      if enough and share >= opt.share then
        -- The logits are as much too large as the loss is: their gradients are bounded, those of weights behind large
        -- weights are not.
        local classes = targets.classes(case)
        local loss = runs.series(case, "loss", run):first()
        local over = classes and loss and loss.step <= 10 and loss.value / math.log(classes.number)
        local far = opt.far * (over and over >= opt.over and over ^ 2 or 1)
        local near = ratio < far and short and not (over and over >= opt.over) and ratio >= opt.short
        if (ratio >= far or near) and not made_up(least) and not moves then
          report {
            symptom  = "clip-far-below-norm",
            score    = near and 0.6 or ratio >= 10 * far and 0.95 or 0.85,
            at       = { step = norms:first().step },
            message  = ("the gradient norm is %.3g %s, %.3g times %s %g; %s of the steps are "
              .. "clipped"):format(usual, usual < median and "at first" or "in the median", ratio,
              units_of_limit == 1 and "the clipping threshold of" or "the most that is left where each variable is "
              .. "clipped at", limit.number, units.percent(share)),
            evidence = { limit, norms:slice(0, 5) },
          }
        end
        -- Of all variables some may be below a threshold of each.
        if units_of_limit == 1 then
          report {
            symptom  = "clipped-at-nearly-every-step",
            score    = 0.8,
            severity = "info",
            at       = { step = norms:first().step },
            message  = ("%d of %d steps are clipped at %g; the median norm is %.3g"):format(above:count(),
              norms:count(), limit.number, median),
            evidence = { limit, above:slice(0, 5) },
          }
        end
      end
    end
  end,
}
