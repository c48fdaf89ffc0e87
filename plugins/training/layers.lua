--- ## What it detects
--- Layers that get no gradient, and layers whose weights never change, while other layers of the same model do.
---
--- ## Why it matters
--- The loss of such a run falls and looks healthy. A gradient that is exactly zero upstream of one layer and not
--- downstream names the place where the graph was cut.
---
--- ## How to confirm
--- After one backward pass, list the parameters whose `.grad` is None or zero.
---
--- ## Known false positives
--- Layers that are frozen on purpose: adapters beside a frozen backbone look exactly like this.
---
--- ## References
--- Per-layer statistics every 25 steps decide more than any modelling of the loss curve.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Some layers get no gradient or never change",
  needs    = { scalars = { "step", "value", "layer", metric = { "grad_norm", "update_ratio" } } },
  symptoms = { "layer-gradient-zero", "layer-weights-unchanged" },
  options  = {
    min_rows = { default = 3, doc = "Logged values per layer below which it is not judged" },
  },

  run = function(case)
    local function still(metric)
      local dead, alive, example = {}, 0, nil
      local rows = case.scalars:where { metric = metric, primary = true }:where("layer is not null and finite(value)")
      for layer, values in rows:group("layer") do
        if values:count() >= case.options.min_rows then
          if values:max("value") == 0 then
            dead[#dead + 1] = layer
            example = example or values
          elseif values:median("value") > 0 then
            alive = alive + 1
          end
        end
      end
      return dead, alive, example
    end

    local dead, alive, rows = still("grad_norm")
    if #dead > 0 and alive > 0 then
      report {
        symptom  = "layer-gradient-zero",
        score    = 0.97,
        at       = { layer = dead[#dead], step = rows:first().step },
        message  = ("%s a gradient of exactly 0 at all %d logged steps (%s), %s: the graph is cut after %s")
          :format(#dead == 1 and "1 layer gets" or ("%d layers get"):format(#dead), rows:count(),
            table.concat(dead, ", "),
            alive == 1 and "1 other learns" or ("%d others learn"):format(alive), dead[#dead]),
        evidence = { rows:slice(0, 5) },
      }
    end
    dead, alive, rows = still("update_ratio")
    if #dead > 0 and alive > 0 then
      report {
        symptom  = "layer-weights-unchanged",
        score    = 0.95,
        at       = { layer = dead[#dead], step = rows:first().step },
        message  = ("the weights of %d layer%s never change over %d logged steps (%s), those of %d other%s do")
          :format(#dead,
          #dead == 1 and "" or "s", rows:count(), table.concat(dead, ", "), alive, alive == 1 and "" or "s"),
        evidence = { rows:slice(0, 5) },
      }
    end
  end,
}
