--- ## What it detects
--- Kinds of nodes, as of atoms in molecules, of which the last one of the table is several times as common as all that
--- stand in the second half before it, where the kinds before the last get rarer with their numbers.
---
--- ## Why it matters
--- What a collator clamps to the last row of a table is one kind to the model, whatever it was. Nothing raises.
---
--- ## How to confirm
--- Compare the largest kind of the raw data with the number of rows of the table.
---
--- ## Known false positives
--- A last kind that is kept for all others on purpose; where the config names such a one nothing is said. Numbers that
--- are cut at the last by design, as of neighbours, are no kinds: the config has to say how many kinds there are. Kinds
--- in the order of the alphabet may have any one last: nothing is said where the config names each of them, nor where
--- the others are in no order of how common they are (Kendall's tau of at least a half).
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.nn.Embedding.html

local elements = require("elements")
local kind_names = require("kind-names")
local places = require("places")

--- Whether kinds before the last are in the order of how common they are, the commonest first: of two the one with the
--- smaller number is the commoner three times of four. Where they are not, the last one has no reason to be rare.
---@param counts table<number, integer>
---@param last integer
local function get_rarer(counts, last)
  local falling, all = 0, 0
  for kind = 1, last - 1 do
    for before = 0, kind - 1 do
      local more = (counts[before] or 0) - (counts[kind] or 0)
      falling, all = falling + (more > 0 and 1 or more == 0 and 0.5 or 0), all + 1
    end
  end
  return falling >= 0.75 * all
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The last kind of node stands for several",
  needs    = { tensors = { "name", "data" }, config = { "key", "number" } },
  symptoms = { "category-ids-clamped" },
  options  = {
    factor = { default = 3.0, doc = "Count of the last kind over that of the others of its half that stands out" },
    kinds  = { default = 8,   doc = "Kinds below which any may be as common" },
  },

  run = function(case)
    local opt, counts, total, first, last = case.options, {}, 0, nil, -1
    local dumps = {}
    for x in case.tensors:where("match(name, 'batch.x|batch.z|batch.atom_type*|batch.node_type*') and match(dtype, "
      .. "'int*|uint*') and zero_share is not null and min >= 0"):sort("step"):slice(0, 200):rows() do
      if #x.shape == 1 or #x.shape == 2 and x.shape[2] == 1 then
        local own = {}
        for _, kind in ipairs(elements.of(x, 0, math.min(x.numel, 50000))) do
          counts[kind], total, last = (counts[kind] or 0) + 1, total + 1, math.max(last, math.floor(kind))
          own[kind] = (own[kind] or 0) + 1
        end
        local graph = case.tensors:where { name = "batch.batch", run = x.run, step = x.step, variant = x.variant }
          :first()
        dumps[#dumps + 1] = { own = own, graphs = graph and graph.max and graph.max + 1 }
        first = first or x
      end
    end
    local table_ = first and case.config:where("match(key, '*node_types|*atom_types|*num_elements|*num_atom_kinds') "
      .. "and number >= ?", opt.kinds):first()
    if not table_ then
      return skip("dumped kinds of nodes (batch.x of one column), and a config that says how many kinds there are")
    end
    local kept = case.config:where("match(key, '*other*|*unknown*|*misc*|*rare*') and match(key, '*type*|*node*|"
      .. "*atom*|*element*') or match(value, '*other*|*unknown*|*misc*|*rare*')"):first()
    if kept then return skip("kinds none of which is kept for others: the config has " .. kept.key) end
    if last ~= math.floor(table_.number) - 1 or total < 200 then return end
    local named = kind_names.of(case, last + 1)
    if named then return skip("kinds that the config does not name one by one, as does " .. named.key) end
    if not get_rarer(counts, last) then return skip("kinds that get rarer with their numbers") end
    local high = 0
    for kind = (last + 1) // 2, last - 1 do high = math.max(high, counts[kind] or 0) end
    local count = counts[last]
    -- One node that stands for the whole of each graph has a kind of its own.
    local one_each = true
    for _, dump in ipairs(dumps) do one_each = one_each and dump.graphs == dump.own[last] end
    if one_each then return skip("kinds of nodes none of which each graph has once") end
    if high < 10 or count < opt.factor * high or count - high < 6 * math.sqrt(count + high) then return end
    report {
      symptom  = "category-ids-clamped",
      score    = 0.8,
      at       = { step = places.first_step(case), name = first.name },
      message  = ("%d of %s dumped nodes are of the kind %d, the last of %d (%s), and of the %d kinds before it none "
        .. "has more than %d: larger kinds look clamped to it, from the start"):format(count, units.count(total), last,
        last + 1, table_.key, last - (last + 1) // 2, high),
      evidence = { first, table_ },
    }
  end,
}
