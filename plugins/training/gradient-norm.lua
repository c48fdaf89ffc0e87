--- ## What it detects
--- The global gradient norm: a jump, by how many steps it came before one of the loss, a rise by an order of magnitude
--- and when it would overflow, zeros, NaN or Inf. And one that hardly moves from row to row while the loss does.
---
--- ## Why it matters
--- It leads the loss by a few steps. A jump with a spike of the loss points at a batch, a slow rise at growing
--- activations or step size, and exact zeros at a loss that is cut off from the parameters.
---
--- What a batch's loss has too much its gradient has as well, and more of it: over batches the gradient is the noisier
--- of the two. A norm that moves by a twentieth of what the loss does is not that of the batch; old gradients make most
--- of it, as they do where a buffer is never cleared.
---
--- ## How to confirm
--- Log the norm per layer: the first one to rise, or the last one that is not zero, names the place.
---
--- ## Known false positives
--- Norms logged after clipping are flat by construction, and those of private training are its noise's: one that drifts
--- by less than a third over the run is not called smooth. Accumulated batches make a norm smoother by the root of
--- their number, which is allowed for where the config has it. Where a fifth of the norms are the largest one they are
--- held there, and nothing is said of their noise. Where the config has a curriculum or a growth of lengths no jump is
--- reported as long as half of the trailing window is of the task before: up to the steps that it names, or anywhere
--- where it names none, nor at the step at which it lets a part of the training begin.
---
--- ## References
--- nanoGPT does not log it at all; Hugging Face's Trainer does since 4.38.

