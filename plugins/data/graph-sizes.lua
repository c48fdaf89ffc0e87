--- ## What it detects
--- Graphs of a run that lie sorted by size: all of a batch are small, all of another large, and small ones come again
--- behind large ones. And graphs that were cut at a number of nodes: a setting that so many have exactly and none
--- exceeds, while no smaller size is nearly as common.
---
--- ## Why it matters
--- A batch of one size says nothing of the others, and norms and the last steps are those of what came last. A graph
--- that lost nodes still has the target of the whole.
---
--- ## How to confirm
--- Count the nodes of all graphs before they are cut or put in order; train on with a shuffle over the whole set.
---
--- ## Known false positives
--- Graphs of like size that are put together by design fill a number of nodes, so that batches of large ones have fewer
--- graphs; these are left out, as are lessons that grow once, and what a setting of a sampler says. Datasets that take
--- turns from batch to batch are told by a logged number of nodes. Graphs that are drawn at a fixed size, points of a
--- cloud or a patch, are all of that size or nearly so on purpose: a limit on points or crops is none of nodes.
---
--- ## References
--- The test of sizes against batches is that of variances (Fisher), as a normal deviate (Wilson and Hilferty 1931).

local graphs = require("graphs")
local settings = require("settings")

local GROUPED = "*homogen*|*group_by*|*grouped*|*bucket*|*batch_sampler*|*task_sampl*|*curriculum*|*continual*|"
  .. "*size_sort*|*sort_by*"

