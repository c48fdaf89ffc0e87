--- ## What it detects
--- Logged steps at which no parameter changes at all, and whether learning rate and gradient were above zero there.
---
--- ## Why it matters
--- Zero everywhere with a gradient and a learning rate above zero means that the optimizer holds other parameters than
--- the model uses. With a learning rate of zero it is the schedule's doing. An optimizer that moves the parameters at
--- later steps holds them, and its step was left out.
---
--- ## How to confirm
--- Compare one parameter before and after `optimizer.step()`, and its `id()` with those in `optimizer.param_groups`.
---
--- ## Known false positives
--- The last step of a schedule that ends at zero; single steps are not reported. Steps that a loss scaler skipped, or
--- another guard: parameters that move again are held, and of those that moved before less is said, or nothing where
--- the rate has come down to a tenth. Where the optimizer has a state of the parameters and counts their updates it
--- holds them, and something else keeps them as they are.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/optim.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "No parameter changes from step to step",
  needs    = { scalars = { "step", "value", metric = "update_ratio" } },
  symptoms = { "update-zero", "update-zero-despite-gradient" },
  options  = {
    zero_share = { default = 0.30, doc = "Share of the logged steps without any update worth reporting" },
    min_steps  = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = function(case)
    local opt  = case.options
    local rows = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)"):sort("step")
    ---@type integer[], integer, culprit.Table?, integer?
    local zero, steps, from, since = {}, 0, nil, nil
    local before, again -- steps at which something moves: the last before the first zero, the first behind it
    for step, layers in rows:group("step") do
      steps = steps + 1
      if layers:max("value") > 0 then
        if #zero == 0 then before = step else again = again or step end
        since = nil
      elseif layers:max("value") == 0 then
        zero[#zero + 1] = step
        since = since or step
        from  = from or layers
      end
    end
    if steps < opt.min_steps then
      return skip(("update ratios of at least %d steps"):format(opt.min_steps))
    end
    if #zero < opt.zero_share * steps or #zero < 3 then return end
    report {
      symptom  = "update-zero",
      score    = 0.97,
      at       = { step = zero[1] },
      message  = ("no layer changes in %d of %d logged steps, first at step %d%s"):format(#zero, steps, zero[1],
        since and (", and none from step %d to the end"):format(since) or ""),
      evidence = { from:slice(0, 5) },
    }

    -- A step counts where all three are on record for it.
    local function at(metric)
      return case.scalars:where { metric = metric, primary = true }:where("finite(value)"):where { step = zero }
    end
    local rates, grads = at("lr"), at("grad_norm")
    if grads:where("layer is null"):count() > 0 then grads = grads:where("layer is null") else grads = grads
      :sort("-value") end
    local both = rates:join(grads:distinct("step"), { "step" })
    local driven = both:where("value > 0 and value_right > 0")
    if both:count() < 3 then
      skip("learning rate and gradient norm of three steps without an update", "update-zero-despite-gradient")
    end
    if driven:count() >= 3 and driven:count() >= 0.8 * both:count() then
      if again then
        return skip(("steps without an update and none behind them that has one: the optimizer moves at step %d what "
          .. "it left as it was at step %d, and so it holds it"):format(again, zero[1]), "update-zero-despite-gradient")
      end
      -- The state of a parameter is kept by the parameter itself: where it is of these, they are held.
      local counts = at("optimizer_state_step")
      for layer, own in counts:where("layer is not null"):group("layer") do
        if own:count() >= 3 and own:max("value") > own:min("value") then
          return skip(("an optimizer that holds other parameters: this one counts %d updates of %s, which stays")
            :format(math.floor(own:max("value")), layer), "update-zero-despite-gradient")
        end
      end
      -- What a rate a tenth as high does to weights of few digits is lost in rounding.
      local first  = driven:first()
      local usual  = before and case.scalars:where { metric = "lr", primary = true }:where("step <= ?", before)
        :max("value") or 0
      if driven:max("value") < 0.1 * usual then
        return skip(("updates at a rate like the one that moved them: it is %.3g and was %.3g, and what is left may be "
          .. "lost in rounding"):format(first.value, usual), "update-zero-despite-gradient")
      end
      report {
        symptom  = "update-zero-despite-gradient",
        score    = before and 0.7 or 0.95,
        at       = { step = first.step },
        message  = ("no parameter changes at %d logged steps whose learning rate (%.3g at step %d) and gradient norm "
          .. "(%.3g) are above zero: the optimizer does not hold the model's parameters%s"):format(driven:count(),
          first.value, first.step, first.value_right,
          before and (" any more, or its step is left out; it moved them at step %d"):format(before) or ""),
        evidence = { driven:slice(0, 5), from:slice(0, 3) },
      }
    end
  end,
}
