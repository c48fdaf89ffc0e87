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
local xid_devices = require("xid-devices")

local SYMPTOM = { memory = "log-ecc", link = "log-nvlink", device = "log-xid", firmware = "log-xid" }

local function span_of(seconds)
  if seconds < 1 then return "within a second" end
  return ("within %s"):format(units.format(math.floor(seconds) * units.s))
end

--- The most events within a day.
---@param event xid.Event
local function burst_of(event)
  local at, most, from = event.at, 0, 1
  if #at == 0 then return event.count end
  for to = 1, #at do
    while at[to] - at[from] > 86400 do from = from + 1 end
    most = math.max(most, to - from + 1)
  end
  -- Those that were only counted came after the last that is kept.
  return most == #at and event.count or most
end

---@param event xid.Event
local function lives_of(event)
  local lives = 0
  for _ in pairs(event.boots) do lives = lives + 1 end
  return lives
end

---@param device xid.Device
local function title(device)
  return (device.type == "SXid" and "switch" or "GPU") .. (device.name and " " .. device.name or " (not named)")
end

--- What a device showed, with one event before all others.
---@param device xid.Device
---@param event xid.Event
---@param shared integer  devices that show that event
local function story(device, event, shared)
  local parts = { ("%s: %s %d%s: %s"):format(title(device), device.type, event.code,
    event.count > 1 and (", %s times"):format(units.count(event.count)) or "", event.means[3]) }
  -- Seconds since boot tell nothing across a boot.
  if #event.at > 1 and lives_of(event) == 1 then
    parts[1] = parts[1]:replace(" times:", (" times %s:"):format(span_of(event.at[#event.at] - event.at[1])))
  end
  for _, other in ipairs(device.events) do
    if other ~= event then
      parts[#parts + 1] = (other.means[1] == "note" and "%s %d only says that %s" or "also %s %d (%s)"):format(
        device.type, other.code, other.means[3])
    end
  end
  if shared >= 3 then
    parts[#parts + 1] = ("%d devices of this machine show it: look at what they share (power, switch, driver, the "
      .. "program) before any one of them"):format(shared)
  end
  if event.survived then parts[#parts + 1] = "the run went on afterwards" end
  return table.concat(parts, "; ")
end

---@param event xid.Event
---@return number score
---@return string severity
local function weight_of(event)
  if event.minor or event.survived then return 0.3, "info" end
  if event.means[2] == "none" then return 0.6, "warning" end
  return 0.95, "error"
end

--- The event that tells most of a device: of what is not minor the one that is least the program's.
---@param device xid.Device
---@return xid.Event?
local function leading(device)
  local rank = { memory = 1, link = 1, device = 1, firmware = 2, program = 3, note = 4 }
  local lead
  for _, event in ipairs(device.events) do
    if not lead or lead.minor and not event.minor
      or lead.minor == event.minor and rank[event.means[1]] < rank[lead.means[1]] then
      lead = event
    end
  end
  return lead
end

--- Reports a fault of the program, or a note of one.
---@param application { told: culprit.Row?, asserted: culprit.Row? }  what logs of the program have of it
local function judge_program(application, lead, text, at, rows)
  local note   = lead.means[1] == "note"
  local score, severity = weight_of(lead)
  local access = lead.code == 13 or lead.code == 31
  local told   = access and application.told
  report {
    symptom  = "xid-application",
    score    = note and 0.6 or 0.95,
    severity = note and "warning" or severity,
    at       = at,
    message  = ("%s; %s"):format(text, told and ("the driver's side of the illegal access in %s line %d"):format(
        told.source or "a log", told.line or 0)
      or note and "the fault itself is not in this log: look for the event before it, or for who killed the program"
      or "not hardware: " .. xid.RETRY.program),
    evidence = { rows },
  }
  if access and not told and not application.asserted then
    -- Of a kernel's log alone the access is known all the same.
    report {
      symptom = "log-illegal-access", score = math.min(0.9, score), severity = severity, at = at,
      message = ("%s; no log of the program shows the CUDA error that follows"):format(text), evidence = { rows },
    }
  end
end

--- Reports a fault of the device or of its firmware.
local function judge_hardware(lead, text, at, rows)
  local kind, score, severity = lead.means[1], weight_of(lead)
  report {
    symptom  = SYMPTOM[kind],
    score    = score,
    severity = severity,
    at       = at,
    message  = ("%s; %s%s"):format(text, xid.ACTION[lead.means[2]], score > 0.5 and "; " .. xid.RETRY[kind] or ""),
    evidence = { rows },
  }
  if kind == "firmware" then
    report {
      symptom = "xid-firmware", score = score, severity = severity, at = at,
      message = ("%s; %s"):format(text, xid.RETRY.firmware), evidence = { rows },
    }
  end
end

--- Reports an event that comes again within a day, or again after a reboot.
---@param device xid.Device
---@param event xid.Event
---@param boots culprit.Table  lines of logs by which the machine booted
---@param burst integer
local function judge_again(device, event, boots, burst, at)
  if event.means[1] == "note" or event.means[1] == "program" or event.minor then return end
  local booted = lives_of(event) > 1 or boots:where("source == ? and line > ? and line < ?", device.source or "",
    event.first.line or 0, event.last.line or 0):count() > 0
  local most = burst_of(event)
  if booted then
    report {
      symptom = "xid-recurs", score = 0.95, at = at, evidence = { event.first, event.last },
      message = ("%s: %s %d came again after the machine was booted in between: a reboot does not cure it, so it is "
        .. "the part and not a passing state; replace or return it"):format(title(device), device.type, event.code),
    }
  elseif most >= burst then
    report {
      symptom = "xid-recurs", score = 0.9, at = at, evidence = { event.first, event.last },
      message = ("%s: %s %d, %s times within a day on this device: take it out of service until it was reset and "
        .. "tested"):format(title(device), device.type, event.code, units.count(most)),
    }
  end
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
    local events  = case.errors:where("type == 'Xid' or type == 'SXid'")
    local devices = xid_devices.of(case, events)
    local boots   = case.log_lines:where("match(text, '*Linux version *|*-- Boot *|*-- Reboot --*')")
    local application = {
      told     = case.errors:where("signature == 'illegal-access' and type != 'Xid'"):first(),
      asserted = case.errors:where("signature == 'device-assert' or signature == 'index-out-of-bounds'"):first(),
    }
    for i = 1, math.min(#devices, case.options.devices) do
      local device = devices[i]
      local lead   = leading(device)
      if lead then
        local at   = { source = lead.first.source, line = lead.first.line, name = device.name }
        local own  = events:where("source == ?", device.source or "")
        local rows = (device.name and own:where("device == ?", device.name) or own:where("device is null"))
          :slice(0, 10)
        local text = story(device, lead, xid_devices.sharing(devices, device, lead))
        if lead.means[1] == "program" or lead.means[1] == "note" then
          judge_program(application, lead, text, at, rows)
        else
          judge_hardware(lead, text, at, rows)
        end
        for _, event in ipairs(device.events) do judge_again(device, event, boots, case.options.burst, at) end
      end
    end
    if #devices > case.options.devices then
      log(("%d more devices with events"):format(#devices - case.options.devices))
    end
  end,
}
