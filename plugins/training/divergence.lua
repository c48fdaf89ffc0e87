--- ## What it detects
--- A loss that climbs away from its best level and stays there, and one that rises from the first steps on; of the
--- latter, one that rises steadily although no update is large against the weights, and one that is thrown to a
--- multiple of its first level, comes down from there and never gets back, or to where it began and not below. One that
--- falls before it climbs has lost what it learned, however soon it turns; one that has an upper bound, and stays a
--- tenth above its first value to the end, rises. And one that falls below zero and on by orders of magnitude.
---
--- ## Why it matters
--- The first learned and then lost it, which the step size or the numerics do. The second never learned, which a sign
--- or a target does, or a rate that overshoots from its first step on. Size tells them apart: a short step down the
--- gradient lowers the loss, so one that raises it, again and again, does not go down. Overshooting takes updates in
--- the order of the weights. Where no update is on record, Adam's are bounded by the rate in each element, and weights
--- behind n inputs are about 1 / sqrt(n): the rate times the root of the widest layer, four times the model's width.
---
--- Nor is it the gradient that takes more than half of the weights away: where decay does, a short step may go up.
---
--- A loss that falls for most of the run is not maximised, wherever it was thrown at first. One of classes that swings
--- far above the logarithm of their number to the end, while they are told no better than by chance, was thrown before
--- its first row: what learns nothing from a bad start stays where it is.
---
--- A step u changes the loss by the gradient times u to first order, at most by |g| |u| added up over the layers. A
--- loss that rises steadily by many times the sum of that over the steps is moved by something else than its own
--- gradient: what the optimizer minimises is another quantity than what is logged (another weighting of the samples,
--- a term that is left out, other labels). A flipped sign pays for its rise, and its gradient does not fade.
---
--- Squares, cross entropies and divergences end at 0, and the log-likelihood of a density goes below it by the number
--- of digits the model resolves, times what it is of. A loss of thousands of times its first size below zero has no
--- lower bound: a term that has one is subtracted where it is meant to be added. So has one that begins below zero and
--- sinks a hundred times as deep without slowing down, as what has a bound does.
---
--- ## How to confirm
--- Restart from a checkpoint before the best step with a third of the learning rate.
---
--- ## Known false positives
--- A change of data or of loss weights in the middle of the run. A teacher whose targets get sharper, as its settings
--- say, takes the loss of a student that knows nothing up to twice the logarithm of what they tell apart. Weights that
--- hardly move at all do not make a loss rise. A loss that swings on its way up overshoots, and
--- counts as rising from the start only. Norms that were logged after clipping are smaller than the gradients: where
--- most of them equal the threshold, nothing is said of what they can pay for, nor where the layers on record have
--- less than seven tenths of the squared norm of all at any step. Losses of critics and of adversaries
--- grow as returns and opponents do, and have no level of their own, and so does the loss against a teacher or a target
--- that follows the network: beside those nothing is said. Nor is it where
--- a curriculum makes the task harder, a queue of negatives fills, or the weight of a term goes up: a term of a fifth
--- of the loss and more that falls while the whole rises tells of that. What a log does not call a loss and has below 0
--- in all rows, as Kaldi's objective, is trained to go up. A loss that begins near nothing, as a student's
--- that is its teacher's copy, is not thrown: its first value has to be that of classes nobody knows, or its first
--- updates long.
---
--- ## References
--- Thresholds are scale-free: they compare with the fall from the first to the best level of the same run.

local freezing = require("freezing")
local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")
local targets = require("targets")