--- The share of the variance of sizes that is between batches, and how sure it is, in standard deviations of a mixed
--- run; then the batches of which most graphs are smaller or larger than usual, in order: -1 or 1.
local function between(unions)
  local k, n, sum, square, within = #unions, 0, 0, 0, 0
  for _, union in ipairs(unions) do
    local own, own_square = 0, 0
    for _, size in ipairs(union.sizes) do own, own_square = own + size, own_square + size * size end
    n, sum, square = n + #union.sizes, sum + own, square + own_square
    within = within + own_square - own * own / #union.sizes
    union.mean = own / #union.sizes
  end
  local total = square - sum * sum / n
  if n <= k or total <= 0 then return 0, 0, {} end
  -- Graphs that are all alike within batches have no spread at all; a thousandth of the whole keeps the ratio finite.
  within = math.max(within, 1e-3 * total)
  local a, b = 2 / (9 * (k - 1)), 2 / (9 * (n - k))
  local f = ((total - within) / (k - 1) / (within / (n - k))) ^ (1 / 3)
  local sides, error_ = {}, math.sqrt(total / n)
  for _, union in ipairs(unions) do
    local away = (union.mean - sum / n) / error_ * math.sqrt(#union.sizes)
    if math.abs(away) >= 3 then sides[#sides + 1] = away > 0 and 1 or -1 end
  end
  return 1 - within / total, ((1 - b) * f - (1 - a)) / math.sqrt(b * f * f + a), sides
end

--- Whether the logged number of nodes of a step says little of that of the next one; nil where neighbouring steps were
--- not logged.
local function takes_turns(case)
  local nodes = case.scalars:where("match(raw_name, '*num_nodes|*n_nodes|*nodes_per_batch|*num_atoms') and layer is "
    .. "null and finite(value) and step is not null"):sort("step")
  local rows, pairs_, both, all = nodes:count(), 0, 0, 0
  if rows < 32 or rows > 100000 then return nil end
  local mean = nodes:mean("value")
  local values, steps = nodes:col("value"):values(), nodes:col("step"):values()
  for i = 2, rows do
    if steps[i] == steps[i - 1] + 1 then
      pairs_, both = pairs_ + 1, both + (values[i] - mean) * (values[i - 1] - mean)
      all = all + ((values[i] - mean) ^ 2 + (values[i - 1] - mean) ^ 2) / 2
    end
  end
  if pairs_ < 32 or all <= 0 then return nil end
  return both / all < 0.15
end

--- How often graphs have the greatest number of nodes, of how many; that number; and how often the next commonest one.
local function at_most(unions)
  local counts, most, n, next_ = {}, 0, 0, 0
  for _, union in ipairs(unions) do
    for _, size in ipairs(union.sizes) do
      counts[size], most, n = (counts[size] or 0) + 1, math.max(most, size), n + 1
    end
  end
  for size, count in pairs(counts) do if size ~= most then next_ = math.max(next_, count) end end
  return counts[most] or 0, n, most, next_
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Graphs are sorted by size, or cut at a number of nodes",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "domains-in-blocks", "rows-cut-at-limit" },
  options  = {
    graphs = { default = 64,   doc = "Dumped graphs below which sizes tell nothing" },
    alike  = { default = 0.22, doc = "Share of the variance of sizes that is between batches" },
    sure   = { default = 5.5,  doc = "Standard deviations from mixed batches" },
    cut    = { default = 0.2,  doc = "Share of the graphs that have exactly the limit" },
  },

  run = function(case)
    local opt, unions, all, usual = case.options, graphs.unions(case), 0, {}
    for _, union in ipairs(unions) do
      all = all + #union.sizes
      usual[#union.sizes] = (usual[#union.sizes] or 0) + 1
    end
    if all < opt.graphs then
      return skip(("%d dumped graphs: batch.batch and a target of each (culprit_recorder.watch)"):format(opt.graphs))
    end

    local at, n, most, next_ = at_most(unions)
    -- A most that only sizes padding, or says what the data have, cuts nothing.
    local limit = case.config:where("match(key, '*node_limit*|*atom_limit*|*truncat*|*keep*nodes*|*keep*atoms*|"
      .. "*crop_nodes*|*crop_atoms*|*cut*nodes*|*cut*atoms*') and "
      .. "not match(key, '*per_batch*|*batch_max*|*point*|*sampl*|*crop*') and number == ?", most):first()
    local many = at >= opt.cut * n and at < n and at >= 3 * next_
    if many and not limit then
      skip(("a limit on nodes in a config: %d of %d graphs have %d"):format(at, n, most), "rows-cut-at-limit")
    elseif many then
      report {
        symptom  = "rows-cut-at-limit",
        score    = 0.85,
        at       = { step = unions[1].step },
        message  = ("%d of %d dumped graphs have %d nodes, which is %s, none has more, and of no other size are more "
          .. "than %d: nodes beyond it were cut off, and targets are those of the whole"):format(at, n, most,
          limit.key, next_),
        evidence = { unions[1].of, limit },
      }
    end

    local same = 0
    for _, times in pairs(usual) do same = math.max(same, times) end
    local apart = settings.several(case.config:where("match(key, ?)", GROUPED)):first()
    if #unions < 6 or apart or same < 0.8 * #unions then
      return skip(apart and "batches that no setting puts together: the config has " .. apart.key
        or "six dumped batches of equally many graphs", "domains-in-blocks")
    end
    local share, sure, sides = between(unions)
    local turns, high = 0, 0
    for i, side in ipairs(sides) do
      if i > 1 and side ~= sides[i - 1] then turns = turns + 1 end
      if side > 0 then high = high + 1 end
    end
    if share < opt.alike or sure < opt.sure then return end
    -- Lessons of growing size turn once, and a list that is read once as well.
    if turns < 3 or high < 2 or #sides - high < 2 or takes_turns(case) then
      return skip("sizes that come and go: they may grow by design, or two sets take turns", "domains-in-blocks")
    end
    report {
      symptom  = "domains-in-blocks",
      score    = 0.9,
      at       = { step = unions[1].step },
      message  = ("%s of the variance of graphs' sizes is between batches (%d batches, %d graphs, %.1f standard "
        .. "deviations from mixed ones), %d of which have large ones and %d small ones, by turns: graphs lie sorted by "
        .. "size"):format(units.percent(share), #unions, all, sure, high, #sides - high),
      evidence = { unions[1].of, unions[2].of },
    }
  end,
}
