--- ## What it detects
--- Pending sends and receives that cannot meet: two ranks both in a send (or both in a receive) towards each other; a
--- send in one process group whose receive was posted in another; a send that meets a receive of another size.
---
--- ## Why it matters
--- NCCL has no tags: the n-th send of a pair on a communicator pairs with the n-th receive. A schedule that posts them
--- in another order, or in another group, hangs a pipeline or hands a stage the wrong micro-batch.
---
--- ## How to confirm
--- Print (peer, group, micro-batch, shape) at each post on both ends and compare the two lists.
---
--- ## Known false positives
--- A rank whose partner is only late: that is not reported here, `distributed/hang` follows it. Calls of one batch
--- (`batch_isend_irecv`) run together, so their order among themselves does not count.
---
--- ## References
--- https://github.com/NVIDIA/nccl/issues/479, https://github.com/pytorch/pytorch/issues/109401

local group_text = require("collectives").group
local elements = require("collectives").elements

local function size_of(row)
  return elements(row.op == "send" and (row.input_shapes or row.output_shapes)
    or (row.output_shapes or row.input_shapes))
end

local function site(row)
  if not row.frames then return "" end
  local frames = row.frames:split(" < ")
  return ", called from " .. frames[#frames]
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Sends and receives that cannot meet",
  needs    = { collectives = { "record", "peer", "state", "rank", "group" } },
  symptoms = { "p2p-crossed", "p2p-size-mismatch", "p2p-group-mismatch" },

  run = function(case)
    local pending = case.collectives:where("record is not null and peer is not null and group is not null and rank is "
      .. "not null")
      :where("op == 'send' or op == 'recv'"):where("state == 'scheduled' or state == 'started'"):sort("rank", "record")
    local recorded = {}
    for rank in case.collectives:where("record is not null"):group("rank") do recorded[rank] = true end
    for rank in case.process_groups:group("rank") do recorded[rank] = true end

    local crossed, grouped, sized = {}, {}, {}
    for rank, peer, mine in pending:group("rank", "peer") do
      if rank < peer and recorded[peer] then
        local theirs = pending:where { rank = peer, peer = rank }
        for group, here in mine:group("group") do
          local there = theirs:where { group = group }
          local a, b = here:first(), there:first()
          if a and b then
            -- The first calls of both ends, whole batches of them.
            local first_a, first_b = here:where { seq = a.seq }, there:where { seq = b.seq }
            if a.seq == nil then first_a, first_b = here:slice(0, 1), there:slice(0, 1) end
            local sends = first_a:where("op == 'send'"):count() + first_b:where("op == 'send'"):count()
            local calls = first_a:count() + first_b:count()
            -- Both ends wait in the same direction. In a pair's own group the numbers must agree too: where one end is
            -- further its earlier call may have been done.
            local aligned = (a.group_size or (a.members and #a.members) or 3) > 2 or a.seq == b.seq
            if (sends == 0 or sends == calls) and aligned then
              crossed[#crossed + 1] = { a, b }
            end
          end
          -- Sizes, where the ends can be put side by side: by number in a pair's own group, by order where both have as
          -- many.
          local pair = (a.group_size or (a.members and #a.members)) == 2
          for _, op in ipairs({ "send", "recv" }) do
            local left, right = here:where { op = op }, there:where { op = op == "send" and "recv" or "send" }
            local same = left:count() == right:count()
            for i = 0, math.min(left:count(), 64) - 1 do
              local x = left:row(i)
              local y
              if pair then y = right:where { seq = x.seq }:first() elseif same then y = right:row(i) end
              local n, m = size_of(x), y and size_of(y)
              if n and m and n ~= m then
                sized[#sized + 1] = { x, y, n, m }
                break
              end
            end
          end
          -- A call whose other end is pending in another group and in this one not at all.
          for _, op in ipairs({ "send", "recv" }) do
            local opposite = op == "send" and "recv" or "send"
            local x = here:where { op = op }:first()
            if x and there:where { op = opposite }:count() == 0 then
              for other, elsewhere in theirs:where { op = opposite }:group("group") do
                if other ~= group and mine:where { op = op, group = other }:count() == 0 then
                  grouped[#grouped + 1] = { x, elsewhere:first() }
                end
              end
            end
          end
        end
      end
    end

    local function pairs_text(list) return #list > 1 and ("; %d such pairs"):format(#list) or "" end
    local function rows(list)
      local out = {}
      for i = 1, math.min(4, #list) do
        out[#out + 1] = list[i][1]
        out[#out + 1] = list[i][2]
      end
      return out
    end
    if #grouped > 0 then
      local x, y = grouped[1][1], grouped[1][2]
      report {
        symptom  = "p2p-group-mismatch",
        score    = 0.9,
        at       = { rank = x.rank, group = x.group },
        message  = ("rank %d waits in %s %s rank %d in %s%s, while rank %d has the other end pending in %s%s%s")
          :format(x.rank, x.op,
          x.op == "send" and "to" or "from", x.peer, group_text(x), site(x), y.rank, group_text(y), site(y),
            pairs_text(grouped)),
        evidence = rows(grouped),
      }
    end
    if #crossed > 0 then
      local x, y = crossed[1][1], crossed[1][2]
      report {
        symptom  = "p2p-crossed",
        score    = 0.9,
        at       = { rank = x.rank, group = x.group },
        message  = ("ranks %d and %d are both in a %s towards each other in %s%s: neither %s%s"):format(x.rank, y.rank,
          x.op,
          group_text(x), site(x), x.op == "send" and "receives" or "sends", pairs_text(crossed)),
        evidence = rows(crossed),
      }
    end
    if #sized > 0 then
      local x, y, n, m = sized[1][1], sized[1][2], sized[1][3], sized[1][4]
      report {
        symptom  = "p2p-size-mismatch",
        score    = 0.9,
        at       = { rank = x.rank, group = x.group },
        message  = ("in %s the %s of rank %d has %s elements%s and the %s of rank %d that it pairs with %s%s%s")
          :format(group_text(x), x.op,
          x.rank, units.count(n), site(x), y.op, y.rank, units.count(m), site(y), pairs_text(sized)),
        evidence = rows(sized),
      }
    end
  end,
}
