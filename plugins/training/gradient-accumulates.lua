--- ## What it detects
--- Gradients that point where the last one did, step after step, while the weights move: old gradients are still in
--- the buffers. And, where norms and the clipping threshold are known, that the numbers are those of a running sum.
--- Where they are not, and the weights hardly leave their start: batches that agree by themselves.
---
--- ## Why it matters
--- The loss of such a run falls more slowly and looks like a smaller learning rate. The directions of gradients of
--- different batches do not agree like that once a model has left its first steps.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- Steps on one and the same batch whose norm does not add up, steps that take the whole data, weights that hardly
--- move, weights that explode, and a loss that climbs from the start: all are left out, and so are the steps whose
--- updates are below a tenth of the usual ones, as at the end of a schedule. Very large batches have a cosine of a half
--- at the start of training. Batches that come in blocks of one kind agree within a block, and turn the gradient round
--- at its end, at full length: all of it is new there.
---
--- Batches may agree by themselves, as where updates come late and the
--- weights swing; arithmetic tells. Let n be the norm, c the cosine with the gradient before, and b what a buffer
--- that is not cleared holds: the norm before, at most the clipping threshold. If the gradient is buffer + new, the
--- new one has the norm sqrt(n^2 + b^2 - 2 b n c) and the part n c - b in the buffer's direction. Where that part is
--- larger than the buffer, old gradients explain little. And as long as the weights have hardly moved, two batches
--- have the same mean gradient: their inner product is not negative, so a sum of both is at least sqrt(n^2 + b^2)
--- long, 1.4 times the first where nothing is clipped.
---
--- Where clipping shortens a buffer in place, b is the threshold, and n c the threshold and what the new gradient has
--- in that direction: at six steps and more, whatever the cosine, a median near the threshold, a lower quartile of
--- eight tenths of it and no step below three tenths are those of such a buffer.
---
--- The same of more steps: while the weights hardly move, a sum of k gradients is between sqrt(k) and k times as long
--- as one, at each of the first steps. A direction that stays, as of a loss without a lower bound or of units that are
--- stuck, has a cosine of 1 as well and neither of these: its norm is level at first, or grows by a factor a step,
--- which soon is more than the number of steps, or ends in nothing, where a sum keeps the length of what went in: what
--- would shorten it to a tenth, or on its way to a hundredth, has to cancel it. Three norms behind the first that are
--- nearer to it than to sqrt(2) of it hold nothing old.
---
--- Without cosines the norms of all steps tell of a buffer that is cleared every few steps: they come back at that
--- distance, at once, are longer again by the next step, and grow on from there until they come back. Rows that are
--- sorted by length lengthen their gradients little by little. Tasks or sources of data in turn have norms of their
--- own, that do not grow on, or losses of their own: where the loss has the same period, nothing is said, nor where the
--- config has such an order, tasks, or weights that are set back. A buffer that is clipped at each step stops growing
--- soon: it is told where the first step after each place is longer and the second one longer again.
---
--- The sum of k gradients that know nothing of each other has a cosine of sqrt(k / (k + 1)) with the one before, 0.95
--- from the tenth on: where the norm grows, so that nothing shortens the buffer, and nothing else speaks for a sum, a
--- lower one is that of a steep and one-sided loss, as of a likelihood whose noise shrinks.
---
--- Norms that stay level in the later half, below the threshold, are no sum's either, where the cosine is lower than
--- that of a sum of many: each new gradient would take the same part of it back. So it would, and more, where they come
--- down to a third without rising on the way.
---
--- Nor is the direction itself enough where the loss is measured against a target that moves, an adversary or values
--- that the model itself estimates: arithmetic alone tells there.
---
--- One parameter with a gradient far longer than all others, as a temperature that is learned, may give the whole a
--- direction that no layer has.
---
--- ## References
--- https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html

local clearing = require("clearing-turns")
local runs = require("runs")
local settings = require("settings")
local sums = require("running-sums")
local update_ratios = require("update-ratios")

