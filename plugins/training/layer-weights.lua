--- ## What it detects
--- Layers whose weights never change while other layers of the same model do, and whether they have a gradient.
---
--- ## Why it matters
--- A layer that gets a gradient and never moves is missing from the optimizer, or its updates vanish in rounding; one
--- that gets none is frozen or cut off.
---
--- ## How to confirm
--- Compare two checkpoints tensor by tensor, and look the layer up in `optimizer.param_groups`.
---
--- ## Known false positives
--- Layers that are frozen on purpose and not declared. Layers named in a `freeze` setting of the config are left out,
--- as is all but the adapters where the config speaks of LoRA.
---
--- ## References
--- https://github.com/huggingface/trl/issues/6700

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Some layers never change while others do",
  needs    = { scalars = { "step", "value", "layer", metric = "update_ratio" } },
  symptoms = { "layer-weights-unchanged", "layer-unchanged-despite-gradient" },
  options  = {
    min_rows = { default = 3, doc = "Logged steps below which a layer is not judged" },
  },

  run = function(case)
    local layered  = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local declared = require("freezing").declared(case)

    ---@type string[], string[], integer, integer, culprit.Table?, culprit.Table?
    local still, pushed, moving, judged, example, push = {}, {}, 0, 0, nil, nil
    for layer, values in layered:where { metric = "update_ratio" }:group("layer") do
      if values:count() >= case.options.min_rows and not declared(layer) then
        judged = judged + 1
        local grads = layered:where { metric = "grad_norm", layer = layer }
        if values:max("value") == 0 then
          still[#still + 1] = layer
          example = example or values
          if grads:count() > 0 and grads:median("value") > 0 then
            pushed[#pushed + 1] = layer
            push = push or grads
          end
        elseif values:median("value") > 0 then
          moving = moving + 1
        end
      end
    end
    if judged == 0 then return skip("update ratios of layers at 3 steps or more") end
    if #still == 0 then return end
    if moving == 0 then return skip("a layer that moves: none does, which is another check's") end

    local function list(names)
      return table.concat(names, ", ", 1, math.min(6, #names))
        .. (#names > 6 and (" and %d more"):format(#names - 6) or "")
    end
    report {
      symptom  = "layer-weights-unchanged",
      score    = 0.95,
      at       = { layer = still[#still], step = example:first().step },
      message  = ("the weights of %s never change over %d logged steps (%s), those of %d other%s do"):format(
        units.plural(#still, "layer"), example:count(), list(still), moving, moving == 1 and "" or "s"),
      evidence = { example:slice(0, 5) },
    }
    if #pushed == 0 and layered:where { metric = "grad_norm", layer = still }:count() == 0 then
      skip("gradient norms of the layers that do not change", "layer-unchanged-despite-gradient")
    end
    if #pushed > 0 then
      report {
        symptom  = "layer-unchanged-despite-gradient",
        score    = 0.9,
        at       = { layer = pushed[1], step = push:first().step },
        message  = ("%s never changes although it has a gradient of %.3g in the median: the optimizer does not hold "
          .. "it, or its updates vanish in rounding"):format(list(pushed), push:median("value")),
        evidence = { push:slice(0, 5) },
      }
    end
  end,
}
