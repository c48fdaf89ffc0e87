--- ## What it detects
--- A device that idles because the host spends its time between launches in framework or interpreter code, and whether
--- its kernels are so short that launching them takes about as long as running them.
---
--- ## Why it matters
--- Such a run gets no faster on a faster device. CUDA graphs, compilation or larger batches move the limit; tuning a
--- kernel does not.
---
--- ## How to confirm
--- Double the batch: the step time stays about the same while the host is the limit.
---
--- ## Known false positives
--- Waits for input, for synchronisation and for allocation are taken out before the rest is put to the host's account; a
--- profile that records neither loader ranges nor runtime calls cannot tell them apart.
---
--- ## References
--- "A trip to the launch-bound side", in PyTorch's CUDA-graph notes: https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The host cannot launch work as fast as the device finishes it",
  needs    = { windows = { "dur" }, gpu_work = { "dur", "role" }, host_calls = { "role", "dur" } },
  symptoms = { "host-op-gap", "tiny-kernels" },
  options  = {
    min_share   = { default = 0.08, doc = "Share of the window lost between launches worth reporting" },
    tiny        = { default = 10 * units.us, doc = "A median kernel shorter than this is tiny" },
    launch_cost = { default = 0.5, doc = "Median launch call over median kernel from which launching dominates" },
    min_work    = { default = 32, doc = "Pieces of work below which a profile is too short to judge" },
  },

  run = function(case)
    local opt, judged, least = case.options, false, nil
    local found = {}
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local kernels = case.gpu_work:where(here):where { role = "compute" }
      if kernels:count() >= opt.min_work then
        judged = true
        local calls   = case.host_calls:where { rank = window.rank }
        local loading = case.ranges:where { rank = window.rank, category = "dataloader" }
        local other   = calls:where("role == 'sync' or role == 'allocate' or role == 'free' or role == 'load'")
        -- A gap that opens while the host waits for the device is that wait's refill and counted there.
        local starved = case.gaps:where(here):where { state = "starved" }
        local own     = starved:with { wait = starved:containing(calls:where { role = "sync" }) }:where("wait is null")
        local between = own:subtract(loading):subtract(other)
        local lost    = between:sum("dur")
        least = math.min(least or lost, lost)
        if lost >= opt.min_share * window.dur then
          found[#found + 1] = {
            window = window, here = here, kernels = kernels, between = between, lost = lost,
            launches = calls:where { role = "launch" },
          }
        end
      end
    end
    if not judged then
      return skip(("at least %d kernels: record more steps"):format(opt.min_work))
    end
    for _, f in ipairs(found) do
      local share = f.lost / f.window.dur
      report {
        symptom     = "host-op-gap",
        score       = math.min(1, 0.5 + 2 * share),
        share       = share,
        recoverable = least,
        at          = f.here,
        message     = ("GPU %d loses %s of %s (%s) between launches while the launching thread runs host code, in %s gaps"):format(
          f.window.device, units.format(f.lost), units.format(f.window.dur), units.percent(share),
          units.count(f.between:count())),
        evidence    = { f.between:top(5, "dur") },
      }
      local kernel, launch = f.kernels:median("dur"), f.launches:median("dur")
      if kernel < opt.tiny and launch and launch >= opt.launch_cost * kernel then
        report {
          symptom     = "tiny-kernels",
          score       = math.min(1, 0.5 + 2 * share),
          recoverable = least,
          at          = f.here,
          message     = ("the median of %s kernels is %s, and the call that launches one takes %s"):format(
            units.count(f.kernels:count()), units.format(kernel), units.format(launch)),
          evidence    = { f.kernels:slice(0, 5), f.launches:slice(0, 5) },
        }
      end
    end
  end,
}
