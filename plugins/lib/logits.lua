--- The logits of a dumped batch: the one output that has a number for each id at each place of the labels, whatever its
--- layer is called.

local elements = require("elements")

local logits = {}

local NAMES = "*logits*|head.*|*.head.*|*lm_head*|output.*|*.output.output|*embed_out*"

--- The output that has the labels' shape and one axis more, which all labels fit; nil where there is none. Of several
--- the one whose name says that it is logits; nil where two do, or none.
---@param case culprit.Case
---@param labels culprit.Row  integers [row, place]
---@return culprit.Row?
function logits.of(case, labels)
  local named, plain, several_named, several
  local shape = labels.shape or {}
  local outputs = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant,
    rank = labels.rank }:where("role == 'output' and nonfinite == 0 and zero_share is not null and numel >= ? and "
      .. "match(dtype, 'float*|bfloat*') and not match(name, 'battery.*|*mtp*|*medusa*|*attn*|*attention*')",
      2 * labels.numel)
  for row in outputs:slice(0, 400):rows() do
    local out = row.shape or {}
    local fits = #out == #shape + 1 and out[#out] > labels.max
    for i = 1, fits and #shape or 0 do fits = fits and out[i] == shape[i] end
    if fits and row.name:glob(NAMES) then
      named, several_named = row, named ~= nil
    elseif fits then
      plain, several = row, plain ~= nil
    end
  end
  if named then return not several_named and named or nil end
  return not several and plain or nil
end

--- The cross-entropy at one place in nats, of its logits against an id.
---@param tensor culprit.Row
---@param place integer  from 0, over all rows
---@param id number
---@return number
function logits.cost(tensor, place, id)
  local width = math.floor(tensor.shape[#tensor.shape])
  local x, top, total = elements.of(tensor, place * width, width), -math.huge, 0
  for i = 1, width do top = math.max(top, x[i]) end
  for i = 1, width do total = total + math.exp(x[i] - top) end
  return math.log(total) + top - x[math.floor(id) + 1]
end

return logits
