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
  needs    = { gpu_work = { "correlation" }, host_calls = { "correlation" } },
  symptoms = { "profile-incomplete" },
  options  = {
    max_lost = { default = 0.01, doc = "Share of device work without a launch record that is normal" },
  },

  run = function(case)
    local work  = case.gpu_work:where("graph is null and kind != 'graph'")
    local known = work:join(case.host_calls, { "rank", "correlation" }):count()
    local lost  = work:count() - known
    if lost > case.options.max_lost * work:count() then
      report {
        symptom  = "profile-incomplete",
        severity = "warning",
        score    = math.min(1, 0.5 + lost / work:count()),
        message  = ("%s of %s pieces of device work have no launch record: the profile lost them or began too late"):format(
          units.count(lost), units.count(work:count())),
        evidence = { work:slice(0, 5) },
      }
    end
  end,
}
