--- ## What it detects
--- Which rank holds a hung job up, and on which side. Each rank waits, in its oldest pending collective, for the
--- members of the group that have not called it or whose device is still before it. Following these waits ends at ranks
--- that wait for nobody: those began the hang. One with nothing pending is stuck on its host; one whose device has not
--- completed what the peers' devices have is stuck on its device. A closed circle of waits means that ranks call
--- collectives in different orders.
---
--- ## Why it matters
--- In a hang every rank but the guilty one prints a timeout, and with nested groups (tensor, pipeline, data) most of
--- them blame a rank that itself only waits. A host that is stuck and a device that is stuck need opposite remedies.
---
--- ## How to confirm
--- Host: `py-spy dump --pid` of the named rank shows where its host is. Device: dmesg and `nvidia-smi -q` of its GPU
--- (Xid, ECC, 100 % utilisation at low power), or run without the host.
---
--- ## Known false positives
--- Dumps taken on demand from a job that runs: some collective is always pending. Dumps of a part of the ranks: whoever
--- left none may be the one. Sequence counters of groups that also carry sends and receives are left aside, they count
--- both.
---
--- ## References
--- https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html,
--- https://github.com/NVIDIA/nccl/issues/1063, https://github.com/NVIDIA/nccl/issues/968

local names = require("collectives").ranks
local group_text = require("collectives").group
local hang = require("hang")

local function call_text(row)
  if row.peer then
    return ("%s %d %s rank %d in %s"):format(row.op, row.seq, row.op == "send" and "to" or "from", row.peer,
      group_text(row))
  end
  return ("%s %d of %s"):format(row.op or "collective", row.seq, group_text(row))
end

