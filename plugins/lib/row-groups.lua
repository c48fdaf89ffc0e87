--- Groups into which rows fall by their values alone: those of the nearest neighbours, by greedy modularity
--- (https://doi.org/10.1103/PhysRevE.70.066111). What labels the rows have is counted, and plays no part in it.

local row_groups = {}

local LINKS = 5 -- neighbours of a row that make groups
local CLOSE = 3 -- and that are looked at

---@class row_groups.Group
---@field id integer
---@field rows integer
---@field of table<integer, integer>  how many have each label
---@field label integer               that most have
---@field closed number               share of their neighbours that are in the group

---@class row_groups.Found
---@field rows labelled.Row[]
---@field near integer[][]   of each row the others, from the nearest on
---@field apart number[][]   squares of distances
---@field ids integer[]      of each row its group
---@field list row_groups.Group[]
---@field by_id table<integer, row_groups.Group>
---@field closed number      share of all neighbours that are in the row's group

--- The squares of all distances.
local function distances(rows)
  local n, width, apart = #rows, #rows[1].x, {}
  for i = 1, n do apart[i] = {} end
  for i = 1, n do
    local a = rows[i].x
    for j = i + 1, n do
      local b, sum = rows[j].x, 0
      for c = 1, width do
        local d = a[c] - b[c]
        sum = sum + d * d
      end
      apart[i][j], apart[j][i] = sum, sum
    end
  end
  return apart
end

--- Of each row the others, from the nearest on.
local function neighbours(apart)
  local near = {}
  for i, far in ipairs(apart) do
    local order = {}
    for j = 1, #apart do if j ~= i then order[#order + 1] = j end end
    table.sort(order, function(a, b) return far[a] < far[b] or far[a] == far[b] and a < b end)
    near[i] = order
  end
  return near
end

--- How often two rows are neighbours, how often one row is in any such pair, and the number of all.
local function links_of(near)
  local links, degree, total = {}, {}, 0
  for i = 1, #near do links[i], degree[i] = {}, 0 end
  for i = 1, #near do
    for k = 1, LINKS do
      local j = near[i][k]
      links[i][j], links[j][i] = (links[i][j] or 0) + 1, (links[j][i] or 0) + 1
      degree[i], degree[j], total = degree[i] + 1, degree[j] + 1, total + 2
    end
  end
  return links, degree, total
end

--- The group of each row: groups are joined as long as that gains modularity, the two that gain most first.
local function joined(near)
  local links, degree, total = links_of(near)
  local alive, group = {}, {}
  for i = 1, #near do alive[i], group[i] = i, i end
  while true do
    local most, one, other = 1e-12, nil, nil
    for a = 1, #alive do
      local i = alive[a]
      for b = a + 1, #alive do
        local between = links[i][alive[b]]
        local gain = between and between / total - degree[i] * degree[alive[b]] / total ^ 2
        if gain and gain > most then most, one, other = gain, a, b end
      end
    end
    if not one then return group end
    local i, j = alive[one], alive[other]
    for _, k in ipairs(alive) do
      local more = links[j][k]
      if more and k ~= i and k ~= j then
        links[i][k] = (links[i][k] or 0) + more
        links[k][i] = links[i][k]
      end
    end
    degree[i] = degree[i] + degree[j]
    table.remove(alive, other)
    for k = 1, #near do if group[k] == j then group[k] = i end end
  end
end

--- The label that most rows of a group have; of several the smallest.
local function commonest(of)
  local label
  for other, count in pairs(of) do
    if not label or count > of[label] or count == of[label] and other < label then label = other end
  end
  return label
end

---@param rows labelled.Row[]
---@return row_groups.Found
function row_groups.of(rows)
  local apart = distances(rows)
  local near  = neighbours(apart)
  local ids   = joined(near)
  local list, by_id, own, inside = {}, {}, {}, 0
  for i, row in ipairs(rows) do
    local id = ids[i]
    if not by_id[id] then
      by_id[id], own[id] = { id = id, rows = 0, of = {} }, 0
      list[#list + 1] = by_id[id]
    end
    local group = by_id[id]
    group.rows, group.of[row.label] = group.rows + 1, (group.of[row.label] or 0) + 1
    for k = 1, CLOSE do
      if ids[near[i][k]] == id then own[id], inside = own[id] + 1, inside + 1 end
    end
  end
  for _, group in ipairs(list) do
    group.closed, group.label = own[group.id] / (CLOSE * group.rows), commonest(group.of)
  end
  return { rows = rows, near = near, apart = apart, ids = ids, list = list, by_id = by_id,
    closed = inside / (CLOSE * #rows) }
end

--- The rows of some groups and their centres: a list of { rows, x }.
local function centers_of(found, chosen)
  local by_id, list = {}, {}
  for i, row in ipairs(found.rows) do
    local id = found.ids[i]
    if chosen[id] then
      local one = by_id[id]
      if not one then
        one = { rows = {}, x = {} }
        by_id[id], list[#list + 1] = one, one
        for c = 1, #row.x do one.x[c] = 0 end
      end
      one.rows[#one.rows + 1] = row
      for c, v in ipairs(row.x) do one.x[c] = one.x[c] + v end
    end
  end
  for _, one in ipairs(list) do
    for c, v in ipairs(one.x) do one.x[c] = v / #one.rows end
  end
  return list
end

--- The nearest other centre, and the square of its distance.
local function nearest(list, one)
  local best, least = nil, math.huge
  for _, other in ipairs(list) do
    local far = 0
    for c, v in ipairs(one.x) do far = far + (other.x[c] - v) ^ 2 end
    if other ~= one and far < least then best, least = other, far end
  end
  return best, least
end

--- Whether nothing lies between groups: of two that are nearest to each other the rows in the middle fifth of the way
--- from one centre to the other. Pieces of what is continuous have a tenth of their rows there, or more.
---@param found row_groups.Found
---@param chosen table<integer, any>  ids of the groups that are looked at
---@return boolean
function row_groups.gaps(found, chosen)
  local list, between, all = centers_of(found, chosen), 0, 0
  for _, a in ipairs(list) do
    local b, least = nearest(list, a)
    for _, one in ipairs(b and { a, b } or {}) do
      for _, row in ipairs(one.rows) do
        local way = 0
        for c, v in ipairs(row.x) do way = way + (v - a.x[c]) * (b.x[c] - a.x[c]) end
        all = all + 1
        if way > 0.4 * least and way < 0.6 * least then between = between + 1 end
      end
    end
  end
  return #list >= 2 and between <= 0.03 * all
end

--- By how many deviations rows of one label are nearer to each other within their groups than if the labels of a group
--- were dealt out anew, of 100 times.
---@param found row_groups.Found
---@return number
function row_groups.nearer_within(found)
  local members, list, labels = {}, {}, {}
  for i, row in ipairs(found.rows) do
    local id = found.ids[i]
    if not members[id] then
      members[id] = {}
      list[#list + 1] = members[id]
    end
    table.insert(members[id], i)
    labels[i] = row.label
  end
  local function apart_with_one_label()
    local sum, count = 0, 0
    for _, one in ipairs(list) do
      for a = 2, #one do
        for b = 1, a - 1 do
          if labels[one[a]] == labels[one[b]] then sum, count = sum + found.apart[one[a]][one[b]], count + 1 end
        end
      end
    end
    return count > 0 and sum / count or 0
  end
  local state = 1
  local function deal()
    for _, one in ipairs(list) do
      for a = #one, 2, -1 do
        state = (state * 1103515245 + 12345) % 2147483648
        local i, j = one[a], one[1 + (state >> 8) % a]
        labels[i], labels[j] = labels[j], labels[i]
      end
    end
  end
  local own, mean, square = apart_with_one_label(), 0, 0
  for _ = 1, 100 do
    deal()
    local v = apart_with_one_label()
    mean, square = mean + v / 100, square + v * v / 100
  end
  return (mean - own) / math.sqrt(math.max(square - mean * mean, 1e-30))
end

return row_groups
