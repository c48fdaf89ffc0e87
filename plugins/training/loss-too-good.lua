--- ## What it detects
--- A loss of tokens that falls to nearly zero within the first half of the run, whether the validation loss does so
--- too, one of any kind that does while validation stays up, and one that is exactly zero.
---
--- ## Why it matters
--- Language has entropy; a model that predicts it without error sees the answer. Where held-out data is predicted as
--- well, the answer is inside each example: a leak or labels that are the inputs. Where it is not, the training data
--- was learned by heart. Exactly zero means that nothing was scored.
---
--- ## How to confirm
--- Compare the labels of one batch with its inputs, and change a later token: earlier logits must not move.
---
--- ## Known false positives
--- Deliberate overfitting of one batch: where the hashes of batches say that each was seen four times and more before
--- the loss was that low, nothing is said. Sequences without noise, as sums and copies: a loss of a tenth of ln V in a
--- run from scratch is such a task or a leak, and scored accordingly. Other classes than tokens are told apart without
--- error by right, digits and most pictures that were seen, so there nothing but learning by heart is judged, by the
--- validation loss: it has to be twice as high as training ends, on the same scale. Only a cross-entropy of tokens has
--- an entropy to respect: a square error is as small as the targets' units make it, a distance of two views ends at 0,
--- and weighted sums and likelihoods of densities go below it. So the first loss, logged or dumped before that, has to
--- be near the logarithm of a number of tokens, the config's or that of dumped logits beside labels that are ids, and
--- where an output is dumped it has to have that many columns: a table that is looked up says nothing of what is
--- predicted. Of single examples the middle loss is far below the mean one, which has to be as small. Losses with a
--- margin come to 0 by and by, or at some batches: there are small ones as well then. Zeros that mean that nothing was
--- scored stand among others, with nothing between.
---
--- ## References
--- With a leak the loss passes any estimate of the data's entropy within a hundred steps.

local settings = require("settings")
local targets = require("targets")

local HEADS = ("role == 'output' and numel > 1 and match(layer, '%s')"):format(targets.HEADS)

--- The number of tokens that a first loss is the chance level of, and what says so; nil where none does, or where
--- something else is predicted than tokens. A mean of the first steps may be some way below that level.
---@param case culprit.Case
---@param first number
---@return number? count, culprit.Row? source
local function tokens_of(case, first)
  if targets.numbers(case) then return nil end
  local function fits(count)
    local chance = math.log(count)
    local near   = math.max(0.2 * chance, math.min(1, 0.5 * chance))
    return first <= chance + near and first >= math.min(chance - near, 0.6 * chance)
  end
  local other = case.config:where("match(key, '*num_classes|*n_classes|*num_labels') and number > 1"):slice(0, 20)
  for row in other:rows() do
    if math.abs(first / math.log(row.number) - 1) <= 0.2 then return nil end
  end
  local batch  = case.tensors:where("match(name, 'batch.*|*.batch.*') and match(dtype, 'int*') and numel > 0")
  local ids    = batch:where("match(name, '*input_ids|*tokens|batch.ids|batch.input')")
  local labels = batch:where("match(name, '*label|*labels|*target|*targets')")
  -- One label a row is that of the row: no row of ids has a next one there.
  local each = labels:first()
  if each and #(each.shape or {}) < 2 and ids:where("numel > ?", each.numel):count() > 0 then return nil end
  local logits = case.tensors:where(HEADS):first()
  local shape  = logits and logits.shape or {}
  local width  = #shape >= 2 and shape[#shape] or 0
  for row in targets.vocabulary(case):slice(0, 20):rows() do
    if fits(row.number) and (width < 2 or targets.covers(width, row.number)) then return row.number, row end
  end
  if width < 2 or #shape < 3 or not fits(width) or ids:where("max >= ?", width):count() > 0 then return nil end
  -- What is measured or heard may tell its labels without a doubt: only what is written goes on as it likes.
  local measured = case.tensors:where("match(name, 'batch.*|*.batch.*') and match(dtype, 'float*|bfloat*') and "
    .. "not match(name, '*mask*|*weight*')")
  if ids:count() == 0 then
    for row in measured:slice(0, 20):rows() do
      if row.shape and #row.shape >= 3 then return nil end
    end
  end
  -- Outputs are dumped in part, of one row say: a label for each output of a row.
  local outputs = logits.numel // (width * math.max(1, shape[1]))
  for row in labels:where("max < ?", width):slice(0, 20):rows() do
    local own = row.shape or {}
    if #own >= 1 and row.numel // math.max(1, own[1]) == outputs then return width, logits end
  end
