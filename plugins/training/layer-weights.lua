--- ## What it detects
--- Layers whose weights never change while other layers of the same model do, and whether they have a gradient. Where
--- a layer is logged together with others, or the model as a whole, a share of its elements that stays the same to four
--- digits at every step while the rest moves; of the model's, a checkpoint tells by its sizes which part has that
--- share.
---
--- ## Why it matters
--- A layer that gets a gradient and never moves is missing from the optimizer, or its updates vanish in rounding; one
--- that gets none is frozen or cut off. Where the recorder's list says that a parameter has requires_grad off, a
--- gradient that is logged for it is an old one, and nothing that the optimizer should have used.
---
--- ## How to confirm
--- Compare two checkpoints tensor by tensor, and look the layer up in `optimizer.param_groups`.
---
--- ## Known false positives
--- Layers that are frozen on purpose and not declared. Layers named in a `freeze` setting of the config are left out,
--- as is all but the adapters where the config speaks of LoRA. Rows of an embedding for tokens that no text has: a
--- layer of such a name is not judged in part, nor one whose units are dead or whose weights started at zero. Updates
--- are of the steps that are logged: a layer that is stepped at others, by turns with the rest, has another weight norm
--- from row to row, and does change. A layer whose gradient comes at every step and is exactly 0, so that the optimizer
--- counts its updates, as an output that no label asks for, is neither frozen nor left out, and nothing is said of it;
--- nor of one whose second moment is 0 although its updates are counted, nor of a factor of a low-rank pair (LoRA) that
--- has no gradient because the other factor is zero.
---
--- An output behind all that learns, beside another one that does, is one that no loss asks for; what a group of the
--- optimizer holds whose rate is 0 in each checkpoint is kept; of less than a fiftieth of the model it is a fact alone.
---
--- ## References
--- https://github.com/huggingface/trl/issues/6700

local freezing = require("freezing")
local held = require("held")
local lists = require("lists")
local runs = require("runs")
local settings = require("settings")
local sizes = require("weights-by-size")

