--- ## What it detects
--- Layers that get no gradient while other layers of the same model do, and where they lie: all upstream of one place,
--- or between layers that learn; and whether their parameters ask for a gradient at all, by the list of those with
--- requires_grad off that the recorder keeps (manifest.json).
---
--- ## Why it matters
--- The loss of such a run falls and looks healthy. A graph that was cut takes the gradient from everything upstream of
--- the cut. A module whose gradient is that of one of its parts, to the last digit, gets none in the rest. Where a
--- layer upstream still learns, the graph is whole and the layer in between is frozen. A parameter
--- that asks for none is frozen, wherever it lies, and what its .grad holds is left from before.
---
--- ## How to confirm
--- After one backward pass, list the parameters whose `.grad` is None or zero, with their `requires_grad`.
---
--- ## Known false positives
--- Layers that are frozen on purpose and not declared; of a model that is logged as one layer, and whose output layer
--- alone learns, nothing is said without the recorder's list. Layers named in a `freeze` setting of the config are left
--- out, as is all but the adapters where the config speaks of LoRA, and a backbone that the config says is kept. An
--- embedding whose weight is also the head's gets gradient from there, so it does not tell whether the graph is whole,
--- unless a checkpoint shows that the last layer gives out another number of values than a table has rows or columns,
--- or the module around the table has a gradient beyond the table's, as that of learned places. A layer that is logged
--- by a name that no parameter has is frozen as the list says of all parameters of its module. An output behind all
--- that learns, beside another one that does, is one that no loss asks for.
--- Nor does a branch with an input of its own, as the other tower of two: what is cut in one leaves it as it is. Units
--- that are zero for every input let nothing through, and the graph is whole there; so does a gate of zero, by which
--- the outputs of other layers of its module are multiplied. Embeddings of a further input, as of a time or a class,
--- learn from the blocks behind a cut. A parameter that is no module's, as what stands for an absent condition, has
--- nothing upstream of it, so that no graph is cut in it. A factor of a low-rank pair has no gradient as long as the
--- other factor is zero, as the second one of LoRA is at first; that one has a gradient then.
---
--- ## References
--- Per-layer statistics every 25 steps decide more than any modelling of the loss curve.

local freezing = require("freezing")
local held = require("held")
local lists = require("lists")
local optimizers = require("optimizers")
local places = require("places")
local runs = require("runs")

