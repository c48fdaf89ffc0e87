--- ## What it detects
--- Ranks of one group that disagree about the collective at one place of the group's sequence: another operation,
--- another size or another element type; and whether the odd rank's calls are those of its peers moved by one or more,
--- which means that it skipped or added calls.
---
--- ## Why it matters
--- NCCL pairs calls by their order alone. Equal sizes then give silently wrong data and unequal ones a hang, far from
--- the branch that parted the ranks. The first place where they disagree is the cause, all later ones follow from it.
---
--- ## How to confirm
--- Run with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, which compares operation and shape before each call, and read the two
--- call sites.
---
--- ## Known false positives
--- Sizes that may differ are left aside: all_to_all, gather and scatter, the inputs of an uneven all_gather and the
--- outputs of an uneven reduce_scatter. Calls that fell out of a rank's ring buffer are not taken for missing.
---
--- ## References
--- The match states of torch's analyser: https://github.com/pytorch/pytorch/tree/main/tools/flight_recorder

local names = require("collectives").ranks
local elements = require("collectives").elements

--- The side of a collective that all ranks agree on: its inputs, or its outputs, or neither.
local SIDE = {
  all_reduce = "input_shapes", broadcast = "input_shapes", reduce = "input_shapes", reduce_scatter = "input_shapes",
  _reduce_scatter_base = "input_shapes", all_gather = "output_shapes", _all_gather_base = "output_shapes",
}

--- Names of one operation in different versions.
local function operation(op)
  if op == "all_reduce_barrier" then return "barrier" end
  if op == "_all_gather_base" then return "all_gather" end
  if op == "_reduce_scatter_base" then return "reduce_scatter" end
  return op
end