local breaks = require("breaks")
local runs = require("runs")
local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The gradient norm jumps, grows, vanishes or breaks",
  needs    = { scalars = { "step", "value", metric = "grad_norm" } },
  symptoms = { "grad-norm-spike", "grad-norm-leads-loss", "grad-norm-rising", "grad-norm-zero", "grad-norm-nonfinite",
    "grad-norm-smoother-than-loss" },
  options  = {
    window   = { default = 64,   doc = "Rows in the trailing window" },
    sigmas   = { default = 8.0,  doc = "Robust deviations that count as a jump" },
    factor   = { default = 3.0,  doc = "Least factor over the trailing median for a jump" },
    growth   = { default = 10.0, doc = "Factor over the run that counts as a rise" },
    lead     = { default = 5,    doc = "Rows before a jump of the loss in which a jump of the norm announces it" },
    zero     = { default = 1e-12, doc = "A norm at or below this is zero" },
    smooth   = { default = 0.05, doc = "Noise of the norm over that of the loss, both of logarithms, of no one batch" },
    drift    = { default = 1.3,  doc = "Largest over smallest norm below which clipping or design may hold it" },
    min_rows = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt = case.options

    --- Noise of the logarithms of norm and loss from row to row, in the last two thirds, and the rows; nil where they
    --- are too few.
    local function noises(norm, loss)
      local both = norm:where("finite(value) and value > 0"):distinct("step"):select("step", "value")
        :join(loss:where("finite(value)"):distinct("step"):select("step", "value"), { "step" }):sort("step")
      both = both:slice(both:count() // 3, both:count())
      if both:count() < 8 or both:min("value_right") <= 0 then return nil end
      local function noise(column) return (both:col(column):log():diff():robust_std() or 0) / math.sqrt(2) end
      return noise("value"), noise("value_right"), both
    end

    -- Each row's norm may be that of many batches, and its loss that of the last one.
    local pieces = settings.accumulation(case):max("number") or 1
    local all = case.scalars:where { name = "grad_norm", primary = true }
    if all:count() == 0 then return skip("the global gradient norm") end
    local harder
    local jumps_judged, trend_judged, alone, smooth_alone = false, false, false, false
    for _, run in all:group("run") do
      local norm   = run:sort("step")
      local broken = norm:where("value is not null and not finite(value)")
      -- A loss scaler begins high and searches downwards: the first norms overflow by design, and their steps are
      -- skipped.
      local scaled = case.scalars:where { metric = "loss_scale", run = run:first().run }:count() > 0
      local calm = norm:where("finite(value)"):last()
      if scaled and calm then broken = broken:where("step >= ? or step > ?", norm:first().step + 10, calm.step) end
      -- The gradient of a loss that is no number is none either, and all norms behind it.
      local cause = broken:count() > 0 and breaks.before(case, norm:first().run, broken:first().step)
      if cause then
        skip(("a norm before the loss becomes %s, at step %d"):format(units.number(cause.value), cause.step),
          "grad-norm-nonfinite")
        broken = broken:slice(0, 0)
      end
      if broken:count() > 0 then
        local first = broken:first()
        report {
          symptom  = "grad-norm-nonfinite",
          score    = 0.97,
          severity = "error",
          at       = { step = first.step },
          message  = ("gradient norm is %s from step %d on, %d of %d logged values"):format(units.number(first.value),
            first.step,
            broken:count(), norm:count()),
          evidence = { first },
        }
      end

      local good  = norm:where("finite(value)")
      local zeros = good:where("value <= ?", opt.zero)
      if zeros:count() >= math.max(3, 0.1 * good:count()) then
        report {
          symptom  = "grad-norm-zero",
          score    = 0.95,
          at       = { step = zeros:first().step },
          message  = ("gradient norm is zero in %d of %d logged values, first at step %d"):format(zeros:count(),
            good:count(),
            zeros:first().step),
          evidence = { zeros:slice(0, 5) },
        }
      end

      local steady, swing, both = noises(norm, runs.series(case, "loss", run:first().run))
      -- One norm again and again is a threshold's, of a norm that was logged after clipping.
      local held = both and both:where("value > ?", both:max("value") * (1 - 2e-4)):count() >= 0.2 * both:count()
      if not both then
        smooth_alone = true
      elseif held then
        skip("norms before clipping: many of these are the largest", "grad-norm-smoother-than-loss")
      elseif swing >= 0.01 and steady <= math.min(opt.smooth, opt.smooth * swing / math.sqrt(math.max(1, pieces)))
        and good:max("value") >= opt.drift * good:min("value") then
        report {
          symptom  = "grad-norm-smoother-than-loss",
          score    = 0.9,
          at       = { step = both:first().step },
          message  = ("from step %d on the gradient norm moves by %.2g %% from row to row, about %.4g, and the loss by "
            .. "%.2g %%: it is not the gradient of these batches alone"):format(both:first().step, 100 * steady,
            both:median("value"), 100 * swing),
          evidence = { both:slice(0, 5) },
        }
      end

      jumps_judged = jumps_judged or good:count() > 8 -- a deviation needs eight values before it
      local hot = good:with { z = good:col("value"):robust_z(opt.window),
        usual = good:col("value"):rolling(opt.window, "median") }
        :where("z > ? and value > usual * ?", opt.sigmas, opt.factor)
      local spike = hot:top(1, "z"):first()
      local stage = spike and settings.stage_before(case, good, spike, opt.window)
      if stage then
        harder = ("the gradient of one task: at step %d, where its norm jumps, %s makes it another one"):format(
          spike.step, stage.key)
      elseif spike then
        report {
          symptom  = "grad-norm-spike",
          score    = math.min(0.99, 1 - 0.5 * opt.sigmas / spike.z),
          at       = { step = spike.step },
          message  = ("gradient norm jumps to %.4g at step %d from a trailing median of %.4g")
            :format(spike.value, spike.step, spike.usual),
          evidence = { spike, good:around(spike, 4) },
        }
        -- The earliest jump of the norm within some rows before the first jump of the loss.
        local loss = runs.series(case, "loss", spike.run)
        alone = alone or loss:count() <= 8
        local jumps = loss:with { z = loss:col("value"):robust_z(opt.window),
          usual = loss:col("value"):rolling(opt.window, "median") }:where("z > ? and value > usual * 1.1", opt.sigmas)
        for jump in jumps:slice(0, 100):rows() do
          local since = loss:where("step < ?", jump.step)
          local from  = since:slice(math.max(0, since:count() - opt.lead), opt.lead):first()
          local ahead = from and hot:where("step >= ? and step < ?", from.step, jump.step):first()
          if ahead then
            report {
              symptom  = "grad-norm-leads-loss",
              score    = 0.8,
              severity = "info",
              at       = { step = ahead.step },
              message  = ("the gradient norm jumps %d step%s before the loss: to %.4g at step %d, the loss to %.4g at "
                .. "step %d"):format(jump.step - ahead.step, jump.step - ahead.step == 1 and "" or "s", ahead.value,
                ahead.step, jump.value, jump.step),
              evidence = { ahead, jump },
            }
            break
          end
        end
      end

      local rows = good:count()
      if rows >= opt.min_rows then
        trend_judged = true
        local tenth, rises, last = rows // 10, 0, nil
        local low, finish
        for part = 0, 9 do
          local level = good:slice(part * tenth, tenth):median("value")
          if last and level > last then rises = rises + 1 end
          low, last, finish = math.min(low or level, level), level, level
        end
        if low > 0 and finish / low >= opt.growth and rises >= 6 then
          -- Extrapolated: at the pace of the last half, when does it pass the largest fp32 (and bf16) number?
          local half = good:slice(rows // 2, rows):where("value > 0")
          local pace = half:col("value"):log():slope(half:col("step"))
          local left = pace and pace > 0 and (math.log(3.4e38) - math.log(finish)) / pace
          report {
            symptom  = "grad-norm-rising",
            score    = 0.85,
            at       = { step = good:last().step },
            message  = ("gradient norm grows from %.4g to %.4g over steps %d to %d, in %d of 9 tenths of the run%s")
              :format(low, finish, good:first().step, good:last().step, rises,
                left and left < 20 * (good:last().step - good:first().step)
                  and ("; at the pace of its last half it overflows fp32 in %.0f steps"):format(left) or ""),
            evidence = { good:first(), good:last() },
          }
        end
      end
    end
    if harder then skip(harder, "grad-norm-spike", "grad-norm-leads-loss") end
    if not jumps_judged then skip("at least 9 logged gradient norms", "grad-norm-spike", "grad-norm-leads-loss") end
    if not trend_judged then skip(("at least %d logged gradient norms"):format(opt.min_rows), "grad-norm-rising") end
    if smooth_alone then skip("eight losses above 0 beside the gradient norm", "grad-norm-smoother-than-loss") end
    if alone then skip("the loss of 9 steps beside the gradient norm", "grad-norm-leads-loss") end
  end,
}
