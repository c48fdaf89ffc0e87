--- ## What it detects
--- Over the profiles of several ranks: the rank that enters the collectives of its group last, and why. It is named if
--- it is last in at least half of the matched collectives, if chance would do that to any of the ranks less than once
--- in a hundred, and if the others lose a notable share of the step to it. The time between leaving one collective and
--- entering the next is then compared with the median of its peers, term by term: late step begin, waiting for input,
--- launching and host code, compute, copies, and communication with other groups. The term that covers half of the
--- lateness is reported beside it as a symptom of its own: a slow loader and a slow device look alike in a collective.
---
--- ## Why it matters
--- Everybody waits in a collective for the last one. A rank that starts late, one that is slow and one that is itself
--- held up by a third need different remedies, and a table of collective times shows all three as "the others are
--- slow".
---
--- ## How to confirm
--- Put a barrier before the step: if the lateness vanishes from the first collective and appears in the barrier, it is
--- skew. Swap the rank with a healthy host: if the lateness stays with the host it is the machine, else the work given
--- to the rank.
---
--- ## Known false positives
--- A rank that is always last by microseconds: it needs a share of the step too (`min_wait`). Pipeline stages are late
--- by design; sends and receives are therefore left out, see `gpu/pipeline-bubble`. A rank that only passes on the
--- lateness of another group is not named as the cause.
---
--- ## References
--- HTA and TraceLens name the rank only; the published DLRM sample of eight ranks is start skew by both of our
--- measures. Clocks are aligned by the ends of collectives, never by their begins, so start skew survives.

local statistics = require("statistics")
local windows = require("windows")

local function tail_probability(n, k, p)
  -- P(X >= k) for a binomial X: who of 1/p ranks is last by chance.
  local log_term = 0
  for i = 1, k do log_term = log_term + math.log((n - k + i) / i) end
  log_term = log_term + k * math.log(p) + (n - k) * math.log(1 - p)
  local sum, term = 0, math.exp(log_term)
  for i = k, n do
    sum  = sum + term
    term = term * (n - i) / (i + 1) * p / (1 - p)
    if term < 1e-12 * sum then break end
  end
  return math.min(1, sum)
end

local function pairs_of(table_) return table_:select("start", "stop") end

local TERMS = {
  { key = "skew",    text = "step begin" },
  { key = "input",   text = "input" },
  { key = "host",    text = "launching and host code" },
  { key = "compute", text = "compute" },
  { key = "copy",    text = "copies" },
  { key = "comm",    text = "communication of other groups" },
}

-- What `rank` did between leaving one collective of `matched` and entering the next, over those that `who` entered
-- last.
local function spent(case, matched, own, others, rank, who, origin)
  own = own:with { m = own:containing(matched) }:where("m is not null"):select("start", "m")
  local entered = own:join(matched:select("m", "left", "last_rank"), { "m" }):where { last_rank = who }
  local first   = entered:where("left is null and start > ?", origin):with { stop = "start", left = origin }
  local later   = entered:where("left is not null and start > left"):with { stop = "start" }
  local before  = first:with { start = "left" }:select("start", "stop")
                    :concat(later:with { start = "left" }:select("start", "stop"))
  local t = { total = before:covered() }

  local begun = case.steps:where { rank = rank }
  begun = begun:with { k = begun:containing(before) }:where("k is not null"):select("start", "k")
            :join(before:with { k = before:containing(before) }, { "k" }):with { stop = "start", start = "start_right" }
  t.skew = begun:covered()
  local inside  = begun:count() > 0 and before:subtract(begun) or before
  local work    = case.gpu_work:where { rank = rank }
  local compute = work:where { role = "compute" }
  t.compute = inside:intersect(compute):sum("dur")
  t.kernels = compute:with { k = compute:containing(inside) }:where("k is not null")
  local rest   = inside:subtract(compute)
  local copies = work:where("role == 'copy' or role == 'set'")
  t.copy = rest:intersect(copies):sum("dur")
  rest   = rest:subtract(copies)
  t.comm = rest:intersect(others):sum("dur")
  rest   = rest:subtract(others)
  local input = pairs_of(case.ranges:where { rank = rank, category = "dataloader" })
                  :concat(pairs_of(case.gaps:where { rank = rank, host = "input" }))
  t.input = rest:intersect(input):sum("dur")
  t.host  = rest:covered() - t.input
  return t
end

