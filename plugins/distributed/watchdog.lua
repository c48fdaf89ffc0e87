--- ## What it detects
--- From the watchdog's lines in the logs alone, without flight-recorder dumps: a rank that has called fewer collectives
--- of a group than its peers, or that logged no timeout while all others did; and ranks that timed out in different
--- collectives at one place.
---
--- ## Why it matters
--- The ranks that print a timeout are those that wait. The one that is behind, or silent, is the one that they wait
--- for; where its last called and its last completed collective are the same one, it is stuck outside of collectives.
---
--- ## How to confirm
--- Look for the last lines of the named rank before the timeouts, or take flight-recorder dumps:
--- TORCH_FR_BUFFER_SIZE=2000.
---
--- ## Known false positives
--- Logs of a part of the ranks. Groups that also carry sends and receives count both, and ranks differ in them by
--- nature.
---
--- ## References
--- https://github.com/NVIDIA/nccl/issues/1730, https://github.com/modelscope/ms-swift/issues/10183

local names = require("collectives").ranks

---@type culprit.Detector
return {
  api      = 1,
  summary  = "By the watchdog's log lines, a rank is behind its peers or silent",
  needs    = { log_lines = { "text" }, errors = { "rank", signature = "nccl-timeout" } },
  symptoms = { "watchdog-rank-behind", "watchdog-rank-quiet", "collective-mismatch" },
  options  = {
    odd_share = { default = 0.25, doc = "Share of the ranks up to which those behind or silent are odd" },
  },

  run = function(case)
    local timeouts = case.errors:where("signature == 'nccl-timeout' and rank is not null")
    local timed, timed_count = {}, 0
    for rank in timeouts:group("rank") do timed[rank], timed_count = true, timed_count + 1 end

    -- The last word of each rank about each group.
    local groups, order = {}, {}
    local states = case.process_groups:where("members is null and rank is not null")
      :where("last_enqueued is not null and last_completed is not null")
    for first = 0, #states - 1, 10000 do
      for row in states:slice(first, 10000):rows() do
        local name = row.group or ""
        if not groups[name] then
          groups[name] = { title = (row.group and "group " .. row.group or "the group")
            .. (row.name and (" (%s)"):format(row.name) or "") }
          order[#order + 1] = name
        end
        local old = groups[name][row.rank]
        if not old or row.last_enqueued >= old.enqueued then
          groups[name][row.rank] = { rank = row.rank, enqueued = row.last_enqueued, completed = row.last_completed,
            row = row }
        end
      end
    end

    local found
    for _, name in ipairs(order) do
      ---@type table[], table?, table?
      local list, top, last = {}, nil, nil
      for rank, state in pairs(groups[name]) do
        if rank ~= "title" then
          list[#list + 1] = state
          if not top or state.enqueued > top.enqueued then top = state end
        end
      end
      local idle, behind = {}, {}
      for _, state in ipairs(list) do
        if state.enqueued < top.enqueued then
          behind[#behind + 1] = state
          -- It has finished all it called, and the others are past that.
          if state.enqueued == state.completed then idle[#idle + 1] = state end
        end
      end
      local odd = #idle > 0 and idle or behind
      if #list >= 2 and #odd > 0 and #odd <= math.max(1, math.floor(case.options.odd_share * #list)) then
        local ranks, rows = {}, {}
        table.sort(odd, function(a, b) return a.rank < b.rank end)
        for i, state in ipairs(odd) do
          ranks[i] = state.rank
          if i <= 4 then rows[i] = state.row end
        end
        rows[#rows + 1] = top.row
        last = odd[1]
        local score = #idle > 0 and 0.9 or #list > 2 and 0.6 or 0.4
        if not found or score > found.score then
          found = {
            symptom  = "watchdog-rank-behind",
            score    = score,
            at       = { rank = ranks[1] },
            message  = ("%s called collectives of %s up to %d and completed %d, the others called them up to %d%s")
              :format(names(ranks),
              groups[name].title, last.enqueued, last.completed, top.enqueued,
              #idle > 0 and ": nothing is open there, it is stuck outside of collectives" or ""),
            evidence = rows,
          }
        end
      end
    end
    -- What the ranks were in when they timed out, group by group.
    local differ = false
    local works = case.collectives:where("record is null and rank is not null and seq is not null and group is not "
      .. "null and op is not null")
      :where("state is not null and state != 'completed'"):sort("group", "seq", "rank")
    for group, seq, calls in works:group("group", "seq") do
      if differ or calls:distinct("rank"):count() < 2 then goto continue end
      local one = calls:first()
      for call in calls:slice(0, 10000):rows() do
        local sized = call.op == one.op and call.op:glob("all_reduce|broadcast")
          and call.input_shapes ~= one.input_shapes
        if not differ and call.rank ~= one.rank and (call.op ~= one.op or sized) then
          differ = true
          report {
            symptom  = "collective-mismatch",
            score    = 0.9,
            at       = { rank = call.rank, group = group },
            message  = ("at place %d of group %s rank %d was in %s of %s elements and rank %d in %s of %s when they "
              .. "timed out"):format(seq,
              group, one.rank, one.op, one.input_shapes or "?", call.rank, call.op, call.input_shapes or "?"),
            evidence = { one, call },
          }
        end
      end
      ::continue::
    end

    -- Behind with something open is no news where the ranks are in different calls anyway.
    if found and not (differ and found.score < 0.9) then report(found) end

    -- Who is known to run and did not complain.
    local all, count = {}, 0
    for rank in case.log_lines:where("rank is not null"):group("rank") do all[rank] = true end
    local world = case.ranks:max("world_size")
    if world then
      for rank = 0, math.min(world, 100000) - 1 do all[rank] = true end
    end
    for rank in pairs(timed) do
      all[rank] = true
      -- Ranks are numbered from 0: those below one that spoke exist.
      for below = 0, math.min(rank, 100000) do all[below] = true end
    end
    local quiet = {}
    for rank in pairs(all) do
      count = count + 1
      if not timed[rank] then quiet[#quiet + 1] = rank end
    end
    if #quiet > 0 and timed_count >= 2 and #quiet <= math.max(1, math.floor(case.options.odd_share * count)) then
      -- One that failed before the others timed out is no riddle: its own error says why.
      local died = case.errors:where("role == 'initiating' and (signature is null or signature != 'nccl-timeout')")
        :where { rank = quiet[1] }:last()
      report {
        symptom  = "watchdog-rank-quiet",
        score    = died and 0.2 or 0.7,
        severity = died and "info" or "error",
        at       = { rank = quiet[1] },
        message  = ("%d of %d ranks logged a timeout of a collective, %s did not%s: the others wait for it")
          :format(timed_count, count, names(quiet),
          died and (", which had failed before (%s, line %d)"):format(died.signature or died.type or "an error",
            died.line or 0) or ""),
        evidence = died and { died, timeouts:slice(0, 6) } or { timeouts:slice(0, 6) },
      }
    elseif not found and timed_count < 2 then
      skip("the logs of more ranks: one file a rank, or the flight-recorder dumps")
    end
  end,
}
