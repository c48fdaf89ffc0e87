--- Steps that take clearly longer than the typical one, and what is blamed for it: how all detectors of slow steps
--- judge alike.

local slow_steps = {}

--- The options of a detector that calls `of` or `each`.
slow_steps.options = {
  min_steps = { default = 8,    doc = "Steps after the first below which nothing is judged" },
  mads      = { default = 5,    doc = "Median absolute deviations above the median from which on a step is slow" },
  min_over  = { default = 0.10, doc = "Share by which a slow step must exceed the median" },
  min_cost  = { default = 0.01, doc = "Share of the record that the slow steps must cost together" },
  explains  = { default = 0.50, doc = "Share of the excess that a cause must cover to be named" },
}

---@class culprit.SlowSteps  Times in ns.
---@field steps culprit.Table   all but the first, in order
---@field n integer             how many these are
---@field median number         duration of the typical step
---@field mad number            median absolute deviation of the durations
---@field bar number            duration above which a step is slow
---@field slow culprit.Table
---@field normal culprit.Table
---@field k integer             how many are slow
---@field excess number         what the slow steps take longer than typical ones, together
---@field cost boolean          whether some are slow, fewer than half are, and they cost enough to be asked about

--- The steps of one rank, slow and normal ones. The first is left out: it warms up. Nil when too few are recorded.
---@param opt table          values of slow_steps.options
---@param all culprit.Table  rows of case.steps of one rank
---@return culprit.SlowSteps?
function slow_steps.of(opt, all)
  local n = all:count() - 1
  if n < opt.min_steps then return nil end
  local s = { steps = all:sort("start"):slice(1, n), n = n }
  s.median = s.steps:median("dur")
  s.mad    = s.steps:col("dur"):robust_std() / 1.4826
  s.bar    = s.median + math.max(opt.mads * s.mad, opt.min_over * s.median)
  s.slow   = s.steps:where("dur > ?", s.bar)
  s.normal = s.steps:where("dur <= ?", s.bar)
  s.k      = s.slow:count()
  s.excess = s.slow:sum("dur") - s.k * s.median
  s.cost   = s.k > 0 and s.k * 2 < n and s.excess >= opt.min_cost * s.steps:sum("dur")
  return s
end

--- How much more of `rows` the slow steps cover than the typical one, summed over the slow steps, and what the typical
--- one covers; both in ns.
---@param s culprit.SlowSteps
---@param rows culprit.Table  intervals
---@return number more
---@return number usual
function slow_steps.more(s, rows)
  local usual, more = s.normal:overlap(rows):median() or 0, 0
  for _, covered in ipairs(s.slow:overlap(rows):values()) do more = more + math.max(0, covered - usual) end
  return more, usual
end

--- Calls `look(rank, blame, gaps)` for each rank with enough steps, with the gaps of its first device.
--- `blame(symptom, what, rows, contradict)` reports the symptom where slow steps hold more of `rows` than the typical
--- one, enough of what they take too long; `what` names the rows, `contradict` says what would speak against it.
--- True when there was such a rank.
---@param case culprit.Case
---@param look fun(rank: integer, blame: fun(symptom: string, what: string, rows: culprit.Table, contradict: string),
---  gaps: culprit.Table)
---@return boolean
function slow_steps.each(case, look)
  local opt, judged = case.options, false
  for rank, all in case.steps:group("rank") do
    local s = slow_steps.of(opt, all)
    if s then
      judged = true
      local device = case.windows:where { rank = rank }:first()
      local gaps   = case.gaps:where { rank = rank, device = device and device.device or 0 }

      local function blame(symptom, what, rows, contradict)
        if rows:count() == 0 or not s.cost then return end
        local took, usual = slow_steps.more(s, rows)
        if took < opt.explains * s.excess then return end
        -- What a busy device hid cost nothing.
        local lost = device and s.slow:intersect(rows):intersect(gaps):sum("dur") or took
        if device and lost < 0.3 * took then return end
        local inside = rows:with { hit = rows:overlap(s.slow) }:where("hit > 0")
        local top    = inside:top(1, "hit"):first()
        local name   = inside:has("name") and top.name or nil
        report {
          symptom     = symptom,
          score       = math.min(0.95, 0.6 + 0.35 * took / s.excess),
          share       = took / s.steps:sum("dur"),
          recoverable = math.tointeger(math.min(took, lost, s.excess) // 1),
          at          = { rank = rank, step = s.slow:first().step, name = name },
          message     = ("%d slow steps (above %s) hold %s of %s%s more than others, %s of what they take too long; "
            .. "the typical step has %s of it. %s"):format(s.k, units.format(s.bar), units.format(took), what,
            name and (" (%s)"):format(name:sub(1, 80)) or "", units.percent(math.min(1, took / s.excess)),
            units.format(usual), contradict),
          evidence    = { inside:top(5, "hit"), s.slow:top(3, "dur") },
        }
      end

      look(rank, blame, gaps)
    end
  end
  return judged
end

--- Host operators and ranges of a rank whose names match: Python frames, annotations and the like, but neither
--- operators nor steps.
---@param case culprit.Case
---@param rank integer
---@param globs string
---@return culprit.Table # name, start, stop
function slow_steps.called(case, rank, globs)
  return case.host_ops:where { rank = rank }:where("match(name, ?) and category != 'operator'", globs)
    :select("name", "start", "stop")
    :concat(case.ranges:where { rank = rank }:where("match(name, ?) and category != 'step'", globs)
    :select("name", "start", "stop"))
end

return slow_steps
