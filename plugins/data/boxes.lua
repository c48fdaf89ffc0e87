--- ## What it detects
--- A batch's list of boxes that was cut at a number: each dumped batch has exactly as many boxes, images have different
--- numbers of them, and those at the end of a batch have none.
---
--- ## Why it matters
--- Things whose boxes were cut off are taught as ground. The detector learns to miss things.
---
--- ## How to confirm
--- Count the boxes of each image in the annotations, and in the batch.
---
--- ## Known false positives
--- Batches that are filled with images up to a number of boxes have no empty ones behind it, but fewer images. Where
--- images of a batch lie in the order of how many boxes they have the sum of these differs from batch to batch. A limit
--- on the boxes of each image is not seen: the row of an image is as long as the largest number of boxes anyhow.
---
--- ## References
--- https://github.com/pytorch/vision/tree/main/references/detection

local elements = require("elements")
local training = require("training-rows")

--- The boxes of each image by labels that are padded with a class below 0; nil unless padding stands at ends of rows.
local function boxes_of_images(labels)
  local rows, width = math.floor(labels.shape[1]), math.floor(labels.shape[2])
  local out, values = {}, elements.of(labels, 0, rows * width)
  for row = 0, rows - 1 do
    local n = 0
    for i = 1, width do
      if values[row * width + i] >= 0 then
        if n < i - 1 then return nil end
        n = i
      end
    end
    out[#out + 1] = n
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The boxes of a batch were cut at a number",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "rows-cut-at-limit" },
  options  = {
    batches = { default = 3, doc = "Dumped batches that have to have as many boxes" },
  },

  run = function(case)
    local dumped = training.trained(case.tensors:where("match(name, 'batch.*') and zero_share is not null "
      .. "and step is not null")):sort("step")
    local batches, total, alike, ragged, empty, first = 0, nil, true, false, 0, nil
    local images, full, seen = 0, 0, {}
    for labels in dumped:where("match(name, '*labels|*classes') and match(dtype, 'int*') and numel <= 100000")
      :slice(0, 200):rows() do
      local shape = labels.shape or {}
      local boxes = #shape == 2 and dumped:where { run = labels.run, step = labels.step, variant = labels.variant,
        rank = labels.rank, numel = 4 * labels.numel }:where("match(name, '*box*')"):first()
      local counts = boxes and #boxes.shape == 3 and shape[1] >= 4 and boxes_of_images(labels)
      if counts then
        local sum, last, most, least = 0, 0, 0, math.huge
        for i, n in ipairs(counts) do
          sum = sum + n
          if n > 0 then last = i end
          if n == shape[2] then full = full + 1 end
        end
        -- An empty image among others was so by itself; the last one with boxes may have lost some.
        for i = 1, last do
          if counts[i] == 0 then alike = false end
          if i < last then most, least = math.max(most, counts[i]), math.min(least, counts[i]) end
        end
        -- One batch that is trained on again and again is one.
        local mark = ("%.17g "):format(boxes.l2 or 0)
          .. table.concat(elements.of(labels, 0, math.min(labels.numel, 256)), " ")
        local same = seen[mark]
        seen[mark] = true
        batches, first, images = batches + (same and 0 or 1), first or labels, images + #counts
        if total and sum ~= total then alike = false end
        if sum == 0 then alike = false end
        total, ragged, empty = total or sum, ragged or least < most, empty + (#counts - last)
      end
    end
    if batches < case.options.batches then
      return skip(("%d dumped batches with boxes and labels that are padded with -1"):format(case.options.batches))
    end
    if not alike or not ragged or empty < batches then
      return full > 0 and skip(("lists of boxes before they were put into rows: %d of %d images have as many as a row "
        .. "holds"):format(full, images)) or nil
    end
    local limit = case.config:where("match(key, '*max*') and number == ?", total):first()
    report {
      symptom  = "rows-cut-at-limit",
      score    = limit and 0.95 or 0.85,
      at       = { step = first.step },
      message  = ("each of %d dumped batches has %d boxes%s, though images have different numbers of them, and %d of "
        .. "%d images, all at the ends of batches, have none: the list was cut there"):format(batches, total,
        limit and (", which is %s"):format(limit.key) or "", empty, images),
      evidence = { first, limit },
    }
  end,
}
