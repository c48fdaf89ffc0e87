--- Statistics of Lua lists and counts. Those of columns are verbs: `column:median()`.

local statistics = {}

--- ln i! for i from 0 to n.
---@param n integer
---@return number[]  [0] is ln 0!
function statistics.log_factorials(n)
  local out, sum = { [0] = 0 }, 0
  for i = 1, n do
    sum = sum + math.log(i)
    out[i] = sum
  end
  return out
end

--- Fisher's exact test: the chance that two equal sides differ as much as `a` of `n` and `b` of `m`, two-sided. Takes
--- time in proportion to n + m.
---@param a integer
---@param n integer
---@param b integer
---@param m integer
---@return number  0 to 1
function statistics.fisher(a, n, b, m)
  local f, k = statistics.log_factorials(n + m), a + b
  local function p(x)
    return math.exp(f[n] - f[x] - f[n - x] + f[m] - f[k - x] - f[m - k + x] - (f[n + m] - f[k] - f[n + m - k]))
  end
  local seen, sum = p(a) * (1 + 1e-9), 0
  for x = math.max(0, k - m), math.min(n, k) do
    if p(x) <= seen then sum = sum + p(x) end
  end
  return math.min(1, sum)
end

--- How many standard deviations a ratio of variances is above that of chance (Fisher's F, made normal by Wilson and
--- Hilferty 1931).
---@param ratio number
---@param above number  degrees of freedom of the variance above the line
---@param below number
---@return number
function statistics.f_deviate(ratio, above, below)
  local f, p, q = ratio ^ (1 / 3), 2 / (9 * above), 2 / (9 * below)
  return ((1 - q) * f - (1 - p)) / math.sqrt(q * f * f + p)
end

--- How many standard deviations more pairs of values rise from the earlier to the later one than of a series without a
--- trend (Mann 1945, Kendall): below 0 where more fall. Of a long series, values at equal distances. Nil for fewer
--- than four.
---@param values number[]  in order
---@return number?
function statistics.trend(values)
  local stride, x = math.max(1, #values // 200), {}
  for i = 1, #values, stride do x[#x + 1] = values[i] end
  local n, rising = #x, 0
  if n < 4 then return nil end
  for i = 1, n - 1 do
    for k = i + 1, n do
      if x[k] > x[i] then rising = rising + 1 elseif x[k] < x[i] then rising = rising - 1 end
    end
  end
  return rising / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
end

--- The median of a list, which is sorted by it; of an even number of values the mean of the two in the middle. Nil for
--- an empty list.
---@param values number[]
---@return number?
function statistics.median(values)
  local n = #values
  if n == 0 then return nil end
  table.sort(values)
  return n % 2 == 1 and values[n // 2 + 1] or (values[n // 2] + values[n // 2 + 1]) / 2
end

--- ln of the softmax of some numbers, of their softmax where `twice`.
---@param x number[]
---@param twice boolean?
---@return number[]  in nats, of x's length
function statistics.log_softmax(x, twice)
  local top, total, out = -math.huge, 0, {}
  for _, v in ipairs(x) do top = math.max(top, v) end
  for _, v in ipairs(x) do total = total + math.exp(v - top) end
  for i, v in ipairs(x) do out[i] = v - top - math.log(total) end
  if not twice then return out end
  for i, v in ipairs(out) do out[i] = math.exp(v) end
  return statistics.log_softmax(out)
end

return statistics
