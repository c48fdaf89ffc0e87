--- ## What it detects
--- Answers of pairs that the loss does not score as they stand: labels that are not the ids of their own places, where
--- the losses of preference trainers shift by themselves, and a reference that says the answers as an even guess among
--- all tokens would, or worse.
---
--- ## Why it matters
--- The loss of a pair sees only a difference of two log probabilities. It begins at ln 2 and falls whatever tokens they
--- are of, and margins grow, while the policy learns to say the wrong ones.
---
--- ## How to confirm
--- Score one chosen answer by hand, `log_softmax(logits[t])[ids[t + 1]]` summed over the answer, with the reference,
--- and compare it with the logged sum.
---
--- ## Known false positives
--- Each row is judged by itself, by the one distance at which nine in ten of its labels are its ids. A label that is
--- the id before its place is wrong whether the loss shifts or not, and so are two distances in one batch. Labels that
--- are the next ids are right for a loss that does not shift: what the reference's answers cost a token tells, which is
--- no little where the targets are wrong. It is taken as the logged sum less what the reward adds (its value over
--- `beta`), over the mean count of dumped labels, with two errors of that mean. Where log probabilities are logged as
--- means it is far too small, and nothing is said. A model that has learned nothing is at chance as well, as in a test
--- of a script.
---
--- ## References
--- https://github.com/huggingface/trl/blob/v0.11.4/trl/trainer/dpo_trainer.py (get_batch_logps),
--- https://github.com/pytorch/torchtune/blob/main/torchtune/rlhf/sequence_processing.py (get_batch_log_probs)

local runs     = require("runs")
local settings = require("settings")
local sides    = require("sides")

--- The distance at which nine in ten labels of a row are its ids, 0 where they are those of their own places, -1 and 1
--- where they are the ids before and behind; nil where fewer than three count, or two distances fit.
local function distance(ids, labels, ignore)
  local found
  for lag = -1, 1 do
    local equal, places = 0, 0
    for t = math.max(1, 1 - lag), #labels - math.max(0, lag) do
      if labels[t] >= 0 and labels[t] ~= ignore then
        places = places + 1
        if labels[t] == ids[t + lag] then equal = equal + 1 end
      end
    end
    if places >= 3 and equal >= 0.9 * places then
      if found then return nil end
      found = lag
    end
  end
  return found
end

--- What the reference's answers cost on average, in nats a row, and a logged row; nil where that is not logged. The
--- reward is beta times what the policy adds to the reference. Without a beta the first row of the policy, which begins
--- as the reference, has to do.
local function reference_cost(case, run, side, beta)
  local said = runs.series(case, "logps_" .. side, run)
  if said:count() == 0 then return nil end
  if not beta then return -said:first().value, said:first() end
  local rewards = runs.series(case, "rewards_" .. side, run)
  local both = said:select("step", "value"):join(rewards:select("step", "value"), "step")
  if both:count() == 0 then return nil end
  return -(both:mean("value") - both:mean("value_right") / beta), said:first()
end

