--- ## What it detects
--- A learning rate that does not follow the planned schedule: it runs through its phases several times too fast, ends
--- well before the planned number of updates or far from its end at the last one, or begins its warm-up a second time.
---
--- ## Why it matters
--- The rate is computed from a counter and a total. A counter that is stepped once per process or micro-batch reaches
--- the end after one k-th of the run, and the rest trains with a rate of nearly nothing, which looks like convergence.
---
--- Only what falls smoothly to nothing, or to the minimum that the config sets, has an end, and what is exactly 0 from
--- a step on. A rate in steps of milestones or epochs is on the last of them as long as on others; an exponential,
--- polynomial or inverse root decay goes on falling. Of these the rate tells no end, and none is judged.
---
--- ## How to confirm
--- Print scheduler steps beside optimizer updates: after one update both have to be one.
---
--- ## Known false positives
--- Schedules planned in tokens or samples while the config counts updates. Warm restarts are silent when the config
--- names them, or when the rate comes back twice or more after as many steps each time, or twice as many. Steps of an
--- episode, a sampler or a second loss in the config are no plan of the training.
---
--- ## References
--- Accelerate steps a prepared scheduler num_processes times per update unless `split_batches` is set:
--- https://huggingface.co/docs/accelerate/concept_guides/performance

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The learning rate does not follow the planned schedule",
  needs    = { scalars = { "step", "value", metric = "lr" } },
  symptoms = { "schedule-faster-than-planned", "schedule-ends-early", "schedule-unfinished", "lr-restarts" },
  options  = {
    nothing  = { default = 0.03, doc = "Share of the peak up to which a rate is nothing" },
    early    = { default = 0.85, doc = "Planned share of the run below which the end of the schedule is early" },
    late     = { default = 0.50, doc = "Share of the peak that a decaying schedule must be below at the planned end" },
    near     = { default = 0.12, doc = "Relative distance from a whole factor that still counts as it" },
    min_rows = { default = 8,    doc = "Logged rates below which a schedule is not judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local function setting(globs)
      return case.config:where("match(key, ?) and number > 0", globs):first()
    end
    local planned, warmup, named = settings.planned(case), settings.warmup(case), settings.schedule(case)
    local kind   = named and tostring(named.value):lower() or ""
    -- A head that is trained alone and a whole that follows have a schedule each.
    local named_cyclic = settings.on(case.config:where("match(key, '*freeze_epochs*|*unfreez*|*frozen_epochs*')"))
      :count() > 0 or kind:glob("*restart*|*cycl*|*sgdr*|*jagged*|*relora*") or settings.cyclic_ends(case)
    local floor  = setting("*min_lr|*eta_min|*lr_min|*min_learning_rate|*lr_end|*end_learning_rate")

    --- Whether these rates go down to an end by small steps, on none of which they stay for long against the stay at
    --- the end.
    local function smooth(way, ended, last)
      local levels, longest, value, since = 0, 0, nil, nil
      for row in way:rows() do
        if not value or math.abs(row.value - value) > 1e-6 * math.abs(value) then
          levels, value, since = levels + 1, row.value, row.step
        end
        longest = math.max(longest, row.step - since)
      end
      return levels >= 5 and longest <= 0.25 * (ended.step - way:first().step)
        and longest <= 0.5 * (last.step - ended.step)
    end

    for _, run in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rate = run:sort("step"):where("finite(value)")
      local rows = rate:count()
      local peak = rate:max("value")
      if rows >= opt.min_rows and peak and peak > 0 then
        judged = true
        local cyclic = named_cyclic or settings.cycles(case, rate)
        local first, last = rate:first(), rate:last()
        local apart = (last.step - first.step) / (rows - 1)
        local top   = rate:where("value >= ?", 0.98 * peak)
        local at    = top:first()

        -- A warm-up in the middle of the run: the rate falls within a row to a small part and climbs back for rows.
        local restarted = false
        if not cyclic then
          local moves = rate:with { before = rate:col("value"):rolling(2, "max") }
          -- What is logged before the schedule sets its first rate is the optimizer's own.
          local second = rate:slice(1, 1):first()
          local drop   = moves:where("step > ? and step > ? and value < 0.3 * before and value > 0", at.step,
            second.step):first()
          if drop then
            local climb = rate:where("step >= ?", drop.step)
            local back  = climb:max("value")
            local again = climb:where("value >= ?", 0.98 * back):first()
            -- The last stretch of a decay in steps falls to a small part as well, and a restart by design jumps from it
            -- to the peak at once: a warm-up is on its way for some rows.
            local way  = climb:where("step < ? and value > ?", again.step, 1.01 * drop.value)
            if back >= 3 * drop.value and back >= 0.3 * drop.before and way:count() > 0 then
              restarted = true
              report {
                symptom  = "lr-restarts",
                score    = 0.9,
                at       = { step = drop.step },
                message  = ("the learning rate begins again at step %d: %.3g before, %.3g there, %.3g at step %d")
                  :format(drop.step, drop.before, drop.value, back, again.step),
                evidence = { drop, again, rate:around(drop, 3) },
              }
            end
          end
        end

        -- The end of the decay: the first row at the lowest rate after the peak, where a smooth fall has led to it. It
        -- has to be nothing, or the minimum that is set, and it has to last: what is reached in the last row only may
        -- fall on.
        local falls = rate:where("step > ?", rate:where("value >= ?", 0.98 * peak):last().step)
        local low   = falls:min("value")
        local ended = low and low <= math.max(opt.nothing * peak, floor and 1.05 * floor.number or 0)
          and falls:where("value <= ?", 1.01 * low):first()
        local gradual = ended and smooth(falls:where("step < ?", ended.step), ended, last)
        if ended and not (gradual or low == 0)
          or ended and not (low == 0 and gradual) and falls:where("step >= ?", ended.step):count() < 3 then
          ended = nil
        end
        local took = ended and ended.step - first.step + 1
        if planned and not restarted and not cyclic and planned.number >= 8 * apart then
          if ended and took < opt.early * planned.number - apart then
            -- How many times too fast: the decay says it, the warm-up has to agree.
            local k     = math.floor(planned.number / took + 0.5)
            local whole = k >= 2 and math.abs(planned.number / took - k) <= math.max(opt.near * k, k * apart / took)
            local half  = rate:where("step >= ?", (at.step + ended.step) / 2):first().value
            local slope = half > 1.5 * low and half < 0.95 * peak -- it fell all the way, not at once
            local warm  = at.step - first.step
            local agree = warmup and warmup.number >= 8 * apart and first.value < 0.5 * peak
            if agree and math.abs(warm - warmup.number / k) > 1.5 * apart + 0.1 * warmup.number / k then
              whole = false
            end
            local cause = whole and case.config:where("match(key, '*world_size|*num_processes|*accumulation_steps|"
              .. "*grad_accum*|*accumulate_grad_batches') and number == ?", k):first()
            if whole and gradual and slope and (agree or cause) then
              report {
                symptom  = "schedule-faster-than-planned",
                score    = cause and 0.97 or 0.92,
                at       = { step = ended.step },
                message  = ("the schedule runs %d times too fast: the decay planned for %d steps ends at %.3g by step "
                  .. "%d%s%s"):format(k, math.floor(planned.number), ended.value, ended.step,
                    agree and (", the warm-up of %d steps after %d"):format(math.floor(warmup.number), warm) or "",
                    cause and (", and %s is %d"):format(cause.key, k) or ""),
                evidence = { at, ended },
              }
            else
              report {
                symptom  = "schedule-ends-early",
                score    = 0.8,
                at       = { step = ended.step },
                message  = ("the learning rate is at its end, %.3g, by step %d of %d planned: %s of the plan are left "
                  .. "with %s of the peak"):format(ended.value, ended.step, math.floor(planned.number),
                  units.percent(1 - took / planned.number), units.percent(ended.value / peak)),
                evidence = { ended, last },
              }
            end
          elseif kind:glob("*cosine*|*linear*") and not kind:glob("*constant*|*min_lr*|*wsd*|*sqrt*|*linear?warmup|"
              .. "*linearlr*|*sequential*|*chained*")
            and not (floor and floor.number > 0.8 * opt.late * peak)
            and last.step + apart >= 0.98 * planned.number and last.value > opt.late * peak then
            report {
              symptom  = "schedule-unfinished",
              score    = 0.85,
              at       = { step = last.step },
              message  = ("the run ends at step %d of %d planned with %s of its peak rate: the %s schedule is "
                .. "stretched or stepped too rarely"):format(last.step, math.floor(planned.number),
                units.percent(last.value / peak), kind),
              evidence = { at, last },
            }
          end
        end
      end
    end
    if not judged then
      skip(("at least %d logged learning rates"):format(opt.min_rows))
    elseif not planned then
      skip("the planned number of steps in a config: max_steps, lr_decay_iters or the like",
        "schedule-faster-than-planned", "schedule-ends-early", "schedule-unfinished")
    end
  end,
}
