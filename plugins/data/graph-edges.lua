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
--- others. Hypergraphs, several kinds of nodes and padding are left out. One batch of several that has such edges is a
--- broken batch, and no collator that numbers wrongly.
---
--- ## References
--- https://pytorch-geometric.readthedocs.io/en/latest/advanced/batching.html

local elements = require("elements")
local graphs = require("graphs")
local places = require("places")

--- How many edges of a batch join two graphs, of how many; and the number of graphs that hear another one.
local function crossing(union)
  local n = math.floor(union.edges.shape[2])
  local ends, graph, joined, touched, hearing = elements.of(union.edges, 0, 2 * n), union.graph, 0, {}, 0
  for i = 1, n do
    local from, to = graph[math.floor(ends[i]) + 1], graph[math.floor(ends[n + i]) + 1]
    if from ~= to then
      joined = joined + 1
      if not touched[to] then touched[to], hearing = true, hearing + 1 end
    end
  end
  return joined, n, hearing
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
    local judged, all, joined, first, left = 0, 0, 0, nil, case.options.edges
    local most, of_graphs, broken = 0, 0, 0
    for _, union in ipairs(graphs.unions(case)) do
      if union.edges and union.edges.shape[2] <= left then
        local own, n, hearing = crossing(union)
        left, judged, all, joined = left - n, judged + 1, all + n, joined + own
        if own > 0 then
          broken, first = broken + 1, first or union
          if hearing > most then most, of_graphs = hearing, #union.sizes end
        end
      end
    end
    if judged == 0 then
      return skip("a dumped batch of graphs: batch.edge_index, batch.batch and a target of each graph "
        .. "(culprit_recorder.watch)")
    end
    if broken == 0 or broken < judged then return end
    local step, from = places.start(case, first.step, false)
    report {
      symptom  = "edges-join-graphs",
      score    = judged >= 2 and 0.97 or 0.8,
      at       = { step = step },
      message  = ("%s of the edges of %s join nodes of two graphs, in each dump %s; in one batch %d of %d graphs hear "
        .. "another one: nodes are numbered wrongly where graphs are put together"):format(units.percent(joined / all),
        units.plural(judged, "dumped batch", "dumped batches"), from, most, of_graphs),
      evidence = { first.edges, first.of },
    }
  end,
}
