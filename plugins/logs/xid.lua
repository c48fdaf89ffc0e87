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

local xid = require("xid")

local SYMPTOM = { memory = "log-ecc", link = "log-nvlink", device = "log-xid", firmware = "log-xid" }

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
            means = row.type == "SXid" and xid.of_switch(code, fatal)
              or xid.of(code) or { "device", "restart", "an event of no published meaning" },
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
      local means = told and xid.of(told)
      if means and not device.codes[told] and means[1] ~= "note" then
        local note = device.codes[45]
        local of = { code = told, count = 1, first = note.first, last = note.last, boots = {}, at = {}, minor = false,
          means = { means[1], means[2], means[3] .. " (named by Xid 45 as what came before)" } }
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
              or "not hardware: " .. xid.RETRY.program),
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
            message  = ("%s; %s%s"):format(story(device, lead), xid.ACTION[action],
              score > 0.5 and "; " .. xid.RETRY[kind] or ""),
            evidence = { rows },
          }
          if kind == "firmware" then
            report {
              symptom = "xid-firmware", score = score, severity = severity, at = at,
              message = ("%s; %s"):format(story(device, lead), xid.RETRY.firmware), evidence = { rows },
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