--- A module of whose weights one recorded part alone has a gradient: squares of norms add up, so that a module with
--- the norm of its part, to four digits at every step, has nothing in the rest. Nor does the rest move, which most
--- optimizers would not spare it however small its gradient is.
---@param layered culprit.Table
---@param scale_free boolean  whether a gradient's size cancels out of the updates
---@return table?  layer, part, rows, share: of the squared weight norm that is the rest's
local function part_alone(layered, scale_free)
  local names = {}
  for layer in layered:where { metric = "grad_norm" }:group("layer") do names[#names + 1] = layer end
  for _, layer in ipairs(names) do
    local parts = {}
    for _, name in ipairs(names) do
      if name:starts_with(layer .. ".") then parts[#parts + 1] = name end
    end
    --- The same metric of the module and of its part, by step.
    local function both(metric)
      return layered:where { metric = metric, layer = layer }:select("step", "value")
        :join(layered:where { metric = metric, layer = parts[1] }:select("step", "value"), { "step" })
        :where("finite(value) and finite(value_right)")
    end
    local grads   = #parts == 1 and both("grad_norm"):where("value_right > 0")
    local weights = grads and both("weight_norm"):first()
    if weights and weights.value > 0 and grads:count() >= 3
      and grads:where("abs(value - value_right) > 2e-4 * value_right"):count() == 0 then
      local share = 1 - (weights.value_right / weights.value) ^ 2
      local moved = layered:where { metric = "update_ratio", layer = layer }:select("step", "value")
        :join(layered:where { metric = "weight_norm", layer = layer }:select("step", "value"), { "step" })
        :with { way = "value * value_right" }:select("step", "way")
        :join(layered:where { metric = "update_ratio", layer = parts[1] }:select("step", "value")
          :join(layered:where { metric = "weight_norm", layer = parts[1] }:select("step", "value"), { "step" })
          :with { own = "value * value_right" }:select("step", "own"), { "step" }):where("own > 0")
      -- Of elements as many as the rest has by its weights, which are of about one size.
      if share >= 0.1 and scale_free and moved:count() >= 3
        and moved:where("abs(way - own) > 0.01 * own"):count() == 0 then
        return { layer = layer, part = parts[1], share = share, steps = grads:count(),
          rows = layered:where { metric = "grad_norm", layer = { layer, parts[1] } }:slice(0, 4) }
      end
    end
  end
end

--- The module that a layer is in, as the towers of a model have one each; words for a whole model are none.
local function branch(layer)
  for _, part in ipairs(layer:split(".")) do
    if not part:lower():glob("model|module|net|network|base_model|_orig_mod") then return part end
  end
  return layer
end

--- A layer that takes up inputs, with which a branch begins.
local INTAKE = "*emb*|*patch*|*stem*|*wte*|*tok*|*input*"

--- Names each layer by what is below the modules of six layers or more that it is in, in lower case: a model may be
--- called after what it puts out, and not each layer of an embedding model is a table.
---@param states table[]  { layer }; gets `own`
local function name_apart(states)
  local size = {}
  for _, state in ipairs(states) do
    local parts = state.layer:split(".")
    for k = 1, #parts - 1 do
      local module = table.concat(parts, ".", 1, k)
      size[module] = (size[module] or 0) + 1
    end
  end
  for _, state in ipairs(states) do
    local parts, from = state.layer:split("."), 1
    -- The tables of a list have but numbers of their own.
    while from < #parts and size[table.concat(parts, ".", 1, from)] >= 6
      and not (from + 1 == #parts and tonumber(parts[#parts])) do
      from = from + 1
    end
    state.own = table.concat(parts, ".", from):lower()
  end
end

--- Modules that get no gradient from what takes up their inputs to some place: no other module that is recorded before
--- it is upstream of the place.
---@param states table[]  { layer, dead } in the order of the forward pass
---@return table<string, string>  by module, "whole" where nothing of it learns, "part" where it does behind the place
local function cut_branches(states)
  local known, cut = {}, {}
  for _, state in ipairs(states) do
    local name = branch(state.layer)
    known[name] = known[name] or { intake = false, learns = false, first = true }
    local one = known[name]
    if state.dead then
      one.intake = one.intake or state.own:glob(INTAKE)
      if one.learns then one.first = false end
    else
      one.learns = true
    end
  end
  for name, one in pairs(known) do
    if one.intake and one.first then cut[name] = one.learns and "part" or "whole" end
  end
  return cut
end

--- A layer between the first one that gets no gradient and the next one that does, all of whose outputs are zero.
local function silent_between(layered, weights, dead, states)
  local from  = weights:where { layer = dead[1] }:min("place")
  local last  = weights:where { layer = dead[#dead] }:min("place")
  local until_
  for _, state in ipairs(states) do
    local place = not state.dead and weights:where { layer = state.layer }:min("place")
    if place and last and place > last and (not until_ or place < until_) then until_ = place end
  end
  if not from or not until_ then return nil end
  for layer, zeros in layered:where { metric = "zero_share" }:group("layer") do
    local place = zeros:min("place")
    local inside = place and place > from and place < until_
    if inside and zeros:count() >= 3 and zeros:median("value") >= 0.99 then return layer end
  end
end

--- A layer in one module with all of those whose logged gradient is zero, all of whose outputs are zero: what they put
--- out may be multiplied by it, as by the gate of a residual branch that begins at zero, and then the graph is whole.
--- Where no gradient is logged there was none to multiply.
local function silent_gate(layered, grads, dead)
  local module
  for _, layer in ipairs(dead) do
    local parts = layer:split(".")
    local own   = table.concat(parts, ".", 1, #parts - 1)
    if own == "" or module and own ~= module or grads:where { layer = layer }:count() == 0 then return nil end
    module = own
  end
  for layer, zeros in layered:where { metric = "zero_share" }:where("match(layer, ?)", module .. ".*"):group("layer") do
    if zeros:count() >= 3 and zeros:median("value") >= 0.99 then return layer end
  end
end

--- Whether all dead layers are parameters that no module takes inputs by, as what stands for an absent condition: where
--- outputs of layers are on record, none of theirs are. Nothing is upstream of such a one: no graph is cut in it.
local function origins_alone(layered, dead)
  local outputs = layered:where("match(metric, 'activation_*|zero_share')")
  return outputs:count() > 0 and outputs:where { layer = dead }:count() == 0
end

--- Whether all dead layers are of a model beside one that learns, as a teacher or the average of it: either takes up
--- inputs of its own.
---@param states table[]  as of cut_branches
---@param dead string[]
---@param cut table<string, string>  what cut_branches gives
local function beside_another(states, dead, cut)
  local begins, mixed, size = {}, {}, {}
  for _, state in ipairs(states) do
    local name = branch(state.layer)
    begins[name] = begins[name] or state
    size[name]   = (size[name] or 0) + 1
    mixed[name]  = mixed[name] or state.dead ~= begins[name].dead
  end
  for _, layer in ipairs(dead) do
    local name = branch(layer)
    if cut[name] ~= "whole" or size[name] < 2 then return false end
  end
  for name, state in pairs(begins) do
    local intake = state.own:glob("*emb*|*patch*|*stem*|*wte*|*conv1") and state.layer:contains(".")
    if intake and not state.dead and size[name] >= 2 and not mixed[name] then return true end
  end
  return false
end

--- Whether a table cannot be the model's output layer as well: the layer that is last gives out another number of
--- values than the table has rows, by a matrix of its own, and not such as the table could take up.
local function no_output(case, table_layer, states)
  local function shape(layer)
    local found
    -- Checkpoints may name what the model is wrapped in, too.
    for row in case.tensors:where { role = "weight" }:where("match(layer, ?)", layer .. "|*." .. layer)
      :slice(0, 20):rows() do
      if #(row.shape or {}) >= 2 then found = found or row.shape end
    end
    return found
  end
  local last  = states[#states]
  local table_, output = shape(table_layer), not last.dead and shape(last.layer)
  if not table_ or not output or #table_ ~= 2 then return false end
  local words = case.config:where("match(key, '*vocab_size|*n_vocab|*num_tokens') and number == ?", table_[1]):count()
  return words == 0 and output[1] ~= table_[1] and output[1] ~= table_[2]
end

--- Embeddings that are logged as one layer, of whose rows as many stand still as the table of positions has: of the
--- rows of words, positions, segments and a norm, by the config, to four digits. Tokens that no text has leave another
--- number; a table of sines, which is fixed by design, is too large to be among them.
local function positions_still(case, layered)
  local function size(keys)
    local row = case.config:where("match(key, ?) and number >= 2", keys):first()
    return row and row.number
  end
  local words, width = size("*vocab_size|*n_vocab"), size("*hidden_size|*n_embd|*d_model|*embed_dim")
  local places = size("*max_position_embeddings|*n_positions|*n_ctx|*block_size|*max_seq_len")
  local kept = case.config:where("match(key, '*freeze*|*frozen*') and match(key, '*pos*') or match(key, '*freeze*|"
    .. "*frozen*') and match(value, '*pos*')"):count() > 0
  if not words or not places or kept then return nil end
  for layer, shares in layered:where { metric = "unchanged_share" }:where("match(layer, '*emb*')"):group("layer") do
    local share = freezing.still(shares, layered:where { metric = "update_ratio", layer = layer }, 0.01)
    local norm  = layered:where { metric = "weight_norm", layer = layer }:first()
    local sines = width and norm and norm.value ^ 2 >= 0.5 * places * width
    for more = 0, share and not sines and 8 or -1 do
      if math.abs(share - places / (words + places + more)) <= 5e-5 then
        return { layer = layer, share = share, places = places, rows = words + places + more, shares = shares }
      end
    end
  end
end

--- Whether a module that holds a table of words has a gradient beyond the table's own at most steps: its places or its
--- norm learn as well, which no head reaches. One that has a projection may be the head's as a whole.
---@param grads culprit.Table
---@param layer string
---@return boolean
local function learns_beside_table(grads, layer)
  local whole, table_rows = grads:where { layer = layer }:select("step", "value"), nil
  for name, rows in grads:group("layer") do
    local part = name:starts_with(layer .. ".") and name:lower() or ""
    if part:glob("*proj*|*bias*") then return false end
    if part:glob("*word*|*tok*|*wte*") and not part:glob("*type*") then table_rows = rows end
  end
  if not table_rows then return false end
  local both = whole:join(table_rows:select("step", "value"), { "step" }):where("finite(value) and value_right > 0")
  local more = both:where("value > 1.001 * value_right"):count()
  return more >= 3 and 2 * more >= both:count()
end

--- What puts something out between the last layer without a gradient and the next one that learns, as an activation
--- does: a graph that is cut between the two may be cut at any of these.
---@param layered culprit.Table  scalars of layers
---@param states table[]         { layer, dead } in the order of the forward pass
---@return string[]
local function outputs_behind(layered, states)
  local last, next_
  for index, state in ipairs(states) do
    if state.dead then last, next_ = state.layer, states[index + 1] end
  end
  local from = last and layered:where { layer = last }:min("place")
  local upto = next_ and layered:where { layer = next_.layer }:min("place")
  if not from or not upto or upto <= from then return {} end
  return places.layers_of(layered:where("metric == 'activation_rms' and place > ? and place < ? and layer != ?", from,
    upto, last):sort("place"))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Some layers get no gradient while others do",
  needs    = { scalars = { "step", "value", "layer", metric = "grad_norm" } },
  symptoms = { "layer-gradient-zero", "gradient-cut-upstream", "gradient-missing-between", "gradient-in-head-alone",
    "position-layer-without-gradient", "layer-asks-no-gradient" },
  options  = {
    min_rows = { default = 3, doc = "Logged steps below which a layer is not judged" },
  },

  run = runs.apart(function(case, run)
    local layered = case.scalars:where { primary = true }:where("layer is not null")
    local grads   = layered:where { metric = "grad_norm" }:where("finite(value)")
    local weights = layered:where("match(metric, 'weight_norm|update_ratio|grad_norm')")

    local declared, uncalled = freezing.declared(case), freezing.uncalled(layered)
    local flagged, known = freezing.flagged(case)
    if not known then
      skip("which parameters have requires_grad off (manifest.json of culprit_recorder.watch)",
        "layer-asks-no-gradient")
    end

    -- In the order of their first appearance, which is that of the forward pass.
    ---@type table[], string[], integer, culprit.Table?, integer
    local states, dead, alive, rows, steps = {}, {}, 0, nil, 0
    for layer, values in weights:group("layer") do
      local own = values:where { metric = "grad_norm" }:where("finite(value)")
      local logged = values:distinct("step"):count()
      if logged >= case.options.min_rows and not declared(layer) then
        local moved = values:where { metric = "update_ratio" }
        local stale = flagged(layer) and moved:count() > 0 and moved:max("value") == 0
        local none = stale or own:count() == 0 and values:where("metric == 'update_ratio' and value > 0"):count() == 0
        local size = values:where { metric = "weight_norm" }
        -- Of norms with four digits one that moves was changed between the rows: by the gradients of steps that are not
        -- logged, as of a task that has its turn, or by what copies or averages it.
        local between = (none or own:count() > 0 and own:max("value") == 0) and moved:count() > 0
          and moved:max("value") == 0 and size:count() > 1 and size:max("value") - size:min("value")
          > 3e-4 * size:max("value")
        local zeros = layered:where { metric = "zero_share", layer = layer }
        -- Weights or outputs of zero are another check's: nothing passes them in either direction.
        if not flagged(layer) and (size:count() > 0 and size:max("value") == 0
          or zeros:count() > 0 and zeros:median("value") >= 0.99) or between or freezing.shut(layered, layer) then
        elseif (none or own:count() >= case.options.min_rows and own:max("value") == 0)
          and (freezing.rest(layered, layer) or uncalled(layer)) then
        elseif none or own:count() >= case.options.min_rows and own:max("value") == 0 then
          states[#states + 1] = { layer = layer, dead = true }
          dead[#dead + 1] = layer
          rows, steps = own:count() > 0 and own or values, math.max(steps, logged)
        elseif own:count() > 0 and own:median("value") > 0 then
          states[#states + 1] = { layer = layer, dead = false }
          alive = alive + 1
        end
      end
    end
    if #states == 0 then return skip("gradient norms of layers at 3 steps or more") end
    name_apart(states)
    if #dead == 0 then
      -- Where a part of what is logged as a layer never moves, the norm of the whole says nothing of that part.
      for index, state in ipairs(states) do
        if freezing.part(layered, state.layer, 0.2, case) and not declared(state.layer)
          and not freezing.little(case, run, { state.layer }) then
          skip("gradient norms by tensor: a part of " .. state.layer .. " never changes", "layer-gradient-zero")
          local upstream = index > 1 and states[1].layer
          if upstream and not states[1].own:glob("*emb*|*wte*|*tok*") then
            report {
              symptom  = "gradient-missing-between",
              score    = 0.9,
              at       = { run = run, layer = state.layer, step = grads:sort("step"):first().step },
              message  = ("%s learns upstream of %s, a part of which never changes: the graph is whole, and that "
                .. "part is frozen"):format(upstream, state.layer),
              evidence = { grads:where { layer = upstream }:slice(0, 3) },
            }
          else
            skip("a layer upstream of " .. state.layer, "gradient-missing-between")
          end
          return
        end
      end
    end
    local table_ = #dead == 0 and not known and positions_still(case, layered)
    if table_ then
      report {
        symptom  = "position-layer-without-gradient",
        score    = 0.85,
        at       = { run = run, layer = table_.layer, step = grads:sort("step"):first().step },
        message  = ("%.4g %% of %s never changes, which is what %d positions are of its %d rows: the model does not "
          .. "use them, unless they are fixed by design"):format(100 * table_.share, table_.layer, table_.places,
          table_.rows),
        evidence = { table_.shares:slice(0, 4) },
      }
      return skip("gradient norms by tensor", "layer-gradient-zero")
    end
    local inner = #dead == 0 and part_alone(layered, optimizers.scale_free(case))
    -- An output layer that learns alone is a probe of features as they are, or what is left of a graph that was cut.
    if inner and not known and inner.part:lower():glob("*.fc|*head|*.classifier|*.proj_out|*probe") then
      return skip(("which parameters have requires_grad off (manifest.json of culprit_recorder.watch): of %s its "
        .. "output layer alone learns, as in a probe"):format(inner.layer))
    end
    if inner and not declared(inner.layer) and not flagged(inner.layer) then
      report {
        symptom  = "layer-gradient-zero",
        score    = 0.9,
        at       = { run = run, layer = inner.layer, step = grads:sort("step"):first().step },
        message  = ("the gradient of %s is that of its part %s, to four digits at all of %d logged steps, and so is "
          .. "its update: the rest, %s of its squared weight norm, gets none"):format(inner.layer, inner.part,
          inner.steps, units.percent(inner.share)),
        evidence = { inner.rows },
      }
      -- A table that is the output layer's as well has its gradient from there.
      local heads = layered:where { metric = "weight_norm", step = grads:min("step") }
        :where("match(layer, '*head|*lm_head|*decoder|*output_layer|*classifier') and value > 0"):count()
      local begin = states[1] and (states[1].layer == inner.layer or states[1].layer == inner.part)
      if begin and inner.part:lower():glob("*emb*|*wte*|*tok*") and (heads == 0
        or case.config:where("match(key, '*tie*') and match(value, 'true|True')"):count() > 0) then
        report {
          symptom  = "gradient-cut-upstream",
          score    = 0.8,
          at       = { run = run, layer = inner.layer, step = grads:sort("step"):first().step },
          message  = ("of %s the table alone learns, which is the output layer's too, and what follows learns: the "
            .. "graph is cut after it"):format(inner.layer),
          evidence = { inner.rows },
        }
      else
        skip("a place behind which all learns", "gradient-cut-upstream")
      end
      return
    end
    if #dead == 0 or alive == 0 or grads:count() == 0 then return end
    local kept = known and freezing.kept(case, states, flagged)
    if kept then
      return skip(("layers that are to learn: those without a gradient have requires_grad off, and are %s"):format(
        kept))
    end
    -- A loss that is no number, as 0 / 0 where no label counts, leaves layers to the gradient of the terms beside it.
    local losses = case.scalars:where { name = "loss", primary = true }:where("value is not null")
    if losses:count() > 0 and losses:where("finite(value)"):count() == 0 then
      return skip("a loss that is a number at some step: what learns has its gradient from terms beside it")
    end

    -- A layer that learns upstream of a dead one has its gradient through it, unless its weight is the head's too.
    local told = case.config:where("match(key, '*tie*') and match(value, 'true|True')"):count() > 0
    local tied = told or weights:where("match(layer, '*head*|*lm_head*|*output*')"):count() == 0
    local between, last_dead = nil, 0
    for index, state in ipairs(states) do
      if state.dead then last_dead = index end
    end
    local cut = cut_branches(states)
    local beside, inside -- a module that is cut while another learns before it; what learns in that of a dead layer
    for index = 1, last_dead do
      local state = states[index]
      -- Patches are pixels, and times are numbers, which no head gives out; nor is what projects a table.
      local shared = tied and state.own:glob("*emb*|*wte*|*tok*")
        and not state.own:glob("*pos*|*wpe*|*patch*|*proj*|*mlp*|*time*")
        and (told or not no_output(case, state.layer, states))
        and not learns_beside_table(grads, state.layer)
      -- What takes up another input, as a time or a class does, is taken in by every block, and learns from those
      -- behind a place where all is cut from the first input on.
      local condition = states[1].dead and states[1].own:glob(INTAKE) and state.own:glob(INTAKE)
        and branch(state.layer) ~= branch(states[1].layer) and state.layer:contains(".")
      if not state.dead and not shared and not condition then
        local upstream, own = false, false
        for other = index + 1, last_dead do
          local name = branch(states[other].layer)
          if states[other].dead then
            own      = own or name == branch(state.layer)
            upstream = upstream or not cut[name]
            beside   = beside or cut[name] and name
          end
        end
        -- What learns in the same module is surer to be upstream than another one.
        if own then inside = inside or state.layer elseif upstream then between = between or state.layer end
      end
    end
    between = inside or between
    if not between and beside_another(states, dead, cut) then beside = beside or branch(dead[1]) end

    local idle = not flagged(dead[1]) and (known or not held.without(case, #dead)) and freezing.idle_output(
      case, states)
    if idle then
      return skip(("a layer that the loss needs: %s alone gets no gradient, an output behind all that learns"):format(
        idle))
    end
    local names = lists.first(dead, 6)
    local little = freezing.little(case, run, dead)
    if little then
      report {
        symptom  = "layer-gradient-zero",
        severity = "info",
        score    = 0.3,
        at       = { run = run, layer = dead[#dead], layers = dead, step = rows:first().step },
        message  = ("%s no gradient at any of %d logged steps (%s), %s of the model's weights"):format(
          #dead == 1 and "1 layer gets" or ("%d layers get"):format(#dead), steps, names, units.percent(little)),
        evidence = { rows:slice(0, 5) },
      }
      return skip("more than a fiftieth of the model without a gradient: so little may be so by design",
        "gradient-cut-upstream", "gradient-in-head-alone", "gradient-missing-between",
        "position-layer-without-gradient", "layer-asks-no-gradient")
    end
    local behind = outputs_behind(layered, states)
    local at = { run = run, layer = dead[#dead], layers = lists.joined(dead, behind), step = rows:first().step }
    local places_alone = freezing.places_alone(dead)
    local aside = between and freezing.aside(dead, alive, flagged)
    if places_alone then
      skip("a layer that the loss needs: tables of positions alone get no gradient", "layer-gradient-zero")
    else
      report {
        symptom  = "layer-gradient-zero",
        score    = aside and 0.5 or 0.97,
        at       = at,
        message  = ("%s no gradient at any of %d logged steps (%s), %s"):format(
          #dead == 1 and "1 layer gets" or ("%d layers get"):format(#dead), steps, names,
          alive == 1 and "1 other learns" or ("%d others learn"):format(alive)),
        evidence = { rows:slice(0, 5) },
      }
    end
    -- Nothing of where a graph is cut can be told from parameters that ask for no gradient.
    local unasked, asking = nil, 0
    for _, layer in ipairs(dead) do
      if flagged(layer) then unasked = unasked or layer else asking = asking + 1 end
    end
    if unasked then
      local count = #dead - asking
      report {
        symptom  = "layer-asks-no-gradient",
        score    = 0.97,
        at       = { run = run, layer = unasked, step = at.step },
        message  = ("%s requires_grad off (%s%s), which no setting declares: frozen, and not cut off from the loss")
          :format(count == 1 and "1 layer has" or ("%d layers have"):format(count), flagged(unasked),
          count > 1 and " and others" or ""),
        evidence = { rows:slice(0, 3) },
      }
      if asking == 0 then
        return skip("layers that ask for a gradient and get none: those without have requires_grad off",
          "gradient-cut-upstream", "gradient-in-head-alone", "gradient-missing-between",
          "position-layer-without-gradient")
      end
    end
    -- What is cut off is held by the optimizer all the same, without a state. Where each parameter that it holds has
    -- one, these are not held, as what was frozen before the optimizer was made.
    local stepped = not known and held.without(case, #dead)
    -- What lets nothing through makes gradients zero; where none is on record there was none.
    local silent = not unasked and grads:where { layer = dead }:count() > 0
      and (silent_between(layered, weights, dead, states) or silent_gate(layered, grads, dead))
    if silent then
      return skip(("units that let a gradient through: all that comes out of %s is zero"):format(silent),
        "gradient-cut-upstream", "gradient-in-head-alone", "gradient-missing-between",
        "position-layer-without-gradient")
    end
    local or_at = #behind > 0 and (", or at %s"):format(lists.first(behind, 3)) or ""
    local head = true
    for _, state in ipairs(states) do
      local last = state.layer:lower():glob("*head*|*out|*output*|*classifier*|*ln_f*|*norm*")
        or state == states[#states]
      if not state.dead and not last then head = false end
    end
    if stepped and grads:where { layer = dead }:where("value > 0"):count() == 0 and not places_alone then
      report {
        symptom  = "layer-asks-no-gradient",
        score    = 0.7,
        at       = { run = run, layer = dead[1], step = at.step },
        message  = ("each parameter that the optimizer holds has had a gradient, and %s none: the optimizer was made "
          .. "without what has requires_grad off, which no setting declares"):format(names),
        evidence = { rows:slice(0, 3) },
      }
    end
    if places_alone then
      report {
        symptom  = "position-layer-without-gradient",
        score    = 0.9,
        at       = at,
        message  = ("%s gets no gradient and is all that does not: the model does not use it, unless it is fixed "
          .. "by design"):format(names),
        evidence = { rows:slice(0, 5) },
      }
    elseif not between and beside and cut[beside] == "whole" then
      skip(("a layer of %s that learns: nothing of it does, as where it is frozen or its output is cut off"):format(
        beside), "gradient-cut-upstream", "gradient-missing-between", "gradient-in-head-alone")
    elseif between and known and not unasked then
      skip(("a list of what asks for a gradient that has %s: it asks for one, and is passed by or not used"):format(
        dead[#dead]), "gradient-missing-between")
    elseif between then
      report {
        symptom  = "gradient-missing-between",
        score    = aside and 0.5 or 0.9,
        at       = { run = run, layer = dead[1], step = at.step },
        message  = ("%s learns upstream of %s, so the graph is whole and what gets no gradient is frozen"):format(
          between, dead[#dead]),
        evidence = { rows:slice(0, 5) },
      }
    elseif not between and #states > #dead and head then
      report {
        symptom  = "gradient-in-head-alone",
        score    = 0.9,
        at       = at,
        message  = ("only the output layer (%s) gets a gradient: all else is frozen, or the graph is cut after %s%s")
          :format(states[#states].layer, dead[#dead], or_at),
        evidence = { rows:slice(0, 5) },
      }
    elseif #states > #dead and origins_alone(layered, dead) then
      skip(("a layer that puts something out and gets no gradient: %s is a parameter by itself, of which nothing is "
        .. "upstream"):format(dead[#dead]), "gradient-cut-upstream")
    elseif #states > #dead and stepped then
      skip(("a layer that is cut off: the optimizer holds no parameter without a state, and so none of %s"):format(
        dead[#dead]), "gradient-cut-upstream")
    elseif #states > #dead then
      report {
        symptom  = "gradient-cut-upstream",
        score    = tied and 0.75 or 0.9,
        at       = at,
        message  = ("everything %sfrom %s to %s gets no gradient and what follows does: the graph is cut after %s%s")
          :format(beside and ("of %s "):format(beside) or "", dead[1], dead[#dead], dead[#dead], or_at),
        evidence = { rows:slice(0, 5) },
      }
    end
  end),
}
