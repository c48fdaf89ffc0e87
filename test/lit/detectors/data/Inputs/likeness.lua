local likeness = require("likeness")

local members = {}
for i = 1, 6 do
  members[i] = { group = (i + 1) // 2, of = { one = i, other = i % 2 == 1 and i + 1 or i - 1 } }
end
local sure, alike, farthest = likeness.within(members)
print(("%.4f %.4f %d"):format(sure, alike, farthest))