--- The innermost `count` frames.
local function innermost(frames, count)
  local parts = frames:split(" < ")
  return table.concat({ table.unpack(parts, math.max(1, #parts - count + 1)) }, " < ")
end

--- What the named ranks have in common: the smallest group that they make up, or their host.
local function shared(case, job, list)
  if #list < 2 then return "" end
  local best
  for _, row in pairs(job.counters[list[1]] or {}) do
    if #(row.members or {}) == #list then
      local inside = {}
      for _, member in ipairs(row.members) do inside[member] = true end
      local all = true
      for _, rank in ipairs(list) do all = all and inside[rank] end
      if all and not best then best = row end
    end
  end
  if best then
    return ("; together they are group %s%s"):format(best.group, best.name and (" (" .. best.name .. ")") or "")
  end
  local host
  for _, rank in ipairs(list) do
    local row = case.ranks:where { rank = rank }:where("host is not null"):first()
    if not row or (host and host ~= row.host) then return "" end
    host = row.host
  end
  return host and "; all of them run on host " .. host or ""
end

--- Where the host of a rank was last: its stack if there is one, else its last call.
local function whereabouts(case, job, rank)
  local stacks = case.stacks:where { rank = rank }:where("frames is not null")
  local stack = stacks:where("match(thread, 'Main*')"):first() or stacks:first()
  if stack then return (". Rank %d is in %s"):format(rank, innermost(stack.frames, 3)), stack end
  local last = job.all:where { rank = rank }:top(1, "record"):first()
  if not last then return "", nil end
  return (". The last call of rank %d was %s%s"):format(rank, call_text(last),
    last.frames and ", from " .. innermost(last.frames, 3) or ""), last
end

--- The unit in which most of the listed ranks are missed, the earliest call of equals.
local function telling_unit(job, list, wanted)
  local best, most, when = nil, 0, nil
  local counted = {}
  for _, rank in ipairs(hang.sorted(job.units)) do
    local unit = job.units[rank]
    if not counted[unit.key] then
      counted[unit.key] = true
      local n = unit.peers and 0.5 or 0 -- a collective tells more than a receive
      for _, target in ipairs(list) do
        if wanted(unit.states[target]) and target ~= rank then n = n + (unit.peers and 0.1 or 1) end
      end
      local first = unit.row.enqueued or 0
      if n >= 0.6 and (n > most or (n == most and first < when)) then best, most, when = unit, n, first end
    end
  end
  return best
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A hung job: which rank the others wait for, and whether its host or its device is stuck",
  needs    = { any = { collectives = { "record" }, process_groups = { "rank", "group" } } },
  symptoms = { "hang-host-side", "hang-device-side", "hang-all-entered", "hang-rank-without-dump",
    "hang-circular-wait" },

  run = function(case)
    local job = hang.survey(case)
    if #hang.sorted(job.known) < 2 then
      return skip("the flight-recorder dumps of at least two ranks: set TORCH_FR_BUFFER_SIZE=2000 and "
        .. "TORCH_NCCL_DUMP_ON_TIMEOUT=1")
    end
    if job.pending:count() == 0 then
      if case.process_groups:where("last_enqueued > last_completed and members is not null"):count() > 0 then
        return skip("what is pending by record, not by counter: the flight-recorder dumps, TORCH_FR_BUFFER_SIZE=2000")
      end
      return
    end

    hang.find_units(case, job)
    local score, aside = 0.98, false
    local out = hang.waits(job, false)
    local found, behind = hang.roots(job, out)
    if next(found) == nil then
      -- Pipelines close circles: a rank that is stuck on its host may still have a receive open. Point-to-point aside,
      -- but for two ranks whose sends and receives wait for each other.
      local without = hang.waits(job, true)
      local others, count = hang.roots(job, without)
      for rank in pairs(others) do
        if job.pending:where { rank = rank }:where("peer is null"):count() > 0 then others[rank] = nil end
        for target in pairs(out[rank] or {}) do
          if job.units[target] and job.units[target].peers and out[target][rank] then others[rank] = nil end
        end
      end
      if next(others) ~= nil then found, behind, out, score, aside = others, count, without, 0.7, true end
    end

    local host, device, silent, late = {}, {}, {}, {}
    for rank in pairs(found) do
      if not job.known[rank] then silent[#silent + 1] = rank
      elseif job.lag[rank] then device[#device + 1] = rank
      elseif not job.units[rank] or (aside and job.units[rank].peers) then host[#host + 1] = rank
      else late[#late + 1] = rank end
    end
    local absent = {}
    for rank in pairs(job.expected) do
      if not job.known[rank] then absent[#absent + 1] = rank end
    end
    local total = #hang.sorted(job.expected)
    local partial = #absent > 0
      and ("; %s left no dump and may be stuck as well"):format(names(absent)) or ""
    if #absent > 0 then score = #absent * 2 > total and 0.4 or 0.75 * score end

    local latest = math.max(job.all:max("enqueued") or 0, job.all:max("stop") or 0)
    local function since(unit)
      local began
      for _, rank in ipairs(unit.waiting) do
        local at = job.pending:where { rank = rank, group = unit.row.group, seq = unit.row.seq }:min("enqueued")
        if at then began = math.min(began or at, at) end
      end
      return began and ("; it was first called %s before the last record of the dumps")
        :format(units.format(latest - began)) or ""
    end
    local function evidence(unit, list, more)
      local rows = {}
      if unit then rows[1] = job.pending:where { group = unit.row.group, seq = unit.row.seq }:slice(0, 8) end
      local state = unit and case.process_groups:where { group = unit.row.group, rank = list }
      if state and state:count() > 0 then rows[#rows + 1] = state:slice(0, 8) end
      if more then rows[#rows + 1] = more end
      return #rows > 0 and rows or { case.process_groups:where { rank = list }:slice(0, 8) }
    end

    local stuck
    if #host > 0 then
      local unit = telling_unit(job, host, function(state) return state == "absent" end)
      local place, row = whereabouts(case, job, host[1])
      local never, waiting, start = "what their group waits for", "", ""
      if unit then
        never, start = call_text(unit.row), since(unit)
        waiting = (", in which %s %s"):format(names(unit.waiting), #unit.waiting == 1 and "waits" or "wait")
      end
      report {
        symptom  = "hang-host-side",
        score    = score,
        at       = { rank = host[1] },
        message  = ("%s never called %s%s%s. Nothing%s is pending there, so %s stuck outside of collectives; %d of %d "
          .. "ranks wait for %s, directly or through others%s%s%s")
          :format(names(host), never, waiting, start, aside and " but sends and receives" or "",
            #host == 1 and "its host is" or "their hosts are", behind, total, #host == 1 and "it" or "them",
              shared(case, job, host), place, partial),
        evidence = evidence(unit, host, row),
      }
    end

    if #device > 0 then
      local unit = job.units[device[1]]
      local peers, lag = {}, nil
      for member, state in pairs(unit.states) do
        if state == "done" then peers[#peers + 1] = member end
      end
      local own = job.counters[device[1]] and job.counters[device[1]][unit.row.group]
      if own and own.last_completed and unit.counted then
        for _, peer in ipairs(peers) do
          local row = job.counters[peer] and job.counters[peer][unit.row.group]
          if row and row.last_completed then lag = math.max(lag or 0, row.last_completed - own.last_completed) end
        end
      end
      report {
        symptom  = "hang-device-side",
        score    = score,
        at       = { rank = device[1] },
        message  = ("%s called the same collectives as the peers, but %s not completed them: rank %d is still in %s, "
          .. "which %s completed%s. A host that is late is not what holds it up; %d of %d ranks wait for %s, directly "
          .. "or through others%s%s")
          :format(names(device), #device == 1 and "its device has" or "their devices have", device[1],
            call_text(unit.row), names(peers),
            lag and lag > 0 and ("; its completed counter is %d behind theirs"):format(lag) or "",
            behind, total, #device == 1 and "it" or "them", shared(case, job, device), partial),
        evidence = evidence(unit, device),
      }
    elseif #late > 0 and #host == 0 then
      -- The peers' devices have begun the collective, these have not come to it.
      local unit = job.units[late[1]]
      local begun = hang.sorted(unit.started)
      if #hang.sorted(unit.states) == 1 then
        report {
          symptom  = "hang-device-side",
          score    = 0.9 * score,
          at       = { rank = late[1] },
          message  = ("%s %s in %s, which needs nobody else, and the device does not complete it; %d of %d ranks wait "
            .. "for %s, directly or through others%s")
            :format(names(late), #late == 1 and "is" or "are", call_text(unit.row), behind, total,
              #late == 1 and "it" or "them", partial),
          evidence = evidence(unit, late),
        }
      elseif #begun == 0 then
        stuck = unit
      else
        report {
          symptom  = "hang-device-side",
          score    = 0.9 * score,
          at       = { rank = late[1] },
          message  = ("%s called %s as the peers did, but %s not begun it while %s %s: what runs before it there does "
            .. "not end%s%s")
            :format(names(late), call_text(unit.row), #late == 1 and "its device has" or "their devices have",
              names(begun), #begun == 1 and "has" or "have", shared(case, job, late), partial),
          evidence = evidence(unit, late),
        }
      end
    end

    if #silent > 0 then
      local unit = telling_unit(job, silent, function(state) return state == "unknown" end)
      local most = #silent * 2 > total
      report {
        symptom  = "hang-rank-without-dump",
        score    = most and 0.3 or (#host + #device > 0) and 0.5 or 0.8,
        severity = most and "warning" or "error",
        at       = { rank = silent[1] },
        message  = ("%s left no dump, and %s for %s%s: a rank that died or cannot answer is the first suspect; its "
          .. "dump or its log would tell")
          :format(names(silent), unit and names(unit.waiting) .. (#unit.waiting == 1 and " waits" or " wait")
            or "others wait",
            #silent == 1 and "it" or "them", unit and " in " .. call_text(unit.row) or ""),
        evidence = evidence(unit, silent),
      }
    end

    if next(found) ~= nil and not stuck then return end

    -- Nobody to follow to: a circle, or all are there and nothing moves.
    local start
    for rank, targets in pairs(stuck and {} or out) do
      if not start and next(targets) ~= nil then start = rank end
    end
    if start then
      local seen, path, rank = {}, {}, start
      while rank and not seen[rank] do
        path[#path + 1] = rank
        seen[rank] = #path
        rank = next(out[rank])
      end
      local parts, rows, crossed, sure = {}, {}, true, true
      for i = seen[rank], #path do
        local unit = job.units[path[i]]
        local target = path[i + 1] or rank
        parts[#parts + 1] = ("rank %d waits in %s for rank %d"):format(path[i], call_text(unit.row), target)
        rows[#rows + 1] = unit.row
        crossed = crossed and not unit.peers
        -- Streams of different groups may pass each other: only a call that was never made is sure to be missing.
        sure = sure and out[path[i]][target] == "absent"
      end
      report {
        symptom  = "hang-circular-wait",
        score    = not sure and 0.3 * score or crossed and score or 0.6 * score,
        at       = { rank = rank },
        message  = ("the ranks wait for each other in a circle: %s. They call %s in different orders%s")
          :format(table.concat({ table.unpack(parts, 1, 6) }, ", "),
            crossed and "collectives" or "sends, receives and collectives", partial),
        evidence = { table.unpack(rows, 1, 8) },
      }
      return
    end
    local unit = stuck or job.units[hang.sorted(job.units)[1]]
    local everyone = unit.peers and hang.sorted(unit.states) or unit.waiting
    report {
      symptom  = "hang-all-entered",
      score    = 0.7 * score,
      at       = { group = unit.row.group },
      message  = ("%s called %s and no device completes it%s: no rank is missing, so the transport, a link or a device "
        .. "under it is stuck, or they disagree about sizes%s")
        :format(names(everyone), call_text(unit.row), since(unit), partial),
      evidence = evidence(unit, unit.waiting),
    }
  end,
}
