--- Which part of a model has a given share of its elements, by the sizes in a checkpoint. What never changes is known
--- by its share alone where nobody recorded layers; nearly every part of a network has a size of its own.

local checkpoints = require("checkpoints")

local sizes = {}

--- What stands before the names of most weights of a file: state_dict, of state_dict.stem.0.weight; what is averaged
--- stands beside it under another.
local function prefix(weights)
  local counts, most = {}, nil
  for row in weights:rows() do
    local top = row.name:split(".")[1]
    counts[top] = (counts[top] or 0) + 1
    if not most or counts[top] > counts[most] then most = top end
  end
  return most
end

--- The weights of a run's last checkpoint in the order of the file, a scale that is no weight by its name among them;
--- without what is counted or averaged on the way. Nil where there is none, or too many to try.
---@param case culprit.Case
---@param run string?
---@return culprit.Row[]?
local function weights_of(case, run)
  local all = case.tensors:where { run = run }:where("(role == 'weight' or role == 'value') and variant is null and "
    .. "rank is null and layer is not null and match(dtype, '*float*') and not match(name, '*running_*|batch.*') and "
    .. "(role == 'weight' or numel > 1)")
  local weights = all:where { role = "weight" }
  local last = weights:max("step")
  if last then all, weights = all:where { step = last }, weights:where { step = last } end
  if weights:count() == 0 or all:count() > 5000 then return nil end
  local top = prefix(weights) .. "."
  -- A file without a common front has the names of the model's own parts first.
  if weights:where("not starts_with(name, ?)", top):count() > 0.6 * weights:count() then top = "" end
  local list, seen = {}, {}
  for row in all:where("starts_with(name, ?)", top):rows() do
    if not seen[row.name] then -- of a file that was written twice
      seen[row.name] = true
      list[#list + 1] = row
    end
  end
  return list
end

--- The layers of these, each with the number of its elements, and how many there are in all.
---@param weights culprit.Row[]
---@return { name: string, count: number }[] layers, number total
local function layers_of(weights)
  local list, total = {}, 0
  for _, row in ipairs(weights) do
    if not list[#list] or list[#list].name ~= row.layer then list[#list + 1] = { name = row.layer, count = 0 } end
    list[#list].count = list[#list].count + row.numel
    total = total + row.numel
  end
  return list, total
end

--- The paths that hold a layer: a, a.b and a.b.c of a.b.c.
local function paths(layer)
  local out, path = {}, nil
  for _, part in ipairs(layer:split(".")) do
    path = path and path .. "." .. part or part
    out[#out + 1] = path
  end
  return out
end

--- The one part of the model whose share of all elements is this, to the four digits that are logged: a module, all
--- layers up to one, or the modules of one name in all of a row of blocks. Nil where none is, or several are.
---@param case culprit.Case
---@param run string?
---@param share number
---@return { layer: string, upto: boolean, elements: number, total: number }?
---@return boolean none  whether the sizes are known and no part has the share
function sizes.of_share(case, run, share)
  local weights = weights_of(case, run)
  if not weights or not (share > 0 and share < 1) then return nil, false end
  local list, total = layers_of(weights)
  local off = 0.6 * 10 ^ (math.floor(math.log(share, 10)) - 3) * total + 0.5
  local function fits(count) return math.abs(count - share * total) <= off end
  local found, several = nil, false
  local function take(layer, upto, first, last, elements)
    local same = found and found.first == first and found.last == last
    several = several or found ~= nil and not same
    found = found or { layer = layer, upto = upto, first = first, last = last, elements = elements, total = total }
  end
  local modules, order, rows, names = {}, {}, {}, {}
  local sum = 0
  for i, one in ipairs(list) do
    sum = sum + one.count
    if i < #list and fits(sum) then take(one.name, i > 1, 1, i, sum) end
    for _, path in ipairs(paths(one.name)) do
      local of = modules[path]
      if not of then
        of = { first = i, count = 0 }
        modules[path], order[#order + 1] = of, path
      end
      of.last, of.count = i, of.count + one.count
    end
  end
  for _, path in ipairs(order) do
    local of = modules[path]
    if fits(of.count) then take(path, false, of.first, of.last, of.count) end
    -- The attention of all blocks: blocks.*.attn.
    local parts, numbered = path:split("."), false
    for i, part in ipairs(parts) do
      if tonumber(part) then parts[i], numbered = "*", true end
    end
    local row = table.concat(parts, ".")
    if numbered then
      if not rows[row] then
        rows[row] = { first = of.first, count = 0, modules = 0 }
        names[#names + 1] = row
      end
      rows[row].count, rows[row].modules = rows[row].count + of.count, rows[row].modules + 1
      rows[row].last = of.last
    end
  end
  for _, row in ipairs(names) do
    local of = rows[row]
    if of.modules > 1 and fits(of.count) and (not found or found.layer:contains("*")) then
      take(row, false, of.first, of.last, of.count)
    end
  end
  return not several and found or nil, found == nil
end

local function shape_of(row) return table.concat(row.shape or {}, "x") end

--- Those of the optimizer's moments in the last checkpoint, one a parameter: how many of each shape.
local function moments_by_shape(case, run, step)
  local states = case.tensors:where { run = run, role = "state" }
  states = step and states:where { step = step } or states:where("step is null")
  local counts, all, seen = {}, 0, {}
  local moments = states:where("match(name, '*.exp_avg')")
  if moments:count() == 0 then moments = states:where("match(name, '*.momentum_buffer|*.square_avg')") end
  for row in moments:slice(0, 5000):rows() do
    if not seen[row.name] then -- of a file that was written twice
      seen[row.name] = true
      counts[shape_of(row)], all = (counts[shape_of(row)] or 0) + 1, all + 1
    end
  end
  return counts, all
end

--- The layers whose weights an optimizer has no moments of, if these are the share that never changes: it was not given
--- them, or they never had a gradient. Which ones they are is told by the shapes, of which moments have none.
---@param case culprit.Case
---@param run string?
---@param share number
---@return string[]? layers, integer? moments, integer? weights
function sizes.without_moments(case, run, share)
  local weights = weights_of(case, run)
  if not weights then return nil end
  local moments, all = moments_by_shape(case, run, weights[1].step)
  if all == 0 or all >= #weights then return nil end
  local left, missing, total = {}, 0, 0
  for shape, count in pairs(moments) do left[shape] = count end
  for _, row in ipairs(weights) do
    local shape = shape_of(row)
    if (left[shape] or 0) > 0 then left[shape] = left[shape] - 1 else missing = missing + row.numel end
    total = total + row.numel
  end
  for _, count in pairs(left) do
    if count > 0 then return nil end -- of another model
  end
  if math.abs(missing / total - share) > 0.01 * share then return nil end
  local layers, seen = {}, {}
  for _, row in ipairs(weights) do
    if #(row.shape or {}) >= 2 and not moments[shape_of(row)] and not seen[row.layer] then
      seen[row.layer], layers[#layers + 1] = true, row.layer
    end
  end
  if #layers == 0 then return nil end
  return layers, all, #weights
end

--- The layers whose weights are the same to the last bit in a checkpoint of a step and in one whose step is not known,
--- as the last one often has none, if these are the share that never changes.
---@param case culprit.Case
---@param run string?
---@param share number
---@return string[]? layers, number? step
function sizes.same_in_two(case, run, share)
  local all  = case.tensors:where { run = run, role = "weight" }:where("variant is null and rank is null and "
    .. "layer is not null and match(dtype, '*float*') and nonfinite == 0")
  local step = all:max("step")
  local other = {}
  for row in all:where("step is null"):slice(0, 5000):rows() do other[row.name] = row end
  local layers, seen, same, total = {}, {}, 0, 0
  for row in all:where { step = step or -1 }:slice(0, 5000):rows() do
    local twin = other[row.name]
    if twin and twin.numel == row.numel then
      total = total + row.numel
      if checkpoints.same(row, twin, 1024) then
        same = same + row.numel
        if #(row.shape or {}) >= 2 and not seen[row.layer] then
          seen[row.layer], layers[#layers + 1] = true, row.layer
        end
      end
    end
  end
  if #layers == 0 or same == total or math.abs(same / total - share) > 0.01 * share then return nil end
  return layers, step
end

return sizes