--- What a checkpoint says of the share of a model that never changes: the layer and its like, or whether no part has
--- it, and how that is said.
local function whose_share(case, run, share)
  local part, none = sizes.of_share(case, run, share)
  if part then
    return { layer = part.layer, said = ("; by the sizes of a checkpoint these are the %s of %s%s"):format(
      units.count(part.elements), part.upto and "all up to " or "", part.layer) }
  end
  local layers, moments, weights = sizes.without_moments(case, run, share)
  if layers then
    return { layer = layers[1], layers = layers, said = ("; as large a share are the %d of %d weights of which the "
      .. "optimizer of the checkpoint has no moments, by their shapes among them those of %s"):format(weights - moments,
      weights, lists.first(layers, 6)) }
  end
  local same, step = sizes.same_in_two(case, run, share)
  if same then
    return { layer = same[1], layers = same, said = ("; the same to the last bit in the checkpoint of step %d and in "
      .. "another are those of %s"):format(step, lists.first(same, 6)) }
  end
  return { none = none, said = none and "; by the sizes of a checkpoint no module has that share" or "" }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Some layers never change while others do",
  needs    = { scalars = { "step", "value", metric = "update_ratio" } },
  symptoms = { "layer-weights-unchanged", "layer-unchanged-despite-gradient" },
  options  = {
    min_rows = { default = 3, doc = "Logged steps below which a layer is not judged" },
    part     = { default = 0.2, doc = "Share of a layer's elements that is a part of it" },
    model    = { default = 0.02, doc = "Share of a model's elements that is a part of it" },
  },

  run = runs.apart(function(case, run)
    local all      = case.scalars:where { primary = true }:where("finite(value)")
    local layered  = all:where("layer is not null")
    local declared, uncalled = freezing.declared(case), freezing.uncalled(layered)
    local flagged, known = freezing.flagged(case)

    -- Decay moves what has a gradient of zero, and not what the optimizer leaves out. Without it the two look alike.
    local decays = (settings.number(case, "weight_decay") or 0) > 0

    -- No layers on record: all weights together.
    if layered:where { metric = "update_ratio" }:count() == 0 then
      local shares = all:where { metric = "unchanged_share" }:where("layer is null")
      local share, known = freezing.still(shares, all:where { metric = "update_ratio" }:where("layer is null"),
        case.options.model)
      local frozen = case.config:where("match(key, '*freeze*|*frozen*|*lora*|*peft*|*adapter*')")
        :where("not match(value, 'false|False|none|None|0|[]')"):count() > 0
      if not known or frozen then
        return skip("update ratios of layers at 3 steps or more, or unchanged_share and update_ratio of the model at 4")
      end
      skip("update ratios and gradient norms of layers", "layer-unchanged-despite-gradient")
      if share then
        local whose = whose_share(case, run, share)
        -- Of many layers a part stands still by itself: units that are silent, rows that no batch asks for, kernels
        -- over padding; beside a decay too, which skips norms, biases and places. What was frozen is whole modules,
        -- though it may be several.
        report {
          symptom  = "layer-weights-unchanged",
          score    = not whose.layer and (whose.none and not decays and 0.3 or 0.4) or decays and 0.85 or 0.6,
          at       = { run = run, layer = whose.layer, layers = whose.layers, step = shares:sort("step"):first().step },
          message  = ("%s of the model's weights never change: the same share at all of %d logged steps, while "
            .. "the rest does%s"):format(units.percent(share), shares:count(), whose.said),
          evidence = { shares:slice(0, 5) },
        }
      end
      return
    end

    ---@type string[], string[], integer, integer, culprit.Table?, culprit.Table?
    local still, pushed, moving, judged, example, push = {}, {}, 0, 0, nil, nil
    local part, between, given = nil, 0, 0 -- given: layers that were given nothing to move by
    local states = {} -- whether a layer stands still, in the order of the forward pass
    for layer, values in layered:where { metric = "update_ratio" }:group("layer") do
      if values:count() >= case.options.min_rows and not declared(layer) then
        judged = judged + 1
        local grads = layered:where { metric = "grad_norm", layer = layer }
        -- Norms have four digits. What moves them was an update of a step that is not logged.
        local norms = layered:where { metric = "weight_norm", layer = layer }
        local moved = norms:count() > 1 and norms:max("value") - norms:min("value") > 3e-4 * norms:max("value")
        if values:max("value") == 0 and moved then
          between = between + 1
        elseif values:max("value") == 0 and (freezing.rest(layered, layer) or uncalled(layer)
          or freezing.given_zero(layered, layer)
          or (grads:count() == 0 or grads:max("value") == 0) and freezing.shut(layered, layer)) then
          given = given + 1
        elseif values:max("value") == 0 then
          still[#still + 1] = layer
          states[#states + 1] = { layer = layer, dead = true }
          example = example or values
          -- With requires_grad off .grad is what was left there before.
          if not flagged(layer) and grads:count() > 0 and grads:median("value") > 0 then
            pushed[#pushed + 1] = layer
            push = push or grads
          end
        elseif values:median("value") > 0 then
          moving = moving + 1
          states[#states + 1] = { layer = layer, dead = false }
          part = part or freezing.part(layered, layer, case.options.part, case)
        end
      end
    end
    -- What is zero has no ratio; a factor of LoRA that stays so in spite of a gradient is not moved. Nothing is lost in
    -- rounding beside a zero, and what the optimizer counts updates of, it holds.
    for layer, moves in layered:where { metric = "update_rms" }:where("match(layer, '*lora_*')"):group("layer") do
      local own   = layered:where { layer = layer }
      local size  = own:where { metric = "weight_norm" }
      local grads = own:where { metric = "grad_norm" }
      if own:where { metric = "update_ratio" }:count() == 0 and moves:count() >= case.options.min_rows
        and moves:max("value") == 0 and size:count() > 0 and size:max("value") == 0 and not flagged(layer)
        and grads:count() > 0 and grads:median("value") > 0
        and own:where { metric = "optimizer_state_step" }:count() == 0 then
        judged, still[#still + 1], pushed[#pushed + 1] = judged + 1, layer, layer
        states[#states + 1] = { layer = layer, dead = true }
        example, push = example or moves, push or grads
      end
    end
    if judged == 0 then return skip("update ratios of layers at 3 steps or more") end
    if #still == 0 and moving == 0 and between > 0 then
      return skip("updates of the steps between those that are logged, at which alone these layers move")
    end
    if #still == 0 and given == 0 and part and moving > 1 then
      local little = freezing.little(case, run, { part.layer })
      report {
        symptom  = "layer-weights-unchanged",
        severity = little and "info" or nil,
        score    = little and 0.3 or decays and 0.9 or 0.6,
        at       = { run = run, layer = part.layer, step = part.rows:first().step },
        message  = ("%s of what is logged as %s never changes: the same share at all of %d logged steps, while the "
          .. "rest of it does, and %d other%s"):format(units.percent(part.share), part.layer, part.rows:count(),
          moving - 1, moving == 2 and "" or "s"),
        evidence = { part.rows:slice(0, 5) },
      }
      return skip("gradient norms by tensor", "layer-unchanged-despite-gradient")
    end
    if #still == 0 then return end
    local kept = known and freezing.kept(case, states, flagged)
    if kept then
      return skip(("layers that are to move: those that stand still have requires_grad off, and are %s"):format(kept))
    end
    if moving == 0 then return skip("a layer that moves: none does, which is another check's") end
    local came = 0
    for _, layer in ipairs(still) do came = came + (freezing.came(layered, layer) and 1 or 0) end
    if came == #still then
      return skip(("layers that are to move: %s got a gradient at every step, which was 0, and neither is frozen nor "
        .. "left out"):format(lists.first(still, 4)))
    end

    -- A group whose rate is 0 in each file keeps what it holds; that of a warm-up or a decay is 0 in one of them.
    local shut = false
    local rates = case.config:where("match(key, '*param_groups.*.lr') and number is not null")
    for _, rows in rates:group("key") do shut = shut or rows:max("number") == 0 end
    if shut and rates:max("number") > 0 and #pushed == #still then
      return skip(("layers whose rate is above zero: %s has a gradient, and a group of the optimizer a rate of 0")
        :format(lists.first(pushed, 4)))
    end
    local idle = #pushed == 0 and not flagged(still[1]) and (known or not held.without(case, #still))
      and freezing.idle_output(case, states)
    if idle then
      return skip(("layers that the loss needs: %s alone stands still, an output behind all that learns"):format(idle))
    end
    if freezing.places_alone(still) and #pushed == 0 then
      return skip(("layers that the loss needs: %s alone stand still, which the model may not use"):format(
        lists.first(still, 4)))
    end
    local little = #pushed == 0 and freezing.little(case, run, still)
    report {
      symptom  = "layer-weights-unchanged",
      severity = little and "info" or nil,
      score    = little and 0.3 or #pushed == 0 and freezing.aside(still, moving, flagged) and 0.5 or 0.95,
      at       = { run = run, layer = still[#still], layers = still, step = example:first().step },
      message  = ("the weights of %s never change over %d logged steps (%s), those of %d other%s do"):format(
        units.plural(#still, "layer"), example:count(), lists.first(still, 6), moving, moving == 1 and "" or "s"),
      evidence = { example:slice(0, 5) },
    }
    if #pushed == 0 and layered:where { metric = "grad_norm", layer = still }:count() == 0 then
      skip("gradient norms of the layers that do not change", "layer-unchanged-despite-gradient")
    end
    if #pushed > 0 then
      report {
        symptom  = "layer-unchanged-despite-gradient",
        score    = 0.9,
        at       = { run = run, layer = pushed[1], layers = pushed, step = push:first().step },
        message  = ("%s never changes although it has a gradient of %.3g in the median: the optimizer does not hold "
          .. "it, or its updates vanish in rounding"):format(lists.first(pushed, 6), push:median("value")),
        evidence = { push:slice(0, 5) },
      }
    end
  end),
}
