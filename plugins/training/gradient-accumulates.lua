--- ## What it detects
--- Gradients that point where the last one did, step after step, while the weights move: old gradients are still in
--- the buffers. And, where norms and the clipping threshold are known, that the numbers are those of a running sum.
---
--- ## Why it matters
--- The loss of such a run falls more slowly and looks like a smaller learning rate. The directions of gradients of
--- different batches do not agree like that once a model has left its first steps.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- Steps on one and the same batch, weights that hardly move, weights that explode, and a loss that climbs from the
--- start: all are left out. Very large batches have a cosine of a half at the start of training. Batches may agree by
--- themselves, as where updates come late and the weights swing; arithmetic tells. Let n be the norm, c the cosine
--- with the gradient before, and b what a buffer that is not cleared holds: the norm before, at most the clipping
--- threshold. If the gradient is buffer + new, the new one has the norm sqrt(n^2 + b^2 - 2 b n c) and the part n c - b
--- in the buffer's direction. Where that part is larger than the buffer, old gradients explain little. And as long as
--- the weights have hardly moved, two batches have the same mean gradient: their inner product is not negative, so a
--- sum of both is at least sqrt(n^2 + b^2) long, 1.4 times the first where nothing is clipped.
---
--- ## References
--- https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients of earlier steps are still in the buffers",
  needs    = { scalars = { "step", "value", metric = "grad_cosine" } },
  symptoms = { "gradients-repeat", "gradient-is-running-sum" },
  options  = {
    cosine   = { default = 0.70, doc = "Cosine that most consecutive gradients have, in the later half, that is a "
      .. "repetition" },
    min_rows = { default = 5,    doc = "Logged values below which nothing is judged" },
    own      = { default = 2.5,  doc = "Norm times cosine, over the clipping threshold, of batches that agree" },
    still    = { default = 0.05, doc = "First update over the weights up to which two batches see the same weights" },
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
    -- Nor has a run left its start whose updates all together are a small part of the weights.
    local span = moved:count() > 0 and moved:max("step") - moved:min("step") or 0
    if moved:count() > 0 and (moved:median("value") < 1e-5
      or span >= 100 and moved:mean("value") * span < 0.1) then
      return skip("weights that move: at fixed weights gradients agree anyway")
    end
    if moved:count() > 0 and moved:median("value") > 0.05 then
      return skip("small updates: of weights that are torn up gradients agree anyway")
    end

    -- Norm n and cosine c of the whole gradient by step. Of layers whose norms change alike, the cosine of the whole is
    -- the mean of theirs, weighed by squared norms.
    local sizes  = case.scalars:where { metric = "grad_norm", primary = true }:where("finite(value) and value > 0")
    local pieces = rows:where("layer is not null"):join(sizes:where("layer is not null"):distinct("step", "layer")
      :select("step", "layer", "value"), { "step", "layer" })
      :with { square = "value_right * value_right", part = "value * value_right * value_right" }
      :aggregate({ "step" }, { square = "sum square", part = "sum part" }):sort("step")
    ---@type table<integer, number>, { step: integer, n: number, c: number }[]
    local norm_at, pairs_of = {}, {}
    if pieces:count() > 0 then
      for row in sizes:where("layer is not null"):with { square = "value * value" }:aggregate({ "step" },
        { square = "sum square" }):rows() do
        norm_at[row.step] = math.sqrt(row.square)
      end
      for row in pieces:rows() do
        pairs_of[#pairs_of + 1] = { step = row.step, n = math.sqrt(row.square), c = row.part / row.square }
      end
    else
      for row in runs.series(case, "grad_norm"):rows() do norm_at[row.step] = row.value end
      for row in all:rows() do
        if norm_at[row.step] then
          pairs_of[#pairs_of + 1] = { step = row.step, n = norm_at[row.step], c = row.value }
        end
      end
    end
    local limit = case.config:where("match(key, '*max_grad_norm|*grad_clip|*clip_grad|*clip_grad_norm"
      .. "|*gradient_clipping|*gradient_clip_val|*clip_norm') and number > 0"):first()

    --- The new gradient's norm and its cosine with a buffer of norm b, if n and c are those of the sum.
    local function new_part(n, c, b)
      local size = math.sqrt(math.max(0, n * n + b * b - 2 * b * n * c))
      return size, size > 0 and (n * c - b) / size or 1
    end

    local proof, tested
    -- Two gradients at nearly the same weights.
    local begin  = pairs_of[1]
    local before = begin and begin.step <= 2 and norm_at[begin.step - 1]
    local update = before and moved:where("step == ?", begin.step - 1)
    if before and update:count() > 0 and update:median("value") <= opt.still then
      local buffer = math.min(before, limit and limit.number or math.huge)
      local least  = math.sqrt(1 + (buffer / before) ^ 2)
      local ratio  = begin.n / before
      if least > 1.2 then
        if ratio < 0.5 * (1 + least) then return end
        tested = true
        local size = new_part(begin.n, begin.c, buffer) / before
        if ratio >= 0.95 * least and size > 0.6 and size < 1.6 then
          proof = ("its norm at step %d is %.3g after %.3g, as of the sum of two"):format(begin.step, begin.n, before)
        end
      end
    end

    -- A buffer that is clipped in place holds the threshold and no more: n c is the threshold, and somewhat more.
    if limit then
      local parts, close, seen = {}, 0, 0
      for _, row in ipairs(pairs_of) do
        seen = row.step >= late:first().step and seen + 1 or seen
        if row.step >= late:first().step and row.n > limit.number then
          local part = row.n * row.c / limit.number
          parts[#parts + 1] = part
          if part >= 0.85 and part <= 1.35 then close = close + 1 end
        end
      end
      table.sort(parts)
      if #parts >= 3 and 2 * #parts >= seen then
        -- What the new gradient adds in the old direction is more than what is left there.
        if parts[(#parts + 1) // 2] >= opt.own then return end
        if close >= 0.75 * #parts then
          tested = true
          proof = ("norm times cosine is the %g that clipping leaves in the buffer, at %d of %d steps"):format(
            limit.number, close, #parts)
        end
      end
    end
    local loss = runs.series(case, "loss")
    if not proof and loss:count() >= opt.min_rows and loss:min("value") > 0.98 * loss:first().value then
      return skip("a loss that falls at some time: one that only climbs keeps its direction")
    end
    if not tested then
      skip("gradient norms of the first two steps, or ones above a clipping threshold", "gradient-is-running-sum")
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
    if proof then
      report {
        symptom  = "gradient-is-running-sum",
        score    = 0.9,
        at       = { step = all:first().step },
        message  = "the numbers are those of new gradients on top of old ones: " .. proof,
        evidence = { limit or late:first(), late:slice(0, 5) },
      }
    end
  end,
}