--- Whether a loss that rose has done so in its first quarter, and no further since: the last quarter lies as high above
--- the start as the second one does, to a twentieth.
local function levels_off(loss, start)
  local quarter = loss:count() // 4
  if quarter < 4 then return false end
  local before = loss:slice(quarter, quarter):median("value") - start
  local after  = loss:slice(3 * quarter, loss:count() - 3 * quarter):median("value") - start
  return before > 0 and after <= 1.05 * before
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss climbs away and does not come back",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-diverges", "loss-rises-from-start", "loss-rises-at-small-updates",
    "diverges-while-lr-rises", "loss-rises-beyond-gradient", "loss-falls-without-bound", "loss-thrown-at-start" },
  options  = {
    lost     = { default = 0.5, doc = "Part of the fall from first to best level that is lost again at the end" },
    small    = { default = 0.1, doc = "Update over weight norm up to which a step down the gradient cannot overshoot" },
    still    = { default = 1e-3, doc = "Sum of updates over weights below which they are where they were" },
    left     = { default = 0.5, doc = "Last over first weight norm below which decay moves the weights" },
    beyond   = { default = 10.,  doc = "Rise over what gradients and updates can move from which it is not theirs" },
    below    = { default = 1e4, doc = "Loss below zero over its first size, or over 1, from which it has no bound" },
    sinks    = { default = 100, doc = "The same for one that sinks as fast in the second half as in the first" },
    far      = { default = 10,  doc = "Highest over first loss from which it was thrown and did not climb" },
    swung    = { default = 0.98, doc = "Share of the rows above the first one from which that is no noise" },
    swings   = { default = 0.02, doc = "Share of the rows that fall half the way back from which the loss swings" },
    nothing  = { default = 0.1, doc = "First loss below which it may begin at nothing, where nothing else tells" },
    whole    = { default = 0.7, doc = "Part of the squared gradient norm that layers on record must have to pay" },
    few_up   = { default = 3.0, doc = "Last over first level of fewer than thirty rows that climb, for all noise" },
    held     = { default = 0.7, doc = "Last over highest level of these" },
    trend    = { default = 4.0, doc = "Deviations from no trend from which rows rise, however noisy" },
    few      = { default = 6,   doc = "Logged values that tell where all climb, in validation as well" },
    min_rows = { default = 10,  doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged, below, raised = case.options, false, false, nil

    --- The update over the weights of the median layer, by step.
    local function update_sizes(run_name)
      return case.scalars:where { metric = "update_ratio", primary = true, run = run_name }:where("finite(value)")
        :aggregate({ "step" }, { value = "median value" }):sort("step")
    end

    --- The largest update of the median layer until the loss has doubled, and the next one logged; nil where none is.
    --- Adam's first updates are the rate in every element, so that only those of the weights' size count among them.
    --- Then whether the loss swings: half the way back is no noise of a batch where more than one row in fifty has it.
    local function climbs(run_name, loss, start)
      local top, above, back, crossed = -math.huge, 0, 0, nil
      -- Rows far apart may have half of the way between the first and the second one.
      local begun = math.min(start, loss:first().value)
      for row in loss:rows() do
        top = math.max(top, row.value)
        if top > 2 * begun then
          above = above + 1
          if row.value < begun + 0.5 * (top - begun) then back = back + 1 end
        end
        crossed = crossed or row.value > 1.3 * start and row.step or nil
      end
      local swings = back > opt.swings * above
      local sizes = update_sizes(run_name)
      local from  = sizes:first()
      if not crossed or not from or from.step > crossed then return nil, swings end
      local begin = from.step + math.max(10, 0.05 * (loss:last().step - loss:first().step))
      local next_one = sizes:where("step >= ? and step > ?", crossed, begin):first()
      if not next_one then return nil, swings end
      local until_then = sizes:where("step <= ?", next_one.step)
      return math.max(until_then:where("step > ?", begin):max("value") or 0,
        until_then:where("value >= 1"):max("value") or 0), swings
    end

    --- What is left of the weights of the median layer at the end, or of all of them: their norm over the first one.
    --- Climbing makes weights longer, as coming down does; what takes most of them away is decay, or another hand.
    local function left_of_weights(run_name)
      local norms = case.scalars:where { metric = "weight_norm", primary = true, run = run_name }
        :where("finite(value) and value > 0")
      local parts = {}
      local function add(rows)
        local sizes = rows:sort("step")
        if sizes:count() >= 2 then parts[#parts + 1] = sizes:last().value / sizes:first().value end
      end
      for _, rows in norms:where("layer is not null"):group("layer") do add(rows) end
      if #parts == 0 then add(norms:where("layer is null")) end
      return #parts > 0 and statistics.median(parts) or nil
    end

    --- What an update of Adam is of the weights at most, by its rate and the model's width; nil where neither is known.
    local function bound_of_adam(run_name)
      local adam  = optimizers.adam(case)
      local width = case.config:where("match(key, '*hidden_size|*d_model|*n_embd|*embed_dim|*hidden_dim|"
        .. "*embedding_dim') and number >= 1"):max("number")
      local rate  = runs.series(case, "lr", run_name):where("value > 0"):max("value")
      return adam and width and rate and rate * math.sqrt(4 * width) or nil
    end

    --- The stretch to the end of the run in which the loss rises most beyond what gradients and updates of the layers
    --- can move it by, nil where they can pay for it; and whether that can be told: norms that clipping left
    --- cannot, nor layers that lack a part of the whole.
    local function unpaid(run_name, loss, tenth, finish)
      local own = case.scalars:where { primary = true, run = run_name }:where("finite(value) and layer is not null")
      local parts = {}
      for _, metric in ipairs { "grad_norm", "update_ratio", "weight_norm" } do
        for row in own:where { metric = metric }:slice(0, 10000):rows() do
          local step = parts[row.step] or {}
          local part = step[row.layer] or {}
          part[metric], step[row.layer], parts[row.step] = row.value, part, step
        end
      end
      local limit = settings.clipping(case):first()
      local whole, parts_of_it = {}, {}
      for row in runs.series(case, "grad_norm", run_name):rows() do whole[row.step] = row.value end
      local pays, steps, clipped = {}, {}, 0
      for step, layers in pairs(parts) do
        local sum, squares, known = 0, 0, 0
        for _, part in pairs(layers) do
          if part.grad_norm and part.update_ratio and part.weight_norm then
            sum, known = sum + part.grad_norm * part.update_ratio * part.weight_norm, known + 1
          end
          squares = squares + (part.grad_norm or 0) ^ 2
        end
        if known > 0 then steps[#steps + 1], pays[step] = step, sum end
        if (whole[step] or 0) > 0 then parts_of_it[#parts_of_it + 1] = squares / whole[step] ^ 2 end
        if limit and math.abs(math.sqrt(squares) / limit.number - 1) < 0.02 then clipped = clipped + 1 end
      end
      table.sort(steps)
      if #steps < 4 or clipped >= 0.5 * #steps then return nil, false end
      -- What no layer holds, as a temperature that is learned, moves the loss as well.
      table.sort(parts_of_it)
      if #parts_of_it > 0 and parts_of_it[1] < opt.whole then return nil, false end
      -- Three deviations of the difference of two medians, which are a quarter wider than those of means.
      local noise = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      local function least(rows)
        return math.max(0.1, 0.15 * loss:first().value, 3 * 1.25 * math.sqrt(1 / rows + 1 / tenth) * noise)
      end
      local budget, found = 0, nil
      for i = #steps - 1, 2, -1 do
        local after = loss:where("step >= ?", steps[i])
        -- Between two logged steps as much as at the better paid of them.
        budget = budget + (steps[i + 1] - steps[i]) * math.max(pays[steps[i]], pays[steps[i + 1]])
        -- From one row on, where the loss is quiet, or from the median of some.
        for _, count in ipairs { 1, tenth } do
          local rise = after:count() > 2 * tenth and finish - after:slice(0, count):median("value") or 0
          if rise >= least(count) and rise > opt.beyond * budget and (not found or rise > found.rise) then
            found = { rise = rise, budget = budget, from = after:first().step, first = after:first() }
          end
        end
      end
      return found, true
    end

    local pulled = settings.moving(case) ~= nil
    -- A curriculum makes the examples harder, a queue of negatives fills, a term's weight goes up: none is the weights'
    -- doing.
    local set = settings.harder(case)
    local grown = not set and settings.grown(case)
    local what = set and set.key or grown and grown.name or nil
    -- A teacher or a target sharpens as the network it follows does.
    local follower = freezing.follower(case.scalars:where { primary = true }:where("layer is not null"))
    local moving = pulled or what ~= nil or follower ~= nil

    --- Whether a loss is one that a teacher's sharper and sharper targets lead to, a student that knows nothing and is
    --- no good: up to twice the logarithm of what they tell apart. Nil where the settings name no such teacher.
    local function sharpened(finish)
      local teacher = case.config:where("match(key, '*teacher_temp*|*temp_teacher*|*momentum_teacher*|"
        .. "*teacher_momentum*|*teacher_decay*')"):first()
      local size = teacher and case.config:where("match(key, '*out_dim|*n_prototypes|*num_prototypes|*nmb_prototypes') "
        .. "and number >= 2"):first()
      return size and finish <= 2 * math.log(size.number) and teacher or nil
    end

    --- How far the layers move in the whole run at most, of their weights: the largest update of the median layer,
    --- again and again in one direction.
    local function moved_in_all(run_name, loss)
      local sizes = update_sizes(run_name)
      -- Where losses are counted by epochs their steps are no updates.
      if sizes:count() == 0 or sizes:max("step") > 2 * loss:last().step then return nil end
      return sizes:max("value") * (loss:last().step - loss:first().step)
    end

    --- Whether the first updates throw a loss off and it comes back to where it began, and never below: what was lost
    --- at first was not learned again, and nothing else.
    ---@return culprit.Row?  the highest of the rows that were thrown
    local function never_back(loss, finish)
      local first, rows = loss:first().value, loss:count()
      if rows < 15 or loss:first().step > 1 or first <= 0 or finish > 1.3 * first then return nil end
      local peak = loss:slice(1, math.max(3, rows // 6)):top(1, "value"):first()
      return peak.value >= 2.5 * first and loss:min("value") >= first and peak or nil
    end

    --- Whether a loss that climbs fell before, by a twentieth and three times what its first rows move by.
    local function fell_first(loss, best, start)
      local before = loss:where("step <= ?", best.step)
      if before:count() < 6 then return false end
      local noise = (before:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      return start - best.level > math.max(0.05 * math.abs(start), 3 * noise)
    end

    --- A term of the loss, of a fifth of it and more at first, that comes down to four fifths while the whole goes up:
    --- what the others weigh goes up, by a schedule. Nil where there is none.
    local function term_falls(run_name, loss)
      local own = case.scalars:where { primary = true, run = run_name }:where("layer is null and finite(value) and "
        .. "name != 'loss' and (match(name, '*loss*') or match(raw_name, '*loss*')) and not match(name, "
        .. "'*val*|*eval*|*test*|*dev*|*scale*')")
      for name, rows in own:group("name") do
        local term = rows:sort("step")
        local n = term:count()
        local first = n >= 10 and term:slice(0, 3):median("value")
        if first and first >= 0.2 * loss:slice(0, 3):median("value") and first > 0
          and term:slice(n - 3, 3):median("value") <= 0.8 * first then
          return name
        end
      end
    end

    --- Whether the first loss is that of a model that knows nothing, or its first updates are long enough to throw it.
    --- One that begins near nothing, as a student that is its teacher's copy, goes up by design.
    local function begins_high(run_name, loss)
      local size = targets.classes(case)
      if size then return loss:first().value >= 0.5 * math.log(size.number) end
      local sizes = update_sizes(run_name)
      if sizes:count() > 0 then
        return sizes:where("step <= ?", loss:row(loss:count() // 10).step):max("value") >= opt.small
      end
      local bound = bound_of_adam(run_name)
      return bound and bound >= opt.small or loss:first().value >= opt.nothing
    end

    --- Whether few rows show a trend all the same: each is above the one before, which noise does once in n! runs, the
    --- last is twice the first, and so it is in validation.
    local function only_climbs(run_name, loss)
      local function up(rows, least)
        return rows:count() >= least and rows:first().value > 0 and rows:last().value >= 2 * rows:first().value
          and rows:col("value"):diff():min() > 0
      end
      return up(loss, opt.few) and up(runs.series(case, "val_loss", run_name), 3)
    end

    --- Whether a model of classes is worse than one that knows nothing to the end, and moves all the while: it was
    --- thrown before the first row, since what starts badly and learns nothing stays, and what learns has an accuracy.
    local function worse_than_nothing(run_name, loss)
      local size = targets.classes(case)
      local rows = loss:count()
      if moving or not size or rows < 30 or loss:first().step <= 1 then return false end
      local late, chance = loss:slice(rows // 2, rows), math.log(size.number)
      if loss:first().value < opt.far * chance or late:quantile("value", 0.25) < 2 * chance
        or late:max("value") > loss:first().value
        or late:quantile("value", 0.9) < 2 * late:quantile("value", 0.1) then
        return false
      end
      local right = case.scalars:where { run = run_name }:where("finite(value) and value >= 0 and step >= ? and "
        .. "match(name, 'acc|accuracy|*/acc|*/accuracy|*_acc|*_accuracy|acc1|*acc@1|*top1')", late:first().step)
      if right:count() < 3 then return false end
      local whole = right:max("value") > 1 and 100 or 1
      return right:median("value") <= whole * 1.3 / size.number
    end

    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      local rows = loss:count()
      if rows >= opt.min_rows or only_climbs(run_name, loss) then
        judged = true
        local tenth  = math.max(3, rows // 10)
        local level  = loss:with { level = loss:col("value"):rolling(5, "median") }
        local start  = loss:slice(0, 3):median("value")
        local finish = loss:slice(rows - tenth, tenth):median("value")
        local best   = level:sort("level"):first()
        local early  = best.step <= loss:row(math.max(1, rows // 20)).step
        local fall   = start - best.level
        -- Steps that follow the gradient make it fall at first, however soon it turns.
        local fell   = early and fell_first(loss, best, start)
        early = early and not fell
        -- From row to row a loss moves by its noise; a move of the level has to be larger. Losses around zero, such as
        -- policy-gradient ones, are noise and nothing else.
        local noise  = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        local scale  = math.max(1, math.abs(start), loss:slice(0, 3):max("value"))
        local deep   = loss:where("value < ?", -opt.below * scale):first()
        -- A difference of two energies or scores goes about 0 from its first rows on, and has no level to fall from.
        local first_rows = loss:slice(0, tenth)
        local about_zero = first_rows:min("value") < 0 and first_rows:max("value") > 0
        -- A loss thrown off by its first update swings over orders of magnitude, which is more noise than any level.
        -- But the first of n equal rows is the least of them once in n runs.
        local term = term_falls(run_name, loss)
        local thrown = not moving and not term and rows >= 30 and loss:first().value > 0
          and loss:where("value > ?", 1.3 * loss:first().value):count() >= opt.swung * (rows - 1)
        -- Few rows that climb to a level and stay there have steps that look like noise: all lie far above the first.
        local first = loss:first().value
        local some  = math.min(0.1, 0.1 * math.abs(start))
        local rises = finish - start > math.max(some, 4 * noise)
        -- However much rows differ, as of few labels a batch, all of them together show a trend.
        local trend = not rises and start > 0 and not about_zero and finish - start > some
          and (statistics.trend(loss:col("value"):values()) or 0) >= opt.trend
        local climbed = rows < 30 and not moving and not term and first >= opt.nothing and finish >= opt.few_up * first
          and loss:slice(1, rows):min("value") > 1.3 * first and finish >= opt.held * loss:max("value")
        -- One that has an upper bound cannot go far: nearly all rows lie a tenth above the first one, to the end.
        local bound = not (finish > 1.3 * start and (rises or trend)) and not moving and not term
          and loss:first().step <= 1 and first > 0 and finish >= 1.15 * first
          and finish - first > 4 * noise and finish >= opt.held * loss:max("value") and loss:min("value") >= first
          and loss:where("value > ?", 1.1 * first):count() >= 0.9 * (rows - 1)
        if thrown or climbed or bound then early, start = true, first end
        -- Of few rows that end far above the first a level of five may be past what they gained.
        if rows < 30 and not early and finish > 1.5 * first and fall <= math.max(0.05 * start, 4 * noise) then
          best  = loss:with { level = loss:col("value"):rolling(3, "median") }:sort("level"):first()
          start = first
          fall  = start - best.level
        end
        -- One that is below 0 from the start sinks on at the same pace in the second half, far below what it began at.
        local middle = loss:slice(math.max(0, rows // 2 - tenth // 2), tenth):median("value")
        local sinks  = rows >= 30 and finish < -opt.sinks * scale and middle - finish >= 0.7 * (start - middle)
          and start < 0
        if sinks and not deep and not pulled and not what then
          report {
            symptom  = "loss-falls-without-bound",
            score    = 0.85,
            at       = { step = loss:first().step },
            message  = ("the loss goes from %.4g to %.4g by the middle and to %.4g at the end, nearly as fast as at "
              .. "first: it has no lower bound, so that some term of it enters with the wrong sign"):format(start,
              middle, finish),
            evidence = { loss:first(), loss:last() },
          }
        elseif deep and start > 0 and not pulled and finish < -opt.below * scale then
          local under = loss:where("value < 0"):first()
          report {
            symptom  = "loss-falls-without-bound",
            score    = 0.95,
            at       = { step = under.step },
            message  = ("the loss is %.4g at step %d, below 0 from step %d on and %.3g at step %d: it has no lower "
              .. "bound, so that some term of it enters with the wrong sign"):format(loss:first().value,
              loss:first().step, under.step, loss:min("value"), loss:sort("value"):first().step),
            evidence = { loss:first(), under, loss:last() },
          }
        elseif finish > start and runs.maximised(loss) then raised = runs.maximised(loss)
        elseif start < 0 and finish <= start then below = true
        elseif thrown and loss:max("value") >= opt.far * start and finish <= 0.5 * loss:max("value")
          and loss:top(1, "value"):first().step <= loss:row(rows // 2).step then
          local peak = loss:top(1, "value"):first()
          if not begins_high(run_name, loss) then
            skip(("a first loss that is known for that of a fresh model, or first updates that could throw it: it may "
              .. "begin near nothing, %.3g, by design"):format(start), "loss-thrown-at-start", "loss-rises-from-start",
              "loss-rises-at-small-updates", "loss-rises-beyond-gradient")
          else
            report {
              symptom  = "loss-thrown-at-start",
              score    = 0.9,
              at       = { step = loss:first().step },
              message  = ("the loss is thrown from %.4g at step %d to %.4g at step %d; it comes down since, to %.4g, "
                .. "and is not back"):format(start, loss:first().step, peak.value, peak.step, finish),
              evidence = { loss:first(), peak, loss:last() },
            }
          end
        elseif not moving and never_back(loss, finish) and begins_high(run_name, loss) then
          local peak = never_back(loss, finish)
          report {
            symptom  = "loss-thrown-at-start",
            score    = 0.7,
            at       = { step = loss:first().step },
            message  = ("the loss is thrown from %.4g at step %d to %.4g at step %d, and comes back to %.4g: it was "
              .. "never lower than before the first update"):format(loss:first().value, loss:first().step, peak.value,
              peak.step, finish),
            evidence = { loss:first(), peak, loss:last() },
          }
        elseif worse_than_nothing(run_name, loss) then
          local size = targets.classes(case)
          local late = loss:slice(rows // 2, rows)
          report {
            symptom  = "loss-thrown-at-start",
            score    = 0.9,
            at       = { step = loss:first().step },
            message  = ("the loss is %.4g at step %d, the first one that is logged, and from %.4g to %.4g in the later "
              .. "half, where knowing nothing is ln %d = %.4g; classes are told no better than by chance"):format(
              loss:first().value, loss:first().step, late:quantile("value", 0.1), late:quantile("value", 0.9),
              math.floor(size.number), math.log(size.number)),
            evidence = { loss:first(), loss:last(), size },
          }
        elseif early and not moving and term and finish > start * 1.3 then
          skip(("a loss whose terms weigh the same throughout: %s falls while the whole goes up"):format(term),
            "loss-rises-from-start", "loss-rises-at-small-updates", "loss-rises-beyond-gradient")
        elseif early and not moving and finish > start * 1.3 and sharpened(finish) then
          skip(("a loss against a target that stays: by %s a teacher sharpens, up to the loss of a student that knows "
            .. "nothing"):format(sharpened(finish).key), "loss-rises-from-start", "loss-rises-at-small-updates",
            "loss-rises-beyond-gradient")
        elseif early and not moving and (bound or finish > start * 1.3
          and (thrown or climbed or rises or trend)) then
          -- What is maximised goes on rising, up to a bound where there is one; a loss that was thrown up stays there.
          local level = not bound and levels_off(loss, start)
          report {
            symptom  = "loss-rises-from-start",
            score    = level and 0.6 or (rises or thrown) and 0.95 or 0.8,
            at       = { step = loss:first().step },
            message  = ("loss rises from the start: %.4g at step %d, %.4g at step %d, and it was never lower than at "
              .. "step %d%s"):format(loss:first().value, loss:first().step, finish, loss:last().step, best.step,
              level and "; over the later three quarters it rises no further" or ""),
            evidence = { loss:first(), loss:last() },
          }
          local largest, swings = climbs(run_name, loss, start)
          local bounded
          if not largest and case.scalars:where { metric = "update_ratio", run = run_name }:count() == 0 then
            largest = bound_of_adam(run_name)
            bounded = largest
          end
          local left = left_of_weights(run_name)
          if left and left < opt.left then
            largest = nil
            skip(("weights that stay as long: of them %s is left, so that their gradient is not what moves them")
              :format(units.percent(left)), "loss-rises-at-small-updates")
          elseif not largest then
            skip("update ratios from the start on", "loss-rises-at-small-updates")
          elseif (moved_in_all(run_name, loss) or 1) < opt.still then
            largest = nil
            skip("weights that move: by so little no loss goes up", "loss-rises-at-small-updates")
          end
          local beyond, told = unpaid(run_name, loss, tenth, finish)
          if beyond then
            report {
              symptom  = "loss-rises-beyond-gradient",
              score    = 0.95,
              at       = { step = beyond.from },
              message  = ("the loss rises by %.3g from step %d on, and gradients times updates of all layers can move "
                .. "it by %.2g: it is not the gradient of this loss that is followed"):format(beyond.rise, beyond.from,
                beyond.budget),
              evidence = { beyond.first, loss:last() },
            }
            skip("a loss that its own gradient moves", "loss-rises-at-small-updates")
          elseif not told then
            skip("gradient norms before clipping, of all layers, with their update ratios and weight norms",
              "loss-rises-beyond-gradient")
          end
          if not beyond and largest and largest <= opt.small and not swings then
            report {
              symptom  = "loss-rises-at-small-updates",
              score    = bounded and 0.8 or 0.95,
              at       = { step = loss:first().step },
              message  = ("the loss rises steadily from %.4g to %.4g while updates are %s of the weights: "
                .. "steps so short go down where they follow the gradient"):format(start, finish,
                bounded and ("at most about %.1g (the rate times the root of the widest layer)"):format(bounded)
                or ("below %.2g"):format(opt.small)),
              evidence = { loss:slice(0, 3), loss:last() },
            }
          end
        elseif not early and start > 0 and not moving and not about_zero
          and (fell or fall > math.max(0.05 * start, 4 * noise)) and finish - best.level >= opt.lost * fall then
          local peak = loss:where("step >= ?", best.step):top(1, "value"):first()
          report {
            symptom  = "loss-diverges",
            score    = math.min(0.98, 0.6 + 0.3 * (finish - best.level) / fall),
            at       = { step = best.step },
            message  = ("loss falls to %.4g by step %d, then climbs to %.4g at step %d and ends at %.4g: %s of the "
              .. "gain is lost")
              :format(best.level, best.step, peak.value, peak.step, finish,
                units.percent(math.min(1, (finish - best.level) / fall))),
            evidence = { best, peak, loss:last() },
          }
          local rates = case.scalars:where { name = "lr", primary = true }:sort("step"):where("value > 0")
          local now   = rates:where("step <= ?", best.step):last()
          local later = rates:where("step > ?", best.step):slice(0, 10)
          if not now or later:count() == 0 then
            skip("the learning rate where the loss turns", "diverges-while-lr-rises")
          end
          if now and later:count() > 0 and later:max("value") > 1.05 * now.value then
            report {
              symptom  = "diverges-while-lr-rises",
              score    = 0.9,
              at       = { step = best.step },
              message  = ("the loss turns at step %d while the learning rate still rises, %.3g there and %.3g at step "
                .. "%d"):format(best.step,
                now.value, later:last().value, later:last().step),
              evidence = { now, later },
            }
          end
        end
      end
    end
    if what and not pulled then
      skip(("a loss of one and the same task: %s makes it another one on the way"):format(what),
        "loss-rises-from-start", "loss-rises-at-small-updates", "loss-rises-beyond-gradient", "loss-thrown-at-start",
        "loss-diverges", "diverges-while-lr-rises")
    elseif moving then
      skip(("a loss against a target that stays: %s"):format(pulled
        and "returns, rewards or the loss of an adversary are beside it"
        or tostring(follower) .. " moves without a gradient, as a network that follows the one that learns"),
        "loss-rises-from-start", "loss-rises-at-small-updates", "loss-rises-beyond-gradient", "loss-thrown-at-start",
        "loss-diverges", "diverges-while-lr-rises", "loss-falls-without-bound")
    elseif below then
      skip("a loss that is a cost: it is below 0 from the first rows on, and what a flipped term does to it is open",
        "loss-rises-from-start", "loss-rises-at-small-updates")
    end
    if raised then
      skip(("a loss: %s is above 0 in no row, and training is to raise it"):format(tostring(raised.raw_name)),
        "loss-rises-from-start", "loss-rises-at-small-updates", "loss-rises-beyond-gradient", "loss-diverges",
        "diverges-while-lr-rises")
    end
    if not judged then skip(("at least %d logged losses"):format(opt.min_rows)) end
  end,
}
