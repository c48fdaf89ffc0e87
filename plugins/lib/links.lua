--- The links between the devices of one host.

local links = {}

-- Unidirectional GB/s, from the vendors' data sheets. Only models whose name says that they have such links: the PCIe
-- boards of the same chip may or may not have a bridge.
-- `whole`: a mesh, in which only a group of that many devices can use all links of each.
local LINKS = {
  { model = "NVIDIA B200|NVIDIA GB200",                  rate = 900 },
  { model = "*H100 80GB HBM3*|NVIDIA H200|NVIDIA H20",   rate = 450 },
  { model = "NVIDIA H800|NVIDIA A800-SXM*",              rate = 200 },
  { model = "*A100-SXM*",                                rate = 300 },
  { model = "*V100-SXM2*",                               rate = 150, whole = 8 },
  { model = "*MI300X*",                                  rate = 448, whole = 8 },
}

--- The link of the case's devices; nil where they are of several models, or of one without known links.
---@param case culprit.Case
---@return integer? rate   GB/s each way
---@return string? model
---@return integer? whole  devices that are needed to use all links of each; nil where two are enough
function links.of(case)
  local models = case.devices:where("model is not null"):distinct("model")
  if models:count() ~= 1 then return end
  local model = models:first().model
  for _, link in ipairs(LINKS) do
    if model:glob(link.model) then return link.rate, model, link.whole end
  end
end

--- A rate as people read it: 12.3 GB/s.
---@param value number  GB/s, which is bytes per ns
---@return string
function links.rate(value) return units.number(value, 3) .. " GB/s" end

return links
