--- ## What it detects
--- A logged learning rate that is exactly zero over many steps, or that changes by a large factor from one row to the
--- next; and a level of the loss or the gradient norm that changes where the rate or its slope does.
---
--- ## Why it matters
--- A scheduler that divides integers, steps once per process or has too short a period turns training off in silence.
--- What changes together with the rate is the rate's doing, and not the batch's or the hardware's.
---
--- ## How to confirm
--- Plot the schedule without the model: call `scheduler.step()` for the planned number of steps and print the rate.
---
--- ## Known false positives
--- Schedules that end at zero have one such row at the end, and warm-ups may start with one; a zero tail of more
--- than a tenth of the run is reported even when intended, as information if it is no more than a fifth and the
--- rate had come down to a tenth of its peak before. Where weights move at a logged rate of zero it is not the one
--- of the updates, and nothing is said; nor where another logged rate is not 0 then, or the loss falls by a tenth
--- at rates of 0 alone, which standing weights cannot bring about: "0.0000" is what few digits leave of a small
--- one. A rate that a setting for averaged weights (swa_lr) names is planned. A fall from a level that was kept is
--- a milestone and not reported; one from a rate that moved is information, since schedules do that too. Warm
--- restarts and cycles are silent where the config names them, or layers that are released later on, or they come
--- after as many steps each time, unless they go beyond every peak before; one cycle rises once and is no such. A
--- schedule that is stepped once an epoch warms up in steps too: the first rise to the rate that the config sets,
--- which the run never goes beyond, is planned.
---
--- ## References
--- https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")

