--- Where the rows of ids and those of labels end: labels that were made for these ids end with them, or some places
--- before.

local elements = require("elements")

local lengths = {}

--- Whether a mask says where rows are padded: its zeros stand at the ends of rows. One that has as many among the ones
--- says what is hidden or missing, and its first and last one are no ends of a text.
---@param mask culprit.Row  of two axes or more, 0 at what is left out
---@return boolean
function lengths.pads(mask)
  local width = math.max(1, math.floor((mask.shape or {})[#(mask.shape or {})] or 1))
  local n = math.min(mask.numel, 16384) // width * width
  local m, within, ends = elements.of(mask, 0, n), 0, 0
  for first = 0, n - width, width do
    local from, to = first + 1, first + width
    while from <= to and m[from] == 0 do from = from + 1 end
    while to >= from and m[to] == 0 do to = to - 1 end
    ends = ends + width - (to - from + 1)
    for t = from, to do if m[t] == 0 then within = within + 1 end end
  end
  return within <= ends
end

--- In how many rows the labels count behind the last token, and in how many they end three places before it or more, of
--- how many rows; nil where the rows are not padded at their ends. A loss that counts padding has the first alone,
--- labels of answers or of first pieces of words the second alone: both are seen where rows have others' labels.
---@param mask culprit.Row    attention mask, 0 at padding, of the shape of the labels
---@param labels culprit.Row
---@param ignore integer
---@return integer? longer, integer shorter, integer rows, number alike  alike: share of the commonest distance
function lengths.compare(mask, labels, ignore)
  local width = labels.shape[#labels.shape]
  local n     = math.min(labels.numel, 65536) // width * width
  if n == 0 or mask.numel ~= labels.numel then return nil, 0, 0, 0 end
  local rows, longer, shorter, common, most, padded = 0, 0, 0, {}, 0, 0
  for from = 0, n - width, width do
    local m, y = mask:values(from, width), labels:values(from, width)
    local tokens, counted = 0, 0
    for t = 1, width do
      if m[t] ~= 0 then tokens = t end
      if y[t] >= 0 and y[t] ~= ignore then counted = t end
    end
    if m[1] == 0 then return nil, 0, 0, 0 end
    if counted > 0 then
      local far = counted - tokens
      rows, common[far] = rows + 1, (common[far] or 0) + 1
      most = math.max(most, common[far])
      if tokens < width then padded = padded + 1 end
      if far > 0 then longer = longer + 1 elseif far <= -3 then shorter = shorter + 1 end
    end
  end
  if rows < 16 or padded < 0.25 * rows then return nil, 0, 0, 0 end
  return longer, shorter, rows, most / rows
end

--- Whether labels belong to other rows than the ids, by where they end.
---@param mask culprit.Row
---@param labels culprit.Row
---@param ignore integer
---@return boolean belong, string words, boolean known  known: whether it can be told at all
function lengths.of_other_rows(mask, labels, ignore)
  local longer, shorter, rows, alike = lengths.compare(mask, labels, ignore)
  if not longer then return false, "", false end
  if longer < 0.15 * rows or shorter < 0.15 * rows or alike >= 0.5 then return false, "", true end
  return true, ("in %d of %d rows labels go on behind the last token, and in %d they end 3 places or more before it")
    :format(longer, rows, shorter), true
end

--- Whether longer rows have longer labels: how many of either a row has goes together, beside the means of its batch.
--- Such labels are of these rows, and of another text than theirs, as of a translation.
---@param pairs_ culprit.Row[][]  masks and labels of one shape
---@param ignore integer
---@return boolean
function lengths.go_together(pairs_, ignore)
  local rows, xx, yy, xy = 0, 0, 0, 0
  for _, pair in ipairs(pairs_) do
    local width = math.max(1, math.floor(pair[2].shape[#pair[2].shape]))
    local n = math.min(pair[2].numel, 16384) // width * width
    local m, y = elements.of(pair[1], 0, n), elements.of(pair[2], 0, n)
    local own, mean_x, mean_y = {}, 0, 0
    for first = 0, n - width, width do
      local a, b = 0, 0
      for t = first + 1, first + width do
        if m[t] ~= 0 then a = a + 1 end
        if y[t] >= 0 and y[t] ~= ignore then b = b + 1 end
      end
      own[#own + 1] = { a, b }
      mean_x, mean_y = mean_x + a * width / n, mean_y + b * width / n
    end
    for _, row in ipairs(own) do
      local x_, y_ = row[1] - mean_x, row[2] - mean_y
      rows, xx, yy, xy = rows + 1, xx + x_ * x_, yy + y_ * y_, xy + x_ * y_
    end
  end
  if rows < 16 or xx == 0 or yy == 0 then return false end
  local r = math.min(0.999, xy / math.sqrt(xx * yy))
  return r > 0 and 0.5 * math.log((1 + r) / (1 - r)) * math.sqrt(rows - 3) > 5
end

--- What the labels at padding are, over the dumped batches of a run. A loss that counts padding asks for padding there:
--- the id that is given, or one value throughout, as the tag of what is no word. Several other values are labels of
--- rows whose text is longer.
---@return table  counts for `add_padding`
function lengths.padding()
  return { counted = 0, own = 0, kinds = 0, seen = {} }
end

---@param counts table       of `lengths.padding`
---@param ids culprit.Row
---@param mask culprit.Row   attention mask, 0 at padding
---@param labels culprit.Row all three of one shape
---@param ignore integer
function lengths.add_padding(counts, ids, mask, labels, ignore)
  local n = math.min(labels.numel, 65536)
  local x, m, y = elements.of(ids, 0, n), elements.of(mask, 0, n), elements.of(labels, 0, n)
  for i = 1, n do
    -- The first place of padding is left out: where labels end by a token later than ids it is one of the text.
    if m[i] == 0 and y[i] >= 0 and y[i] ~= ignore and (i == 1 or m[i - 1] == 0) then
      counts.counted = counts.counted + 1
      if y[i] == x[i] then counts.own = counts.own + 1 end
      if not counts.seen[y[i]] then counts.seen[y[i]], counts.kinds = true, counts.kinds + 1 end
    end
  end
end

--- Whether labels at padding are those of other rows: three at least, not all the same, and none is the padding's.
---@param counts table
---@return boolean
function lengths.alien_padding(counts)
  return counts.counted >= 3 and counts.kinds >= 2 and counts.own == 0
end

--- Whether the first axis of a dumped tensor is that of the batch's records, as far as the others of its batch tell:
--- boxes, nodes, points and pieces of several records are concatenated, and no other tensor has as many.
---@param case culprit.Case
---@param tensor culprit.Row
---@return boolean
function lengths.of_records(case, tensor)
  local rows = tensor.shape and tensor.shape[1]
  for other in case.tensors:where { run = tensor.run, step = tensor.step, variant = tensor.variant, rank = tensor.rank }
    :where("match(name, 'batch.*') and numel > 1 and not match(name, '*hash*|*seqlens*|*seq_lens*|*position*')")
    :slice(0, 40):rows() do
    local own = other.shape and other.shape[1]
    if own and own > 1 and own ~= rows then return false end
  end
  return true
end

return lengths
