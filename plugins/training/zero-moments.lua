--- ## What it detects
--- Layers whose moments in a checkpoint of Adam are exactly zero although the optimizer has stepped them: gradients
--- came at every step, and each one was zero.
---
--- ## Why it matters
--- PyTorch makes the state of a parameter at its first gradient, so what is frozen or cut off has none. A second
--- moment only ever decays by a factor, so that one of zero means that there was never a gradient but zero: the units
--- behind are all dead, or all of it is multiplied by a zero that nothing opens. Only the checkpoint is needed, and no
--- statistics of layers.
---
--- A matrix of zero moments whose own bias has some gets a gradient at its outputs: what it takes in is zero, and no
--- unit of its own is dead. Dead units leave two such tensors at least, what leads to them and what leads away.
---
--- ## How to confirm
--- Look at the output of the activation behind the first of these layers for one batch: `(h == 0).all()`. Print the
--- layer's bias; one that is far below zero keeps every unit off.
---
--- ## Known false positives
--- A head whose loss has a weight of zero, experts that no token reaches, adapters beside a factor that starts at zero,
--- queries and keys over one place, recurrent weights of sequences of one step: their gradients are zero by design.
--- What bears such a name is left out, and so is what lies behind all that learns, and everything where the config has
--- a weight of a loss that is zero. An output layer, whose outputs no other matrix takes in, gets a gradient in its
--- bias from the loss itself: where that is zero too, the loss does not ask for it (a task without labels), and
--- neither it nor the layers of zero moments right before it have dead units for that. An input that is zero in every
--- batch leaves its layer's bias as it is, and a lone row of numbers, as what stands for an absent condition, is no
--- layer. Of a list of like matrices without biases some may be for what the data lack, as relations. Moments in fp16
--- lose small gradients and are not judged. Flat and sharded states have no parameters. A state without names is not
--- judged where the config has adapters.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html (None and zero are not the same)

local lists = require("lists")
local places = require("places")
local settings = require("settings")
local state_names = require("state-names")

local BY_DESIGN = "*expert*|*lora*|*adapter*|*hypernet*|*q_proj*|*k_proj*|*to_q*|*to_k*|*query*|*.key*|*_hh_*|*_hh|"
  .. "*.q|*.k|*.q.*|*.k.*|*wq*|*wk*|*projector*|*recurrent*|*aux*|*pooler*|*head*|*emb*|*wte*|*wpe*|*table*|"
  .. "*mask_token*"

