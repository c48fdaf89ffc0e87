--- ## What it detects
--- A model whose last position computes the same whatever the order of the tokens before it (the recorder's positions
--- battery), and one whose input to the first block is the same for a token at all positions, or its embedding and one
--- vector for all places, although it has a table of positions.
---
--- ## Why it matters
--- Without positions a model sees a bag of words: it learns slowly, stops early, and no error is raised.
---
--- ## How to confirm
--- Permute the tokens of a prompt but the last: the output of the first block at the last position must change.
---
--- ## Known false positives
--- Models without positions by design (NoPE) tell order by the causal mask alone, from the second block on.
---
--- ## References
--- https://arxiv.org/abs/2305.19466

local places = require("places")

local TABLES = "*wpe*|*pos*emb*|*emb*pos*"
-- What attention adds to its scores.
local RELATIVE = "*rel*|*bias*|*attn*|*attention*"

--- Whether two places at most of what a table holds have a gradient: more are looked up somewhere, if not before the
--- first block. Nil where no gradient is dumped.
---@param values culprit.Table  of one step
---@param layer string
---@return boolean?
local function unused(values, layer)
  local slope = values:where { role = "grad", layer = layer }:first()
  if not slope or slope.nonfinite > 0 or #slope.shape < 2 then return nil end
  local used = 0
  for _, size in ipairs(slope:along(#slope.shape - 2, "abs_max")) do used = used + (size > 0 and 1 or 0) end
  return used < 2
end

--- How many places of one row differ from the first in what is added to their embeddings, and by how much at most.
---@param entry culprit.Row  what goes into the first block
---@param source culprit.Row  what the embedding gives
---@return number most  difference of what is added
local function added_by_place(entry, source)
  local places, dim = math.floor(entry.shape[2]), math.floor(entry.shape[3])
  local a, b, most = entry:values(0, dim), source:values(0, dim), 0
  for place = 1, math.min(places, 64) - 1 do
    local x, e = entry:values(place * dim, dim), source:values(place * dim, dim)
    for i = 1, dim do most = math.max(most, math.abs((x[i] - e[i]) - (a[i] - b[i]))) end
  end
  return most
end

--- What goes into the first block, where it is what the first layer of that shape gives and one vector for all places,
--- although there is a table of positions of that width that nothing looks up at two places or more. With positions
--- before the first block the difference is the table, and with others the table has gradients.
---@param values culprit.Table
---@param allowed number
---@return culprit.Row? entry, culprit.Row? source, culprit.Row? positions
local function without_places(values, allowed)
  for slope in values:where("role == 'grad' and match(layer, ?) and not match(layer, ?)", TABLES, RELATIVE):rows() do
    local here = values:where { run = slope.run, step = slope.step, variant = slope.variant, rank = slope.rank }
    local dim  = slope.shape[#slope.shape]
    local own  = here:where { layer = slope.layer }:where("match(role, 'weight|value')"):first()
    local source
    for output in here:where("role == 'output' and not match(layer, ?)", TABLES):sort("order"):slice(0, 20):rows() do
      local fits = #output.shape == 3 and output.shape[3] == dim and output.shape[2] >= 8
      if fits then source = output break end
    end
    local entry = source and here:where("role == 'input' and order > ? and numel == ? and layer != ?", source.order,
      source.numel, source.layer):sort("order"):first()
    -- An embedding of which the table is a part has its places in it.
    if entry and own and not slope.layer:starts_with(source.layer .. ".") and unused(here, slope.layer)
      and entry.nonfinite + source.nonfinite + own.nonfinite == 0 and #entry.shape == 3 and entry.shape[3] == dim
      and own.std > 100 * allowed * entry.absmax and added_by_place(entry, source) <= allowed * entry.absmax then
      return entry, source, own
    end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Positions do not reach the model",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "token-order-ignored" },
  options  = {
    rounding = { default = 2e-5, doc = "Relative difference that is rounding; a hundred times as much in half "
      .. "precision" },
  },

  run = function(case)
    local values = case.tensors:where("zero_share is not null")
    local probes = values:where("match(name, 'battery.positions.*')")
    local function pair(name)
      local rows = probes:where { name = name }
      return rows:where { variant = "base" }:first(), rows:where { variant = "permuted" }:first()
    end
    local allowed = case.options.rounding
    if case.config:where("match(key, '*precision|*dtype') and match(value, "
      .. "'*16*')"):first() then allowed = 100 * allowed end
    --- The layer that holds a table of positions, which is then the one without effect; nil where there is none.
    local function table_of_positions()
      local row = case.scalars:where("primary == true and match(layer, '*wpe*|*pos*emb*|*emb*pos*')"):first()
      return row and row.layer
    end
    local before, after = pair("battery.positions.input_ids")
    -- A model whose attention carries nothing (weights at zero, one-hot scores) is blind to all that came before, not
    -- to its order: the other probe changes a token and shows whether the last position notices.
    local function attends()
      for one in values:where { name = "battery.causal_mask.logits", variant = "base" }:rows() do
        local changed = values:where { name = "battery.causal_mask.logits", variant = "changed" }
        local other = (one.step and changed:where { step = one.step } or changed):first()
        local ids = values:where { name = "battery.causal_mask.input_ids", variant = "base" }:first()
        local moved = other and one:difference_along(other, 1)
        if moved and ids and #moved >= 2 and one.nonfinite + other.nonfinite == 0 then
          return moved[#moved] > allowed * one.absmax, #moved
        end
      end
      return true
    end
    -- Behind a causal mask only the first block is blind to order; the logits of a model that looks both ways are, too.
    for _, name in ipairs({ "battery.positions.first_block", "battery.positions.logits" }) do
      local base, permuted = pair(name)
      local moved = base and permuted and base:difference_along(permuted, 1)
      local ids   = before and after and before:difference_along(after, 1)
      -- NaN is equal to NaN, and no answer.
      if moved and base.nonfinite + permuted.nonfinite > 0 then moved = nil end
      if moved and ids and ids[#ids] == 0 and before:compare(after).max_abs > 0 then
        local last = moved[#moved]
        if last <= allowed * base.absmax and not attends() then
          return skip("a model whose last position takes notice of earlier tokens at all")
        elseif last <= allowed * base.absmax then
          local step, from = places.start(case, base.step, false)
          return report {
            symptom = "token-order-ignored", score = 0.97, at = { step = step, layer = table_of_positions() },
            message = ("with the %d tokens before it in another order the last position of %s moves by %s "
              .. "(largest value "
              .. "%s): positions do not reach the model, %s"):format(#ids - 1, name:replace("battery.positions.", ""),
              units.number(last), units.number(base.absmax), from),
            evidence = { base, permuted },
          }
        elseif name:ends_with("first_block") then
          return -- order is seen
        end
      end
    end

    -- A table of positions, and what goes into the first block: a token must not look the same at two places.
    -- One of relative positions, which attention adds to its scores, is none.
    local positions = values:where { role = "weight" }:where("match(name, ?) and not match(name, ?)", TABLES, RELATIVE)
      :first()
    for entry in values:where("role == 'input' and match(layer, '*.0|*.0.ln_1|*.0.ln1|*.0.attn|*.0.input_layernorm')")
      :where("not match(name, 'battery.*')"):rows() do
      local ids = values:where { run = entry.run, step = entry.step, variant = entry.variant }
        :where("match(name, 'batch.input_ids') and match(dtype, 'int*')"):first()
      if positions and ids and entry.nonfinite == 0 and #entry.shape == 3 and #ids.shape == 2
        and entry.shape[2] == ids.shape[2] and positions.shape[#positions.shape] == entry.shape[3] then
        local width, dim = entry.shape[2], entry.shape[3]
        local seen, twice, equal, scale = {}, 0, 0, entry.absmax
        local row = ids:values(0, math.min(width, 10000))
        for t, id in ipairs(row) do
          if seen[id] and twice < 64 then
            local a = entry:values((seen[id] - 1) * dim, math.min(dim, 64))
            local b = entry:values((t - 1) * dim, math.min(dim, 64))
            local largest = 0
            for i = 1, #a do largest = math.max(largest, math.abs(a[i] - b[i])) end
            twice = twice + 1
            if largest <= allowed * scale then equal = equal + 1 end
          end
          seen[id] = t
        end
        if twice >= 4 then
          if equal == twice then
            report {
              symptom = "token-order-ignored", score = 0.95, at = { step = entry.step, layer = entry.layer },
              message = ("%d pairs of equal tokens enter %s with equal values at different positions, although "
                .. "the model has "
                .. "%s: positions are not added"):format(twice, entry.layer, positions.name),
              evidence = { entry, positions },
            }
          end
          return
        end
      end
    end
    local entry, source, own = without_places(values:where("not match(name, 'battery.*')"), allowed)
    if entry then
      return report {
        symptom = "token-order-ignored", score = 0.95, at = { step = entry.step, layer = own.layer },
        message = ("what enters %s is %s and the same at all %d places beside it, and %s has no gradient at two of "
          .. "them: positions are not added"):format(entry.layer, source.name, entry.shape[2], own.name),
        evidence = { entry, source, own },
      }
    end
    skip("the positions battery, battery/positions.base and .permuted (culprit_recorder.battery): ids whose "
      .. "last stays, and "
      .. "first_block, the output of the first block")
  end,
}
