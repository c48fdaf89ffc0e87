--- ## What it detects
--- A loss that never leaves its first level, one that stops improving while it is still high, one that settles at the
--- score of a model that knows nothing while its weights travel, and one that stands just above the least value that a
--- softmax of a softmax allows, or has as much above that as labels are wrong, at the end, at every evaluation or in
--- each part of the run.
---
--- ## Why it matters
--- Flat from the start means that no step changes the model, or that there is nothing to learn: which of them, the size
--- of the updates tells. A later plateau that is still far from zero asks whether the step size went away.
---
--- ## How to confirm
--- Overfit one batch: a loss that stays up there is a broken step, not a hard task.
---
--- ## Known false positives
--- A task whose floor is high, such as text with much entropy. A level below `min_level` of the first loss is taken for
--- a floor and not reported; so is one of a run that started far below chance, with weights that were trained before,
--- or, where chance is not known, whose settings say so. Of smoothed labels only what is above their entropy counts.
--- A loss that its updates threw far above its start is not one that stayed at the score of knowing nothing, wherever
--- it ends.
---
--- ## References
--- Identical curves come from a learning rate of zero and from an optimizer that holds other parameters; only `lr`
--- tells. With probabilities p for logits, -ln softmax(p)[y] is at least ln(e + V - 1) - 1. Where they are 0 and 1, it
--- is that for each label that is right and 1 more for each that is wrong: loss and accuracy add up to ln(e + V - 1).
--- A loss that falls by as much as the accuracy rises, from evaluation to evaluation, is no other's, but for few
--- classes.
--- A model that is right in a share A of its answers and knows how often can have
--- -A ln A - (1 - A) ln((1 - A) / (V - 1)).

local runs = require("runs")
local settings = require("settings")
local sides = require("sides")
local targets = require("targets")

