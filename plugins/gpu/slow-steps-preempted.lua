--- ## What it detects
--- Slow steps in which the launching thread waits for a CPU longer than in others while the device idles.
---
--- ## Why it matters
--- The step is slow because of somebody else: no change to the program helps.
---
--- ## How to confirm
--- Give the process CPUs of its own: the slow steps vanish.
---
--- ## Known false positives
--- Coarse scheduler traces stretch states.
---
--- ## References
--- https://arxiv.org/abs/2402.15627 (MegaScale, irregular steps)

---@type culprit.Detector
return {
  api      = 1,
  summary  = "In slow steps the launching thread has no CPU",
  needs    = { steps = { "start", "stop", "dur" }, windows = { "dur" }, thread_states = { "start", "stop", "state" } },
  relies   = { "launches" },
  symptoms = { "slow-steps-preempted" },
  options  = {
    min_steps = { default = 8,    doc = "Steps after the first below which nothing is judged" },
    mads      = { default = 5,    doc = "Median absolute deviations above the median from which on a step is slow" },
    min_over  = { default = 0.10, doc = "Share by which a slow step must exceed the median" },
    min_cost  = { default = 0.01, doc = "Share of the record that the slow steps must cost together" },
    explains  = { default = 0.50, doc = "Share of the excess that a cause must cover to be named" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for rank, all in case.steps:group("rank") do
      local n = all:count() - 1
      if n >= opt.min_steps then
        local steps  = all:sort("start"):slice(1, n)
        local median = steps:median("dur")
        local bar    = median + math.max(opt.mads * steps:col("dur"):robust_std() / 1.4826, opt.min_over * median)
        local slow   = steps:where("dur > ?", bar)
        local normal = steps:where("dur <= ?", bar)
        local k      = slow:count()
        local excess = slow:sum("dur") - k * median
        local device = case.windows:where { rank = rank }:first()
        local gaps   = case.gaps:where { rank = rank, device = device and device.device or 0 }

        -- Reports `rows` where slow steps hold more of them than the typical one, enough of what they take too long.
        local function blame(symptom, what, rows, contradict)
          if rows:count() == 0 or k == 0 or k * 2 >= n or excess < opt.min_cost * steps:sum("dur") then return end
          local usual, took = normal:overlap(rows):median() or 0, 0
          for _, v in ipairs(slow:overlap(rows):values()) do took = took + math.max(0, v - usual) end
          if took < opt.explains * excess then return end
          -- What a busy device hid cost nothing.
          local lost = device and slow:intersect(rows):intersect(gaps):sum("dur") or took
          if device and lost < 0.3 * took then return end
          local inside = rows:with { hit = rows:overlap(slow) }:where("hit > 0")
          local top    = inside:top(1, "hit"):first()
          local name   = inside:has("name") and top.name or nil
          report {
            symptom     = symptom,
            score       = math.min(0.95, 0.6 + 0.35 * took / excess),
            share       = took / steps:sum("dur"),
            recoverable = math.tointeger(math.min(took, lost, excess) // 1),
            at          = { rank = rank, step = slow:first().step, name = name },
            message     = ("%d slow steps (above %s) hold %s of %s%s more than others, %s of what they take too long; "
              .. "the typical step has %s of it. %s"):format(k, units.format(bar), units.format(took), what,
              name and (" (%s)"):format(name:sub(1, 80)) or "", units.percent(math.min(1, took / excess)),
              units.format(usual), contradict),
            evidence    = { inside:top(5, "hit"), slow:top(3, "dur") },
          }
        end

        judged = true
        local tids  = {}
        for tid in gaps:where { state = "starved" }:group("tid") do tids[#tids + 1] = tid end
        local wants = case.thread_states:where { rank = rank, state = "runnable", tid = tids }
        blame("slow-steps-preempted", "a launching thread that wants a CPU",
          wants:intersect(gaps:where { state = "starved" }),
          "Only a runnable thread with an idle device counts, not one that sleeps")
      end
    end
    if not judged then skip(("at least %d steps: record more of them"):format(opt.min_steps + 1)) end
  end,
}
