--- ## What it detects
--- A learned table of positions, or of the distances between them, of which updates have changed one row alone: by two
--- checkpoints only one place was ever looked up. And tables of which they have changed none, while the weights beside
--- them moved: nothing looks them up. Adam's second moments tell it from one checkpoint: they are zero where no
--- gradient ever was. The optimizer numbers its parameters; the shape says which is the table, where no other has it.
---
--- ## Why it matters
--- A row of a table gets a gradient where its place is looked up. Any text of two tokens has two places and three
--- distances, so that one row means one and the same place for all: the model sees a bag of words.
---
--- ## How to confirm
--- Print the position ids, or the buckets of distances, that the table is asked for.
---
--- ## Known false positives
--- Tables that are fixed: of sines, or by a setting; a table that no row of which moved says nothing where the weights
--- beside it stand still as well. Weight decay moves all rows by one factor, which is no gradient. A decoder that makes
--- one token has one distance: another table in which several rows moved clears that of a decoder. Tables of times,
--- frames and segments may have one row in use.
---
--- ## References
--- https://huggingface.co/docs/transformers/model_doc/t5, relative_attention_num_buckets

local checkpoints = require("checkpoints")
local freezing = require("freezing")
local runs = require("runs")

local TABLES = "*wpe*|*pos*emb*|*emb*pos*|*relative_attention_bias*|*relative_position_bias*|*rel*pos*|*pos*table*|"
  .. "*position*enc*|*pos_enc*|*positional*"
-- Of something else than the places of a text or a picture, or of what has one of them.
local OTHERS = "*temp*|*time*|*frame*|*type*|*segment*|*index*|*ema*|*teacher*|*mlp*|*proj*|*norm*|*.bias|*_ids"

--- The axis of the places: that before the last, of what has a leading 1 or none.
local function axis(row)
  local shape = row.shape or {}
  if #shape == 2 then return 0, shape[1], shape[2] end
  if #shape == 3 and shape[1] == 1 then return 1, shape[2], shape[3] end
end

