--- ## What it detects
--- Device memory that the caching allocator gives back to the driver (`segment_free`) and soon asks for again
--- (`segment_alloc`): how much, in how many rounds, within what time.
---
--- ## Why it matters
--- Each of these is a `cudaFree` or a `cudaMalloc`, 0.1 to 500 ms in which nothing is launched, against microseconds
--- from the cache. `empty_cache()` in the loop does it, and so does a request that does not fit: the allocator then
--- frees all that it has cached and tries again.
---
--- ## How to confirm
--- `torch.cuda.memory_stats()`: `num_alloc_retries` that grows says that a request did not fit; if it stays 0, somebody
--- calls `empty_cache()`.
---
--- ## Known false positives
--- One `empty_cache()` between phases, such as training and evaluation, costs its time once: a single round counts
--- half. Virtual segments (`expandable_segments`) map pages, which is cheap, and are not counted.
---
--- ## References
--- https://pytorch.org/docs/stable/torch_cuda_memory.html

-- What of the memory given back is asked for again, round by round. A round is a run of frees and the requests after
-- it, up to the next free or until its memory is back.
local function rounds(segments, window)
  local found, now = {}, nil
  for e in segments:rows() do
    local size = math.abs(e.bytes)
    if e.action == "segment_free" then
      if not now or now.asks > 0 then
        now = { from = e.at, given = 0, back = 0, frees = 0, asks = 0, upto = e.at, last = e.at }
        found[#found + 1] = now
      end
      now.given, now.frees, now.last = now.given + size, now.frees + 1, e.at
    elseif now and now.back < now.given and e.at - now.last <= window then
      now.back, now.asks, now.upto = math.min(now.given, now.back + size), now.asks + 1, e.at
    end
  end
  return found
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Memory is given back to the driver and asked for again",
  needs    = { memory_events = { "at", "bytes", action = { "segment_alloc", "segment_free" } } },
  symptoms = { "segments-reallocated" },
  options  = {
    min_share    = { default = 0.25,
                     doc = "Share of all segments' bytes that were given back before, worth reporting" },
    min_segments = { default = 16,   doc = "Segments asked for again, in all rounds, worth reporting" },
    window       = { default = 5 * units.s,
                     doc = "A segment asked for longer than this after the last free belongs to another phase" },
  },

  run = function(case)
    local opt = case.options
    for rank, device, events in case.memory_events:where("device >= 0 and at is not null and bytes is not null")
      :where { action = { "segment_alloc", "segment_free" } }:group("rank", "device") do
      local segments = events:sort("at")
      ---@type integer, integer, integer, integer, integer, table?, integer
      local back, asks, frees, given, count, first, took = 0, 0, 0, 0, 0, nil, 0
      for _, r in ipairs(rounds(segments, opt.window)) do
        if r.asks > 0 then
          count, back, asks = count + 1, back + r.back, asks + r.asks
          frees, given = frees + r.frees, given + r.given
          took, first = took + r.upto - r.from, first or r
        end
      end
      local all = segments:where { action = "segment_alloc" }:sum("bytes")
      if asks >= opt.min_segments and frees >= opt.min_segments and back >= opt.min_share * all then
        local inside = segments:where("at >= ? and at <= ?", first.from, first.upto)
        report {
          symptom  = "segments-reallocated",
          severity = "warning",
          -- Once may be a change of phase.
          score    = count == 1 and 0.5 or math.min(1, 0.6 + 0.1 * count),
          at       = { rank = rank, device = device },
          message  = ("the allocator gives %s (%s) on GPU %d back to the driver and asks for %s of it again with %s, "
            .. "%s in all, %s"):format(
            units.plural(frees, "segment"), units.bytes(given), device, units.bytes(back),
              units.plural(asks, "new segment"),
            units.format(took), count == 1 and "once" or ("in %d rounds"):format(count)),
          evidence = {
            inside:where { action = "segment_free" }:slice(0, 5):renamed("given back"),
            inside:where { action = "segment_alloc" }:slice(0, 5):renamed("asked for again"),
          },
        }
      end
    end
  end,
}
