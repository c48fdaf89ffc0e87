--- ## What it detects
--- Labels of whole rows whose inputs fall into groups that lie apart: a row among the neighbours of a group that has
--- another label than they, of some group, again and again and at no border; labels that have nothing to do with
--- groups that are as many as they; and a last class of the table that is several groups, each as large as any other
--- class, where every other class is one.
---
--- ## Why it matters
--- What a model is told of a row is seldom looked at beside the row. A share of wrong classes raises no error and puts
--- a floor under the loss; classes that a table has no rows for, cut to its last one, make that one the most frequent
--- and teach it to be anything.
---
--- ## How to confirm
--- Look at ten rows of one class side by side; of the last class as many as it has groups.
---
--- ## Known false positives
--- Groups are those of the nearest neighbours (five a row, greedy modularity), and count only where of three neighbours
--- nearly none is of another group, and nothing lies between two groups: classes that overlap, images whose pixels tell
--- nothing, and numbers of few columns have none. Where classes have several kinds there are more groups than labels,
--- and nothing is said of wrong ones; nor where rows of another label lie together, at a border or off the middle, as
--- rare kinds do, where most have one label (rows that are told no class), or one label is that of one group (two names
--- of a thing). Labels that come from more than the one input (a second tensor, a graph, a task) are left out, but for
--- noise and times of a diffusion; so are mixed images, and a config that names noise of labels. Labels of something
--- else than the groups show where a group's rows of one label are nearer to each other, or are told right more often
--- than chance. An answer that is random by nature, as often wrong for each class, is the same as a wrong label. A
--- class of all that is left over (other, unknown), with kinds as frequent as classes and the last number, looks like
--- one that classes were cut to, unless the config names it.
---
--- ## References
--- https://doi.org/10.1103/PhysRevE.70.066111 (greedy modularity). A label that is wrong whatever the row is has wrong
--- neighbours as often as any row has, and is as often of each other class; where it is not, classes touch.

local elements = require("elements")

local LABELS = "match(name, 'batch.y|batch.*label|batch.*labels|batch.*target|batch.*targets|batch.*class|"
  .. "batch.*classes|batch.*class_id|batch.*class_ids|batch.*category') and match(dtype, 'int*|uint*')"
local TIMES = "batch.t|batch.*time|batch.*times|batch.*timestep|batch.*timesteps|batch.*sigma|batch.*sigmas|"
  .. "batch.*noise_level*"
local ROWS, COLUMNS, NEAR = 240, 256, 5 -- read at most; neighbours that make groups
local LEAST = 5 -- rows of a group or class that counts