--- Rows of a table that have changed between two checkpoints by something else than one factor for all of them.
---@param first culprit.Row
---@param last culprit.Row
---@return integer? changed, integer? rows, integer? place
local function changed_rows(first, last)
  local at, rows, width = axis(last)
  local moved = at and rows >= 4 and rows <= 4096 and first:difference_along(last, at)
  if not moved then return nil end
  local several = math.min(math.floor(width), 64)
  local count, place, still = 0, nil, false
  for i, change in ipairs(moved) do
    if change > 0 then
      count, place = count + 1, place or i - 1
    elseif not still then
      -- A row of zeros, as that of padding, stands still under decay as well.
      for _, value in ipairs(first:values((i - 1) * width, several)) do still = still or value ~= 0 end
    end
  end
  if still or count == 0 then return count, rows, place end
  -- All that can did: what most rows were multiplied by is decay.
  local factors, sorted = {}, {}
  for i = 0, rows - 1 do
    local a, b = first:values(i * width, several), last:values(i * width, several)
    local ab, aa, far = 0, 0, 0
    for k = 1, #a do ab, aa = ab + a[k] * b[k], aa + a[k] * a[k] end
    local factor = aa > 0 and ab / aa or 0
    for k = 1, #a do far = math.max(far, math.abs(b[k] - factor * a[k])) end
    if moved[i + 1] > 0 then
      factors[i] = far <= 1e-5 * math.sqrt(aa) and factor or math.huge
      sorted[#sorted + 1] = factors[i]
    end
  end
  table.sort(sorted)
  local usual = sorted[(#sorted + 1) // 2]
  if usual >= 1 then return count, rows, place end
  count, place = 0, nil
  for i = 0, rows - 1 do
    if factors[i] and math.abs(factors[i] - usual) > 1e-5 then count, place = count + 1, place or i end
  end
  return count, rows, place
end

--- Whether a table is of sines and cosines: the squares of each row have a mean of one half.
local function sines(row)
  return row.rms ~= nil and math.abs(row.rms - math.sqrt(0.5)) < 0.05 and row.max <= 1.001 and row.min >= -1.001
end

--- Whether the weights beside a table moved, as far as checkpoints have any: two or more of its module, else of all.
local function moves_beside(weights, name, from, to)
  local parts = name:split(".")
  for _, module in ipairs { #parts > 2 and table.concat(parts, ".", 1, #parts - 2) .. ".*" or "*", "*" } do
    local seen, moved = 0, 0
    for row in weights:where { step = to }:where("match(name, ?) and numel >= 16", module):slice(0, 40):rows() do
      local other  = #(row.shape or {}) >= 2 and not row.name:glob(TABLES)
      local before = other and weights:where { step = from, name = row.name }:first()
      if before and before.numel == row.numel then
        seen = seen + 1
        -- What only decays has no gradient either, as where the loss or a unit behind it lets none through.
        local by_decay = checkpoints.decayed(before, row, to - from)
        moved = moved + (before.l2 ~= row.l2 and not by_decay and 1 or 0)
      end
    end
    if seen >= 2 then return moved == seen end
  end
  return false
end

--- The parameters of a model in fp32. A bare one, as x of self.x = nn.Parameter(...), is dumped without a word for its
--- role: that it has a gradient or a moment says what it is.
local function parameters(case)
  local known = case.tensors:where("variant is null and step is not null and match(dtype, 'float32|float64') and "
    .. "nonfinite == 0 and zero_share is not null")
  local bare = {}
  for row in case.tensors:where("role in ('grad', 'state') and match(layer, ?)", TABLES):slice(0, 1000):rows() do
    bare[#bare + 1] = row.layer
  end
  local weights = known:where { role = "weight" }
  if #bare == 0 then return weights end
  return weights:concat(known:where { role = "value", name = bare })
end

--- The second moments of the optimizer for a table: the only ones of its shape, which no other parameter has.
---@param case culprit.Case
---@param last culprit.Row  the table
---@return culprit.Row?
local function moments(case, last)
  local same = case.tensors:where("numel == ? and zero_share is not null", last.numel)
  local function is_shaped(row)
    local shape = row.shape or {}
    if #shape ~= #last.shape then return false end
    for i, size in ipairs(last.shape) do
      if shape[i] ~= size then return false end
    end
    return true
  end
  local names, found = {}, {}
  local own = same:where("role in ('weight', 'value') and not match(name, '*optim*|*ema*|batch.*')")
  for row in own:slice(0, 50):rows() do
    if is_shaped(row) then names[row.name] = true end
  end
  for name in pairs(names) do
    if name ~= last.name then return nil end
  end
  for row in same:where("match(name, '*exp_avg_sq|*square_avg')"):slice(0, 50):rows() do
    if is_shaped(row) then found[#found + 1] = row end
  end
  for _, row in ipairs(found) do
    if row.name ~= found[1].name then return nil end
  end
  return found[#found]
end

--- Rows of a table for which the optimizer has seen a gradient: how many of how many, and the first.
---@param last culprit.Row   the table
---@param seen culprit.Row   its second moments
---@return integer? count, integer? rows, integer? place
local function moved_rows(last, seen)
  local _, rows, width = axis(last)
  if not rows or rows < 4 or rows > 4096 then return nil end
  rows, width = math.floor(rows), math.floor(width)
  local count, place = 0, nil
  for i = 0, rows - 1 do
    local some = false
    for _, value in ipairs(seen:values(i * width, math.min(width, 64))) do some = some or value ~= 0 end
    if some then count, place = count + 1, place or i end
  end
  return count, rows, place
end

--- Reports what the moments of one checkpoint tell of its tables; whether they tell anything.
---@return boolean
local function judge_moments(case, run)
  local declared, flagged = freezing.declared(case), freezing.flagged(case)
  local judged = false
  local tables = case.tensors:where("role in ('weight', 'value') and zero_share is not null")
    :where("match(name, ?) and not match(name, ?) and not match(name, '*optim*')", TABLES, OTHERS):distinct("name")
  for last in tables:slice(0, 16):rows() do
    local fixed = sines(last) or declared(last.layer) or flagged(last.layer)
    local seen  = not fixed and axis(last) and moments(case, last)
    local count, rows, place
    if seen then count, rows, place = moved_rows(last, seen) end
    -- Where nothing has a moment nothing was trained yet.
    local trained = case.tensors:where("match(name, '*exp_avg_sq|*square_avg') and zero_share < 1"):count() >= 2
    if count and trained then
      judged = true
      if count <= 1 and not last.name:glob("*decoder*|dec.*|*.dec.*") then
        report {
          symptom  = count == 1 and "position-ids-constant" or "position-layer-without-gradient",
          score    = count == 1 and 0.95 or 0.8,
          at       = { run = run, layer = last.layer, name = last.name },
          message  = count == 1
            and ("of the %d rows of %s row %d alone has ever had a gradient (%s): one place is looked up for all")
              :format(rows, last.name, place, seen.name)
            or ("no row of %s has ever had a gradient (%s is zero), while other parameters have: nothing looks it up")
              :format(last.name, seen.name),
          evidence = { last, seen },
        }
        return true
      end
    end
  end
  return judged
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Of a table of positions one row alone was trained, or none",
  needs    = { tensors = { "name", "role", "step", "data" } },
  symptoms = { "position-ids-constant", "position-layer-without-gradient" },

  run = runs.apart(function(case, run)
    local weights  = parameters(case)
    local from, to = weights:min("step"), weights:max("step")
    local tables = weights:where("step == ? and match(name, ?) and not match(name, ?)", to or 0, TABLES, OTHERS)
    if not from or from == to or tables:count() == 0 then
      if judge_moments(case, run) then return end
      return skip("two checkpoints with a learned table of positions in fp32, or one with the optimizer's moments")
    end
    local declared = freezing.declared(case)
    local flagged  = freezing.flagged(case)
    local one, none, judged, used = {}, {}, 0, false
    for last in tables:slice(0, 64):rows() do
      local first = weights:where { step = from, name = last.name }:first()
      local fixed = sines(last) or declared(last.layer) or flagged(last.layer)
      local count, rows, place
      if first and not fixed then count, rows, place = changed_rows(first, last) end
      if count then
        judged = judged + 1
        if count == 1 then
          one[#one + 1] = { first = first, last = last, rows = rows, place = place }
        elseif count == 0 and moves_beside(weights, last.name, from, to) then
          none[#none + 1] = { first = first, last = last }
        elseif count >= 2 then
          used = true
        end
      end
    end
    if judged == 0 then return skip("a table of positions that is learned") end
    -- The sides of a model have tables of their own: the encoder's says nothing of a decoder that makes one token.
    for i = used and #one or 0, 1, -1 do
      if one[i].last.name:glob("*decoder*|dec.*|*.dec.*") then table.remove(one, i) end
    end
    local found, more = one[1] or none[1], one[1] and #one - 1 or #none - 1
    if not found then return end
    report {
      symptom  = one[1] and "position-ids-constant" or "position-layer-without-gradient",
      score    = one[1] and (used and 0.85 or 0.95) or used and 0.6 or 0.8,
      at       = { run = run, layer = found.last.layer, name = found.last.name },
      message  = (one[1]
        and ("of the %d rows of %s row %d alone has changed between steps %d and %d: one place is looked up for all")
          :format(found.rows, found.last.name, found.place, from, to)
        or ("no row of %s has changed between steps %d and %d, while the weights beside it have: nothing looks it up, "
          .. "unless it is fixed by design"):format(found.last.name, from, to))
        .. (more > 0 and ("; so for %s"):format(units.plural(more, "other table")) or ""),
      evidence = { found.first, found.last },
    }
  end),
}
