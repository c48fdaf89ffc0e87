--- Kinds of log lines: which run worked, which line speaks of a failure, which is a kind of its own.

local logs = {}

local Good  = { good = true, baseline = true, reference = true, golden = true, before = true, control = true,
                old = true }
local Words = { "fail", "error", "retry", "retrying", "timeout", "timed out", "refused", "unhealthy", "corrupt",
                "fallback", "falling back", "overflow", "mismatch", "skipping", "dropped", "killed", "stalled",
                "degraded", "exhausted", "throttl", "unreachable", "disconnect", "evict" }

--- Whether a path names a run that worked: a folder or a part of the file's name, as in good/train.log, run_good.txt.
---@param source string
---@return boolean
local function is_good(source)
  local parts = source:lower():split("/")
  for i = math.max(1, #parts - 3), #parts do
    for _, word in ipairs(parts[i]:replace("-", "_"):replace(".", "_"):split("_")) do
      if Good[word] then return true end
    end
  end
  return false
end

--- The templates of logs that are named good and those of all others. A word that all paths share names no side: all
--- are others then.
---@param templates culprit.Table  rows of case.log_templates
---@return culprit.Table good
---@return culprit.Table others
function logs.sides(templates)
  local worked, others = {}, {}
  for row in templates:distinct("source"):rows() do
    local list = (Good[row.variant or ""] or is_good(row.source)) and worked or others
    list[#list + 1] = row.source
  end
  if #others == 0 then return templates:where { source = {} }, templates:where { source = worked } end
  return templates:where { source = worked }, templates:where { source = others }
end

--- Whether a line without a level speaks of a failure; what only sets or counts one ("timeout=1800", "0 errors") does
--- not.
---@param text string
---@return boolean
function logs.speaks_of_failure(text)
  local lower = text:lower()
  for _, word in ipairs(Words) do
    local at = lower:index(word)
    if at then
      local before = lower:sub(math.max(1, at - 8), at - 1)
      local after  = lower:sub(at + word:len(), at + word:len() + 10)
      local set    = false
      for _, sign in ipairs({ "=", "_", ":", "\"", "'", "/", "." }) do
        local place = after:index(sign)
        set = set or (place and not after:sub(1, place - 1):contains(" "))
      end
      if not set and not before:ends_with("_") and not before:ends_with("/") and not before:ends_with(".")
        and not before:ends_with("no ") and not before:ends_with(" 0 ") and not before:ends_with("without ") then
        return true
      end
    end
  end
  return false
end

--- Whether a line is a part of something: bars, frames of a traceback and indented text are no kinds of their own.
---@param text string
---@return boolean
function logs.is_part(text)
  return text:starts_with(" ") or text:starts_with("\t") or text:starts_with("Traceback (")
    or text:starts_with("File \"") or text:contains("%|") or text:contains("it/s")
end

return logs
