--- A job that hangs: what each rank is known to wait for, and where following these waits ends.

local hang = {}

---@class culprit.HungUnit  A call that ranks hang in.
---@field row culprit.Row          of case.collectives
---@field key integer              its number
---@field peers boolean?           whether it is a send or a receive
---@field states table<integer, string>  rank -> state in the call: done, waits, before, absent, unknown
---@field started table<integer, boolean>
---@field waiting integer[]        ranks whose oldest pending call it is
---@field counted boolean          whether counters tell how far its group is

---@class culprit.HungJob
---@field all culprit.Table        rows of flight recorders
---@field pending culprit.Table    those that are not completed
---@field known table<integer, boolean>     ranks that left a dump
---@field expected table<integer, boolean>  ranks of the job
---@field timed table<integer, boolean>     ranks whose records tell what the device began
---@field counters table<integer, table<string, culprit.Row>>  rank -> group -> row of case.process_groups
---@field units table<integer, culprit.HungUnit>               rank -> the call that it hangs in
---@field lag table<integer, integer>       rank -> how many peers completed what its device has not

local PEER_OPS = { send = true, recv = true }

--- All rows of a table of any size: `rows` itself stops at 10,000.
local function each(all, visit)
  for first = 0, #all - 1, 10000 do
    for row in all:slice(first, 10000):rows() do visit(row) end
  end
end

--- The keys of a set in order.
---@param set table
---@return any[]
function hang.sorted(set)
  local list = {}
  for key in pairs(set) do list[#list + 1] = key end
  return list
end

--- What is known of the job: the ranks that left a dump, their groups and counters, and what is pending. `units` and
--- `lag` are empty until `find_units`.
---@param case culprit.Case
---@return culprit.HungJob
function hang.survey(case)
  local all = case.collectives:where("record is not null and rank is not null and seq is not null and group is not "
    .. "null")
  local job = { all = all, known = {}, expected = {}, counters = {}, units = {}, lag = {}, timed = {} }
  for rank in all:group("rank") do job.known[rank] = true end
  -- Lines of a log give counters too, but no members: a rank that only spoke in a log left no dump.
  each(case.process_groups:where("rank is not null and group is not null and members is not null"), function(row)
    job.known[row.rank] = true
    job.counters[row.rank] = job.counters[row.rank] or {}
    job.counters[row.rank][row.group] = row
    for _, member in ipairs(row.members or {}) do job.expected[member] = true end
  end)
  for rank in pairs(job.known) do job.expected[rank] = true end
  each(case.ranks:where("world_size is not null"):top(1, "world_size"), function(row)
    for rank = 0, math.min(row.world_size, 100000) - 1 do job.expected[rank] = true end
  end)
  for rank in all:where("start is not null or state == 'started'"):group("rank") do job.timed[rank] = true end
  job.pending = all:where("state == 'scheduled' or state == 'started'"):sort("rank", "record")
  return job
end

--- Finds the call that each rank hangs in, of the table `waits`, with the states of all ranks that take part in it.
---@param case culprit.Case
---@param job culprit.HungJob
function hang.find_units(case, job)
  local calls = {}
  each(case.waits, function(wait)
    local unit = calls[wait.call]
    if not unit then
      local row = case.collectives:slice(wait.row, 1):first()
      unit = { row = row, key = wait.call, peers = PEER_OPS[row.op], states = {}, waiting = {}, started = {},
        counted = wait.counted }
      calls[wait.call] = unit
    end
    unit.states[wait.rank] = wait.state
    if wait.started then unit.started[wait.rank] = true end
    if wait.own then
      unit.waiting[#unit.waiting + 1] = wait.rank
      job.units[wait.rank] = unit
    end
  end)
  -- What a peer has completed every member has called: whoever is still in it lags on its device. Of a batch of sends
  -- and receives all must be over.
  for rank, unit in pairs(job.units) do
    local done, open = 0, 0
    for _, state in pairs(unit.states) do
      if state == "done" then done = done + 1 elseif state == "absent" then open = open + 1 end
    end
    if done > 0 and open == 0 then job.lag[rank] = done end
  end
end

--- Who each rank waits for: maps the others to how it waits for them.
---@param job culprit.HungJob
---@param without_peers boolean  whether sends and receives are left aside
---@return table<integer, table<integer, string>>
function hang.waits(job, without_peers)
  local out = {}
  for rank in pairs(job.known) do
    local unit = job.units[rank]
    out[rank] = {}
    local lags = job.lag[rank]
    if unit and not lags and not (without_peers and unit.peers) then
      for member, state in pairs(unit.states) do
        local late = state == "waits" and unit.started[rank] and not unit.started[member] and job.timed[member]
        if member ~= rank and (state == "absent" or state == "before" or state == "unknown" or late) then
          out[rank][member] = state
        end
      end
    end
  end
  return out
end

--- The ranks that others wait for and that wait for nobody, and the number that wait for them in the end.
---@param job culprit.HungJob
---@param out table<integer, table<integer, string>>  of `waits`
---@return table<integer, boolean> found
---@return integer count
function hang.roots(job, out)
  local waited, found, count = {}, {}, 0
  local callers = {}
  for rank, targets in pairs(out) do
    for target in pairs(targets) do
      waited[target] = true
      callers[target] = callers[target] or {}
      table.insert(callers[target], rank)
    end
  end
  local seen, queue = {}, {}
  for rank in pairs(waited) do
    if not out[rank] or next(out[rank]) == nil then
      found[rank], seen[rank] = true, true
      queue[#queue + 1] = rank
    end
  end
  for rank in pairs(job.lag) do
    if not seen[rank] then
      found[rank], seen[rank] = true, true
      queue[#queue + 1] = rank
    end
  end
  local at = 1
  while queue[at] do
    for _, rank in ipairs(callers[queue[at]] or {}) do
      if not seen[rank] then
        seen[rank], count = true, count + 1
        queue[#queue + 1] = rank
      end
    end
    at = at + 1
  end
  return found, count
end

return hang
