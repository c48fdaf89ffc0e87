--- ## What it detects
--- Targets of graphs that follow from the nodes of the graph beside theirs and not from their own: a straight line from
--- how many nodes of each kind a graph has, or from the sums of their features, to the target of the one beside.
---
--- ## Why it matters
--- A target moved by a row is as good as a random one; the loss stays at what knowing nothing gives.
---
--- ## How to confirm
--- Look up the target of one graph where the data comes from.
---
--- ## Known false positives
--- None where graphs are drawn at random: beside each other are others at each step. Where neighbours are alike, as
--- frames of one course are, a graph's own nodes tell of its target as well; these are left out. What a graph's own
--- nodes tell by a curve, as of a forecast, is learned: nothing is said where a loss falls below half of what knowing
--- nothing costs, of validation where there is one. Nor where the target is a mean or a sum of what the next graph
--- holds, to a thousandth of its variance, but for the last one of a batch: that one is of the next batch; nor where
--- the config has a horizon.
---
--- ## References
--- The test is that of a regression (Fisher), as a normal deviate (Wilson and Hilferty 1931). Targets that have nothing
--- to do with the inputs cost at least what their mean does (squares) or their median (absolute values).

local elements = require("elements")
local graphs = require("graphs")
local places = require("places")
local settings = require("settings")
local statistics = require("statistics")

local MOST = 24 -- kinds of nodes, or features of them

--- What is counted of each graph, the number of each kind of node, or the sums of features; nil of other inputs. Kinds
--- are those of all batches: `kinds` is their number.
local function described(union, x, kinds)
  local nodes, columns = #union.graph, #x.shape == 2 and math.floor(x.shape[2]) or 1
  local values, out = elements.of(x, 0, x.numel), {}
  for g = 1, #union.sizes do
    out[g] = { 1 }
    for k = 1, kinds or columns + 1 do out[g][k + 1] = 0 end
  end
  for i = 1, nodes do
    local row = out[math.floor(union.graph[i]) + 1]
    if kinds then
      local kind = math.floor(values[i]) + 2
      row[kind] = row[kind] + 1
    else
      row[2] = row[2] + 1
      for c = 1, columns do row[c + 2] = row[c + 2] + values[(i - 1) * columns + c] end
    end
  end
  return out
end

--- The share of the targets' variance that a straight line from the inputs explains, of targets `moved` rows on in
--- their batch; how sure it is, in standard deviations of unrelated ones; and the number of graphs.
local function explained(batches, moved)
  local wide = #batches[1].inputs[1]
  local a, n, sum, square = {}, 0, 0, 0
  for i = 1, wide do
    a[i] = {}
    for j = 1, wide + 1 do a[i][j] = 0 end
  end
  for _, batch in ipairs(batches) do
    local rows = #batch.targets
    for i, y in ipairs(batch.targets) do
      local row = batch.inputs[(i - 1 - moved) % rows + 1]
      n, sum, square = n + 1, sum + y, square + y * y
      for j = 1, wide do
        for k = 1, wide do a[j][k] = a[j][k] + row[j] * row[k] end
        a[j][wide + 1] = a[j][wide + 1] + row[j] * y
      end
    end
  end
  local total, used, fitted = square - sum * sum / n, 0, 0
  local size = {}
  for i = 1, wide do size[i] = a[i][i] end
  -- One input after the other, each less what those before it tell; what is left of nothing is left out.
  for i = 1, wide do
    if a[i][i] > 1e-9 * size[i] and size[i] > 0 then
      used, fitted = used + 1, fitted + a[i][wide + 1] ^ 2 / a[i][i]
      for j = i + 1, wide do
        local factor = a[j][i] / a[i][i]
        for k = i, wide + 1 do a[j][k] = a[j][k] - factor * a[i][k] end
      end
    end
  end
  local free, left = used - 1, n - used
  if free < 1 or left < 2 * used or total <= 0 then return nil end
  local share = math.max(0, math.min(1 - 1e-12, (fitted - sum * sum / n) / total))
  return share, statistics.f_deviate(share / free / ((1 - share) / left), free, left), n
end

--- The share of the variance of `y` that a line of `x` explains.
local function explained_by(x, y)
  local n, mx, my, xx, yy, xy = #x, 0, 0, 0, 0, 0
  for i = 1, n do mx, my = mx + x[i] / n, my + y[i] / n end
  for i = 1, n do
    local dx, dy = x[i] - mx, y[i] - my
    xx, yy, xy = xx + dx * dx, yy + dy * dy, xy + dx * dy
  end
  return xx > 0 and yy > 0 and xy * xy / (xx * yy) or 0
end

