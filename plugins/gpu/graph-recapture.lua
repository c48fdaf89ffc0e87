--- ## What it detects
--- Steps after the first ones that capture or instantiate CUDA graphs, and what share of those steps it takes.
---
--- ## Why it matters
--- A graph is captured once and replayed thousands of times. A capture costs the launches of the whole graph and then
--- milliseconds of instantiation, with the device idle. If it comes back, the graph does not fit what it is asked to
--- replay: a new shape, a new address, a cache too small.
---
--- ## How to confirm
--- Count distinct input shapes over the captures (`TORCH_LOGS=cudagraphs`): with the shapes padded to fixed buckets
--- captures end.
---
--- ## Known false positives
--- Warm-up spread over several steps: captures that end within the first half of the record are left out.
---
--- ## References
--- https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs

---@type culprit.Detector
return {
  api      = 1,
  summary  = "CUDA graphs are captured again in steady state",
  needs    = { steps = { "start", "stop" }, host_calls = { "name", "start", "stop" } },
  relies   = { "launches", "host-times" },
  symptoms = { "graph-capture-in-steady-state" },
  options  = {
    min_share = { default = 0.01, doc = "Share of the steps after the first worth reporting" },
    min_steps = { default = 4,    doc = "Recorded steps below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for rank, all in case.steps:group("rank") do
      local n = all:count()
      if n >= opt.min_steps then
        judged = true
        local ordered = all:sort("start")
        local steps   = ordered:slice(1, n - 1)
        local half    = steps:row((n - 1) // 2).start
        local calls   = case.host_calls:where { rank = rank }
          :where("match(name, '*StreamBeginCapture*|*StreamEndCapture*|*GraphInstantiate*')"):sort("start")
        -- A capture lasts from the call that begins it to the return of the one that ends it, on the same thread.
        local spans = calls:where("match(name, '*GraphInstantiate*')"):select("start", "stop", "dur")
        local begun = calls:where("match(name, '*BeginCapture*')")
        local ended = calls:where("match(name, '*EndCapture*')")
        for tid, begins in begun:group("tid") do
          local ends = ended:where { tid = tid }
          if ends:count() == begins:count() then
            local pairs_ = begins:with { stop = ends:col("stop") }:with { dur = "stop - start" }
            spans = spans:concat(pairs_:where("dur >= 0"):select("start", "stop", "dur"))
          else
            spans = spans:concat(begins:concat(ends):select("start", "stop", "dur"))
          end
        end
        local hit  = steps:with { lost = steps:overlap(spans) }:where("lost > 0")
        local late = hit:where("start >= ?", half)
        local lost, span = hit:sum("lost"), steps:sum("dur")
        if hit:count() >= 2 and late:count() >= 1 and lost >= opt.min_share * span then
          local first = ordered:slice(0, 1)
          local idle  = case.gaps:where { rank = rank }:where("state == 'starved'"):intersect(steps:intersect(spans))
            :sum("dur")
          local inst  = calls:where("match(name, '*GraphInstantiate*')"):where("start >= ?", steps:first().start)
          report {
            symptom     = "graph-capture-in-steady-state",
            score       = math.min(1, 0.75 + lost / span),
            share       = lost / span,
            recoverable = idle,
            at          = { rank = rank, step = hit:first().step },
            message     = ("%d of %d steps after the first capture or instantiate CUDA graphs: %s, %s of those steps; "
              .. "%d instantiations, the longest %s, and the device had nothing to do for %s of it. The first step "
              .. "spent %s so; captures that end with the warm-up would be none in the second half, it has %d such "
              .. "steps"):format(
              hit:count(), n - 1, units.format(lost), units.percent(lost / span), inst:count(),
              units.format(inst:max("dur") or 0), units.format(idle), units.format(first:overlap(spans):sum()),
              late:count()),
            evidence    = { inst:top(5, "dur"), hit:top(5, "lost") },
          }
        end
      end
    end
    if not judged then skip(("at least %d steps: record more of them"):format(opt.min_steps)) end
  end,
}
