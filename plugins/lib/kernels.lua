--- Kernels and the operators of the framework that launched them.

local kernels = {}

--- The operators behind some kernels, by their time on the device, the longest first: those of one name and the same
--- shapes as one. Empty where launches are not recorded.
---@param work culprit.Table   rows of case.gpu_work
---@param calls culprit.Table  rows of case.host_calls of that rank
---@param ops culprit.Table    rows of case.host_ops of that rank
---@return { name: string, shapes: string?, dtypes: string?, total: integer }[]  total in ns
function kernels.operators(work, calls, ops)
  local by_key, list = {}, {}
  local each = work:with { op = work:launched_by(calls, ops) }:aggregate({ "op" }, { total = "sum dur" })
  for row in each:top(2000, "total"):rows() do
    local op = ops:row(row.op)
    local key = op.name .. (op.shapes or "")
    if not by_key[key] then
      by_key[key] = { name = op.name, shapes = op.shapes, dtypes = op.dtypes, total = 0 }
      list[#list + 1] = by_key[key]
    end
    by_key[key].total = by_key[key].total + row.total
  end
  table.sort(list, function(a, b) return a.total > b.total end)
  return list
end

return kernels