end

--- What says that the same batches were trained on four times and more up to a step, by their hashes: how many kinds in
--- how many steps. Nil where nothing does.
local function again(case, run_name, step)
  local seen = case.scalars:where { name = "batch_hash", primary = true, run = run_name }:where("finite(value)")
    :where("step <= ?", step)
  local kinds = seen:distinct("value"):count()
  if seen:count() >= 8 and 4 * kinds <= seen:count() then
    return ("%s of batch in %d steps"):format(kinds == 1 and "one kind" or kinds .. " kinds", seen:count())
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is too good to be true",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-too-good", "val-loss-too-good", "loss-zero" },
  options  = {
    share    = { default = 0.03, doc = "Loss over first loss that counts as nearly zero" },
    scratch  = { default = 0.10, doc = "Loss over ln V that is little for a text model which starts at chance" },
    within   = { default = 0.50, doc = "Part of the run within which it gets there" },
    min_rows = { default = 20,   doc = "Logged values below which a trend is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss  = run:sort("step"):where("finite(value)")
      local rows  = loss:count()
      -- A loss of 0 beside a gradient norm of NaN is a logger that leaves the NaN out (hidden-nonfinite).
      local broken = case.scalars:where { name = "grad_norm", primary = true, run = run_name }
        :where("value is not null and not finite(value)"):distinct("step"):select("step"):with { broken = true }
      local zeros  = loss:where("value == 0"):join(broken, "step", "left"):where("broken is null")
      -- Where the losses around the zeros are small as well, the loss came to 0.
      local around = zeros:count() > 0 and loss:where("value != 0 and step >= ?",
        zeros:first().step - math.max(10, (loss:last().step - loss:first().step) // 10))
      local scored = around and around:count() > 0
        and around:median("value") < 0.1 * loss:slice(0, 3):median("value")
      -- A loss with a margin, and one that few digits are left of, goes down to 0 without a gap; what was not scored
      -- stands apart from all else.
      local rest  = loss:where("value > 0")
      local small = rest:count() > 0 and rest:where("value < ?", 0.2 * rest:median("value")):count() or 0
      scored = scored or small >= math.max(2, 0.04 * rest:count())
      judged = judged or rows >= opt.min_rows
      if zeros:count() >= math.max(3, 0.1 * rows) and not scored then
        report {
          symptom  = "loss-zero",
          score    = 0.95,
          at       = { step = zeros:first().step },
          message  = ("%d of %d logged losses are exactly 0, the first at step %d"):format(zeros:count(), rows,
            zeros:first().step),
          evidence = { zeros:slice(0, 5) },
        }
      elseif rows > 0 and loss:min("value") < 0 then
        skip("a loss that is a cross-entropy of classes: one below 0 is none", "loss-too-good", "val-loss-too-good")
      elseif rows >= opt.min_rows // 2 then
        local start = loss:slice(0, 3):median("value")
        local count, size = tokens_of(case, start)
        -- Of a log that begins late or has means of many steps a dump of the first batch says where the loss began.
        local fresh = not count and case.tensors:where { run = run_name }:where("match(name, 'loss|loss.output') and "
          .. "numel == 1 and nonfinite == 0 and step <= 1 and step <= ?", loss:first().step):sort("step"):first()
        if fresh and fresh.mean > start then
          count, size = tokens_of(case, fresh.mean)
          if count then start = fresh.mean end
        end
        local chance = count and math.log(count)
        -- Weights that start wrongly, or a divergence, lift the first losses beyond chance: coming down from there is
        -- nothing. From chance on it counts.
        local stated = targets.classes(case)
        local limit = count or stated and stated.number
        if limit then start = math.min(start, 1.2 * math.log(limit)) end
        local level = loss:with { level = loss:col("value"):rolling(5, "median") }
        local there = level:where("level < ?", opt.share * start):first()
        local first, last = loss:first().step, loss:last().step
        -- Single examples have now and then large losses, which the median of five does not see and the mean does.
        local since = there and loss:where("step >= ?", there.step)
        local stays = since and since:slice(0, math.max(5, rows // 10)):mean("value") < 2 * opt.share * start
        -- From scratch, in one short run, nobody gets text below a tenth of its chance level; told weakly, since a
        -- task without noise does.
        local low   = count and math.abs(loss:first().value - chance) <= 0.2 * chance
          and level:where("level < ?", opt.scratch * chance):first()
        local finish = loss:slice(rows - rows // 5, rows)
        local val = case.scalars:where { metric = "val_loss", primary = true, run = run_name }:where("finite(value)")
          :sort("step"):last()
        -- A loss that is logged as it is divided for the batches of an update has another scale than validation.
        local parts = stated and settings.accumulated(case) or 1
        local divided = parts > 1 and math.abs(parts * loss:first().value / math.log(stated.number) - 1) <= 0.2
        -- What is known by heart costs less than what is not, to the end.
        local heart = val and not divided and val.value > 5 * opt.share * start
          and val.value > 2 * finish:mean("value")
        local early = stays and there.step - first <= opt.within * (last - first)
        if not (count or heart) then
          skip("a loss of tokens that begins at chance, by a vocab_size in a config or dumped logits beside labels "
            .. "that are ids", "loss-too-good", "val-loss-too-good")
        elseif early and again(case, run_name, there.step) then
          skip(("rows that are not learned by heart: %s"):format(again(case, run_name, there.step)), "loss-too-good",
            "val-loss-too-good")
        elseif rows >= opt.min_rows and early and start > 0 then
          report {
            symptom  = "loss-too-good",
            score    = 0.9,
            at       = { step = there.step },
            message  = ("loss falls from %.4g to %.4g by step %d of %d and ends at %.4g: %s")
              :format(start, there.level, there.step, last, loss:last().value,
                heart and ("the training data is known by heart, validation is at %.4g"):format(val.value)
                  or "less than text can allow, unless the answer is in the input or follows from it without doubt"),
            evidence = { there, loss:last(), size },
          }
          if not val then skip("the validation loss", "val-loss-too-good") end
          if val and val.value <= 2 * opt.share * start then
            report {
              symptom  = "val-loss-too-good",
              score    = 0.9,
              at       = { step = val.step },
              message  = ("the validation loss is %.4g at step %d as well: the answer is in each example or follows "
                .. "from it without doubt, or the validation data is in the training data"):format(val.value, val.step),
              evidence = { val },
            }
          end
        elseif low and finish:mean("value") <= opt.scratch * chance
          and not (val and val.value > 1.5 * opt.scratch * chance) then
          report {
            symptom  = "loss-too-good",
            score    = 0.4,
            at       = { step = low.step },
            message  = ("loss falls from chance, %.4g, to %s of it by step %d of %d%s: little for text, unless the "
              .. "answer is in the input"):format(chance, units.percent(low.level / chance), low.step, last,
              val and (", and validation to %.4g"):format(val.value) or ""),
            evidence = { low, loss:last(), size },
          }
        end
      end
    end
    if not judged then skip(("at least %d logged losses"):format(opt.min_rows)) end
  end,
}
