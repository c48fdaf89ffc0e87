--- What a loss that is no number says of all that comes behind it: its gradient, all weights that the update moves and
--- every evaluation of these weights are none either, whatever broke the loss. Seen there, they are no evidence of
--- their own.

local breaks = {}

--- The first of the losses from which on none is finite up to a step; nil where the last one by then is finite, where
--- none is logged by then, or where there are several runs and which one is not known.
---@param case culprit.Case
---@param run string?
---@param step number   of what may have been broken by it
---@return culprit.Row?
function breaks.before(case, run, step)
  local loss = case.scalars:where { name = "loss", primary = true, run = run }:where("value is not null")
  if loss:where("run is not null"):distinct("run"):count() > 1 then return nil end
  local past = loss:where("step <= ?", step):sort("step")
  local last = past:last()
  if not last or last.value - last.value == 0 then return nil end
  local good = past:where("finite(value)"):last()
  return good and past:where("step > ?", good.step):first() or past:first()
end

return breaks