--- Whether a rate is at one and the same height at three places or more, each as far from the one before and lower in
--- between: a schedule says so, and no accident.
local function returns_evenly(moves, rise)
  local top = moves:max("value")
  local places = {}
  for row in moves:where("change is null or change > ?", math.log(rise)):slice(0, 1000):rows() do
    if row.value >= 0.98 * top then
      places[#places + 1] = row.step
    elseif row.change then
      return false
    end
  end
  if #places < 3 then return false end
  local apart = places[2] - places[1]
  for i = 3, #places do
    if math.abs(places[i] - places[i - 1] - apart) > 0.1 * apart then return false end
  end
  return true
end

--- Whether a rate goes through what it did before once more, by a part of its height: three rows and more from a rise
--- on are each the same part of those from the first one on, as of a restart whose weight is set. What begins again by
--- accident begins as high.
---@param moves culprit.Table  step, value
---@param row culprit.Row      the rise
local function returns_lower(moves, row)
  local before, after = moves:where("step < ?", row.step), moves:where("step >= ?", row.step)
  local count = math.min(before:count(), after:count())
  if count < 3 or after:count() > before:count() then return false end
  local first = before:slice(0, count)
  if first:min("value") > 0.8 * first:max("value") then return false end -- a constant is alike anywhere
  local part
  for i = 0, math.min(count, 200) - 1 do
    local now = after:row(i).value / before:row(i).value
    part = part or now
    if part > 0.95 or math.abs(now / part - 1) > 0.02 then return false end
  end
  return true
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The learning rate is zero for long, or jumps",
  needs    = { scalars = { "step", "value", metric = "lr" } },
  symptoms = { "lr-zero", "lr-jump", "loss-moves-with-lr" },
  options  = {
    zero_share = { default = 0.10, doc = "Share of rows at zero worth reporting" },
    factor     = { default = 5.0,  doc = "Fall between two rows that is a jump" },
    rise       = { default = 1.5,  doc = "Rise between two rows that is a jump: after its warm-up no rate rises" },
    warmup     = { default = 0.05, doc = "Part of the run at its start in which jumps are normal" },
    sigmas     = { default = 6.0,  doc = "Deviations of its noise by which a level has moved" },
    moved      = { default = 0.05, doc = "Least change of a level, as a share of it" },
  },

  run = function(case)
    local opt = case.options
    local named_cyclic = case.config:where("match(key, '*sched*|*decay_style*') and "
      .. "match(value, '*restart*|*cycl*|*sgdr*|*Restart*|*Cycl*') and not match(value, '*one*cycl*|*One*Cycl*|"
      .. "*1cycl*')"):count() > 0
    named_cyclic = named_cyclic or settings.cyclic_ends(case)
    -- A head that is trained alone and a whole that follows have a schedule each.
    if settings.on(case.config:where("match(key, '*freeze_epochs*|*unfreez*|*frozen_epochs*')")):count() > 0 then
      named_cyclic = true
    end
    local planned = settings.planned_rate(case)

    local averaged = case.config:where("match(key, '*swa_lr*') and number > 0"):max("number") or 0

    local cyclic, calm_rows, alone = named_cyclic, false, false
    --- The change of level of a metric between the rows before a step and those from it on, eight or `width` on either
    --- side, where it is more than noise.
    local function moved(run_name, metric, step, width)
      width = width or 8
      local rows   = runs.series(case, metric, run_name)
      local before = rows:where("step < ?", step)
      local after  = rows:where("step >= ?", step):slice(0, width)
      before = before:slice(math.max(0, before:count() - width), width)
      if before:count() < 0.6 * width or after:count() < 0.6 * width then return nil end
      local near  = rows:where("step < ?", step):slice(math.max(0, rows:where("step < ?", step):count() - 64), 64)
      local noise = (near:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      local was, now = before:median("value"), after:median("value")
      -- The median of n has 1.25 / sqrt(n) of the noise, a difference of two of them 1.77 / sqrt(n) of it.
      if math.abs(now - was) <= opt.sigmas * 1.77 / math.sqrt(width) * noise
        or math.abs(now - was) <= opt.moved * math.abs(was) then
        return nil
      end
      -- A level that moved as fast before goes on and does not answer to the rate.
      local earlier = near:slice(math.max(0, near:count() - 2 * width), width)
      if earlier:count() == width and math.abs(now - was) < 3 * math.abs(was - earlier:median("value"))
        and (now - was) * (was - earlier:median("value")) > 0 then
        return nil
      end
      return { was = was, now = now, rows = after }
    end

    --- A hop right after a jump of the rate that the level forgets, since the loss was falling and falls again: two of
    --- the first three losses after it are above all of the last three before.
    local function hopped(run_name, step)
      local rows   = runs.series(case, "loss", run_name)
      local before, after = rows:where("step < ?", step), rows:where("step >= ?", step):slice(0, 3)
      if before:count() < 8 or after:count() < 3 then return nil end
      local near  = before:slice(math.max(0, before:count() - 64), 64)
      local noise = (near:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      local last  = before:slice(before:count() - 3, 3)
      local over  = after:where("value > ?", last:max("value") + 3 * noise)
      local was, now = last:last().value, after:max("value")
      if over:count() < 2 or now - was <= math.max(opt.sigmas * noise, opt.moved * math.abs(was)) then return nil end
      return { was = was, now = now, rows = after }
    end

    --- What says that a run learns while its logged rate is 0: another rate that is not, or a loss that falls by a
    --- tenth, and by more than its noise, from the first zero on, with none but zeros between; nil where nothing does.
    local function learns_at_zero(run_name, zeros)
      local first, last = zeros:first().step, zeros:last().step
      local other = case.scalars:where { run = run_name }:where("match(name, '*lr*|*learning_rate*') and name != 'lr' "
        .. "and value > 0 and step >= ? and step <= ?", first, last)
      if other:distinct("step"):count() >= 0.9 * zeros:count() then
        return ("%s is %.3g where lr is 0"):format(other:first().name, other:first().value)
      end
      local rates = runs.series(case, "lr", run_name):where("step >= ? and step <= ?", first, last)
      local loss  = runs.series(case, "loss", run_name):where("step > ? and step <= ?", first, last)
      local some  = loss:count() // 5
      if rates:count() > zeros:count() or some < 3 or loss:min("value") <= 0 then return nil end
      local was, is = loss:slice(0, some):median("value"), loss:slice(loss:count() - some, some):median("value")
      local noise = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      if was - is <= math.max(0.1 * was, opt.sigmas * 1.77 / math.sqrt(some) * noise) then return nil end
      return ("the loss falls from %.4g to %.4g at rates of 0"):format(was, is)
    end

    for run_name, run in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rate  = run:sort("step"):where("finite(value)")
      cyclic = named_cyclic or settings.cycles(case, rate)
      local zeros = rate:where("value == 0")
      -- Weights that move at a rate of zero are moved at another: of a second group of parameters, or one that the
      -- optimizer finds by itself. No update is longer than zero by decoupled decay either.
      local updates = case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
        :where("finite(value)"):join(zeros:select("step"), { "step" })
      local moving  = updates:where("value > 0"):distinct("step"):count()
      local no_rate = zeros:count() > 0 and (moving >= 2 and moving >= 0.5 * updates:distinct("step"):count()
        or optimizers.own_rate(case, rate) and rate:max("value") == 0)
      -- Nor do weights that stand still learn: a loss that goes on falling is moved at another rate than the logged
      -- one, which is rounded to nothing or that of one group of parameters.
      local elsewhere = zeros:count() > 0 and learns_at_zero(run_name, zeros)
      if elsewhere and not no_rate then
        skip(("the rate that updates are made with: %s"):format(elsewhere), "lr-zero")
      elseif no_rate then
        skip("the rate that updates are made with: weights move where the logged one is 0", "lr-zero")
      elseif zeros:count() >= 3 and zeros:count() >= opt.zero_share * rate:count() then
        local first = zeros:first()
        local good  = rate:where("step < ? and value > 0", first.step):last()
        -- A schedule that has come down to a tenth of its peak may end so, for the last fifth.
        local ended = good and good.value <= 0.1 * rate:max("value") and rate:last().value == 0
          and rate:where("step >= ?", first.step):count() == zeros:count() and zeros:count() <= 0.2 * rate:count()
        report {
          symptom  = "lr-zero",
          score    = ended and 0.3 or 0.98,
          severity = ended and "info" or "error",
          at       = { step = first.step },
          message  = ("learning rate is exactly 0 in %d of %d rows, from step %d on; %s"):format(zeros:count(),
            rate:count(), first.step,
            good and ("it was %.3g at step %d"):format(good.value, good.step) or "it never was anything else"),
          evidence = { first, good or first },
        }
      end

      -- Of few rows, far apart, the warm-up is one or two.
      local skipped = math.max(rate:count() < 40 and 2 or 5, math.floor(opt.warmup * rate:count()))
      local calm = rate:slice(skipped, rate:count()):where("value > 0")
      calm_rows = calm_rows or calm:count() >= 3
      if calm:count() >= 3 then
        local moves = rate:where("value > 0")
        moves = moves:with { change = moves:col("value"):log():diff() }
        local from = calm:first().step
        -- When the row of a step was written, in a log that began again and has steps twice.
        local written, lines = {}, 0
        local twice = case.scalars:where { name = "lr", primary = false, run = run_name }:count() > 0
        if twice then
          for row in case.scalars:where { name = "lr", primary = true, run = run_name }:slice(0, 10000):rows() do
            lines = lines + 1
            written[row.step] = lines
          end
        end
        --- Whether a log that began again had come to a row when it was written, and not to the one before it.
        local function is_seam(earlier, row)
          return twice and earlier and (written[earlier.step] or 0) > (written[row.step] or lines)
        end
        if returns_evenly(moves, opt.rise) then cyclic = true end
        local function is_planned(row)
          local before  = moves:where("step < ?", row.step)
          local earlier = before:last()
          if row.value <= 1.1 * averaged or returns_lower(moves, row) then return true end
          -- What a log that began again has not come to is of before.
          if is_seam(earlier, row) then return true end
          -- A warm-up has not come down yet. Of rates that are smoothed as they are logged it lags, by less than half.
          local falls  = before:where("change < ?", -0.001):count() > 0
          local rises  = before:where("change > 0.001")
          local recent = rises:last()
          if not falls and row.change < math.log(2) and recent and earlier.value >= 1.5 * before:first().value then
            -- And is on its way: the last rise is not much further back than that from the one before it.
            local other = rises:where("step < ?", recent.step):last() or before:first()
            if row.step - recent.step <= 2 * (recent.step - other.step) then return true end
          end
          -- Cycles come back to their peak, and never go beyond it.
          if cyclic and row.value <= 1.1 * math.max(before:max("value") or 0, planned or 0) then return true end
          -- A warm-up that is still going on rises too, by less and less; a jump is more than the rows before it rose.
          -- Rows need not be as far apart each time, so it is the rise per step, over at least half as many steps.
          local apart = earlier and row.step - earlier.step
          local base  = earlier and (before:where("step <= ?", earlier.step - 0.5 * apart):last() or before:first())
          if base and base.step < earlier.step
            and math.log(earlier.value / base.value) / (earlier.step - base.step) > 0.5 * row.change / apart then
            return true
          end
          -- A warm-up that is stepped by epochs: to the rate that is set, for the first time, and never beyond it. What
          -- has fallen before is in none.
          return planned and rate:first().step <= 0.1 * rate:last().step and rate:max("value") <= 1.02 * planned
            and before:max("value") < 0.9 * row.value and earlier and earlier.value >= 0.98 * before:max("value")
        end
        local jump
        for row in moves:where("step > ? and change > ?", from, math.log(opt.rise)):slice(0, 50):rows() do
          if not jump and not is_planned(row) then jump = row end
        end
        if not jump and not cyclic then
          -- A fall from a level that the rate had kept is a milestone of its schedule, however deep.
          for row in moves:where("step > ? and change < ?", from, -math.log(opt.factor)):slice(0, 50):rows() do
            local before = moves:where("step < ?", row.step)
            local kept = before:count() >= 3 and before:slice(before:count() - 3, 3)
            if not jump and not is_seam(before:last(), row)
              and not (kept and kept:max("value") <= 1.001 * kept:min("value")) then
              jump = row
            end
          end
        end
        -- A schedule that runs out loses more and more of its rate at the end; that is no jump.
        if jump and (jump.change > 0
          or jump.step < calm:last().step - 0.05 * (calm:last().step - calm:first().step)) then
          report {
            symptom  = "lr-jump",
            score    = jump.change > 0 and 0.95 or 0.3, -- schedules in steps go down by design
            severity = jump.change > 0 and "warning" or "info",
            at       = { step = jump.step },
            message  = ("learning rate changes by a factor of %.3g at step %d, to %.3g"):format(math.exp(jump.change),
              jump.step, jump.value),
            evidence = { jump, calm:around(jump, 2) },
          }
        end

        -- What moves with it: at a jump, and where a warm-up ends or a decay begins.
        local places = {}
        if jump then
          places[1] = { step = jump.step, what = ("jumps by a factor of %.3g"):format(math.exp(jump.change)) }
        end
        local peak = rate:max("value")
        local top  = rate:where("value >= ?", 0.999 * peak):first()
        if top and rate:first().value < 0.5 * peak and top.step > rate:first().step then
          places[#places + 1] = { step = top.step, what = "ends its warm-up" }
        end
        alone = alone or #places > 0 and runs.series(case, "loss", run_name):count() < 10
        for _, place in ipairs(places) do
          local loss = moved(run_name, "loss", place.step + 1) -- the first loss after an update at the new rate
          if not (loss and loss.now > loss.was) and jump and place.step == jump.step and jump.change > 0 then
            -- A level that moves by little shows over more rows.
            loss = hopped(run_name, place.step + 1) or moved(run_name, "loss", place.step + 1, 24) or loss
          end
          local norm = moved(run_name, "grad_norm", place.step + 1)
          if loss and loss.now > loss.was then
            report {
              symptom  = "loss-moves-with-lr",
              -- A loss below 0 has no ratio.
              score    = math.min(0.95, 0.7 + 0.5 * (loss.now - loss.was) / math.max(math.abs(loss.was), 1e-9)),
              at       = { step = place.step },
              message  = ("the learning rate %s at step %d, and the loss goes from %.4g to %.4g within %d rows%s")
                :format(place.what, place.step, loss.was, loss.now, loss.rows:count(),
                  norm and (", the gradient norm from %.4g to %.4g"):format(norm.was, norm.now) or ""),
              evidence = { loss.rows:slice(0, 5) },
            }
            break
          end
        end
      end
    end
    if cyclic then
      skip("a schedule that does not jump by design", "lr-jump", "loss-moves-with-lr")
    elseif not calm_rows then
      skip("three learning rates after the warm-up", "lr-jump", "loss-moves-with-lr")
    elseif alone then
      skip("ten losses around the change of the learning rate", "loss-moves-with-lr")
    end
  end,
}
