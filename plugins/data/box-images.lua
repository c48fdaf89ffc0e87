--- ## What it detects
--- Boxes that lie around the things of other images of their batch: what is inside of a box differs from what is around
--- it by more in some other image than in its own, and each image has another one whose boxes fit it.
---
--- ## Why it matters
--- Places and classes of things that are not there teach nothing. The loss stays at what knowing nothing gives.
---
--- ## How to confirm
--- Draw the boxes of a batch into its images.
---
--- ## Known false positives
--- Images that show the same place, as of one camera, fit each other's boxes; so do things without an edge, of which
--- nothing is said. Images and boxes have to be of one size and in pixels: corners, x1 y1 x2 y2. Frames of a clip may
--- be taught the box of the next one: nothing is said where boxes of neighbouring rows are nearer to each other than
--- those of any two rows of the batch, by a fifth of the distance.
---
--- ## References
--- Of n images drawn with replacement 1 - (1 - 1 / n)^n are different ones, 63 to 68 % for 4 or more of a batch.

local elements = require("elements")
local places = require("places")
local training = require("training-rows")

local RING = 2 -- pixels around a box

--- Sums of a channel's pixels over all rectangles from its corner on: of any rectangle the sum is four look-ups.
local function summed(values, from, height, width)
  local out = {}
  for x = 0, width do out[x] = 0 end
  for y = 1, height do
    local row, at = 0, from + (y - 1) * width
    out[y * (width + 1)] = 0
    for x = 1, width do
      row = row + values[at + x]
      out[y * (width + 1) + x] = out[(y - 1) * (width + 1) + x] + row
    end
  end
  return out
end

local function within(sums, width, x1, y1, x2, y2)
  local w = width + 1
  return sums[y2 * w + x2] - sums[y1 * w + x2] - sums[y2 * w + x1] + sums[y1 * w + x1], (x2 - x1) * (y2 - y1)
end

--- By how much the inside of boxes differs from the pixels around them, squared, as a mean over the boxes.
local function contrast(channels, height, width, boxes)
  local total = 0
  for _, b in ipairs(boxes) do
    local x1, y1 = math.max(0, b[1] - RING), math.max(0, b[2] - RING)
    local x2, y2 = math.min(width, b[3] + RING), math.min(height, b[4] + RING)
    for _, sums in ipairs(channels) do
      local inside, n = within(sums, width, b[1], b[2], b[3], b[4])
      local all, m = within(sums, width, x1, y1, x2, y2)
      if m > n then total = total + (inside / n - (all - inside) / (m - n)) ^ 2 end
    end
  end
  return total / #boxes
end

