--- Where and since when something is so: the first layer in forward order of several that show the same, and the step
--- from which on. What lies behind a faulty layer inherits its fault, and a fault of the set-up is there from the first
--- step on, whenever it was measured.

local places = {}

--- The first step on record, of metrics or else of dumps; nil where none has a number. Of a run, where it has metrics
--- of its own: others in the folder may have begun earlier.
---@param case culprit.Case
---@param run string?
---@return integer?
function places.first_step(case, run)
  local scalars = case.scalars:where("primary == true and step is not null")
  local first = run and scalars:where { run = run }:min("step") or scalars:min("step")
    or case.tensors:where("step is not null"):min("step")
  return first and math.floor(first)
end

--- The step at which something begins that is set up once and was seen at `seen`: the first on record, unless a look
--- before that found it not so.
---@param case culprit.Case
---@param seen integer?   the first step at which a look shows it
---@param clean boolean   whether a look before that shows that it is not so
---@param run string?      whose first step counts
---@return integer? step, string phrase  "from the start" or "since step 9"; empty where no step is known
function places.start(case, seen, clean, run)
  local first = places.first_step(case, run)
  local step  = seen
  if first and not clean and (not seen or first < seen) then step = first end
  return step, places.since(step, first)
end

--- @param step integer?
--- @param first integer?  the first step on record
--- @return string
function places.since(step, first)
  if not step then return "from the start" end
  return step == first and "from the start" or ("since step %d"):format(step)
end

--- The layers whose share is at a limit or above it at three logged steps and at half of them, and which of them is
--- first in forward order, the order in which layers are recorded. Three rows make a finding, so that what is over the
--- limit by the third row of the earliest layer begins together with it; so does a layer that is over it at two of
--- these rows and recovers later.
---@param shares culprit.Table  a share by step and layer
---@param limit number
---@param fits fun(layer: string, over: culprit.Table): boolean  which layers to look at
---@return table?  first, worst, layers: {layer, over, all, share}; onset; nil where no layer is so for long
function places.over(shares, limit, fits)
  local seen, earliest, worst = {}, nil, nil
  for layer, values in shares:group("layer") do
    local over = values:where("value >= ?", limit):sort("step")
    if over:count() > 0 and fits(layer, over) then
      local one = { layer = layer, over = over, all = values:count(), share = over:median("value"),
        start = over:first().step }
      one.lasts = over:count() >= 3 and over:count() >= 0.5 * one.all
      seen[#seen + 1] = one
      if one.lasts and (not earliest or one.start < earliest.start) then earliest = one end
      if one.lasts and (not worst or one.share > worst.share) then worst = one end
    end
  end
  if not earliest then return nil end
  local third = earliest.over:slice(2, 1):first().step
  local first, layers = nil, {}
  for _, one in ipairs(seen) do
    local early = one.start <= third
      and (one.lasts or one.over:where("step >= ? and step <= ?", earliest.start, third):count() >= 2)
    if early and not first then first = one end
    if early or one.lasts then layers[#layers + 1] = one end
  end
  return { first = first, worst = worst, onset = earliest.start, layers = layers }
end

--- The names of the layers that `over` found, for `at.layers`.
---@param found table
---@return string[]
function places.names(found)
  local names = {}
  for _, one in ipairs(found.layers) do names[#names + 1] = one.layer end
  return names
end

--- The layers of these rows, each once, in the order of the rows.
---@param rows culprit.Table
---@return string[]
function places.layers_of(rows)
  local names = {}
  for row in rows:distinct("layer"):slice(0, 1000):rows() do names[#names + 1] = row.layer end
  return names
end

--- Rows of up to six layers that `over` found, the first and the worst among them.
---@param found table
---@return culprit.Table[]
function places.rows(found)
  local rows = { found.first.over:slice(0, 3) }
  if found.worst ~= found.first then rows[2] = found.worst.over:slice(0, 3) end
  for _, one in ipairs(found.layers) do
    if #rows >= 6 then break end
    if one ~= found.first and one ~= found.worst then rows[#rows + 1] = one.over:slice(0, 3) end
  end
  return rows
end

--- What a message says of the layers beside the first: how many, since when and which is worst.
---@param case culprit.Case
---@param found table
---@return string
function places.others(case, found)
  local since = places.since(found.onset, places.first_step(case))
  if #found.layers == 1 then return since end
  return ("%s; it is the first of %d layers that are so%s"):format(since, #found.layers, found.worst == found.first
    and ", and the worst" or ("; the worst is %s, %s at %d steps"):format(found.worst.layer,
      units.percent(found.worst.share), found.worst.over:count()))
end

--- The path of what a layer is part of: conv_fc.4 of conv_fc.4.5; empty where it is part of nothing.
---@param layer string
---@return string
function places.parent(layer)
  local parts = layer:split(".")
  return table.concat(parts, ".", 1, #parts - 1)
end

return places