--- Whether targets are what graphs beside hold, a sum or a mean of one feature, but not those at the end of a batch,
--- whose next graph is of another batch: a course is told on. What was rolled within a batch begins again at its start.
--- Sums are inputs from the third on, behind the 1 and the number of nodes.
local function tells_on(batches, moved)
  for k = 3, #batches[1].inputs[1] do
    for _, mean in ipairs({ false, true }) do
      local beside, inner, round, all = {}, {}, {}, {}
      for _, batch in ipairs(batches) do
        local rows = #batch.targets
        for i, y in ipairs(batch.targets) do
          local row = batch.inputs[(i - 1 - moved) % rows + 1]
          local x   = mean and row[k] / row[2] or row[k]
          if i - moved >= 1 and i - moved <= rows then beside[#beside + 1], inner[#inner + 1] = x, y end
          round[#round + 1], all[#all + 1] = x, y
        end
      end
      if explained_by(beside, inner) >= 0.999 and explained_by(round, all) < 0.999 then return true end
    end
  end
  return false
end

--- What says that targets are those of the next graph by design.
local function forecast(case)
  return settings.on(case.config:where("match(key, '*horizon*|*forecast*')")):first()
    or case.config:where("match(key, '*task*|*target*') and match(value, '*next*|*forecast*')"):first()
end

--- What targets cost who knows nothing, in squares and in absolute values, and the same of who says 0.
local function costs_of_nothing(batches)
  local y = {}
  for _, batch in ipairs(batches) do
    for _, v in ipairs(batch.targets) do y[#y + 1] = v end
  end
  local middle, n, mean = statistics.median(y), #y, 0
  for _, v in ipairs(y) do mean = mean + v / n end
  local variance, deviation, square, size = 0, 0, 0, 0
  for _, v in ipairs(y) do
    variance, deviation = variance + (v - mean) ^ 2 / n, deviation + math.abs(v - middle) / n
    square, size = square + v * v / n, size + math.abs(v) / n
  end
  return variance, deviation, square, size
end

--- Whether the loss has fallen to less than half of what targets that have nothing to do with their graphs cost. They
--- may be put into other units before the loss: half of where it began counts as well, less what a mean far from 0 adds
--- to that.
local function learned(case, batches)
  local losses = case.scalars:where("name in ('loss', 'val_loss') and layer is null and finite(value)"):sort("step")
  local trained, held = losses:where { name = "loss" }, losses:where { name = "val_loss" }
  local start = math.max(trained:slice(0, 3):median("value") or 0, held:slice(0, 1):median("value") or 0)
  local last  = held:count() >= 2 and held:last().value or trained:sort("-step"):slice(0, 10):median("value")
  if not last or last >= 0.5 * start then return false end
  local variance, deviation, square, size = costs_of_nothing(batches)
  return last < 0.5 * math.min(variance, deviation)
    or last < 0.5 * start * math.min(variance / square, deviation / size)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Targets of graphs follow from the graphs beside theirs",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "labels-of-other-rows" },
  options  = {
    sure = { default = 6.0, doc = "Standard deviations of which the graph beside has to tell the target" },
    own  = { default = 2.5, doc = "The same of its own graph above which nothing is said" },
  },

  run = function(case)
    local batches, kinds, first = {}, 0, nil
    local dumped = case.tensors:where("match(name, 'batch.*') and zero_share is not null")
    local found, whole = {}, true
    for _, union in ipairs(graphs.unions(case)) do
      local of   = union.of
      local here = dumped:where { run = of.run, step = of.step, variant = of.variant, rank = of.rank }
      local x = here:where("match(name, 'batch.x|batch.z|batch.atom_type*|batch.node_type*|batch.node_feat*')"):first()
      local y = here:where("match(name, 'batch.y|batch.*target*|batch.*label*') and match(dtype, 'float*|bfloat*') and "
        .. "numel == ?", #union.sizes):first()
      if x and y and x.shape and #x.shape <= 2 and x.shape[1] == #union.graph and x.numel <= 100000 and x.nonfinite == 0
        and y.nonfinite == 0 and #union.sizes >= 4 then
        found[#found + 1] = { union = union, x = x, y = y }
        local single = x.numel == #union.graph and x.dtype:glob("int*|uint*") and x.min >= 0
        whole = whole and single
        kinds = single and math.max(kinds, math.floor(x.max) + 1) or kinds
      end
    end
    for _, one in ipairs(found) do
      local columns = #one.x.shape == 2 and one.x.shape[2] or 1
      if (whole and kinds or columns) <= MOST and (not first or whole or first.x.numel * #one.union.graph
        == one.x.numel * #first.union.graph) then
        first = first or one
        batches[#batches + 1] = { inputs = described(one.union, one.x, whole and kinds or nil),
          targets = elements.of(one.y, 0, one.y.numel) }
      end
    end
    local share, sure, n
    if #batches > 0 then share, sure, n = explained(batches, 0) end
    if not share then
      return skip("dumped graphs with batch.x, batch.batch and a target of each, four times as many as inputs")
    end
    if sure >= case.options.own then return end
    for _, moved in ipairs({ 1, -1 }) do
      local beside, certain = explained(batches, moved)
      if beside and certain >= case.options.sure and beside >= 2 * share then
        if learned(case, batches) then return skip("targets that nobody could learn: the loss has fallen") end
        if forecast(case) or not (whole and kinds > 0) and tells_on(batches, moved) then
          return skip("targets that are not what the next graph holds: of a course they are forecasts")
        end
        local step, from = places.start(case, first.y.step, false)
        report {
          symptom  = "labels-of-other-rows",
          score    = 0.95,
          at       = { step = step, name = first.y.name },
          message  = ("the nodes of a graph tell %s of the variance of %s one row %s and %s of their own (a straight "
            .. "line, %d graphs, %.1f and %.1f standard deviations from unrelated ones): targets are those of the "
            .. "graph beside, %s"):format(units.percent(beside), first.y.name, moved > 0 and "below" or "above",
            units.percent(share), n, certain, sure, from),
          evidence = { first.y, first.x },
        }
        return
      end
    end
    -- What is told by nothing may be beyond a straight line.
    skip("targets that a straight line from the nodes tells anything of")
  end,
}
