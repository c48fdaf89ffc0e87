--- ## What it detects
--- Pipeline stages that stand still longer than their schedule explains. With p stages and m micro-batches a step,
--- each stage must stand still (p-1)/(m+p-1) of it while the pipeline fills and drains. The time in which a stage
--- neither computes nor copies nor takes part in other collectives is compared with that.
---
--- ## Why it matters
--- The rest of the time is lost to unequal stages, to sends that wait for their receivers, or to the host; unlike the
--- bubble of the schedule it can be won without more micro-batches.
---
--- ## How to confirm
--- Raise the number of micro-batches: the bubble of the schedule shrinks as (p-1)/(m+p-1), the rest does not.
---
--- ## Known false positives
--- Interleaved schedules have v model chunks a stage and v times as many sends; m is counted from the sends, so their
--- smaller bubble is what is compared. Zero-bubble schedules need less than the formula says and are judged too
--- mildly.
---
--- ## References
--- Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (2021), section
--- 2.2.

local windows = require("windows")

-- The number of stages: the largest group that sends and receives name, else the ranks that they link.
local function stages_of(points)
  local size = points:max("group_size")
  if size and size >= 2 then return size end
  local seen, count = {}, 0
  for _, column in ipairs { "rank", "peer" } do
    for rank in points:group(column) do
      if not seen[rank] then seen[rank], count = true, count + 1 end
    end
  end
  return count
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Pipeline stages stand still longer than their schedule explains",
  needs    = {
    windows     = { "dur", "steps" },
    gpu_work    = { "start", "stop", role = "compute" },
    collectives = { "op", "peer", "start" },
  },
  relies   = { "kernels", "whole-record" },
  symptoms = { "pipeline-bubble-excess" },
  options  = {
    min_excess = { default = 1.30, doc = "Standstill over what the schedule explains worth reporting" },
    min_share  = { default = 0.05, doc = "Share of the window that the excess must be" },
  },

  run = function(case)
    local opt    = case.options
    local points = case.collectives:where("(op == 'send' or op == 'recv') and peer is not null and start is not null")
    if points:count() == 0 then
      return skip("sends and receives with their peers: profile with a PyTorch that records them (2.5 or later)")
    end
    local p = stages_of(points)
    local stages, micro = {}, 0
    for window in case.windows:where("dur > 0 and steps > 0"):rows() do
      local mine = points:where { rank = window.rank, device = window.device }
      if mine:count() == 0 then mine = points:where { rank = window.rank } end
      mine = mine:where("start >= ? and start < ?", window.start, window.stop)
      if mine:count() > 0 then
        local flows = mine:aggregate({ "op", "peer" }, { n = "count" })
        local m     = flows:max("n") / window.steps
        local work  = windows.work(case, window)
        local span  = case.windows:where { rank = window.rank, device = window.device }
        -- Sends and receives are waiting here; everything else that the device runs is work.
        local other = work:where("role != 'communication'")
        local rest  = case.collectives:where { rank = window.rank }
                        :where("op != 'send' and op != 'recv' and op != 'send_recv'")
        local idle  = span:subtract(other):subtract(rest):covered()
        local waits = span:subtract(other):intersect(mine):covered()
        micro = math.max(micro, m)
        stages[#stages + 1] = { window = window, m = m, idle = idle, waits = math.min(waits, idle),
                                share = idle / window.dur, compute = work:where { role = "compute" }:covered(),
                                points = mine }
      end
    end
    if #stages == 0 or p < 2 then
      return skip("the steps of a pipeline: mark them with torch.profiler's step() and profile at least one stage")
    end

    local theory = (p - 1) / (micro + p - 1)
    local shares, least, widest, smallest, largest = {}, nil, nil, nil, nil
    for i, s in ipairs(stages) do
      shares[i] = s.share
      -- Of the window without the excess the schedule's bubble is its share.
      local work   = s.window.dur - s.idle
      local excess = s.idle - work * theory / (1 - theory)
      least    = math.min(least or excess, excess)
      widest   = (not widest or s.share > widest.share) and s or widest
      smallest = math.min(smallest or s.compute, s.compute)
      largest  = math.max(largest or s.compute, s.compute)
    end
    table.sort(shares)
    local typical = shares[(#shares + 1) // 2]
    if typical < opt.min_excess * theory or typical - theory < opt.min_share then return end

    local why
    if #stages >= 2 and largest >= 1.2 * smallest then
      why = ("stages compute for different times, %s to %s"):format(units.format(smallest), units.format(largest))
    elseif widest.waits >= 0.5 * widest.idle then
      why = "most of it is spent inside sends and receives that wait for the other stage"
    else
      why = "most of it is spent outside of sends and receives, so the host is late"
    end
    report {
      symptom     = "pipeline-bubble-excess",
      score       = math.min(1, 0.6 + (typical - theory)),
      share       = typical - theory,
      recoverable = math.max(0, math.floor(least)),
      at          = { rank = widest.window.rank },
      message     = ("%d recorded stages of %d stand still for %s of the step in the median; %d stages and %.0f "
        .. "micro-batches explain %s. Rank %d stands still %s, %s of it in sends and receives: %s")
        :format(#stages, p, units.percent(typical), p, micro, units.percent(theory), widest.window.rank,
                units.format(widest.idle), units.format(widest.waits), why),
      evidence    = { widest.points:top(5, "dur"), case.windows:sort("rank") },
    }
  end,
}
