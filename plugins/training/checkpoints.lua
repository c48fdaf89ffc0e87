--- ## What it detects
--- What the checkpoints of a run say without any statistics of layers: weights that are the same to the last bit in the
--- first and the last of them while others moved, or all one and the same multiple of what they were, which is decay
--- without a gradient; whether the optimizer's state shows a gradient for them; a model of which nothing moved; an
--- optimizer whose step counter fell, or lacks the steps before a resume; an average that stands still.
---
--- ## Why it matters
--- Nearly every run leaves checkpoints, and few leave more. An update moves the small elements of a matrix in any
--- format, so one that is the same to the last bit got none. PyTorch's optimizers make the state of a parameter at its
--- first gradient: what they hold and have no state for never had one.
---
--- ## How to confirm
--- Compare `torch.equal(a[k], b[k])` for every key of both checkpoints; list `requires_grad`, `.grad` and the place in
--- `optimizer.param_groups` of those that are equal.
---
--- ## Known false positives
--- Layers that are frozen on purpose and not declared. What the config names as frozen is left out, what it says is not
--- (`freeze_projector: false` beside another switch that is on) is to move; and so are all but the adapters left out
--- where there are some, tables of sines, batch norms, embeddings that alone stand still (word vectors
--- that are taken over), experts, and parts that follow another model or are taken from one, by their names. Where most
--- of a model stands still, or the config says that the run goes on from trained weights, it may be a backbone that is
--- kept, and nothing is said unless its weights decay, or are as PyTorch makes them, which nobody has trained and
--- nobody keeps: gains of exactly one beside offsets of zero, matrices uniform up to one over the root of their inputs.
--- Where norms alone learn, or parts by turns, that is so by design. Heads of tasks that the data lacks stand still,
--- too. A saved best model stands still while training goes on. Gains and biases tell nothing by themselves, nor do
--- small tensors of a narrow format. PyTorch's optimizers have no state for what is frozen or cut off; moments of zero
--- are of a gradient that came and was zero, as that of units that are all dead, and are not judged. A state that
--- begins anew with each task, round or rewinding does so as many steps after each time, and not at a checkpoint;
--- nothing is said of one, nor where the config names such, nor where it steps other numbers of parameters than before.
--- Of a tensor whose statistics agree to the last bit 4,096 elements are compared that lie evenly over it. Where
--- statistics of layers are logged, training/layer-weights judges.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.state_dict.html

local checkpoints = require("checkpoints")
local freezing = require("freezing")
local lists = require("lists")
local places = require("places")
local restarts = require("restarts")
local settings = require("settings")

local function list(names) return lists.first(names, 6) end

local function names_of(layers)
  local names, elements = {}, 0
  for i, layer in ipairs(layers) do names[i], elements = layer.name, elements + layer.elements end
  return names, elements
end

