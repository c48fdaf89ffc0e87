--- Pairs of tensors of two checkpoints of one run: what stood still, what only decayed, and what the optimizer's state
--- says of gradients. Statistics are known of every tensor, so that elements are read of those alone that may be equal.

local checkpoints = {}

-- Rows that one rows() gives, and step counters that are read of all checkpoints.
local PIECE, MOST = 10000, 50000

-- What may stand still by design, by its name: what follows, what is taken over, fixed features, losses. That it moves
-- is told of it as of any other layer.
local OTHERS = "*teacher*|*momentum_enc*|*encoder_k.*|target.*|*.target.*|*target_*|*_target*|*ref_model*|"
  .. "*reference*|*lpips*|*vgg*|*perceptual*|"
  .. "*text_encoder*|*vision_tower*|*vision_model*|*visual_encoder*|vae.*|*.vae.*|*first_stage*|*cond_stage*|*fourier*|"
  .. "*time_proj|*rotary*|*freqs*|*inv_freq*|*freq_*|*sinus*|*rff*|*expert*|loss.*|*.loss.*|"
  .. "*loss_*|*_loss*|*criterion*|*scaler*|*normaliz*|*pooler*|*quantiz*|"
  .. "*codebook*|*discriminator*|battery*|*random*|*reservoir*|*fixed*|*frozen*|*stft*|*spectrogram*|*mel_*|"
  .. "*filterbank*|*wavelet*|*dct*|*sobel*|*blur*|aux.*|*.aux.*|*aux_*|*auxil*|"
  .. "*seq_relationship*|*hash*|*relative_position_index*"
local FIGURES = { "l2", "mean", "std", "min", "max", "zero_share" }

