--- ## What it detects
--- Traffic that is not what it was: of requests in the order of their arrival, the point from which on lengths of
--- prompts or answers, or the writing of the prompts, have another distribution; by the Kolmogorov-Smirnov distance and
--- the population stability index (PSI) of before and after.
---
--- ## Why it matters
--- Latency, memory and quality follow the requests. What looks like a regression of the server may be other requests.
---
--- ## How to confirm
--- Compare latency or errors among requests of one length, before and after.
---
--- ## Known false positives
--- Day and night differ, and a batch job that runs once is a drift too: it is a warning, and says when. Fewer than 200
--- requests are not judged.
---
--- ## References
--- Kolmogorov-Smirnov: Conover (1999), Practical Nonparametric Statistics, 6.3
--- PSI above 0.25 as a large shift: Siddiqi (2006), Credit Risk Scorecards

local ROWS, BINS = 10000, 10

--- Largest distance of the distribution functions of values[1..k] and values[k+1..n], by ranks.
local function ks(order, k, n)
  local left, right, most = 0, 0, 0
  for i, item in ipairs(order) do
    if item.at <= k then left = left + 1 else right = right + 1 end
    local following = order[i + 1]
    if not following or following.value ~= item.value then
      most = math.max(most, math.abs(left / k - right / (n - k)))
    end
  end
  return most
end

--- PSI of the values after `k` over deciles of those before.
local function psi(values, k)
  local before = {}
  for i = 1, k do before[i] = values[i] end
  table.sort(before)
  local edges = {}
  for b = 1, BINS - 1 do
    local edge = before[math.max(1, math.floor(b * k / BINS + 0.5))]
    if edge ~= edges[#edges] then table.insert(edges, edge) end
  end
  local function shares(first, last)
    local out = {}
    for b = 1, #edges + 1 do out[b] = 0 end
    for i = first, last do
      local b = 1
      while b <= #edges and values[i] > edges[b] do b = b + 1 end
      out[b] = out[b] + 1
    end
    for b = 1, #out do out[b] = (out[b] + 0.5) / (last - first + 1 + 0.5 * #out) end
    return out
  end
  local a, b, sum = shares(1, k), shares(k + 1, #values), 0
  for i = 1, #a do sum = sum + (b[i] - a[i]) * math.log(b[i] / a[i]) end
  return sum
end

local function median(values, first, last)
  local part = {}
  for i = first, last do table.insert(part, values[i]) end
  table.sort(part)
  return part[(#part + 1) // 2]
end

--- Share of letters that are not Latin, in the first characters of a prompt.
local function foreign(prompt)
  local letters, latin = 0, 0
  local head = prompt:sub(1, 400)
  for i = 1, #head do
    local c = head:byte(i)
    if c >= 0xc3 and c <= 0xf4 and c > 0xcb then
      letters = letters + 1 -- lead byte of a letter beyond Latin
    elseif c >= 65 and c <= 90 or c >= 97 and c <= 122 or c >= 0xc3 and c <= 0xcb then
      letters, latin = letters + 1, latin + 1
    end
  end
  if letters >= 5 then return (letters - latin) / letters end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The requests are of another kind from some moment on",
  needs    = { requests = { "at" } },
  symptoms = { "traffic-drifts" },
  options  = {
    min  = { default = 200,  doc = "Requests below which nothing is judged" },
    part = { default = 50,   doc = "Requests on either side of the change" },
    ks   = { default = 0.3,  doc = "Kolmogorov-Smirnov distance worth reporting" },
    psi  = { default = 0.25, doc = "Population stability index worth reporting" },
  },

  run = function(case)
    local opt = case.options
    local rows = case.requests:where("at is not null"):sort("at")
    if rows:has("hop") then rows = rows:where { hop = rows:first().hop or "client" } end
    if rows:has("attempt") then rows = rows:where("attempt is null or attempt == 1") end
    if rows:count() > ROWS then rows = rows:slice(rows:count() - ROWS, ROWS) end
    if rows:count() < opt.min then
      return skip(("%d requests with times of arrival and tokens or texts"):format(opt.min))
    end
    local series = {
      { name = "tokens of the prompts", get = function(r) return r.prompt_tokens end },
      { name = "tokens of the answers", get = function(r) return r.completion_tokens end },
      { name = "share of letters that are not Latin in the prompts", get = function(r) return r.prompt and
        foreign(r.prompt) end },
    }
    local judged, best = false, nil
    for _, one in ipairs(series) do
      local values, from = {}, {}
      for row in rows:rows() do
        local value = one.get(row)
        if value then
          table.insert(values, value)
          table.insert(from, row)
        end
      end
      local n = #values
      if n >= opt.min then
        judged = true
        local order, at, most = {}, nil, 0
        for i, value in ipairs(values) do order[i] = { at = i, value = value } end
        table.sort(order, function(a, b) return a.value < b.value end)
        local function try(k)
          if k >= opt.part and n - k >= opt.part then
            -- The distance of a small part is large by chance: weigh it by what chance allows.
            local weighed = ks(order, k, n) * math.sqrt(k * (n - k) / n)
            if weighed > most then at, most = k, weighed end
          end
        end
        for step = 1, 19 do try(math.floor(step * n / 20)) end
        local coarse = at or 0
        for k = coarse - n // 20, coarse + n // 20, math.max(1, n // 400) do try(k) end
        local d = at and ks(order, at, n) or 0
        -- P(sqrt(k (n - k) / n) D > 2.8) = 2 exp(-2 * 2.8^2) = 3e-7 by chance, over 60 places and three series 1e-4
        -- at most.

        if at and most >= 2.8 and d >= opt.ks then
          local shift = psi(values, at)
          if shift >= opt.psi and (not best or d > best.d) then
            best = { name = one.name, d = d, psi = shift, at = at, n = n, row = from[at + 1], first = from[1],
              before = median(values, 1, at), after = median(values, at + 1, n) }
          end
        end
      end
    end
    if not judged then return skip(("prompt_tokens, completion_tokens or the prompts of %d requests"):format(opt.min))
      end
    if best then
      report {
        symptom = "traffic-drifts", score = math.min(0.95, 0.6 + 0.4 * best.d), severity = "warning",
        at = { name = best.row.id },
        message = ("%s change about request %d of %d, %s s after the first: median %s before and %s after, distance "
          .. "of the "
          .. "distributions %s (KS), PSI %s"):format(best.name, best.at + 1, best.n,
          units.number(best.row.at - best.first.at, 4), units.number(best.before, 3), units.number(best.after, 3),
          units.number(best.d, 2), units.number(best.psi, 2)),
        evidence = { best.first, best.row },
      }
    end
  end,
}
