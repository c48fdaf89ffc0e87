--- How the weights of layers grow, and what that says of the updates that made them grow: no weight grows faster than
--- it is updated.

local statistics = require("statistics")

local growth = {}

local ROWS = 2000 -- of a layer, that its path is made of

---@class weight_growth.Point  A step of the path that the weights take.
---@field step number
---@field level number    of the median layer, its norm over its first
---@field layers integer  that have a norm there

---@class weight_growth.Found
---@field layers integer
---@field factor number?  largest over first norm, in the median layer; nil where no norms of layers are logged
---@field example { layer: string, first: culprit.Row, top: culprit.Row }?
---@field path weight_growth.Point[]

--- What a square matrix of as many and as large elements multiplies a signal by: 1 at a usual start. Weights that begin
--- far below it, as word vectors and second factors do, are to grow. 1 where it cannot be told.
---@param case culprit.Case
---@param norm culprit.Row  weight_norm of a layer
---@return number
local function gain(case, norm)
  local own = case.scalars:where { primary = true, layer = norm.layer, step = norm.step }:where("value > 0")
  local moved, ratio = own:where { metric = "update_rms" }:first(), own:where { metric = "update_ratio" }:first()
  if not moved or not ratio then return 1 end
  local size = moved.value / ratio.value
  return size * math.sqrt(norm.value / size)
end

---@param at table<number, number[]>  by step, each layer's norm over its first
---@return weight_growth.Point[]
local function path_of(at)
  local steps, path = {}, {}
  for step in pairs(at) do steps[#steps + 1] = step end
  table.sort(steps)
  for i, step in ipairs(steps) do
    path[i] = { step = step, level = statistics.median(at[step]), layers = #at[step] }
  end
  return path
end

--- How far the layers of a run grow, and by which steps.
---@param case culprit.Case
---@return weight_growth.Found
function growth.of(case)
  local factors, example, at = {}, nil, {}
  for layer, norms in case.scalars:where { metric = "weight_norm", primary = true }
    :where("layer is not null and finite(value) and value > 0"):group("layer") do
    local series = norms:sort("step")
    local first, top = series:first(), series:top(1, "value"):first()
    factors[#factors + 1] = top.value / first.value * math.min(1, 2 * gain(case, first))
    example = example or { layer = layer, first = first, top = top }
    for row in series:slice(0, ROWS):rows() do
      local levels = at[row.step] or {}
      levels[#levels + 1], at[row.step] = row.value / first.value, levels
    end
  end
  table.sort(factors)
  return { layers = #factors, factor = factors[(#factors + 1) // 2], example = example, path = path_of(at) }
end

--- The first point of the tenth of a path, or of the two points, that end at `i`.
local function tenth_before(path, i)
  local first = i - 1
  while first > 1 and path[i].step - path[first - 1].step <= 0.1 * (path[#path].step - path[1].step) do
    first = first - 1
  end
  return path[first]
end

--- A growth by a factor within a tenth of the run (or from one row to the next), of which half goes again later; nil
--- where there is none. Layers behind a norm grow until the rate suits them, and a sound rate lets none overshoot.
---@param path weight_growth.Point[]
---@param factor number
---@return { from: number, to: number, factor: number, back: number }?
function growth.thrown(path, factor)
  for i = 2, #path do
    local before, here = tenth_before(path, i), path[i]
    if here.level >= factor * before.level then
      local top, least = here.level, nil
      for k = i, #path do
        if path[k].level > top then top, least = path[k].level, nil end
        least = math.min(least or math.huge, path[k].level)
      end
      if least <= 0.5 * top then
        return { from = before.step, to = here.step, factor = here.level / before.level, back = least / top }
      end
    end
  end
end

--- The largest of the lower bounds that leaps of the path set on updates: |w + u| <= |w| (1 + |u| / |w|), so that a
--- growth of g times over k steps takes at least one update of g^(1/k) - 1 of the weights.
---@param path weight_growth.Point[]
---@param leap number  growth between two points from which it is a leap
---@return { ratio: number, from: number, to: number, factor: number, layers: integer }?
function growth.least_update(path, leap)
  local bound
  for i = 2, #path do
    local before, here = path[i - 1], path[i]
    local factor = here.level / before.level
    local ratio  = factor >= leap and factor ^ (1 / (here.step - before.step)) - 1 or 0
    if ratio > 0 and (not bound or ratio > bound.ratio) then
      bound = { ratio = ratio, from = before.step, to = here.step, factor = factor, layers = here.layers }
    end
  end
  return bound
end

return growth
