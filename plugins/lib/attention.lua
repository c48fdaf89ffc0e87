--- Dumped attention weights: which tensors are some, and what in them is padding.

local attention = {}

--- An expression over case.tensors: attention probabilities by their names.
attention.NAMES =
  "match(name, '*attn*prob*|*attention*prob*|*attn_weights*|*attention_weights*|*attentions*|*.probs.output') "
  .. "and not match(name, '*router*|*gate*|*expert*') "
  .. "and not match(role, 'weight|grad|state') and min >= 0 and numel > 1"

--- Elements that a detector looks at in all, for the sake of time.
attention.ELEMENTS = 1e8

--- What `row:attention_heads` marks padding by: the dumped mask with 0, or the token ids with that of padding. Nil
--- where the case has neither, and where the end token pads too, so that not every one is padding.
---@param case culprit.Case
---@param values culprit.Table  rows of case.tensors with their data
---@param probs culprit.Row     of attention weights
---@return culprit.Row?
---@return integer?
function attention.padding(case, values, probs)
  local here = values:where { run = probs.run, step = probs.step, variant = probs.variant }
  local keys = probs.shape[#probs.shape]
  local mask = here:where("match(name, '*attention_mask*|*padding_mask*') and match(dtype, 'int*|uint*|bool')"):first()
  if mask and mask.shape[#mask.shape] == keys then return mask, 0 end
  local pad = case.config:where("match(key, '*pad_token_id') and number is not null"):first()
  local ids = here:where("match(name, '*input_ids') and match(dtype, 'int*')"):first()
  local eos = case.config:where("match(key, '*eos_token_id') and number is not null"):first()
  if pad and ids and ids.shape[#ids.shape] == keys and not (eos and eos.number == pad.number) then
    return ids, math.tointeger(pad.number)
  end
end

return attention
