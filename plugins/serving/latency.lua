--- ## What it detects
--- One side (before and after, or any two variants) whose median or 95th percentile of the latency is higher, by
--- intervals of order statistics that do not meet. Within one side, latencies of two levels far apart, and the one
--- property of the requests that tells slow from quick: length of the prompt or answer, model, endpoint, status.
---
--- ## Why it matters
--- A mean hides that one request in twenty is slow; what these have in common is where to look.
---
--- ## How to confirm
--- Send the same requests again to both sides, in turn.
---
--- ## Known false positives
--- Long answers take longer: where the tokens of the answer explain the slow ones, nothing is said. Loads of different
--- hours differ, so compare like with like.
---
--- ## References
--- Conover (1999), Practical Nonparametric Statistics, 3.2: intervals of quantiles from the binomial distribution.

local ROWS = 10000

--- Likewise of rows that stand for several requests each: by their shares, with as many rows as would tell as much.
local function weighted_quantile(rows, q)
  local values, total, squares = {}, 0, 0
  for row in rows:sort("latency"):rows() do
    local weight = row.weight or 1
    total, squares = total + weight, squares + weight * weight
    table.insert(values, { latency = row.latency, upto = total })
  end
  local half = 2.576 * math.sqrt(q * (1 - q) * squares) / total
  local function at(share)
    if share < 0 or share >= 1 then return nil end
    for _, v in ipairs(values) do if v.upto > share * total then return v.latency end end
  end
  return at(q), at(q - half), at(q + half)
end

--- A quantile with its 99 % interval, by ranks: the k-th value of n lies above the q quantile with binomial chance.
local function quantile(rows, q)
  if rows:where("weight > 1"):count() > 0 then return weighted_quantile(rows, q) end
  local sorted, n = rows:sort("latency"), rows:count()
  local half   = 2.576 * math.sqrt(n * q * (1 - q))
  local low, high = math.floor(n * q - half), math.ceil(n * q + half)
  return rows:quantile("latency", q), low >= 0 and sorted:col("latency"):at(low) or nil,
    high < n and sorted:col("latency"):at(high) or nil
end

--- Where log latencies split best in two (Otsu): the first of the upper level, and the share of variance between.
local function two_levels(sorted)
  local n, sum, squares = #sorted, 0, 0
  for _, v in ipairs(sorted) do sum, squares = sum + v, squares + v * v end
  local total, left, best, at = squares - sum * sum / n, 0, 0, nil
  for i = 1, n - 1 do
    left = left + sorted[i]
    local between = (left - sum * i / n) ^ 2 * n / (i * (n - i))
    if sorted[i] < sorted[i + 1] and between > best then best, at = between, i + 1 end
  end
  return at, total > 0 and best / total or 0
end

