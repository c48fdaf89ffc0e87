--- Whether gradients are those of new ones added to what the buffers held, by their norms and cosines.

local sums = {}

--- Whether the norms of the first steps are those of a running sum: true, false, or nil where that cannot be told.
--- Then what shows it. Buffers that are clipped hold the threshold, so that only what is below it counts.
---@param norms culprit.Table  of the whole gradient, by step
---@param moved culprit.Table  update_ratio, by step
---@param limit culprit.Row?   the clipping threshold
---@param way number           updates over the weights, added up, up to which these steps count
---@param least integer        steps that have to
---@return boolean? sum, string? shown
function sums.at_first(norms, moved, limit, way, least)
  local first  = norms:first()
  local update = first and moved:where("step == ?", first.step)
  if not first or first.value <= 0 or first.step > 2 or update:count() == 0 then return end
  local reach = math.min(16, math.floor(way / math.max(1e-9, update:median("value"))))
  local sum, last, count, longer = true, nil, 0, 0
  for row in norms:slice(1, reach):rows() do
    local k = row.step - first.step + 1
    if k ~= count + 2 or limit and row.value > limit.number then break end
    count, last = count + 1, row
    local ratio = row.value / first.value
    if ratio < 0.9 * math.sqrt(k) or ratio > 1.2 * k then sum = false end
    if ratio >= 0.5 * (1 + math.sqrt(k)) then longer = longer + 1 end
  end
  if not last or count < least then return end
  if sum then
    return true, ("its norm is %.3g, and %.3g %s later, %.3g times as long, where the sum of %d is between %.3g "
      .. "and %d times as long"):format(first.value, last.value, units.plural(count, "step"),
      last.value / first.value, count + 1, math.sqrt(count + 1), count + 1)
  end
  -- Cleared every few steps, half of them are sums.
  if longer <= 0.4 * count then return false end
end

--- What says that nothing is added at first, or nil: three norms in a row are shorter than that of the first
--- gradient and what clipping leaves in the buffer make together, at weights that have hardly moved.
---@param norms culprit.Table
---@param moved culprit.Table
---@param limit culprit.Row?
---@param way number
---@return string?
function sums.none_at_first(norms, moved, limit, way)
  local first, gone, last = norms:first(), 0, nil
  if not first or first.value <= 0 or first.step > 2 then return end
  local buffer = first
  for i = 1, 3 do
    local row  = norms:row(i)
    local size = row and moved:where("step < ?", row.step):max("value")
    if not row or row.step ~= first.step + i or not size or size * i > way then return end
    local least = math.sqrt(1 + (math.min(buffer.value, limit and limit.number or math.huge) / first.value) ^ 2)
    if least <= 1.2 or row.value >= 0.5 * (1 + least) * first.value then return end
    buffer, last, gone = row, row, math.max(gone, row.value)
  end
  return ("norms that add up: the first is %.3g, and the next ones to step %d are %.3g at most, with weights that "
    .. "have hardly moved"):format(first.value, math.floor(last.step), gone)
end

--- The norm n and the cosine c of the whole gradient by step. Of layers whose norms change alike, the cosine of the
--- whole is the mean of theirs, weighed by squared norms.
---@param case culprit.Case
---@param rows culprit.Table   grad_cosine, of layers and of the whole
---@param all culprit.Table    grad_cosine of the whole
---@param norms culprit.Table  grad_norm of the whole
---@return table<integer, number> norm_at, { step: integer, n: number, c: number }[] pairs_of
function sums.whole(case, rows, all, norms)
  local sizes  = case.scalars:where { metric = "grad_norm", primary = true }:where("finite(value) and value > 0")
  local pieces = rows:where("layer is not null"):join(sizes:where("layer is not null"):distinct("step", "layer")
    :select("step", "layer", "value"), { "step", "layer" })
    :with { square = "value_right * value_right", part = "value * value_right * value_right" }
    :aggregate({ "step" }, { square = "sum square", part = "sum part" }):sort("step")
  ---@type table<integer, number>, { step: integer, n: number, c: number }[]
  local norm_at, pairs_of = {}, {}
  if pieces:count() > 0 then
    for row in sizes:where("layer is not null"):with { square = "value * value" }:aggregate({ "step" },
      { square = "sum square" }):rows() do
      norm_at[row.step] = math.sqrt(row.square)
    end
    for row in pieces:rows() do
      pairs_of[#pairs_of + 1] = { step = row.step, n = math.sqrt(row.square), c = row.part / row.square }
    end
  else
    for row in norms:rows() do norm_at[row.step] = row.value end
    for row in all:rows() do
      if norm_at[row.step] then
        pairs_of[#pairs_of + 1] = { step = row.step, n = norm_at[row.step], c = row.value }
      end
    end
  end
  return norm_at, pairs_of
end

--- The new gradient's norm and its cosine with a buffer of norm b, if n and c are those of the sum.
function sums.new_part(n, c, b)
  local size = math.sqrt(math.max(0, n * n + b * b - 2 * b * n * c))
  return size, size > 0 and (n * c - b) / size or 1
end

return sums
