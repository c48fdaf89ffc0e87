--- Buffers of gradients that are cleared every few steps, told by the norms of all steps alone.

local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")

local clearing = {}

--- What makes gradients longer or shorter with a period of its own: rows sorted by length, weights that are averaged or
--- set back, norms of single pieces of a step, several tasks or sources of data in turn.
local PERIODIC = "*group_by_length*|*length_group*|*bucket*|*sort*|*lookahead*|*local_sgd*|*local_steps*|*diloco*|"
  .. "*inner_steps*|*sync_every*|*slowmo*|*bptt*|*target_update*|*tasks*|*num_task*|*n_task*|*multitask*|"
  .. "*multi_task*|*task_weight*|*task_sampl*|*domain*|*mixture*"

-- Of distances between positions, of hashes and of messages, which have no order of rows.
local OTHER_BUCKETS = "*attention*bucket*|*position*bucket*|*hash*|*bucket_cap*|*gather_bucket*|*reduce_bucket*|"
  .. "*prefetch_bucket*"

--- Whether values have a period: from one place in it to another they differ by more than at one and the same. Trends
--- are taken off by the mean of a period around each.
---@param y number[]
---@param period integer
---@return boolean
local function has_period(y, period)
  local sum, square, count, all = {}, {}, {}, 0
  for i = period, #y - period do
    local mean = 0
    for k = i - period // 2, i - period // 2 + period - 1 do mean = mean + y[k] / period end
    local place, off = i % period, y[i] - mean
    sum[place], square[place] = (sum[place] or 0) + off, (square[place] or 0) + off * off
    count[place], all = (count[place] or 0) + 1, all + 1
  end
  local between, within = 0, 0
  for place, n in pairs(count) do
    between = between + sum[place] ^ 2 / n
    within  = within + square[place] - sum[place] ^ 2 / n
  end
  -- The ratio of both is 1 by chance, give or take this much.
  local free, left = period - 1, all - period
  if left < period then return false end
  return between / free > (1 + 4 * math.sqrt(2 / free + 2 / left)) * math.max(within / left, 1e-12)
end

