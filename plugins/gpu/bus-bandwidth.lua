--- ## What it detects
--- Large messages that move slowly: the bus bandwidth of collectives of 64 MB and more, against the best group that
--- runs the same operation on messages of similar size, and against what the links inside a host can do. Among sends
--- and receives it names the pair that is slower than the others, and the host if all slow groups lie on one.
---
--- ## Why it matters
--- A route over PCIe, shared memory or the wrong network card instead of NVLink or InfiniBand costs a factor of five
--- to ten, and nothing in the program shows it. One bad link slows every ring that passes through it.
---
--- ## How to confirm
--- `all_reduce_perf -b 64M -e 1G -f 2` of nccl-tests on the same ranks; `NCCL_DEBUG=INFO` prints the transport of each
--- channel (P2P, SHM or NET); `nvidia-smi topo -m` and `nvidia-smi nvlink -s` show the links.
---
--- ## Known false positives
--- The time is that of the rank that entered last, so waiting does not count; but compute that shares the
--- multiprocessors with the collective slows it too. Groups that span hosts are compared with each other only: the
--- rate of their network cards is not recorded. Small messages are limited by latency and are left out; see
--- `gpu/small-collectives`.
---
--- ## References
--- nccl-tests, doc/PERFORMANCE.md: bus bandwidth = size / time * 2(n-1)/n for all_reduce, (n-1)/n for all_gather,
--- reduce_scatter and all_to_all, 1 for broadcast, reduce, send and recv. Of a gather it counts the output, of a
--- scatter the input.

local links = require("links")
local windows = require("windows")

