--- ## What it detects
--- Positions that see later tokens: by the recorder's causal-mask battery (some tokens are changed, and logits of
--- earlier positions move), or by dumped attention weights above the diagonal.
---
--- ## Why it matters
--- With the answer in view the loss falls below anything the data allow, on held-out data too, and generation is
--- garbage.
---
--- ## How to confirm
--- Change the last token of an input: only the last position's logits may move.
---
--- ## Known false positives
--- Encoders and other models that look both ways on purpose; where the config says so nothing is judged. Attention
--- weights are judged only where something says that the model predicts what comes next: settings, labels that are the
--- next tokens, or a mask that other layers, other steps or all but one diagonal still show.
---
--- ## References
--- https://github.com/huggingface/transformers/issues/48745

local causality = require("causality")
local masked = require("masked")
local places = require("places")
local precision = require("precision")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Positions see later tokens",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "future-reaches-past", "future-reaches-one-back" },
  options  = {
    rounding = { default = 10,   doc = "Differences of so many roundings of the largest logit are no leak" },
    mass     = { default = 1e-6, doc = "Share of a query's attention on later keys that is no rounding" },
  },

  run = function(case)
    local opt, values = case.options, case.tensors:where("zero_share is not null")
    local declared = causality.denied(case)
    if declared then
      return skip(("a model that is causal: %s is %s in the config"):format(declared.key, tostring(declared.value)))
    end
    if masked.by(case) then return skip("a model that predicts what comes next: this one predicts masked tokens") end
    local logits = values:where("name == 'battery.causal_mask.logits'")
    local ids    = values:where("name == 'battery.causal_mask.input_ids'")
    local judged, leak = false, nil
    for base in logits:where { variant = "base" }:rows() do
      local function of(rows, variant)
        local found = rows:where { variant = variant }
        if base.step then found = found:where { step = base.step } end
        return found:first()
      end
      local changed, before, after = of(logits, "changed"), of(ids, "base"), of(ids, "changed")
      local by_place = before and after and before:difference_along(after, #before.shape - 1)
      local moved    = changed and base:difference_along(changed, #base.shape - 2)
      local at = nil -- first position with another token, from 0
      for place, d in ipairs(by_place or {}) do
        if d > 0 then at = place - 1 break end
      end
      -- NaN is equal to NaN, and no answer.
      if moved and at and at > 0 and base.nonfinite + changed.nonfinite == 0 then
        judged = true
        local limit = opt.rounding * precision.rounding(case, base.dtype) * math.max(base.absmax or 0, 1e-30)
        local first, largest, later = nil, 0, 0
        for place, d in ipairs(moved) do
          if place - 1 < at then
            if d > limit and not first then first = place - 1 end
            largest = math.max(largest, d)
          else
            later = math.max(later, d)
          end
        end
        -- The change with the most positions before it says most about how far the leak reaches.
        if first and (not leak or at > leak.at) then
          leak = { at = at, first = first, largest = largest, later = later, base = base, changed = changed }
        end
      end
    end
    if leak then
      local layers = case.config:where("match(key, '*n_layer*|*num_layers|*num_hidden_layers') and number is not null")
        :first()
      local reach = leak.at - leak.first
      local step, from = places.start(case, leak.base.step, false)
      local one   = layers and reach <= layers.number and leak.first > 0 or not layers and reach == 1 and leak.at > 1
      report {
        symptom  = "future-reaches-past",
        score    = 0.99,
        at       = { step = step },
        message  = ("changing tokens from position %d on moves the logits of positions %d to %d by up to %s "
          .. "(the changed "
          .. "positions by %s, the largest logit is %s): %s, %s"):format(leak.at, leak.first, leak.at - 1,
          units.number(leak.largest), units.number(leak.later), units.number(leak.base.absmax),
          one and ("each layer sees one token ahead, the mask is off by one")
          or leak.first == 0 and "every position sees all later ones, there is no mask"
          or "positions see later ones", from),
        evidence = { leak.base, leak.changed },
      }
      if one then
        report {
          symptom  = "future-reaches-one-back",
          score    = 0.95,
          at       = { step = step },
          message  = ("the change at position %d reaches %s back, in a model of %s layers, %s"):format(leak.at,
            units.plural(reach, "position"), layers and units.number(layers.number) or "an unknown number of", from),
          evidence = { leak.base, leak.changed },
        }
      end
      return
    end

    -- The first dump that leaks, in it the first layer; a mask is set up once.
    local worst, leaking, clean, layers, count = nil, nil, {}, {}, 0
    local weights = values:where("match(name, '*prob*|*attn_weights*|*attention_weights*') and min >= 0 and max "
      .. "<= 1.001")
    for probs in weights:where("not match(name, ?)", causality.BOTH_WAYS .. "|battery.*"):sort("step"):rows() do
      local keys, queries = probs.shape[#probs.shape], probs.shape[#probs.shape - 1]
      -- Rows of weights add up to 1, so their mean is 1 / keys.
      if queries == keys and keys > 1 and math.abs(probs.mean * keys - 1) < 0.02 then
        judged = true
        local mass = probs:mass_above_diagonal()
        if mass and mass > opt.mass then
          if not worst or mass > worst.mass then worst = { mass = mass, probs = probs } end
          leaking = leaking or { mass = mass, probs = probs }
          local name = probs.layer or probs.name
          if not layers[name] then layers[name], count = true, count + 1 end
        elseif mass and not leaking then clean[probs.name] = true
        end
      end
    end
    local one = worst and worst.probs.shape[#worst.probs.shape] > 2 and worst.probs:mass_above_diagonal(1) <= opt.mass
    if worst and not one and next(clean) == nil and not causality.declared(case) then
      return skip("whether the model predicts what comes next and should have a mask at all: a setting such as "
        .. "is_causal, or a dumped batch with input_ids and labels")
    end
    if worst then
      local first = leaking.probs
      local step, from = places.start(case, first.step, clean[first.name] or false)
      report {
        symptom  = "future-reaches-past",
        score    = 0.97,
        at       = { step = step, layer = first.layer },
        message  = ("in %s one query has %s of its attention on later keys%s, %s%s"):format(first.name,
          units.percent(leaking.mass), one and ", all of it on the next one: the mask is off by one" or ": the "
            .. "mask leaks", from, count < 2 and "" or ("; it is the first of %d layers that do so, the most %s in %s")
            :format(count, units.percent(worst.mass), worst.probs.name)),
        evidence = { first, worst.probs.name ~= first.name and worst.probs or nil },
      }
      if one then
        report {
          symptom  = "future-reaches-one-back",
          score    = 0.95,
          at       = { step = step, layer = first.layer },
          message  = ("%s has no weight beyond the next key, %s"):format(worst.probs.name, from),
          evidence = { worst.probs },
        }
      end
    end
    if not judged then
      skip("the causal-mask battery, battery/causal_mask.base and .changed (culprit_recorder.battery), or "
        .. "dumped attention "
        .. "probabilities")
    end
  end,
}
