--- ## What it detects
--- Layers whose units output zero for all inputs. Of several the first in forward order is named, of those that are so
--- when it begins: what lies behind it inherits its zeros. Of a fresh model nearly all is enough, and less where all
--- rectified layers have it.
---
--- ## Why it matters
--- A rectified unit that is negative for every input has no gradient and cannot come back. A layer without a rectifier
--- that gives zeros only has weights of zero. Fresh weights are drawn evenly about zero, so that whatever comes in, a
--- unit is as likely above zero as below: where nine of ten outputs are zero something pushes all units down.
---
--- ## How to confirm
--- Feed a thousand samples and count the units that never fire.
---
--- ## Known false positives
--- Half of a rectified layer is zero in health, and up to nine tenths in large language models that were trained; of
--- these only all of it is reported. A padded or masked batch is zero by design at single steps. Masks, one-hot codes
--- and the routing of mixtures are zero nearly everywhere by design, and are left out by name; so is a branch that is
--- dropped at random, and the table of what a generator is conditioned on, which is dropped for guidance. A config that
--- asks for sparse codes or spikes asks for zeros, and nothing is judged. Inputs that are zero themselves, as a black
--- margin or padding, give zeros without any fault; a fresh layer behind them is not judged, nor experts and pooled
--- places, most of which have no input at all, nor a layer that puts out a code.
---
--- ## References
--- https://arxiv.org/abs/1903.06733

local lists = require("lists")
local masks = require("masks")
local places = require("places")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")

--- What makes nearly all values zero on purpose: a sparse code, spikes, the best k of many. Spikes of a loss are none,
--- nor is the dictionary of a translator.
local SPARSE = "match(key, '*sparsity|*sparsity_l*|*sparsity_c*|*sparsity_w*|*sparse_code*|*sparse_auto*|*topk_act*|"
  .. "*k_sparse*|*l0_coef*|*l1_coef*|*spiking*|*spike_grad*|*snn_*|*sae*dict_size*|*kwta*|*k_winner*') or "
  .. "match(value, '*sparse*autoencoder*|*spiking*|*SparseAutoencoder*|*snn*|*SNN*')"

--- Layers that put out a code, few of whose entries are set; an encoder or a decoder is none.
local CODES = "code|code.*|code_*|*.code|*.code.*|*.code_*|*_code|*_code.*|*codes*|*codebook*|*vq*"

--- The first look at the first of the layers that were found, where it and the first look at each other of them show
--- units that are active; nil where one of them was dead already, as it is where its start is to blame.
---@param shares culprit.Table
---@param found table      what `places.over` found
---@param fresh number     share of zeros from which a start is none of a sound layer
---@return culprit.Row?
local function began_active(shares, found, fresh)
  local began
  for _, one in ipairs(found.layers) do
    local start = shares:where { layer = one.layer }:sort("step"):first()
    if start.value >= fresh then return nil end
    if one.layer == found.first.layer then began = start end
  end
  return began
end

--- Whether a layer has no weights and stands in a list with one that gives something, as one of several operations.
local function is_operation(case, layer)
  local list = places.parent(layer)
  local own = case.scalars:where("match(metric, 'weight_norm|grad_norm') and (layer == ? or starts_with(layer, ?))",
    layer, layer .. "."):count()
  if list == "" or own > 0 then return false end
  for name, share in case.scalars:where { metric = "zero_share", primary = true }:where("starts_with(layer, ?)",
    list .. "."):group("layer") do
    if places.parent(name) == list and share:min("value") < 1 then return true end
  end
  return false
end

