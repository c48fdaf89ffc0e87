--- ## What it detects
--- Of a dump with logits, labels and the attention weights of all layers: the wrong prediction that was made with the
--- most confidence, and which tokens it draws on, by following the attention down through the layers (attention
--- rollout).
---
--- ## Why it matters
--- A wrong answer that rests on padding, on another document or on the first token alone has another cause than one
--- that rests on the words that mislead a reader too.
---
--- ## How to confirm
--- Replace one of the named tokens and look whether the prediction changes.
---
--- ## Known false positives
--- A dump beside a training loss is not looked at: a model in training is wrong in many places. It is information
--- only: attention is not the whole of what a prediction rests on, and half of each step is assumed to pass along the
--- residual stream.
---
--- ## References
--- Abnar and Zuidema (2020), Quantifying Attention Flow in Transformers: https://arxiv.org/abs/2005.00928

local NAMES =
  "match(name, '*attn*prob*|*attention*prob*|*attn_weights*|*attention_weights*|*attentions*|*.probs.output') "
  .. "and not match(name, '*router*|*gate*|*expert*') "
  .. "and not match(name, 'battery.*|*cross*') and not match(role, 'weight|grad|state') and min >= 0 and nonfinite == 0"

--- The largest logit of a position and its probability, and that of the label.
local function prediction(logits, position, width, label)
  local line, best = logits:values(position * width, width), 1
  for i = 2, width do if line[i] > line[best] then best = i end end
  local sum = 0
  for i = 1, width do sum = sum + math.exp(line[i] - line[best]) end
  return best - 1, 1 / sum, label < width and math.exp(line[label + 1] - line[best]) / sum or 0
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "What the most confident wrong prediction draws on",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "wrong-prediction-sources" },
  options  = {
    sure     = { default = 0.5,    doc = "Probability from which on a wrong prediction is confident" },
    elements = { default = 200000, doc = "Logits of a row up to which it is searched" },
  },

  run = function(case)
    local opt, values = case.options, case.tensors:where("zero_share is not null")
    local judged = false
    if case.scalars:where("name == 'loss'"):count() > 0 then
      return skip("a dump of an answer: in training one wrong prediction is nothing special")
    end
    local depth  =
      case.config:where("match(key, '*n_layer|*n_layers|*num_layers|*num_hidden_layers') and number > 0"):first()
    for step, here in values:group("step") do
      local weights = here:where(NAMES):sort("order")
      local labels  = here:where("match(name, 'batch.labels|*.labels|labels') and match(dtype, 'int*')"):first()
      local ids     = here:where("match(name, '*input_ids') and match(dtype, 'int*')"):first()
      local logits  = here:where("match(name, '*head.output|*logits') and nonfinite == 0"):last()
      local places  = labels and labels.shape[#labels.shape]
      local width   = logits and logits.shape[#logits.shape]
      if weights:count() >= (depth and depth.number or 1) and labels and ids and logits and #logits.shape >= 2 and
        width <= 10000 and places > 1
        and logits.shape[#logits.shape - 1] == places and places * width <= opt.elements then
        -- Labels as the loss gets them stand at their own position, or at that of their token.
        local shift = ids.numel == labels.numel and (labels:equal_share(ids, 0, -100) or 0) > 0.9 and 1 or 0
        local wanted, worst = labels:values(0, places), nil
        for position = 0, places - 1 - shift do
          local label = wanted[position + shift + 1]
          if label >= 0 then
            local best, p, own = prediction(logits, position, width, label)
            if best ~= label and p >= opt.sure and (not worst or p > worst.p) then
              worst = { at = position, best = best, p = p, label = label, own = own }
            end
          end
        end
        judged = true
        local shares = worst and weights:attention_rollout(worst.at)
        if shares and #shares == places then
          local order, tokens = {}, ids:values(0, places)
          for place, share in ipairs(shares) do table.insert(order, { place = place - 1, share = share }) end
          table.sort(order, function(a, b) return a.share > b.share end)
          local list = {}
          for i = 1, math.min(4, #order) do
            if order[i].share >= 0.02 then
              table.insert(list, ("position %d (id %d) %s"):format(order[i].place, tokens[order[i].place + 1],
                units.percent(order[i].share)))
            end
          end
          report {
            symptom  = "wrong-prediction-sources",
            score    = 0.5,
            severity = "info",
            at       = { step = step, token = worst.at },
            message = ("position %d predicts id %d with %s where id %d is right (%s); over %s it draws on "
              .. "%s"):format(worst.at,
              worst.best, units.percent(worst.p), worst.label, units.percent(worst.own),
              units.plural(weights:count(), "layer"), table.concat(list, ", ")),
            evidence = { logits, weights:slice(0, 3) },
          }
          return
        end
      end
    end
    if not judged then
      skip("logits, labels, input_ids and the attention probabilities of all layers of one row, in one dump")
    end
  end,
}
