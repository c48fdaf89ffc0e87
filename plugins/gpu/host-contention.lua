--- ## What it detects
--- Time in which a device waits for its next launch while the launching thread is runnable: it wants a CPU and has
--- none. Only that state counts. A thread that sleeps or waits of its own accord is switched out just as often and
--- loses nothing to anybody.
---
--- ## Why it matters
--- A preempted launching thread looks like slow Python or slow launches from the device's side; optimising either wins
--- nothing. The cure is outside of the program: CPUs, thread counts, neighbours.
---
--- ## How to confirm
--- Give the process CPUs of its own (`taskset`, a cpuset) with as many threads as CPUs: the waits vanish. If the thread
--- was not runnable but blocked, they stay.
---
--- ## Known false positives
--- A tracer that samples the scheduler coarsely stretches states; pieces below 50 us are left out.
---
--- ## References
--- Scheduler states: `nsys profile --cpuctxsw=process-tree`

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The launching thread waits for a CPU while the device waits for it",
  needs    = { windows = { "dur" }, host_calls = { "start", "correlation" },
    thread_states = { "start", "stop", "state", "tid" } },
  relies   = { "launches" },
  symptoms = { "launch-thread-preempted", "process-threads-exceed-cpus" },
  options  = {
    min_share = { default = 0.02, doc = "Share of the window lost to preemption worth reporting" },
    min_piece = { default = 50 * units.us, doc = "Shortest time without a CPU that counts, in ns" },
    full      = { default = 0.95,
                  doc = "CPU time wanted, as a share of what the CPUs have, from which on they are too few" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for window in case.windows:where("dur > 0"):rows() do
      local here = { rank = window.rank, device = window.device }
      local idle = case.gaps:where(here):where("state == 'starved' or state == 'launching'")
      ---@type integer, integer, culprit.Table?, integer?, integer, boolean
      local lost, starved, pieces, who, blocked, covers = 0, 0, nil, nil, 0, false
      for tid, waits in idle:group("tid") do
        local states = case.thread_states:where { rank = window.rank, tid = tid }
        if states:count() > 0 then
          covers = true
          local late = waits:where { state = "starved" }
          -- After the launch call has returned the thread has no more part in the gap.
          local calls = case.host_calls:where { rank = window.rank, tid = tid, role = "launch" }
          local slow  = waits:where { state = "launching" }:intersect(calls)
          local wants = states:where("state == 'runnable' and dur >= ?", opt.min_piece)
          local here_lost = late:intersect(wants):concat(slow:intersect(wants))
          local took = here_lost:covered()
          starved = starved + late:sum("dur") + slow:covered()
          lost    = lost + took
          blocked = blocked + late:intersect(states:where { state = "blocked" }):sum("dur")
          if took > 0 and (not pieces or took > pieces:covered()) then
            pieces, who = here_lost, tid
          end
        end
      end
      if covers then
        judged = true
        local share = lost / window.dur
        if share >= opt.min_share then
          local all   = case.thread_states:where { rank = window.rank }
          local wants = all:where { tid = who, state = "runnable" }:where("dur >= ?", opt.min_piece)
          local then_ = all:with { hit = all:overlap(pieces) }:where("hit > 0 and (state == 'runnable' or state == "
            .. "'running')")
          local cpus  = wants:where("cpu is not null"):aggregate({ "cpu" }, { n = "count" }):sort("cpu")
          local names = {}
          for row in cpus:slice(0, 8):rows() do names[#names + 1] = ("%d"):format(row.cpu) end
          local rivals = then_:aggregate({ "tid" }, { n = "count" }):where("tid != ?", who):count()
          report {
            symptom     = "launch-thread-preempted",
            score       = math.min(1, 0.7 + 2 * share),
            share       = share,
            recoverable = lost,
            at          = here,
            message     = ("GPU %d waits %s of %s (%s) while its launching thread %d wants a CPU and has none: %s of "
              .. "the time it waits for the host, in %d pieces, the longest %s%s; %d other threads of the process run "
              .. "or want to run at those times. Asleep of its own accord it was for %s, which is not "
              .. "counted"):format(window.device,
              units.format(lost), units.format(window.dur), units.percent(share), who, units.percent(lost / starved),
              pieces:count(), units.format(pieces:max("dur")),
              #names > 0 and (", on CPU " .. table.concat(names, ", ")) or "", rivals, units.format(blocked)),
            evidence    = { wants:top(5, "dur"), pieces:top(5, "dur"):renamed("waits without a CPU") },
          }
          -- Demand against supply: who else wants CPUs is known for the own process only.
          local span   = all:where("start < ? and stop > ?", window.stop, window.start)
          local active = span:where("state == 'running' or state == 'runnable'")
          local used   = span:where("state == 'running' and cpu is not null"):aggregate({ "cpu" }, { n = "count" })
            :count()
          local inside = 0
          for _, states in active:group("tid") do
            inside = inside + case.windows:where(here):intersect(states):sum("dur")
          end
          if used > 0 and inside >= opt.full * used * window.dur and rivals > 0 then
            report {
              symptom  = "process-threads-exceed-cpus",
              score    = 0.85,
              at       = here,
              message  = ("the threads of the process want %.1f CPUs over %s and only ever run on %d: they take CPUs "
                .. "from each other; with CPUs to spare it would be other programs"):format(inside / window.dur,
                units.format(window.dur), used),
              evidence = { active:aggregate({ "tid" }, { wanted = "sum dur" }):top(5, "wanted")
                :renamed("CPU time wanted") },
            }
          end
        end
      end
    end
    if not judged then
      skip("scheduler states of the launching thread: nsys profile --cpuctxsw=process-tree")
    end
  end,
}
