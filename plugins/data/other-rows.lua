--- ## What it detects
--- Labels that follow the inputs of the row beside and not those of their own row: numbers of the two (how long each
--- is, the value or the class of a label, how often it has a word or a class of pixels; the columns of an input, or its
--- means along the others) are held against each other row by row, and once more with the labels moved by a row or two.
--- What is said of a picture or a sound is its label where there is no other, and the future that of a past.
---
--- ## Why it matters
--- A list that has lost a row, or one of two that was shuffled or rolled, gives each input the label of a neighbour. No
--- shape is wrong, nothing is raised, and the best that a model can learn is a constant.
---
--- ## How to confirm
--- Look at five inputs beside their labels.
---
--- ## Known false positives
--- Windows of one series that follow each other: what is to be said of one stands in the next one. Where most labels,
--- or half of the inputs, stand in the row that they are held against, nothing is said; windows that neither overlap
--- nor can be told ahead from their own values would be accused. Nor is anything said where the rows themselves follow
--- each other, as the steps of a trajectory or the nodes of a graph: by names of what such batches have, or where
--- figures of the input are related to those of the row beside, or the loss comes to less than half of what the best
--- constant has. What is related in no simple way is not seen.
---
--- ## References
--- Spearman's rank correlation of n independent rows r gives atanh(r) sqrt(n - 3), near a normal number of deviation 1;
--- the largest of some thousand of them is seldom above 4.5.

local elements = require("elements")
local learning = require("learning")

local LABELS = "match(name, 'batch.label*|batch.target*|batch.y|batch.text*|batch.transcript*|batch.score*|"
  .. "batch.click*|batch.tgt*|batch.caption*|batch.future_target|batch.future_values|*.labels') "
  .. "and not match(name, '*mask*|*hash*|*weight*')"
-- What is said of a picture or a sound is its label, where there is no other.
local SAID = "match(name, 'batch.input_ids|batch.*caption*_ids|batch.text_ids|batch.tokens') and match(dtype, 'int*')"
local SEEN = "match(name, 'batch.*pixel*|batch.*image*|batch.*audio*|batch.*video*|batch.*feature*|batch.*signal*') "
  .. "and match(dtype, 'float*|bfloat*|uint8')"
local NOT_INPUTS = "(match(name, '*past*') or not match(name, '*target*')) and "
  .. "not match(name, '*label*|batch.future_values|*observed*|batch.y|batch.y_*|*text*|*transcript*|*score*|*click*|"
  .. "*tgt*|*caption*|*hash*|*weight*|*reward*|*noise*|*domain*|*.id|*index|*indices|*.ids|*input_ids|"
  .. "*position*|*type_ids|*seed*|*group*')"
local COLUMNS = 24    -- figures of a tensor, at most
local VALUES  = 16384 -- values of a row, at most