--- An output with a number for each token that is a probability in all dumps, uneven ones: one of the last such
--- outputs, or nil.
local function probabilities(case, size)
  local found
  for out in case.tensors:where("role == 'output' and nonfinite == 0 and zero_share is not null and numel > ?", size)
    :slice(0, 400):rows() do
    if out.shape[#out.shape] == size and #out.shape >= 2 then
      if out.min < 0 or out.max > 1.0001 or math.abs(out.mean * size - 1) > 1e-3 then return nil end
      found = out
    end
  end
  return found and found.std * size > 0.3 and found or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Answers of pairs are not scored by the tokens that they hold",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-not-next", "labels-equal-inputs", "labels-two-ahead", "reference-at-chance",
    "reference-below-chance", "loss-of-softmaxed-logits" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    share  = { default = 0.1,  doc = "Share of the rows at a wrong distance, worth reporting" },
    chance = { default = 0.85, doc = "Part of the logarithm of the vocabulary that is as much as an even guess costs" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null")
      :where("not match(name, 'battery.*')")
    local pairs_ = dumped:where("match(name, '*chosen_labels|*rejected_labels')"):sort("step")
    local of, rows, example = { [-1] = 0, [0] = 0, [1] = 0 }, 0, {}
    local count = { chosen = {}, rejected = {} } -- labels of each row
    for labels in pairs_:slice(0, 200):rows() do
      local ids = sides.beside(dumped:where { run = labels.run, step = labels.step, variant = labels.variant,
        rank = labels.rank, numel = labels.numel }:where("match(name, '*input_ids')"), labels.name)
      local width = #labels.shape == 2 and math.floor(labels.shape[2]) or 0
      local side = labels.name:glob("*chosen_labels") and "chosen" or "rejected"
      for first = 0, width > 2 and math.min(labels.numel, 65536) - width or -1, width do
        local y, n = labels:values(first, width), 0
        for t = 2, width do n = n + (y[t] >= 0 and y[t] ~= opt.ignore and 1 or 0) end
        if n > 0 then table.insert(count[side], n) end
        local lag = ids and distance(ids:values(first, width), y, opt.ignore)
        if lag then
          of[lag], rows, example[lag] = of[lag] + 1, rows + 1, example[lag] or { labels, ids }
        end
      end
    end

    -- What a token of an answer costs the reference, by the mean count of both sides.
    local beta = settings.number(case, "beta") or settings.number(case, "dpo_beta")
    local size = case.config:where("match(key, '*vocab_size') and number >= 8"):max("number")
    local cost, tokens, squares, n, said = 0, 0, 0, 0, nil
    for side, counts in pairs(count) do
      local own, row = reference_cost(case, run, side, beta)
      cost, said = cost and own and cost + own, said or row
      for _, c in ipairs(counts) do tokens, squares, n = tokens + c, squares + c * c, n + 1 end
    end
    cost = cost and n >= 8 and cost / 2 / (tokens / n) or nil
    local error_ = n >= 8 and math.sqrt(math.max(0, squares / n - (tokens / n) ^ 2) / n) / (tokens / n) or 0
    local even = size and math.log(size)

    local wrong = of[-1] + of[1]
    local least = math.max(4, opt.share * rows)
    if rows < 4 then
      skip("chosen_labels beside chosen_input_ids of four answers in a dumped batch", "labels-not-next",
        "labels-equal-inputs", "labels-two-ahead")
    elseif wrong < least then
      -- Right if the loss shifts, which it does if the reference knows what is scored.
      if not (cost and even) or cost >= opt.chance * even then
        skip("a loss that shifts these labels, which are the ids of their own places: logged logps and rewards of both "
          .. "sides, with beta and vocab_size, under which the reference knows them", "labels-not-next",
          "labels-equal-inputs", "labels-two-ahead")
      end
    elseif of[-1] >= least or of[0] >= least or cost and even and cost >= opt.chance * even then
      local behind = of[-1] >= of[1]
      local e, many = example[behind and -1 or 1], math.max(of[-1], of[1])
      local words = ("in %d of %d answers of the dumped pairs the labels are the ids one place %s"):format(many, rows,
        behind and "before" or "on")
      if behind then
        words = words .. ": a loss that shifts compares a token with what the model says where it is given"
      elseif of[0] >= least then
        words = words .. (", and in %d those of their own places: one loss cannot have both right"):format(of[0])
      else
        words = words .. (", and the loss shifts them again: as it counts them a token costs the reference %.2f nats, "
          .. "and an even guess %.2f"):format(cost, even)
      end
      report { symptom = behind and "labels-equal-inputs" or "labels-two-ahead", score = 0.95,
        at = { run = run, step = e[1].step }, message = words, evidence = { e[1], e[2], said } }
      report { symptom = "labels-not-next", score = 0.95, at = { run = run, step = e[1].step },
        message = ("in %d of %d answers the labels are not what the model is to say next"):format(many, rows),
        evidence = { e[1], e[2] } }
    elseif not (cost and even) then
      skip("logged logps and rewards of both sides, with beta and vocab_size: whether the loss shifts these labels, "
        .. "which are the next ids", "labels-not-next", "labels-equal-inputs", "labels-two-ahead")
    end

    -- A second softmax leaves every token between ln V - 1 and ln (V - 1 + e) nats.
    local most = size and math.log(size - 1 + math.exp(1))
    local doubled = false
    if not (cost and even) then
      return skip("logged logps and rewards of both sides, with beta and vocab_size, and chosen_labels of a dumped "
        .. "batch",
        "reference-at-chance", "reference-below-chance", "loss-of-softmaxed-logits")
    end
    local words = ("the reference gives a token of the answers %.2f nats (%.1f tokens cost %.3g), where an even guess "
      .. "among %d costs %.2f"):format(cost, tokens / n, cost * tokens / n, size, even)
    if cost * (1 - 2 * error_) > most then
      report { symptom = "reference-below-chance", score = 0.9, at = { run = run }, evidence = { said },
        message = words .. ": it was made for other tokens than those that are scored" }
    elseif cost >= math.max(opt.chance * even, even - 1) then
      report { symptom = "reference-at-chance", score = 0.85, at = { run = run }, evidence = { said },
        message = words .. ": of what is scored it knows nothing" }
      local out = probabilities(case, size)
      if out then
        doubled = true
        report { symptom = "loss-of-softmaxed-logits", score = 0.95, at = { run = run, step = out.step },
          message = ("%s holds probabilities, its rows add up to 1, and a token of the answers costs the reference "
            .. "%.2f nats, as those that are taken for logits do (%.2f to %.2f): the softmax is applied twice"):format(
            out.name, cost, even - 1, most), evidence = { out, said } }
      end
    end
    if not doubled then
      skip("an output that is a probability of each token: of logits the sum over an answer does not tell how often "
        .. "they were put through a softmax", "loss-of-softmaxed-logits")
    end
  end),
}