--- Whether one value is below all others around it.
---@param x number[]
---@param i integer
---@param reach integer  how many on either side
---@return boolean
local function lowest(x, i, reach)
  for k = math.max(1, i - reach), math.min(#x, i + reach) do
    if k ~= i and x[k] <= x[i] then return false end
  end
  return true
end

--- Whether these grow over two steps, and stay there: a buffer that is clipped at each step stops growing. What comes
--- by turns is as long at once.
---@param since number[]
---@return boolean
local function grows_and_stays(since)
  local least = math.huge
  for k = 2, #since do least = math.min(least, since[k]) end
  return since[2] >= 1.5 * since[1] and least >= since[1]
end

--- How likely `some` of `all` and more are where each is so with one and the same probability.
---@param all integer
---@param some integer
---@param each number
---@return number
local function by_chance(all, some, each)
  local sum, ways = 0, 1
  for k = 0, all do
    if k > 0 then ways = ways * (all - k + 1) / k end
    if k >= some then sum = sum + ways * each ^ k * (1 - each) ^ (all - k) end
  end
  return sum
end

--- Whether the medians of what came since a fall, one step later and so on, grow as a sum does: a power of the number
--- of steps grows at least half as much behind its second step as it does to there, and in both halves of that way.
---@param since number[]
---@return boolean
local function grows_on(since)
  local n = #since
  local half = (n + 1) // 2
  local early, late = 0, 0
  for i = 1, half do early = early + since[i] / half end
  for i = n - half + 1, n do late = late + since[i] / half end
  return since[n] - since[1] >= 0.5 * since[1] and late > early
end

--- Where the norm of every step is on record: whether it comes back at a fixed distance, at once, and goes up again
--- from the next step on to the next place, while loss and rate do neither. Between two places at which a buffer is
--- cleared it holds the sum of the gradients since, and right behind one of them a single gradient.
---@param case culprit.Case
---@param opt table  long, falls, climb, chance: options of training/gradient-accumulates
---@return { rows: culprit.Table, message: string }?
function clearing.in_turns(case, opt)
  local pieces = settings.accumulation(case):max("number") or 1
  if pieces > 1 or settings.on(case.config:where("match(key, ?)", PERIODIC):where("not match(key, ?)",
    OTHER_BUCKETS)):count() > 0 then
    return nil
  end
  local norms = runs.series(case, "grad_norm"):distinct("step")
  local rows  = norms:with { norm = "value" }:select("step", "norm")
    :join(runs.series(case, "loss"):distinct("step"):with { loss = "value" }:select("step", "loss"), { "step" })
    :join(runs.series(case, "lr"):distinct("step"):with { rate = "value" }:select("step", "rate"), { "step" })
    :sort("step")
  rows = rows:slice(math.max(0, rows:count() - 4096), 4096)
  local n = rows:count()
  if n < opt.long or rows:last().step - rows:first().step ~= n - 1 or rows:min("norm") <= 0 or rows:min("loss") <= 0
    or rows:min("rate") <= 0 then
    return nil
  end
  local x, y, r, steps = {}, {}, {}, {}
  for row in rows:rows() do
    x[#x + 1], y[#y + 1], r[#r + 1] = math.log(row.norm), math.log(row.loss), math.log(row.rate)
    steps[#steps + 1] = row.step
  end
  local sizes, moves = {}, {}
  for i = 2, n do sizes[i - 1], moves[i - 1] = math.abs(x[i] - x[i - 1]), math.abs(y[i] - y[i - 1]) end
  local least = math.max(opt.falls, 3 * statistics.median(sizes))
  local usual = statistics.median(moves)
  local falls = {}
  for i = 2, n do falls[i] = x[i] - x[i - 1] <= -least end
  -- How many there are from a row on: the first rows of a run fall and rise on their own.
  local since = { [n + 1] = 0 }
  for i = n, 2, -1 do since[i] = since[i + 1] + (falls[i] and 1 or 0) end

  local function growth(phase, period)
    local since_fall = {}
    for k = 1, period - 1 do
      local values = {}
      for i = phase, n - k, period do values[#values + 1] = x[i + k] - x[i] end
      since_fall[k] = statistics.median(values)
    end
    return since_fall
  end

  for period = 4, math.min(256, n // 6) do
    for phase = 2, period + 1 do
      local places, fallen, climbs, ways, losses, rates = 0, 0, {}, {}, {}, {}
      for i = phase, n - 3, period do
        places = places + 1
        if falls[i] then fallen = fallen + 1 end
        climbs[places], ways[places] = x[i + 1] - x[i], x[i + 3] - x[i]
        losses[places], rates[places] = math.abs(y[i] - y[i - 1]), math.abs(r[i] - r[i - 1])
      end
      -- One period is all there is to it: as many falls elsewhere would be noise, or a shorter one.
      local back, held = places >= 6 and fallen >= 0.85 * places and since[phase] - fallen <= 0.25 * places, false
      -- Noise hides falls, and yet it puts the lowest norm of many to the places of one period from the first step on
      -- hardly ever, in all the periods that are tried.
      if not back and places >= 6 and period >= 8 and phase == period + 1 and steps[1] <= 1 then
        local low, reach = 0, math.min(12, period // 2)
        for i = phase, n - 3, period do low = low + (lowest(x, i, reach) and 1 or 0) end
        held   = by_chance(places, low, 1 / (2 * reach + 1)) * (n // 6) < opt.chance
        fallen = held and low or fallen
      end
      if back or held then
        local climb = statistics.median(climbs)
        if climb >= opt.climb and statistics.median(ways) >= opt.climb and statistics.median(rates) < 0.1
          and statistics.median(losses) <= 2 * usual
          and (grows_on(growth(phase, period)) or held and grows_and_stays(growth(phase, period)))
          and not has_period(y, period)
        then
          return { rows = norms:where("step >= ? and step <= ?", steps[phase] - 1, steps[phase] + 1),
            message = ("the gradient norm comes back at %d of %d places that are %d steps apart, first at step %d from "
              .. "%.3g to %.3g, and is %.2g times as long one step later, while the loss does nothing there: between "
              .. "them old gradients stay in the buffers"):format(fallen, places, period, steps[phase],
              math.exp(x[phase - 1]), math.exp(x[phase]), math.exp(climb)) }
        end
      end
    end
  end
end

return clearing
