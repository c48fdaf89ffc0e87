--- ## What it detects
--- Positions that see later tokens: by the recorder's causal-mask battery (some tokens are changed, and logits of
--- earlier positions move), by dumped attention weights above the diagonal, or by the end of the rows of a dumped
--- batch: the label of a row's last place stands in no input, and it alone is not predicted.
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
--- next tokens, a mask that the same layers or their like show at other steps or beside it, or all but one diagonal; a
--- window of one place on both sides shows no mask. Where labels are their own tokens and leave out questions, the
--- places before the answers are looked at alone: a prefix may be seen from both sides. The ends of rows are
--- judged where rows are cut anywhere, as packed ones are; of whole examples the last label may be the hard one.
---
--- ## References
--- https://github.com/huggingface/transformers/issues/48745

local causality = require("causality")
local logits_of = require("logits")
local masked = require("masked")
local places = require("places")
local precision = require("precision")

--- Whether rows are cut at any place of what they hold: positions begin anew within them and end at several, as those
--- of packed rows do, or the end token stands in each, at several distances from their ends. Rows that are padded in
--- front end at several positions, too, and with their examples.
---@param case culprit.Case
---@param ids culprit.Row
---@param x number[]  its elements
---@param width integer
---@return boolean
local function cut_anywhere(case, ids, x, width)
  local positions = case.tensors:where { run = ids.run, step = ids.step, variant = ids.variant, rank = ids.rank,
    numel = ids.numel }:where("match(name, '*position_ids|*pos_ids|*positions') and zero_share is not null"):first()
  local stop = case.config:where("match(key, '*eos_token_id|*eos_id|*eot_token_id|*eot_id|*end_token_id') and "
    .. "number >= 0"):first()
  if not positions and not stop then return false end
  local at = positions and positions:values(0, #x)
  local ends, count, anew = {}, 0, positions == nil
  for first = 0, #x - width, width do
    local distance
    if at then
      distance = at[first + width]
      for t = first + 1, first + width - 1 do anew = anew or at[t] >= 2 and at[t + 1] < at[t] end
    else
      for t = width, 1, -1 do
        if x[first + t] == stop.number then distance = width - t break end
      end
      -- A row that ends with it, or holds none, may be an example of its own; one that begins with it is padded.
      if not distance or distance == 0 or x[first + 1] == stop.number then return false end
    end
    if not ends[distance] then ends[distance], count = true, count + 1 end
  end
  return anew and count >= 2
end

--- Rows whose last labels, which stand in no input, are the hardest of all, while all labels that stand at the next
--- place of the input are nearly known. For a model that sees nothing of what comes, the last place of a row that was
--- cut anywhere is like any other: that the m hardest of N + n places are among the n last ones has the chance
--- (n over m) / (N + n over m).
---@param case culprit.Case
---@param labels culprit.Row
---@param ignore number
---@param budget { left: integer }  elements of logits that may be read of all dumps together
---@return table?
local function ends_unknown(case, labels, ignore, budget)
  local shape = labels.shape or {}
  local width = #shape == 2 and math.floor(shape[2]) or 0
  local ids = width > 2 and case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant,
    rank = labels.rank, numel = labels.numel }
    :where("match(name, '*input_ids|*tokens') and match(dtype, 'int*') and not match(name, 'battery.*')"):first()
  if not ids then return nil end
  local n = math.min(labels.numel, 8192) // width * width
  local x, y = ids:values(0, n), labels:values(0, n)
  local last, inner, odd, around = {}, {}, 0, 0
  for i = 1, #y do
    if y[i] >= 0 and y[i] ~= ignore and i % width == 0 then
      last[#last + 1] = i
      if y[i] == x[i - width + 1] then around = around + 1 end
    elseif y[i] >= 0 and y[i] ~= ignore then
      inner[#inner + 1] = i
      if y[i] ~= x[i + 1] then odd = odd + 1 end
    end
  end
  -- Labels that are no next tokens, or were rolled on, so that the last is the first.
  if #last < 2 or #inner < 16 or odd > 0.02 * #inner or 2 * around > #last then return nil end
  if not cut_anywhere(case, ids, x, width) then return nil end
  local logits = logits_of.of(case, labels)
  -- Of a large vocabulary places that lie evenly over all.
  local size = logits and math.floor(logits.shape[3]) or 1
  local most = logits and math.min(1500000, budget.left) // size or 0
  if most < #last + 16 then return nil end
  local function cost(i)
    budget.left = budget.left - size
    return logits_of.cost(logits, i - 1, y[i])
  end
  local costs = {}
  for n, i in ipairs(last) do costs[n] = cost(i) end
  table.sort(costs)
  -- Where one place inside is as hard as the easier half of the ends nothing more can come of it.
  local needed = costs[#costs - math.max(2, math.ceil(#costs / 2)) + 1]
  local stride, known, top = math.max(1, math.ceil(#inner / (most - #last))), 0, -math.huge
  for n = 1, #inner, stride do
    known, top = known + 1, math.max(top, cost(inner[n]))
    if top >= needed then return nil end
  end
  local beyond, least, sum = 0, math.huge, 0
  for _, value in ipairs(costs) do
    if value > top then beyond, least, sum = beyond + 1, math.min(least, value), sum + value end
  end
  local chance = 1
  for n = 0, beyond - 1 do chance = chance * (#last - n) / (known + #last - n) end
  if beyond < 2 or 2 * beyond < #last or chance > 1e-3 or least < 2 * top or least < top + 1 then return nil end
  return { logits = logits, labels = labels, ids = ids, last = #last, beyond = beyond, cost = sum / beyond,
    top = top, known = known }
end

--- What a layer of attention is called, but for its number, and how many places it looks at: layers of one kind have
--- masks of one kind, and towers of text and of pictures need not.
---@param probs culprit.Row
---@return string
local function kind_of(probs)
  local parts = {}
  for i, part in ipairs(probs.name:split(".")) do parts[i] = tonumber(part) and "#" or part end
  return table.concat(parts, ".") .. " " .. probs.shape[#probs.shape]
end

--- Whether a query sees no farther back than it sees ahead, one place: a window, and no mask that is off by one.
---@param probs culprit.Row
---@param mass number
---@return boolean
local function banded(probs, mass)
  local keys = math.floor(probs.shape[#probs.shape])
  if keys < 3 or keys > 4096 then return false end
  for query = 2, keys - 1, math.max(1, keys // 64) do
    local sum = 0
    for j, v in ipairs(probs:values(query * keys, keys)) do if j < query then sum = sum + v end end
    if sum > mass then return false end
  end
  return true
end

--- Whether the places before answers look at the answers: labels that are their own tokens and leave out the questions
--- are moved on by the model, so that each place says the next one. What sees a question from both sides, as a prefix,
--- sees nothing behind it from there on. The labels, how many places before them do so, and the most of a query's
--- attention that lies on one key there; nil where that is not so, or not told.
---@param case culprit.Case
---@param probs culprit.Row   rows, heads, queries, keys; the rows are the first of the batch
---@param ignore number
---@param mass number
---@return culprit.Row? labels, integer? seen, number? most
local function answers_seen(case, probs, ignore, mass)
  local shape, keys = probs.shape, math.floor(probs.shape[#probs.shape])
  local here = case.tensors:where { run = probs.run, step = probs.step, variant = probs.variant, rank = probs.rank }
    :where("match(dtype, 'int*') and zero_share is not null and match(name, 'batch.*')")
  local labels = here:where("match(name, '*labels|*targets')"):first()
  local ids    = labels and here:where { numel = labels.numel }:where("match(name, '*input_ids|*tokens')"):first()
  local both   = case.config:where("match(value, '*diffusion*|*Diffusion*|*llada*|*mdlm*|*denois*')"):first()
  if #shape ~= 4 or not ids or both or #labels.shape ~= 2 or labels.shape[2] ~= keys or keys > 4096 then
    return nil
  end
  local y, x = labels:values(0, keys), ids:values(0, keys)
  local own, counted, seen, most = 0, {}, 0, 0
  for t = 1, keys do
    if y[t] >= 0 and y[t] ~= ignore then
      own = own + (y[t] == x[t] and 1 or 0)
      if t > 1 then counted[#counted + 1] = t end
    end
  end
  if #counted < 4 or own < 0.95 * #counted or #counted > 0.9 * keys then return nil end
  for _, t in ipairs(counted) do
    local later = 0
    for head = 0, math.min(shape[2], 8) - 1 do
      local w = probs:values((head * keys + t - 2) * keys, keys)
      for j = t, keys do later = math.max(later, w[j]) end
    end
    if later > mass then seen, most = seen + 1, math.max(most, later) end
  end
  if seen >= 0.9 * #counted then return labels, seen, most end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Positions see later tokens",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "future-reaches-past", "future-reaches-one-back" },
  options  = {
    rounding = { default = 10,   doc = "Differences of so many roundings of the largest logit are no leak" },
    mass     = { default = 1e-6, doc = "Share of a query's attention on later keys that is no rounding" },
    ignore   = { default = -100, doc = "Label that the loss leaves out" },
    read     = { default = 4000000, doc = "Elements of logits that are read of all dumps together" },
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
    local alike = {} -- what layers with a mask are called, but for their numbers, and how many places they have
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
        elseif mass and not leaking then clean[probs.name], alike[kind_of(probs)] = true, true
        end
      end
    end
    local one = worst and worst.probs.shape[#worst.probs.shape] > 2 and worst.probs:mass_above_diagonal(1) <= opt.mass
    if one and banded(worst.probs, opt.mass) then one = false end
    if worst and not one and not alike[kind_of(worst.probs)] and not causality.declared(case) then
      local labels, seen, most = answers_seen(case, worst.probs, opt.ignore, opt.mass)
      if labels then
        local step, from = places.start(case, worst.probs.step, false)
        report {
          symptom  = "future-reaches-past",
          score    = 0.9,
          at       = { step = step, layer = worst.probs.layer },
          message  = ("in %s the places before %d labels that count look at the labels themselves or beyond, with up "
            .. "to %s of a query's attention on one of them: they see what they are to say, %s"):format(
            worst.probs.name, seen, units.percent(most), from),
          evidence = { worst.probs, labels },
        }
        return
      end
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
      return
    end

    -- Weights that show no leak clear the attention, and not what else mixes places.
    local found
    local budget = { left = opt.read }
    for labels in values:where("match(name, '*labels|*targets') and match(dtype, 'int*') and numel >= 64 and "
      .. "not match(name, 'battery.*')"):sort("step"):slice(0, 40):rows() do
      found = found or ends_unknown(case, labels, opt.ignore, budget)
    end
    if found then
      local step, from = places.start(case, found.labels.step, false)
      report {
        symptom  = "future-reaches-past",
        score    = 0.9,
        at       = { step = step },
        message  = ("at step %s the logits know each of %d labels that stand at the next place of the input (%s nats "
          .. "at most), and not those at the end of %s of %d rows, which stand in none (%s nats): they see the next "
          .. "token, %s"):format(tostring(found.labels.step), found.known, units.number(found.top), found.beyond,
          found.last, units.number(found.cost), from),
        evidence = { found.logits, found.labels, found.ids },
      }
      return skip("the causal-mask battery: the ends of rows do not say how far ahead is seen",
        "future-reaches-one-back")
    end
    if not judged then
      skip("the causal-mask battery, battery/causal_mask.base and .changed (culprit_recorder.battery), or "
        .. "dumped attention "
        .. "probabilities")
    end
  end,
}