--- Whether a gradient of some size goes through a layer that puts out nothing but zeros, into the weights before it
--- that are part of the same module: what fires passes a substitute for its derivative on, and a rectifier's is exactly
--- 0 there. A few units that live on have a thousandth of what other layers have. Where each output is zero at every
--- look, one beside it in the same list gives something, and whatever has weights before it learns, it is no rectifier
--- that anything has to go through: one of several operations whose result is nothing.
local function passes(case, layer)
  local own, before, last = places.parent(layer), nil, nil
  for name, rows in case.scalars:where { metric = { "grad_norm", "zero_share" }, primary = true }:group("layer") do
    if name == layer then break end
    local grads = rows:where("metric == 'grad_norm' and finite(value)")
    local beside = own ~= "" and places.parent(name) == own or name:starts_with(layer .. ".")
    if grads:count() > 0 then
      before = beside and grads or before
      if rows:where { metric = "zero_share" }:count() > 0 then last = grads end
    end
  end
  local shares = case.scalars:where { metric = "zero_share", primary = true, layer = layer }
  local zero   = shares:where("value == 1")
  if not before and zero:count() == shares:count() and is_operation(case, layer) then before = last end
  if not before then return false end
  local both = before:join(zero:select("step"):distinct("step"), { "step" })
  local usual = case.scalars:where { metric = "grad_norm", primary = true }
    :where("layer is not null and finite(value) and value > 0"):median("value")
  -- Behind weights that begin at zero there is none at the first step.
  local sized = usual and both:where("value >= ?", 1e-3 * usual):count() or 0
  return sized >= 3 and sized >= 0.75 * both:count()
end

