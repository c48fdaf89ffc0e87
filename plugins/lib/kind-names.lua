--- Names of kinds or classes that a run's settings list.

local kind_names = {}

--- The texts of a list as settings write it: ["a", "b"], ['a', 'b'] or a, b; nil of anything else.
---@param value string
---@return string[]?
local function texts_of(value)
  local text, out = value:trim(), {}
  local quote = text:contains('"') and '"' or text:contains("'") and "'"
  if quote then
    if not text:starts_with("[") then return nil end
    for i, piece in ipairs(text:split(quote)) do
      if i % 2 == 0 then out[#out + 1] = piece end
    end
    return out
  end
  if text:starts_with("[") and text:ends_with("]") then text = text:sub(2, -2) end
  for _, piece in ipairs(text:split(",")) do out[#out + 1] = piece:trim() end
  return out
end

--- Whether texts are names, each another one: what is a number, or nothing, names nothing.
local function are_names(texts)
  local met = {}
  for _, text in ipairs(texts) do
    if text == "" or tonumber(text) or met[text] then return false end
    met[text] = true
  end
  return true
end

--- The setting that names each of `count` kinds: a list of exactly so many names (node_types: [arg, call, var]), or one
--- that has a name at each of the numbers from 0 on (id2label.0: yes). A table whose every row has a name was made for
--- these kinds: its last row is one of its own. nil where there is none.
---@param case culprit.Case
---@param count integer  2 or more
---@return culprit.Row?
function kind_names.of(case, count)
  local last = ("*.%d"):format(count - 1)
  for row in case.config:where("number is null and match(value, '*,*') or match(key, ?)", last):slice(0, 2000):rows() do
    local key = row.key
    if key:glob(last) then
      local names, prefix = {}, key:sub(1, #key - #last + 2)
      for i = 0, count - 1 do
        local one = case.config:where { key = prefix .. i }:first()
        names[#names + 1] = one and tostring(one.value) or ""
      end
      local more = case.config:where { key = prefix .. count }:first()
      if are_names(names) and not more then return row end
    else
      local texts = texts_of(tostring(row.value))
      if texts and #texts == count and are_names(texts) then return row end
    end
  end
  return nil
end

return kind_names
