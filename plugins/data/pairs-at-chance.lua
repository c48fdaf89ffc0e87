--- ## What it detects
--- A contrastive loss that settles at the score of telling nothing: the logarithm of the number of rows that it chooses
--- from. Of a batch of B pairs that are ln B (each row against all of the other side), ln (2 B - 1) where two views of
--- each row stand in one batch, and ln (K + 1) with a queue of K negatives. The same of a ranking loss, at what equal
--- scores have: ln 2 of a logistic one of pairs (BPR, RankNet), the margin of a triplet or hinge loss. Of answers that
--- are preferred (DPO), which begin there by design: ln 2 or more throughout, and as many pairs right as a coin has,
--- though what is trained has travelled.
---
--- ## Why it matters
--- Fresh embeddings mostly begin above that score, since they are wrong with confidence. A model whose pairs belong
--- together goes below it within an epoch. Where they do not, the best that it can learn is to find all candidates
--- alike, and the loss goes to the score and stays, whatever is tuned.
---
--- ## How to confirm
--- Print five pairs of a batch. Train on one batch again and again: it is learned by heart, where the pairs are at
--- fault and the model is not.
---
--- ## Known false positives
--- The first hundred steps of a sound run with a small rate: at least half of the run has to stand there, and either
--- the loss has to have come down to it or the weights have to have travelled. Embeddings that are all equal have that
--- loss too, to the last digit, and are left out: that is a collapse. A loss is taken for a contrastive one where
--- metrics or settings say so, where a logit scale is learned, or where dumped logits are a square of the batch.
---
--- A small beta keeps the loss of preferred answers near ln 2 as well, and a small rate too; both have more than half
--- of the pairs right soon, and are left out by that.
---
--- ## References
--- https://arxiv.org/abs/1807.03748 (InfoNCE), https://arxiv.org/abs/2002.05709 (NT-Xent of two views),
--- https://arxiv.org/abs/1911.05722 (a queue of negatives)

local runs = require("runs")
local sides = require("sides")

local WORDS = "*contrastive*|*infonce*|*info_nce*|*nt_xent*|*ntxent*|*simclr*|*moco*|*logit_scale*|*in_batch_neg*"

local LOGISTIC = "*bpr*|*BPR*|*ranknet*|*RankNet*|*pairwise*|*Pairwise*|*rank_loss*|*ranking_loss*|*RankingLoss*"
local HINGE    = "*triplet*|*Triplet*|*margin_loss*|*MarginLoss*|*margin_ranking*|*MarginRanking*|*hinge*|*Hinge*"

--- What a ranking loss has where all scores are equal: { level, words, row that says what the loss is }, or nil.
local function ranking(case)
  local function said(words)
    return case.config:where("match(key, '*loss*|*criterion*|*objective*')"):where("match(value, ?)", words):first()
      or case.scalars:where("match(name, ?)", words):first()
  end
  if said(HINGE) then
    local margin = case.config:where("match(key, '*margin') and number > 0"):first()
    return margin and { margin.number, ("the margin is %g, what equal scores have"):format(margin.number), margin }
  end
  local logistic = said(LOGISTIC)
  return logistic and { math.log(2), "ln 2 is 0.6931, what equal scores have", logistic }
end

--- Whether something says that the loss picks one row out of several, and the row that says so.
local function contrastive(case, rows)
  local metric = case.scalars:where("match(name, '" .. WORDS .. "|clip_loss|*_clip_loss')"):first()
  if metric then return metric end
  local setting = case.config:where("match(key, '" .. WORDS .. "')")
    :where("not match(value, 'false|False|none|None|null|0|')"):first()
    or case.config:where("match(value, '" .. WORDS .. "')"):first()
    or case.config:where("match(key, '*n_views|*num_views') and number >= 2"):first()
  if setting then return setting end
  local scale = case.tensors:where("match(name, '*logit_scale')"):first()
  if scale then return scale end
  for logits in case.tensors:where("match(name, 'head.output|*logits|*similarity|*.sim')"):slice(0, 50):rows() do
    local shape = logits.shape or {}
    if #shape == 2 and shape[1] == shape[2] and shape[1] == rows then return logits end
  end
end

