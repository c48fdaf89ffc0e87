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
--- turns from batch to batch are told by a logged number of nodes. Batches of like size that are dealt out at random
--- come in no order: of thirty dumped ones or more their sizes have to be like those some dumps before, as in any list
--- that is read again or changes slowly. Graphs that are drawn at a fixed size, points of a cloud or a patch, are all
--- of that size or nearly so on purpose: a limit on points or crops is none of nodes. Nor is the number of neighbours
--- that a sampler draws around a node or a pair: where two thirds of all graphs have it, it is a size that was asked
--- for. A setting that may as well say how large the data's graphs are counts for little.
---
--- ## References
--- The test of sizes against batches is that of variances (Fisher), as a normal deviate (Wilson and Hilferty 1931).

local graphs = require("graphs")
local settings = require("settings")
local statistics = require("statistics")

local GROUPED = "*homogen*|*group_by*|*grouped*|*bucket*|*batch_sampler*|*task_sampl*|*curriculum*|*continual*|"
  .. "*size_sort*|*sort_by*"
local SAMPLED = "*num_hops*|*n_hops*|*neighbo*|*fanout*|*subgraph*"

---@class graph_sizes.Spread  How sizes are spread over batches.
---@field share number   of their variance that is between batches
---@field sure number    standard deviations from batches that were mixed
---@field large integer  batches of which most graphs are larger than usual
---@field small integer
---@field turns integer  how often a small one follows on a large one, or the reverse

