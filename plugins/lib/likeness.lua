--- Whether members of a group are more alike than those of different groups, by many figures at once.

local likeness = {}

--- Ranks of the members by each figure, ties in the middle, with a mean of 0 and a variance of 1; figures in which all
--- are the same are left out.
local function ranked(members)
  local names, columns, n = {}, {}, #members
  for name in pairs(members[1].of) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local order = {}
    for i = 1, n do order[i] = i end
    table.sort(order, function(a, b)
      local x, y = members[a].of[name], members[b].of[name]
      return x < y or x == y and a < b
    end)
    local column, from, square = {}, 1, 0
    for i = 1, n do
      local last = i == n or members[order[i + 1]].of[name] ~= members[order[i]].of[name]
      if last then
        local rank = (from + i) / 2 - (n + 1) / 2
        for k = from, i do column[order[k]] = rank end
        square = square + (i - from + 1) * rank * rank
        from = i + 1
      end
    end
    if square > 0 then
      local by = 1 / math.sqrt(square / n)
      for i = 1, n do column[i] = column[i] * by end
      columns[#columns + 1] = column
    end
  end
  return columns
end

--- By how many standard deviations groups differ beyond what members dealt out at random would give, and how much more
--- alike members of one group are, as a share of what they could be. All figures are held together: what lies between
--- groups is a trace whose mean and variance over all deals are known (Kazi-Aoual et al. 1995), and its deviate is that
--- of a chi-square with these (Wilson and Hilferty 1931). Figures must be the same for all members.
---@param members { group: integer, of: table<string, number> }[]  groups are numbered from 1 on
---@return number sure  0 where there is nothing to tell
---@return number alike
---@return integer farthest  the group that is farthest from all members
function likeness.within(members)
  local columns, n = ranked(members), #members
  local sizes, k = {}, 0
  for _, m in ipairs(members) do
    if not sizes[m.group] then k = k + 1 end
    sizes[m.group] = (sizes[m.group] or 0) + 1
  end
  if #columns == 0 or n < 4 or k < 2 or k >= n then return 0, 0, 1 end
  local between, trace, square, diagonal, of_group, farthest = 0, 0, 0, 0, {}, 1
  for _, column in ipairs(columns) do
    local sums = {}
    for i, m in ipairs(members) do sums[m.group] = (sums[m.group] or 0) + column[i] end
    for group = 1, k do of_group[group] = (of_group[group] or 0) + sums[group] ^ 2 / sizes[group] end
  end
  for group = 1, k do
    between = between + of_group[group]
    if of_group[group] / sizes[group] > of_group[farthest] / sizes[farthest] then farthest = group end
  end
  for i = 1, n do
    local own = 0
    for _, column in ipairs(columns) do own = own + column[i] * column[i] end
    trace, diagonal = trace + own, diagonal + own * own
  end
  for a = 1, #columns do
    for b = a, #columns do
      local own, x, y = 0, columns[a], columns[b]
      for i = 1, n do own = own + x[i] * y[i] end
      square = square + (a == b and 1 or 2) * own * own
    end
  end
  -- The same of the projection on the means of groups.
  local u, r = k - 1, 0
  for _, size in ipairs(sizes) do r = r + size * (1 / size - 1 / n) ^ 2 end
  local mean = trace * u / (n - 1)
  local variance = 2 * ((n - 1) * square - trace ^ 2) * ((n - 1) * u - u * u) / ((n - 1) ^ 2 * (n + 1) * (n - 2))
    + (n * (n + 1) * diagonal - (n - 1) * (trace ^ 2 + 2 * square)) * (n * (n + 1) * r - (n - 1) * (u * u + 2 * u))
    / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
  if variance <= 0 then return 0, 0, farthest end
  local spread = variance / (9 * mean * mean) -- 2 / 9 of the degrees of freedom
  local sure   = ((between / mean) ^ (1 / 3) - 1 + spread) / math.sqrt(spread)
  local squares = 0
  for _, size in ipairs(sizes) do squares = squares + size * size end
  local size = (n - squares / n) / (k - 1)
  local above, below = between / (k - 1), (trace - between) / (n - k)
  return sure, (above - below) / (above + (size - 1) * below), farthest
end

return likeness
