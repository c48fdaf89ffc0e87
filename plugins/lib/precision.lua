--- How finely a run counts: the rounding of its number formats.

local precision = {}

--- Half the distance of 1 from the next number, of the run's precision or of the dumped values, whichever is coarser:
--- bf16 2^-8 and fp16 2^-11 (by the config or the dtype), float64 2^-52, all else 2^-23. With autocast a dump holds
--- float32 that went through bf16, so the config counts too.
---@param case culprit.Case
---@param dtype string?  dtype of the tensor
---@return number
function precision.rounding(case, dtype)
  if dtype == "bfloat16" or case.config:where("match(key, '*precision|*dtype|bf16') and "
    .. "(match(value, '*bf16*|*bfloat16*') or match(key, 'bf16') and (number == 1 or value == 'true'))"):first() then
    return 2 ^ -8
  elseif dtype == "float16" or case.config:where("match(key, '*precision|*dtype') and match(value, '*fp16*|*float16*')")
    :first() then
    return 2 ^ -11
  end
  return dtype == "float64" and 2 ^ -52 or 2 ^ -23
end

--- Half the distance of 1 from the next number of a 16-bit format; times the power of two below a number it is half the
--- distance there.
precision.HALF_UNIT = { bfloat16 = 2 ^ -8, float16 = 2 ^ -11 }

--- Whether a row holds what a weight was rounded from: its numbers lie within half the distance between two numbers of
--- the weight's format, all but one in a hundred, and 32 of them at least. By chance one number in hundreds does.
local function rounds_to(row, weight)
  local n = math.min(weight.numel, 1024)
  local fine, coarse, off, all = row:values(0, n), weight:values(0, n), 0, 0
  local unit = precision.HALF_UNIT[weight.dtype]
  for i = 1, n do
    if coarse[i] ~= 0 then
      all = all + 1
      local half = unit * 2 ^ math.floor(math.log(math.abs(coarse[i]), 2))
      if not (math.abs(fine[i] - coarse[i]) <= half * 1.001) then off = off + 1 end
    end
  end
  return all >= 32 and off <= 0.01 * all
end

--- A tensor of an optimizer's state that is the copy in a finer format of a 16-bit weight of the same checkpoint,
--- whatever its name: updates go into it, and the weight is rounded from it at each step.
---@param case culprit.Case
---@return culprit.Row?
function precision.copy(case)
  -- Rows of statistics alone have no values.
  local weights = case.tensors:where("role == 'weight' and step is not null and variant is null and nonfinite == 0 and "
    .. "match(dtype, 'bfloat16|float16') and numel >= 64 and zero_share is not null")
  -- The last checkpoint is furthest from the start, where all copies are alike.
  local states = case.tensors:where("role == 'state' and step is not null and nonfinite == 0 and "
    .. "match(dtype, 'float32|float64') and numel >= 64 and zero_share is not null")
  local step = states:max("step")
  for weight in weights:where { step = step or -1 }:slice(0, 8):rows() do
    local shape = table.concat(weight.shape or {}, "x")
    for row in states:where { step = step, numel = weight.numel }:slice(0, 200):rows() do
      if table.concat(row.shape or {}, "x") == shape and rounds_to(row, weight) then return row end
    end
  end
end

--- A moment of the optimizer in float32 where weights on record have 16 bits and no moment has. Moments are made in the
--- format of what the optimizer steps, so that it steps float32 and the files hold what was cast for them, unless an
--- optimizer (bitsandbytes, memory-efficient ones) keeps moments in float32 whatever it steps.
---@param case culprit.Case
---@return culprit.Row?
function precision.moments(case)
  if case.tensors:where("role == 'weight' and variant is null and match(dtype, 'bfloat16|float16')"):count() == 0 then
    return nil
  end
  local states = case.tensors:where("role == 'state' and numel >= 64 and match(name, '*.exp_avg|*.exp_avg_sq|"
    .. "*.momentum_buffer|*.mu|*.nu')")
  return states:where("match(dtype, 'bfloat16|float16')"):count() == 0
    and states:where { dtype = "float32" }:first() or nil
end

--- A weight on record whose numbers have more digits than a 16-bit format keeps, where nine in ten elements of those
--- looked at are of such: whatever a config says of precision, these are what is trained, and no update is rounded into
--- fewer. The last ones are looked at, since what a run begins with may be of another format.
---@param case culprit.Case
---@return culprit.Row?
function precision.finer(case)
  local weights = case.tensors:where("role == 'weight' and variant is null and numel >= 64 and nonfinite == 0 and "
    .. "zero_share is not null and match(dtype, 'float32|float16|bfloat16') and not match(name, 'battery.*')")
  weights = weights:where { step = weights:max("step") or -1 }
  local all, finer, first = 0, 0, nil
  for row in weights:top(20, "numel"):rows() do
    local numbers, beyond = 0, 0
    for _, value in ipairs(row.dtype == "float32" and row:values(0, 64) or {}) do
      if value ~= 0 then
        -- fp16 has eleven digits, and bf16 eight of these.
        local last = value / 2 ^ (math.floor(math.log(math.abs(value), 2)) - 10)
        numbers, beyond = numbers + 1, beyond + (last ~= math.floor(last) and 1 or 0)
      end
    end
    all = all + row.numel
    if numbers >= 16 and beyond >= 0.5 * numbers then finer, first = finer + row.numel, first or row end
  end
  return finer >= 0.9 * all and first or nil
end

return precision
