--- ## What it detects
--- Allocations that failed, from the allocator's own record: what was asked, what was live, and which places in the
--- program held it.
---
--- ## Why it matters
--- The line that fails is where the last byte went, not what is large. The places that hold most of the live memory are
--- what can be made smaller.
---
--- ## How to confirm
--- Halve the batch or the sequence: activations halve, parameters and optimizer states stay.
---
--- ## Known false positives
--- A program that tries sizes until one fits fails on purpose. Kinds of memory are told from names in the call stacks.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

local own_frame = require("frames").own

-- What a call stack allocates for, as far as it tells. The order matters: an optimizer step also runs under a
-- training loop.
local Kinds = {
  { "optimizer states", "*/optim/*|*optimizer.py*|*_init_group*|*fused_adam*" },
  { "gradients",        "*autograd/__init__.py*|*_engine_run_backward*|*autograd/graph.py*" },
  { "inputs",           "*dataloader.py*|*pin_memory*|*collate*" },
  { "parameters",       "*from_pretrained*|*load_state_dict*|*: __init__*| __init__*|*module.py* "
    .. "_apply*|*load_weights*" },
  { "activations",      "*forward*|*functional.py*|*_call_impl*" },
}

local function kind_of(frames)
  for _, kind in ipairs(Kinds) do
    if frames:glob(kind[2]) then return kind[1] end
  end
  return "other"
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "An allocation failed, and who held the memory",
  needs    = { memory_events = { "at", "bytes", "device", "action" } },
  symptoms = { "memory-oom", "memory-mostly-activations" },
  options  = {
    most = { default = 0.50, doc = "Share of the live memory from which on one kind is called most of it" },
  },

  run = function(case)
    local opt = case.options
    for rank, device, events in case.memory_events:where("device >= 0"):group("rank", "device") do
      local here  = { rank = rank, device = device }
      local known = case.devices:where(here):first()
      local size  = known and known.memory
      local fails = events:where { action = "oom" }:sort("at")
      local first = fails:first()
      if first then
        -- What lives: the blocks of the snapshot, or what was allocated before and not given back.
        local live, source = case.memory_blocks:where(here):where("state == 'allocated'"), "snapshot"
        if live:count() == 0 then
          source = "record"
          live = events:where("at <= ? and address is not null and (action == 'alloc' or action == 'free_requested')",
            first.at)
            :sort("at"):aggregate({ "address" }, { bytes = "last bytes", frames = "last frames" }):where("bytes > 0")
        end
        local stacks = live:where("frames is not null"):aggregate({ "frames" },
          { held = "sum bytes", blocks = "count" })
        local total  = live:sum("bytes")
        local by, order, places = {}, {}, {}
        for row in stacks:top(2000, "held"):rows() do
          local kind = kind_of(row.frames)
          by[kind] = (by[kind] or 0) + row.held
          if #places < 3 then
            places[#places + 1] = ("%s (%s, %d blocks)"):format(own_frame(row.frames), units.bytes(row.held),
              row.blocks)
          end
        end
        for kind, held in pairs(by) do order[#order + 1] = { kind = kind, held = held } end
        table.sort(order, function(a, b) return a.held > b.held or a.held == b.held and a.kind < b.kind end)
        local shares = {}
        for _, k in ipairs(order) do shares[#shares + 1] = ("%s %s"):format(k.kind, units.percent(k.held / total)) end
        local hole = case.memory_blocks:where(here):where("state == 'free'"):max("bytes")
        report {
          symptom  = "memory-oom",
          score    = 1,
          at       = here,
          message  = ("an allocation of %s on GPU %d failed%s%s%s%s%s"):format(units.bytes(math.abs(first.bytes or 0)),
            device,
            first.allocated and (" with %s live"):format(units.bytes(first.allocated)) or
              total > 0 and (" with %s live in the %s"):format(units.bytes(total), source) or "",
            size and (" of %s"):format(units.bytes(size)) or "",
            hole and (", the largest free block %s"):format(units.bytes(hole)) or "",
            #places > 0 and ("; most is held by " .. table.concat(places, ", ")) or "; no call stacks say who holds it",
            #shares > 0 and ("; by kind: " .. table.concat(shares, ", ")) or ""),
          evidence = { fails:slice(0, 3), stacks:top(5, "held"):renamed("places of live memory") },
        }
        if by.activations and by.activations >= opt.most * total then
          report {
            symptom  = "memory-mostly-activations",
            score    = 0.85,
            share    = by.activations / total,
            at       = here,
            message  = ("%s of the %s live when an allocation failed came from forward code: activations, which shrink "
              .. "with batch and sequence; parameters and states would "
              .. "not"):format(units.percent(by.activations / total),
              units.bytes(total)),
            evidence = { stacks:top(5, "held"):renamed("places of live memory") },
          }
        end
      end
    end
  end,
}
