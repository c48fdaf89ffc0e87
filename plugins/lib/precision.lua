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

return precision
