--- ## What it detects
--- Code that is still compiled in the second half of a log, counted by what the program itself prints: recompiles of
--- functions, and functions that are compiled for the first time.
---
--- ## Why it matters
--- Compiling is set-up. Where it goes on, something it was specialised on keeps changing, or a function is made anew in
--- each call; seconds are spent for each new version, for as long as the run lasts.
---
--- ## How to confirm
--- Run 50 steps on one repeated batch. Compilation must stop; if it goes on, the function is made anew.
---
--- ## Known false positives
--- A first validation or a new phase late in the log: one function that is compiled once is not reported.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Code is still compiled late in the log",
  needs    = { compilations = { "place", "source", kind = { "recompile", "compile" } }, log_lines = { "text" } },
  symptoms = { "compile-in-steady-state" },
  options  = {
    min_late  = { default = 3,  doc = "Compilations of one function in the second half worth reporting" },
    min_lines = { default = 20, doc = "Lines of the program itself that are needed to tell a warm-up" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for source, of in case.compilations:where("kind == 'recompile' or kind == 'compile'"):group("source") do
      -- The compiler prints dozens of lines a version: how far the program got is told by its own.
      local own   = case.log_lines:where { source = source }
        :where("not contains(text, 'torch/_') and not contains(text, 'torch._')")
      local total = own:count()
      if total >= opt.min_lines then
        judged = true
        local half = own:row(total // 2).line
        local late = of:where("place > ? and function is not null", half)
        -- Where recompiles are logged, steps of compilations tell the same again.
        if late:where { kind = "recompile" }:count() > 0 then late = late:where { kind = "recompile" } end
        local counts = late:aggregate({ "function" }, { n = "count" })
        local worst  = counts:top(1, "n"):first()
        if worst and worst.n >= opt.min_late then
          local rows    = late:where { ["function"] = worst["function"] }
          local first   = rows:first()
          local seconds = rows:sum("seconds")
          local guard   = rows:where("reason is not null"):last()
          report {
            symptom  = "compile-in-steady-state",
            score    = math.min(0.9, 0.6 + 0.03 * worst.n),
            severity = "warning",
            at       = { source = source, line = first.place, rank = first.rank, name = worst["function"] },
            message  = ("%s is compiled %s in the second half of the log, from line %d on%s%s"):format(
              worst["function"], units.plural(worst.n, "time"), first.place,
              seconds > 0 and (", for %s"):format(units.format(math.floor(seconds * 1e9))) or "",
              guard and (", the last time for `%s`"):format(guard.reason:split(" # ")[1]:trim():sub(1, 120)) or ""),
            evidence = { rows:slice(0, 8) },
          }
        end
      end
    end
    if not judged then
      skip(("a log in which the program prints %d lines of its own beside the compiler's"):format(opt.min_lines))
    end
  end,
}