local function ranks_of(case, rows)
  local seen, list = {}, {}
  for _, column in ipairs { "first_rank", "last_rank" } do
    for rank in rows:group(column) do
      if not seen[rank] then seen[rank] = true  list[#list + 1] = rank end
    end
  end
  table.sort(list)
  return list
end

-- The one host that all ranks of a list run on, or nil; and whether that is known at all.
local function host_of(case, ranks)
  local host
  for _, rank in ipairs(ranks) do
    local row = case.ranks:where { rank = rank }:first()
    if not row or not row.host then return nil, false end
    if host and host ~= row.host then return nil, true end
    host = row.host
  end
  return host, host ~= nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Large messages move far below the rate of the link",
  needs    = { collectives = { "start", "stop", "bytes", "rank" } },
  relies   = { "clocks" },
  symptoms = { "bus-bandwidth-low", "bus-bandwidth-low-pair" },
  options  = {
    min_bytes = { default = 64000000, doc = "A message from this size on shows the rate of the link" },
    min_ratio = { default = 0.50, doc = "Of the best group or pair of the same operation and size" },
    min_spec  = { default = 0.20, doc = "Of the links inside a host; NCCL reaches 0.8 of them" },
    min_count = { default = 3, doc = "Messages of a group from which it is judged" },
    link      = { default = 0, doc = "Rate of the link in GB/s each way, where known; 0: told from the device model" },
  },

  run = function(case)
    local opt   = case.options
    local large = case.matched_collectives:where("bus_bandwidth is not null and bytes >= ?", opt.min_bytes)
    if large:count() < opt.min_count then
      return skip("collectives of 64 MB or more, of two ranks and with sizes: profile several ranks with "
        .. "record_shapes=True")
    end
    if not large:has("group") then large = large:with { group = "'the job'" } end

    local function lost_of(rows, best)
      local priced = windows.ended_within(case, rows)
      if priced:count() == 0 then return 0 end
      return math.floor(priced:compute("transfer * (1 - bus_bandwidth / ?)", best):sum())
    end

    -- Cohorts of one operation and sizes within a factor of two; a pair of ranks is a group of its own.
    local cohorts = {}
    local sized = large:with { pair = "first_rank * 1000000 + last_rank" }
    for op, rows in sized:group("op") do
      local point = op == "send" or op == "recv"
      if not point then
        local low = opt.min_bytes
        while low <= rows:max("bytes") do
          local here = rows:where("bytes >= ? and bytes < ?", low, 2 * low)
          if here:count() > 0 then cohorts[#cohorts + 1] = { op = op, rows = here } end
          low = 2 * low
        end
      end
    end

    local reported = {}
    for _, cohort in ipairs(cohorts) do
      local groups, best = {}, nil
      for name, rows in cohort.rows:group("group") do
        if rows:count() >= opt.min_count then
          local g = { name = name, rows = rows, size = rows:max("group_size"),
                      bandwidth = rows:median("bus_bandwidth") }
          groups[#groups + 1] = g
          if not best or g.bandwidth > best.bandwidth then best = g end
        end
      end
      for _, g in ipairs(groups) do
        if g.bandwidth < opt.min_ratio * best.bandwidth and g.size == best.size and not reported[g.name] then
          reported[g.name] = true
          local ranks = ranks_of(case, g.rows)
          local host  = host_of(case, ranks)
          local names = {}
          for i, rank in ipairs(ranks) do names[i] = tostring(rank) end
          report {
            symptom     = "bus-bandwidth-low-pair",
            score       = 0.9,
            recoverable = lost_of(g.rows, best.bandwidth),
            at          = { name = g.name },
            message     = ("%s of %s in group %s runs at a bus bandwidth of %s, in group %s at %s: %s of it over %d "
              .. "messages; ranks %s%s")
              :format(cohort.op, units.bytes(g.rows:median("bytes")), g.name, links.rate(g.bandwidth), best.name,
                      links.rate(best.bandwidth), units.percent(g.bandwidth / best.bandwidth), g.rows:count(),
                        table.concat(names, ", "),
                      host and " on host " .. host or ""),
            evidence    = { g.rows:top(5, "transfer"), best.rows:slice(0, 3) },
          }
        end
      end

      -- Against the links of one host: only what is known to stay inside one.
      local known, model, whole = links.of(case)
      if opt.link > 0 then known, model, whole = opt.link, "the given link", nil end
      if best and known and best.size >= (whole or 2) then
        local ranks = ranks_of(case, best.rows)
        local host, sure = host_of(case, ranks)
        local world = case.ranks:max("world_size")
        local inside = host or (not sure and world and world <= 8)
        if inside and best.bandwidth < opt.min_spec * known and not reported[cohort.op] then
          reported[cohort.op] = true
          report {
            symptom     = "bus-bandwidth-low",
            score       = 0.85,
            recoverable = lost_of(best.rows, 0.8 * known),
            at          = { name = best.name },
            message     = ("%s of %s on %d ranks of one host reaches a bus bandwidth of %s at best; the links of %s "
              .. "carry %d GB/s each way: %s of them")
              :format(cohort.op, units.bytes(best.rows:median("bytes")), best.size, links.rate(best.bandwidth), model,
                      known, units.percent(best.bandwidth / known)),
            evidence    = { best.rows:top(5, "bus_bandwidth") },
          }
        end
      end
    end

    -- One slow pair among sends and receives.
    local found, rates = {}, {}
    local points = large:where("op == 'send' or op == 'recv'")
    points = points:with { low = "first_rank", high = "last_rank" }
    local by_pair = {}
    for a, b, rows in points:group("low", "high") do
      local key = math.min(a, b) .. " and " .. math.max(a, b)
      by_pair[key] = by_pair[key] and by_pair[key]:concat(rows) or rows
    end
    for key, rows in pairs(by_pair) do
      if rows:count() >= opt.min_count then
        found[#found + 1] = { pair = key, rows = rows, bandwidth = rows:median("bus_bandwidth") }
        rates[#rates + 1] = found[#found].bandwidth
      end
    end
    table.sort(rates)
    local typical = #rates >= 3 and rates[(#rates + 1) // 2]
    for _, link in ipairs(found) do
      if typical and link.bandwidth < opt.min_ratio * typical then
        report {
          symptom     = "bus-bandwidth-low-pair",
          score       = 0.9,
          recoverable = lost_of(link.rows, typical),
          message     = ("messages of %s between ranks %s move at %s, between the other %d pairs at %s")
            :format(units.bytes(link.rows:median("bytes")), link.pair, links.rate(link.bandwidth), #found - 1,
              links.rate(typical)),
          evidence    = { link.rows:top(5, "transfer") },
        }
      end
    end
  end,
}
