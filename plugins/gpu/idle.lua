--- ## What it detects
--- The share of the steady steps in which a device runs nothing, taken apart by what the next piece of work was
--- waiting for: a launch that came late (the host's time), the launch itself, or other work it had to queue behind.
---
--- ## Why it matters
--- Idle time is the ceiling of every speed-up that does not touch a kernel. Which part dominates says where to look:
--- late launches point at the host, queued work at streams and dependencies.
---
--- ## How to confirm
--- `culprit inspect` prints the decomposition per device; open the longest gap of the evidence in a trace viewer.
---
--- ## Known false positives
--- A profile of warm-up only. Record at least four steps: the first and the last are then left out.
---
--- ## References
--- NVIDIA's nsys recipes `gpu_gaps` and `gpu_time_util` use 500 ms gaps, longer than most training steps.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A device idles for a large share of the steady steps",
  needs    = { windows = { "dur", "busy" }, gpu_work = { "start", "stop" } },
  symptoms = { "gpu-idle", "launch-starved" },
  options  = {
    min_idle    = { default = 0.10, doc = "Idle share of the window worth reporting" },
    min_starved = { default = 0.50, doc = "Share of the idle time that late launches must explain" },
    min_work    = { default = 32,   doc = "Pieces of work below which a profile is too short to judge" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for window in case.windows:rows() do
      local here = { rank = window.rank, device = window.device }
      if case.gpu_work:where(here):count() >= opt.min_work then
        judged = true
        local gaps    = case.gaps:where(here)
        local idle    = gaps:sum("dur")
        local starved = gaps:where { state = "starved" }:sum("dur")
        local share   = idle / window.dur
        local what    = window.steps > 1 and ("%d steady steps"):format(window.steps) or window.steps == 1 and "one step" or "the profile"
        if share >= opt.min_idle then
          report {
            symptom  = "gpu-idle",
            score    = math.min(1, 0.4 + 1.5 * share),
            share    = share,
            at       = here,
            message  = ("GPU %d runs nothing in %s of %s (%s, %s)"):format(window.device, units.format(idle),
              units.format(window.dur), units.percent(share), what),
            evidence = { gaps:top(5, "dur") },
          }
        end
        if share >= opt.min_idle and starved >= opt.min_starved * idle then
          local late = gaps:where { state = "starved" }
          report {
            symptom  = "launch-starved",
            score    = math.min(1, 0.4 + 1.5 * starved / window.dur),
            share    = starved / window.dur,
            at       = here,
            message  = ("%s of GPU %d's idle time ends with a late launch: the host asked for %s after the device had run dry")
              :format(units.percent(starved / idle), window.device, units.format(starved)),
            evidence = { late:top(5, "dur") },
          }
        end
      end
    end
    if not judged then
      skip(("at least %d pieces of device work: record more steps"):format(opt.min_work))
    end
  end,
}
