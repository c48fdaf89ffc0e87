--- Windows, the steady part of a device's record: what of a table lies in one.

local windows = {}

--- The work of a window's device that overlaps it.
---@param case culprit.Case
---@param window culprit.Row  of case.windows
---@return culprit.Table      rows of case.gpu_work
function windows.work(case, window)
  return case.gpu_work:where { rank = window.rank, device = window.device }
    :where("start < ? and stop > ?", window.stop, window.start)
end

--- Those of `matched` that the price of a step is taken from: what is won is told per steady step, so they must end in
--- the window of the rank that entered last. Each step then counts once, also where steps begin late on some ranks.
--- All of them where no window has steps.
---@param case culprit.Case
---@param matched culprit.Table  rows of case.matched_collectives
---@return culprit.Table
function windows.ended_within(case, matched)
  local steady = case.windows:where("steps > 0")
  if steady:count() == 0 then return matched end
  local from, to, kept = steady:min("start"), steady:max("stop"), nil
  for rank, rows in matched:group("last_rank") do
    local own    = steady:where { rank = rank }
    local inside = rows:where("stop > ? and stop <= ?", own:min("start") or from, own:max("stop") or to)
    kept = kept and kept:concat(inside) or inside
  end
  return kept or matched
end

return windows
