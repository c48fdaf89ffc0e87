--- ## What it detects
--- The share of the steady steps in which a device runs nothing, taken apart by what the next piece of work was
--- waiting for: a launch that came late (the host's time), the launch itself, or other work it had to queue behind.
---
--- ## Why it matters
--- Idle time is the ceiling of every speed-up that does not touch a kernel. Which part dominates says where to look:
--- late launches point at the host, work that was launched in time at streams, dependencies and the device's front end.
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
  relies   = { "kernels", "whole-record" },
  symptoms = { "gpu-idle", "idle-unresolved", "launch-starved", "queued-work-stalls" },
  options  = {
    min_idle  = { default = 0.10, doc = "Idle share of the window worth reporting" },
    min_class = { default = 0.50, doc = "Share of the idle time that one kind of waiting must explain" },
    min_work  = { default = 32,   doc = "Pieces of work below which a profile is too short to judge" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for window in case.windows:rows() do
      local here = { rank = window.rank, device = window.device }
      if case.gpu_work:where(here):count() >= opt.min_work then
        judged = true
        local gaps  = case.gaps:where(here)
        -- Where nothing tells what the device waited for it may have run what nobody recorded.
        local dark  = gaps:where { state = "unresolved" }:sum("dur")
        local idle  = gaps:sum("dur") - dark
        local share = idle / window.dur
        local what  = window.steps > 1 and ("%d steady steps"):format(window.steps) or window.steps == 1 and "one step"
          or "the profile"
        if dark >= opt.min_idle * window.dur then
          report {
            symptom  = "idle-unresolved",
            severity = "warning",
            score    = 0.7,
            share    = dark / window.dur,
            at       = here,
            message  = ("GPU %d has nothing on record for %s of %s (%s) although the host waits for it or no launch is "
              .. "known: it may run work from before the recording, or another process's; record from an idle device "
              .. "on")
              :format(window.device, units.format(dark), units.format(window.dur), units.percent(dark / window.dur)),
            evidence = { gaps:where { state = "unresolved" }:top(5, "dur") },
          }
        end
        if share >= opt.min_idle then
          local parts = {}
          for _, state in ipairs({ "starved", "launching", "blocked", "stalled" }) do
            local part = gaps:where { state = state }:sum("dur")
            if part >= 0.005 * window.dur then
              parts[#parts + 1] = ("%s %s"):format(state, units.percent(part / window.dur))
            end
          end
          report {
            symptom  = "gpu-idle",
            score    = math.min(1, 0.4 + 1.5 * share),
            share    = share,
            at       = here,
            message  = ("GPU %d runs nothing in %s of %s (%s, %s): %s"):format(window.device, units.format(idle),
              units.format(window.dur), units.percent(share), what, table.concat(parts, ", ")),
            evidence = { gaps:top(5, "dur") },
          }
          local late = gaps:where { state = "starved" }
          local starved = late:sum("dur")
          if starved >= opt.min_class * idle then
            report {
              symptom  = "launch-starved",
              score    = math.min(1, 0.4 + 1.5 * starved / window.dur),
              share    = starved / window.dur,
              at       = here,
              message  = ("%s of GPU %d's idle time ends with a late launch: the host asked for %s after the device "
                .. "had run dry")
                :format(units.percent(starved / idle), window.device, units.format(starved)),
              evidence = { late:top(5, "dur") },
            }
          end
          local queued = gaps:where { state = { "blocked", "stalled" } }
          local stalled = queued:sum("dur")
          if stalled >= opt.min_class * idle then
            local blocked = queued:where { state = "blocked" }:sum("dur")
            local behind  = {}
            if blocked > 0 then
              behind[1] = units.format(blocked) .. " behind a wait for another stream"
            end
            if stalled > blocked then
              behind[#behind + 1] = units.format(stalled - blocked) .. " before the device takes it up"
            end
            report {
              symptom     = "queued-work-stalls",
              score       = math.min(1, 0.4 + 1.5 * stalled / window.dur),
              share       = stalled / window.dur,
              recoverable = stalled,
              at          = here,
              message     = ("%s of GPU %d's idle time passes with work already launched: %s"):format(
                units.percent(stalled / idle), window.device, table.concat(behind, ", ")),
              evidence    = { queued:top(5, "dur") },
            }
          end
        end
      end
    end
    if not judged then
      skip(("at least %d pieces of device work: record more steps"):format(opt.min_work))
    end
  end,
}
