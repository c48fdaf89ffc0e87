--- Call stacks as text: frames between " < ", the outermost first.

local frames = {}

--- The innermost frame that is not the framework's own, or the innermost one.
---@param text string
---@return string
function frames.own(text)
  local list = text:split(" < ")
  for i = #list, 1, -1 do
    local f = list[i]
    if not f:glob("*/torch/*|torch/*|*site-packages*|*dist-packages*|*<frozen*|*<built-in*") then return f:trim() end
  end
  return list[#list]:trim()
end

return frames
