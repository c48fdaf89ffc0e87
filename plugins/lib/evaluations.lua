--- What evaluations tell beyond their values.

local evaluations = {}

--- The two evaluations between which validation goes up at once, as where averaged weights or another set come to be
--- evaluated: what is stored by heart comes by and by, and training falls meanwhile. At least three evaluations behind
--- it, none of them higher by more than a tenth of the step, and training comes down by less than a quarter there. Nil
--- where validation does not rise so.
---@param val culprit.Table    finite, by step
---@param train culprit.Table  finite, by step
---@return { before: culprit.Row, after: culprit.Row }?
function evaluations.jump(val, train)
  local best  = val:sort("value"):first()
  local after = best and val:where("step > ?", best.step)
  if not best or after:count() < 4 then return nil end
  local rises = val:where("step >= ?", best.step)
  rises = rises:with { rise = rises:col("value"):diff() }:where("step > ? and rise > 0", best.step)
  local to    = rises:top(1, "rise"):first()
  local most  = to and to.rise
  local from  = to and val:where("step >= ? and step < ?", best.step, to.step):last()
  local later = from and val:where("step > ?", to.step)
  if not from or later:count() < 3 or to.value - best.value < 0.8 * (after:max("value") - best.value)
    or most < 0.8 * (to.value - best.value) or later:max("value") > to.value + 0.1 * most then
    return nil
  end
  -- Of a row or two training's level is not known, and where it falls meanwhile rows are stored.
  local function level(rows)
    rows = rows:slice(math.max(0, rows:count() - 5), 5)
    return rows:count() >= 3 and rows:median("value") or nil
  end
  local was = level(train:where("step <= ?", from.step))
  local is  = level(train:where("step > ? and step <= ?", from.step, to.step))
  return was and is and is > 0.75 * was and { before = from, after = to } or nil
end

--- The same in words.
---@param jump { before: culprit.Row, after: culprit.Row }
---@return string
function evaluations.told(jump)
  return ("validation goes from %.4g at step %d to %.4g at step %d at once and no further, as of another model or set")
    :format(jump.before.value, jump.before.step, jump.after.value, jump.after.step)
end

--- Pairs of which validation has the better one wrong as surely as training has it right: the margin of held-out pairs
--- is as far below 0 as half of that which training has above it, over the last half of both. What is learned by heart
--- leaves held-out pairs at 0 on average; further below they are of swapped labels. The last margins, or nil.
---@param case culprit.Case
---@param run string?
---@return culprit.Row? held, culprit.Row? trained
function evaluations.swapped(case, run)
  local margins = case.scalars:where { run = run, primary = true }
    :where("match(name, '*margin|*margins') and finite(value)"):sort("step")
  local held  = margins:where("match(name, '*eval*|*val_*|*valid*|*test*')")
  local train = margins:where("not match(name, '*eval*|*val_*|*valid*|*test*')")
  if held:distinct("name"):count() ~= 1 or train:distinct("name"):count() ~= 1 or held:count() < 4 then return nil end
  local function late(rows) return rows:slice(rows:count() // 2, rows:count()) end
  local low, high = late(held):max("value"), late(train):median("value")
  if high > 0 and low < -0.5 * high then return held:last(), train:last() end
end

-- Words in front of a name that say of which set a value is.
local HELD, TRAINED = { "validation", "valid", "val", "eval", "dev", "test" }, { "training", "train" }

--- What a name is of, without the word for its set: mel_error of validation/mel_error; nil where none of the words is
--- in front.
local function of_set(name, words)
  for _, word in ipairs(words) do
    local rest = name:starts_with(word) and name:sub(#word + 1)
    if rest and #rest > 1 and ("/_."):contains(rest:sub(1, 1)) then return rest:sub(2) end
  end
end

--- The training series that an evaluation is to be compared with where it is of a part of the loss alone, as the
--- reconstruction beside an adversary's: another column has the evaluation's values and a name that a column of
--- training has as well, or it has such a name itself (val_nll beside nll, and a loss that has more in it). Nil where
--- the loss itself is evaluated, or nothing tells.
---@param case culprit.Case
---@param run string?
---@param val culprit.Table  finite, by step
---@return culprit.Table?
function evaluations.part(case, run, val)
  local own, count = {}, 0
  for row in val:slice(0, 200):rows() do own[row.step], count = row.value, count + 1 end
  local all = case.scalars:where { run = run, primary = true }:where("layer is null and finite(value)")
  local held, trained, bare = {}, {}, {}
  for row in all:distinct("name"):slice(0, 500):rows() do
    local name = tostring(row.raw_name or row.name)
    local tail = of_set(name, HELD)
    if tail and row.name ~= "val_loss" then held[#held + 1] = { tail = tail, name = row.name } end
    local own_tail = of_set(name, TRAINED)
    if own_tail then trained[own_tail] = row.name end
    if not tail and not own_tail then bare[name] = row.name end
  end
  local first = val:first()
  local tail  = first and of_set(tostring(first.raw_name or first.name), HELD)
  local same  = tail and (trained[tail] or bare[tail])
  if same and same ~= "loss" and same ~= "val_loss" then
    local series = all:where { name = same }:sort("step")
    if series:count() >= 4 then return series end
  end
  for _, one in ipairs(held) do
    -- A column that says it is of training goes before one that says nothing.
    local twin, same = trained[one.tail] or bare[one.tail], 0
    if twin == "loss" then twin = nil end
    for row in twin and all:where { name = one.name }:slice(0, 1000):rows() or function() end do
      local mine = own[row.step]
      same = same + ((mine and math.abs(row.value - mine) <= 1e-3 * math.abs(mine)) and 1 or 0)
    end
    if same >= 3 and same >= 0.9 * count then
      local series = all:where { name = twin }:sort("step")
      if series:count() >= 4 then return series end
    end
  end
end

return evaluations