--- The numbers of candidates a row may be chosen from.
local function candidates(case)
  local sizes, listed = {}, {}
  local function add(n, why)
    if n and n >= 4 and not listed[n] then
      listed[n] = true
      sizes[#sizes + 1] = { n = math.floor(n), why = why }
    end
  end
  local dumped = case.tensors:where("match(name, 'batch.*') and not match(name, '*hash*')"):sort("step"):first()
  local rows   = dumped and dumped.shape and dumped.shape[1]
  local views  = case.config:where("match(key, '*n_views|*num_views') and number >= 2"):max("number") or 2
  local world  = case.config:where("match(key, 'world_size|*.world_size') and number > 1"):max("number") or 1
  local settings = {}
  for setting in case.config:where("match(key, '*batch_size') and not match(key, '*eval*|*val_*|*test*')")
    :where("number >= 4"):slice(0, 20):rows() do
    settings[#settings + 1] = setting.number
  end
  for _, size in ipairs({ rows or 0, table.unpack(settings) }) do
    for _, all in ipairs({ size, size * world }) do
      add(all, "rows of a batch")
      add(views * all - 1, ("rows of %d views of a batch without itself"):format(math.floor(views)))
    end
  end
  add(rows and rows - 1, "rows of a batch without itself")
  for setting in case.config:where("match(key, '*moco_k|*queue_size|*queue_len*|*num_negatives') and number >= 4")
    :slice(0, 5):rows() do
    add(setting.number + 1, "one row and the negatives of " .. setting.key)
  end
  return sizes, rows
end

--- The updates of the layers that move, over the weights' norm and summed over the run: all else of a model may be
--- frozen on purpose.
local function travelled(case)
  local ratio = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
  local moving = ratio:where("layer is not null and value > 0")
  ratio = (moving:count() > 0 and moving or ratio):aggregate({ "step" }, { value = "median value" })
  return ratio:count() >= 3 and ratio:mean("value") * (ratio:max("step") - ratio:min("step") + 1) or 0
end

--- Reports a logistic loss of preferred answers that stays at ln 2 while the weights travel.
local function judge_preference(case, run)
  local opt = case.options
  local loss, right = runs.series(case, "loss"), runs.series(case, "rewards_accuracy")
  local logistic = case.config:where("match(key, '*loss_type*') and match(value, 'sigmoid*')"):first()
    or case.config:where("match(key, '*loss_type*')"):count() == 0
  if not logistic or loss:count() < opt.min_rows or right:count() < opt.pair_rows then
    return skip(("%d logged losses and %d accuracies of pairs, of a loss that is logistic"):format(opt.min_rows,
      opt.pair_rows))
  end
  local far = travelled(case)
  if far < opt.travelled then return skip("updates that take what is trained somewhere") end
  local fifth = loss:count() // 5
  local noise = (loss:slice(loss:count() // 2, loss:count()):col("value"):diff():robust_std() or 0) / math.sqrt(2)
  local even  = noise > 1e-5
  for part = 1, 3 do
    local here = loss:slice(loss:count() - part * fifth, fifth):mean("value")
    even = even and here >= (1 - opt.near) * math.log(2) - 2 * noise / math.sqrt(math.max(4, fifth))
  end
  local later  = right:slice(2 * right:count() // 5, right:count())
  local share  = later:mean("value")
  local error_ = (later:std("value") or 0) / math.sqrt(later:count())
  if even and error_ > 0 and error_ <= 0.02 and math.abs(share - 0.5) <= math.max(2 * error_, 0.01) then
    report {
      symptom  = "pairs-at-chance",
      score    = 0.9,
      at       = { run = run, step = loss:first().step },
      message  = ("the loss of the pairs ends at %.4g, and ln 2 is 0.6931; %s of them are right over the last three "
        .. "fifths, as of a coin, though what is trained travelled %.2g times its norm"):format(
        loss:slice(loss:count() - fifth, fifth):mean("value"), units.percent(share), far),
      evidence = { loss:first(), loss:last(), later:first() },
    }
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A contrastive loss stays at the score of telling nothing",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "pairs-at-chance" },
  options  = {
    near      = { default = 0.01, doc = "Distance from the logarithm, as a share of it, that is none" },
    fall      = { default = 0.05, doc = "First loss above the logarithm, as a share of it, that shows that it learns" },
    travelled = { default = 0.30, doc = "Sum of the updates over the weights' norm that gives a model its chance" },
    min_rows  = { default = 20,   doc = "Logged values below which a trend is not judged" },
    pair_rows = { default = 8,    doc = "The same of the accuracies of preferred answers, each a mean of many" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    if sides.preference(case) then return judge_preference(case, run) end
    local sizes, rows = candidates(case)
    local ranks = ranking(case)
    if #sizes == 0 and not ranks then return skip("the rows of a batch: batch_size in a config, or a dumped batch") end
    local why = ranks and ranks[3] or contrastive(case, rows)
    if not why then
      return skip("a contrastive loss: its name, a learned logit scale, or logits that are a square of the batch")
    end
    local levels = ranks and { { level = ranks[1], words = ranks[2] } } or {}
    for _, one in ipairs(ranks and {} or sizes) do
      levels[#levels + 1] = { level = math.log(one.n), words = ("ln %d is %.4g, of %d %s"):format(one.n,
        math.log(one.n), one.n, one.why) }
    end
    local loss  = runs.series(case, "loss")
    local count = loss:count()
    if count < opt.min_rows then return skip(("%d logged losses"):format(opt.min_rows)) end
    local ratio = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
      :aggregate({ "step" }, { value = "median value" })
    local far   = ratio:count() >= 3 and ratio:mean("value") * (ratio:max("step") - ratio:min("step") + 1) or 0
    local begun = loss:slice(0, 3):median("value")
    local later = loss:slice(count // 2, count - count // 2)
    local noise = (later:col("value"):diff():robust_std() or 0) / math.sqrt(2)
    local fifth = math.max(4, count // 5)
    local slack = 2 * noise / math.sqrt(fifth)
    for _, one in ipairs(levels) do
      local level = one.level
      local down  = begun >= (1 + opt.fall) * level
      local even  = (down or far >= opt.travelled) and noise > 1e-5 * level
      -- The three last fifths are at least half of the run.
      for part = 1, 3 do
        local here = loss:slice(count - part * fifth, fifth):mean("value")
        even = even and math.abs(here - level) <= opt.near * level + slack
      end
      -- A model that has learned something ends below, were it by little.
      local finish = loss:slice(count - fifth, fifth):mean("value")
      if even and finish >= level - math.max(slack, 0.2 * opt.near * level) then
        report {
          symptom  = "pairs-at-chance",
          score    = 0.9,
          at       = { run = run, step = loss:first().step },
          message  = ("the loss goes from %.4g to %.4g and stays there, and %s: no row is told from the others by the "
            .. "one that it is paired with%s"):format(begun, finish, one.words, far >= opt.travelled
            and (", though the weights travelled %.2g times their norm"):format(far) or ""),
          evidence = { loss:first(), loss:last(), why },
        }
        return
      end
    end
  end),
}
