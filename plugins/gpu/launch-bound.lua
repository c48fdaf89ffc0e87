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
--- Waits for input, for synchronisation and for allocation are taken out before the rest is put to the host's account;
--- a profile that records neither loader ranges nor runtime calls cannot tell them apart.
---
--- ## References
--- "A trip to the launch-bound side", in PyTorch's CUDA-graph notes:
--- https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/

-- Words in the names of frames, ranges and operators that prepare input.
local Input = { "preprocess", "image_processor", "tokeniz", "read_video", "read_image", "decode_", "__getitem__",
  "collate",
  "load_batch", "get_batch" }

-- The innermost frame, range or operator that covers nearly all of a gap, or nil.
local function inside(case, window, gap)
  local best
  for _, rows in ipairs({ case.host_ops, case.ranges }) do
    local around = rows:where { rank = window.rank }:where("start < ? and stop > ?", gap.stop, gap.start)
    local most = around:with { part = around:overlap(case.gaps:where { rank = window.rank, gap = gap.gap,
      device = window.device }) }
      :where("part >= ?", math.floor(0.9 * gap.dur)):with { less = "0 - dur" }:top(1, "less"):first()
    if most and (not best or most.dur < best.dur) then
      best = most
    end
  end
  return best and best.name
end

local function prepares_input(name)
  local lower = name and name:lower() or ""
  for _, word in ipairs(Input) do
    if lower:contains(word) then
      return true
    end
  end
  return false
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The host cannot launch work as fast as the device finishes it",
  needs    = { windows = { "dur" }, gpu_work = { "dur", "role" }, host_calls = { "role", "dur" } },
  relies   = { "launches", "kernels", "host-times", "whole-record" },
  symptoms = { "host-op-gap", "host-long-gap", "input-stall", "tiny-kernels", "slow-launch-calls" },
  options  = {
    min_share   = { default = 0.08, doc = "Share of the window lost between launches worth reporting" },
    long_gap    = { default = 5 * units.ms,
                    doc = "A gap from which host code is a task of its own, not the pace of launching" },
    tiny        = { default = 10 * units.us, doc = "A median kernel shorter than this is tiny" },
    launch_cost = { default = 0.5, doc = "Median launch call over median kernel from which launching dominates" },
    slow_launch = { default = 50 * units.us,
                    doc = "A 95th percentile of launch calls from which a starved host is itself held up" },
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
        -- Waits for input, allocation and the device are told apart by gaps.host; this is the rest.
        local code    = case.gaps:where(here):where { host = "code" }
        local long    = code:where("dur >= ?", opt.long_gap)
        local between = code:where("dur < ?", opt.long_gap)
        local lost    = between:sum("dur")
        local apart   = long:sum("dur")
        if apart >= opt.min_share * window.dur then
          local worst = long:top(1, "dur"):first()
          local name  = inside(case, window, worst)
          local input = prepares_input(name)
          report {
            symptom     = input and "input-stall" or "host-long-gap",
            score       = math.min(1, 0.5 + apart / window.dur),
            share       = apart / window.dur,
            recoverable = apart,
            at          = here,
            message     = ("GPU %d waits %s of %s (%s) in %d long pieces of host code; the longest, %s, %s")
              :format(window.device,
              units.format(apart), units.format(window.dur), units.percent(apart / window.dur), long:count(),
                units.format(worst.dur),
              name and (input and "prepares input in %s" or "lies in %s"):format(name)
                or "lies in nothing that is recorded"),
            evidence    = { long:top(5, "dur") },
          }
        end
        least = math.min(least or lost, lost)
        if lost >= opt.min_share * window.dur then
          found[#found + 1] = { window = window, here = here, kernels = kernels, between = between, lost = lost }
        end
      end
    end
    if not judged then
      return skip(("at least %d kernels: record more steps"):format(opt.min_work))
    end
    for _, f in ipairs(found) do
      local share = f.lost / f.window.dur
      local python = case.host_ops:where { rank = f.window.rank, category = "python" }
      local within = f.between:intersect(python):sum("dur")
      report {
        symptom     = "host-op-gap",
        score       = math.min(1, 0.5 + 2 * share),
        share       = share,
        recoverable = least,
        at          = f.here,
        message     = ("GPU %d loses %s of %s (%s) between launches while the launching thread runs host code, in %s "
          .. "gaps%s"):format(
          f.window.device, units.format(f.lost), units.format(f.window.dur), units.percent(share),
          units.count(f.between:count()),
          within > 0.5 * f.lost and (", %s of it inside Python frames"):format(units.percent(within / f.lost)) or ""),
        evidence    = { f.between:top(5, "dur") },
      }
      local launches = case.host_calls:where { rank = f.window.rank, role = "launch" }
        :where("start >= ? and stop <= ?", f.window.start, f.window.stop)
      local kernel, launch = f.kernels:median("dur"), launches:median("dur")
      if kernel < opt.tiny and launch and launch >= opt.launch_cost * kernel then
        report {
          symptom     = "tiny-kernels",
          score       = math.min(1, 0.5 + 2 * share),
          recoverable = least,
          at          = f.here,
          message     = ("the median of %s kernels is %s, and the call that launches one takes %s"):format(
            units.count(f.kernels:count()), units.format(kernel), units.format(launch)),
          evidence    = { f.kernels:slice(0, 5), launches:slice(0, 5) },
        }
      end
      -- With a dry device no launch waits for the queue: a slow one is the host's own trouble.
      local slow = launches:count() >= opt.min_work and launches:quantile("dur", 0.95)
      if slow and slow > opt.slow_launch then
        report {
          symptom  = "slow-launch-calls",
          score    = math.min(1, 0.5 + 0.1 * slow / opt.slow_launch),
          share    = share,
          at       = f.here,
          message  = ("one launch call in twenty takes longer than %s (median %s) although GPU %d has run dry: the "
            .. "launching thread is held up itself")
            :format(units.format(slow), units.format(launch), f.window.device),
          evidence = { launches:top(5, "dur") },
        }
      end
    end
  end,
}
