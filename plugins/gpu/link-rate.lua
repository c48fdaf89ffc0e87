--- ## What it detects
--- NVLink or PCIe that carries nearly what it can in the mean of the record.
---
--- ## Why it matters
--- A link at its rate is not made faster by other transports, streams or pinned memory: fewer bytes must go over it.
---
--- ## How to confirm
--- Halve the bytes (16 bits instead of 32, gradient accumulation): the step gets shorter in proportion.
---
--- ## Known false positives
--- Bytes counted on a link include those of other processes on the same device. NVLink's rate is that of all links of
--- a device, from the model's name; on a host that connects fewer of them the share is higher than told.
---
--- ## References
--- Rates are those of the vendors' data sheets, each way; PCIe after line encoding.

local monitors = require("monitors")

-- GB/s each way of NVLink, all links of a device together.
local NvLinks = {
  { "NVIDIA B200|NVIDIA GB200", 900 }, { "*H100 80GB HBM3*|NVIDIA H200|NVIDIA H20", 450 },
  { "NVIDIA H800|NVIDIA A800-SXM*", 200 }, { "*A100-SXM*", 300 }, { "*V100-SXM2*", 150 },
}
-- GB/s each way of one lane of PCIe, by generation.
local Lanes = { 0.25, 0.5, 0.985, 1.969, 3.938, 7.563 }

local function nvlink_rate(devices)
  local models = devices:where("model is not null"):distinct("model")
  if models:count() ~= 1 then return end
  for _, known in ipairs(NvLinks) do
    if models:first().model:glob(known[1]) then return known[2] end
  end
end

--- From the generation and width that nvidia-smi samples; an idle link falls back to a lower generation.
local function pcie_rate(rows)
  local generation = rows:where { name = "pcie_generation" }:max("value")
  local width      = rows:where { name = "pcie_width" }:max("value")
  local lane       = generation and Lanes[math.tointeger(generation) or 0]
  return lane and width and lane * width
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A link carries nearly what it can",
  needs    = { counters = { "value", "device" } },
  symptoms = { "nvlink-near-rate", "pcie-near-rate" },
  options  = {
    near        = { default = 0.70, doc = "Share of a link's rate in the mean from which on it is the limit" },
    min_samples = { default = 20, doc = "Samples below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, {}

    local function link(here, rows, symptom, name, rate, label)
      for _, way in ipairs { "tx", "rx" } do
        local seen  = rows:where { name = ("%s_%s_util"):format(name, way) }:where("finite(value)")
        local bytes = rows:where { name = ("%s_%s"):format(name, way) }:where("finite(value)")
        local share = seen:count() > 0 and seen:mean("value") / 100
        if not share and rate and bytes:count() > 0 then seen, share = bytes, bytes:mean("value") / (rate * 1e9) end
        if share and seen:count() >= opt.min_samples then
          judged[name] = true
          -- More than a link can carry is a wrong link, not a full one.
          if share >= opt.near and share <= 1.1 then
            return report {
              symptom  = symptom,
              severity = "warning",
              score    = 0.85,
              at       = here,
              message  = ("%s of GPU %d carries %s of its rate%s in the mean of %d samples (%s): the link is the limit")
                :format(label, here.device, units.percent(share), rate and (", %.4g GB/s each way,"):format(rate) or "",
                  seen:count(), way == "tx" and "sent" or "received"),
              evidence = { seen:slice(0, 5) },
            }
          end
        end
      end
    end

    local function look(rank, device, rows)
      local here = { rank = rank, device = device }
      local devices = rank and case.devices:where(here) or case.devices
      link(here, rows, "nvlink-near-rate", "nvlink", nvlink_rate(devices), "NVLink")
      link(here, rows, "pcie-near-rate", "pcie", pcie_rate(rows), "PCIe")
    end
    monitors.each_device(case, look)
    -- One link that has room says nothing of the other.
    if not judged.nvlink then
      skip(("%d samples of what NVLink carries, and its rate: dcgmi dmon -e 1009,1010,1011,1012 -d 100")
        :format(opt.min_samples), "nvlink-near-rate")
    end
    if not judged.pcie then
      skip(("%d samples of what PCIe carries, and its rate: dcgmi dmon -e 1009,1010,1011,1012 -d 100, beside "
        .. "nvidia-smi --query-gpu=timestamp,index,pcie.link.gen.current,pcie.link.width.current --format=csv -l 1")
        :format(opt.min_samples), "pcie-near-rate")
    end
  end,
}