--- What a model that is right and as sure as smoothed labels ask has left: their entropy; 0 where none are.
---@param case culprit.Case
---@param classes culprit.Row?
---@return number
local function least_smoothed(case, classes)
  local row = classes and settings.smoothing(case)
  if not row or row.number >= 1 then return 0 end
  local other = row.number / classes.number
  local right = 1 - row.number + other
  return -right * math.log(right) - (classes.number - 1) * other * math.log(other)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss stops improving, or never starts",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-plateau", "loss-flat-from-start", "loss-at-chance", "loss-above-double-softmax-floor" },
  options  = {
    flat      = { default = 0.02,
                  doc = "Change of level over the run that counts as none, as a share of the first loss" },
    still     = { default = 0.01, doc = "Change of level over the last half that counts as none" },
    min_level = { default = 0.40, doc = "Level over first loss below which a plateau is taken for the task's floor" },
    travelled = { default = 0.30,
                  doc = "Sum of the updates over the weights' norm from which the model had its chance to learn" },
    min_rows  = { default = 10,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    -- Of a sum with terms beside the cross-entropy the logarithm is no level.
    local _, shares = targets.terms(case)
    local classes = shares == 0 and targets.classes(case) or nil
    local chance = classes and math.log(classes.number)
    -- What loss and accuracy add up to behind two softmaxes that are sure of each answer.
    local both_sure = classes and math.log(math.exp(1) + classes.number - 1)
    -- Where no chance level says so, the settings say that weights were trained before.
    local trained = settings.loaded(case) or settings.on(case.config:where("match(key, '*peft_type|*lora_r|*lora_rank|"
      .. "*lora_alpha|*num_virtual_tokens')")):first()
    local least  = least_smoothed(case, classes)

    --- The updates of the layers that move at all, or of all together where no layers are logged: what is frozen for
    --- good, as all but the adapters of LoRA, has updates of 0 and says nothing of what is trained.
    local function updates(run_name)
      local rows   = case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
        :where("finite(value)")
      local moving = rows:where("layer is not null and value > 0"):distinct("layer"):select("layer")
      return moving:count() > 0 and rows:join(moving, { "layer" }) or rows
    end

    --- What else is logged at a plateau, since that is what tells its causes apart.
    local function beside(run_name, from)
      local parts = {}
      local function level(metric)
        local rows = metric == "update_ratio" and updates(run_name)
          or case.scalars:where { metric = metric, primary = true, run = run_name }
        rows = rows:where("step >= ? and finite(value)", from)
        return rows:count() > 0 and rows:median("value") or nil
      end
      local rate, update, norm = level("lr"), level("update_ratio"), level("grad_norm")
      if rate then parts[#parts + 1] = ("lr %.3g"):format(rate) end
      if update then parts[#parts + 1] = ("updates of %.2g of the weights"):format(update) end
      if norm then parts[#parts + 1] = ("gradient norm %.3g"):format(norm) end
      return #parts > 0 and "; there: " .. table.concat(parts, ", ") or ""
    end

    --- How far the weights went, in units of their norm; nil where updates are not logged.
    local function travel(run_name)
      local rows = updates(run_name):aggregate({ "step" }, { value = "median value" })
      if rows:count() < 3 then return nil end
      return rows:mean("value") * (rows:max("step") - rows:min("step") + 1)
    end

    --- The loss of a model that is right in this share of its answers, and knows how often.
    local function least_of(share)
      return -share * math.log(share) - (1 - share) * math.log((1 - share) / (classes.number - 1))
    end

    --- Whether loss and accuracy of the last fifth add up to what they do behind two softmaxes, and the loss is well
    --- above what so many right answers allow: mean loss and mean accuracy.
    local function adds_up(run_name, loss)
      local hits = runs.series(case, "accuracy", run_name):distinct("step"):select("step", "value")
      local both = loss:distinct("step"):select("step", "value"):join(hits, { "step" }):sort("step")
      local few  = both:slice(both:count() - both:count() // 5, both:count())
      if few:count() < 5 or classes.number < 3 then return nil end
      local level, share = few:mean("value"), few:mean("value_right")
      if hits:max("value") > 1.5 then share = share / 100 end
      if share < 0.2 or share > 0.99 or math.abs(level + share - both_sure) > 0.01 * both_sure then return nil end
      return level >= 1.25 * least_of(share) and level or nil, share
    end

    --- Whether losses and accuracies of the evaluations add up to that as well, from one to the next, while both move:
    --- number of evaluations, first and last accuracy, and what the last two add up to. Of what is learned by
    --- one softmax the loss falls by several times what the accuracy rises by, but for few classes.
    local function adds_up_throughout(run_name)
      local hits = runs.series(case, "val_accuracy", run_name):where("finite(value)"):distinct("step")
      local both = runs.series(case, "val_loss", run_name):where("finite(value)"):distinct("step")
        :select("step", "value"):join(hits:select("step", "value"), { "step" }):sort("step")
      if both:count() < 4 or not classes or classes.number < 8 then return nil end
      local unit = hits:max("value") > 1.5 and 100 or 1
      local low, high, first, last, total = nil, nil, nil, nil, nil
      for row in both:slice(0, 1000):rows() do
        local share = row.value_right / unit
        if math.abs(row.value + share - both_sure) > 0.004 * both_sure then return nil end
        first, last, total = first or share, share, row.value + share
        if not low or share < low.share then low = { share = share, loss = row.value } end
        if not high or share > high.share then high = { share = share, loss = row.value } end
      end
      local slope = (low.loss - high.loss) / (high.share - low.share)
      if high.share - low.share < 0.05 or slope < 0.7 or slope > 1.3 then return nil end
      return both:count(), first, last, total
    end

    --- Whether training losses and accuracies add up to nearly that in each part of the run, while both move by as
    --- much, and the loss ends well above what so many right answers allow: first and last part's accuracy, the last
    --- part's loss. Few classes tell little by the slope alone, and much by all of this.
    local function adds_up_in_parts(run_name, loss)
      if not classes or classes.number < 3 then return nil end
      local hits = runs.series(case, "accuracy", run_name):where("finite(value)"):distinct("step")
      local both = loss:distinct("step"):select("step", "value"):join(hits:select("step", "value"), { "step" })
        :sort("step")
      local rows = both:count()
      if rows < 3 then return nil end
      local unit  = hits:max("value") > 1.5 and 100 or 1
      local parts = rows >= 12 and 4 or rows
      local low, high, first, last
      for part = 1, parts do
        local from = (part - 1) * rows // parts
        local some = both:slice(from, part * rows // parts - from)
        local now  = { loss = some:mean("value"), share = some:mean("value_right") / unit }
        if math.abs(now.loss + now.share - both_sure) > 0.025 * both_sure then return nil end
        first, last = first or now, now
        if not low or now.share < low.share then low = now end
        if not high or now.share > high.share then high = now end
      end
      local slope = (low.loss - high.loss) / (high.share - low.share)
      if high.share - low.share < 0.05 or slope < 0.6 or slope > 1.4 or last.share > 0.99 then return nil end
      return last.loss >= 1.25 * least_of(last.share) and first.share or nil, last.share, last.loss
    end

    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      local evaluations, from, to, total = adds_up_throughout(run_name)
      if evaluations then
        local val = runs.series(case, "val_loss", run_name):where("finite(value)")
        report {
          symptom  = "loss-above-double-softmax-floor",
          score    = 0.95,
          at       = { step = loss:count() > 0 and loss:first().step or val:first().step },
          message  = ("at all %d evaluations, from an accuracy of %.3g to %.3g, it and the validation loss add up to "
            .. "%.4g: of two softmaxes over %d that are sure of each answer they add up to %.4g"):format(evaluations,
            from, to, total, math.floor(classes.number), both_sure),
          evidence = { val:first(), val:last(), classes },
        }
      end
      -- Smoothed labels have a floor of their own.
      local smoothed = settings.smoothing(case)
        or case.config:where("match(key, '*label_smoothing*|*mixup*|*cutmix*') and number > 0"):first()
      local began, ended, level_then
      if not evaluations and not smoothed then began, ended, level_then = adds_up_in_parts(run_name, loss) end
      if began then
        report {
          symptom  = "loss-above-double-softmax-floor",
          score    = 0.95,
          at       = { step = loss:first().step },
          message  = ("from an accuracy of %.3g to %.3g it and the loss add up to about the same, %.4g at the end: of "
            .. "two softmaxes over %d that are sure of each answer they add up to %.4g"):format(began, ended,
            ended + level_then, math.floor(classes.number), both_sure),
          evidence = { loss:first(), loss:last(), classes },
        }
      end
      local rows = loss:count()
      if began and rows < opt.min_rows and not judged then
        judged = true
        skip(("%d logged losses"):format(opt.min_rows), "loss-plateau", "loss-flat-from-start", "loss-at-chance")
      end
      if rows >= opt.min_rows then
        judged = true
        local fifth = rows // 5
        local start = loss:slice(0, math.min(5, fifth)):median("value")
        local low, high
        for part = 0, 4 do
          local level = loss:slice(part * fifth, fifth):median("value")
          low, high = math.min(low or level, level), math.max(high or level, level)
        end
        local middle = loss:slice(rows // 2, fifth):median("value")
        local finish = loss:slice(rows - fifth, fifth):median("value")
        local noise = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
        -- It began with weights that were trained before.
        local known = chance and start < 0.7 * chance or not chance and trained

        -- At chance although the weights went far, or the gradients of a model that fits the frequencies shrank.
        if chance and math.abs(finish - chance) <= math.max(0.01 * chance, 2 * noise / math.sqrt(fifth))
          and math.abs(start - chance) <= 0.25 * chance and low >= 0.97 * chance
          -- What its updates threw above that and above its start, for two rows and more, has not stayed there.
          and loss:with { both = loss:col("value"):rolling(2, "min") }:slice(1, rows):max("both")
            <= 1.1 * math.max(chance, loss:first().value) then
          local far  = travel(run_name)
          local norm = case.scalars:where { name = "grad_norm", primary = true, run = run_name }:sort("step")
            :where("finite(value) and value > 0")
          local part = norm:count() // 5
          local was  = part >= 4 and norm:slice(0, part):median("value")
          local now  = part >= 4 and norm:slice(norm:count() - part, part):median("value")
          local less = was and now < 0.75 * was
          if not far and not was then skip("the update ratio or the gradient norm of its layers", "loss-at-chance") end
          if far and far >= opt.travelled or not far and less then
            report {
              symptom  = "loss-at-chance",
              score    = less and 0.95 or 0.85,
              at       = { step = loss:first().step },
              message  = ("loss stays at ln %d = %.4g, the score of knowing nothing: %.4g at the end%s%s"):format(
                math.floor(classes.number), chance, finish,
                far and ("; the weights travelled %.2g times their norm"):format(far) or "",
                was and ("; the gradient norm goes from %.3g to %.3g"):format(was, now) or ""),
              evidence = { loss:first(), loss:last(), classes },
            }
          end
        end

        -- Between the floor of a doubled softmax and chance, for the last two fifths, with a gradient that was tiny
        -- while the probabilities were even and grew several times when they parted.
        local floor = classes and classes.number > 2 and both_sure - 1
        local late  = loss:slice(rows - 2 * fifth, fifth):median("value")
        if not evaluations and not began and floor and finish >= 0.99 * floor and finish <= 0.97 * chance
          and math.abs(late - finish) <= 0.05 * start
          and loss:quantile("value", 0.02) >= 0.985 * floor - 2 * noise
          and math.abs(start - chance) <= 0.1 * chance then
          local val  = case.scalars:where { metric = "val_loss", primary = true, run = run_name }:where("finite(value)")
          local over = val:count() > 0 and val:sort("step"):last()
          local norm = case.scalars:where { name = "grad_norm", primary = true, run = run_name }:sort("step")
            :where("finite(value) and value > 0")
          local from = norm:count() >= 20 and norm:slice(0, 5):median("value")
          local wide = from and norm:with { level = norm:col("value"):rolling(5, "median") }:max("level") / from or nil
          local signs = {}
          if over and over.value > 1.03 * chance then
            signs[#signs + 1] = ("the validation loss is %.4g, worse than chance"):format(over.value)
          end
          if over and over.value < 0.9 * floor then
            signs[#signs + 1] = ("the validation loss, without it, is %.4g"):format(over.value)
          end
          if wide and wide >= 3 then
            signs[#signs + 1] = ("the gradient norm began at %.3g and rose %.2g times"):format(from, wide)
          end
          -- Where there is a validation loss it has to be off: a bad initialisation grows its gradients as well.
          local off = over and (over.value > 1.03 * chance or over.value < 0.9 * floor)
          if not over and not wide then
            skip("the validation loss, or 20 gradient norms", "loss-above-double-softmax-floor")
          end
          local level, share
          if not smoothed then level, share = adds_up(run_name, loss) end
          if level then
            report {
              symptom  = "loss-above-double-softmax-floor",
              score    = 0.95,
              at       = { step = loss:row(rows - fifth).step },
              message  = ("loss is at %.4g and accuracy at %.3g, which adds up to %.4g; of two softmaxes over %d that "
                .. "are sure of each answer it is %.4g"):format(level, share, level + share,
                math.floor(classes.number), both_sure),
              evidence = { loss:last(), classes },
            }
          elseif off and (wide == nil or wide >= 3 or over.value > 1.3 * chance) or not over and wide and wide >= 5 then
            report {
              symptom  = "loss-above-double-softmax-floor",
              score    = #signs >= 2 and 0.95 or off and 0.75 or 0.5,
              at       = { step = loss:row(rows - fifth).step },
              message  = ("loss settles at %.4g, between %.4g, the least a softmax of a softmax over %d allows, and "
                .. "chance, %.4g; %s"):format(finish, floor, math.floor(classes.number), chance,
                table.concat(signs, "; ")),
              evidence = { loss:last(), classes, over or loss:first() },
            }
          end
        end

        if high - low <= opt.flat * start and math.abs(finish - start) <= opt.flat * start and start > 1e-3
          and not known then
          report {
            symptom  = "loss-flat-from-start",
            score    = 0.95,
            at       = { step = loss:first().step },
            message  = ("loss never leaves its first level: %.4g at step %d, %.4g at step %d, fifths of the run "
              .. "between %.4g and %.4g%s")
              :format(start, loss:first().step, finish, loss:last().step, low, high,
                beside(run_name, loss:first().step)),
            evidence = { loss:first(), loss:last() },
          }
        elseif math.abs(middle - finish) <= opt.still * start
          and finish - least >= opt.min_level * (start - least) and finish < 0.98 * start and not known then
          report {
            symptom  = "loss-plateau",
            score    = 0.6,
            at       = { step = loss:row(rows // 2).step },
            message  = ("loss stands still at %.4g from step %d on (%.4g there), %s of where it started%s")
              :format(finish, loss:row(rows // 2).step, middle, units.percent(finish / start),
              beside(run_name, loss:row(rows // 2).step)),
            evidence = { loss:row(rows // 2), loss:last() },
          }
        end
      end
    end
    if not judged then
      skip(("at least %d logged losses"):format(opt.min_rows))
    elseif not chance then
      skip("vocab_size or num_classes in a config", "loss-at-chance", "loss-above-double-softmax-floor")
    elseif sides.preference(case) then
      skip("a loss over classes: this one is of pairs of answers", "loss-at-chance", "loss-above-double-softmax-floor")
    end
  end,
}