--- The layers beside those that are dead of which nearly all is zero as well, at every look: what pushes the units of
--- the ones down pushes theirs.
---@param shares culprit.Table
---@param dead string[]
---@param most number  share of zeros
---@param linear fun(layer: string): boolean
---@return string[]
local function nearly(shares, dead, most, linear)
  local names, known = {}, {}
  for _, layer in ipairs(dead) do known[layer] = true end
  for layer, values in shares:group("layer") do
    if not known[layer] and not linear(layer) and values:min("value") >= most then names[#names + 1] = layer end
  end
  return names
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The units of a layer are zero for every input",
  needs    = { scalars = { "step", "value", "layer", metric = "zero_share" } },
  symptoms = { "dead-units", "units-die", "layer-output-zero" },
  options  = {
    dead  = { default = 0.99, doc = "Share of zeros that makes a layer dead" },
    fresh = { default = 0.90, doc = "Share of a fresh model's layer, which is a half where weights are even" },
    most  = { default = 0.78, doc = "The same where all of three layers and more have it, or one beside a dead one" },
  },

  run = runs.apart(function(case, run)
    local sparse = settings.on(case.config:where(SPARSE)):first()
    if sparse then return skip(("units that are to fire: %s asks for zeros"):format(sparse.key)) end
    local shares = case.scalars:where { metric = "zero_share", primary = true }:where("layer is not null and "
      .. "finite(value)")
      :where("not match(layer, '*scores*|*probs*|*logits*|*one_hot*|*onehot*|" .. masks.NAMES
        .. "|*dispatch*|*router*|*routing*|"
        .. "*topk*|*top_k*|*drop*|*pad*|*sparse*|" .. masks.CONDITIONS .. "')")
    local norms  = case.scalars:where { metric = "weight_norm", primary = true }:where("layer is not null and "
      .. "finite(value)")
    --- What has no rectifier of its own gives zeros only where its weights are zero.
    local function linear(layer)
      return layer:lower():glob("*attn|*attention|*proj|*head|*embed*|*norm*|*ln_*|*.q|*.k|*.v|*_q|*_k|*_v")
        and not layer:lower():glob("*act*|*relu*") or false
    end
    local dead
    for _, symptom in ipairs({ "dead-units", "layer-output-zero" }) do
      local wanted = symptom == "layer-output-zero"
      local found = places.over(shares, case.options.dead, function(layer)
        local size = norms:where { layer = layer }
        -- Weights of zero give zeros too, and are another check's.
        return linear(layer) == wanted and not (size:count() > 0 and size:max("value") == 0)
          and (wanted or not passes(case, layer))
      end)
      if found then
        local first = found.first
        local began = not wanted and began_active(shares, found, case.options.fresh)
        local names = places.names(found)
        local more  = not wanted and nearly(shares, names, case.options.most, linear) or {}
        dead = true
        report {
          symptom  = began and "units-die" or symptom,
          score    = 0.85,
          at       = { run = run, layer = first.layer, layers = lists.joined(names, more), step = found.onset },
          message  = ("%s of %s is zero at %d of %d logged steps, %s%s%s"):format(units.percent(first.share),
            first.layer, first.over:count(), first.all, places.others(case, found),
            #more > 0 and ("; so is %s and more of %s"):format(units.percent(case.options.most),
              table.concat(more, ", ", 1, math.min(#more, 3))) or "",
            began and ("; at step %d it was %s"):format(began.step, units.percent(began.value)) or ""),
          evidence = places.rows(found),
        }
        -- What was dead already cannot die.
        if not wanted and not began then skip("units that are active at first", "units-die") end
      end
    end
    if dead or settings.loaded(case) then return end

    -- In the order of the model: what a layer takes comes from the one before it.
    local before
    local low, shut = {}, nil
    for layer, values in case.scalars:where { metric = "zero_share", primary = true }
      :where("layer is not null and finite(value)"):group("layer") do
      local start  = values:sort("step"):first()
      local usual  = values:median("value")
      local judged = start.step <= 1 and shares:where { layer = layer }:count() >= 3 and not linear(layer)
        and not layer:lower():glob("*loss*|*hinge*|*margin*|*expert*|*pool*|*roi*|" .. CODES)
      local fed    = judged and before and before.step == start.step and before.value < 0.1
      -- Units that come back are not dead, but were set by their biases to be active seldom at first.
      local stays  = 1 - usual <= math.max(0.05, 3 * (1 - start.value))
      if fed and start.value == 1 and passes(case, layer) then fed = false end
      if fed and start.value >= case.options.fresh and usual >= case.options.fresh and stays then
        report {
          symptom  = "dead-units",
          score    = 0.75,
          at       = { run = run, layer = layer, step = start.step },
          message  = ("%.3g %% of %s is zero at step %d and %.3g %% later on, and hardly anything of %s before it: "
            .. "weights that are drawn evenly about zero give a half"):format(100 * start.value, layer, start.step,
            100 * usual, before.layer),
          evidence = { values:slice(0, 3), before },
        }
        skip("units that are active at first", "units-die")
        return
      end
      if fed and not shut and start.value >= case.options.dead and norms:where { layer = layer }:count() == 0 then
        shut = { layer = layer, start = start, usual = usual, before = before }
      end
      if judged and start.value >= 0.2 then low[#low + 1] = { layer = layer, start = start, usual = usual } end
      before = start
    end
    if shut then
      report {
        symptom  = "dead-units",
        score    = 0.7,
        at       = { run = run, layer = shut.layer, step = shut.start.step },
        message  = ("%.3g %% of %s is zero at step %d of a fresh model, and hardly anything of %s before it: something "
          .. "pushes all its units down, of which %.3g %% are zero later on"):format(100 * shut.start.value, shut.layer,
          shut.start.step, shut.before.layer, 100 * shut.usual),
        evidence = { shut.start, shut.before },
      }
      return skip("units that are active at first", "units-die")
    end
    -- Fewer in each, but in all of them.
    local starts, usuals, least = {}, {}, 1
    for i, one in ipairs(low) do
      starts[i], usuals[i], least = one.start.value, one.usual, math.min(least, one.start.value)
    end
    if #low < 3 or least < 0.7 or statistics.median(starts) < case.options.most
      or statistics.median(usuals) < case.options.most then
      return
    end
    report {
      symptom  = "dead-units",
      score    = 0.6,
      at       = { run = run, layer = low[1].layer, step = low[1].start.step },
      message  = ("%.3g %% of the outputs of %d rectified layers are zero at step %d, in the median, and %.3g %% later "
        .. "on; %s is the first: weights that are drawn evenly about zero give a half"):format(
        100 * statistics.median(starts), #low, low[1].start.step, 100 * statistics.median(usuals), low[1].layer),
      evidence = { low[1].start, low[2].start, low[3].start },
    }
    skip("units that are active at first", "units-die")
  end),
}
