--- Dumped batches of graphs: disjoint unions, in which nodes and graphs are numbered on, and one integer a node says
--- which graph it is of.

local elements = require("elements")
local training = require("training-rows")

local graphs = {}

local MOST = 5e5 -- values that are read of a run, at most

---@class culprit.Union
---@field of culprit.Row      the graph of each node
---@field edges culprit.Row?  two rows: where each edge begins and where it ends
---@field graph number[]      the same as `of`, read
---@field sizes integer[]     nodes of each graph
---@field step integer?

--- How many nodes each graph has; nil unless nodes lie graph by graph and none is left out.
local function sizes_of(graph)
  local sizes, at = {}, -1
  for _, g in ipairs(graph) do
    if g == at + 1 then
      at, sizes[#sizes + 1] = g, 1
    elseif g == at and at >= 0 then
      sizes[#sizes] = sizes[#sizes] + 1
    else
      return nil
    end
  end
  return sizes
end

--- The batches of two graphs or more that were dumped whole: `batch.batch` and what has as many rows as there are
--- graphs, such as the target. Of several kinds of nodes it is not known whose numbers are whose: they are left out.
---@param case culprit.Case
---@return culprit.Union[] in the order of their steps
function graphs.unions(case)
  local out, read, seen = {}, 0, {}
  local dumped = training.trained(case.tensors:where("match(name, 'batch.*') and zero_share is not null"))
  for of in dumped:where("match(name, 'batch.batch|batch.graph_id|batch.graph_ids|batch.graph_index') and "
    .. "match(dtype, 'int*') and min == 0 and numel >= 4"):sort("step"):slice(0, 400):rows() do
    local here  = dumped:where { run = of.run, step = of.step, variant = of.variant, rank = of.rank }
    local count = math.floor(of.max) + 1
    local whole = false -- that this is the number of graphs another tensor confirms
    for row in here:where("match(dtype, 'float*|bfloat*|int*') and numel >= ?", count):slice(0, 40):rows() do
      whole = whole or row.name ~= of.name and row.shape and row.shape[1] == count
        and not row.name:glob("*ptr|*_index")
    end
    local known = ("%s %s %s %s"):format(of.run, of.rank, of.step, of.variant)
    local kinds = here:where("match(name, 'batch.edge_index|batch.*.edge_index') and match(dtype, 'int*')")
    if #of.shape == 1 and count >= 2 and whole and not seen[known] and kinds:count() <= 1
      and read + of.numel <= MOST then
      seen[known], read = true, read + of.numel
      local graph = elements.of(of, 0, of.numel)
      local sizes = sizes_of(graph)
      local edges = kinds:first()
      -- Nodes that were not dumped cannot be looked up, and -1 is padding. What hyperedges are is told by attributes.
      local ends  = edges and edges.shape and #edges.shape == 2 and edges.shape[1] == 2 and edges.min ~= nil
        and edges.min >= 0 and edges.max < of.numel
      local attributes = edges and here:where("match(name, '*edge_attr|*edge_weight|*edge_type')"):first()
      if ends and attributes and attributes.shape and attributes.shape[1] ~= edges.shape[2] then ends = false end
      if sizes and #sizes == count then
        out[#out + 1] = { of = of, edges = ends and edges or nil, graph = graph, sizes = sizes, step = of.step }
      end
    end
  end
  return out
end

return graphs
