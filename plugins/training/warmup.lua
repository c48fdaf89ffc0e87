--- ## What it detects
--- A learning rate that is at its full value from the first step on, a loss that jumps above its first value within the
--- first steps and comes back (looked for where every step or so is logged), and updates that are large in the first
--- steps only.
---
--- ## Why it matters
--- Adam's second moments are empty at first, so that its update is the full rate in every coordinate. A few such steps
--- write noise into all weights, which the rest of the run has to undo.
---
--- ## How to confirm
--- Run the first 200 steps with a warm-up of 100: the jump is gone, and the loss at step 200 is lower.
---
--- ## Known false positives
--- A loss whose later rows come as high again, when it has been back, differs so from row to row and has no bump;
--- nor has one whose rows next behind the top differ by a fifth of its height, as multiples of each other, or one
--- that is a single row. A full rate at once is a setting and no fault while the rate is small; it is
--- information, unless the config asks for a warm-up. Rows of epochs begin behind one that is counted in epochs, or
--- as a part of the run. Plain descent, with momentum or without, and Adagrad have
--- no second moments that forget: they start at their full rate as a rule, and nothing is said of it; nor of
--- L-BFGS, which searches its step, nor of Muon, whose steps have a length of their own, nor of a network without
--- attention whose config does not speak of a warm-up. An optimizer that warms up within (schedule-free, Prodigy,
--- Adafactor with relative steps) logs a rate that is constant: no logged rate tells of its warm-up. The first
--- updates of Adagrad and RMSprop are long by design; so are those by which weights are projected, pruned or tied. A
--- rate far too high jumps in the same way behind a warm-up that is too short.
---
--- ## References
--- https://arxiv.org/abs/1908.03265

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local update_ratios = require("update-ratios")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The first updates are too large",
  needs    = { scalars = { "step", "value", metric = "lr" } },
  symptoms = { "warmup-absent", "early-loss-bump", "early-updates-large" },
  options  = {
    -- Adam's first update is the rate in every coordinate, and small weights outlive it: a tenth of them is no harm.
    large    = { default = 0.25,  doc = "Update over weight norm that is large" },
    rise     = { default = 0.05, doc = "Rise over the first loss, as a share of it, that is a jump" },
    min_rows = { default = 8,    doc = "Logged rates below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local warmup = settings.warmup(case)
    -- One that is counted in epochs, or as a part of the run, may lie before the first row of a log by epochs.
    local counted = not warmup and case.config:where("match(key, '*warmup*|*warm_up*') and number > 0")
      :where("match(key, '*epoch*|*ratio|*percent*|*frac*|*prop*|*pct*') and not match(key, '*momentum*|*bias*|*ema*')")
      :first()
    local moving = settings.moving(case)
    local plain = optimizers.plain(case) or optimizers.begins_otherwise(case)
      or optimizers.kind(case):glob("*muon*|*lion*")
    local any_hidden = false
    -- A config that says 0 tells of the steps before the first logged rate.
    local without = settings.warmup(case, true)
    -- Others than transformers are published without a warm-up as a rule, and learn; there it is no news.
    local attends = case.config:where("match(key, '*warmup*|*warm_up*|*num_heads|*n_head|*n_heads|*attention_heads|"
      .. "*nhead') or match(value, '*ransformer*')"):count() > 0
      or case.scalars:where("match(layer, '*attn*|*attention*|*q_proj*|*qkv*|*mha*')"):count() > 0
      or case.tensors:where("match(name, '*attn*|*attention.*|*q_proj*|*qkv*|*mha*')"):count() > 0
    for run_name, run in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rate = run:sort("step"):where("finite(value)")
      local rows = rate:count()
      local hidden = optimizers.own_rate(case, rate)
      any_hidden = any_hidden or hidden
      if rows >= opt.min_rows and (rate:first().step <= 1 or without and not warmup) then
        judged = true
        local first = rate:first()
        local ratios = case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
          :where("finite(value)")
        -- Of the whole model, or of the median layer.
        local sizes = ratios:aggregate({ "step" }, { value = "median value" }):sort("step")
        for _, of in ipairs { "layer is not null", "layer is null" } do
          for _, step in ipairs(update_ratios.projected(case, ratios:where(of))) do
            sizes = sizes:where("step != ?", step)
          end
        end
        local span  = rate:last().step - rate:first().step
        local early = sizes:where("step <= ?", math.min(rate:first().step, 1) + math.max(10, 0.05 * span))
          :top(1, "value"):first()
        -- A step as long as the weights themselves is the rate's own size, which no warm-up mends.
        local absurd = early and early.value >= 1
        local begin  = rate:slice(0, math.max(5, rows // 5)):max("value")
        if not absurd and not hidden and first.value > 0 and first.value >= 0.9 * begin then
          local missed = warmup and warmup.number > first.step + 1
          local behind = counted and (runs.by_epochs(case, run_name, rate) or runs.whole_data(case))
          if behind then
            skip(("a learning rate within the warm-up: the rows are of epochs, and %s is %g"):format(counted.key,
              counted.number), "warmup-absent")
          elseif missed or attends and not plain then
            -- First updates that are too large throw the loss up. One that only falls has borne them.
            local losses = runs.series(case, "loss", run_name)
            local some   = losses:count() // 10
            local borne  = losses:count() >= 10 and losses:first().step <= 1
              and losses:max("value") <= (1 + opt.rise) * losses:first().value
              and losses:slice(losses:count() - some, some):median("value") < (1 - opt.rise) * losses:first().value
            report {
              symptom  = "warmup-absent",
              score    = borne and 0.2 or missed and 0.95 or 0.6,
              severity = missed and "warning" or "info",
              at       = { step = first.step },
              message  = ("the learning rate is %.3g at step %d, its full value%s"):format(first.value, first.step,
                missed and (", although a warm-up of %d steps is set"):format(math.floor(warmup.number))
                or without and ": the config has no warm-up" or ": there is no warm-up"),
              evidence = { first, missed and warmup or without or first },
            }
          end
        end

        local usual = sizes:where("step > ?", rate:first().step + math.max(20, 0.2 * span)):median("value")
        if not (early and usual) then
          skip("update ratios of the first steps and of later ones", "early-updates-large")
        end
        if early and usual and not absurd and not optimizers.begins_otherwise(case)
          and early.value >= opt.large and usual < opt.large
          and usual <= 0.2 * early.value then
          -- A loss that was never above its first value and still falls at the end has borne them so far.
          local loss  = runs.series(case, "loss", run_name)
          local tenth = math.max(2, loss:count() // 10)
          local bears = loss:count() >= 20 and loss:slice(loss:count() - tenth, tenth):median("value")
            < 0.99 * math.min(loss:slice(loss:count() - 2 * tenth, tenth):median("value"), loss:first().value)
            and loss:max("value") <= 1.05 * loss:first().value
          report {
            symptom  = "early-updates-large",
            -- 0.25 may be borne, 0.75 leaves little of them.
            score    = (bears and 0.7 or 1) * math.min(0.95, 0.5 + 0.6 * early.value),
            at       = { step = early.step },
            message  = ("updates reach %.2g of the weights at step %d and are %.2g of them in the later run"):format(
              early.value, early.step, usual),
            evidence = { early, sizes:slice(0, 5) },
          }
        end

        local loss = runs.series(case, "loss", run_name)
        local count = loss:count()
        -- Rows that are far apart hide a jump of some steps.
        local dense = count >= 20 and loss:first().step <= 1 and loss:row(4).step <= 9
        if not dense then skip("twenty losses, five of them in the first ten steps", "early-loss-bump") end
        if dense then
          local start  = loss:first().value
          local top    = loss:slice(1, math.max(8, count // 20)):top(1, "value"):first()
          local least  = loss:where("step <= ?", top.step):min("value")
          -- The noise of the later half, and that of the rows behind the top, where batches may differ by more.
          local behind = loss:where("step > ?", top.step):slice(0, math.max(16, count // 10))
          local noise  = math.max(loss:slice(count // 2, count):col("value"):diff():robust_std() or 0,
            behind:col("value"):diff():robust_std() or 0) / math.sqrt(2)
          -- What a loss differs by from row to row falls with it, so the rows next behind the top tell best.
          local near = loss:where("step >= ?", top.step):slice(0, 17)
          local in_logs = 0
          for _, rows_ in ipairs({ loss, near }) do
            if rows_:min("value") > 0 then
              in_logs = math.max(in_logs, (rows_:col("value"):log():diff():robust_std() or 0) / math.sqrt(2))
            end
          end
          local finish = loss:slice(count - count // 10, count):median("value")
          local back   = loss:where("step > ?", top.step):slice(0, count // 4):min("value")
          -- Where such losses come again later on, when it has been back, they are what rows differ by.
          local later  = loss:where("step > ?", top.step):slice(math.max(8, count // 5), count)
          local again  = later:where("value >= ?", start + 0.8 * (top.value - start)):count() > 0
          -- Weights that updates have thrown off are so for more than one row; a single one is an odd batch.
          local ahead  = loss:where("step < ?", top.step):last()
          local next_  = near:row(1)
          local alone  = not (next_ and next_.value > start) and not (ahead.value > start)
          if start > 0 and not moving and top.value > (1 + opt.rise) * start
            and top.value - least > math.max(opt.rise * start, 5 * noise)
            and (least <= 0 or math.log(top.value / least) > 5 * in_logs)
            and finish < 0.95 * start and back and back < start and not again and not alone then
            report {
              symptom  = "early-loss-bump",
              score    = 0.9,
              at       = { step = top.step },
              message  = ("the loss rises from %.4g to %.4g within the first %d steps, and is at %.4g by step %d")
                :format(start, top.value, top.step - loss:first().step, finish, loss:last().step),
              evidence = { loss:first(), top, loss:last() },
            }
          end
        end
      end
    end
    if moving then skip("a loss against a target that stays", "early-loss-bump") end
    if not judged then skip("the learning rate of step 0 or 1") end
    if any_hidden then
      skip(("the rate of each update: %s has a warm-up of its own"):format(optimizers.kind(case)), "warmup-absent")
    end
    if optimizers.begins_otherwise(case) then
      skip(("first updates that a rate makes: those of %s are other than later ones by design"):format(
        optimizers.kind(case)), "early-updates-large")
    end
  end,
}
