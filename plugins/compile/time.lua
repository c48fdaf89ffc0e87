--- ## What it detects
--- How long compiling takes by the logs of torch.compile or of vLLM: of which functions, and how much of it was found
--- in a cache.
---
--- ## Why it matters
--- Minutes of compilation at every start add up over restarts, and a job whose ranks compile for longer than the
--- timeout of their collectives dies before its first step.
---
--- ## How to confirm
--- Start twice on one machine: the second start must find the graphs in the cache.
---
--- ## Known false positives
--- None known: it is information.
---
--- ## References
--- https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Compiling takes minutes",
  needs    = { compilations = { kind = "compile", "seconds" } },
  symptoms = { "compile-time-long" },
  options  = {
    min_seconds = { default = 120, doc = "Seconds of compilation of one process worth reporting" },
    shown       = { default = 3,   doc = "Functions named in the message" },
  },

  run = function(case)
    local opt   = case.options
    local times = case.compilations:where("kind == 'compile' and seconds is not null")
    -- Processes compile side by side; the slowest is waited for.
    local worst, total
    for source, of in times:group("source") do
      local ranked = of:where("rank is not null")
      if ranked:count() == of:count() then
        for rank, mine in of:group("rank") do
          local sum = mine:sum("seconds")
          if not total or sum > total then worst, total = { rows = mine, source = source, rank = rank }, sum end
        end
      else
        local sum = of:sum("seconds")
        if not total or sum > total then worst, total = { rows = of, source = source }, sum end
      end
    end
    if not total or total < opt.min_seconds then return end
    local longest, named = worst.rows:top(opt.shown, "seconds"), {}
    for row in longest:rows() do
      named[#named + 1] = ("%s %s"):format(row["function"] or row.reason or "a graph",
        units.format(math.floor(row.seconds * 1e9)))
    end
    local hits   = case.compilations:where { kind = "cache-hit", source = worst.source }:count()
    local misses = case.compilations:where { kind = "cache-miss", source = worst.source }:count()
    report {
      symptom  = "compile-time-long",
      score    = 0.6,
      severity = "info",
      at       = { source = worst.source, line = longest:first().place, rank = worst.rank },
      message  = ("compiling takes %s%s in %s, most in %s%s"):format(units.format(math.floor(total * 1e9)),
        worst.rank and (" on rank %d"):format(worst.rank) or "", units.plural(worst.rows:count(), "compilation"),
        table.concat(named, ", "), hits + misses > 0 and ("; the cache had %d of %s"):format(hits,
          units.plural(hits + misses, "graph")) or ""),
      evidence = { longest },
    }
  end,
}
