--- ## What it detects
--- Collectives that run while no compute kernel does, process group by process group, and how much of that is
--- *blocking*: the exposed piece whose end lets the next compute kernel begin. It says why: launched late, queued on
--- the stream of the compute, or one last bucket that nothing is left to hide. The operation that most of the exposed
--- time belongs to decides what the communication is for: gradients, an exchange of embeddings or tokens, sharded
--- parameters, or stages of a pipeline.
---
--- ## Why it matters
--- Only exposed communication costs time, and of it only the blocking part: behind a collective that ends while the
--- host has not launched the next kernel yet, the host is the limit. A high share of hidden communication is a sign of
--- a good overlap. Overlap can win no more than the compute that no collective runs beside yet: where communication is
--- the longer of the two, the rest has to be sent faster or not at all.
---
--- ## How to confirm
--- Gradients: run the step with the collectives left out (`no_sync()` under DDP): it shortens by about the blocking
--- time. Exchanges and gathers cannot be left out; move one of them a layer ahead and look whether it gets hidden.
---
--- ## Known false positives
--- A rank that waits for a late peer shows it as a long exposed collective. With the profiles of several ranks only
--- the transfer counts as recoverable here; the wait belongs to `gpu/collective-skew`. With one profile the two cannot
--- be told apart. An all_reduce beside no backward pass on record may be that of tensor parallelism: it is not taken
--- for the gradients'.
---
--- ## References
--- TraceLens flags above 5 %; NVIDIA's Megatron-Bridge notes keep exposed and blocking communication apart.

local windows = require("windows")

-- The pieces of `exposed` whose end lets compute begin.
local function blocking_part(case, here, exposed, comm, compute, release)
  local path = case.critical_path:where(here):where { kind = "communication" }
  if case.critical_path:where(here):count() > 0 then return exposed:intersect(path) end
  local free = compute:union():gaps()
  free = free:with { k = free:containing(free) }:select("k", "stop")
  local held = comm:union()
  held = held:with { m = held:containing(held) }:select("m", "stop"):with { over = "stop" }:select("m", "over")
  local ends = exposed:with { k = exposed:containing(compute:union():gaps()), m = exposed:containing(comm:union()) }
                 :where("k is not null and m is not null"):join(free, { "k" }):join(held, { "m" })
  -- A collective that goes on when compute begins was not what compute waited for.
  return ends:where("over <= stop and stop_right - stop <= ?", release)
end

-- Why the collectives of one group are exposed, as a clause; nil where no reason covers half of it.
local function reason(case, window, comm, compute, exposed, lost)
  local streams, shared = compute:distinct("stream"), 0
  if comm:has("stream") and compute:has("stream") then
    for stream, rows in comm:group("stream") do
      if streams:where { stream = stream }:count() > 0 then shared = shared + exposed:intersect(rows):sum("dur") end
    end
  end
  if shared >= 0.5 * lost then return "they run on a stream that computes, so they take turns with it" end

  -- One piece per step that the rest of the communication does not share.
  if window.steps > 0 and exposed:count() > 0 then
    local tail = exposed:top(window.steps, "dur"):sum("dur")
    if comm:covered() >= 2 * lost and tail >= 0.8 * lost then
      return "it is one piece per step, the last bucket, behind which nothing is left to compute"
    end
  end

  -- Asked for only after the compute before them had ended.
  local launched = comm:has("correlation") and comm:join(case.host_calls:select("rank", "correlation", "start")
                     :with { called = "start" }:select("rank", "correlation", "called"), { "rank", "correlation" })
  if launched and launched:count() > 0 then
    local free = compute:union():gaps()
    local late = launched:with { begin = "start", start = "called" }
    late = late:with { k = late:containing(free) }:where("k is not null")
    if late:count() > 0 and exposed:intersect(late:with { start = "begin" }):sum("dur") >= 0.5 * lost then
      return "the host called for them only after the compute before them had ended"
    end
  end
end

