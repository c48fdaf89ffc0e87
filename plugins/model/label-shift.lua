--- ## What it detects
--- Labels that are shifted twice: in the dumped batch they already are the next tokens, and the loss of that step is
--- the cross-entropy of each logit with the label one place further on; or they are the tokens themselves, as models
--- take them that shift by themselves, and the loss is that with the label two places on.
---
--- ## Why it matters
--- Data set, collator and loss each may shift; the model learns to skip a token if two of them do, and no shape or
--- error shows it. Which label a logit is compared with stands in the value of the loss.
---
--- ## How to confirm
--- Compute the cross-entropy of one dumped batch by hand, of `logits[:, :-1]` with `labels[:, 1:]` and of `logits` with
--- `labels`: the loss is one of the two.
---
--- ## Known false positives
--- Heads that predict further tokens on purpose, where neither the config nor their name says so. Rows that hold two
--- streams by turns, of which the token after the next is the next of its own, are left out.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/data_collator

local logits_of = require("logits")
local masked = require("masked")
local places = require("places")
local token_labels = require("token-labels")

--- Heads for tokens further on, and encoders that are given other ids than they are to put out.
local AHEAD = "match(key, '*n_future*|*future_tokens*|*predict_ahead*|*prediction_horizon*|*mtp*|*multi_token*|"
  .. "*num_nextn*|*medusa*|*eagle*|*is_encoder_decoder|*mlm*') and (number > 0 or match(value, 'true|True'))"

--- How many places on the labels that count stand in the inputs: 1 where they are the next tokens and not their own, 0
--- where they are their own and not the next ones; nil where neither is so.
---@param ids culprit.Row
---@param labels culprit.Row
---@return integer?
local function lies(ids, labels, ignore)
  local width = math.floor(labels.shape[#labels.shape])
  local n = math.min(labels.numel, 8192) // width * width
  local x, y, own, ahead, count = ids:values(0, n), labels:values(0, n), 0, 0, 0
  for i = 1, n do
    if y[i] >= 0 and y[i] ~= ignore and i % width ~= 0 then
      count = count + 1
      if y[i] == x[i] then own = own + 1 end
      if y[i] == x[i + 1] then ahead = ahead + 1 end
    end
  end
  if count < 16 then return nil end
  return ahead >= 0.9 * count and own < 0.5 * count and 1 or own >= 0.9 * count and ahead < 0.5 * count and 0 or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss shifts labels that are the next tokens already",
  needs    = { tensors = { "name", role = { "value", "output" }, "shape" } },
  symptoms = { "labels-two-ahead", "labels-not-next" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    apart  = { default = 1.0,  doc = "Nats between both cross-entropies that tell which of them the loss is" },
  },

  run = function(case)
    local opt = case.options
    local further = case.config:where(AHEAD):first()
    if further then return skip("a model of the next token alone: " .. further.key .. " is set in the config") end
    if masked.by(case) then return skip("a model that predicts what comes next: this one predicts masked tokens") end
    local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null and "
      .. "not match(name, 'battery.*')")
    local here, further_on, found = 0, 0, nil
    for labels in dumped:where("match(name, '*labels|*targets') and numel >= 32"):sort("step"):slice(0, 40):rows() do
      local shape = labels.shape or {}
      local ids = #shape == 2 and shape[2] > 2 and dumped:where { run = labels.run, step = labels.step,
        variant = labels.variant, rank = labels.rank, numel = labels.numel }
        :where("match(name, '*input_ids|*tokens')"):first()
      local at = ids and lies(ids, labels, opt.ignore)
      local logits = at and logits_of.of(case, labels)
      local dump = logits and case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant }
        :where("match(name, 'loss.output') and numel == 1"):first()
      local row = logits and not dump and labels.step
        and case.scalars:where { name = "loss", primary = true, step = labels.step }:first()
      local value = dump and dump.mean or row and row.value
      local own, ahead = nil, nil
      if value and value == value then
        own, ahead = logits:cross_entropy(labels, 1 - at, opt.ignore), logits:cross_entropy(labels, 2 - at, opt.ignore)
      end
      if own and ahead and own == own and ahead == ahead then
        -- Of n labels a cross-entropy is known to some nats by the root of n: the dump may hold a part of the batch.
        local counted = math.max(1, labels.numel - labels:count_equal(opt.ignore))
        local apart = math.abs(own - ahead)
        if apart >= math.max(opt.apart, 10 / math.sqrt(counted)) then
          if math.abs(value - own) <= 0.2 * apart then here = here + 1 end
          -- What a loss is of is what the model gets better at.
          if ahead < own and math.abs(value - ahead) <= 0.2 * apart then
            further_on = further_on + 1
            found = found or { labels = labels, ids = ids, logits = logits, value = value, own = own, ahead = ahead,
              at = at, loss = dump or row }
          end
        end
      end
    end
    if here + further_on == 0 then
      return skip("logits beside the batch of a step, of a model that tells the next token from the one after it, and "
        .. "the loss of that step (culprit_recorder.watch)")
    end
    if not found or here > 0 then return end
    if token_labels.by_turns({ { found.ids, found.labels } }) then
      return skip("rows of one stream: by turns these hold two, and the token after the next is the next of its own")
    end
    local step, from = places.start(case, found.labels.step, false)
    report {
      symptom  = "labels-two-ahead",
      score    = 0.97,
      at       = { step = step },
      message  = ("the labels at step %s are the %s, and the loss of %s is the cross-entropy of the logits "
        .. "with the labels %s on (%s; with %s it is %s): they are shifted twice, %s"):format(
        tostring(found.labels.step), found.at == 1 and "next tokens" or "tokens at their own places",
        units.number(found.value), found.at == 1 and "one place" or "two places", units.number(found.ahead),
        found.at == 1 and "their own" or "those of the next tokens", units.number(found.own), from),
      evidence = { found.logits, found.labels, found.ids, found.loss },
    }
    report {
      symptom  = "labels-not-next",
      score    = 0.97,
      at       = { step = step },
      message  = ("in %s the loss compares logits with the token after the next"):format(units.plural(further_on,
        "dumped batch", "dumped batches")),
      evidence = { found.logits, found.labels },
    }
  end,
}
