--- ## What it detects
--- Idle time of a device that follows a host call waiting for that very device: the call returns when the queue is
--- empty, and until the next launch arrives there is nothing to run.
---
--- ## Why it matters
--- The wait itself is free, the refill after it is not. `.item()`, `.cpu()`, `nonzero()` and printing a loss each drain
--- the queue once.
---
--- ## How to confirm
--- Run a few steps under `torch.cuda.set_sync_debug_mode("warn")`: it names the line of each hidden synchronisation.
---
--- ## Known false positives
--- The synchronisation that ends a benchmark's timed step is deliberate.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html

-- Which operator asked for the waits: the innermost around each, the most frequent first.
local function askers(case, window, waits)
  local ops = case.host_ops:where { rank = window.rank, category = "operator" }
    :where("start < ? and stop > ?", window.stop, window.start)
  if ops:count() == 0 then
    return ""
  end
  local told = waits:with { op = waits:containing(ops) }:where("op is not null")
    :aggregate("op", { n = "count" })
  local count, names = {}, {}
  for row in told:slice(0, 10000):rows() do
    local name = ops:row(row.op).name
    if not count[name] then
      count[name] = 0
      names[#names + 1] = name
    end
    count[name] = count[name] + row.n
  end
  table.sort(names, function(a, b) return count[a] > count[b] end)
  local words = {}
  for i = 1, math.min(3, #names) do
    words[i] = ("%d in %s"):format(count[names[i]], names[i])
  end
  return #words > 0 and ("; of the waits %s"):format(table.concat(words, ", ")) or ""
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The device runs dry after the host waited for it",
  needs    = { windows = { "dur" }, host_calls = { "start", "stop", "role" } },
  relies   = { "launches", "host-times", "whole-record" },
  symptoms = { "sync-stall", "launches-blocking" },
  options  = {
    min_share    = { default = 0.02, doc = "Share of the window lost after synchronisation worth reporting" },
    min_blocking = { default = 0.95,
                     doc = "Share of the launch calls that return after their kernel ended from which "
                          .. "launching blocks" },
    min_launches = { default = 32,   doc = "Launches below which a profile is too short to say so" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local here     = { rank = window.rank, device = window.device }
      local refills  = case.gaps:where(here):where { host = "refill" }
      local lost     = refills:sum("dur")
      local share    = lost / window.dur
      local waits    = case.host_calls:where { rank = window.rank, role = "sync" }
        :where("start < ? and stop > ?", window.stop, window.start)
      if share >= opt.min_share then
        report {
          symptom     = "sync-stall",
          score       = math.min(1, 0.5 + 2 * share),
          share       = share,
          recoverable = lost,
          at          = here,
          message     = ("GPU %d runs dry for %s of %s (%s) after %s; each drains the queue and the host has to refill "
            .. "it%s")
            :format(window.device, units.format(lost), units.format(window.dur), units.percent(share),
              units.plural(refills:distinct("gap"):count(), "host wait"), askers(case, window, waits)),
          evidence    = { refills:top(5, "dur"), waits:top(5, "dur") },
        }
      end

      local kernels = case.launches:where(here):where { kind = "kernel" }
        :where("start >= ? and start < ?", window.start, window.stop)
      local waiting = kernels:where("start + call_dur >= ended")
      if kernels:count() >= opt.min_launches and waiting:count() >= opt.min_blocking * kernels:count() then
        report {
          symptom     = "launches-blocking",
          score       = 0.95,
          share       = lost / window.dur,
          recoverable = lost,
          at          = here,
          message     = ("%d of %d launch calls on GPU %d return only after their kernel has ended: launching is "
            .. "synchronous, as under CUDA_LAUNCH_BLOCKING=1")
            :format(waiting:count(), kernels:count(), window.device),
          evidence    = { waiting:top(5, "call_dur") },
        }
      end
    end
  end,
}