--- The batches of which most graphs are smaller or larger than usual, in order: -1 or 1.
---@param usual number      mean of all sizes
---@param deviation number  of all sizes
local function sides_of(unions, usual, deviation)
  local sides = {}
  for _, union in ipairs(unions) do
    local sum = 0
    for _, size in ipairs(union.sizes) do sum = sum + size end
    local away = (sum / #union.sizes - usual) / deviation * math.sqrt(#union.sizes)
    if math.abs(away) >= 3 then sides[#sides + 1] = away > 0 and 1 or -1 end
  end
  return sides
end

---@param unions culprit.Union[]
---@return graph_sizes.Spread
local function spread_of(unions)
  local spread = { share = 0, sure = 0, large = 0, small = 0, turns = 0 }
  local k, n, sum, square, within = #unions, 0, 0, 0, 0
  for _, union in ipairs(unions) do
    local own, own_square = 0, 0
    for _, size in ipairs(union.sizes) do own, own_square = own + size, own_square + size * size end
    n, sum, square = n + #union.sizes, sum + own, square + own_square
    within = within + own_square - own * own / #union.sizes
  end
  local total = square - sum * sum / n
  if n <= k or total <= 0 then return spread end
  -- Graphs that are all alike within batches have no spread at all; a thousandth of the whole keeps the ratio finite.
  within = math.max(within, 1e-3 * total)
  spread.share = 1 - within / total
  spread.sure  = statistics.f_deviate((total - within) / (k - 1) / (within / (n - k)), k - 1, n - k)
  local before
  for _, side in ipairs(sides_of(unions, sum / n, math.sqrt(total / n))) do
    if before and side ~= before then spread.turns = spread.turns + 1 end
    if side > 0 then spread.large = spread.large + 1 else spread.small = spread.small + 1 end
    before = side
  end
  return spread
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

--- Whether batches' sizes are like those of no number of dumps before, up to a third of them: they come by chance.
--- Those of a list that is read again or changes slowly are not. False for too few dumps to tell.
---@param unions culprit.Union[]
local function come_by_chance(unions)
  local means, n, mean = {}, #unions, 0
  if n < 30 then return false end
  for i, union in ipairs(unions) do
    means[i] = #union.graph / #union.sizes
    mean = mean + means[i] / n
  end
  local variance = 0
  for _, v in ipairs(means) do variance = variance + (v - mean) ^ 2 / n end
  for lag = 1, n // 3 do
    local sum = 0
    for i = 1, n - lag do sum = sum + (means[i] - mean) * (means[i + lag] - mean) end
    if sum / (n - lag) >= 0.6 * variance then return false end
  end
  return true
end

--- How often graphs have the greatest number of nodes, of how many; that number; and how often the next commonest one.
local function at_most(unions)
  local counts, most, all, next_ = {}, 0, 0, 0
  for _, union in ipairs(unions) do
    for _, size in ipairs(union.sizes) do
      counts[size], most, all = (counts[size] or 0) + 1, math.max(most, size), all + 1
    end
  end
  for size, count in pairs(counts) do if size ~= most then next_ = math.max(next_, count) end end
  return counts[most] or 0, all, most, next_
end

--- The setting that cuts graphs at so many nodes; one that only sizes padding, or says what the data have, cuts none.
local function limit_of(case, nodes)
  return case.config:where("match(key, '*node_limit*|*atom_limit*|*truncat*|*keep*nodes*|*keep*atoms*|"
    .. "*crop_nodes*|*crop_atoms*|*cut*nodes*|*cut*atoms*') and "
    .. "not match(key, '*per_batch*|*batch_max*|*point*|*sampl*|*crop*') and number == ?", nodes):first()
end

--- A setting of the most nodes that says no more than that: what the data have, what padding has room for, or a cut.
local function most_of(case, nodes)
  return case.config:where("match(key, '*max*nodes|*max*atoms|*max*num_nodes|*max*n_nodes') and "
    .. "not match(key, '*per_batch*|*batch_max*|*point*|*sampl*|*crop*') and number == ?", nodes):first()
end

--- Reports graphs that were cut at a number of nodes.
---@param unions culprit.Union[]
local function judge_cut(case, unions)
  local at, all, most, next_ = at_most(unions)
  local sampled = settings.on(case.config:where("match(key, ?)", SAMPLED)):first()
  if at < case.options.cut * all or at == all or at < 3 * next_ then return end
  local limit = limit_of(case, most)
  local named = not limit and not sampled and most_of(case, most)
  if named then
    return report {
      symptom  = "rows-cut-at-limit",
      score    = 0.18,
      at       = { step = unions[1].step },
      message  = ("%d of %d dumped graphs have %d nodes, which is %s, none has more, and of no other size are more "
        .. "than %d: nodes beyond it were cut off, unless so many are as large by themselves"):format(at, all, most,
        named.key, next_),
      evidence = { unions[1].of, named },
    }
  elseif not limit then
    return skip(("a limit on nodes in a config: %d of %d graphs have %d"):format(at, all, most), "rows-cut-at-limit")
  elseif sampled or at > 2 / 3 * all then
    return skip(("graphs that are no samples of so many nodes: %s"):format(sampled and "the config has " .. sampled.key
      or ("%d of %d have %d"):format(at, all, most)), "rows-cut-at-limit")
  end
  report {
    symptom  = "rows-cut-at-limit",
    score    = 0.85,
    at       = { step = unions[1].step },
    message  = ("%d of %d dumped graphs have %d nodes, which is %s, none has more, and of no other size are more "
      .. "than %d: nodes beyond it were cut off, and targets are those of the whole"):format(at, all, most, limit.key,
      next_),
    evidence = { unions[1].of, limit },
  }
end

--- How many batches have as many graphs as most have.
local function of_one_count(unions)
  local times, most = {}, 0
  for _, union in ipairs(unions) do
    times[#union.sizes] = (times[#union.sizes] or 0) + 1
    most = math.max(most, times[#union.sizes])
  end
  return most
end

--- Reports graphs that lie sorted by size.
---@param unions culprit.Union[]
---@param all integer  graphs
local function judge_order(case, unions, all)
  local opt = case.options
  local together = settings.several(case.config:where("match(key, ?)", GROUPED)):first()
    or case.config:where("match(key, '*batch*|*sampler*|*loader*') and match(value, '*similar*|*bucket*|*by_size*|"
      .. "*like_size*|*by_length*')"):first()
  if together then
    return skip("batches that no setting puts together: the config has " .. together.key, "domains-in-blocks")
  elseif #unions < 6 or of_one_count(unions) < 0.8 * #unions then
    return skip("six dumped batches of equally many graphs", "domains-in-blocks")
  end
  local spread = spread_of(unions)
  if spread.share < opt.alike or spread.sure < opt.sure then return end
  -- Lessons of growing size turn once, and a list that is read once as well.
  if spread.turns < 3 or spread.large < 2 or spread.small < 2 or takes_turns(case) then
    return skip("sizes that come and go: they may grow by design, or two sets take turns", "domains-in-blocks")
  elseif come_by_chance(unions) then
    return skip("batches in an order: those of like size come by chance", "domains-in-blocks")
  end
  report {
    symptom  = "domains-in-blocks",
    score    = 0.9,
    at       = { step = unions[1].step },
    message  = ("%s of the variance of graphs' sizes is between batches (%d batches, %d graphs, %.1f standard "
      .. "deviations from mixed ones), %d of which have large ones and %d small ones, by turns: graphs lie sorted by "
      .. "size"):format(units.percent(spread.share), #unions, all, spread.sure, spread.large, spread.small),
    evidence = { unions[1].of, unions[2].of },
  }
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
    local unions, all = graphs.unions(case), 0
    for _, union in ipairs(unions) do all = all + #union.sizes end
    if all < case.options.graphs then
      return skip(("%d dumped graphs: batch.batch and a target of each (culprit_recorder.watch)"):format(
        case.options.graphs))
    end
    judge_cut(case, unions)
    judge_order(case, unions, all)
  end,
}
