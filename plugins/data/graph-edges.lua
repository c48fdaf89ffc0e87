--- ## What it detects
--- Edges of a batch of graphs that join nodes of two of them, in each dumped batch: by `edge_index`, and by `batch`,
--- which says of each node what graph it is of.
---
--- ## Why it matters
--- A batch of graphs is their disjoint union. Where nodes are numbered on by too little or too much a node hears those
--- of another graph, and what is learned of one depends on what lies beside it. Nothing raises.
---
--- ## How to confirm
--- Predict a graph alone and behind another one in a batch: both must be the same in evaluation mode.
---
--- ## Known false positives
--- Edges that join graphs by design, as those of pairs to be matched; these have tensors of their own, whose names are
--- others. Left out are edges from a node to the one at the same place of another graph, as from a frame of a course to
--- the next, or to a neighbour of that one: nodes that are numbered on wrongly meet any others. So are edges there and
--- back between graphs that hang together without them, where `batch` says of what part of one graph a node is: one end
--- numbered wrongly leaves no way back, and both ends leave no graph whole. Hypergraphs, several kinds of nodes and
--- padding are left out. One batch of several that has such edges is a broken batch, and no collator that numbers
--- wrongly.
---
--- ## References
--- https://pytorch-geometric.readthedocs.io/en/latest/advanced/batching.html

local elements = require("elements")
local graphs = require("graphs")
local places = require("places")

---@class graph_edges.Joined
---@field union culprit.Union
---@field edges integer
---@field joining integer  that join two graphs
---@field hearing integer  graphs that hear another one through them
---@field meant boolean    whether they all go there and back between graphs that hang together without them

--- The first node of each graph, counted from 0.
local function starts_of(sizes)
  local out, at = {}, 0
  for g, size in ipairs(sizes) do out[g - 1], at = at, at + size end
  return out
end

--- Whether the nodes of a graph hang together by the edges that are its own: each is led to another one by `parent`.
local function hangs_together(parent, first, size)
  local roots = 0
  for node = first, first + size - 1 do
    if parent[node] == node then roots = roots + 1 end
  end
  return roots == 1
end

--- The node that stands for all that hang together with one.
local function root_of(parent, node)
  while parent[node] ~= node do
    parent[node] = parent[parent[node]]
    node = parent[node]
  end
  return node
end

---@param union culprit.Union
---@return graph_edges.Joined
local function joined(union)
  local n, graph, starts = math.floor(union.edges.shape[2]), union.graph, starts_of(union.sizes)
  local ends, known, parent = elements.of(union.edges, 0, 2 * n), {}, {}
  local nodes = #graph
  for node = 0, nodes - 1 do parent[node] = node end
  for i = 1, n do
    local from, to = math.floor(ends[i]), math.floor(ends[n + i])
    known[from * nodes + to] = true
    if graph[from + 1] == graph[to + 1] then parent[root_of(parent, from)] = root_of(parent, to) end
  end
  -- Whether both graphs have an edge between the places of two nodes, or the places are one.
  local function by_place(from, to)
    local g, h = math.floor(graph[from + 1]), math.floor(graph[to + 1])
    local a, b = from - starts[g], to - starts[h]
    if a == b then return true end
    return a < union.sizes[h + 1] and b < union.sizes[g + 1]
      and known[from * nodes + starts[g] + b] and known[(starts[h] + a) * nodes + to]
  end
  local joining, touched, hearing, meant = 0, {}, 0, true
  for i = 1, n do
    local from, to = math.floor(ends[i]), math.floor(ends[n + i])
    local g, h = graph[from + 1], graph[to + 1]
    if g ~= h and not by_place(from, to) then
      joining = joining + 1
      meant = meant and known[to * nodes + from] == true
      if not touched[h] then touched[h], hearing = true, hearing + 1 end
    end
  end
  for h in pairs(touched) do
    h = math.floor(h)
    meant = meant and hangs_together(parent, starts[h], union.sizes[h + 1])
  end
  return { union = union, edges = n, joining = joining, hearing = hearing, meant = meant }
end

--- The batches whose edges are dumped, as many as may be read.
---@return graph_edges.Joined[]
local function batches_of(case)
  local out, left = {}, case.options.edges
  for _, union in ipairs(graphs.unions(case)) do
    if union.edges and union.edges.shape[2] <= left then
      out[#out + 1] = joined(union)
      left = left - out[#out].edges
    end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Edges of a batch join nodes of two graphs",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "edges-join-graphs" },
  options  = {
    edges = { default = 300000, doc = "Edges that are read of a run, at most" },
  },

  run = function(case)
    local batches, edges, joining, worst = batches_of(case), 0, 0, nil
    if #batches == 0 then
      return skip("a dumped batch of graphs: batch.edge_index, batch.batch and a target of each graph "
        .. "(culprit_recorder.watch)")
    end
    for _, batch in ipairs(batches) do
      if batch.joining == 0 then return end
      if batch.meant then return skip("edges that join graphs by mistake: these go there and back") end
      edges, joining = edges + batch.edges, joining + batch.joining
      if not worst or batch.hearing > worst.hearing then worst = batch end
    end
    local first = batches[1].union
    local step, from = places.start(case, first.step, false)
    report {
      symptom  = "edges-join-graphs",
      score    = #batches >= 2 and 0.97 or 0.8,
      at       = { step = step },
      message  = ("%s of the edges of %s join nodes of two graphs, in each dump %s; in one batch %d of %d graphs hear "
        .. "another one: nodes are numbered wrongly where graphs are put together"):format(
        units.percent(joining / edges), units.plural(#batches, "dumped batch", "dumped batches"), from, worst.hearing,
        #worst.union.sizes),
      evidence = { first.edges, first.of },
    }
  end,
}