--- How often each row has the ids that about half the rows have, those of most use to tell rows apart: of words and of
--- the classes of pixels. `chosen` are those of the first dump.
local function counts_of_ids(tensor, rows, width, ignore, chosen)
  local of, with = {}, {}
  for row = 1, rows do
    of[row] = {}
    for _, v in ipairs(elements.spread(tensor, (row - 1) * width, width, VALUES)) do
      if v >= 0 and v ~= ignore then
        if not of[row][v] then with[v] = (with[v] or 0) + 1 end
        of[row][v] = (of[row][v] or 0) + 1
      end
    end
  end
  local kinds, columns, names = chosen or {}, {}, {}
  for v in pairs(chosen and {} or with) do kinds[#kinds + 1] = v end
  if not chosen then
    table.sort(kinds, function(a, b)
      local p, q = math.abs(with[a] - rows / 2), math.abs(with[b] - rows / 2)
      return p < q or p == q and a < b
    end)
  end
  for i = 1, math.min(#kinds, COLUMNS - 1) do
    columns[i], names[i] = {}, kinds[i]
    for row = 1, rows do columns[i][row] = of[row][kinds[i]] or 0 end
  end
  return columns, names
end

--- Figures of each row of a tensor, a list of columns; of classes also which of them each column is.
local function figures(tensor, rows, is_label, ignore, chosen)
  local width, whole = tensor.numel // rows, tensor.dtype:glob("int*|uint*|bool*")
  local last = tensor.shape[#tensor.shape]
  local columns = {}
  if whole and width > 1 then
    -- Of ids and masks: how many count.
    local list = {}
    for row = 1, rows do
      local n = 0
      for _, v in ipairs(elements.spread(tensor, (row - 1) * width, width, VALUES)) do
        if v > 0 and v ~= ignore then n = n + 1 end
      end
      list[row] = n
    end
    if not is_label then return { list } end
    local columns_, kinds = counts_of_ids(tensor, rows, width, ignore, chosen)
    columns_[#columns_ + 1] = list -- the last, that is of no id
    return columns_, kinds, true
  end
  local all = {}
  for row = 1, rows do all[row] = elements.spread(tensor, (row - 1) * width, width, VALUES) end
  if whole and is_label then -- classes have no order
    local seen, kinds = {}, {}
    for row = 1, rows do
      local v = all[row][1]
      if not seen[v] then seen[v], kinds[#kinds + 1] = true, v end
    end
    table.sort(kinds)
    for i = 1, #kinds <= COLUMNS and #kinds or 0 do
      columns[i] = {}
      for row = 1, rows do columns[i][row] = all[row][1] == kinds[i] and 1 or 0 end
    end
    if #columns > 0 then return columns, kinds end
  end
  -- Each column of few; of many the means along all axes but the last, and of equal parts of the row.
  local parts, read = width <= COLUMNS and width or COLUMNS // 2, #all[1]
  for i = 1, parts do
    columns[i] = {}
    local from, to = (i - 1) * read // parts + 1, i * read // parts
    for row = 1, rows do
      local sum = 0
      for t = from, to do sum = sum + all[row][t] end
      columns[i][row] = sum
    end
  end
  for i = 1, width > COLUMNS and read == width and last > 1 and last <= COLUMNS // 2 and last or 0 do
    local list = {}
    for row = 1, rows do
      local sum = 0
      for t = i, #all[row], last do sum = sum + all[row][t] end
      list[row] = sum
    end
    columns[#columns + 1] = list
  end
  return columns
end

--- The ranks of some numbers, equal ones the mean of theirs; nil where all but a few are equal: one rare value meets
--- another by chance, and a few such meetings are many deviations.
local function ranks(list)
  local order, out = {}, {}
  for i = 1, #list do order[i] = i end
  table.sort(order, function(a, b) return list[a] < list[b] or list[a] == list[b] and a < b end)
  local from = 1
  while from <= #order do
    local to = from
    while to < #order and list[order[to + 1]] == list[order[from]] do to = to + 1 end
    if to - from + 1 > #order - 8 then return nil end
    for i = from, to do out[order[i]] = (from + to) / 2 end
    from = to + 1
  end
  return out
end

--- atanh(r) sqrt(n - 3) of the rank correlation of two lists.
local function relation(a, b)
  local n = #a
  local x, y = ranks(a), ranks(b)
  if n < 24 or not x or not y then return 0 end
  local mean, xy, xx, yy = (n + 1) / 2, 0, 0, 0
  for i = 1, n do
    xy = xy + (x[i] - mean) * (y[i] - mean)
    xx, yy = xx + (x[i] - mean) ^ 2, yy + (y[i] - mean) ^ 2
  end
  local r = math.max(-0.999, math.min(0.999, xy / math.sqrt(xx * yy)))
  return 0.5 * math.log((1 + r) / (1 - r)) * math.sqrt(n - 3), r
end

--- Whether some values stand in others, four or more of them, up to a shift and a scale: windows may be normalised.
local function stands_in(y, x)
  local n, mean, square = #y, 0, 0
  for _, v in ipairs(y) do mean = mean + v / n end
  for _, v in ipairs(y) do square = square + (v - mean) ^ 2 end
  for from = 0, (n < 4 or square == 0) and -1 or #x - n do
    local own, xx, xy = 0, 0, 0
    for k = 1, n do own = own + x[from + k] / n end
    for k = 1, n do
      xx = xx + (x[from + k] - own) ^ 2
      xy = xy + (x[from + k] - own) * (y[k] - mean)
    end
    if xx > 0 and xy > 0.9999 * math.sqrt(xx * square) then return true end
  end
  return false
end

--- Whether rows are windows that follow each other: at half of the first 64 or more the label, or half of the values of
--- the input, stand in the input of the row that the label is related to, or the label's course does.
local function windows(input, label, rows, by)
  local hits, n, width = 0, 0, math.min(input.numel // rows, 4096)
  if not input.dtype:glob("float*|bfloat*") or width < 2 then return false end
  for row = math.max(0, by), math.min(rows, rows + by, math.max(0, by) + 64) - 1 do
    local there, shared = {}, 0
    for _, v in ipairs(input:values(row * (input.numel // rows), width)) do there[v] = true end
    for _, v in ipairs(input:values((row - by) * (input.numel // rows), width)) do
      if there[v] and v ~= 0 then shared = shared + 1 end
    end
    local value = label:values((row - by) * (label.numel // rows), 1)[1]
    n = n + 1
    if shared >= 0.5 * width or label.dtype:glob("float*|bfloat*") and there[value] then
      hits = hits + 1
    elseif label.dtype:glob("float*|bfloat*") then
      local own = label:values((row - by) * (label.numel // rows), math.min(64, label.numel // rows))
      if stands_in(own, input:values(row * (input.numel // rows), math.min(width, 1024))) then hits = hits + 1 end
    end
  end
  return n > 0 and hits >= 0.5 * n
end

--- Whether something says that rows are no records that could be shuffled: names of what belongs to trajectories,
--- graphs or pieces in the batch, or figures of an input that are related to those of the row beside it.
local function unordered(case, list)
  local first = list[1].inputs
  if case.tensors:where { run = first.run, step = first.step }:where("match(name, 'batch.*') and match(name, "
    .. "'*edge*|*adj*|*.ptr|batch.batch|*done*|*terminal*|*truncated*|*next_obs*|*next_state*|batch.obs*|*observation*|"
    .. "*returns*|*advantage*|*action*|*h_in*|*hidden_state*|*carry*')"):count() > 0 then return true end
  for i = 1, #list[1].x do
    local a, b = {}, {}
    for _, one in ipairs(list) do
      local mean = 0 -- of the batch: batches may differ, as in how long their rows are
      for row = 1, one.x[i] and one.rows or 0 do mean = mean + one.x[i][row] / one.rows end
      for row = 2, one.x[i] and one.rows or 0 do
        a[#a + 1], b[#b + 1] = one.x[i][row] - mean, one.x[i][row - 1] - mean
      end
    end
    if math.abs((relation(a, b))) >= 5 then return true end
  end
  return false
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels follow the inputs of the row beside",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-of-other-rows" },
  options  = {
    sure   = { default = 6.0,  doc = "Relation to the row beside, in deviations, worth reporting" },
    own    = { default = 4.0,  doc = "Relation to the own row, of any two figures, from which the labels are theirs" },
    ignore = { default = -100, doc = "Label that the loss leaves out" },
  },

  run = function(case)
    local opt = case.options
    local dumped = case.tensors:where("match(name, 'batch.*|*.labels') and not match(name, 'battery.*') and "
      .. "zero_share is not null and step is not null and numel >= 8")
    -- Of each pair of an input and a label the figures of all dumps.
    local steps, read = {}, 0
    local answers, given, chosen = dumped:where(LABELS), NOT_INPUTS, {}
    if answers:count() == 0 and dumped:where(SEEN):count() > 0 then answers, given = dumped:where(SAID), SEEN end
    for labels in answers:sort("step"):slice(0, 24):rows() do
      local rows = labels.shape and math.floor(labels.shape[1] or 0) or 0
      if rows >= 8 and rows <= 4096 then
        local y, kinds, words = figures(labels, rows, true, opt.ignore, chosen[labels.name])
        if words then chosen[labels.name] = kinds end
        local inputs = dumped:where { run = labels.run, step = labels.step, variant = labels.variant }:where(given)
        for input in inputs:slice(0, 12):rows() do
          if input.shape and input.shape[1] == rows and read < 4e6 then
            read = read + math.min(input.numel, rows * VALUES)
            local key = labels.name .. " " .. input.name
            local list = steps[key] or { label = labels.name, input = input.name }
            if not steps[key] then steps[key], steps[#steps + 1] = list, list end
            list[#list + 1] = { x = figures(input, rows, false, opt.ignore), y = y, kinds = kinds, words = words,
              rows = rows, labels = labels, inputs = input }
          end
        end
      end
    end
    local judged, best, own = false, nil, 0
    --- The relation of column i of the inputs to column j of the labels `by` rows before, and of how many rows.
    local function held(list, i, j, by)
      local a, b = {}, {}
      for _, one in ipairs(list) do
        local column = one.y[j]
        if one.kinds and not one.words then -- the same class in every dump; ids are those of the first
          column = nil
          for k, kind in ipairs(one.kinds) do if kind == list[1].kinds[j] then column = one.y[k] end end
        end
        for row = 1, one.x[i] and column and one.rows or 0 do
          if column[row - by] then a[#a + 1], b[#b + 1] = one.x[i][row], column[row - by] end
        end
      end
      judged = judged or #a >= 24
      local z, r = relation(a, b)
      return z, r, #a
    end
    -- Labels that are related to their own row are theirs, and need no other looked at.
    for _, shifts in ipairs({ { 0 }, { -2, -1, 1, 2 } }) do
      for _, list in ipairs(steps) do
        -- Classes by the first dump: those that it lacks are left out.
        for i = 1, #list[1].x do
          for j = 1, #list[1].y do
            for _, by in ipairs(shifts) do
              local z, r, n = held(list, i, j, by)
              if by == 0 then own = math.max(own, math.abs(z)) end
              if own >= opt.own then return end
              if by ~= 0 and (not best or math.abs(z) > math.abs(best.z)) then
                best = { z = z, r = r, by = by, list = list, n = n }
              end
            end
          end
        end
      end
    end
    if not judged then return skip("24 dumped rows of labels beside inputs that have values or lengths") end
    if not best or math.abs(best.z) < opt.sure then return end
    local first = best.list[1]
    if #(first.inputs.shape or {}) >= 2 and unordered(case, best.list) then
      return skip("rows that are records of their own: steps of a trajectory, nodes of a graph and pieces of a record "
        .. "follow each other")
    end
    if windows(first.inputs, first.labels, first.rows, best.by) then
      return skip("rows that are not windows of one series: these follow each other")
    end
    -- What goes on from row to row, as the steps of one record, can be told by a model that goes from row to row.
    local labels = {}
    for i, one in ipairs(best.list) do labels[i] = one.labels end
    local told = learning.of(case, first.labels.run, learning.of_constant(case, labels), 0.5)
    if told then
      return skip(("labels that cannot be learned: the loss is %.4g at step %d, less than half of what the best "
        .. "constant has"):format(told.value, told.step))
    end
    report {
      symptom  = "labels-of-other-rows",
      score    = 0.95,
      at       = { step = first.labels.step },
      message  = ("%s follows %s of the row %d %s it: a rank correlation of %.2g over %d dumped rows, %.2g deviations, "
        .. "while nothing in its own row is related to it by more than %.2g: labels and inputs are out of step"):format(
        first.labels.name, first.inputs.name, math.abs(best.by), best.by > 0 and "behind" or "before", best.r, best.n,
        math.abs(best.z), own),
      evidence = { first.labels, first.inputs },
    }
  end,
}