-- What communication is for, by its operation: a name, the symptom, and what it is called in a sentence.
local PURPOSES = {
  gradients = { symptom = "exposed-gradients",   said = "the reduction of gradients" },
  exchange  = { symptom = "exposed-all-to-all",  said = "all-to-all exchanges" },
  gathers   = { symptom = "exposed-gathers",     said = "gathering what is sharded over ranks" },
  transfers = { symptom = "exposed-send-recv",   said = "sends and receives between ranks" },
  unknown   = { symptom = "exposed-unspecified", said = "communication whose purpose the record does not tell" },
}

-- The operations of `calls` by their exposed time, the longest first: { op, lost }. What no call accounts for has no
-- op.
local function by_operation(calls, exposed, lost)
  local list, told = {}, 0
  for op, rows in calls:group("op") do
    local part = exposed:intersect(rows):sum("dur")
    if part > 0 then list[#list + 1] = { op = op, lost = part } end
    told = told + part
  end
  if told < lost then list[#list + 1] = { lost = lost - told } end
  table.sort(list, function(a, b) return a.lost > b.lost end)
  return list
end

-- Adds the time of `parts` to what it is for: the keys of PURPOSES.
local function add_purposes(total, parts, calls, trains)
  local gathers = calls:where { op = "all_gather" }:count() > 0
  for _, part in ipairs(parts) do
    local op  = part.op or "none"
    local key = "unknown"
    if op == "all_to_all" then key = "exchange"
    elseif op:glob("send|recv|send_recv") then key = "transfers"
    -- Reduced to shards: beside all-gathers the parameters are sharded too, else only the optimizer's state is.
    elseif op == "all_gather" or (op == "reduce_scatter" and gathers) then key = "gathers"
    elseif op:glob("all_reduce|reduce_scatter|reduce") and trains then key = "gradients" end
    total[key] = (total[key] or 0) + part.lost
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Collectives run while nothing is computed",
  needs    = { windows = { "dur" }, gpu_work = { "start", "stop", role = "communication" } },
  relies   = { "kernels", "whole-record" },
  symptoms = { "exposed-communication", "communication-blocking", "exposed-gradients", "exposed-all-to-all",
               "exposed-gathers", "exposed-send-recv", "exposed-unspecified" },
  options  = {
    min_share = { default = 0.10, doc = "Exposed share of the window worth reporting" },
    release   = { default = 20 * units.us, doc = "Compute that begins within this after a collective waited for it" },
  },

  run = function(case)
    local opt = case.options

    -- Of the exposed time of a rank what the transfers take once all ranks are there; all of it where one rank was
    -- profiled.
    local matched = case.matched_collectives:where("transfer is not null")
    local function own_part(window, lost)
      local inside = matched:where("start < ? and stop > ?", window.stop, window.start)
      local mine   = case.collectives:where { rank = window.rank }
                       :where("start < ? and stop > ?", window.stop, window.start)
      if inside:count() == 0 or mine:count() == 0 then return lost end
      -- Group by group, and of its messages only the rank's own: what other ranks send each other is not in `mine`.
      local waited = 0
      local function add(calls, transfers)
        transfers = transfers:where("op is null or (op != 'send' and op != 'recv') or first_rank == ? "
          .. "or last_rank == ?", window.rank, window.rank)
        if calls:count() == 0 or transfers:count() == 0 then return end
        local shared = calls:with { m = calls:containing(transfers) }:where("m is not null")
        waited = waited + math.max(0, shared:sum("dur") - transfers:sum("transfer"))
      end
      for name, calls in mine:group("group") do add(calls, inside:where { group = name }) end
      add(mine:where("group is null"), inside:where("group is null"))
      return math.min(lost, math.max(0, mine:sum("dur") - waited))
    end

    local least, least_blocking
    local found = {}
    for window in case.windows:where("dur > 0"):rows() do
      local here    = { rank = window.rank, device = window.device }
      local inside  = windows.work(case, window)
      local comm    = inside:where { role = "communication" }
      local compute = inside:where { role = "compute" }
      local exposed = comm:subtract(compute)
      local lost    = exposed:sum("dur")
      -- What overlap could hide them under: compute that no collective runs beside yet.
      local free    = compute:union():subtract(comm):sum("dur")
      local blocks  = lost
      if compute:count() > 0 then blocks = blocking_part(case, here, exposed, comm, compute, opt.release):sum("dur") end
      least          = math.min(least or lost, own_part(window, lost), free)
      least_blocking = math.min(least_blocking or blocks, blocks)
      if lost >= opt.min_share * window.dur then
        found[#found + 1] = { window = window, here = here, comm = comm, compute = compute, exposed = exposed,
                              lost = lost, blocks = blocks, free = free }
      end
    end

    local total = {}
    for _, f in ipairs(found) do
      local share  = f.lost / f.window.dur
      local groups = {}
      local calls  = case.collectives:where(f.here):where("start < ? and stop > ?", f.window.stop, f.window.start)
      for name, rows in calls:group("group") do
        local open = rows:subtract(f.compute)
        local held = blocking_part(case, f.here, open, rows, f.compute, opt.release):sum("dur")
        groups[#groups + 1] = { name = name, lost = open:sum("dur"), blocks = held }
      end
      table.sort(groups, function(a, b) return a.lost > b.lost end)
      local texts = {}
      for i, g in ipairs(groups) do
        if i <= 4 and #groups > 1 then
          texts[i] = ("group %s %s, blocking %s"):format(g.name, units.format(g.lost), units.format(g.blocks))
        end
      end
      local parts = by_operation(calls, f.exposed, f.lost)
      local split = {}
      for i, part in ipairs(parts) do
        if i <= 4 and part.lost >= 0.01 * f.lost then
          split[#split + 1] = (part.op or "not recorded") .. " " .. units.format(part.lost)
        end
      end
      local why     = reason(case, f.window, f.comm, f.compute, f.exposed, f.lost)
      local message = ("%s of %s of collectives on GPU %d are exposed, %s of the window: no compute kernel runs "
        .. "meanwhile; the next kernel waits for %s of it")
        :format(units.format(f.lost), units.format(f.comm:covered()), f.window.device, units.percent(share),
                units.format(f.blocks))
      if #texts > 0 then message = message .. " (" .. table.concat(texts, "; ") .. ")" end
      if why then message = message .. ": " .. why end
      if calls:count("op") > 0 then message = message .. "; by operation " .. table.concat(split, ", ") end
      if f.free < f.lost then
        message = message .. ("; overlap can hide %s of it at most, no more compute is free for that")
          :format(units.format(f.free))
      end
      report {
        symptom     = "exposed-communication",
        score       = math.min(1, 0.5 + share),
        share       = share,
        recoverable = math.floor(least),
        at          = f.here,
        message     = message,
        evidence    = { f.exposed:top(5, "dur"), f.comm:top(5, "dur") },
      }
      local trains  = case.ranges:where { rank = f.window.rank, category = "optimizer" }:count() > 0
        or case.host_ops:where { rank = f.window.rank }
             :where("match(name, '*Backward*|*backward op*|autograd::engine*')"):count() > 0
      add_purposes(total, parts, calls, trains)
      if f.blocks >= opt.min_share * f.window.dur then
        report {
          symptom     = "communication-blocking",
          score       = math.min(1, 0.5 + f.blocks / f.window.dur),
          share       = f.blocks / f.window.dur,
          recoverable = math.floor(math.min(least, least_blocking)),
          at          = f.here,
          message     = ("compute on GPU %d waits %s for collectives to end, %s of the window")
            :format(f.window.device, units.format(f.blocks), units.percent(f.blocks / f.window.dur)),
          evidence    = { f.exposed:top(5, "dur") },
        }
      end
    end

    -- One purpose for the whole job, or each rank would name its own.
    local most
    for key, ns in pairs(total) do
      if not most or ns > total[most] then most = key end
    end
    if most then
      table.sort(found, function(a, b) return a.lost > b.lost end)
      local f = found[1]
      report {
        symptom  = PURPOSES[most].symptom,
        severity = "info",
        score    = math.min(1, 0.5 + f.lost / f.window.dur),
        at       = f.here,
        message  = ("most of the exposed time%s is %s"):format(#found > 1 and ", all ranks together," or
                     " on GPU " .. f.window.device, PURPOSES[most].said),
        evidence = { f.exposed:top(5, "dur") },
      }
    end
  end,
}
