--- ## What it detects
--- In the record of one rank alone: messages of 5 MB and more that take ten times as long as the links inside a host
--- need for them.
---
--- ## Why it matters
--- Either the link is slow, or this rank waited in the collective for a late peer. One rank's record cannot tell the
--- two apart, but overlap and buckets mend neither, so it should be settled first.
---
--- ## How to confirm
--- Record all ranks of the group over the same steps and give them to culprit together: `gpu/bus-bandwidth` then
--- measures from when the last rank entered, `gpu/collective-skew` names the rank that was late. `all_reduce_perf -b 4M
--- -e 64M -f 2` tells the link alone.
---
--- ## Known false positives
--- A group of up to eight ranks is taken to lie inside one host; spread over hosts, its rate is that of the network
--- cards.
---
--- ## References
--- nccl-tests, doc/PERFORMANCE.md, for bus bandwidth; vendors' data sheets for the links.

local links = require("links")

-- Bus bandwidth over payload rate, for `size` ranks; nil for what nccl-tests does not define it for.
local function bus_factor(op, size)
  if op == "all_reduce" then return 2 * (size - 1) / size end
  if op:glob("all_gather|reduce_scatter|all_to_all") then return (size - 1) / size end
  if op:glob("broadcast|reduce") then return 1 end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Messages in one rank's record move far below the rate of the link",
  needs    = { collectives = { "start", "dur", "bytes", "op", "group_size", "rank" }, devices = { "model" } },
  symptoms = { "messages-slow-one-rank" },
  options  = {
    min_bytes = { default = 5000000, doc = "Smaller messages are limited by latency" },
    max_spec  = { default = 0.10, doc = "Of the links inside a host; a message of 5 MB reaches about twice that" },
    min_count = { default = 3, doc = "Messages from which it is judged" },
    min_share = { default = 0.05, doc = "Share of the window that they take" },
    host_size = { default = 8, doc = "Groups up to this size are taken to lie inside one host" },
  },

  run = function(case)
    local opt = case.options
    if case.collectives:distinct("rank"):count() ~= 1 then
      return skip("the record of one rank: of several, gpu/bus-bandwidth tells the transfer from the wait")
    end
    local link, model = links.of(case)
    if not link then
      return skip("the rate of the links between devices: it is known for boards with NVLink or xGMI only")
    end
    local judged = false
    for window in case.windows:where("dur > 0"):rows() do
      local here  = { rank = window.rank, device = window.device }
      local large = case.collectives:where(here):where("start < ? and stop > ? and dur > 0", window.stop, window.start)
                      :where("bytes >= ? and group_size >= 2 and group_size <= ?", opt.min_bytes, opt.host_size)
      for op, size, rows in large:group("op", "group_size") do
        local factor = bus_factor(op, size)
        if factor and rows:count() >= opt.min_count then
          judged = true
          -- Bytes per ns are GB/s.
          local typical = rows:compute("bytes * ? / dur", factor):median()
          if typical < opt.max_spec * link and rows:covered() >= opt.min_share * window.dur then
            local big  = rows:sort("-bytes"):first()
            local same = rows:where { bytes = big.bytes }
            report {
              symptom  = "messages-slow-one-rank",
              severity = "info",
              score    = 0.8,
              share    = rows:covered() / window.dur,
              at       = here,
              message  = ("%s of %s on %d ranks takes %s here, a bus bandwidth of %s, %s of the %d GB/s that the links "
                .. "of %s carry: waiting for a late peer, or a slow link; record all ranks to tell")
                :format(op, units.bytes(big.bytes), size, units.format(same:median("dur")),
                        links.rate(same:compute("bytes * ? / dur", factor):median()),
                        units.percent(same:compute("bytes * ? / dur", factor):median() / link), link, model),
              evidence = { rows:top(5, "dur") },
            }
          end
        end
      end
    end
    if not judged then
      return skip(("%d collectives of 5 MB or more among up to eight ranks, with sizes: profile with "
        .. "record_shapes=True"):format(opt.min_count))
    end
  end,
}