--- Whether norms come down from fifth to fifth of these rows, to a third and less: none of the medians is above the
--- one before.
---@param norms culprit.Table
---@return boolean
local function only_falls(norms)
  local fifth, before, first = norms:count() // 5, math.huge, nil
  for i = 0, 4 do
    local level = norms:slice(i * fifth, fifth):median("value")
    if level > before then return false end
    first, before = first or level, level
  end
  return before < first / 3
end

--- How often these norms climb from a low to three times it, and stay there for more than a step.
---@param norms culprit.Table  by step
---@return integer
local function climbs(norms)
  local low, times = math.huge, 0
  for row in norms:with { level = norms:col("value"):rolling(3, "median") }:where("level > 0"):rows() do
    if row.level >= 3 * low then low, times = row.level, times + 1 end
    low = math.min(low, row.level)
  end
  return times
end

--- What a buffer that clipping shortens in place, and nobody clears, does at every step: the new gradient lies on one
--- of the threshold's length, so that norm times cosine is the threshold and what the new one has in that direction.
--- Gradients that know nothing of each other have nothing there on average; those of cleared buffers are below zero at
--- times. Where most gradients are more than three times the threshold, what they agree in is of its size by chance,
--- and a buffer so short does them no harm. The median part of the threshold and how many steps it is of; nil where it
--- is not so.
---@param pairs_of { step: integer, n: number, c: number }[]
---@param limit number
---@return number? median, integer count
local function lies_on_clipped(pairs_of, limit, opt)
  local parts, norms, seen = {}, {}, 0
  for _, row in ipairs(pairs_of) do
    if row.step > 20 then
      seen = seen + 1
      if row.n > limit then parts[#parts + 1], norms[#norms + 1] = row.n * row.c / limit, row.n end
    end
  end
  if #parts < opt.parts or #parts < 0.75 * seen then return nil, 0 end
  table.sort(parts)
  table.sort(norms)
  if norms[(#norms + 1) // 2] > opt.short * limit then return nil, 0 end
  local median, quarter = parts[(#parts + 1) // 2], parts[math.ceil(0.25 * #parts)]
  local so = parts[1] >= 0.3 and quarter >= 0.8 and median >= 0.9 and median <= 1.7
  return so and median or nil, #parts
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients of earlier steps are still in the buffers",
  needs    = { scalars = { "step", "value", metric = { "grad_cosine", "grad_norm" } } },
  symptoms = { "gradients-repeat", "gradient-is-running-sum", "batches-agree" },
  options  = {
    cosine   = { default = 0.70, doc = "Cosine that most consecutive gradients have, in the later half, that is a "
      .. "repetition" },
    balanced = { default = 20,   doc = "Norms of the later half from which this is judged" },
    kept     = { default = 0.9,  doc = "Cosine that a sum of many gradients has with the one before, at least" },
    min_rows = { default = 5,    doc = "Logged values below which nothing is judged" },
    parts    = { default = 6,    doc = "Steps beyond the twentieth at which norm times cosine is the threshold" },
    short    = { default = 3.0,  doc = "Norm over the clipping threshold up to which a buffer of that length is told" },
    own      = { default = 2.5,  doc = "Norm times cosine, over the clipping threshold, of batches that agree" },
    way      = { default = 0.30, doc = "Sum of the updates over the weights up to which a run has not left its start" },
    still    = { default = 0.05, doc = "Updates over the weights, added up, up to which batches see the same weights" },
    long     = { default = 96,   doc = "Steps in a row whose norm is on record from which a period is looked for" },
    falls    = { default = 0.25, doc = "Least fall of the logarithm of a norm where a buffer is cleared" },
    climb    = { default = 0.15, doc = "Rise of that logarithm one step later, and three, as sums have" },
    chance   = { default = 1e-3, doc = "How likely noise may put the lowest norms to the places of a period" },
    turned   = { default = -0.8, doc = "Cosine of a gradient that is all new, where it is of the usual length" },
    apart    = { default = 10.,  doc = "Norm over that of a sum of as many gradients, or the reverse, that is no sum" },
  },

  run = runs.apart(function(case, run)
    local opt  = case.options
    local rows = case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)"):sort("step")
    local all  = rows:where("layer is null")
    if all:count() < opt.min_rows then
      -- Layers alone: the median layer of each step.
      all = rows:aggregate({ "step" }, { value = "median value" }):renamed("gradient cosines")
    end
    local count = all:count()
    if count < opt.min_rows then
      local turns = clearing.in_turns(case, opt)
      if turns then
        report {
          symptom  = "gradient-is-running-sum",
          score    = 0.85,
          at       = { run = run, step = turns.rows:first().step },
          message  = turns.message,
          evidence = { turns.rows },
        }
        return skip(("the cosine of consecutive gradients at %d steps"):format(opt.min_rows), "gradients-repeat",
          "batches-agree")
      end
      return skip(("the cosine of consecutive gradients at %d steps"):format(opt.min_rows))
    end
    -- Where weights stand still, as at the end of a schedule, gradients agree anyway.
    local moved   = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
    -- Weights that are projected go nowhere by it.
    for _, step in ipairs(update_ratios.projected(case, moved:where("layer is not null"))) do
      moved = moved:where("step != ?", step)
    end
    local updates = moved:aggregate({ "step" }, { size = "median value" })
    local moving  = all
    if updates:count() > 0 then
      moving = all:join(updates, { "step" }, "left"):where("size is null or size >= ?", 0.1 * updates:median("size"))
        :sort("step")
    end
    local late   = moving:slice(moving:count() // 2, moving:count())
    -- A run has not left its start whose updates all together are a small part of the weights.
    local span = moved:count() > 0 and moved:max("step") - moved:min("step") or 0
    local little = moved:count() > 0 and (moved:median("value") < 1e-5
      or span >= 100 and moved:mean("value") * span < 0.1)
    -- The whole has few rows with large updates between many without, where layers are logged more seldom.
    local layered = moved:where("layer is not null"):aggregate({ "step" }, { size = "median value" })
    little = little or layered:count() >= opt.min_rows and span >= 100 and layered:mean("size") * span < 0.1
    local torn    = moved:count() > 0 and moved:median("value") > 0.05
      or layered:count() >= opt.min_rows and layered:median("size") > 0.05
    local batches = case.scalars:where { name = "batch_hash", primary = true }
    local same  = runs.same_batches(case) or runs.whole_data(case) and batches:distinct("value"):count() < 4
    local norms = runs.series(case, "grad_norm")
    local limit = settings.clipping(case):first()
    -- However low the cosine: what clipping leaves in the buffer is known.
    local norm_at, pairs_of = sums.whole(case, rows, all, norms)
    local on, seen = nil, 0
    if limit and not settings.clipped_by_parts(case) then
      on, seen = lies_on_clipped(pairs_of, limit.number, opt)
    end
    -- Cleared every few steps, one step in a few is new and the others repeat.
    local cosine = late:median("value")
    if on and cosine and cosine < opt.cosine and not little and not torn and not same then
      report {
        symptom  = "gradient-is-running-sum",
        score    = 0.85,
        at       = { run = run, step = all:first().step },
        message  = ("norm times cosine with the gradient before is %.2g of the clipping threshold, %g, in the median "
          .. "of %d steps and never far below it: new gradients lie on one of that length, which clipping left there")
          :format(on, limit.number, seen),
        evidence = { limit, late:slice(0, 5) },
      }
      return skip(("a cosine of %.2g in most of the later half"):format(opt.cosine), "gradients-repeat",
        "batches-agree")
    end
    if not cosine or cosine < opt.cosine then return end
    if moving:count() < opt.min_rows then
      return skip(("the cosine of consecutive gradients at %d steps whose updates are usual ones"):format(opt.min_rows))
    end
    local lengths = runs.series(case, "grad_norm")
    local growing = lengths:count() >= 10 and lengths:slice(lengths:count() - 3, 3):median("value")
      >= 3 * lengths:slice(0, 3):median("value")
    if all:first().step > 0.25 * all:last().step and not growing then
      return skip("cosines of gradients from the beginning of the run on: at its end they may agree by themselves")
    end
    -- Where the whole repeats and no layer does, it is one parameter that keeps its direction, as a temperature that
    -- is learned: nobody leaves that alone uncleared.
    local most
    for _, layer in rows:where("layer is not null and step >= ?", late:first().step):group("layer") do
      if layer:count() >= 3 then most = math.max(most or -1, layer:median("value")) end
    end
    if most and most < opt.cosine then
      return skip(("a direction that some layer keeps: none has a cosine above %.2g in most of the later half"):format(
        most))
    end

    local tenth = math.max(1, norms:count() // 10)
    local early = norms:count() >= opt.min_rows and norms:slice(0, tenth):median("value") or nil
    local grown = early and early > 0 and norms:slice(norms:count() - tenth, tenth):median("value") / early or nil
    if same then
      -- One batch has one gradient while the weights stay near, and one of another length where they do not: neither
      -- keeps its direction to the end and is longer each step by what it was at first.
      local sum, shown = sums.at_first(norms, moved, limit, 1, 4)
      if not sum or cosine < 0.98 or (grown or 0) < 3 then
        return skip("different batches: the same ones were used again and again")
      end
      report {
        symptom  = "gradients-repeat",
        score    = 0.85,
        at       = { run = run, step = all:first().step },
        message  = ("the gradient has a cosine of %.2f with that of the step before, of the same batch, in most of the "
          .. "later half, and %s: it holds the old ones"):format(cosine, shown),
        evidence = { late:slice(0, 5), norms:slice(0, 6) },
      }
      return
    end
    if not little and torn then
      return skip("small updates: of weights that are torn up gradients agree anyway")
    end

    --- Batches that point one way from the first step to the last, while the weights go a part of their length: each
    --- step could be longer until the noise of the batches shows.
    local function agree()
      -- What is frozen keeps what its buffers held, and that is no batch's.
      local layers, frozen = 0, 0
      for _, own in moved:where("layer is not null"):group("layer") do
        layers = layers + 1
        if own:max("value") == 0 then frozen = frozen + 1 end
      end
      if frozen > 0 and 2 * frozen >= layers then
        return skip(("a cosine of the layers that are trained: %d of %d never move"):format(frozen, layers),
          "batches-agree")
      end
      local usual = all:quantile("value", 0.25)
      if moved:count() < 3 or span < 100 then
        return skip("update ratios of three steps over a hundred", "batches-agree")
      end
      if usual < opt.cosine then return end
      -- An epsilon that is large, or a threshold far below the norm, makes steps short at any rate.
      local epsilon = case.config:where("match(key, 'eps|*.eps|*_eps|*epsilon|*adam_eps*') and not match(key, "
        .. "'*norm*|*label*|*clip*') and number >= 1e-6"):first()
      local norm = norms:median("value")
      if epsilon or limit and norm and norm > 10 * limit.number then
        return skip("a step that the rate alone makes short: epsilon or clipping may", "batches-agree")
      end
      local way  = moved:aggregate({ "step" }, { value = "median value" }):mean("value") * span
      local loss = runs.series(case, "loss")
      if way > opt.way or loss:count() < opt.min_rows or loss:last().value > loss:first().value then return end
      report {
        symptom  = "batches-agree",
        score    = 0.9,
        at       = { run = run, step = all:first().step },
        message  = ("gradients of different batches have a cosine of %.2g and more at three logged steps of four, and "
          .. "all updates together are %.2g of the weights: longer steps would still go down"):format(usual, way),
        evidence = { all:slice(0, 3), all:last() },
      }
    end

    if little then
      agree()
      for _, symptom in ipairs { "gradients-repeat", "gradient-is-running-sum" } do
        skip("weights that move: at fixed weights gradients agree anyway", symptom)
      end
      return
    end

    -- A sum of many is not turned round by one that is no longer than they are.
    local sorted = {}
    for _, row in ipairs(pairs_of) do sorted[#sorted + 1] = row.n end
    table.sort(sorted)
    for _, row in ipairs(pairs_of) do
      if row.step > 10 and row.c < opt.turned and row.n >= sorted[(#sorted + 1) // 2] then
        return skip(("gradients that keep their direction: at step %d it is turned round (a cosine of %.2f) at full "
          .. "length, and so new"):format(row.step, row.c))
      end
    end

    -- What turns a sum of many back has to be longer than they are together, for once and not at each fourth step.
    local back, seen = 0, 0
    for _, row in ipairs(pairs_of) do
      if row.step > 10 then seen, back = seen + 1, back + (row.c < 0 and 1 or 0) end
    end
    if back >= 2 and back >= 0.25 * seen then
      return skip(("gradients that keep their direction: %d of %d go back against the one before"):format(back, seen))
    end

    local proof, tested, few
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
        if parts[(#parts + 1) // 2] >= opt.own then return agree() end
        if close >= 0.75 * #parts then
          tested, few = true, #parts < opt.min_rows
          proof = ("norm times cosine is the %g that clipping leaves in the buffer, at %d of %d steps"):format(
            limit.number, close, #parts)
        end
      end
    end
    -- Two gradients at nearly the same weights.
    local begin  = pairs_of[1]
    local before = begin and begin.step <= 2 and norm_at[begin.step - 1]
    local update = before and moved:where("step == ?", begin.step - 1)
    if before and update:count() > 0 and update:median("value") <= opt.still then
      local buffer = math.min(before, limit and limit.number or math.huge)
      local least  = math.sqrt(1 + (buffer / before) ^ 2)
      local ratio  = begin.n / before
      if least > 1.2 then
        -- The second gradient takes from a sum what a long first step has made of the loss. What is all but the same
        -- from step to step later on, and grows for ever or again and again, is one.
        local plain = cosine > 0.98 and grown and (grown >= 3 or climbs(norms) >= 2)
        if ratio < 0.5 * (1 + least) and not proof and not plain then return agree() end
        tested = tested or ratio >= 0.5 * (1 + least)
        local size = sums.new_part(begin.n, begin.c, buffer) / before
        if ratio >= 0.95 * least and size > 0.6 and size < 1.6 then
          proof = proof or ("its norm at step %d is %.3g after %.3g, as of the sum of two"):format(begin.step, begin.n,
            before)
        end
      end
    end

    -- The first norms alone, where no cosine is on record of these steps.
    if not proof then
      local sum, shown = sums.at_first(norms, moved, limit, opt.still, 3)
      local shorter    = sum == nil and sums.none_at_first(norms, moved, limit, opt.still)
      if shorter then return skip(shorter) end
      if sum then tested, proof = true, shown end
      if sum == false then
        return skip("norms that add up: those of the first steps are level, so that the direction itself stays")
      end
    end
    -- A sum of k gradients is at most k times as long as the longest. One that is far longer has grown itself, by a
    -- factor a step; and one that has come to nothing holds nothing, least of all the long ones before.
    local top = norms:count() >= opt.min_rows and norms:top(1, "value"):first()
    if not proof and top and early > 0 then
      local start = math.max(norms:first().value, early)
      if top.value > opt.apart * (top.step - norms:first().step + 1) * start then
        return skip("norms that grow with the number of steps: these grow by a factor a step, as a loss without a "
          .. "lower bound makes them")
      end
      if grown < 1 / opt.apart and grown * early < 0.5 * (limit and limit.number or math.huge) then
        return skip("norms that stay: these end in nothing, and a sum of gradients does not")
      end
    end
    -- Nor does it come to nothing on its way; here those of the layers tell where the whole is not on record.
    local lengths = top and norms or case.scalars:where { metric = "grad_norm", primary = true }
      :where("finite(value) and layer is not null"):aggregate({ "step" }, { value = "median value" }):sort("step")
    if not proof and lengths:count() >= opt.min_rows then
      local least = lengths:with { level = lengths:col("value"):rolling(3, "median") }:min("level")
      local long  = lengths:slice(0, 2):min("value")
      if least < long / opt.apart ^ 2 and least < 0.05 * (limit and limit.number or math.huge) then
        return skip(("norms that stay: these come from %.3g to %.2g, where a sum of gradients keeps what went in")
          :format(long, least))
      end
    end

    -- What follows an adversary, or values of its own making, is drawn the same way for many steps.
    local target, named = nil, nil
    if not proof then target, named = settings.moving(case) end
    if target then
      return skip(("norms that add up: the loss is against a target that moves (%s), which draws gradients of many "
        .. "steps the same way"):format(named))
    end
    local loss = runs.series(case, "loss")
    local at_first = loss:count() >= opt.min_rows and loss:first().value
    if not proof and at_first and loss:min("value") > 0.98 * at_first then
      return skip("a loss that falls at some time: one that only climbs keeps its direction")
    end
    -- The first step is the same with the buffer cleared or not, and the next ones go the same way: downhill. A loss
    -- that goes up from there is not theirs, and the gradients that it meets on its way are longer and alike.
    local soon = at_first and loss:slice(1, math.max(3, loss:count() // 10))
    if at_first and at_first > 0 and loss:row(1).step - loss:first().step <= 2 and loss:last().value > 1.5 * at_first
      and soon:min("value") > 0.95 * at_first and soon:max("value") > 1.5 * at_first then
      return skip("a loss that falls at first: the first steps along a sum go downhill, and these do not")
    end
    -- A buffer that grows is not shortened by clipping, and the sum of k gradients that know nothing of each other has
    -- a cosine of sqrt(k / (k + 1)) with the one before, so that it soon is all but the same.
    if not proof and not limit and grown and grown >= 3 and cosine < opt.kept then
      return skip(("a cosine that a sum of many gradients has, above %.2g: it is %.2g, and the norm grows %.3g times")
        :format(opt.kept, cosine, grown))
    end
    -- Of a sum that is as long from step to step, and has a cosine of c with the one before, each new gradient takes
    -- 1 - c of it back: for once, where it swings, and not in half of the run without its length changing.
    -- Still less of one that comes down all the way without swinging.
    local half = norms:slice(norms:count() // 2, norms:count())
    local clipped = limit and half:where("value > ?", limit.number):count() or 0
    if not proof and cosine < opt.kept and half:count() >= opt.balanced and clipped <= 0.2 * half:count() then
      local short, long = half:quantile("value", 0.1), half:quantile("value", 0.9)
      if long < 1.5 * short then
        return skip(("norms that change: from %.3g to %.3g in the later half, they are as long from step to step as no "
          .. "sum with a cosine of %.2g stays"):format(short, long, cosine))
      elseif only_falls(half) then
        return skip(("norms that grow or swing: in the later half they come down all the way, from %.3g to %.3g, which "
          .. "each new gradient would have to take back from a sum"):format(long, short))
      end
    end
    if not tested then
      skip("gradient norms of the first two steps, or ones above a clipping threshold", "gradient-is-running-sum")
    end

    local growth = ""
    if grown and grown >= 3 then growth = (" and the norm grows %.3g times over the run"):format(grown) end
    report {
      symptom  = "gradients-repeat",
      score    = (cosine > 0.98 or grown and grown >= 3 and cosine > 0.9) and 0.97
        -- The cosine of the whole may be that of one parameter.
        or not most and not proof and 0.5 or cosine > 0.8 and 0.85 or 0.75,
      at       = { run = run, step = all:first().step },
      message  = ("the gradient has a cosine of %.2f with that of the step before, in most of the later "
        .. "half%s: %s"):format(cosine, growth,
        proof and "it still holds the old ones" or "as of one that still holds the old ones"),
      evidence = { late:slice(0, 5), norms:last() or late:first() },
    }
    if proof then
      report {
        symptom  = "gradient-is-running-sum",
        -- Three rows may agree by chance.
        score    = few and 0.6 or 0.9,
        at       = { run = run, step = all:first().step },
        message  = "the numbers are those of new gradients on top of old ones: " .. proof,
        evidence = { limit or late:first(), late:slice(0, 5) },
      }
    end
  end),
}
