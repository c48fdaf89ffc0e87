--- ## What it detects
--- Where the device memory was allocated that stays from step to step: blocks made in one step and not given back by
--- the end of the record, in nearly every step.
---
--- ## Why it matters
--- One call site is a list, a cache or a hook that keeps its tensor; many sites all over the forward pass are a graph
--- that a kept loss or hidden state still owns. The cures differ.
---
--- ## How to confirm
--- Drop the named owner's reference (or store `x.detach().cpu()`) and record again: the blocks of that place are gone.
---
--- ## Known false positives
--- Buffers that are made anew in each step and live for several: a prefetched batch, gradients of the last step. What
--- was made in the last recorded step is left out for that reason.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

local own_frame = require("frames").own

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Memory that stays from step to step has one owner, or many",
  needs    = { memory_events = { "at", "bytes", "device", "address", "frames" }, steps = { "step", "stop" } },
  relies   = { "whole-record" },
  symptoms = { "memory-growth-one-site", "memory-growth-many-sites" },
  options  = {
    in_steps   = { default = 0.90,  doc = "Share of the steps that must leave blocks behind" },
    min_share  = { default = 0.001, doc = "What a step leaves, as a share of the device's memory, worth reporting" },
    min_bytes  = { default = units.MiB, doc = "The same in bytes, where the size of the device is not known" },
    min_steps  = { default = 6,     doc = "Steps below which nothing is judged" },
    one_site   = { default = 0.60,
                   doc = "Share of the kept bytes from which on one call stack is named as the owner" },
    many_sites = { default = 4,     doc = "Call stacks from which on the growth is said to come from all over" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local live = case.memory_events:where("device >= 0 and at is not null and address is not null and bytes is not "
      .. "null")
      :where("action is null or action == 'alloc' or action == 'free_requested'")
    for rank, device, all in live:sort("at"):group("rank", "device") do
      local steps = case.steps:where { rank = rank }:sort("start")
      local n     = steps:count()
      if n >= opt.min_steps and n <= 10000 then
        judged = true
        local stops  = steps:col("stop"):values()
        local events = all:where("at >= ? and at < ?", stops[1], stops[n])
        local kept   = events:aggregate({ "address" }, { bytes = "last bytes", at = "last at" })
          :where("bytes > 0 and at < ?", stops[n - 1])
        local known  = case.devices:where { rank = rank, device = device }:first()
        local floor  = known and known.memory and opt.min_share * known.memory or opt.min_bytes
        local with, early, late, middle = 0, 0, 0, n - 2
        for i = 2, n - 1 do
          local left = kept:where("at >= ? and at < ?", stops[i - 1], stops[i]):sum("bytes")
          if left > floor then with = with + 1 end
          if i - 1 <= middle // 2 then
            early = early + left
          elseif i - 1 > middle - middle // 2 then
            late = late + left
          end
        end
        if with >= opt.in_steps * middle and late >= 0.5 * early then
          local sites  = events:where("bytes > 0 and frames is not null"):select("address", "at", "frames", "bytes")
          local owners = kept:join(sites, { "address", "at" })
            :aggregate({ "frames" }, { held = "sum bytes", blocks = "count" })
          local named, top = owners:sum("held"), owners:top(1, "held"):first()
          if top then
            local share = top.held / named
            local told  = own_frame(top.frames)
            local at    = { rank = rank, device = device, name = told }
            if share >= opt.one_site then
              report {
                symptom  = "memory-growth-one-site",
                score    = 0.9,
                share    = share,
                at       = at,
                message  = ("%s of the %s that stay were allocated at one place, %s: %d blocks, %s, left by %d of %d "
                  .. "steps; a list, cache or hook keeps them (a kept graph would show %d or more places)")
                    :format(units.percent(share),
                  units.bytes(named), told, top.blocks, units.bytes(top.held), with, middle, opt.many_sites),
                evidence = { sites:where { frames = top.frames }:top(5, "bytes") },
              }
            elseif owners:count() >= opt.many_sites then
              report {
                symptom  = "memory-growth-many-sites",
                score    = 0.85,
                share    = share,
                at       = at,
                message  = ("the %s that stay were allocated at %d places, the largest, %s, holds %s (%s), left by %d "
                  .. "of %d steps: a kept graph owns its activations (one list or cache would show one place)")
                    :format(units.bytes(named),
                  owners:count(), told, units.bytes(top.held), units.percent(share), with, middle),
                evidence = { owners:top(5, "held"):renamed("places of kept memory") },
              }
            end
          end
        end
      end
    end
    if not judged then
      skip(("at least %d steps beside allocations with call stacks: record more steps"):format(opt.min_steps))
    end
  end,
}
