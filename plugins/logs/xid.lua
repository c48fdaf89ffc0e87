--- ## What it detects
--- Events that the NVIDIA driver logs about a GPU (Xid) or a switch (SXid): which device, which event, what it means,
--- whether the program, the device, or the driver's firmware is at fault, whether a retry can help, and what to do. A
--- report is about one device; events of the program, of the device and of the firmware are different symptoms.
---
--- The same event on one device again and again within a day, or again after a reboot, is a report of its own: what a
--- reboot does not cure is not of a passing state.
---
--- ## Why it matters
--- The number decides between three things to do that have nothing in common: mend the program (13, 31), reset or
--- reboot and go on (94, 95, 119), or send the part back (64, 79 for the second time). 43, 45 and 154 only say what
--- the driver did, and are read with the event before them.
---
--- ## How to confirm
--- `dmesg -T | grep -i xid` on the node, `nvidia-smi -q -d ECC,ROW_REMAPPER` for memory events, `dcgmi diag -r 3` for
--- the device. An event of the program follows the program to any device; one of the device stays with the device.
---
--- ## Known false positives
--- 13 and 31 are the program's in nearly all cases, and rarely those of a defective device: what tells is the same
--- program on another one. Kernel logs keep events of earlier jobs; compare their time with that of the run.
---
--- ## References
--- NVIDIA, Xid catalogue (mnemonics and actions below): https://docs.nvidia.com/deploy/xid-errors/
--- analyzing-xid-catalog.html; SXid: NVIDIA Fabric Manager User Guide, appendix D.

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

local ACTION = {
  none    = "nothing to do for this event alone",
  restart = "restart the program",
  reset   = "drain the node and reset the GPU (nvidia-smi -r)",
  reboot  = "drain the node and reboot it; replace the part if it happens again",
  replace = "take the GPU out of service: it has no spare left",
  inspect = "check the power cables of the board",
  update  = "update driver and guest driver to one version",
}

local RETRY = {
  program  = "a retry fails again wherever the program runs, until it is mended",
  memory   = "a retry helps on another GPU, or on this one after the reset",
  link     = "a retry helps on other GPUs, or on these after the reset",
  device   = "a retry helps on another GPU only",
  firmware = "a retry helps after the reset; the same again means an older or newer driver",
}

local SYMPTOM = { memory = "log-ecc", link = "log-nvlink", device = "log-xid", firmware = "log-xid" }

local function sxid(code, fatal)
  local crossbar = code >= 23001 and code <= 23017
  local what = SXID[code] or crossbar and "crossbar error of the switch" or "event of the switch"
  local fabric = SXID_FABRIC[code] or crossbar
  if not fatal then return { "link", "none", what .. ", which the switch survived" } end
  return { "link", fabric and "reboot" or "reset", what .. (fabric and ": the whole fabric is down" or "") }
end

-- Seconds since boot, where the line begins with them.
local function uptime(text)
  if not text or not text:starts_with("[") then return nil end
  local close = text:index("]")
  return close and text:sub(1, close):numbers()[1]
end

