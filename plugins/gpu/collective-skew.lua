--- ## What it detects
--- Over the profiles of several ranks: which rank enters the shared collectives last, and whether it is late because its step
--- began late or because it needed longer from the step's begin to the collective.
---
--- ## Why it matters
--- Everybody waits in a collective for the last one. A rank that starts late and a rank that is slow need opposite remedies,
--- and the table of collective times shows both as "the others are slow".
---
--- ## How to confirm
--- Put a barrier before the step: if the lateness vanishes from the first collective and appears in the barrier, it is skew.
---
--- ## Known false positives
--- Clocks of different hosts that are not synchronised. The skew is then constant over steps.
---
--- ## References
--- HTA and TraceLens name the rank; the published DLRM sample of eight ranks is start skew by both of our measures.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One rank enters the collectives last and the others wait for it",
  needs    = { collectives = { "start", "stop", "seq", "rank" } },
  symptoms = { "collective-start-skew", "collective-straggler" },
  options  = {
    min_wait  = { default = 0.05, doc = "Share of a step that the others wait worth reporting" },
    min_share = { default = 0.50, doc = "Part of the lateness that one explanation must cover" },
  },

  run = function(case)
    local opt   = case.options
    local all   = case.collectives:where("start is not null and stop is not null")
    local ranks = all:distinct("rank"):count()
    if ranks < 2 then
      return skip("the profiles of at least two ranks of the same steps")
    end

    -- Who enters each collective last, and by how much. Traces without the names of groups have one.
    if not all:has("group") then all = all:with { group = "'world'" } end
    local last, matched = {}, 0
    local waited, entries = {}, {}
    for _, _, _, calls in all:group("op", "group", "seq") do
      if calls:distinct("rank"):count() == ranks then
        matched = matched + 1
        local late = calls:top(1, "start"):first()
        last[late.rank] = (last[late.rank] or 0) + 1
        for call in calls:rows() do
          waited[call.rank]  = (waited[call.rank] or 0) + math.max(0, math.min(late.start, call.stop) - call.start)
          entries[call.rank] = math.min(entries[call.rank] or call.start, call.start)
        end
      end
    end
    if matched == 0 then
      return skip("collectives that every recorded rank took part in")
    end

    local who, times = nil, 0
    for rank, count in pairs(last) do
      if count > times or (count == times and rank < who) then who, times = rank, count end
    end
    local others, sum = 0, 0
    for rank, wait in pairs(waited) do
      if rank ~= who then others, sum = others + 1, sum + wait end
    end
    local mean  = sum / others
    local steps = case.steps:where { rank = who }
    local span  = steps:count() > 0 and steps:sum("dur") or all:where { rank = who }:span()
    if mean < opt.min_wait * span then return end

    -- Its lateness at the first shared collective, and what of it the step's begin explains.
    local earliest
    for _, entry in pairs(entries) do earliest = math.min(earliest or entry, entry) end
    local lateness = entries[who] - earliest
    local began, first_begin = nil, nil
    for step in case.steps:sort("start"):rows() do
      first_begin = math.min(first_begin or step.start, step.start)
      if step.rank == who and not began then began = step.start end
    end
    local skew = began and began - first_begin or 0
    local rows = all:where { rank = who }
    if began and lateness > 0 and skew >= opt.min_share * lateness then
      report {
        symptom     = "collective-start-skew",
        score       = math.min(1, 0.7 + mean / span),
        share       = mean / span,
        recoverable = skew,
        at          = { rank = who },
        message     = ("rank %d begins its step %s after the earliest rank and enters %d of %d collectives last; the others wait %s in the mean. From step begin to first collective it needs %s like the others: start skew, not slowness")
          :format(who, units.format(skew), times, matched, units.format(mean), units.format(entries[who] - began)),
        evidence    = { rows:slice(0, 8), case.steps:sort("start") },
      }
    else
      report {
        symptom     = "collective-straggler",
        score       = math.min(1, 0.6 + mean / span),
        share       = mean / span,
        recoverable = math.floor(mean),
        at          = { rank = who },
        message     = ("rank %d enters %d of %d collectives last, %s after the first; the others wait %s in the mean, and a late step begin explains %s of it")
          :format(who, times, matched, units.format(lateness), units.format(mean), units.format(skew)),
        evidence    = { rows:slice(0, 8) },
      }
    end
  end,
}
