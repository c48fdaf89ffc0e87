--- ## What it detects
--- Live device memory close to the size of the device. Cached memory does not count.
---
--- ## Why it matters
--- The next longer batch, or a piece of the cache that does not fit together, fails.
---
--- ## How to confirm
--- Halve the batch or the sequence: activations halve, parameters and optimizer states stay.
---
--- ## Known false positives
--- A serving engine that fills the device with its cache on purpose lives at 90 % and is well: the peak alone is told
--- as information.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Live device memory comes close to the size of the device",
  needs    = { memory_events = { "at", "device", "allocated" }, devices = { "memory" } },
  symptoms = { "memory-near-capacity" },
  options  = {
    near = { default = 0.90, doc = "Live share of the device's memory worth telling" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for rank, device, events in case.memory_events:where("device >= 0"):group("rank", "device") do
      local here  = { rank = rank, device = device }
      local known = case.devices:where(here):first()
      local size  = known and known.memory
      local top = events:where("allocated is not null"):top(1, "allocated"):first()
      if top and size and size > 0 then
        judged = true
        if top.allocated >= opt.near * size then
          report {
            symptom  = "memory-near-capacity",
            severity = "info",
            score    = 1,
            share    = top.allocated / size,
            at       = here,
            message  = ("live memory of GPU %d peaks at %s, %s of its %s"):format(device, units.bytes(top.allocated),
              units.percent(top.allocated / size), units.bytes(size)),
            evidence = { events:top(3, "allocated") },
          }
        end
      end
    end
    if not judged then
      skip("the size of the device beside the total allocated on it: profile_memory=True in torch.profiler")
    end
  end,
}
