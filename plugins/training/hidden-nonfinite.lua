--- ## What it detects
--- NaN that the logger hides: losses of exactly 0, or repeated to the last digit, at steps whose gradient norm is NaN;
--- a loss that stops being logged while the other metrics go on; iterations that were skipped or counted as NaN.
---
--- ## Why it matters
--- Hugging Face's Trainer leaves NaN losses out of its mean and logs 0.0; Megatron-LM leaves the field out. Such a run
--- looks finished or perfect and has been dead for hours.
---
--- ## How to confirm
--- Set `logging_nan_inf_filter=False`, or print the loss itself, for one step from the last checkpoint.
---
--- ## Known false positives
--- A loss scaler skips the steps of its first search and one about every two thousand; those are not reported. Where a
--- loss comes down in steps that are all counted as skipped, from the first of them on, others make them: a second
--- optimizer that the one that is watched hands over to.
--- A stage may have other losses than the one before: where a loss of another name begins behind the last one, as that
--- of a generator which was trained without an adversary so far, nothing is said of an end.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.logging_nan_inf_filter,
--- https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/training.py

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The logger hides losses that are NaN",
  needs    = { scalars = { "step", "value",
    metric = { "loss", "grad_norm", "skipped_iterations", "nan_iterations" } } },
  symptoms = { "loss-nonfinite-hidden", "loss-stops-being-logged", "iterations-skipped" },
  options  = {
    skipped  = { default = 0.02, doc = "Share of skipped iterations, after the first tenth, worth reporting" },
    min_rows = { default = 3,    doc = "Logged steps that show it" },
  },

  run = function(case)
    local opt, judged = case.options, {}
    local scalars = case.scalars:where("primary == true and layer is null")

    for run_name, run in scalars:where { name = { "loss", "grad_norm", "lr" } }:group("run") do
      local loss = run:where { name = "loss" }:sort("step")
      local norm = run:where { name = "grad_norm" }
      if loss:count() > 0 and norm:count() > 0 then
        judged.hidden = true
        local still  = loss:with { change = loss:col("value"):diff() }
        local broken = norm:where("value is not null and not finite(value)"):select("step", "value")
        local hidden = still:where("finite(value) and (value == 0 or change == 0)"):join(broken, "step")
        if hidden:count() >= opt.min_rows then
          local first = hidden:first()
          report {
            symptom  = "loss-nonfinite-hidden",
            score    = 0.97,
            at       = { step = first.step },
            message  = ("the gradient norm is %s at step %d while the logged loss is %.4g, and so at %d logged steps: "
              .. "the logger leaves the NaN out"):format(units.number(first.value_right), first.step, first.value,
              hidden:count()),
            evidence = { loss:where("step == ?", first.step), norm:where("step == ?", first.step) },
          }
        end
      end

      -- The loss of every step that logs anything, up to some step, and of none after it.
      local others = run:where("name != 'loss' and value is not null"):distinct("step"):sort("step")
      local logged = loss:where("value is not null")
      if logged:count() >= 8 and others:count() >= 8 then
        judged.ends = true
        local last   = logged:last()
        local before = others:where("step <= ?", last.step)
        local beside = before:join(logged:select("step", "value"), "step")
        local after  = others:where("step > ?", last.step)
        -- A stage with losses of its own has finite ones under other names from there on, and had none before.
        local other
        for _, rows in case.scalars:where { run = run:first().run }:where("match(name, '*loss*') and name != 'loss' "
          .. "and not match(name, '*val*|*eval*|*test*|*dev*|*scale*') and finite(value)"):group("name") do
          local first = rows:sort("step"):first()
          if first.step > last.step then other = other or first end
        end
        local ends = after:count() >= math.max(opt.min_rows, 0.02 * others:count())
          and beside:count() >= 0.9 * before:count()
        -- A log of epochs ends with the last of them, and another one of the run goes on by steps.
        local elsewhere = ends and case.scalars:where { name = "loss", run = run:first().run }
          :where("layer is null and finite(value) and step > ?", last.step):first()
        if elsewhere then
          skip(("a loss that ends in all logs of the run: another one has it at step %d"):format(elsewhere.step),
            "loss-stops-being-logged")
        elseif ends and other then
          skip(("one loss throughout: %s is logged from step %d on, behind the last loss"):format(other.name,
            other.step), "loss-stops-being-logged")
        elseif ends then
          report {
            symptom  = "loss-stops-being-logged",
            score    = 0.95,
            at       = { step = after:first().step },
            message  = ("the loss is logged last at step %d (%.4g); %d later steps log other values and no loss, as "
              .. "loggers do that leave NaN out"):format(last.step, last.value, after:count()),
            evidence = { last, after:slice(0, 5) },
          }
        end
      end
    end

    for _, name in ipairs { "nan_iterations", "skipped_iterations" } do
      for _, run in scalars:where { name = name }:group("run") do
        local count = run:sort("step"):where("finite(value)")
        local rows  = count:count()
        if rows >= 8 then
          judged.skipped = true
          -- Megatron logs the number since the row before, the others a running total.
          local totals = not tostring(count:first().raw_name or ""):lower():contains("number")
            and (count:col("value"):diff():min() or 0) >= 0
          local from   = count:where("step >= ?", count:first().step + 10):slice(0, rows)
          from = from:slice(math.max(0, rows // 10 - (rows - from:count())), rows)
          local lost, ran, begin = 0, 0, nil
          if from:count() > 0 then
            lost = totals and from:last().value - from:first().value or from:sum("value")
            -- A row that counts since the one before has the steps behind that one.
            local before = not totals and count:where("step < ?", from:first().step):last()
            begin = before and before.step or from:first().step
            ran   = from:last().step - begin
            -- The first row of all may count more steps than there are between it and the next ones.
            if not totals and not before then lost = lost - from:first().value end
          end
          local usual = ran / 500 + 2 -- a scaler that doubles every 2000 steps tries, and skips, one in 2000
          -- No loss comes down by a tenth in steps that were all skipped: another optimizer makes them.
          local since = count:where("value > ?", totals and count:first().value or 0):first()
          since = count:first().value > 0 and count:first() or since
          local loss = scalars:where { name = "loss", run = run:first().run }:where("finite(value) and step >= ?",
            since and since.step or begin or 0):sort("step")
          local some = loss:count() // 5
          local learns = ran > 0 and lost >= 0.9 * ran and some >= 3
            and loss:slice(loss:count() - some, some):median("value") < 0.9 * loss:slice(0, some):median("value")
          if ran > 0 and not learns and lost > usual and (lost >= opt.skipped * ran or name == "nan_iterations") then
            report {
              symptom  = "iterations-skipped",
              score    = math.min(0.97, 0.7 + lost / ran),
              at       = { step = from:first().step },
              message  = ("%d of %d iterations after step %d were %s"):format(math.floor(lost), ran, begin,
                name == "nan_iterations" and "NaN" or "skipped"),
              evidence = { from:first(), from:last() },
            }
            break
          end
        end
      end
    end
    if not judged.hidden then skip("losses beside gradient norms", "loss-nonfinite-hidden") end
    if not judged.ends then skip("eight losses, and eight values of something else", "loss-stops-being-logged") end
    if not judged.skipped then skip("the number of skipped iterations, in eight rows", "iterations-skipped") end
  end,
}
