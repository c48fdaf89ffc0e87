--- What the driver logged (Xid) of each device and switch: its events by code, across boots of the machine.

local xid = require("xid")

local devices = {}

---@class xid.Event  All events of one code on one device.
---@field code integer
---@field count integer       how many there were, those that were only counted included
---@field first culprit.Row
---@field last culprit.Row
---@field means string[]      who is at fault, the action and what it says, as xid.of has them
---@field minor boolean       of a switch: not fatal
---@field survived culprit.Row?  one after which the run went on
---@field at number[]         when each was logged
---@field boots table<integer, boolean>  boots of the machine in which it was seen

---@class xid.Device
---@field name string?
---@field source string?
---@field type string             Xid or SXid
---@field events xid.Event[]      by their first one
---@field by_code table<integer, xid.Event>
---@field boots integer           how often the machine booted in between
---@field up number?              seconds since boot of the last event
---@field told integer?           the code that a 45 names as what came before it

--- The event of a row's code, which is a new one where the device has shown none of it.
---@param device xid.Device
local function event_of(device, row, code)
  local event = device.by_code[code]
  if not event then
    local switch, fatal = row.type == "SXid", row.signature ~= nil
    event = { code = code, count = 0, first = row, boots = {}, at = {}, minor = switch and not fatal,
      means = switch and xid.of_switch(code, fatal) or xid.of(code)
        or { "device", "restart", "an event of no published meaning" } }
    device.by_code[code], device.events[#device.events + 1] = event, event
  end
  return event
end

--- The code that a message names: "Xid 45, ... caused by previous Xid 149", where that line is not in the log any more.
local function named_before(message)
  local words = "caused by previous Xid "
  local at = message and message:index(words)
  return at and math.floor(message:sub(at + #words):numbers()[1] or 0)
end

--- Seconds since boot, where the line begins with them.
local function uptime(text)
  if not text or not text:starts_with("[") then return nil end
  local close = text:index("]")
  return close and text:sub(1, close):numbers()[1]
end

---@param device xid.Device
---@param row culprit.Row  of case.errors, with the `text` of its line
local function add(device, row)
  local number = (row.code or ""):numbers()[1]
  if not number then return end
  local code, up = math.floor(number), uptime(row.text)
  if up and device.up and up < device.up then device.boots = device.boots + 1 end
  device.up = up or device.up
  local event = event_of(device, row, code)
  event.count, event.last = event.count + 1 + (row.repeats or 0), row
  event.at[#event.at + 1] = row.wall_time or (up and up + device.boots * 1e7)
  event.boots[device.boots] = true
  if row.aftermath == "progressed" then event.survived = row end
  if code == 45 then device.told = device.told or named_before(row.message) end
end

--- A kernel that faulted is not switched out in time; the timeout is then no fault of the firmware.
---@param device xid.Device
local function excuse_timeout(device)
  local timeout = device.by_code[109]
  if not timeout then return end
  for _, event in ipairs(device.events) do
    if event.means[1] == "program" and (event.first.line or 0) < (timeout.first.line or 0) then
      timeout.means = { "note", "none", "a context switch timed out after the program's fault" }
    end
  end
end

--- Adds the event that is known by a 45 alone.
---@param device xid.Device
local function add_named(device)
  local code  = device.told
  local means = code and xid.of(code)
  if not means or device.by_code[code] or means[1] == "note" then return end
  local note  = device.by_code[45]
  local event = { code = code, count = 1, first = note.first, last = note.last, boots = {}, at = {}, minor = false,
    means = { means[1], means[2], means[3] .. " (named by Xid 45 as what came before)" } }
  device.by_code[code], device.events[#device.events + 1] = event, event
end

--- The devices in the order of the log.
---@param case culprit.Case
---@param events culprit.Table  of case.errors
---@return xid.Device[]
function devices.of(case, events)
  local by_key, list = {}, {}
  local texts = events:join(case.log_lines:select("source", "line", "text"), { "source", "line" }, "left")
  for row in texts:slice(0, 10000):rows() do
    local key = ("%s|%s|%s"):format(row.source or "", row.device or "", row.type)
    if not by_key[key] then
      by_key[key] = { name = row.device, source = row.source, type = row.type, by_code = {}, events = {}, boots = 0 }
      list[#list + 1] = by_key[key]
    end
    add(by_key[key], row)
  end
  for _, device in ipairs(list) do
    excuse_timeout(device)
    add_named(device)
  end
  return list
end

--- How many devices of one log show the code of an event: what many share is not a defect of each.
---@param list xid.Device[]
---@param device xid.Device
---@param event xid.Event
---@return integer
function devices.sharing(list, device, event)
  local count = 0
  for _, other in ipairs(list) do
    if other.source == device.source and other.type == device.type and other.by_code[event.code] then
      count = count + 1
    end
  end
  return count
end

return devices
