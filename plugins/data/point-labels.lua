--- ## What it detects
--- Labels of points that do not lie together: those that have nothing to do with where the points are, those that do so
--- on the points of another row, and single ones in the midst of points that all have another label.
---
--- ## Why it matters
--- Parts of things and surfaces are connected: what is near has the same label, but at borders. Labels drawn at random
--- raise no error and put a floor under the loss, and those of another cloud are as good as random ones.
---
--- ## How to confirm
--- Draw one cloud of a batch with a colour for each label.
---
--- ## Known false positives
--- Labels of something else than parts or surfaces, as of single atoms or of what a sensor returned, need not lie
--- together, and look like random ones: nothing is said of labels that the training loss, or validation, has learned to
--- half of what their shares alone cost. A part of few points, or a thin one, has two neighbours somewhere: a single
--- point counts as wrong where its four nearest agree and no two neighbours of its cloud have its label.
---
--- ## References
--- Two points drawn from a cloud have the same label with the sum of the squares of the labels' shares; neighbours are
--- held against that.

local elements = require("elements")
local learning = require("learning")
local runs     = require("runs")

local POINTS, CLOUDS = 128, 48 -- of a cloud, and of all batches, at most
local ROWS = 64 -- of a batch whose labels are tried on a cloud: of the best of many one would fit by chance

---@class point_labels.Cloud
---@field near integer[][]  of each point that counts: its nearest, by distance
---@field batch integer     counted from 1

