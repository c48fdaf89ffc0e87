--- ## What it detects
--- Where dumped attention weights lie: on padding, all on the first token in every head of a layer at every query, or
--- spread evenly in every head of one layer while other layers are sharp. The share of the first token is told as
--- information.
---
--- ## Why it matters
--- Weight on padding makes an answer depend on the batch it was computed in. A layer whose heads all look at one token,
--- or at all alike, passes nothing on about the text.
---
--- ## How to confirm
--- Change the padding token, or a token in the middle of the text: logits must not move, and must move.
---
--- ## Known false positives
--- Trained models put half of their weight and more on the first token (an attention sink), and some heads nearly all
--- at most queries: healthy. An untrained model attends evenly in all layers: not reported. A layer that looks at the
--- first token alone can be pruned by training; it is a warning.
---
--- ## References
--- Xiao et al. (2023), Efficient Streaming Language Models with Attention Sinks: https://arxiv.org/abs/2309.17453
--- Gu et al. (2024), When Attention Sink Emerges in Language Models: https://arxiv.org/abs/2410.10781

local attention = require("attention")

local NAMES = attention.NAMES .. " and not match(name, 'battery.*|*cross*')"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention lies on padding, on the first token alone, or on everything alike",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "attention-on-padding", "attention-all-on-first", "attention-uniform", "attention-sink" },
  options  = {
    padding = { default = 1e-3,  doc = "Share of a query's weight on padding that is no rounding" },
    first   = { default = 0.98,  doc = "Share of the first token at every query of every head that says nothing else" },
    even    = { default = 0.999, doc = "Entropy over its largest value from which on a head is even" },
    sharp   = { default = 0.9,   doc = "Such entropy of the median layer below which the model is trained" },
    sink    = { default = 0.5,   doc = "Mean share of the first token worth a mention" },
    keys    = { default = 8,     doc = "Fewest keys to judge by" },
  },

  run = function(case)
    local opt, values, done = case.options, case.tensors:where("zero_share is not null"), 0
    local layers, on, masked = {}, nil, 0
    for probs in values:where(NAMES):rows() do
      if done + probs.numel > attention.ELEMENTS then break end
      local keys = #probs.shape >= 2 and probs.shape[#probs.shape] or 0
      local mask, mark = attention.padding(case, values, probs)
      local marked = mask and probs:attention_heads(mask, mark)
      local heads  = keys >= opt.keys and (marked or probs:attention_heads()) or nil
      if heads and heads:has("entropy") then
        done = done + probs.numel
        local lines = probs.shape[#probs.shape - 1]
        if marked then
          masked = masked + 1
          local top = heads:top(1, "marked_max"):first()
          if top and top.marked_max > opt.padding and (not on or top.marked_max > on.head.marked_max) then
            on = { head = top, probs = probs, share = heads:mean("marked"), n = heads:where("marked_max > ?",
              opt.padding)
              :count(), all = heads:count() }
          end
        end
        if lines >= opt.keys // 2 then
          table.insert(layers, { probs = probs, entropy = heads:mean("entropy"), even = heads:min("entropy"),
            sink = heads:mean("sink"), least = heads:min("sink_min"), heads = heads })
        end
      end
    end
    if done == 0 then
      return
        skip(("attention probabilities over %d keys or more (output_attentions, or the recorder)"):format(opt.keys))
    end

    if on then
      report {
        symptom  = "attention-on-padding",
        score    = 0.97,
        at       = { step = on.probs.step, layer = on.probs.layer, token = on.head.marked_query },
        message = ("in %s head %d of row %d, query %d has %s of its weight on padding; so in %d of %s, %s of all "
          .. "weight"):format(
          on.probs.name, on.head.head, on.head.row, on.head.marked_query, units.percent(on.head.marked_max), on.n,
          units.plural(on.all, "head"), units.percent(on.share)),
        evidence = { on.probs },
      }
    end
    local all, sinks, largest = {}, 0, nil
    for _, layer in ipairs(layers) do
      table.insert(all, layer.entropy)
      if layer.sink and layer.sink >= opt.sink then sinks = sinks + 1 end
      if layer.sink and (not largest or layer.sink > largest.sink) then largest = layer end
    end
    table.sort(all)
    local usual = all[(#all + 1) // 2]
    for _, layer in ipairs(layers) do
      if layer.least and layer.least >= opt.first then
        report {
          symptom  = "attention-all-on-first",
          score    = 0.85,
          severity = "warning",
          at       = { step = layer.probs.step, layer = layer.probs.layer },
          message = ("in %s every head gives every query's weight to the first token, %s of it at least: the layer "
            .. "passes "
            .. "nothing on about the text"):format(layer.probs.name, units.percent(layer.least)),
          evidence = { layer.probs },
        }
      elseif layer.even >= opt.even and usual < opt.sharp then
        report {
          symptom  = "attention-uniform",
          score    = 0.85,
          severity = "warning",
          at       = { step = layer.probs.step, layer = layer.probs.layer },
          message = ("in %s every head spreads its weight evenly (entropy %s of the largest possible), while the "
            .. "median "
            .. "layer is at %s: queries and keys tell nothing apart there"):format(layer.probs.name,
            units.percent(layer.even), units.percent(usual)),
          evidence = { layer.probs },
        }
      end
    end
    if largest and largest.sink >= opt.sink then
      report {
        symptom  = "attention-sink",
        score    = 0.7,
        severity = "info",
        at       = { step = largest.probs.step, layer = largest.probs.layer },
        message = ("the first token takes %s of the weight in %s and half or more in %d of %s: a sink, as trained "
          .. "models "
          .. "have"):format(units.percent(largest.sink), largest.probs.name, sinks, units.plural(#layers, "layer")),
        evidence = { largest.probs },
      }
    end
    if masked == 0 then skip("attention_mask or pad_token_id beside the weights", "attention-on-padding") end
    if #layers == 0 then
      skip(("attention weights of %d queries or more"):format(opt.keys // 2), "attention-all-on-first",
        "attention-uniform", "attention-sink")
    end
  end,
}