--- A row of `width` values: all, or sixteen pieces of it that lie evenly over the whole.
local function row_of(tensor, row, width)
  if width <= 4096 then
    local x = tensor:values(row * width, width)
    if width <= COLUMNS then return x end
    local out = {}
    for i = 1, COLUMNS do out[i] = x[(i - 1) * width // COLUMNS + 1] end
    return out
  end
  local out = {}
  for piece = 0, 15 do
    for _, v in ipairs(tensor:values(row * width + piece * (width - 16) // 15, 16)) do out[#out + 1] = v end
  end
  return out
end

--- Whether values are drawn from a normal distribution of deviation 1, each by itself.
local function is_noise(tensor)
  local x = elements.of(tensor, 0, math.min(tensor.numel, 4096))
  local n, sum, square, beside = #x, 0, 0, 0
  for i, v in ipairs(x) do
    sum, square = sum + v, square + v * v
    if i > 1 then beside = beside + v * x[i - 1] end
  end
  return n >= 64 and math.abs(sum) < 5 * math.sqrt(n) and math.abs(square - n) < 5 * math.sqrt(2 * n)
    and math.abs(beside) < 5 * math.sqrt(n)
end

--- The one input of the rows that `labels` are of; nil where there is none, or what else labels may come from.
local function input_of(case, labels)
  local rows, found = labels.shape[1], nil
  local batch = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant }
    :where("match(name, 'batch.*') and numel > 1")
  for row in batch:rows() do
    local shape = row.shape or {}
    local float = row.dtype:glob("float*|bfloat*|uint8")
    if row.name == labels.name or float and #shape == 1 and shape[1] == rows and row.name:glob(TIMES) then -- no input
    elseif not float or row.zero_share == nil or shape[1] ~= rows or row.nonfinite > 0 then return nil
    elseif not (row.dtype:glob("float*") and row.name:glob("*noise*|*eps*|*x_0|*x0|*x_1|*x1|*z|*latent*")
      and is_noise(row)) then
      if found then return nil end
      found = row
    end
  end
  return found and found.numel / rows >= 16 and found or nil
end

--- Of a run: rows { x, label, batch } of dumped batches, and the labels of the first of them.
local function rows_of(case, name, run)
  local rows, first, batches, kinds = {}, nil, 0, {}
  local series = case.tensors:where(LABELS):where("zero_share is not null and step is not null and numel >= 8")
    :where { name = name, run = run }:sort("step")
  for labels in series:slice(0, 40):rows() do
    local n = labels.shape and math.floor(labels.shape[1] or 0) or 0
    local input = labels.numel == n and #rows < ROWS and input_of(case, labels)
    if input and (not first or input.name == first.input.name and input.numel / n == first.width) then
      first = first or { labels = labels, input = input, width = math.floor(input.numel / n), whole = true }
      batches = batches + 1
      for i, label in ipairs(labels:values(0, n)) do
        if #rows >= ROWS or label < 0 then -- a row that is told no class
          first.whole = false
        else
          rows[#rows + 1] = { x = row_of(input, i - 1, first.width), label = math.floor(label), batch = batches }
          kinds[rows[#rows].label] = true
        end
      end
    end
  end
  return rows, first, batches
end

--- Of each row the others, from the nearest on; and the squares of all distances.
local function neighbours(rows)
  local n, width = #rows, #rows[1].x
  local apart, near = {}, {}
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
  for i = 1, n do
    local order, far = {}, apart[i]
    for j = 1, n do if j ~= i then order[#order + 1] = j end end
    table.sort(order, function(a, b) return far[a] < far[b] or far[a] == far[b] and a < b end)
    near[i] = order
  end
  return near, apart
end

--- The rows that are like no row before them: a set that is gone through twice has each row twice.
local function distinct(rows)
  local known, out = {}, {}
  for _, row in ipairs(rows) do
    local key = {}
    for c = 1, math.min(16, #row.x) do key[c] = row.x[(c - 1) * #row.x // 16 + 1] end
    key = table.concat(key, " ")
    if not known[key] then known[key], out[#out + 1] = true, row end
  end
  return out
end

--- The group of each row: neighbours are linked, and groups are joined as long as that gains modularity.
local function groups_of(near)
  local n, links, degree, total = #near, {}, {}, 0
  for i = 1, n do links[i], degree[i] = {}, 0 end
  for i = 1, n do
    for k = 1, NEAR do
      local j = near[i][k]
      links[i][j], links[j][i] = (links[i][j] or 0) + 1, (links[j][i] or 0) + 1
      degree[i], degree[j], total = degree[i] + 1, degree[j] + 1, total + 2
    end
  end
  local alive, group = {}, {}
  for i = 1, n do alive[i], group[i] = i, i end
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
    if not one then break end
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
    for k = 1, n do if group[k] == j then group[k] = i end end
  end
  return group
end

--- Of groups: { rows, of (rows by label), closed (share of neighbours that are its own), label (of most rows) }.
local function described(rows, near, group)
  local groups, order, inside = {}, {}, 0
  for i, row in ipairs(rows) do
    local g = groups[group[i]]
    if not g then
      g = { id = group[i], rows = 0, of = {}, own = 0 }
      groups[group[i]], order[#order + 1] = g, g
    end
    g.rows, g.of[row.label] = g.rows + 1, (g.of[row.label] or 0) + 1
    for k = 1, 3 do
      if group[near[i][k]] == group[i] then g.own, inside = g.own + 1, inside + 1 end
    end
  end
  for _, g in ipairs(order) do
    g.closed, g.label = g.own / (3 * g.rows), nil
    for label, count in pairs(g.of) do
      if not g.label or count > g.of[g.label] or count == g.of[g.label] and label < g.label then g.label = label end
    end
  end
  return order, groups, inside / (3 * #rows)
end

--- Whether nothing lies between groups: of two that are nearest to each other the rows in the middle fifth of the way
--- from one centre to the other. Pieces of what is continuous have a tenth of their rows there, or more.
local function gaps_between(rows, group, chosen)
  local centers, list = {}, {}
  for i, row in ipairs(rows) do
    local g = chosen[group[i]] and group[i]
    if g and not centers[g] then
      centers[g], list[#list + 1] = { rows = {}, x = {} }, g
      for c = 1, #row.x do centers[g].x[c] = 0 end
    end
    if g then
      local one = centers[g]
      one.rows[#one.rows + 1] = row
      for c, v in ipairs(row.x) do one.x[c] = one.x[c] + v end
    end
  end
  for _, g in ipairs(list) do
    for c, v in ipairs(centers[g].x) do centers[g].x[c] = v / #centers[g].rows end
  end
  local between, all = 0, 0
  for _, g in ipairs(list) do
    local a, b, least = centers[g], nil, math.huge
    for _, h in ipairs(list) do
      local far = 0
      for c, v in ipairs(a.x) do far = far + (centers[h].x[c] - v) ^ 2 end
      if h ~= g and far < least then b, least = centers[h], far end
    end
    for _, one in ipairs(b and { a, b } or {}) do
      for _, row in ipairs(one.rows) do
        local way = 0
        for c, v in ipairs(row.x) do way = way + (v - a.x[c]) * (b.x[c] - a.x[c]) end
        all = all + 1
        if way > 0.4 * least and way < 0.6 * least then between = between + 1 end
      end
    end
  end
  return #list >= 2 and between <= 0.03 * all, between, all
end

--- Whether rows of one group are as far from each other where they have one label as where they have two: by how many
--- deviations the first are nearer than if the labels of a group were dealt out anew, of 100 times.
local function nearer_within(rows, group, apart_by)
  local members, list, labels = {}, {}, {}
  for i, row in ipairs(rows) do
    if not members[group[i]] then
      members[group[i]] = {}
      list[#list + 1] = members[group[i]]
    end
    table.insert(members[group[i]], i)
    labels[i] = row.label
  end
  local function same()
    local sum, count = 0, 0
    for _, one in ipairs(list) do
      for a = 2, #one do
        for b = 1, a - 1 do
          if labels[one[a]] == labels[one[b]] then sum, count = sum + apart_by[one[a]][one[b]], count + 1 end
        end
      end
    end
    return count > 0 and sum / count or 0
  end
  local own, mean, square, state = same(), 0, 0, 1
  for _ = 1, 100 do
    for _, one in ipairs(list) do
      for a = #one, 2, -1 do
        state = (state * 1103515245 + 12345) % 2147483648
        local i, j = one[a], one[1 + (state >> 8) % a]
        labels[i], labels[j] = labels[j], labels[i]
      end
    end
    local v = same()
    mean, square = mean + v / 100, square + v * v / 100
  end
  return (mean - own) / math.sqrt(math.max(square - mean * mean, 1e-30))
end

--- How many rows have another label than their group, of which each has one of its own; and whether it is wrong
--- wherever a row lies.
local function strewn(rows, near, group, groups, kinds, closed)
  local wrong, pairs_, labels, most = {}, {}, {}, 0
  for i, row in ipairs(rows) do
    local label = groups[group[i]].label
    if row.label ~= label then
      wrong[#wrong + 1], wrong[-i] = i, true
      local pair = label .. " " .. row.label
      pairs_[pair] = (pairs_[pair] or 0) + 1
      labels[row.label] = (labels[row.label] or 0) + 1
      most = math.max(most, pairs_[pair])
    end
  end
  local n, share = #wrong, #wrong / #rows
  if n < LEAST then return n, false end
  local beside, inside, met, largest = 0, 0, 0, 0
  for _, i in ipairs(wrong) do
    for k = 1, 3 do
      local j = near[i][k]
      if wrong[-j] then beside = beside + 1 end
      if group[j] == group[i] then inside = inside + 1 end
    end
  end
  for _, count in pairs(labels) do met, largest = met + 1, math.max(largest, count) end
  -- Wrong rows lie within their group, by themselves, and have any label: each within four deviations of chance.
  local function above(count, of, chance) return count > of * chance + 4 * math.sqrt(of * chance * (1 - chance)) + 1 end
  local touch = inside < math.min(closed, 0.98) * 3 * n - 1
  local lump = above(beside, 3 * n, share)
  local one = above(most, n, 1 / (kinds * (kinds - 1))) or above(largest, n, 1 / kinds) or met < 3 or met < kinds / 2
  return n, not (touch or lump or one)
end

--- Whether labels and groups have nothing to do with each other, by chi-square: as near as chance brings them.
local function unrelated(rows, order, sizes, kinds)
  local chi, n = 0, #rows
  for _, g in ipairs(order) do
    for label, count in pairs(sizes) do
      local expected = g.rows * count / n
      chi = chi + ((g.of[label] or 0) - expected) ^ 2 / expected
    end
  end
  local free = (#order - 1) * (kinds - 1)
  return chi <= free + 1.64 * math.sqrt(2 * free)
end

--- Whether something is right about classes more often than chance is, or costs well below what knowing nothing does:
--- such can be told from what is given.
local function learned(case, kinds)
  local losses = case.scalars:where { name = { "loss", "val_loss" }, primary = true }:where("finite(value)")
    :sort("-step")
  if losses:count() > 0 and losses:slice(0, 10):median("value") < 0.8 * math.log(kinds) then return true end
  local shares = case.scalars:where("name in ('accuracy', 'val_accuracy') and finite(value)"):sort("-step")
  for row in shares:slice(0, 20):rows() do
    if row.value > 1.5 / kinds and (row.value <= 1 or row.value > 150 / kinds) then return true end
  end
  return false
end

--- Whether each batch has as many rows of one group as of one label, label by label: rows that were mixed up.
local function same_counts(rows, group, batches)
  local of_labels, of_groups = {}, {}
  for i, row in ipairs(rows) do
    for _, one in ipairs({ { of_labels, row.label }, { of_groups, group[i] } }) do
      local counts = one[1][one[2]] or {}
      one[1][one[2]] = counts
      counts[row.batch] = (counts[row.batch] or 0) + 1
    end
  end
  local function sorted(of)
    local out = {}
    for _, counts in pairs(of) do
      local words = {}
      for b = 1, batches do words[b] = counts[b] or 0 end
      out[#out + 1] = table.concat(words, " ")
    end
    table.sort(out)
    return table.concat(out, ", ")
  end
  return sorted(of_labels) == sorted(of_groups)
end

--- The groups of the last class, where every other class is one: { groups, rows, others (rows of another class) }.
local function several(rows, group, order, sizes, last)
  local own, size, counted, others, whole, chosen = 0, 0, 0, 0, 0, {}
  for _, g in ipairs(order) do
    if g.label == last and g.of[last] == g.rows and g.rows >= LEAST and g.closed >= 0.9 then
      own, size, chosen[g.id] = own + 1, size + g.rows, true
    end
  end
  for label, count in pairs(sizes) do
    if label ~= last then
      local of, most = {}, 0
      for i, row in ipairs(rows) do
        if row.label == label then
          of[group[i]] = (of[group[i]] or 0) + 1
          most = math.max(most, of[group[i]])
        end
      end
      counted, others = counted + 1, others + count
      if most >= 0.9 * count or most >= count - 1 then whole = whole + 1 end
    end
  end
  if counted < 3 or own < 3 then return nil end
  local usual, each = others / counted, size / own
  local alike = each <= 3.5 * usual and usual <= 3.5 * each
  local frequent = sizes[last] - usual >= 4 * math.sqrt(usual) and sizes[last] >= 2 * usual
  local apart = gaps_between(rows, group, chosen)
  return whole >= 0.75 * counted and alike and frequent and apart and own or nil, usual
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Classes of rows are wrong, unrelated, or the last one holds several",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows", "category-ids-clamped" },
  options  = {
    wrong  = { default = 0.03, doc = "Share of rows with another label than their group, worth reporting" },
    closed = { default = 0.97, doc = "Share of three neighbours that have to be of the same group" },
    within = { default = 2.0,  doc = "Deviations by which rows of one label may be nearer within a group" },
    rows   = { default = 64,   doc = "Rows below which nothing is said" },
  },

  run = function(case)
    local opt = case.options
    local set = "(number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', ''))"
    local mixed = case.config:where("match(key, '*mixup*|*cutmix*|*label_noise*|*noisy_label*|*noise_rate|"
      .. "*symmetric_noise*|*random_label*|*shuffle_label*|*permute_label*')"):where(set):first()
    if mixed then return skip("labels of the rows as they are: the config has " .. mixed.key) end
    local looked = {} -- symptoms that could have been seen
    for name, labels in case.tensors:where(LABELS):where("zero_share is not null and step is not null"):group("name") do
      local rows, first, batches = rows_of(case, name, labels:first().run)
      local before = #rows
      rows = first and distinct(rows) or rows
      local whole = first and first.whole and before == #rows
      local sizes, kinds, last, few = {}, 0, -1, 0
      for _, row in ipairs(rows) do sizes[row.label] = (sizes[row.label] or 0) + 1 end
      for label, count in pairs(sizes) do
        kinds, last = kinds + 1, math.max(last, label)
        if count < LEAST then few = few + 1 end
      end
      if #rows >= opt.rows and kinds >= 3 and kinds <= #rows / 8 then
        local near, apart_by = neighbours(rows)
        local group = groups_of(near)
        local order, groups, closed = described(rows, near, group)
        local seen = ("%d rows of %s"):format(#rows, first.input.name)
        local own, met = 0, {}
        for _, g in ipairs(order) do
          if not met[g.label] then met[g.label], own = true, own + 1 end
        end
        -- As many groups as labels, and nothing between them.
        local apart = closed >= opt.closed and #order == kinds and few == 0 and gaps_between(rows, group, groups)
        local wrong, anywhere = 0, false
        if apart and own == kinds then
          wrong, anywhere = strewn(rows, near, group, groups, kinds, closed)
          anywhere = anywhere and nearer_within(rows, group, apart_by) < opt.within
          looked["labels-partly-wrong"] = wrong < math.max(LEAST, opt.wrong * #rows) or anywhere or nil
        end
        if apart and kinds >= 4 then
          looked["labels-unrelated"] = true
          looked["labels-of-other-rows"] = whole and batches >= 2 or nil
        end
        if anywhere and wrong >= opt.wrong * #rows then
          report {
            symptom  = "labels-partly-wrong",
            score    = 0.9,
            at       = { step = first.labels.step, name = name },
            message  = ("%s lie in %d groups, each with a label of %s of its own, but for %d rows (%s) that lie among "
              .. "the others of a group and have any other label: no class ends in the midst of another"):format(seen,
              kinds, name, wrong, units.percent(wrong / #rows)),
            evidence = { first.labels, first.input },
          }
        elseif apart and kinds >= 4 and unrelated(rows, order, sizes, kinds) and not learned(case, kinds)
          and nearer_within(rows, group, apart_by) < opt.within then
          local mixed_up = whole and batches >= 2 and same_counts(rows, group, batches)
          report {
            symptom  = mixed_up and "labels-of-other-rows" or "labels-unrelated",
            score    = mixed_up and 0.95 or 0.8,
            at       = { step = first.labels.step, name = name },
            message  = ("%s lie in %d groups, and %s has as many labels, which have nothing to do with them%s"):format(
              seen, kinds, name, mixed_up and (": of each label each of %d batches has as many rows as of one group, "
              .. "but other ones"):format(batches) or ""),
            evidence = { first.labels, first.input },
          }
          looked[mixed_up and "labels-unrelated" or "labels-of-other-rows"] = nil
        end
        local table_ = case.config:where("match(key, '*num_classes|*n_classes|*num_labels|classes|*.classes') and "
          .. "number == ?", last + 1):first()
        local kept = case.config:where("match(value, '*other*|*unknown*|*background*|*misc*|*rest*') and "
          .. "match(key, '*class*|*label*')"):first()
        if table_ and not kept and sizes[last] then
          local groups_, usual = several(rows, group, order, sizes, last)
          looked["category-ids-clamped"] = groups_ ~= nil or apart or nil
          if groups_ then
            report {
              symptom  = "category-ids-clamped",
              score    = 0.85,
              at       = { step = first.labels.step, name = name },
              message  = ("%d of %s have the last of %d classes, %d, and lie in %d groups or more; every other class "
                .. "has %.3g in the mean and is one group: classes beyond the last were made the last"):format(
                sizes[last], seen, last + 1, last, groups_, usual),
              evidence = { first.labels, first.input, table_ },
            }
          end
        end
      end
    end
    for _, symptom in ipairs({ "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows",
      "category-ids-clamped" }) do
      if not looked[symptom] then
        skip("labels of 64 rows or more, three classes at least, whose inputs lie in as many groups apart", symptom)
      end
    end
  end,
}
