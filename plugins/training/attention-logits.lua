--- ## What it detects
--- Attention scores of extreme size, scores that grow without end, and attention that collapses on one key; and whether
--- it was so from the first step.
---
--- ## Why it matters
--- Beyond some tens, softmax is a hard maximum that no gradient leaves. A model that begins so has its scores scaled or
--- its weights initialised wrongly; one that comes to it has a learning rate that is too high, or scores without a
--- limit.
---
--- ## How to confirm
--- Plot the mean entropy of the attention rows over ln(visible keys), and the largest score, by layer.
---
--- ## Known false positives
--- Sharp attention of a trained model is no fault: heads that copy have an entropy near zero, but not the mean of a
--- layer. A first step is judged fresh only where the first logged loss is near that of chance, at whatever step that
--- is, and the config names no weights to start from: beside a new head the loss is near chance too. Scores that fall
--- with the distance (ALiBi) are sharp from the start by design.
---
--- ## References
--- https://arxiv.org/abs/2303.06296 for the collapse of entropy; QK-norm: https://arxiv.org/abs/2302.05442

local places = require("places")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

--- The size of the first step's scores, layer by layer, and the largest of each; nil where none is on record, or a mask
--- was added to them, which is far below any score.
---@param all culprit.Table  scalars of layers
---@return culprit.Table? sizes, culprit.Table? tops
local function begun_scores(all)
  local named = all:where("match(layer, '*scores*|*attn_logits*|*attention_logits*')")
  local first = named:where { metric = "activation_rms" }:sort("step"):first()
  if not first or first.step > 1 then return nil end
  local sizes = named:where { metric = "activation_rms", step = first.step }
  local tops  = named:where { metric = "activation_max", step = first.step }
  if tops:count() == 0 or tops:max("value") > 5000 then return nil end
  return sizes, tops
end

