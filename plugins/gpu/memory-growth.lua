--- ## What it detects
--- Device memory whose live bytes grow from the end of one step to the end of the next.
---
--- ## Why it matters
--- A training step gives back what it takes. What stays is owned by something that outlives the step, and the device is
--- full after so many more steps. `gpu/memory-growth-sites` says who keeps it, where call stacks are on record.
---
--- ## How to confirm
--- Delete the named owner's reference (or store `x.detach().cpu()`) and record the same number of steps: the level at
--- the step ends stays. It does not if the growth comes from inputs that get longer.
---
--- ## Known false positives
--- A curriculum whose sequences get longer while activations are checkpointed into kept buffers; a cache that has not
--- filled up by the end of the record. Growth that slows down to less than half is taken for such a cache and left out.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Live device memory grows from step to step",
  needs    = { memory_events = { "at", "bytes", "device" }, steps = { "step", "stop" } },
  relies   = { "whole-record" },
  symptoms = { "memory-grows" },
  options  = {
    rising       = { default = 0.90,  doc = "Share of the changes from step end to step end that must be upward" },
    min_share    = { default = 0.001, doc = "Growth a step, as a share of the device's memory, worth reporting" },
    min_of_level = { default = 0.01,
                     doc = "The same as a share of what is live, where the size of the device is not known" },
    min_changes  = { default = 5,     doc = "Changes from step end to step end below which growth is not judged" },
  },

  run = function(case)
    local opt, judged, short = case.options, false, false
    local live = case.memory_events:where("device >= 0 and bytes is not null and at is not null")
      :where("action is null or action == 'alloc' or action == 'free_requested'")
    for rank, device, all in live:sort("at"):group("rank", "device") do
      local steps = case.steps:where { rank = rank }:sort("start")
      local n     = steps:count()
      -- The level at the end of the first step is where the counting begins: what the first step takes is set-up.
      if n - 1 < opt.min_changes or n > 10000 then
        short = true
      else
        local stops = steps:col("stop"):values()
        local first, last = stops[1], stops[n]
        local events = all:where("at >= ? and at < ?", first, last)
        -- Between two steps there may be host time: a step's share begins where the one before it ended.
        local spans = steps:slice(1, n - 1):with { start = steps:slice(0, n - 1):col("stop") }
        local dated = events:with { start = "at" }
        local net   = {}
        for i = 1, n - 1 do net[i] = 0 end
        for row in dated:with { k = dated:containing(spans) }:aggregate({ "k" }, { bytes = "sum bytes" }):rows() do
          net[row.k + 1] = row.bytes
        end
        local up, total, early, late, half = 0, 0, 0, 0, (n - 1) // 2
        for i, change in ipairs(net) do
          total = total + change
          if change > 0 then up = up + 1 end
          if i <= half then early = early + change elseif i > #net - half then late = late + change end
        end
        local sorted = { table.unpack(net) }
        table.sort(sorted)
        local typical = sorted[(#sorted + 1) // 2]
        local known   = case.devices:where { rank = rank, device = device }:first()
        local size    = known and known.memory
        local level   = events:max("allocated")
        local floor   = size and opt.min_share * size or level and opt.min_of_level * level
        if not floor then
          short = true
        else
          judged = true
          local steady = late >= 0.5 * early
          if up >= opt.rising * #net and typical > floor and steady then
            local grown = size and (", %s of the device a step"):format(units.percent(typical / size)) or ""
            local left  = ""
            if size and level and typical > 0 and size > level then
              left = ("; at this rate the device is full after %d more steps"):format((size - level) // typical)
            end
            report {
              symptom  = "memory-grows",
              score    = 0.95,
              at       = { rank = rank, device = device, step = steps:row(1).step },
              message  = ("live memory of GPU %d grows by %s a step (median%s), in %d of %d steps after the first, %s "
                .. "in all%s; it would not be a leak if it slowed down, but the second half adds %s after %s of the "
                .. "first")
                :format(device, units.bytes(typical), grown, up, #net, units.bytes(total), left, units.bytes(late),
                  units.bytes(early)),
              evidence = { all:where("at >= ? and at < ?", stops[n - 1], last):top(5, "bytes"), steps:slice(1, 5) },
            }
          end
        end
      end
    end
    if not judged then
      skip(short and ("at least %d steps beside the memory events of one device: record more steps with "
        .. "profile_memory=True")
        :format(opt.min_changes + 1) or "memory events of a device: profile_memory=True in the profiler")
    end
  end,
}