--- What of the logarithm of the latency the length of the answer does not tell: longer answers take longer, which would
--- hide two levels. Nil without that length, by its tokens or else its bytes. By the median slope of pairs (Theil and
--- Sen), which a tenth of slow requests does not bend.
local function beyond_length(rows)
  for _, key in ipairs { "completion_tokens", "bytes" } do
    local known = {}
    for _, row in ipairs(rows) do
      if row[key] and row[key] > 0 then table.insert(known, row) end
    end
    if #known == #rows then
      local slopes, step = {}, math.max(1, #rows // 3)
      for i = 1, #rows do
        for _, ahead in ipairs { 1, step, 2 * step } do
          local other = rows[(i + ahead - 1) % #rows + 1]
          local dx = math.log(other[key]) - math.log(rows[i][key])
          if math.abs(dx) > 0.2 then
            table.insert(slopes, (math.log(other.latency) - math.log(rows[i].latency)) / dx)
          end
        end
      end
      if #slopes >= 10 then
        table.sort(slopes)
        -- An answer takes no longer than in proportion to its tokens; bytes hold a constant head besides.
        local slope, out = math.max(0, slopes[#slopes // 2 + 1]), {}
        if key == "completion_tokens" then slope = math.min(1, slope) end
        for i, row in ipairs(rows) do out[i] = math.log(row.latency) - slope * math.log(row[key]) end
        return out
      end
    end
  end
end

--- How the latency grows with the prompt among slow requests: the exponent, by the median slope of pairs, of what they
--- take beyond a quick one. 1 is in proportion, 2 the square. Nil where prompts are too few or too alike to tell.
local function growth(rows, from, quick)
  local slopes = {}
  for i = from, #rows do
    for k = i + 1, #rows do
      local a, b = rows[i], rows[k]
      local more_a, more_b = a.latency - quick, b.latency - quick
      if a.prompt_tokens and b.prompt_tokens and math.min(a.prompt_tokens, b.prompt_tokens) > 0
        and math.min(more_a, more_b) > 0 then
        local dx = math.log(b.prompt_tokens / a.prompt_tokens)
        if math.abs(dx) >= math.log(1.2) then table.insert(slopes, math.log(more_b / more_a) / dx) end
      end
    end
    if #slopes > 5000 then break end
  end
  if #slopes < 15 then return nil end
  table.sort(slopes)
  return slopes[#slopes // 2 + 1]
end

local function entropy(a, n)
  if a == 0 or a == n or n == 0 then return 0 end
  local p = a / n
  return -(p * math.log(p) + (1 - p) * math.log(1 - p))
end

--- The gain of the best question about one property, as a share of what there is to know, and the question.
local function gain(rows, key)
  local all, slow = #rows, 0
  for _, row in ipairs(rows) do if row.slow then slow = slow + 1 end end
  local whole, best, question = entropy(slow, all), 0, nil
  local function ask(n, s, text)
    if n == 0 or n == all then return end
    local g = whole - n / all * entropy(s, n) - (all - n) / all * entropy(slow - s, all - n)
    -- Of two sides of one question the slow one is named.
    if g > best + 1e-12 or (g > best - 1e-12 and s / n > slow / all) then
      best, question = g, { text = text, slow = s, n = n }
    end
  end
  if key == "prompt_tokens" or key == "completion_tokens" or key == "max_tokens" then
    local known = {}
    for _, row in ipairs(rows) do if row[key] then table.insert(known, row) end end
    if #known < 0.9 * all then return 0 end
    table.sort(known, function(a, b) return a[key] > b[key] end)
    local s = 0
    for i = 1, #known - 1 do
      if known[i].slow then s = s + 1 end
      if known[i][key] > known[i + 1][key] then ask(i, s, ("%s of %d or more"):format(key, known[i][key])) end
    end
  else
    local groups = {}
    for _, row in ipairs(rows) do
      if row[key] then
        local g = groups[row[key]] or { n = 0, s = 0 }
        g.n, g.s = g.n + 1, g.s + (row.slow and 1 or 0)
        groups[row[key]] = g
      end
    end
    for value, g in pairs(groups) do ask(g.n, g.s, ("%s %s"):format(key, tostring(value))) end
  end
  return whole > 0 and best / whole or 0, question
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One side is slower, or a few requests are",
  needs    = { requests = { "latency" } },
  symptoms = { "latency-differs", "latency-two-levels", "slow-requests-share-feature" },
  options  = {
    ratio = { default = 1.3,  doc = "Ratio of the two sides' quantiles worth reporting" },
    min   = { default = 40,   doc = "Requests a side below which no quantile is compared" },
    apart = { default = 3,    doc = "Ratio of the medians of two levels worth reporting" },
    gain  = { default = 0.6,  doc = "Share of the knowledge which are slow that one property must give" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local timed = case.requests:where("latency > 0")
    if timed:has("hop") then timed = timed:where { hop = timed:first().hop or "client" } end

    local sides = {}
    for name, rows in timed:group("variant") do
      if rows:count() >= opt.min then table.insert(sides, { name = name, rows = rows }) end
    end
    if #sides == 2 then
      judged = true
      for _, q in ipairs { 0.95, 0.5 } do
        local a, a_low, a_high = quantile(sides[1].rows, q)
        local b, b_low, b_high = quantile(sides[2].rows, q)
        local slow, quick = sides[1], sides[2]
        if b > a then
          a, a_low, a_high, b, b_low, b_high = b, b_low, b_high, a, a_low, a_high
          slow, quick = quick, slow
        end
        -- Longer answers take longer, and are no fault of the server.
        local more = (slow.rows:mean("completion_tokens") or 1)
          / math.max(quick.rows:mean("completion_tokens") or 1, 1e-9)
        if a_low and b_high and a_low > b_high and a >= opt.ratio * b and a / b >= 1.2 * more then
          report {
            symptom = "latency-differs", score = math.min(0.95, 0.6 + 0.2 * math.log(a / b)), at = { name = slow.name },
            message = ("%s: the %s of the latency is %s s (99 %% interval from %s), %s s (up to %s) on %s: %.1f times "
              .. "as long, over %d and %d requests"):format(slow.name, q == 0.5 and "median" or "95th percentile",
              units.number(a, 3), units.number(a_low, 3), units.number(b, 3), units.number(b_high, 3), quick.name,
              a / b,
              slow.rows:count(), quick.rows:count()),
            evidence = { slow.rows:top(3, "latency"), quick.rows:top(1, "latency") },
          }
          break
        end
      end
    end

    -- What is refused at once (4xx) is no quick answer.
    timed = timed:where("status is null or status < 400 or status >= 500")
    local rows, logs = {}, {}
    for row in timed:slice(0, ROWS):rows() do
      table.insert(rows, { latency = row.latency, prompt_tokens = row.prompt_tokens, model = row.model, row = row,
        completion_tokens = row.completion_tokens, bytes = row.bytes, endpoint = row.endpoint, status = row.status,
        variant = row.variant,
        method = row.method, max_tokens = row.max_tokens, attempt = row.attempt })
    end
    local beyond = #rows >= opt.min and beyond_length(rows) or nil
    for i, row in ipairs(rows) do row.level = beyond and beyond[i] or math.log(row.latency) end
    table.sort(rows, function(a, b) return a.level < b.level end)
    for i, row in ipairs(rows) do logs[i] = row.level end
    if #rows >= opt.min and timed:count() <= ROWS then
      judged = true
      local at, share = two_levels(logs)
      local few = at and math.min(at - 1, #rows - at + 1) or 0
      if at and share >= 0.75 and few >= math.max(3, 0.03 * #rows) then
        local quick, slow = rows[at // 2 + 1].latency, rows[(at + #rows) // 2].latency
        for i, row in ipairs(rows) do row.slow = i >= at end
        local answers = gain(rows, "completion_tokens")
        local apart = math.exp(logs[(at + #rows) // 2] - logs[at // 2 + 1])
        if apart >= opt.apart and slow > 1.5 * quick and answers < opt.gain then
          local text = ("%d of %d requests take %s s in the median, the others %s s"):format(#rows - at + 1, #rows,
            units.number(slow, 3), units.number(quick, 3))
          report { symptom = "latency-two-levels", score = 0.8, severity = "info", message = text,
            evidence = { rows[at].row, rows[#rows].row, rows[1].row } }
          local best, which
          for _, key in ipairs { "prompt_tokens", "model", "endpoint", "variant", "method", "max_tokens", "attempt" } do
            local g, question = gain(rows, key)
            if question and g >= opt.gain and (not best or g > best) then best, which = g, question end
          end
          -- The status is what came out; it is named where no property of the request tells.
          local g, question = gain(rows, "status")
          if not best and question and g >= opt.gain then best, which = g, question end
          if which then
            local hit, n = which.slow, which.n
            -- Long prompts take longer in proportion: worth knowing, and no fault by itself.
            local longer, shorter = rows[(at + #rows) // 2].prompt_tokens, rows[at // 2 + 1].prompt_tokens
            local fair = which.text:starts_with("prompt_tokens") and longer and shorter
              and apart <= longer / math.max(1, shorter)
            -- Where most of a quick answer is no prefill, the ratio hides how long prompts compare among themselves.
            local power = fair and growth(rows, at, quick)
            if power and power >= 1.5 then fair = false end
            local size = longer and shorter and which.text:starts_with("prompt_tokens")
              and ("; they have %.1f times the prompt tokens and take %.1f times as long"):format(longer
                / math.max(1, shorter), apart)
              .. (power and not fair and (", growing with their size to the power of %.1f"):format(power) or "")
              or ("; they take %.1f times as long"):format(apart)
            report {
              symptom = "slow-requests-share-feature", score = fair and 0.1 or math.min(0.95, 0.3 + 0.65 * best),
              severity = fair and "info" or "warning",
              message = ("what tells slow from quick is %s: %d of %d such requests are slow, %d of the %d others (%s "
                .. "of what there is to know)%s"):format(which.text, hit, n, #rows - at + 1 - hit, #rows - n,
                units.percent(best), size),
              evidence = { rows[at].row, rows[#rows].row },
            }
          end
        end
      end
    end
    if not judged then skip(("%d requests with latencies, or as many on each of two sides"):format(opt.min)) end
  end,
}
