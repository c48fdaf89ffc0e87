--- Samples of monitoring programs (dcgmi, nvidia-smi, Nsight Systems): rows of case.counters.

local monitors = {}

--- Samples of several counters of one time, or of one line where times were not recorded, side by side: a column for
--- each name. Nil when one of them has no finite sample, or no time has all.
---@param rows culprit.Table  rows of case.counters of one device
---@param names string[]
---@return culprit.Table?
function monitors.beside(rows, names)
  local key, out = rows:count("at") > 0 and "at" or "place", nil
  for _, name in ipairs(names) do
    local part = rows:where { name = name }:where("finite(value)"):distinct(key)
    if part:count() == 0 then return nil end
    part = part:with { [name] = part:col("value") }:select(key, name)
    out = out and out:join(part, { key }) or part
  end
  return out:count() > 0 and out or nil
end

--- Calls `look(rank, device, rows)` for the counters of each device. Monitors know devices and not ranks, profilers
--- both: the rank is nil where none was recorded.
---@param case culprit.Case
---@param look fun(rank: integer?, device: integer, rows: culprit.Table)
function monitors.each_device(case, look)
  for rank, device, rows in case.counters:group("rank", "device") do look(rank, device, rows) end
  for device, rows in case.counters:where("rank is null"):group("device") do look(nil, device, rows) end
end

return monitors