--- Reports scores that are large from the first step of a model that may be fresh. Returns whether they are, nil where
--- that is not on record.
---@param case culprit.Case
---@param run string?
---@param all culprit.Table  scalars of layers
---@param new boolean        whether nothing says that the model knows something
---@return boolean?
local function judge_first_scores(case, run, all, new)
  local sizes, tops = begun_scores(all)
  if not sizes or not new then return nil end
  local usual, limit = sizes:median("value"), case.options.spread
  if usual < limit then return false end
  local under = sizes:where("value >= ?", limit)
  report {
    symptom  = "attention-sharp-at-start",
    score    = usual >= 2 * limit and 0.9 or 0.8,
    at       = { run = run, layer = under:first().layer, layers = places.layers_of(under), step = under:first().step },
    message  = ("at step %d the attention scores of %s have a root mean square of %.3g, up to %.4g; a fresh model's "
      .. "are about 1, and at some tens each row looks at one place"):format(under:first().step,
      units.plural(sizes:count(), "layer"), usual, tops:max("value")),
    evidence = { under:slice(0, 5) },
  }
  return true
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention scores grow or saturate",
  needs    = { scalars = { "step", "value", "layer",
    metric = { "max_attention_logit", "attention_entropy_share", "activation_max" } } },
  symptoms = { "attention-logits-large", "attention-logits-grow", "attention-entropy-collapse",
    "attention-sharp-at-start" },
  options  = {
    large    = { default = 1000.0, doc = "Largest attention score that is extreme" },
    growth   = { default = 10.0,   doc = "Factor from two fifths of the run on that is growth without end" },
    collapse = { default = 0.10,   doc = "Mean entropy over ln(keys) that is collapsed" },
    spread   = { default = 40.0,   doc = "Root mean square of a fresh model's scores from which softmax is a maximum" },
    fresh    = { default = 0.70,   doc = "The same at the first step of a fresh model that is too sharp" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local all = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local scores  = all:where { metric = "max_attention_logit" }
    local entropy = all:where { metric = "attention_entropy_share" }
    if scores:count() == 0 then
      scores = all:where { metric = "activation_max" }
        :where("match(layer, '*scores*|*attn_logits*|*attention_logits*|*max_logit*')")
    end
    if scores:count() + entropy:count() == 0 then
      return skip("attention scores or their entropy: record the layer before softmax")
    end

    if scores:count() == 0 then
      skip("attention scores: record the layer before softmax", "attention-logits-large", "attention-logits-grow")
    end
    local top = scores:top(1, "value"):first()
    if top and top.value >= opt.large then
      -- The first step at which a layer is over the limit, and of these layers the first in forward order.
      local start = scores:where("value >= ?", opt.large):sort("step"):first()
      local same  = start.layer == top.layer and start.step == top.step
      report {
        symptom  = "attention-logits-large",
        score    = 0.9,
        at       = { run = run, layer = start.layer, step = start.step,
          layers = places.layers_of(scores:where("value >= ?", opt.large)) },
        message  = ("attention scores of %s reach %.5g at step %d%s; beyond some tens softmax is a hard maximum")
          :format(start.layer, start.value, start.step, same and "" or (" and %s%.5g at step %d"):format(
          start.layer == top.layer and "" or "those of " .. top.layer .. " ", top.value, top.step)),
        evidence = { start, not same and top or nil },
      }
    end

    local grown, followed
    for layer, values in scores:group("layer") do
      local series = values:sort("step")
      if series:count() >= 5 then
        followed = true
        local from = series:row((2 * series:count()) // 5)
        local peak = series:where("step >= ?", from.step):top(1, "value"):first()
        local factor = from.value > 0 and peak.value / from.value or 0
        -- Below some tens scores are only finding their level.
        if factor >= opt.growth and peak.value >= 50 and (not grown or factor > grown.factor) then
          grown = { layer = layer, from = from, peak = peak, factor = factor }
        end
      end
    end
    if grown then
      report {
        symptom  = "attention-logits-grow",
        score    = 0.85,
        at       = { run = run, layer = grown.layer, step = grown.peak.step },
        message  = ("attention scores of %s grow from %.4g at step %d to %.4g at step %d"):format(grown.layer,
          grown.from.value, grown.from.step, grown.peak.value, grown.peak.step),
        evidence = { grown.from, grown.peak },
      }
    end

    if not followed then skip("attention scores of at least 5 steps", "attention-logits-grow") end

    local first = entropy:sort("step"):first()
    local size  = targets.classes(case)
    local loss  = runs.series(case, "loss"):first()
    -- Scores that fall with the distance by design, or are cosines times a scale, begin sharp.
    local biased = settings.on(case.config:where("match(key, '*alibi*|*qk_norm*|*cosine_att*|*kerple*|"
      .. "*position_bias*|*retention*')")):count() > 0
      or case.config:where("match(value, '*alibi*|*ALiBi*|*retnet*|*RetNet*')"):count() > 0
    local told = judge_first_scores(case, run, all, not biased and not settings.loaded(case)
      and (not size or not loss or loss.value > 0.8 * math.log(size.number)))
    if not first then
      skip("the entropy of attention", "attention-entropy-collapse")
      if told == nil then
        skip("the entropy of attention, or scores before the mask, of a fresh model's first step",
          "attention-sharp-at-start")
      end
      return
    elseif told then
      return
    end
    if first.step > 1 then skip("the entropy of attention at the first step", "attention-sharp-at-start") end
    local begun = entropy:where { step = first.step }
    -- A loss that is near chance when it is first logged was no better before. Beside a new head it is near chance as
    -- well, whatever the attention below has learned elsewhere.
    local fresh = first.step <= 1 and size and loss and loss.value > 0.8 * math.log(size.number)
      and not settings.loaded(case)
    local limit = fresh and not biased and opt.fresh or opt.collapse
    -- Cosines times a scale that a setting has at 10 and more are sharp by choice.
    local chosen = biased and case.config:where("match(key, '*max_logit_scale*|*attn*scale*|*attn*temp*|"
      .. "*attention*temp*') and number >= 10"):first()
    local sharp = not chosen and begun:median("value") < limit and first.step <= 1
    if sharp then
      local under = begun:where("value < ?", limit)
      local least = begun:sort("value"):first()
      report {
        symptom  = "attention-sharp-at-start",
        score    = begun:median("value") < 0.3 and 0.95 or 0.85,
        at       = { run = run, layer = under:first().layer, layers = places.layers_of(under), step = first.step },
        message  = ("at step %d the attention of %s has %s of the entropy of an even one; a fresh model has all of "
          .. "it%s")
          :format(first.step, units.plural(begun:count(), "layer"), units.percent(begun:median("value")),
          under:count() < 2 and "" or ("; %s is the first of %d that are so, %s has the least, %s"):format(
          under:first().layer, under:count(), least.layer, units.percent(least.value))),
        evidence = { begun:slice(0, 5) },
      }
      return
    end
    local low, least, fallen_in = nil, nil, {}
    for layer, values in entropy:group("layer") do
      local series = values:sort("step")
      local began  = series:first().value
      local fallen = series:where("value < ?", math.min(opt.collapse, 0.3 * began))
      if began > 0.5 and fallen:count() >= 2 then
        local one = { layer = layer, rows = fallen, began = began, step = fallen:first().step,
          least = fallen:min("value"), open = (series:where("step < ?", fallen:first().step):last()
            or fallen:first()).step }
        fallen_in[#fallen_in + 1] = layer
        if not low or one.step < low.step then low = one end
        if not least or one.least < least.least then least = one end
      end
    end
    -- Where each key asks for one other sharp attention is the solution, and the loss goes on falling along with it,
    -- from the last look on at which it was not sharp yet.
    local since  = low and runs.series(case, "loss"):where("finite(value) and step >= ?", low.open)
    local tenth  = since and math.max(1, since:count() // 10)
    local learns = since and since:count() >= 5
      and since:slice(since:count() - tenth, tenth):median("value") < 0.8 * since:slice(0, tenth):median("value")
    if low and learns then
      skip(("attention that learns nothing more: the loss falls on behind step %d, and it is sharp from step %d on")
        :format(low.open, low.step), "attention-entropy-collapse")
    elseif low then
      report {
        symptom  = "attention-entropy-collapse",
        score    = 0.9,
        at       = { run = run, layer = low.layer, layers = fallen_in, step = low.step },
        message  = ("the attention of %s has %s of the entropy of an even one from step %d on, and had %s at the "
          .. "start%s"):format(low.layer, units.percent(low.rows:median("value")), low.step, units.percent(low.began),
          #fallen_in < 2 and "" or ("; it is the first of %d layers that are so, %s has the least, %s"):format(
          #fallen_in, least.layer, units.percent(least.least))),
        evidence = { low.rows:slice(0, 5) },
      }
    end
  end),
}
