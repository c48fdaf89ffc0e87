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
--- images of a batch lie in the order of how many boxes they have the sum of these differs from batch to batch. An
--- episode's images to be told have their boxes elsewhere, and are as many in each: how many images a cut leaves empty
--- has to differ from batch to batch, as it does where images have different numbers of boxes. A limit on the boxes of
--- each image is not seen: the row of an image is as long as the largest number of boxes anyhow.
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

---@class boxes.Batch
---@field labels culprit.Row
---@field counts integer[]  boxes of each image
---@field sum integer
---@field last integer      the last image that has boxes, counted from 1; 0 where none has
---@field gap boolean       whether one before it has none
---@field ragged boolean    whether those before it have different numbers of them
---@field again boolean     whether it is one that was dumped before: a run may train on one batch again and again

--- What the boxes of a batch look like, image by image.
local function described(labels, counts, again)
  local sum, last, gap, most, least = 0, 0, false, 0, math.huge
  for i, n in ipairs(counts) do
    sum = sum + n
    if n > 0 then last = i end
  end
  for i = 1, last do gap = gap or counts[i] == 0 end
  -- The last one with boxes may have lost some.
  for i = 1, last - 1 do most, least = math.max(most, counts[i]), math.min(least, counts[i]) end
  return { labels = labels, counts = counts, sum = sum, last = last, gap = gap, ragged = least < most, again = again }
end

--- The dumped batches with four numbers for each label, in the order of their steps.
---@return boxes.Batch[]
local function batches_of(case)
  local dumped, seen, out = training.batches(case), {}, {}
  for labels in dumped:where("match(name, '*labels|*classes') and match(dtype, 'int*') and numel <= 100000")
    :slice(0, 200):rows() do
    local shape = labels.shape or {}
    local boxes = #shape == 2 and dumped:where { run = labels.run, step = labels.step, variant = labels.variant,
      rank = labels.rank, numel = 4 * labels.numel }:where("match(name, '*box*')"):first()
    local counts = boxes and #boxes.shape == 3 and shape[1] >= 4 and boxes_of_images(labels)
    if counts then
      local mark = ("%.17g "):format(boxes.l2 or 0)
        .. table.concat(elements.of(labels, 0, math.min(labels.numel, 256)), " ")
      out[#out + 1] = described(labels, counts, seen[mark])
      seen[mark] = true
    end
  end
  return out
end

--- Whether each batch has as many boxes as any other, with none left for the images at its end. An empty image among
--- others was so by itself, and as many empty ones in each batch are of another kind.
---@param batches boxes.Batch[]
---@param different integer  how many of them there are, each counted once
local function are_cut(batches, different)
  local ragged, empty, uneven, first = false, 0, false, #batches[1].counts - batches[1].last
  for _, batch in ipairs(batches) do
    if batch.sum ~= batches[1].sum or batch.sum == 0 or batch.gap then return false end
    ragged, empty = ragged or batch.ragged, empty + #batch.counts - batch.last
    uneven = uneven or #batch.counts - batch.last ~= first
  end
  return ragged and uneven and empty >= different, empty
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
    local batches, different, images, full = batches_of(case), 0, 0, 0
    for _, batch in ipairs(batches) do
      different, images = different + (batch.again and 0 or 1), images + #batch.counts
      for _, n in ipairs(batch.counts) do
        if n == batch.labels.shape[2] then full = full + 1 end
      end
    end
    if different < case.options.batches then
      return skip(("%d dumped batches with boxes and labels that are padded with -1"):format(case.options.batches))
    end
    local cut, empty = are_cut(batches, different)
    if not cut then
      return full > 0 and skip(("lists of boxes before they were put into rows: %d of %d images have as many as a row "
        .. "holds"):format(full, images)) or nil
    end
    local first = batches[1]
    local limit = case.config:where("match(key, '*max*') and number == ?", first.sum):first()
    report {
      symptom  = "rows-cut-at-limit",
      score    = limit and 0.95 or 0.85,
      at       = { step = first.labels.step },
      message  = ("each of %d dumped batches has %d boxes%s, though images have different numbers of them, and %d of "
        .. "%d images, all at the ends of batches, have none: the list was cut there"):format(different, first.sum,
        limit and (", which is %s"):format(limit.key) or "", empty, images),
      evidence = { first.labels, limit },
    }
  end,
}
