--- ## What it detects
--- A few elements of a weight that differ from the dump before by far more than all others: no optimizer moves single
--- elements so. In a matrix it need not become larger than the weights are: a hundred times the change of the others
--- and all of the difference are enough, since a gradient that is large for one element is so for its row or column.
---
--- ## Why it matters
--- A flipped bit of an exponent changes one number by powers of two, without an error. The loss jumps once, and never
--- at the same place when the step is repeated. Bit k of an exponent is worth 2^(2^k): an element that has become 2, 4,
--- 16, 256, ... times as large or small, but for one update, has one bit flipped and nothing else.
---
--- ## How to confirm
--- Look at the element in the checkpoints before and after: a factor that is a power of two is a flipped exponent bit.
---
--- ## Known false positives
--- Edits by hand. Rows of an embedding that a single batch touches have many elements, not one. Between dumps that are
--- n steps apart n updates may have moved the element, a little each: what counts is its change over n.
---
--- ## References
--- https://arxiv.org/abs/2102.11245

--- How far an update moves an element at most, in the median over the rows of a weight: a jump is in one of them.
local function largest_update(before, now)
  local rows = now:difference_along(before, 0) or {}
  table.sort(rows)
  return #rows >= 4 and rows[#rows // 2]
end

--- What one flipped bit would make of the element that changed most, before or after it was updated: its values, and
--- the power of two or the other sign; or nil.
local function flipped_bit(before, now, change)
  local _, count, at = now:allclose(before, 0, change / 2)
  local update = largest_update(before, now)
  if count ~= 1 or not update then return nil end
  local old, new = before:values(at, 1)[1], now:values(at, 1)[1]
  if new == 0 or math.abs(new) == math.huge or math.abs(old) < 2 * update or old == 0 then return nil end
  -- An update more or less, and what rounding adds.
  local slack = 1.5 * update + 1e-3 * math.abs(old)
  if math.abs(-new - old) <= slack then return { old = old, new = new, at = at, sign = true } end
  for bit = 0, 7 do
    for _, power in ipairs({ 2 ^ bit, -2 ^ bit }) do
      if math.abs(new * 2 ^ -power - old) <= slack then
        return { old = old, new = new, at = at, power = math.floor(power) }
      end
    end
  end
end

--- Dimensions of more than one element: a convolution of 1 x 1 is a matrix.
---@param shape integer[]
---@return integer
local function axes(shape)
  local count = 0
  for _, size in ipairs(shape) do
    if size >= 2 then count = count + 1 end
  end
  return count
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Single elements of a weight jump between two dumps",
  needs    = { tensors = { "name", "step", "role", "data" } },
  symptoms = { "weight-element-jump", "weight-bit-flipped" },
  options  = {
    energy = { default = 0.5,  doc = "Share of the squared difference that one element holds" },
    factor = { default = 50.0, doc = "That element's change over the root mean square of all" },
  },

  run = function(case)
    local opt = case.options
    local weights = case.tensors:where("role == 'weight' and step is not null and numel >= 16 and "
      .. "match(dtype, 'float*|bfloat16')"):sort("step")
    local pairs_seen, worst = 0, nil
    for _, series in weights:group("name") do
      local before
      for row in series:slice(0, 200):rows() do
        if before and before.step ~= row.step and row.rank == before.rank and row.variant == before.variant then
          local d = row:compare(before)
          if d and d.rel_err and before.l2 and before.l2 > 0 and d.max_abs > 0 and d.max_abs < math.huge then
            pairs_seen = pairs_seen + 1
            local l2 = d.rel_err * before.l2
            local energy = d.max_abs ^ 2 / l2 ^ 2
            local usual  = math.sqrt(math.max(l2 ^ 2 - d.max_abs ^ 2, 0) / row.numel)
            -- Of the change, and beyond what the weights themselves are; in a matrix of which all the rest has moved a
            -- little, no further than they are. The gradient of a matrix is a sum of products of one factor for the row
            -- and one for the column, so what is large for one element is so for its row or its column.
            local rms = before.rms or 0
            local matrix = axes(row.shape or {}) >= 2 and d.max_abs > rms
              and d.max_abs >= 2 * opt.factor * usual and energy >= 0.9 and usual > 1e-6 * rms
            -- Of few elements one is easily the largest.
            local enough = row.numel >= 256 or energy >= 0.9 and d.max_abs >= 2 * opt.factor * usual
            local steps = before.step and row.step and math.max(1, row.step - before.step) or 1
            enough = enough and d.max_abs >= steps * opt.factor * usual
            if enough and energy >= opt.energy and d.max_abs >= opt.factor * usual and (d.max_abs > 4 * rms or matrix)
              and (not worst or energy > worst.energy) then
              worst = { before = before, row = row, energy = energy, change = d.max_abs, usual = usual }
            end
          end
        end
        before = row
      end
    end
    if pairs_seen == 0 then return skip("one weight at two steps: dump parameters around the onset") end
    if not worst then return end
    report {
      symptom  = "weight-element-jump",
      score    = 0.95,
      at       = { step = worst.row.step, layer = worst.row.layer },
      message  = ("one element of %s changes by %.4g between steps %d and %d and the others by %.2g: it holds %s of "
        .. "the whole difference"):format(worst.row.name, worst.change, worst.before.step, worst.row.step, worst.usual,
        units.percent(math.min(1, worst.energy))),
      evidence = { worst.before, worst.row },
    }
    local bit = flipped_bit(worst.before, worst.row, worst.change)
    if not bit then return end
    report {
      symptom  = "weight-bit-flipped",
      score    = 0.95,
      at       = { step = worst.row.step, layer = worst.row.layer },
      message  = ("%s%s goes from %.4g to %.4g, %s: what one flipped bit of its %s makes of it"):format(worst.row.name,
        worst.row:unravel(bit.at), bit.old, bit.new, bit.sign and "the same with the other sign"
        or ("2^%d times as much"):format(bit.power), bit.sign and "sign" or "exponent"),
      evidence = { worst.before, worst.row },
    }
  end,
}
