--- ## What it detects
--- Updates that stay a small part of the weights throughout, while the gradients of one step and the next point the
--- same way.
---
--- ## Why it matters
--- Gradients of different batches agree where the model is still on its way: each says once more what the last one
--- said, since the step between them was too short to matter. Once steps are as long as the loss allows, they are
--- mostly noise, and have a cosine near 0. So short steps alone may be right, as at the end of a run, and so may be
--- gradients that agree, as at its beginning; both at once, to the end, say that the steps could be many times as long.
---
--- ## How to confirm
--- Run a few hundred steps at ten times the rate from the same start: the loss falls about as many times faster.
---
--- ## Known false positives
--- Batches so large that hardly any noise is left, and steps over the whole data, have gradients that agree anyway;
--- where epochs or settings say so nothing is said. So it is with a model that was loaded and is tuned at a rate that
--- is low by design. Gradients that are not cleared agree as well, and have updates that grow with them.
---
--- ## References
--- McCandlish et al., https://arxiv.org/abs/1812.06162: noise of gradients against their length

local runs = require("runs")
local settings = require("settings")
local update_ratios = require("update-ratios")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Steps are short and all go one way",
  needs    = { scalars = { "step", "value", metric = { "update_ratio", "grad_cosine" } } },
  symptoms = { "short-steps-agree" },
  options  = {
    short  = { default = 3e-3, doc = "Largest update over the weights, of the median layer, up to which steps are short" },
    agree  = { default = 0.4,  doc = "Median cosine of gradients from which they point one way" },
    rows   = { default = 3,    doc = "Logged updates and cosines that tell" },
  },

  run = runs.apart(function(case, run)
    local opt  = case.options
    local seen = update_ratios.of(case)
    local cosines = case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)")
      :aggregate({ "step" }, { value = "median value" }):sort("step")
    if not seen or seen.base or seen.usual:count() < opt.rows or cosines:count() < opt.rows then
      return skip(("update ratios and cosines of gradients at %d steps and more"):format(opt.rows))
    end
    local steps = seen.usual:sort("step")
    if steps:first().step > 0.1 * steps:last().step then
      return skip("update ratios from the begin of the run on: they may have been longer")
    elseif settings.loaded(case) then
      return skip("a model that begins from nothing: a loaded one is tuned in short steps")
    elseif runs.whole_data(case) then
      return skip("batches that differ: of the whole data gradients agree by themselves")
    end
    local most   = seen.usual:top(1, "ratio"):first()
    local usual  = cosines:median("value")
    if most.ratio == 0 or most.ratio >= opt.short or usual < opt.agree then return end
    report {
      symptom  = "short-steps-agree",
      score    = most.ratio < opt.short / 3 and 0.9 or 0.8,
      at       = { run = run, step = most.step },
      message  = ("the largest update is %.2g of the weights (step %d), and gradients have a cosine of %.2g from step "
        .. "to step: they say the same again and again, so that steps could be many times as long"):format(most.ratio,
        most.step, usual),
      evidence = { most, cosines:top(3, "value"), seen.usual:slice(0, 5) },
    }
  end),
}
