--- ## What it detects
--- Records that a profile lost or never had: device work without the host call that launched it.
---
--- ## Why it matters
--- Verdicts about launches and gaps lean on that link. Where it is missing they would be guesses.
---
--- ## How to confirm
--- Record again with the CUDA runtime activities on and a larger profiler buffer.
---
--- ## Known false positives
--- Work inside CUDA graphs: its launches belong to the graph, and it is left out here.
---
--- ## References
--- Dropped kernels without a word: https://github.com/pytorch/pytorch/issues/192021

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The profile lost records that the verdicts need",
  needs    = { windows = { "dur" }, gpu_work = { "correlation" }, host_calls = { "correlation" } },
  symptoms = { "profile-incomplete" },
  options  = {
    max_lost = { default = 0.05, doc = "Share of device work without a launch record that is normal" },
  },

  run = function(case)
    local judged = false
    for window in case.windows:rows() do
      local work  = case.gpu_work:where { rank = window.rank, device = window.device }:where("graph is null and kind != 'graph'")
      local known = work:join(case.host_calls, { "rank", "correlation" })
      if known:count() > 0 then
        judged = true
        -- What ran before the first known launch arrived was launched before the recording began.
        local later = work:where("start >= ?", known:min("start"))
        local lost  = later:count() - known:count()
        if lost > case.options.max_lost * later:count() then
          report {
            symptom  = "profile-incomplete",
            severity = "warning",
            score    = math.min(1, 0.5 + lost / later:count()),
            share    = lost / later:count(),
            at       = { rank = window.rank, device = window.device },
            message  = ("%s of %s pieces of work on GPU %d have no launch record though later ones have: the profile lost them"):format(
              units.count(lost), units.count(later:count()), window.device),
            evidence = { later:slice(0, 5) },
          }
        end
      end
    end
    if not judged then skip("launch records of the same process as the device work") end
  end,
}
