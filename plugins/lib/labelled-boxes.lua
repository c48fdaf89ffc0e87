--- Boxes of a dumped batch, beside the labels that say what is in them.

local elements = require("elements")

local labelled_boxes = {}

--- The boxes that stand beside labels, four numbers for each, and how many of them have a size: the last two numbers, a
--- corner or a size, are above 0. Padding has none. Nil and 0 where there are no such boxes.
---@param dumped culprit.Table  what training.batches gives
---@param labels culprit.Row
---@return culprit.Row?
---@return integer
function labelled_boxes.beside(dumped, labels)
  local boxes = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank,
    numel = 4 * labels.numel }:where("match(name, '*box*')"):first()
  local shape = boxes and boxes.shape or {}
  if shape[#shape] ~= 4 then return nil, 0 end
  local values, count = elements.of(boxes, 0, math.min(boxes.numel, 40000)), 0
  for i = 4, #values, 4 do
    if values[i - 1] > 0 and values[i] > 0 then count = count + 1 end
  end
  return boxes, count
end

return labelled_boxes
