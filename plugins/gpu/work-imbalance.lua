--- ## What it detects
--- Work divided unevenly across ranks: ranks whose compute time differs because they run more or larger kernels, and
--- all-to-all collectives in which some ranks send much more than others.
---
--- ## Why it matters
--- The step takes as long as the rank with the most work. The remedy lies in the division (expert routing, embedding
--- sharding, sequence lengths, pipeline stages), not in the rank.
---
--- ## How to confirm
--- Log tokens, experts or rows per rank and step. Swap two ranks' hosts: uneven work stays with the rank, a slow
--- device with the host.
---
--- ## Known false positives
--- The same kernels taking longer on one rank are a slow device, not more work, and are left to `gpu/slow-device`.
--- Kernels whose grid does not show their work (persistent kernels, grouped products) look like that too. Ranks of
--- different pipeline stages or with the loss on the last stage differ by design; below 10 % nothing is said.
---
--- ## References
--- NVIDIA's Megatron notes on pipeline and expert balance; a max/mean of 1.5 in expert tokens costs a third of the
--- expert time.

local statistics = require("statistics")

-- Time of a rank's compute kernels by name and size, of the steps inside its window.
local function kernels_of(case, window)
  local rows = case.gpu_work:where { rank = window.rank, device = window.device, role = "compute" }
                 :where("start >= ? and stop <= ?", window.start, window.stop)
  return rows:with { blocks = "product(grid)" }
end

local function coefficient(values)
  local sum, squares, n = 0, 0, #values
  for _, v in ipairs(values) do sum = sum + v end
  local mean = sum / n
  for _, v in ipairs(values) do squares = squares + (v - mean) * (v - mean) end
  return mean > 0 and math.sqrt(squares / (n - 1)) / mean or 0, mean
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Work is divided unevenly across ranks",
  needs    = { any = { gpu_work = { "start", "stop", "rank", role = "compute" }, collectives = { "bytes", "rank" } } },
  relies   = { "kernels", "whole-record" },
  symptoms = { "rank-work-uneven", "all-to-all-uneven" },
  options  = {
    min_cv    = { default = 0.10, doc = "Coefficient of variation of compute time across ranks worth reporting" },
    min_split = { default = 1.50, doc = "Largest over mean bytes per rank in all-to-all worth reporting" },
    min_part  = { default = 0.50, doc = "Part of the excess that more or larger kernels must explain" },
    min_share = { default = 0.05, doc = "Excess as a share of the window" },
  },

  run = function(case)
    local opt = case.options

    -- Bytes of all-to-all, group by group.
    local splits = case.collectives:where("op == 'all_to_all' and bytes > 0")
    if not splits:has("group") then splits = splits:with { group = "'the job'" } end
    local judged = false
    for name, rows in splits:group("group") do
      local by_rank = rows:aggregate({ "rank" }, { total = "sum bytes", calls = "count" })
      -- Records of different length show nothing of the split.
      if by_rank:count() >= 2 and by_rank:min("calls") == by_rank:max("calls") then
        judged = true
        local top, mean = by_rank:top(1, "total"):first(), by_rank:mean("total")
        if top.total >= opt.min_split * mean then
          report {
            symptom  = "all-to-all-uneven",
            score    = 0.9,
            at       = { rank = top.rank },
            message  = ("rank %d moves %s in %d all-to-all collectives of group %s, %s times the mean of %d ranks")
              :format(top.rank, units.bytes(top.total), top.calls, name, units.number(top.total / mean, 3),
                      by_rank:count()),
            evidence = { by_rank:sort("-total"):renamed("all-to-all bytes by rank"),
                         rows:where { rank = top.rank }:top(3, "bytes") },
          }
        end
      end
    end

    -- Compute time, per step where there are steps.
    local windows, seen, two_devices = {}, {}, false
    for window in case.windows:where("dur > 0"):rows() do
      if seen[window.rank] then two_devices = true end
      seen[window.rank] = true
      windows[#windows + 1] = window
    end
    if #windows < 2 or two_devices then
      if not judged then return skip("the profiles of at least two ranks of the same steps") end
      return
    end
    local ranks, times = {}, {}
    for i, window in ipairs(windows) do
      local kernels = kernels_of(case, window)
      local steps   = math.max(1, window.steps)
      ranks[i] = { rank = window.rank, window = window, steps = steps, kernels = kernels,
                   time = kernels:sum("dur") / steps, count = kernels:count() / steps,
                     blocks = kernels:sum("blocks") / steps,
                   sized = kernels:count() > 0 and kernels:count("blocks") == kernels:count() }
      times[i] = ranks[i].time
      if ranks[i].steps ~= ranks[1].steps then return skip("profiles of the same number of steps of every rank") end
      if kernels:count() == 0 then return end
    end
    local cv = coefficient(times)
    local top = ranks[1]
    for _, r in ipairs(ranks) do if r.time > top.time then top = r end end
    local typical = {}
    for _, r in ipairs(ranks) do if r ~= top then typical[#typical + 1] = r.time end end
    local middle = statistics.median(typical)
    local excess = top.time - middle
    if cv < opt.min_cv or excess * top.steps < opt.min_share * top.window.dur then return end

    -- What the kernels that a typical rank runs too, equally often and equally large, take longer: that is the device.
    local peer
    for _, r in ipairs(ranks) do
      if r ~= top and (not peer or math.abs(r.time - middle) < math.abs(peer.time - middle)) then peer = r end
    end
    local keys    = top.sized and peer.sized and { "name", "blocks" } or { "name" }
    local figures = { n = "count", total = "sum dur" }
    local mine    = top.kernels:aggregate(keys, figures)
    local both    = mine:join(peer.kernels:aggregate(keys, figures), keys)
    local slower  = both:with { common = "total_right / n_right * n" }
    slower = (slower:sum("total") - slower:sum("common")) / top.steps
    local more = excess - math.max(0, slower)
    if more < opt.min_part * excess then return end

    local what
    if math.abs(top.count / peer.count - 1) <= 0.02 then
      what = "as many kernels, other ones"
      if top.sized and peer.sized and top.blocks > peer.blocks then
        what = ("as many kernels with %s times the blocks"):format(units.number(top.blocks / peer.blocks, 3))
      end
    else
      what = ("%.0f kernels against %.0f"):format(top.count, peer.count)
    end
    report {
      symptom     = "rank-work-uneven",
      score       = math.min(1, 0.6 + cv),
      share       = excess * top.steps / top.window.dur,
      -- Evened out, all ranks take the mean.
      recoverable = math.floor((top.time - select(2, coefficient(times))) * top.steps),
      at          = { rank = top.rank },
      message     = ("rank %d computes %s%s, the median of the other %d ranks %s (variation %s over all): %s; kernels "
        .. "that both run take it %s longer in all, so it has more work and is no slower device")
        :format(top.rank, units.format(math.floor(top.time)), top.window.steps > 0 and " a step" or "", #ranks - 1,
                units.format(math.floor(middle)), units.percent(cv), what,
                  units.format(math.floor(math.max(0, slower)))),
      evidence    = { mine:sort("-total"):slice(0, 5):renamed("kernels of rank " .. top.rank),
                      top.kernels:top(3, "dur") },
    }
  end,
}
