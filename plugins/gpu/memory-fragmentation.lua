--- ## What it detects
--- An allocation that failed, or that took new memory from the driver in a steady step, although the caching
--- allocator held more free memory than was asked for: the free memory was in pieces too small, or of another stream
--- or pool.
---
--- ## Why it matters
--- More memory does not cure it and a smaller batch cures it by accident. The driver is asked again and again, which
--- waits for the device, until one request fails with gigabytes unallocated.
---
--- ## How to confirm
--- Run once with `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: reserved minus allocated shrinks and the failure
--- is gone.
---
--- ## Known false positives
--- A snapshot taken long after the failure: its blocks are no longer those of that moment. Much cached memory alone is
--- normal after the peak of a step, and no finding.
---
--- ## References
--- https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Free device memory is in pieces too small for what is asked",
  needs    = { memory_events = { "at", "action", "bytes" },
    any = { memory_blocks = { "state" }, memory_events = { "reserved" } } },
  symptoms = { "memory-fragmented" },
  options  = {
    min_free  = { default = 0.30, doc = "Free share of the reserved memory from which on it counts as fragmented" },
    min_taken = { default = 3,    doc = "New segments in steady steps, despite enough free memory, worth reporting" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for rank, device, events in case.memory_events:where("device >= 0"):group("rank", "device") do
      local here   = { rank = rank, device = device }
      local fails  = events:where { action = "oom" }:sort("at")
      local blocks = case.memory_blocks:where(here)
      local failed = fails:last()
      if failed then
        local asked  = math.abs(failed.bytes or 0)
        local free   = blocks:where { state = "free" }
        local hole   = free:max("bytes")
        local allocated, reserved = failed.allocated, failed.reserved
        if not (allocated and reserved) and blocks:count() > 0 then
          reserved  = blocks:sum("bytes")
          allocated = blocks:where("state != 'free'"):sum("bytes")
        end
        if allocated and reserved and reserved > 0 and asked > 0 then
          judged = true
          local unused = reserved - allocated
          local share  = unused / reserved
          local enough = unused >= asked and share >= opt.min_free
          -- A hole that was large enough speaks of another stream or pool, or of a snapshot taken later.
          local own    = failed.stream and free:where { stream = failed.stream }:max("bytes")
          local fits   = hole and hole >= asked
          local held   = fits and failed.stream and (own or 0) < asked
          if enough and (not fits or held) then
            local largest = hole and ("the largest free block is %s"):format(units.bytes(hole)) or
              "no free block sufficed, or the allocator had used it (the sizes of the blocks are not recorded)"
            if held then
              largest = ("the free block of %s that would do belongs to another stream, the largest of stream %d is %s")
                :format(units.bytes(hole), failed.stream, units.bytes(own or 0))
            end
            report {
              symptom  = "memory-fragmented",
              score    = hole and 0.97 or 0.85,
              share    = share,
              at       = here,
              message  = ("an allocation of %s on GPU %d failed with %s of %s reserved memory unallocated (%s): %s; "
                .. "less free memory than was asked for would have been demand, not "
                .. "fragmentation"):format(units.bytes(asked),
                  device,
                units.bytes(unused), units.bytes(reserved), units.percent(share), largest),
              evidence = { fails:top(3, "bytes"), free:top(5, "bytes") },
            }
          end
        end
      else
        local steps = case.steps:where { rank = rank, steady = true }
        local taken = events:where("action == 'segment_alloc' and allocated is not null and reserved is not null")
        if steps:count() > 0 and taken:count() > 0 then
          judged = true
          local inside = taken:where("at >= ? and at < ?", steps:min("start"), steps:max("stop"))
          -- `reserved` stands after the event, so the segment itself is part of it.
          local vain = inside:where("bytes > 0 and reserved - bytes - allocated >= bytes and " ..
            "reserved - bytes - allocated >= ? * reserved", opt.min_free)
          if vain:count() >= opt.min_taken then
            report {
              symptom  = "memory-fragmented",
              severity = "warning",
              score    = 0.8,
              at       = here,
              message  = ("in %d steady steps the allocator took %d new segments (%s) on GPU %d although more than "
                .. "their size was free in its cache each time; a first step that fills the cache is not counted")
                  :format(steps:count(),
                vain:count(), units.bytes(vain:sum("bytes")), device),
              evidence = { vain:top(5, "bytes") },
            }
          end
        end
      end
    end
    if not judged then
      skip("a failed allocation or new segments in steady steps: torch.cuda.memory._record_memory_history() and "
        .. "_dump_snapshot()")
    end
  end,
}