--- What a rank calls at one place of the sequence: the operations of a coalesced batch share one.
local function call_of(calls, rank, seq)
  local rows = calls:where { rank = rank, seq = seq }:sort("record")
  local first = rows:first()
  if not first then return nil end
  local ops, count, dtypes = {}, nil, {}
  for row in rows:slice(0, 200):rows() do
    ops[#ops + 1] = operation(row.op or "?")
    local side = SIDE[row.op]
    local n = side and elements(row[side])
    if n then count = (count or 0) + n end
    dtypes[#dtypes + 1] = row.dtype or "?"
  end
  return { row = first, rows = rows, op = table.concat(ops, "+"), count = count, dtype = table.concat(dtypes, "+"),
    batch = #ops }
end

local function size_text(call)
  return ("%s elements of %s"):format(units.count(call.count or 0), call.row.dtype or "unknown type")
end

--- The groups of ranks that agree, largest first: what most call is taken for right.
local function sides(found, key)
  local by, order = {}, {}
  for _, rank in ipairs(found.ranks) do
    local name = key(found.calls[rank])
    if name then
      if not by[name] then
        by[name] = { name = name, ranks = {} }
        order[#order + 1] = by[name]
      end
      table.insert(by[name].ranks, rank)
    end
  end
  table.sort(order, function(a, b)
    if #a.ranks ~= #b.ranks then return #a.ranks > #b.ranks end
    return a.ranks[1] < b.ranks[1]
  end)
  return order
end

--- By how many calls `odd`'s sequence is moved against `usual`'s: 1 when it skipped one, -1 when it made one more; and
--- how sure that is. Two calls in a row must fit, or the one that a rank which skipped one is stuck in.
local function shift_of(calls, odd, usual, seq)
  local function same(a, b) return a and b and a.op == b.op and a.count == b.count and a.dtype == b.dtype end
  for by = 1, 8 do
    for _, sign in ipairs({ 1, -1 }) do
      local move, fits = by * sign, 0
      -- A skip leaves the place itself moved; an addition leaves what follows it moved.
      local from = move > 0 and seq or seq - move
      for i = 0, 3 do
        local mine, theirs = call_of(calls, odd, from + i), call_of(calls, usual, from + i + move)
        if not mine or not theirs then break end
        if not same(mine, theirs) then
          fits = -1
          break
        end
        fits = fits + 1
      end
      if fits >= 2 then return move, 0.9 end
      if fits == 1 and move == 1 then return move, 0.6 end
    end
  end
  return nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Ranks of a group disagree about the collective they are in",
  needs    = { collectives = { "record", "rank", "seq", "group", "op" } },
  symptoms = { "collective-mismatch", "collective-call-skipped" },

  run = function(case)
    local all = case.collectives:where("record is not null and group is not null and seq is not null and op is not "
      .. "null")
      :where("op != 'send' and op != 'recv' and peer is null")
    if all:distinct("rank"):count() < 2 then
      return skip("the flight-recorder dumps of at least two ranks: set TORCH_FR_BUFFER_SIZE=2000 and "
        .. "TORCH_NCCL_DUMP_ON_TIMEOUT=1")
    end

    -- Places of the sequence with two operations, sizes or types: three passes over all calls, then a closer look at
    -- few.
    local suspects, listed = {}, {}
    local function suspect(rows, column)
      local several = rows:aggregate({ "group", "seq", column }, { n = "count" }):aggregate({ "group", "seq" },
        { kinds = "count" })
        :where("kinds > 1"):sort("group", "seq")
      for place in several:slice(0, 400):rows() do
        local key = ("%s/%d"):format(place.group, place.seq)
        if not listed[key] then
          listed[key] = true
          suspects[#suspects + 1] = { group = place.group, seq = place.seq }
        end
      end
    end
    suspect(all, "op")
    if all:has("dtype") then suspect(all, "dtype") end
    if all:has("input_shapes") then
      suspect(all:where("match(op, 'all_reduce*|broadcast|reduce|reduce_scatter|_reduce_scatter_base')"),
        "input_shapes")
    end
    if all:has("output_shapes") then suspect(all:where("match(op, 'all_gather|_all_gather_base')"), "output_shapes") end
    table.sort(suspects, function(a, b)
      if a.group ~= b.group then return a.group < b.group end
      return a.seq < b.seq
    end)

    local worst, places, settled = nil, 0, {}
    for _, place in ipairs(suspects) do
      if not settled[place.group] then
        local calls = all:where { group = place.group }
        -- Groups of one name need not have the same members.
        local parts = {}
        local here = calls:where { seq = place.seq }
        for rank, own in here:group("rank") do
          local members = own:first().members
          local key = members and table.concat(members, ",") or ""
          parts[key] = parts[key] or { ranks = {}, calls = {} }
          local call = call_of(here, rank, place.seq)
          -- A batch at the rim of the ring buffer may have lost its first calls.
          if call.batch == 1 or case.collectives:where { rank = rank }:min("record") < call.row.record then
            table.insert(parts[key].ranks, rank)
            parts[key].calls[rank] = call
          end
        end
        for _, part in pairs(parts) do
          table.sort(part.ranks)
          local ops = sides(part, function(call) return call.op end)
          local sizes = #ops == 1 and sides(part, function(call)
            return SIDE[call.row.op] and call.count and ("%d %s"):format(call.count, call.dtype) or nil
          end) or {}
          local kind = #ops > 1 and "op" or #sizes > 1 and "size"
          if kind then
            places = places + 1
            settled[place.group] = true
            local at = math.huge
            for _, call in pairs(part.calls) do at = math.min(at, call.row.enqueued or call.row.record) end
            if not worst or at < worst.at then
              worst = { at = at, kind = kind, sides = kind == "op" and ops or sizes, part = part, place = place,
                calls = calls }
            end
          end
        end
      end
    end
    if not worst then return end

    local usual, odd = worst.sides[1], worst.sides[2]
    local one, other = worst.part.calls[usual.ranks[1]], worst.part.calls[odd.ranks[1]]
    local group = one.row.group_name and ("%s (%s)"):format(worst.place.group, one.row.group_name) or worst.place.group
    local function site(call)
      if not call.row.frames then return "" end
      local frames = call.row.frames:split(" < ")
      return " from " .. frames[#frames]
    end
    local evidence = { other.rows:slice(0, 4), one.rows:slice(0, 4) }
    local more = (#worst.sides > 2 and ("; %d more variants"):format(#worst.sides - 2) or "")
      .. (places > 1 and ("; %d groups disagree, this one first"):format(places) or "")
    if worst.kind == "op" then
      report {
        symptom  = "collective-mismatch",
        score    = 0.98,
        at       = { rank = odd.ranks[1], group = worst.place.group },
        message  = ("at place %d of group %s %s called %s%s where %s called %s%s%s"):format(worst.place.seq, group,
          names(odd.ranks),
          other.op, site(other), names(usual.ranks), one.op, site(one), more),
        evidence = evidence,
      }
    else
      report {
        symptom  = "collective-mismatch",
        score    = 0.98,
        at       = { rank = odd.ranks[1], group = worst.place.group },
        message  = ("at place %d of group %s %s called %s with %s%s where %s gave %s%s%s"):format(worst.place.seq,
          group, names(odd.ranks),
          other.op, size_text(other), site(other), names(usual.ranks), size_text(one), site(one), more),
        evidence = evidence,
      }
    end
    local shift, sure = shift_of(worst.calls, odd.ranks[1], usual.ranks[1], worst.place.seq)
    if shift then
      report {
        symptom  = "collective-call-skipped",
        score    = sure,
        at       = { rank = odd.ranks[1], group = worst.place.group },
        message  = ("from place %d of group %s on %s %s %s: what it calls there %s call %d place%s %s")
          :format(worst.place.seq, group,
          names(odd.ranks), shift > 0 and "left out" or "made",
          shift > 0 and (shift == 1 and "a call" or shift .. " calls")
            or (shift == -1 and "a call too many" or -shift .. " calls too many"),
          names(usual.ranks), math.abs(shift), math.abs(shift) == 1 and "" or "s", shift > 0 and "later" or "earlier"),
        evidence = evidence,
      }
    end
  end,
}
