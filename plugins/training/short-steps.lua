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
--- where epochs, hashes or settings say so nothing is said. So it is with a model that was loaded and is tuned at a
--- rate that is low by design, and with a run that ends in its warm-up. Gradients that are not cleared agree as well,
--- and have updates that grow with them: ten times as long at the end as at first is another thing.
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
    short  = { default = 3e-3, doc = "Largest update over weights, of the median layer, up to which steps are short" },
    agree  = { default = 0.4,  doc = "Median cosine of gradients from which they point one way" },
    rows   = { default = 3,    doc = "Logged updates, and cosines of the later half, that tell" },
    grown  = { default = 10,   doc = "Last over first update from which updates grow" },
  },

  run = runs.apart(function(case, run)
    local opt  = case.options
    local seen = update_ratios.of(case)
    local cosines = case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)")
      :aggregate({ "step" }, { value = "median value" }):sort("step")
    local half = cosines:count() > 0 and (cosines:min("step") + cosines:max("step")) / 2
    cosines = half and cosines:where("step >= ?", half) or cosines
    if not seen or seen.base or seen.usual:count() < opt.rows or cosines:count() < math.min(opt.rows, 2) then
      return skip(("update ratios and cosines of gradients at %d steps and more"):format(opt.rows))
    end
    local steps  = seen.usual:sort("step")
    local warmup = settings.warmup(case)
    if steps:first().step > 0.1 * steps:last().step then
      return skip("update ratios from the beginning of the run on: they may have been longer")
    elseif settings.loaded(case) then
      return skip("a model that begins from nothing: a loaded one is tuned in short steps")
    elseif runs.whole_data(case) or runs.same_batches(case) then
      return skip("batches that differ: of the same rows gradients agree by themselves")
    elseif warmup and warmup.number > 0.5 * steps:last().step then
      return skip("steps behind the warm-up")
    elseif steps:last().ratio > opt.grown * steps:first().ratio then
      return skip("updates that are as long at first: where they grow, gradients may be sums")
    end
    local most   = seen.usual:top(1, "ratio"):first()
    local usual  = cosines:median("value")
    if most.ratio <= 0 or most.ratio >= opt.short or usual < opt.agree then return end
    report {
      symptom  = "short-steps-agree",
      score    = most.ratio < opt.short / 3 and 0.9 or 0.8,
      at       = { run = run, step = most.step },
      message  = ("the largest update is %.2g of the weights (step %d), and gradients of the later half have a "
        .. "cosine of %.2g from step to step: they say the same again and again, so that steps could be many times as "
        .. "long"):format(most.ratio, most.step, usual),
      evidence = { most, cosines:top(3, "value"), seen.usual:slice(0, 5) },
    }
  end),
}