local function span_of(seconds)
  if seconds < 1 then return "within a second" end
  return ("within %s"):format(units.format(math.floor(seconds) * units.s))
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The driver logged events of a GPU or a switch",
  needs    = { errors = { type = { "Xid", "SXid" } } },
  symptoms = { "log-xid", "log-ecc", "log-nvlink", "log-illegal-access", "xid-application", "xid-firmware",
    "xid-recurs" },
  options  = {
    burst   = { default = 5, doc = "Same events on one device within a day that are a burst" },
    devices = { default = 8, doc = "Devices that are reported one by one" },
  },

  run = function(case)
    local events = case.errors:where("type == 'Xid' or type == 'SXid'")
    local texts = events:join(case.log_lines:select("source", "line", "text"), { "source", "line" }, "left")

    -- The events of each device in the order of their log, by code; and where the machine booted in between.
    local devices, order = {}, {}
    for row in texts:slice(0, 10000):rows() do
      local key = ("%s|%s|%s"):format(row.source or "", row.device or "", row.type)
      local device = devices[key]
      if not device then
        device = { name = row.device, source = row.source, type = row.type, codes = {}, order = {}, boots = 0 }
        devices[key], order[#order + 1] = device, device
      end
      local number = (row.code or ""):numbers()[1]
      if number then
        local code = math.floor(number)
        local up = uptime(row.text)
        if up and device.up and up < device.up then device.boots = device.boots + 1 end
        device.up = up or device.up
        local of = device.codes[code]
        if not of then
          local fatal = row.signature ~= nil
          of = { code = code, count = 0, first = row, boots = {}, at = {},
            means = row.type == "SXid" and sxid(code, fatal)
              or XID[code] or { "device", "restart", "an event of no published meaning" },
            minor = row.type == "SXid" and not fatal }
          device.codes[code], device.order[#device.order + 1] = of, of
        end
        of.count = of.count + 1 + (row.repeats or 0)
        of.last = row
        of.at[#of.at + 1] = row.wall_time or (up and up + device.boots * 1e7)
        of.boots[device.boots] = true
        if row.aftermath == "progressed" then of.survived = row end
        -- "Xid 45, ... caused by previous Xid 149", where that line is not in the log any more.
        local words = "caused by previous Xid "
        local told = code == 45 and (row.message or ""):index(words)
        if told then
          device.told = device.told or math.floor(row.message:sub(told + #words):numbers()[1] or 0)
        end
      end
    end

    for _, device in ipairs(order) do
      local hang, told = device.codes[109], device.told
      -- A kernel that faulted is not switched out in time; the timeout is then no fault of the firmware.
      for _, of in ipairs(device.order) do
        if hang and of.means[1] == "program" and (of.first.line or 0) < (hang.first.line or 0) then
          hang.means = { "note", "none", "a context switch timed out after the program's fault" }
        end
      end
      if told and not device.codes[told] and XID[told] and XID[told][1] ~= "note" then
        local note = device.codes[45]
        local of = { code = told, count = 1, first = note.first, last = note.last, boots = {}, at = {}, minor = false,
          means = { XID[told][1], XID[told][2], XID[told][3] .. " (named by Xid 45 as what came before)" } }
        device.codes[told], device.order[#device.order + 1] = of, of
      end
    end

    -- How many devices of one log show a code: what many share is not a defect of each.
    local shown = {}
    for _, device in ipairs(order) do
      for _, of in ipairs(device.order) do
        local key = ("%s|%s|%d"):format(device.source or "", device.type, of.code)
        shown[key] = (shown[key] or 0) + 1
      end
    end

    -- A boot of the machine after the last event of a log, told by the kernel.
    local boots = case.log_lines:where("match(text, '*Linux version *|*-- Boot *|*-- Reboot --*')")
    local application = case.errors:where("signature == 'illegal-access' and type != 'Xid'"):first()
    local asserted = case.errors:where("signature == 'device-assert' or signature == 'index-out-of-bounds'"):first()

    -- The most events within a day.
    local function burst_of(of)
      local most, from = 0, 1
      for to = 1, #of.at do
        while of.at[to] - of.at[from] > 86400 do from = from + 1 end
        if to - from + 1 > most then most = to - from + 1 end
      end
      if #of.at == 0 then return of.count end
      -- Those that were only counted came after the last that is kept.
      return most == #of.at and of.count or most
    end

    local function lives_of(of)
      local lives = 0
      for _ in pairs(of.boots) do lives = lives + 1 end
      return lives
    end

    local function title(device)
      return (device.type == "SXid" and "switch" or "GPU") .. (device.name and " " .. device.name or " (not named)")
    end

    local function story(device, of)
      local parts = { ("%s: %s %d%s: %s"):format(title(device), device.type, of.code,
        of.count > 1 and (", %s times"):format(units.count(of.count)) or "", of.means[3]) }
      -- Seconds since boot tell nothing across a boot.
      if #of.at > 1 and lives_of(of) == 1 then
        parts[1] = parts[1]:replace(" times:", (" times %s:"):format(span_of(of.at[#of.at] - of.at[1])))
      end
      for _, other in ipairs(device.order) do
        if other ~= of and other.means[1] == "note" then
          parts[#parts + 1] = ("%s %d only says that %s"):format(device.type, other.code, other.means[3])
        elseif other ~= of then
          parts[#parts + 1] = ("also %s %d (%s)"):format(device.type, other.code, other.means[3])
        end
      end
      local many = shown[("%s|%s|%d"):format(device.source or "", device.type, of.code)]
      if many >= 3 then
        parts[#parts + 1] = ("%d devices of this machine show it: look at what they share (power, switch, driver, the "
          .. "program) before any one of them"):format(many)
      end
      if of.survived then parts[#parts + 1] = "the run went on afterwards" end
      return table.concat(parts, "; ")
    end

    local function severity_of(of)
      if of.minor or of.survived then return 0.3, "info" end
      if of.means[2] == "none" then return 0.6, "warning" end
      return 0.95, "error"
    end

    for i = 1, math.min(#order, case.options.devices) do
      local device = order[i]
      local rank = { memory = 1, link = 1, device = 1, firmware = 2, program = 3, note = 4 }
      local lead
      for _, of in ipairs(device.order) do
        if not lead or (lead.minor and not of.minor)
          or (lead.minor == of.minor and rank[of.means[1]] < rank[lead.means[1]]) then lead = of end
      end
      if lead then
        local kind, action = lead.means[1], lead.means[2]
        local at = { source = lead.first.source, line = lead.first.line, name = device.name }
        local rows = events:where("source == ?", device.source or "")
        rows = (device.name and rows:where("device == ?", device.name) or rows:where("device is null")):slice(0, 10)
        local score, severity = severity_of(lead)
        if kind == "program" or kind == "note" then
          local here = (lead.code == 13 or lead.code == 31) and application
          report {
            symptom  = "xid-application",
            score    = kind == "note" and 0.6 or 0.95,
            severity = kind == "note" and "warning" or severity,
            at       = at,
            message  = ("%s; %s"):format(story(device, lead), here
                and ("the driver's side of the illegal access in %s line %d"):format(here.source or "a log",
                  here.line or 0)
              or kind == "note" and "the fault itself is not in this log: look for the event before it, or for who "
                .. "killed the program"
              or "not hardware: " .. RETRY.program),
            evidence = { rows },
          }
          -- Of a kernel's log alone the access is known all the same.
          if (lead.code == 13 or lead.code == 31) and not application and not asserted then
            report {
              symptom = "log-illegal-access", score = math.min(0.9, score), severity = severity, at = at,
              message = ("%s; no log of the program shows the CUDA error that follows"):format(story(device, lead)),
              evidence = { rows },
            }
          end
        else
          report {
            symptom  = SYMPTOM[kind],
            score    = score,
            severity = severity,
            at       = at,
            message  = ("%s; %s%s"):format(story(device, lead), ACTION[action],
              score > 0.5 and "; " .. RETRY[kind] or ""),
            evidence = { rows },
          }
          if kind == "firmware" then
            report {
              symptom = "xid-firmware", score = score, severity = severity, at = at,
              message = ("%s; %s"):format(story(device, lead), RETRY.firmware), evidence = { rows },
            }
          end
        end
        -- Again within a day, or again after a reboot.
        for _, of in ipairs(device.order) do
          if of.means[1] ~= "note" and of.means[1] ~= "program" and not of.minor then
            local between = boots:where("source == ? and line > ? and line < ?", device.source or "",
              of.first.line or 0, of.last.line or 0):count()
            local most = burst_of(of)
            if lives_of(of) > 1 or between > 0 then
              report {
                symptom  = "xid-recurs", score = 0.95, at = at, evidence = { of.first, of.last },
                message  = ("%s: %s %d came again after the machine was booted in between: a reboot does not cure it, "
                  .. "so it is the part and not a passing state; replace or return it"):format(title(device),
                  device.type, of.code),
              }
            elseif most >= case.options.burst then
              report {
                symptom  = "xid-recurs", score = 0.9, at = at, evidence = { of.first, of.last },
                message  = ("%s: %s %d, %s times within a day on this device: take it out of service until it was "
                  .. "reset and tested"):format(title(device), device.type, of.code, units.count(most)),
              }
            end
          end
        end
      end
    end
    if #order > case.options.devices then
      log(("%d more devices with events"):format(#order - case.options.devices))
    end
  end,
}