--- What is called NAME.exp_avg_sq is of NAME.
local function parameter(row, moment) return row.name:sub(1, #row.name - #moment - 1) end

--- By name, the rows of one moment.
local function named(rows, moment)
  local out = {}
  for row in rows:where("match(name, ?)", "*." .. moment):slice(0, 10000):rows() do
    out[parameter(row, moment)] = row
  end
  return out
end

--- The parameters of an optimizer's state at one step, in its order: each with its second moment and whether that and
--- the first one are zero.
local function parameters(rows)
  local first, counters, out = named(rows, "exp_avg"), named(rows, "step"), {}
  for row in rows:where("match(name, '*.exp_avg_sq')"):slice(0, 10000):rows() do
    local name  = parameter(row, "exp_avg_sq")
    local count = counters[name]
    if first[name] and count and not row.dtype:glob("float16") then
      out[#out + 1] = { name = row.layer, row = row, count = count.mean,
        zero = row.l2 == 0 and row.nonfinite == 0 and first[name].l2 == 0 and first[name].nonfinite == 0 }
    end
  end
  return out
end

--- Whether the state has names of the model, and not numbers alone.
local function by_name(one) return one.name:lower() ~= one.name:upper() end

--- Names of the model for states that have numbers, where weights of these shapes in this order tell them.
local function give_names(case, run, all)
  if #all == 0 or by_name(all[1]) then return end
  local rows = {}
  for i, one in ipairs(all) do rows[i] = one.row end
  for i, layer in ipairs(state_names.layers(case, run, rows) or {}) do all[i].name = layer end
end

--- The layers of some parameters, each once; nil where the state has numbers and nothing names them.
local function places_of(found)
  local out, seen = {}, {}
  for _, one in ipairs(found) do
    if by_name(one) and not seen[one.name] then out[#out + 1], seen[one.name] = one.name, true end
  end
  return #out > 0 and out or nil
end

--- By its place among all, the bias of each matrix: what has its name, or follows it, and has a number for each of its
--- rows; in a state without names, where decay parts matrices from the rest, the k-th vector of a length is of the k-th
--- matrix with as many rows.
local function biases(all)
  local out, matrices, vectors = {}, {}, {}
  for i, one in ipairs(all) do
    local shape = one.row.shape or {}
    local list  = #shape == 1 and vectors or #shape > 1 and matrices or {}
    local rows  = shape[1] or 0
    list[rows]  = list[rows] or {}
    table.insert(list[rows], i)
    local next_ = all[i + 1]
    local fits  = #shape > 1 and next_ and #(next_.row.shape or {}) == 1 and next_.row.shape[1] == rows
    if fits and (next_.name == one.name or not by_name(one)) then out[i] = next_ end
  end
  for rows, places in pairs(matrices) do
    local own = vectors[rows] or {}
    for k, i in ipairs(#own == #places and not by_name(all[places[1]]) and places or {}) do
      out[i] = out[i] or all[own[k]]
    end
  end
  return out
end

--- Whether no other matrix takes in what a matrix puts out.
local function is_output(all, at)
  local rows = all[at].row.shape[1]
  for i, other in ipairs(all) do
    local shape = other.row.shape or {}
    -- A kernel for each channel has one input by its shape, and takes in as many as it puts out. What flattens its
    -- inputs takes a multiple of them, and what is cut in pieces, as queries, keys and values, is a multiple of each.
    local takes = #shape > 2 and shape[2] == 1 and shape[1] or shape[2]
    local fits  = takes == rows
      or takes and rows > 1 and takes > 1 and (takes % rows == 0 or rows % takes == 0)
    if i ~= at and #shape > 1 and (fits or #shape > 2 and shape[1] == rows and rows > 1) then
      return false
    end
  end
  return true
end

--- Matrices that the loss does not ask for, by their places: outputs whose biases have moments of zero as well, and
--- the matrices of zero moments right before these.
local function unasked(all, bias)
  local out = {}
  for i, one in ipairs(all) do
    if #(one.row.shape or {}) > 1 and one.zero and bias[i] and bias[i].zero and is_output(all, i) then
      local k = i
      while k >= 1 do
        local matrix = #(all[k].row.shape or {}) > 1
        if matrix and not (all[k].zero and not (bias[k] and not bias[k].zero)) then break end
        if matrix then out[k] = true end
        k = k - 1
      end
    end
  end
  return out
end

--- Whether a matrix without a bias is one of a list of matrices of one shape, next to each other, some of which learn:
--- those of relations, languages or experts, of which the data may lack some. What they give is added up, so that units
--- behind it that were dead would leave none of them a gradient.
local function member(all, bias, at)
  if bias[at] then return false end
  local function same(i)
    return all[i] and #(all[i].row.shape or {}) > 1 and not bias[i]
      and table.concat(all[i].row.shape, "x") == table.concat(all[at].row.shape, "x")
  end
  local first, last, learns = at, at, 0
  while same(first - 1) do first = first - 1 end
  while same(last + 1) do last = last + 1 end
  for i = first, last do learns = learns + (all[i].zero and 0 or 1) end
  return last - first >= 2 and learns > 0
end

--- Layers by the names of the model where the state has them, and shapes else.
local function named_layers(found)
  local names, seen = {}, {}
  for _, one in ipairs(found) do
    local name = by_name(one) and one.name or table.concat(one.row.shape or {}, " x ")
    if not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  return lists.first(names, 4)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients came and were zero, every time, by the optimizer's moments",
  needs    = { tensors = { "name", "role", "layer", "step", "l2" } },
  symptoms = { "gradient-always-zero" },
  options  = {
    updates = { default = 20, doc = "Updates before which a zero that opens later may still be shut" },
    few     = { default = 8,  doc = "Numbers up to which a matrix is a scale for each head or channel" },
  },

  run = function(case)
    local states = case.tensors:where("role == 'state' and step is not null and numel >= 1")
    local judged = false
    for run in states:where("match(name, '*.exp_avg_sq')"):slice(0, 20000):group("run") do
      local rows = states:where { run = run }
      local all  = parameters(rows:where { step = rows:where("match(name, '*.exp_avg_sq')"):max("step") })
      local zero, matrices, live, last = {}, 0, 0, 0
      give_names(case, run, all)
      local bias = biases(all)
      local idle, idle_bias = unasked(all, bias), {}
      for i in pairs(idle) do
        if bias[i] then idle_bias[bias[i]] = true end
      end
      for i, one in ipairs(all) do
        local shape = one.row.shape or {}
        local lone  = #shape > 1 and shape[1] == 1 and not bias[i]
        if not one.zero then
          live, last = live + 1, i
        elseif one.count >= case.options.updates and not one.name:lower():glob(BY_DESIGN) and not lone
          and not idle[i] and not idle_bias[one] then
          zero[#zero + 1] = one
          -- Of a matrix whose bias learns the inputs are zero, and not what it puts out.
          if #shape > 1 and one.row.numel > case.options.few and not (bias[i] and not bias[i].zero)
            and not member(all, bias, i) then
            matrices = matrices + 1
            one.at = i
          end
        end
      end
      judged = judged or #all > 0
      -- Numbers do not say which are the factors of low-rank pairs, half of which wait for the other half.
      local pairs_ = #all > 0 and not by_name(all[1]) and settings.on(case.config:where(
        "match(key, '*lora*|*peft*|*adapter*')")):first()
      local upstream = false
      for _, one in ipairs(#zero > 1 and zero or {}) do upstream = upstream or one.at ~= nil and one.at < last end
      local off = case.config:where("match(key, '*loss*weight*|*weight*loss*|*coef*|*lambda*|*_alpha|*loss_scale*') "
        .. "and number == 0"):first()
      local rates = case.scalars:where { name = "lr" }:where("finite(value)")
      if rates:count() > 0 and rates:max("value") <= 0 then
        skip("a learning rate above zero: a gate that starts shut stays shut without", "gradient-always-zero")
      elseif live > 0 and matrices > 0 and upstream and pairs_ then
        skip(("names of the parameters: there are adapters (%s), and a state without names does not say which is one")
          :format(pairs_.key), "gradient-always-zero")
      elseif live > 0 and matrices > 0 and upstream and off then
        skip(("a loss all of whose parts count: %s is 0"):format(off.key), "gradient-always-zero")
      elseif live > 0 and matrices > 0 and upstream then
        local layers = places_of(zero)
        report {
          symptom  = "gradient-always-zero",
          score    = 0.9,
          -- Moments keep what came in as many updates as the counter has.
          at       = { run = run, layer = layers and layers[1], layers = layers,
            step = math.max(places.first_step(case) or 0, math.floor(zero[1].row.step - zero[1].count)) },
          message  = ("both moments of %d of %d parameters are exactly 0 after %d updates (%s): a gradient came "
            .. "to them at every step and was 0, as from units that are all dead; what is frozen or cut off has no "
            .. "moments")
            :format(#zero, #all, zero[1].count, named_layers(zero)),
          evidence = { zero[1].row, zero[#zero].row },
        }
      end
    end
    if not judged then skip("moments of Adam by parameter, and its counter, in a checkpoint") end
  end,
}
