--- ## What it detects
--- Ranks of one job that compile differently: one function compiled a different number of times on one rank than on the
--- others, and graphs that some ranks find in their cache while others compile them.
---
--- ## Why it matters
--- While one rank compiles, all others wait in the next collective, for seconds to minutes, and die if it takes longer
--- than their timeout. Ranks that run other kernels, or another order of collectives, differ in their numbers or hang.
---
--- ## How to confirm
--- Give all ranks the same shapes (pad, or drop the last batch), and one warm cache or none: the difference must go.
---
--- ## Known false positives
--- Logs of compilation that were turned on for some ranks only: ranks that log nothing of it do not count.
---
--- ## References
--- https://github.com/pytorch/pytorch/pull/155558, https://github.com/karpathy/nanochat/pull/722

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Ranks compile differently",
  needs    = { compilations = { "rank", "kind" } },
  symptoms = { "compile-differs-between-ranks", "compile-cache-differs" },
  options  = {
    min_difference = { default = 3,   doc = "Compilations of one function by which ranks must differ" },
    ratio          = { default = 2,   doc = "Times as many as on another rank" },
  },

  run = function(case)
    local opt    = case.options
    local rows   = case.compilations:where("rank is not null")
    local counts = rows:aggregate({ "rank" }, { n = "count" })
    if counts:count() < 2 then
      skip("logs of compilation of two ranks: set TORCH_LOGS=recompiles for all of them")
      return
    end
    local worst
    for fn, of in rows:where("kind == 'recompile' or (kind == 'compile' and function is not null)"):group("function") do
      -- Recompiles and steps tell one thing twice where both are logged.
      for kind, mine in of:group("kind") do
        local per  = counts:select("rank"):join(mine:aggregate({ "rank" }, { times = "count", first = "first place",
          source = "first source" }), { "rank" }, "left")
        local most = per:top(1, "times"):first()
        local none = per:where("times is null")
        local low  = none:count() > 0 and 0 or per:min("times")
        local at   = none:count() > 0 and none:first() or per:where("times == ?", low):first()
        if most and most.times - low >= opt.min_difference and most.times >= opt.ratio * low
          and (not worst or most.times - low > worst.by) then
          worst = { by = most.times - low, fn = fn, kind = kind, most = most, low = low, at = at,
                    rows = mine:where { rank = most.rank } }
        end
      end
    end
    if worst then
      local first = worst.rows:first()
      local guard = worst.rows:where("reason is not null"):last()
      report {
        symptom  = "compile-differs-between-ranks",
        score    = 0.8,
        severity = "warning",
        at       = { source = first.source, line = first.place, rank = worst.most.rank, name = worst.fn },
        message  = ("rank %d %s %s %s and rank %d %s of %d ranks: while one compiles the others wait%s"):format(
          worst.most.rank, worst.kind == "recompile" and "compiles again" or "compiles", worst.fn,
          units.plural(worst.most.times, "time"), worst.at.rank, units.plural(worst.low, "time"), counts:count(),
          guard and (", the last time for `%s`"):format(guard.reason:split(" # ")[1]:trim():sub(1, 120)) or ""),
        evidence = { worst.rows:slice(0, 8) },
      }
    end

    -- Keys of one graph differ from rank to rank, for they hold the device; whether it was found does not.
    local looked = rows:where("kind == 'cache-hit' or kind == 'cache-miss'")
    local hits, misses = {}, {}
    for rank, mine in looked:group("rank") do
      local missed = mine:where { kind = "cache-miss" }:count()
      local list   = missed == 0 and hits or missed == mine:count() and misses or nil
      if list then list[#list + 1] = rank end
    end
    if #hits > 0 and #misses > 0 then
      local missed = looked:where { kind = "cache-miss" }
      report {
        symptom  = "compile-cache-differs",
        score    = 0.7,
        severity = "warning",
        at       = { source = missed:first().source, line = missed:first().place, rank = missed:first().rank },
        message  = ("%s all graphs in the cache (first rank %d) and %s none (first rank %d): those compile while the "
          .. "others wait, and may choose other kernels"):format(units.plural(#hits, "rank finds", "ranks find"),
          hits[1], units.plural(#misses, "rank"), misses[1]),
        evidence = { looked:distinct("rank", "kind"):slice(0, 16) },
      }
    end
  end,
}
