--- Events of the NVIDIA driver (Xid) and of its switches (SXid): who is at fault, what to do, and what they mean.

local xid = {}

-- Who is at fault, and the action that NVIDIA's catalogue gives first.
--   program   an access or a command that the program must not make
--   memory, link, device   the hardware
--   firmware  a processor of the board or the driver's part of it stopped answering
--   note      what the driver did or asks for after another event
local XID = {
  [8]   = { "device", "restart", "GPU stopped processing: a channel made no progress" },
  [11]  = { "program", "restart", "invalid or corrupted push buffer" },
  [13]  = { "program", "restart", "graphics engine exception: an address out of range or misaligned, or the like" },
  [25]  = { "program", "restart", "invalid or illegal push buffer" },
  [31]  = { "program", "restart", "GPU memory page fault: a kernel touched an address that is not mapped" },
  [32]  = { "program", "restart", "invalid or corrupted push buffer" },
  [37]  = { "firmware", "none", "driver firmware error" },
  [38]  = { "firmware", "none", "driver firmware watchdog" },
  [39]  = { "device", "restart", "copy engine exception" },
  [40]  = { "device", "restart", "copy engine exception" },
  [41]  = { "device", "restart", "copy engine exception" },
  [43]  = { "note", "none", "the driver reset a channel of the program: it hit a fault of its own" },
  [44]  = { "device", "none", "fault during a context switch" },
  [45]  = { "note", "none", "the driver removed the program's channels after an earlier fault or a kill" },
  [46]  = { "device", "reset", "GPU stopped processing: timeout" },
  [48]  = { "memory", "reset", "double-bit ECC error" },
  [54]  = { "device", "inspect", "auxiliary power is not connected to the board" },
  [62]  = { "firmware", "reset", "the board's micro-controller halted" },
  [63]  = { "memory", "none", "a memory row was marked for remapping, which a reset applies" },
  [64]  = { "memory", "replace", "a memory row could not be remapped" },
  [66]  = { "firmware", "none", "illegal access by the driver" },
  [67]  = { "firmware", "none", "illegal access by the driver" },
  [69]  = { "program", "restart", "graphics engine class error" },
  [74]  = { "link", "reset", "NVLink error" },
  [78]  = { "firmware", "update", "vGPU could not start" },
  [79]  = { "device", "reboot", "the GPU has fallen off the bus" },
  [80]  = { "program", "restart", "corrupted data sent to the GPU" },
  [92]  = { "memory", "none", "many single-bit ECC errors, all corrected" },
  [93]  = { "device", "none", "InfoROM wears out" },
  [94]  = { "memory", "restart", "contained memory error: only the program that touched it was ended" },
  [95]  = { "memory", "reset", "uncontained memory error: every program on the GPU was ended" },
  [109] = { "firmware", "reset", "a context switch timed out" },
  [110] = { "device", "reset", "security fault" },
  [119] = { "firmware", "reset", "the GPU system processor (GSP) did not answer in time" },
  [120] = { "firmware", "reset", "error of the GPU system processor (GSP)" },
  [121] = { "link", "none", "chip-to-chip link error, corrected" },
  [136] = { "link", "reset", "NVLink training failed" },
  [137] = { "link", "none", "NVLink privilege error: mostly an illegal access over a peer mapping" },
  [140] = { "memory", "reset", "ECC error that was not recovered" },
  [143] = { "device", "reset", "GPU initialization failed" },
  [144] = { "link", "reset", "NVLink SAW error" },
  [145] = { "link", "reset", "NVLink RLW error" },
  [146] = { "link", "reset", "NVLink TLW error" },
  [147] = { "link", "reset", "NVLink TREX error" },
  [148] = { "link", "reset", "NVLink NVLPW error" },
  [149] = { "link", "reset", "NVLink NETIR error: a link went down or its error rate is high" },
  [150] = { "link", "reset", "NVLink MSE error" },
  [151] = { "firmware", "reboot", "key rotation error" },
  [154] = { "note", "none", "the recovery that the GPU needs has changed" },
  [155] = { "link", "reset", "NVLink error told by software" },
  [156] = { "memory", "reset", "a resource of the GPU was retired" },
  [157] = { "memory", "replace", "a resource of the GPU could not be retired" },
  [158] = { "device", "reset", "GPU fatal timeout" },
  [160] = { "memory", "none", "a memory channel was retired" },
  [161] = { "memory", "replace", "a memory channel could not be retired" },
  [167] = { "device", "reboot", "PCIe fatal timeout" },
  [171] = { "memory", "reset", "uncorrectable DRAM error" },
  [172] = { "memory", "reset", "uncorrectable SRAM error" },
}

-- Those of a switch that end the whole fabric; other fatal ones end the jobs across the link they name.
local SXID_FABRIC = { [10003] = true, [12020] = true, [22003] = true, [22011] = true }
local SXID = {
  [10001] = "host interface privilege error", [10002] = "host interface timeout", [10004] = "too hot",
  [11001] = "ingress invalid command", [11004] = "ingress invalid ACL: wrong partition set-up",
  [12028] = "egress non-posted privilege error", [14017] = "transaction timeout", [19084] = "heartbeat timeout",
  [20001] = "transmit replay", [20009] = "short-term error rate of a link", [20012] = "broken connection",
  [20034] = "a link went down (LTSSM fault up)", [22003] = "micro-controller halt", [22011] = "micro-controller error",
  [22012] = "link micro-controller interrupt", [24007] = "a request was not answered in time",
}

--- What to do, by action.
---@type table<string, string>
xid.ACTION = {
  none    = "nothing to do for this event alone",
  restart = "restart the program",
  reset   = "drain the node and reset the GPU (nvidia-smi -r)",
  reboot  = "drain the node and reboot it; replace the part if it happens again",
  replace = "take the GPU out of service: it has no spare left",
  inspect = "check the power cables of the board",
  update  = "update driver and guest driver to one version",
}

--- Whether a retry can help, by who is at fault.
---@type table<string, string>
xid.RETRY = {
  program  = "a retry fails again wherever the program runs, until it is mended",
  memory   = "a retry helps on another GPU, or on this one after the reset",
  link     = "a retry helps on other GPUs, or on these after the reset",
  device   = "a retry helps on another GPU only",
  firmware = "a retry helps after the reset; the same again means an older or newer driver",
}

--- What is published of an Xid: who is at fault (program, memory, link, device, firmware, note), the first action and
--- the meaning. Nil for a number without one.
---@param code integer
---@return string[]?
function xid.of(code) return XID[code] end

--- The same of an event of a switch.
---@param code integer
---@param fatal boolean  whether the log calls it fatal
---@return string[]
function xid.of_switch(code, fatal)
  local crossbar = code >= 23001 and code <= 23017
  local what = SXID[code] or crossbar and "crossbar error of the switch" or "event of the switch"
  local fabric = SXID_FABRIC[code] or crossbar
  if not fatal then return { "link", "none", what .. ", which the switch survived" } end
  return { "link", fabric and "reboot" or "reset", what .. (fabric and ": the whole fabric is down" or "") }
end

return xid
