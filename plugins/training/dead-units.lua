--- ## What it detects
--- Layers whose units output zero for all inputs. Of several the first in forward order is named, of those that are so
--- when it begins: what lies behind it inherits its zeros.
---
--- ## Why it matters
--- A rectified unit that is negative for every input has no gradient and cannot come back. A layer without a rectifier
--- that gives zeros only has weights of zero.
---
--- ## How to confirm
--- Feed a thousand samples and count the units that never fire.
---
--- ## Known false positives
--- Half of a rectified layer is zero in health, and up to nine tenths in large language models; only all of it is
--- reported. A padded or masked batch is zero by design at single steps. Masks, one-hot codes and the routing of
--- mixtures are zero nearly everywhere by design, and are left out by name; so is a branch that is dropped at random.
--- A config that asks for sparse codes or spikes asks for zeros, and nothing is judged.
---
--- ## References
--- https://arxiv.org/abs/1903.06733

local places = require("places")
local runs = require("runs")
local settings = require("settings")

--- What makes nearly all values zero on purpose: a sparse code, spikes, the best k of many. Spikes of a loss are none,
--- nor is the dictionary of a translator.
local SPARSE = "match(key, '*sparsity*|*sparse_code*|*sparse_auto*|*topk_act*|*k_sparse*|*l0_coef*|*l1_coef*|"
  .. "*spiking*|*spike_grad*|*snn_*|*sae*dict_size*|*kwta*|*k_winner*') or "
  .. "match(value, '*sparse*autoencoder*|*spiking*|*SparseAutoencoder*|*snn*|*SNN*')"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The units of a layer are zero for every input",
  needs    = { scalars = { "step", "value", "layer", metric = "zero_share" } },
  symptoms = { "dead-units", "layer-output-zero" },
  options  = {
    dead = { default = 0.99, doc = "Share of zeros that makes a layer dead" },
  },

  run = runs.apart(function(case, run)
    local sparse = settings.on(case.config:where(SPARSE)):first()
    if sparse then return skip(("units that are to fire: %s asks for zeros"):format(sparse.key)) end
    local shares = case.scalars:where { metric = "zero_share", primary = true }:where("layer is not null and "
      .. "finite(value)")
      :where("not match(layer, '*scores*|*probs*|*logits*|*one_hot*|*onehot*|*mask*|*dispatch*|*router*|*routing*|"
        .. "*topk*|*top_k*|*drop*|*pad*|*sparse*')")
    local norms  = case.scalars:where { metric = "weight_norm", primary = true }:where("layer is not null and "
      .. "finite(value)")
    --- What has no rectifier of its own gives zeros only where its weights are zero.
    local function linear(layer)
      return layer:lower():glob("*attn|*attention|*proj|*head|*embed*|*norm*|*ln_*|*.q|*.k|*.v|*_q|*_k|*_v")
        and not layer:lower():glob("*act*|*relu*") or false
    end
    for _, symptom in ipairs({ "dead-units", "layer-output-zero" }) do
      local wanted = symptom == "layer-output-zero"
      local found = places.over(shares, case.options.dead, function(layer)
        local size = norms:where { layer = layer }
        -- Weights of zero give zeros too, and are another check's.
        return linear(layer) == wanted and not (size:count() > 0 and size:max("value") == 0)
      end)
      if found then
        local first = found.first
        report {
          symptom  = symptom,
          score    = 0.85,
          at       = { run = run, layer = first.layer, step = found.onset },
          message  = ("%s of %s is zero at %d of %d logged steps, %s"):format(units.percent(first.share), first.layer,
            first.over:count(), first.all, places.others(case, found)),
          evidence = places.rows(found),
        }
      end
    end
  end),
}