--- The six nearest of each point, by their numbers in `points`.
local function nearest(points)
  local near = {}
  for i, a in ipairs(points) do
    local best, far = {}, {}
    for j, b in ipairs(points) do
      if i ~= j then
        local d = 0
        for c = 1, #a do d = d + (a[c] - b[c]) ^ 2 end
        if #best < 6 or d < far[6] then
          local at = math.min(#best + 1, 6)
          while at > 1 and far[at - 1] > d do
            best[at], far[at] = best[at - 1], far[at - 1]
            at = at - 1
          end
          best[at], far[at] = j, d
        end
      end
    end
    near[i] = best
  end
  return near
end

--- How often the six nearest of a point have its label, and how often any two points of the cloud have the same.
local function together(near, labels)
  local sizes, same, all, n = {}, 0, 0, #near
  for i = 1, n do
    sizes[labels[i]] = (sizes[labels[i]] or 0) + 1
    for k = 1, math.min(6, #near[i]) do
      all  = all + 1
      same = same + (labels[near[i][k]] == labels[i] and 1 or 0)
    end
  end
  local chance = 0
  for _, size in pairs(sizes) do chance = chance + size * (size - 1) / (n * (n - 1)) end
  return same / all, chance
end

--- Clouds of the batches that labels of one name are dumped with: points, and the labels of all rows of the batch.
local function clouds_of(case, name, run)
  local list, from = {}, nil
  local series = case.tensors:where { name = name, run = run }:where("zero_share is not null"):sort("step")
  for batch in series:slice(0, 12):rows() do
    local rows, width = batch.shape[1], batch.shape[2]
    local here = case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant, rank = batch.rank }
      :where("match(name, '*point*|*xyz*|*coord*|*cloud*|batch.pos') and match(dtype, 'float*') and nonfinite == 0")
    for input in here:rows() do
      local shape = input.shape or {}
      if #shape == 3 and shape[1] == rows and shape[2] == width and shape[3] >= 2 and shape[3] <= 16
        and input.zero_share ~= nil and #list < CLOUDS and (not from or from.name == input.name) then
        from = input
        local used = math.min(width, POINTS)
        local labels, columns = {}, math.floor(shape[3])
        for r = 1, math.min(rows, math.max(ROWS, CLOUDS)) do labels[r] = batch:values((r - 1) * width, used) end
        for r = 1, math.min(rows, CLOUDS - #list) do
          local x = input:values((r - 1) * width * columns, used * columns)
          local all, seen = {}, {}
          for i = 1, used do
            local point = {}
            for c = 1, math.min(3, columns) do point[c] = x[(i - 1) * columns + c] end
            if labels[r][i] >= 0 and labels[r][i] ~= 255 then
              seen[#seen + 1] = i
              all[#all + 1]   = point
            end
          end
          if #all >= 24 then list[#list + 1] = { points = all, seen = seen, row = r, labels = labels } end
        end
      end
    end
  end
  return list, from, series:first()
end

--- What is above chance of how often neighbours agree, of some points with the labels of a row of their batch; nil
--- where these are nearly all the same, or too few count.
local function above_chance(cloud, row)
  local labels = {}
  for i, at in ipairs(cloud.seen) do labels[i] = cloud.labels[row][at] end
  local same, chance = together(cloud.near, labels)
  return chance < 0.9 and (same - chance) / (1 - chance) or nil
end

--- Single points in the midst of others, with a label that no two neighbours of the cloud have, and all points whose
--- four nearest agree.
local function strewn(cloud)
  local wrong, all, met = 0, 0, {}
  local function label(i) return cloud.labels[cloud.row][cloud.seen[i]] end
  for i, near in ipairs(cloud.near) do
    for k = 1, 3 do
      if label(near[k]) == label(i) then met[label(i)] = true end
    end
  end
  for i, near in ipairs(cloud.near) do
    local agree = true
    for k = 2, 4 do agree = agree and label(near[k]) == label(near[1]) end
    if agree then
      all   = all + 1
      wrong = wrong + (met[label(i)] and 0 or 1)
    end
  end
  return wrong, all
end

--- Whether a late loss, of training or of validation, is below half of what knowing only the labels' shares costs.
local function learned(case, run, clouds)
  local counts = {}
  for _, cloud in ipairs(clouds) do
    for _, at in ipairs(cloud.seen) do
      local label = cloud.labels[cloud.row][at]
      counts[label] = (counts[label] or 0) + 1
    end
  end
  local level = learning.entropy(counts)
  for _, name in ipairs({ "loss", "val_loss" }) do
    local loss = runs.series(case, name, run)
    if loss:count() >= 3 and loss:slice(loss:count() - 3, 3):median("value") < 0.5 * level then return true end
  end
  return false
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels of points do not lie together, or do so on the points of another row",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows" },
  options  = {
    clouds = { default = 8,    doc = "Clouds below which nothing is said" },
    apart  = { default = 0.02, doc = "What neighbours agree above chance, of all, that is none" },
    lies   = { default = 0.3,  doc = "The same of labels that lie together" },
    wrong  = { default = 0.05, doc = "Share of single labels in the midst of others, worth reporting" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local named = case.tensors:where("match(name, 'batch.*label*|batch.*seg*|batch.*target*') and match(dtype, 'int*|"
      .. "uint*') and step is not null and numel >= 64")
    for run, name, series in named:group("run", "name") do
      local shape = series:first().shape or {}
      local clouds, from, labels = {}, nil, nil
      if #shape == 2 and shape[2] >= 24 then clouds, from, labels = clouds_of(case, name, run) end
      local own, others, used, wrong, all, square = 0, 0, 0, 0, 0, 0
      for _, cloud in ipairs(clouds) do
        cloud.near = nearest(cloud.points)
        local here, best = above_chance(cloud, cloud.row), -1
        if here then
          for r = 1, math.min(#cloud.labels, ROWS) do
            if r ~= cloud.row then best = math.max(best, above_chance(cloud, r) or -1) end
          end
          own, others, used, square = own + here, others + best, used + 1, square + here * here
          local single, of = strewn(cloud)
          wrong, all = wrong + single, all + of
        end
      end
      if used >= opt.clouds and from and labels then
        judged = true
        own, others = own / used, others / used
        -- What neighbours agree by chance is as much above it as below.
        local none = own <= math.max(opt.apart, 2 * math.sqrt(math.max(0, square / used - own * own) / (used - 1)))
        local text = ("of %d clouds of %s neighbours have the same label %.2g of the way from chance to always"):format(
          used, from.name, math.max(0, own))
        if none and others >= opt.lies then
          report {
            symptom  = "labels-of-other-rows",
            score    = 0.95,
            at       = { step = labels.step, name = name },
            message  = ("%s, and %.2g with the labels that %s has for another row"):format(text, others, name),
            evidence = { labels, from },
          }
        elseif none and not learned(case, run, clouds) then
          report {
            symptom  = "labels-unrelated",
            score    = 0.85,
            at       = { step = labels.step, name = name },
            message  = ("%s: %s has nothing to do with where they are"):format(text, name),
            evidence = { labels, from },
          }
        elseif not none and wrong >= math.max(8, opt.wrong * all) then
          report {
            symptom  = "labels-partly-wrong",
            score    = 0.9,
            at       = { step = labels.step, name = name },
            message  = ("%d of %d points of %s whose four nearest agree (%s) have another label, one that no two "
              .. "neighbours of their cloud have"):format(wrong, all, from.name, units.percent(wrong / all)),
            evidence = { labels, from },
          }
        end
      end
    end
    if not judged then skip("labels of each point of eight clouds or more, beside where the points are") end
  end,
}
