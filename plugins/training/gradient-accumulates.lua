--- ## What it detects
--- Gradients that point where the last one did, step after step, while the weights move: old gradients are still in
--- the buffers.
---
--- ## Why it matters
--- The loss of such a run falls more slowly and looks like a smaller learning rate. The directions of gradients of
--- different batches do not agree like that once a model has left its first steps.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- Steps on one and the same batch, weights that hardly move, and weights that explode: all are left out. Very large
--- batches have a cosine of a half at the start of training.
---
--- ## References
--- https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients of earlier steps are still in the buffers",
  needs    = { scalars = { "step", "value", metric = "grad_cosine" } },
  symptoms = { "gradients-repeat" },
  options  = {
    cosine   = { default = 0.70, doc = "Cosine that most consecutive gradients have, in the later half, that is a "
      .. "repetition" },
    min_rows = { default = 5,    doc = "Logged values below which nothing is judged" },
  },

  run = function(case)
    local opt  = case.options
    local rows = case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)"):sort("step")
    local all  = rows:where("layer is null")
    if all:count() < opt.min_rows then
      -- Layers alone: the median layer of each step.
      all = rows:aggregate({ "step" }, { value = "median value" }):renamed("gradient cosines")
    end
    local count = all:count()
    if count < opt.min_rows then
      return skip(("the cosine of consecutive gradients at %d steps"):format(opt.min_rows))
    end
    local late = all:slice(count // 2, count)
    -- Cleared every few steps, one step in a few is new and the others repeat.
    local cosine = late:quantile("value", 0.6)
    if cosine < opt.cosine then return end

    local batches = case.scalars:where { name = "batch_hash", primary = true }
    if batches:count() >= 4 and batches:distinct("value"):count() <= 0.5 * batches:count() then
      return skip("different batches: the same ones were used again and again")
    end
    local moved = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
    if moved:count() > 0 and moved:median("value") < 1e-5 then
      return skip("weights that move: at fixed weights gradients agree anyway")
    end
    if moved:count() > 0 and moved:median("value") > 0.05 then
      return skip("small updates: of weights that are torn up gradients agree anyway")
    end

    local loss = runs.series(case, "loss")
    if cosine < 0.999 and loss:count() >= opt.min_rows and loss:min("value") > 0.98 * loss:first().value then
      return skip("a loss that falls at some time: one that only climbs keeps its direction")
    end

    local norms = runs.series(case, "grad_norm")
    local tenth = math.max(1, norms:count() // 10)
    local early = norms:count() >= opt.min_rows and norms:slice(0, tenth):median("value") or nil
    local grown = early and early > 0 and norms:slice(norms:count() - tenth, tenth):median("value") / early or nil
    local growth = ""
    if grown and grown >= 3 then growth = (" and the norm grows %.3g times over the run"):format(grown) end
    report {
      symptom  = "gradients-repeat",
      score    = (cosine > 0.98 or grown and grown >= 3 and cosine > 0.9) and 0.97 or cosine > 0.8 and 0.85 or 0.75,
      at       = { step = all:first().step },
      message  = ("the gradient has a cosine of %.2f with that of the step before, in most of the later "
        .. "half%s: it still holds the old ones"):format(cosine, growth),
      evidence = { late:slice(0, 5), norms:last() or late:first() },
    }
  end,
}
