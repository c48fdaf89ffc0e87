--- Requests: of which hop, and how many a row stands for.

local requests = {}

--- Of requests that several hops recorded (client, gateway, engine) those of the first, so that each counts once.
--- Requests that name no hop stay.
---@param rows culprit.Table  rows of case.requests
---@return culprit.Table
function requests.one_hop(rows)
  local first = rows:where("hop is not null"):first()
  return first and rows:where("hop is null or hop == ?", first.hop) or rows
end

--- How many requests the rows stand for: of very long logs one row in several was kept, with its weight.
---@param rows culprit.Table  rows of case.requests
---@return integer
function requests.standing(rows)
  local heavy = rows:where("weight > 1")
  return rows:count() + heavy:sum("weight") - heavy:count()
end

return requests