--- The boxes of each image in whole pixels; nil unless all of them are corners in pixels.
local function corners(row, height, width)
  local images, each, values = math.floor(row.shape[1]), math.floor(row.shape[2]), elements.of(row, 0, row.numel)
  local out, largest = {}, 0
  for i = 0, images - 1 do
    local own = {}
    for k = 0, each - 1 do
      local at = (i * each + k) * 4
      local x1, y1, x2, y2 = values[at + 1], values[at + 2], values[at + 3], values[at + 4]
      if x1 ~= x2 or y1 ~= y2 then
        if x1 < 0 or y1 < 0 or x2 <= x1 or y2 <= y1 or x2 > width + 1 or y2 > height + 1 then return nil end
        largest = math.max(largest, x2, y2)
        local b = { math.floor(x1 + 0.5), math.floor(y1 + 0.5), math.min(width, math.floor(x2 + 0.5)),
          math.min(height, math.floor(y2 + 0.5)) }
        if b[3] - b[1] >= 2 and b[4] - b[2] >= 2 and (b[3] - b[1]) * (b[4] - b[2]) <= 0.5 * width * height then
          own[#own + 1] = b
        end
      end
    end
    out[#out + 1] = own
  end
  return largest > 2 and out or nil
end

--- How far the first boxes of neighbouring images are apart, and those of any two, from middle to middle: two sums, and
--- how many pairs each is of.
---@return number beside, integer neighbours, number between, integer pairs
local function distances(boxes)
  local beside, neighbours, between, all = 0, 0, 0, 0
  for j = 2, #boxes do
    for i = 1, j - 1 do
      local a, b = boxes[i][1], boxes[j][1]
      if a and b then
        local far = math.sqrt((a[1] + a[3] - b[1] - b[3]) ^ 2 + (a[2] + a[4] - b[2] - b[4]) ^ 2) / 2
        between, all = between + far, all + 1
        if j == i + 1 then beside, neighbours = beside + far, neighbours + 1 end
      end
    end
  end
  return beside, neighbours, between, all
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Boxes lie around the things of other images",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "labels-of-other-rows" },
  options  = {
    images   = { default = 48, doc = "Images of which the best boxes are looked for, at least" },
    distinct = { default = 0.85, doc = "Share of the images whose best boxes are no other's; chance gives 0.63" },
    own      = { default = 0.25, doc = "Share of the images that their own boxes may fit best" },
  },

  run = function(case)
    local dumped = training.batches(case)
    local looked, own, distinct, read, first = 0, 0, 0, 0, nil
    local beside, neighbours, between, pairs_ = 0, 0, 0, 0
    for images in dumped:where("match(name, '*image*|*pixel*|batch.x') and match(dtype, 'float*|bfloat*') and "
      .. "nonfinite == 0"):slice(0, 40):rows() do
      local s = images.shape or {}
      local row = #s == 4 and s[1] >= 4 and s[1] <= 64 and s[2] <= 4 and dumped:where { run = images.run,
        step = images.step, variant = images.variant, rank = images.rank }:where("match(name, '*box*') and "
        .. "match(dtype, 'float*') and nonfinite == 0"):first()
      if row and #row.shape == 3 and row.shape[1] == s[1] and row.shape[3] == 4 and read + images.numel <= 1000000 then
        local height, width = math.floor(s[3]), math.floor(s[4])
        local boxes = corners(row, height, width)
        -- Each box is looked for in each image.
        local many = 0
        for i = 1, boxes and #boxes or 0 do many = many + #boxes[i] end
        if boxes and many * #boxes * s[2] > 100000 then boxes = nil end
        local values = boxes and elements.of(images, 0, images.numel)
        read = boxes and read + images.numel or read
        local taken, best = {}, {}
        local near, couples, far, all = distances(boxes or {})
        beside, neighbours, between, pairs_ = beside + near, neighbours + couples, between + far, pairs_ + all
        for i = 1, boxes and #boxes or 0 do
          local channels = {}
          for c = 1, s[2] do channels[c] = summed(values, ((i - 1) * s[2] + c - 1) * height * width, height, width) end
          local high, at = 0, nil
          for j = 1, #boxes do
            local score = #boxes[j] > 0 and contrast(channels, height, width, boxes[j]) or 0
            if score > high then high, at = score, j end
          end
          best[i] = at
        end
        for i, at in pairs(best) do
          looked = looked + 1
          if at == i then own = own + 1 end
          if not taken[at] then taken[at], distinct = true, distinct + 1 end
        end
        first = first or boxes and row
      end
    end
    local opt = case.options
    if looked < opt.images then
      return skip(("%d dumped images with boxes, corners in pixels"):format(opt.images))
    end
    if own >= 0.5 * looked then return end
    if own > opt.own * looked or distinct < opt.distinct * looked then
      return skip("boxes with an edge around what is in them")
    end
    if neighbours > 0 and beside / neighbours < 0.8 * between / pairs_ then
      return skip("boxes that have nothing to do with those of the row beside, as they have in a clip")
    end
    local step, from = places.start(case, first.step, false)
    report {
      symptom  = "labels-of-other-rows",
      score    = 0.95,
      at       = { step = step, name = first.name },
      message  = ("what is inside of the boxes of %s differs most from what is around them in another image of the "
        .. "batch for %d of %d images, and these are %d different ones: boxes are those of other images, %s"):format(
        first.name, looked - own, looked, distinct, from),
      evidence = { first },
    }
  end,
}