--- The rows of the first layers, as evidence.
local function rows_of(layers)
  local out = {}
  for i = 1, math.min(3, #layers) do
    out[#out + 1] = layers[i].pairs[1].first
    out[#out + 1] = layers[i].pairs[1].last
  end
  return out
end

--- Scalars of a run whose checkpoints may lie in a folder below it, or beside it.
local function scalars_of(case, run)
  local own = {}
  for row in case.scalars:where("run is not null"):distinct("run"):slice(0, 1000):rows() do
    if not run or row.run == run or run:starts_with(row.run .. "/") or row.run:starts_with(run .. "/") then
      own[#own + 1] = row.run
    end
  end
  return case.scalars:where { primary = true }:where("finite(value) and layer is null"):where { run = own }
end

--- Whether the loss falls between two steps: then the model learns, and what was saved is another one.
local function falls(scalars, from, to)
  local loss  = scalars:where { name = "loss" }:where("step >= ? and step <= ?", from, to):sort("step")
  local piece = math.max(1, loss:count() // 5)
  if loss:count() < 5 then return false end
  return loss:slice(loss:count() - piece, piece):median("value") < 0.9 * loss:slice(0, piece):median("value")
end

local function counter_begins_anew(case, run, rows, found)
  if #found.moving == 0 then
    return skip("checkpoints between which something moves", "optimizer-state-reset")
  end
  if settings.on(case.config:where("match(key, '*reset_optim*|*no_load_optim*|*reset_opt|*finetune*|*weights_only*|"
    .. "*load_module_only*')")):first() then
    return skip("an optimizer's state that is kept: a setting drops it", "optimizer-state-reset")
  end
  local set = restarts.setting(case)
  if set then
    return skip(("an optimizer's state that is kept: by %s it begins anew"):format(set.key), "optimizer-state-reset")
  end
  local judged = false
  local optimizers, more = checkpoints.counters(rows)
  for _, counts in ipairs(optimizers) do
    judged = judged or #counts > 1
    -- Begun anew in turn, and never at a checkpoint, from which alone a run is continued.
    local begun, saved = { 0 }, false
    for _, count in ipairs(counts) do
      local step = count.step - count.mean
      if step > begun[#begun] then begun[#begun + 1] = step end
      for _, other in ipairs(counts) do saved = saved or step > 0 and other.step == step end
    end
    local turns = not saved and restarts.in_turn(begun)
    for i = 2, #counts do
      local before, now = counts[i - 1], counts[i]
      -- Counted in updates up to there, and since then only those of the steps behind it. A counter that stands still
      -- is that of an optimizer that has had its turn, where it does not go on or is not the only one.
      local anew = before.mean > 0 and before.mean == before.step and now.mean == now.step - before.step
      local goes = now.mean ~= before.mean or #optimizers == 1 and #counts == 2
        or counts[i + 1] ~= nil and counts[i + 1].mean > now.mean
      local reset = now.mean < before.mean or anew and goes
      -- A run that is continued holds what it held. One optimizer that steps more parameters, or fewer, is that of
      -- another stage.
      local function held(step)
        return rows:where { step = step }
          :where("role == 'state' and numel == 1 and match(name, '*state.*.step')"):distinct("name"):count()
      end
      if reset and held(now.step) ~= held(before.step) then
        return skip(("an optimizer of the same parameters: it steps %d at step %d and %d at step %d"):format(
          held(before.step), before.step, held(now.step), now.step), "optimizer-state-reset")
      elseif reset and turns then
        return skip(("an optimizer's state that is kept: it begins anew every %g steps"):format(begun[2]),
          "optimizer-state-reset")
      elseif reset then
        report {
          symptom  = "optimizer-state-reset",
          score    = 0.97,
          at       = { run = run, step = now.step },
          message  = ("the optimizer's counter is %g in the checkpoint of step %d and %g in that of step %d: its "
            .. "moments begin anew"):format(now.mean, now.step, before.mean, before.step),
          evidence = { before, now },
        }
        return
      end
    end
  end
  if more > 0 then
    skip(("fewer step counters: %s of the last checkpoints were not read"):format(units.count(more)),
      "optimizer-state-reset")
  elseif not judged then
    skip("the optimizer's step counter in two checkpoints", "optimizer-state-reset")
  end
end

local function nothing_moves(case, run, rows, found, opt)
  local scalars = scalars_of(case, run)
  local rates   = scalars:where { name = "lr" }
  local between = rates:where("step > ? and step <= ?", found.from, found.to)
  if found.to - found.from < opt.apart then
    return skip("checkpoints of more updates apart", "update-zero", "update-zero-despite-gradient")
  end
  if between:count() > 0 and between:max("value") == 0 and rates:max("value") > 0 then
    return skip("checkpoints of steps between which the rate is above zero", "update-zero",
      "update-zero-despite-gradient")
  end
  if falls(scalars, found.from, found.to) then
    return skip("checkpoints of the model that is trained: the loss falls between them, and no weight moves",
      "update-zero", "update-zero-despite-gradient")
  end
  local names = names_of(found.still)
  report {
    symptom  = "update-zero",
    score    = 0.95,
    at       = { run = run, step = found.from },
    message  = ("all weights of %s (%s) are the same to the last bit in the checkpoints of steps %d and %d"):format(
      units.plural(#names, "layer"), list(names), found.from, found.to),
    evidence = rows_of(found.still),
  }
  local grads   = scalars:where { name = "grad_norm" }:where("step > ? and step <= ?", found.from, found.to)
    :where("value > 0")
  local driven  = between:where("value > 0")
  local state   = checkpoints.gradients(case, rows, found)
  if driven:count() >= 3 and grads:count() >= 3 and state.held and state.held > 0 and state.moments:count() == 0 then
    report {
      symptom  = "update-zero-despite-gradient",
      score    = 0.95,
      at       = { run = run, step = found.from },
      message  = ("no weight moves between steps %d and %d, the gradient norm is %.3g in the median and the learning "
        .. "rate up to %.3g, and the optimizer's state is empty: none of the %d parameters that it holds had a "
        .. "gradient at any of its steps, so that they are not the model's, or are cleared before"):format(
        found.from, found.to, grads:median("value"), driven:max("value"), state.held),
      evidence = { grads:slice(0, 3), driven:slice(0, 2), found.still[1].pairs[1].last },
    }
  else
    skip("an optimizer's state beside the weights, a learning rate and a gradient norm", "update-zero-despite-gradient")
  end
end

--- Where those lie that got no gradient: all upstream of one place, or behind layers that got one. The order is that of
--- the file, which is the model's where weights and state are in one.
local function where_it_ends(run, found, got)
  local layers = {}
  for _, layer in ipairs(found.still) do layers[#layers + 1] = { of = layer, none = true } end
  for _, layer in ipairs(found.moving) do
    if got[layer.name] then layers[#layers + 1] = { of = layer } end
  end
  table.sort(layers, function(a, b) return a.of.order < b.of.order end)
  local first, late
  for i, one in ipairs(layers) do
    if not one.none then first = first or i elseif first then late = late or i end
  end
  if not first or first == #layers and #layers < 2 then return end
  if not late then
    report {
      symptom  = "gradient-cut-upstream",
      score    = 0.85,
      at       = { run = run, step = found.to, layer = layers[first].of.name },
      message  = ("all %s before %s got no gradient up to step %d, and those from there on did"):format(
        units.plural(first - 1, "layer"), layers[first].of.name, found.to),
      evidence = rows_of({ layers[1].of, layers[first].of }),
    }
  else
    report {
      symptom  = "gradient-missing-between",
      score    = 0.85,
      at       = { run = run, step = found.to, layer = layers[late].of.name },
      message  = ("%s got no gradient up to step %d although %s, which is upstream of it, did"):format(
        layers[late].of.name, found.to, layers[first].of.name),
      evidence = rows_of({ layers[late].of, layers[first].of }),
    }
  end
end

--- Whether what stands still comes behind all that moves: a loss's gradient comes to the last layer first, so that none
--- is lost on the way there.
local function behind(found)
  local first, last = math.huge, -math.huge
  for _, layer in ipairs(found.still) do first = math.min(first, layer.order) end
  for _, layer in ipairs(found.moving) do last = math.max(last, layer.order) end
  return first > last
end

--- Whether something that moves comes before all that stands still.
local function upstream(found)
  local first, before = math.huge, math.huge
  for _, layer in ipairs(found.still) do first = math.min(first, layer.order) end
  for _, layer in ipairs(found.moving) do before = math.min(before, layer.order) end
  return before < first
end

--- Whether all that stands still are low-rank pairs whose other factor is still the zeros that it was made of: such a
--- pair adds nothing, and nobody has trained it before. One factor alone may be kept as it was drawn.
local function fresh_pairs(found)
  local zeros = {}
  for _, layer in ipairs(found.rested) do
    zeros[layer.name] = layer.pairs[1].last.min == 0 and layer.pairs[1].last.max == 0
  end
  for _, layer in ipairs(found.still) do
    local other = freezing.factor(layer.name)
    if not other or not zeros[other] then return false end
  end
  return true
end

--- Embeddings, by name: of tokens, places or patches, and what lies in one module with them.
local TABLES = "*emb*|*wte*|*wpe*|*tok*|*table*|*lookup*|*glove*|*word2vec*"

--- Whether the layers that stand still are parts of blocks that are logged as one: these have parts that move, as
--- norms, and hide those that do not.
local function hidden(case, still)
  local names = {}
  for row in case.scalars:where("layer is not null and match(metric, 'update_ratio|grad_norm|weight_norm')")
    :distinct("layer"):slice(0, 5000):rows() do
    names[row.layer] = true
  end
  for _, layer in ipairs(still) do
    local parts, within = layer.name:split("."), false
    for first = 1, #parts do
      if names[table.concat(parts, ".", first)] then return false end
      for last = first + 1, #parts - 1 do within = within or names[table.concat(parts, ".", first, last)] == true end
    end
    if not within then return false end
  end
  return #still > 0
end

--- Whether each layer that stands still is the last of a row of like parts.
local function ends_rows(names, moving)
  for _, name in ipairs(names) do
    if not freezing.ends_row(name, moving) then return false end
  end
  return true
end

local function some_stand_still(case, run, rows, found, opt)
  local names, elements = names_of(found.still)
  local _, moved = names_of(found.moving)
  local factor
  for _, layer in ipairs(found.still) do factor = factor or layer.factor end
  local others, tables_alone = 0, true
  for _, name in ipairs(names) do others = others + (name:lower():glob(TABLES) and 0 or 1) end
  for _, layer in ipairs(found.moving) do tables_alone = tables_alone and layer.name:lower():glob(TABLES) end
  local turn = false -- whether an optimizer has had its turn before the first checkpoint, as of parts that are thawed
  for _, counts in ipairs(checkpoints.counters(rows)) do
    turn = turn or #counts > 1 and counts[1].step == found.from and counts[#counts].mean == counts[1].mean
      and counts[1].mean > 0
  end
  local others_alone = true -- whether all that moves is what may stand still by design, as an encoder that is tuned
  for _, layer in ipairs(found.moving) do others_alone = others_alone and layer.other end
  local state = checkpoints.gradients(case, rows, found)
  -- A model whose parts learn by turns keeps those fresh whose turn has not come.
  local grows = settings.on(case.config:where("match(key, '*progressive*|*grow*|*unfreez*|*gradual*|*thaw*|*supernet*|"
    .. "*search_space*|*layerwise*|*reservoir*|*random_feature*')")):first()
  -- A switch for a part that is off says that it learns, whatever the model began as.
  local promised, learns = fresh_pairs(found) and 1 or 0, freezing.promised(case)
  for _, name in ipairs(names) do promised = promised + (learns(name) and 1 or 0) end
  local kept  = promised == 0 and (found.adapters and "adapters are trained"
    or others_alone and ("%s alone moves, by whose name it is a part that is trained on its own"):format(
      list((names_of(found.moving))))
    or turn and "an optimizer's turn was over before the first checkpoint"
    or not factor and others == 0 and "embeddings alone stand still"
    or not factor and ends_rows(names, (names_of(found.moving)))
      and ("%s is the last of a row of like parts, which gives its output to no next one"):format(list(names))
    or not factor and (settings.loaded(case) or settings.on(case.config:where("match(key, '*name_or_path')")):first())
      and "the run goes on from trained weights"
    or not factor and elements > opt.most * (elements + moved) and (grows or not checkpoints.fresh(found))
      and "most of the model stands still, as what is kept does"
    or not factor and state.held and state.held < found.weights
      and freezing.beside(names, (names_of(found.moving)))
      and "a model stands still that the optimizer does not hold, beside one whose layers are called as its own"
    -- Embeddings are no output: what moves them is a loss behind all that stands still, which nobody trained before.
    or not factor and not (tables_alone and checkpoints.fresh(found)) and behind(found)
      and "what stands still lies behind all that moves, as an output that no loss asks for")
  if kept then
    return skip("what is frozen on purpose: " .. kept, "layer-weights-unchanged", "layer-gradient-zero",
      "layer-unchanged-despite-gradient", "gradient-cut-upstream", "gradient-missing-between")
  end

  if state.zero then
    return skip(("a gradient that is absent: for what stands still (%s) the optimizer has moments of zero, so it had a "
      .. "gradient that was zero, as units that are all dead give, and not none"):format(list(names)),
      "layer-weights-unchanged", "layer-gradient-zero", "layer-unchanged-despite-gradient", "gradient-cut-upstream",
      "gradient-missing-between")
  end
  local all   = state.held and state.held >= found.weights
  local says  = ""
  if state.apart and all then
    says = "; the optimizer holds all parameters and has no moments for these"
  elseif state.apart and state.held then
    says = ("; the optimizer holds %d of %d parameters or more, and has no moments for these"):format(state.held,
      found.weights)
  end
  local resting = checkpoints.resting(found)
  -- Moments keep what came since the optimizer was made: none of them means none from the first step on.
  local start = places.start(case, found.to, false, run)
  report {
    symptom  = "layer-weights-unchanged",
    score    = 0.9,
    at       = { run = run, layer = names[1], layers = resting, step = says ~= "" and start or found.from },
    message  = ("the weights of %s %s in the checkpoints of steps %d and %d (%s), those of %d other%s moved%s"):format(
      units.plural(#names, "layer"), factor and ("are %.6g times what they were"):format(factor)
        or "are the same to the last bit", found.from, found.to, list(names), #found.moving,
      #found.moving == 1 and "" or "s", says),
    evidence = rows_of(found.still),
  }
  if factor or state.apart and all then
    report {
      symptom  = "layer-gradient-zero",
      score    = 0.9,
      at       = { run = run, layer = names[1], layers = resting, step = factor and found.from or start },
      message  = factor and ("every weight of %s is %.6g times what it was at step %d: decay alone, without a gradient")
          :format(list(names), factor, found.from)
        or ("the optimizer has moments for what moves and none for %s, which it holds: no gradient up to step %d")
          :format(list(names), found.to),
      evidence = rows_of(found.still),
    }
    if state.apart and state.got then return where_it_ends(run, found, state.got) end
    return skip("moments by the names of parameters", "gradient-cut-upstream", "gradient-missing-between")
  end
  if not state.got then
    -- What the optimizer does not hold stands still whether or not the graph is cut, and what has moments upstream of
    -- it has its gradient through what lies behind.
    if not (state.apart and state.held and not all and upstream(found)) then
      skip("moments of the layers that stand still, by their names", "gradient-cut-upstream")
    end
    return skip("moments of the layers that stand still, by their names", "layer-unchanged-despite-gradient",
      "layer-gradient-zero", "gradient-missing-between")
  end
  local pushed = {}
  for _, layer in ipairs(found.still) do
    if state.got[layer.name] and state.stepped[layer.name] then pushed[#pushed + 1] = layer end
  end
  if #pushed > 0 then
    report {
      symptom  = "layer-unchanged-despite-gradient",
      score    = 0.9,
      at       = { run = run, layer = pushed[1].name, layers = names_of(pushed), step = found.to },
      message  = ("%s stands still between steps %d and %d although the optimizer has moments above zero for it")
        :format(list((names_of(pushed))), found.from, found.to),
      evidence = rows_of(pushed),
    }
  end
end

local function average_stands_still(case, run, rows, found, left, opt)
  local average = checkpoints.layers(rows, "ema", left, opt.elements)
  if not average or #found.moving < 2 or average.to - average.from < 2 then
    return skip("an average of the weights in two checkpoints, between which these move", "average-unchanged")
  end
  if #average.still < 2 or #average.moving > 0 then return end
  if settings.on(case.config:where("match(key, '*ema*start*|*ema*after*|*ema*warm*|*ema*begin*|*ema*every*|"
    .. "*ema*interval*|*ema*freq*|*start_ema*|*ema_steps*')")):first() then
    return skip("an average that is updated from the first step on: a setting delays it", "average-unchanged")
  end
  report {
    symptom  = "average-unchanged",
    score    = 0.95,
    at       = { run = run, step = average.to },
    message  = ("the average of the weights is the same to the last bit at steps %d and %d, and the weights of %s "
      .. "moved: nothing updates it"):format(average.from, average.to, units.plural(#found.moving, "layer")),
    evidence = rows_of(average.still),
  }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "What did not move between the checkpoints of a run",
  needs    = { tensors = { "name", "role", "layer", "step", "data" } },
  symptoms = { "layer-weights-unchanged", "layer-unchanged-despite-gradient", "layer-gradient-zero",
    "gradient-cut-upstream", "gradient-missing-between", "update-zero", "update-zero-despite-gradient",
    "optimizer-state-reset", "average-unchanged" },
  options  = {
    elements = { default = 4096, doc = "Elements of a tensor that are compared" },
    most     = { default = 0.5,  doc = "Share of the elements that stand still as a kept backbone does" },
    apart    = { default = 5,    doc = "Steps between checkpoints below which a whole model may stand still" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local logged = case.scalars:where { metric = "update_ratio" }:where("layer is not null"):count() > 0
    local left   = freezing.declared(case)
    local names  = {}
    for row in case.tensors:where { role = "weight" }:distinct("run"):slice(0, 100):rows() do
      names[#names + 1] = row.run
    end
    for _, name in ipairs(names) do
      local run   = #names > 1 and name or nil
      -- A trainer may keep the state of the optimizer in a folder beside that of the weights.
      local rows  = #names == 1 and name and case.tensors:where("run == ? or role == 'state'", name)
        or case.tensors:where { run = name }
      local found = checkpoints.layers(rows, nil, left, opt.elements)
      if found and #found.still + #found.moving >= 2 then
        judged = true
        counter_begins_anew(case, run, rows, found)
        average_stands_still(case, run, rows, found, left, opt)
        if logged and #found.moving >= 2 and hidden(case, found.still) then
          some_stand_still(case, run, rows, found, opt)
        elseif logged then
          skip("runs without statistics of layers: training/layer-weights judges these", "layer-weights-unchanged",
            "layer-unchanged-despite-gradient", "layer-gradient-zero", "gradient-cut-upstream",
            "gradient-missing-between", "update-zero", "update-zero-despite-gradient")
        elseif #found.moving == 0 then
          nothing_moves(case, run, rows, found, opt)
        elseif #found.still > 0 and #found.moving == 1 then
          skip("what is frozen on purpose: all but one layer stands still", "layer-weights-unchanged",
            "layer-gradient-zero", "layer-unchanged-despite-gradient", "gradient-cut-upstream",
            "gradient-missing-between")
        elseif #found.still > 0 then
          some_stand_still(case, run, rows, found, opt)
        end
      end
    end
    if not judged then return skip("weights of one run in checkpoints of two steps") end
  end,
}