-- Whether the longer compute of a rank is more work: more kernels, or larger ones. Kernels that take longer at the
-- same count and grid are a slower device.
local function more_work(mine, peers)
  local function volume(kernels)
    local blocks = kernels:with { blocks = "product(grid)" }
    return kernels:count(), blocks:count("blocks") == blocks:count() and blocks:sum("blocks") or 0, kernels:sum("dur")
  end
  local count, blocks, dur = volume(mine)
  local counts, all_blocks, durs = {}, {}, {}
  for _, kernels in ipairs(peers) do
    local c, b, d = volume(kernels)
    counts[#counts + 1], all_blocks[#all_blocks + 1], durs[#durs + 1] = c, b, d
  end
  local function excess(value, of) local m = statistics.median(of) or 0  return m > 0 and value / m - 1 or 0 end
  local longer = excess(dur, durs)
  return longer > 0 and math.max(excess(count, counts), excess(blocks, all_blocks)) >= 0.5 * longer
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One rank enters the collectives last and the others wait for it",
  needs    = { collectives = { "start", "stop", "rank" } },
  relies   = { "whole-record", "clocks" },
  symptoms = {
    "collective-start-skew", "collective-straggler", "collective-straggler-work", "collective-late-upstream",
    "straggler-waits-for-input", "straggler-host-late", "straggler-computes-slower", "straggler-copies-longer",
  },
  options  = {
    min_wait  = { default = 0.05, doc = "Share of a step that the others wait worth reporting" },
    min_last  = { default = 0.50, doc = "Share of the collectives that the rank enters last" },
    max_p     = { default = 0.01, doc = "Probability by chance below which it counts" },
    min_share = { default = 0.50, doc = "Part of the lateness that one explanation must cover" },
    max_peers = { default = 16, doc = "Peers that the rank is compared with" },
  },

  run = function(case)
    local opt   = case.options
    local timed = case.collectives:where("start is not null and stop is not null")
    if timed:distinct("rank"):count() < 2 then
      return skip("the profiles of at least two ranks of the same steps")
    end
    local all = case.matched_collectives:where("start is not null and (op is null or (op != 'send' and op != 'recv'))")
    if all:count() == 0 then
      return skip("collectives that two of the recorded ranks share: profile ranks of one process group together")
    end

    -- Traces without the names of groups have one.
    local groups, unnamed = {}, all:where("group is null")
    for name, rows in all:group("group") do
      groups[#groups + 1] = { name = "group " .. name, matched = rows, own = timed:where { group = name },
                              others = timed:where("group is null or group != ?", name) }
    end
    if unnamed:count() > 0 then
      groups[#groups + 1] = { name = "the job", matched = unnamed, own = timed:where("group is null"),
                              others = timed:where("group is not null") }
    end

    local found = {}
    for _, g in ipairs(groups) do
      local total = g.matched:count()
      local lasts = g.matched:aggregate({ "last_rank" }, { n = "count", lost = "sum waited", late = "sum lateness" })
      local worst = lasts:top(1, "n"):first()
      local ranks = g.matched:median("ranks")
      local steps = case.steps:where { rank = worst.last_rank }
      local span  = steps:count() > 0 and steps:sum("dur") or g.matched:span()
      -- The worst of all ranks was picked, so any of them could have been it by chance.
      local p     = math.min(1, ranks * tail_probability(total, worst.n, 1 / ranks))
      if worst.n >= opt.min_last * total and p < opt.max_p and worst.lost >= opt.min_wait * span
        and worst.lost >= 0.5 * lasts:sum("lost") then
        found[#found + 1] = { group = g, who = worst.last_rank, times = worst.n, of = total, p = p, lost = worst.lost,
                              span = span }
      end
    end

    -- Why: each one against the median of its peers.
    for _, f in ipairs(found) do
      local g       = f.group
      local matched = g.matched:sort("start")
      local stops   = matched:col("stop")
      matched = matched:with { left = stops - stops:diff() }
      matched = matched:with { m = matched:containing(matched) }
      local peers, totals = {}, {}
      for rank in g.own:group("rank") do
        if rank ~= f.who and #peers < opt.max_peers then peers[#peers + 1] = rank end
      end
      local begins = case.steps:where { rank = f.who }
      local origin = begins:min("start")
      for _, rank in ipairs(peers) do
        local begin = case.steps:where { rank = rank }:min("start")
        origin = origin and begin and math.min(origin, begin)
      end
      -- Without steps nothing says since when the ranks were under way to the first collective.
      origin = origin or math.maxinteger
      local function terms(rank)
        return spent(case, matched, g.own:where { rank = rank }, g.others:where { rank = rank }, rank, f.who, origin)
      end
      f.mine, f.peers = terms(f.who), {}
      for i, rank in ipairs(peers) do f.peers[i] = terms(rank) end
      local function excess(key)
        local values = {}
        for i, t in ipairs(f.peers) do values[i] = t[key] end
        return math.floor(f.mine[key] - (statistics.median(values) or 0))
      end
      f.total, f.terms = excess("total"), {}
      local texts = {}
      for i, term in ipairs(TERMS) do
        f.terms[term.key] = excess(term.key)
        texts[i] = ("%s %s%s"):format(term.text, f.terms[term.key] < 0 and "-" or "+",
                                      units.format(math.abs(f.terms[term.key])))
        if not f.why or f.terms[term.key] > f.terms[f.why] then f.why = term.key end
      end
      f.text = table.concat(texts, ", ")
      if f.total <= 0 or f.terms[f.why] < opt.min_share * f.total then f.why = nil end
    end

    -- Without marks of the input, waiting for it is taken for host code.
    if #found > 0 and case.ranges:where { category = "dataloader" }:count() == 0
      and case.gaps:where { host = "input" }:count() == 0 then
      skip("ranges of the data loader: profile with the CPU activity on, or mark next(batches)",
        "straggler-waits-for-input")
    end

    -- A rank that only passes lateness on is not where it comes from. One that is late in several groups is told once.
    local initiators, told = 0, {}
    for _, f in ipairs(found) do if f.why ~= "comm" then initiators = initiators + 1 end end
    table.sort(found, function(a, b) return a.lost > b.lost end)
    for _, f in ipairs(found) do
      local upstream = f.why == "comm"
      if not told[f.who] and not (upstream and initiators > 0) then
        told[f.who] = true
        local head = ("rank %d enters %d of %d collectives of %s last (p %s); the others wait %s for it, %s of its "
          .. "steps. Against the median of its peers it needs %s more up to these collectives: %s")
          :format(f.who, f.times, f.of, f.group.name, f.p < 1e-6 and "< 1e-6" or "= " .. units.number(f.p, 2),
                  units.format(f.lost),
                  units.percent(f.lost / f.span), units.format(math.max(0, f.total)), f.text)
        local symptom, verdict, reason, said = "collective-straggler", "no single reason covers half of it", nil, nil
        if f.why == "skew" then
          symptom, verdict = "collective-start-skew", "start skew, not slowness"
        elseif upstream then
          symptom, verdict = "collective-late-upstream", "it is held up by another group; profile the ranks of that one"
        elseif f.why == "compute" then
          local kernels = {}
          for i, t in ipairs(f.peers) do kernels[i] = t.kernels end
          if more_work(f.mine.kernels, kernels) then
            symptom, verdict = "collective-straggler-work", "it computes more, not slower"
          else
            verdict      = "the same compute takes it longer"
            reason, said = "straggler-computes-slower", "computes the same %s longer than the median of its peers"
          end
        elseif f.why == "input" then
          verdict      = "its input pipeline is slower"
          reason, said = "straggler-waits-for-input", "waits %s longer for input than the median of its peers"
        elseif f.why == "host" then
          verdict      = "its host launches later"
          reason, said = "straggler-host-late", "spends %s more on launching and host code than the median of its peers"
        elseif f.why == "copy" then
          verdict      = "its copies take longer"
          reason, said = "straggler-copies-longer", "copies for %s longer than the median of its peers"
        end
        -- What the others wait for it in the steps that are priced, but no more than the part that is explained.
        local late = f.group.matched:where { last_rank = f.who }
        local won  = windows.ended_within(case, late):sum("waited")
          * (f.why and math.min(1, f.terms[f.why] / f.lost) or 1)
        local function tell(id, message)
          report {
            symptom     = id,
            severity    = upstream and "info" or "error",
            score       = math.min(1, 0.7 + f.lost / f.span),
            share       = f.lost / f.span,
            recoverable = not upstream and math.floor(won) or nil,
            at          = { rank = f.who },
            message     = message,
            evidence    = { late:top(8, "waited"), case.steps:sort("start"):slice(0, 16) },
          }
        end
        tell(symptom, head .. ": " .. verdict)
        if reason then
          tell(reason, ("rank %d %s before it enters the collectives of %s; the others wait %s for it")
            :format(f.who, said:format(units.format(f.terms[f.why])), f.group.name, units.format(f.lost)))
        end
      end
    end
  end,
}