--- Whether two rows hold the same elements, by their statistics and by `most` elements in pieces that lie evenly over
--- them: statistics are sums in a fixed order, the same to the last bit for the same elements alone.
---@param a culprit.Row
---@param b culprit.Row
---@param most integer
---@return boolean
function checkpoints.same(a, b, most)
  for _, name in ipairs(FIGURES) do
    if a[name] ~= b[name] then return false end
  end
  local size = math.min(a.numel, math.max(1, most // 4))
  for i = 0, 3 do
    local first = i * (a.numel - size) // 3
    local x, y  = a:values(first, size), b:values(first, size)
    for k = 1, #x do
      if x[k] ~= y[k] then return false end
    end
  end
  return true
end

--- The factor below 1 that takes every element of one row to that of the other, but for what is rounded in `steps`
--- products; nil where there is none. A gradient leaves no such pair.
---@param a culprit.Row
---@param b culprit.Row
---@param steps number
---@return number?
function checkpoints.decayed(a, b, steps)
  if a.dtype ~= "float32" or not a.l2 or a.l2 == 0 or not b.l2 or b.l2 >= a.l2 or a.numel < 64 then return nil end
  local factor, slack = b.l2 / a.l2, 2.5e-7 * (math.sqrt(steps) + 1)
  if 1 - factor < 20 * slack then return nil end
  for _, name in ipairs({ "std", "min", "max" }) do
    if math.abs(b[name] - factor * a[name]) > slack * math.abs(a[name]) then return nil end
  end
  local x, y = a:values(0, math.min(a.numel, 2048)), b:values(0, math.min(a.numel, 2048))
  for k = 1, #x do
    if math.abs(y[k] - factor * x[k]) > slack * math.abs(x[k]) then return nil end
  end
  return factor
end

--- Whether an update of any size would show in a tensor: a matrix with elements of both signs, some of which are so
--- close to zero that no format rounds an update away. A gain that starts at 1 may stay there in bf16.
local function telling(row)
  return #(row.shape or {}) >= 2 and row.min ~= nil and row.min < 0 and row.max > 0
    and row.numel >= (row.dtype:glob("float16|bfloat16") and 16384 or 16)
end

--- The first `most` rows of a table, whatever one rows() gives.
---@param rows culprit.Table
---@param most integer
---@return fun(): culprit.Row?
local function each(rows, most)
  local first, piece = 0, nil
  most = math.min(most, rows:count())
  return function()
    local row = piece and piece()
    while not row and first < most do
      piece = rows:slice(first, math.min(PIECE, most - first)):rows()
      first, row = first + PIECE, piece()
    end
    return row
  end
end

--- Names that are no business of the loss: by what they are called, a causal mask that is called bias, and a table of
--- sines and cosines, whose squares have a mean of one half.
local function fixed(row)
  return row.layer:lower():glob(OTHERS) or row.name:ends_with("bias") and #(row.shape or {}) > 1
    or row.layer:lower():glob("*pos*") and row.rms ~= nil and math.abs(row.rms - math.sqrt(0.5)) < 0.05
end

--- The tensors that two checkpoints have in common, by name and rank.
local function shared(weights, from, to)
  local first, out = {}, {}
  for row in each(weights:where { step = from }, 20000) do first[row.name .. "#" .. (row.rank or 0)] = row end
  for row in each(weights:where { step = to }, 20000) do
    local before = first[row.name .. "#" .. (row.rank or 0)]
    if before and before.numel == row.numel and before.dtype == row.dtype then
      out[#out + 1] = { first = before, last = row }
    end
  end
  return out
end

--- The layers of the first and the last checkpoint of a run: those that stand still or only decay, and those that move;
--- of those that stand still by design, by their names, the ones that move. Nil where there are no two.
---@param rows culprit.Table     rows of case.tensors of one run
---@param variant string?        "ema": of the average; nil: of the weights themselves
---@param left fun(layer: string): boolean  what is not judged
---@param most integer           elements that are compared
---@return table?  from, to, still, moving: layers with name, pairs, elements, order, factor, other (whether its name
--- is of what may stand still by design); rested: all that do not move, judged or not; weights: how many
--- there are, but for what stands still by declaration
function checkpoints.layers(rows, variant, left, most)
  local weights = rows:where("role == 'weight' and numel >= 1 and step is not null and "
    .. "match(dtype, 'float64|float32|float16|bfloat16')")
  weights = variant and weights:where { variant = variant } or weights:where("variant is null")
  -- A dump of some weights is no checkpoint.
  local counts = weights:aggregate({ "step" }, { held = "count" })
  counts = counts:where("held >= ?", 0.5 * (counts:max("held") or 0))
  local from, to = counts:min("step"), counts:max("step")
  if not from or from == to then return nil end
  local norms = {}
  for row in rows:where { role = "value", step = to }:where("match(name, '*running_mean')"):slice(0, 5000):rows() do
    norms[row.layer:replace(".running_mean", "")] = true
  end

  local out     = { from = from, to = to, still = {}, rested = {}, moving = {}, weights = 0, adapters = false }
  local common  = shared(weights, from, to)
  local several = math.max(64, math.min(most, 1000000 // math.max(1, #common)))
  local layers, order = {}, {}
  for _, pair in ipairs(common) do
    local row = pair.last
    if row.layer:lower():glob("*lora*|*adapter*") then out.adapters = true end
    local layer = layers[row.layer]
    if not layer then
      layer = { name = row.layer, pairs = {}, elements = 0, order = row.order or 0, norm = norms[row.layer] }
      layers[row.layer], order[#order + 1] = layer, layer
    end
    layer.other    = layer.other or fixed(row)
    layer.elements = layer.elements + row.numel
    layer.pairs[#layer.pairs + 1] = pair
    local broken = row.nonfinite > 0 or pair.first.nonfinite > 0
    local factor = not broken and checkpoints.decayed(pair.first, row, to - from)
    if factor then
      layer.factor, layer.told = factor, true
    elseif not broken and checkpoints.same(pair.first, row, several) then
      layer.told = layer.told or telling(row)
    else
      layer.moves = true
    end
  end
  for _, layer in ipairs(order) do
    -- What is frozen by declaration an optimizer need not hold.
    if layer.moves or not left(layer.name) then
      for _, pair in ipairs(layer.pairs) do
        local mask = pair.last.name:ends_with("bias") and #(pair.last.shape or {}) > 1
        out.weights = out.weights + (mask and 0 or 1)
      end
    end
    if layer.moves then
      out.moving[#out.moving + 1] = layer
    else
      out.rested[#out.rested + 1] = layer
      layer.left = left(layer.name)
    end
    if not layer.moves and layer.told and not layer.other and not layer.norm and not layer.left then
      out.still[#out.still + 1] = layer
    end
  end
  return out
end

--- The names of what stands still, with the vectors beside it that stand still as well: gains and offsets of norms,
--- which tell nothing by themselves, between or next to layers that do.
---@param found table  of checkpoints.layers
---@return string[]
function checkpoints.resting(found)
  local all, judged = {}, {}
  for _, layer in ipairs(found.still) do judged[layer] = true end
  for _, layers in ipairs({ found.rested, found.moving }) do
    for _, layer in ipairs(layers) do all[#all + 1] = layer end
  end
  table.sort(all, function(a, b) return a.order < b.order end)
  local names, begun, held = {}, 1, false
  for i = 1, #all + 1 do
    local layer = all[i]
    if not layer or layer.moves then
      for k = begun, i - 1 do
        if judged[all[k]] or held and not all[k].other and not all[k].left then names[#names + 1] = all[k].name end
      end
      begun, held = i + 1, false
    else
      held = held or judged[layer] or false
    end
  end
  return names
end

--- The batch norms of a checkpoint that have gains and offsets.
---@param rows culprit.Table  of one run and step
---@return table[]  layer, gain, offset: rows
function checkpoints.norms(rows)
  local known, by, out = {}, {}, {}
  for row in rows:where("role == 'value' and match(name, '*running_mean')"):slice(0, 5000):rows() do
    known[row.layer:replace(".running_mean", "")] = true
  end
  for row in rows:where("role == 'weight' and variant is null and numel >= 4 and nonfinite == 0 and "
    .. "match(name, '*weight|*bias')"):slice(0, 20000):rows() do
    if known[row.layer] and #(row.shape or {}) == 1 then
      by[row.layer] = by[row.layer] or { layer = row.layer }
      by[row.layer][row.name:ends_with("bias") and "offset" or "gain"] = row
      if by[row.layer].gain and by[row.layer].offset then out[#out + 1] = by[row.layer] end
    end
  end
  return out
end

--- Whether what stands still is as PyTorch makes it, so that nobody has trained it before: two norms or more, whose
--- gains are all exactly one and whose offsets are all zero (bf16 keeps a gain at one through a training, and no offset
--- at zero), or most matrices uniform up to one over the root of their inputs, and to nowhere beyond. A norm that is
--- anything else was trained.
---@param found table  of checkpoints.layers
---@return boolean
function checkpoints.fresh(found)
  local norms, uniform, matrices, learns = 0, 0, 0, false
  -- Norms that learn alone do so on purpose, whatever they are between.
  for _, layer in ipairs(found.moving) do
    for _, pair in ipairs(layer.pairs) do learns = learns or #(pair.last.shape or {}) > 1 end
  end
  if not learns then return false end
  for _, layer in ipairs(found.rested) do
    local gain, offset, flat = nil, nil, true
    for _, pair in ipairs(layer.pairs) do
      local row, name = pair.last, pair.last.name
      if #(row.shape or {}) > 1 then
        flat = false
        local bound = math.sqrt(row.shape[1] / row.numel)
        if row.numel >= 256 and row.dtype == "float32" and not layer.other then
          local fills = row.max <= bound * (1 + 1e-6) and row.min >= -bound * (1 + 1e-6)
            and row.max > 0.95 * bound and row.min < -0.95 * bound
            and math.abs(row.std * math.sqrt(3) / bound - 1) < 0.1
          matrices, uniform = matrices + 1, uniform + (fills and 1 or 0)
        end
      elseif name:ends_with("weight") then
        gain = row
      elseif name:ends_with("bias") then
        offset = row
      end
    end
    if flat and gain and offset then
      if gain.min ~= 1 or gain.max ~= 1 or offset.min ~= 0 or offset.max ~= 0 then return false end
      norms = norms + 1
    end
  end
  return norms >= 2 or uniform >= 2 and uniform > 0.5 * matrices
end

--- How many parameters the optimizers of the newest file that lists them hold; nil where none does.
---@param case culprit.Case
---@return number?
function checkpoints.held(case)
  local sizes = case.config:where("match(key, '*param_groups.*.num_params') and number is not null")
  local last  = sizes:last()
  return last and sizes:where { source = last.source }:sum("number")
end

--- What the optimizer's state at a step says of the gradients of those layers. It is known by layer where the state
--- has their names, and else for all that stand still together: where the tensors with a moment above zero have just
--- the shapes of those that move.
---@param case culprit.Case
---@param rows culprit.Table  of one run
---@param found table         of checkpoints.layers
---@return table  moments: rows; got: by layer, whether it had a gradient, or nil; stepped: by layer, whether its
--- counter has gone on; apart: whether the layers that stand still are those without; zero:
--- whether there are moments of zero for some of these: a gradient came, and was zero; held: how many parameters the
--- optimizer holds, or nil
function checkpoints.gradients(case, rows, found)
  local out  = { got = nil, apart = false, zero = false, held = nil }
  out.held    = checkpoints.held(case)
  local all   = rows:where { role = "state", step = found.to }
  out.moments = all:where("match(name, '*.exp_avg_sq')")
  if out.moments:count() == 0 then
    out.moments = all:where("match(name, '*.momentum_buffer|*.exp_avg|*.square_avg')")
  end
  local names, got = {}, {}
  for _, layers in ipairs({ found.still, found.moving }) do
    for _, layer in ipairs(layers) do names[layer.name] = true end
  end
  local shapes, zeros, known = {}, {}, 0
  for row in each(out.moments, 20000) do
    local live = (row.l2 or 0) > 0 or row.nonfinite > 0
    known = known + (names[row.layer] and 1 or 0)
    got[row.layer] = got[row.layer] or live
    local shape = table.concat(row.shape or {}, "x")
    local count = live and shapes or zeros
    count[shape] = (count[shape] or 0) + 1
  end
  if known > 0 and known >= 0.5 * out.moments:count() then
    -- Which of them the optimizer has stepped since the first checkpoint: a moment may be from before.
    local counters = rows:where("role == 'state' and numel == 1 and match(name, '*state.*.step')")
    local counts, stepped = {}, {}
    for row in each(counters:where { step = found.from }, 20000) do counts[row.name] = row.mean end
    for row in each(counters:where { step = found.to }, 20000) do
      if row.mean > (counts[row.name] or 0) then stepped[row.layer] = true end
    end
    out.got, out.stepped, out.apart = got, stepped, #found.still > 0
    for _, layer in ipairs(found.still) do
      out.apart = out.apart and not got[layer.name]
      out.zero  = out.zero or got[layer.name] == false
    end
  elseif out.moments:count() > 0 then
    for _, layer in ipairs(found.moving) do
      for _, pair in ipairs(layer.pairs) do
        local shape = table.concat(pair.last.shape or {}, "x")
        shapes[shape] = (shapes[shape] or 0) - 1
      end
    end
    -- Moments in one flat piece, or in shards, have shapes of their own, and say nothing of any layer: each of those
    -- that move has to have one of just its shape.
    out.apart = true
    for _, layer in ipairs(found.moving) do
      for _, pair in ipairs(layer.pairs) do
        if (shapes[table.concat(pair.last.shape or {}, "x")] or 0) < 0 then out.apart = false end
      end
    end
    -- Of the shapes that stand still as many moments are left over as there are of them: then these have some.
    for _, layer in ipairs(found.still) do
      for _, pair in ipairs(layer.pairs) do
        local shape = table.concat(pair.last.shape or {}, "x")
        if (shapes[shape] or 0) > 0 then out.apart = false end
        out.zero = out.zero or #(pair.last.shape or {}) > 1 and (zeros[shape] or 0) > 0
      end
    end
  end
  return out
end

--- The step counters of the optimizers of a run: by optimizer, the highest one of each checkpoint, by step.
---@param rows culprit.Table  of one run
---@return table[] lists of rows
---@return integer more  how many counters of the last checkpoints were not read
function checkpoints.counters(rows)
  local by, order = {}, {}
  local counters  = rows:where("role == 'state' and numel == 1 and step is not null and nonfinite == 0 and "
    .. "match(name, '*state.*.step')"):sort("step")
  for row in each(counters, MOST) do
    local of = row.name:split("state.")[1] .. "#" .. (row.rank or 0)
    local list = by[of]
    if not list then
      list = {}
      by[of], order[#order + 1] = list, list
    end
    local latest = list[#list]
    if not latest or latest.step ~= row.step then
      list[#list + 1] = row
    elseif row.mean > latest.mean then
      list[#list] = row
    end
  end
  return order, math.max(0, counters:count() - MOST)
end

return checkpoints
