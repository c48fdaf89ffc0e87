--- ## What it detects
--- What a recording lost, never had or did to the run: device work without the host call that launched it, whole CUDA
--- graphs in the place of kernels, records the profiler dropped, a file cut off in the middle, and time in which the
--- profiler held up the program.
---
--- ## Why it matters
--- Verdicts about launches, gaps and kernels lean on those records. Detectors that rely on what is missing here count
--- for less or are withheld; this says so, and how to record better.
---
--- ## How to confirm
--- Record again as the message says and compare: what was an artefact of the recording is gone.
---
--- ## Known false positives
--- Work inside CUDA graphs has no launch of its own, and what ran before the first known launch was launched before the
--- recording began: both are left out.
---
--- ## References
--- Dropped kernels without a word: https://github.com/pytorch/pytorch/issues/192021

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The profile lost or distorted records that the verdicts need",
  needs    = { capture_quality = { "device" } },
  symptoms = { "profile-incomplete", "profiler-slows-run" },
  options  = {
    max_lost     = { default = 0.01, doc = "Share of device work without a launch record that is normal" },
    max_graphs   = { default = 0.05, doc = "Share of the busy time in whole-graph records that is normal" },
    max_overhead = { default = 0.05, doc = "Share of the window held up by the profiler that is normal" },
    min_work     = { default = 32,   doc = "Pieces of work below which a profile is too short to speak of slowness" },
  },

  run = function(case)
    local opt = case.options
    for quality in case.capture_quality:rows() do
      local here   = { rank = quality.rank, device = quality.device }
      local events = case.profiler_events
      local lacks, evidence, worst = {}, {}, 0
      local function lack(share, text, rows)
        lacks[#lacks + 1] = text
        evidence[#evidence + 1] = rows
        worst = math.max(worst, share)
      end
      local match = quality.launch_match
      if match and match < 1 - opt.max_lost then
        lack(1 - match, ("%s of the device work has no launch record though later work has; record with the CUDA "
          .. "runtime activities on and a larger buffer")
          :format(units.percent(1 - match)), case.gpu_work:where(here):slice(0, 5))
      end
      if quality.graph_share > opt.max_graphs then
        lack(quality.graph_share, ("%s of the busy time is recorded as whole CUDA graphs; record graph nodes (nsys: "
          .. "--cuda-graph-trace=node)")
          :format(units.percent(quality.graph_share)), case.gpu_work:where(here):where { kind = "graph" }:top(5, "dur"))
      end
      if quality.lost > 0 then
        lack(0.5, ("the profiler dropped %s records; record fewer steps or with a larger buffer")
          :format(units.count(quality.lost)),
          events:where { kind = "lost" }:slice(0, 5))
      end
      if quality.cut then
        lack(0.5, "the record ends in the middle; let the profiler finish its file",
          events:where { kind = "cut" }:slice(0, 5))
      end
      if #lacks > 0 then
        report {
          symptom  = "profile-incomplete",
          severity = "info",
          score    = math.min(1, 0.5 + worst),
          share    = worst,
          at       = here,
          message  = ("the record of GPU %d is incomplete: %s"):format(quality.device, table.concat(lacks, "; ")),
          evidence = evidence,
        }
      end
      if quality.overhead_share > opt.max_overhead and case.gpu_work:where(here):count() >= opt.min_work then
        report {
          symptom  = "profiler-slows-run",
          severity = "warning",
          score    = math.min(1, 0.5 + 2 * quality.overhead_share),
          share    = quality.overhead_share,
          at       = here,
          message  = ("the profiler holds up the launching thread of GPU %d for %s of the window; record fewer "
            .. "activities (no stacks, shapes or memory)")
            :format(quality.device, units.percent(quality.overhead_share)),
          evidence = { events:where { kind = "overhead" }:top(5, "dur") },
        }
      end
    end
  end,
}
