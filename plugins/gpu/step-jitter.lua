--- ## What it detects
--- Steps that take clearly longer than the typical one, whether they come at a fixed distance, and whether their
--- kernels are slower or more. What the host does in them that it does not do in others is told by the
--- `gpu/slow-steps-*` detectors.
---
--- ## Why it matters
--- The mean step time hides them: one step of a second among fifty of 100 ms costs a sixth. In a job of many ranks
--- each rank's slow step is everybody's.
---
--- ## How to confirm
--- Switch the named thing off for as many steps as were recorded (`gc.disable()`, no saving, no evaluation): the slow
--- steps are gone. If they stay at the same distance, something else has the same period.
---
--- ## Known false positives
--- A host that runs ahead has steps of uneven length although the device is never without work; where neither the
--- device's idle time nor its work grows in the slow steps nothing is reported. Buckets of sequence lengths make
--- steps of different work on purpose: told by `slow-steps-more-work`.
---
--- ## References
--- Garbage collection and steps: https://arxiv.org/abs/2402.15627 (MegaScale)

local slow_steps = require("slow-steps")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Some steps take clearly longer than the typical one",
  needs    = { steps = { "start", "stop", "dur" } },
  relies   = { "launches", "host-times" },
  symptoms = { "step-jitter", "step-slow-periodic", "slow-steps-same-kernels-slower", "slow-steps-more-work" },
  options  = slow_steps.options,

  run = function(case)
    local opt, judged = case.options, false
    for rank, all in case.steps:group("rank") do
      local s = slow_steps.of(opt, all)
      if s and s.n <= 10000 then
        judged = true
        local steps, n, slow, normal, k, excess = s.steps, s.n, s.slow, s.normal, s.k, s.excess
        if s.cost then
          local device = case.windows:where { rank = rank }:first()
          local work   = case.gpu_work:where { rank = rank }
          local gaps   = case.gaps:where { rank = rank, device = device and device.device or 0 }

          -- What was launched in a step belongs to it, whenever the device gets to it.
          local launched, busy_more = nil, 0
          if work:count() > 0 and case.host_calls:has("correlation") then
            local calls = case.host_calls:where { rank = rank }:where("correlation is not null and correlation > 0")
              :select("rank", "correlation", "start", "stop")
            local mine = work:where("correlation is not null"):select("name", "rank", "correlation", "role", "dur")
              :join(calls, { "rank", "correlation" })
            launched = mine:with { step_row = mine:containing(steps) }:where("step_row is not null")
          end
          local per, count = {}, {}
          if launched then
            for row in launched:aggregate({ "step_row" }, { took = "sum dur", n = "count" }):rows() do
              per[row.step_row], count[row.step_row] = row.took, row.n
            end
          end
          local usual_work, usual_count, slow_rows = {}, {}, {}
          for i = 0, n - 1 do
            if steps:row(i).dur > s.bar then
              slow_rows[#slow_rows + 1] = i
            else
              usual_work[#usual_work + 1]   = per[i] or 0
              usual_count[#usual_count + 1] = count[i] or 0
            end
          end
          table.sort(usual_work)
          table.sort(usual_count)
          local mid = (#usual_work + 1) // 2
          local work_more, count_more = 0, 0
          for _, i in ipairs(slow_rows) do
            work_more  = work_more + math.max(0, (per[i] or 0) - usual_work[mid])
            count_more = count_more + math.max(0, (count[i] or 0) - usual_count[mid])
          end
          local idle_more = slow_steps.more(s, gaps)

          -- A step that the device never noticed cost nothing: it was only the host's.
          local seen = not device or idle_more + work_more >= 0.3 * excess
          if seen then
            local cost = device and math.min(excess, idle_more + work_more) or excess
            local at   = { rank = rank, step = steps:row(slow_rows[1]).step }
            local list = {}
            for i = 1, math.min(k, 6) do list[i] = ("%d"):format(steps:row(slow_rows[i]).step) end
            local path = ""
            local kinds = case.critical_path:where { rank = rank }:where("step is not null")
              :aggregate({ "step", "kind" }, { took = "sum dur" })
            if kinds:count() > 0 then
              local best, best_more
              for kind, rows in kinds:group("kind") do
                local low, high = {}, 0
                local of = {}
                for r in rows:rows() do of[r.step] = r.took end
                for s in normal:rows() do low[#low + 1] = of[s.step] or 0 end
                table.sort(low)
                for s in slow:rows() do high = high + math.max(0, (of[s.step] or 0) - low[(#low + 1) // 2]) end
                if not best or high > best_more then best, best_more = kind, high end
              end
              path = ("; on the critical path %s grows most, by %s"):format(best, units.format(best_more))
            end
            report {
              symptom     = "step-jitter",
              score       = 0.9,
              share       = excess / steps:sum("dur"),
              recoverable = math.tointeger(cost // 1),
              at          = at,
              message     = ("%d of %d steps take longer than %s (median %s, median deviation %s): steps %s%s, the "
                .. "longest %s, %s too much in all (%s)%s%s"):format(k, n, units.format(s.bar), units.format(s.median),
                  units.format(s.mad),
                table.concat(list, ", "), k > 6 and ", ..." or "", units.format(slow:max("dur")), units.format(excess),
                units.percent(excess / steps:sum("dur")), device and ("; the device idles %s more in them and gets %s "
                  .. "more work")
                :format(units.format(idle_more), units.format(work_more)) or "", path),
              evidence    = { slow:top(5, "dur") },
            }

            if k < 3 then skip("three slow steps", "step-slow-periodic") end
            -- The period, by the autocorrelation of "this step is slow": the distance at which most slow steps follow
            -- one.
            if k >= 3 then
              local is = {}
              for _, i in ipairs(slow_rows) do is[i] = true end
              local best, hits = nil, 0
              for lag = 2, n // 2 do
                local could, met = 0, 0
                for _, i in ipairs(slow_rows) do
                  if i + lag < n then
                    could = could + 1
                    if is[i + lag] then met = met + 1 end
                  end
                end
                if could >= 2 and met == could and met > hits then best, hits = lag, met end
              end
              -- Without a period, steps as rare as these would follow each other at one given distance by chance.
              if best and hits >= k - 1 and (k / n) ^ hits < 0.05 then
                report {
                  symptom  = "step-slow-periodic",
                  score    = 0.9,
                  at       = at,
                  message  = ("every %d steps one is slow: each of the %d slow steps with %d more on record after it "
                    .. "is followed by another at that distance (steps %s); a cause in the data would not keep time")
                      :format(best, hits, best,
                    table.concat(list, ", ")),
                  evidence = { slow:slice(0, 6) },
                }
              end
            end

            if not launched then
              skip("device work joined to its launch calls", "slow-steps-same-kernels-slower", "slow-steps-more-work")
            end
            -- The device's part: the same kernels slower, or more of them.
            if launched and work_more >= opt.explains * excess then
              if count_more <= 0.02 * k * usual_count[mid] then
                report {
                  symptom     = "slow-steps-same-kernels-slower",
                  score       = 0.85,
                  share       = work_more / steps:sum("dur"),
                  recoverable = math.tointeger(math.min(work_more, cost) // 1),
                  at          = at,
                  message     = ("the %d slow steps launch no more kernels than others (usually %d) but those take %s "
                    .. "more, %s of the excess: clocks, another user of the device, or waiting in collectives; more "
                    .. "work would show more kernels"
                    ):format(k, usual_count[mid], units.format(work_more),
                      units.percent(math.min(1, work_more / excess))),
                  evidence    = { slow:top(5, "dur") },
                }
              else
                report {
                  symptom  = "slow-steps-more-work",
                  severity = "warning",
                  score    = 0.85,
                  at       = at,
                  message  = ("the %d slow steps launch %d more kernels than usual (%d a step), which take %s, %s of "
                    .. "the excess: longer input or evaluation, not a stall"):format(k, count_more, usual_count[mid],
                    units.format(work_more), units.percent(math.min(1, work_more / excess))),
                  evidence = { slow:top(5, "dur") },
                }
              end
            end
          end
        end
      end
    end
    if not judged then
      skip(("at least %d steps: record more of them, or mark them with profiler.step() or an NVTX range")
        :format(opt.min_steps + 1))
    end
  end,
}
