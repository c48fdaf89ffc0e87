--- ## What it detects
--- Maps that belong to other images of their batch: their parts fit these better than their own. And labels of pixels
--- that are noise: single pixels with a label that none of their eight neighbours has, though these are of one label,
--- in the ground as in what lies on it, and some of them the label of another ground; or neighbours that agree as often
--- as any two pixels do, neither more nor less.
---
--- ## Why it matters
--- A thing has an extent, so pixels beside each other nearly always have one label. Where they do not, labels were
--- drawn at random, shuffled, or read with a wrong stride, and the loss has a floor that no setting removes.
---
--- ## How to confirm
--- Look at one label map as a picture, beside its image.
---
--- ## Known false positives
--- Points that are marked on purpose (clicks, stars, cells of one pixel) stand on the ground alone, and have one label:
--- single pixels count where they stand on two labels at least. Small things (signs, far persons in a map that was made
--- smaller) are none of the labels that cover large parts, and strewn labels are these as well: some of the single
--- pixels have to be of a ground. A map of land by its pixels may have such specks in truth. Labels that are learned
--- are no noise, whatever they look like. Maps that are smaller than eight pixels or of one label are not judged, nor
--- are those without an image beside them of at most four times their side (puzzles, boards, lines of letters), bytes
--- that are named a target (pictures), masks of two values, as a masked autoencoder draws them, and labels of very many
--- kinds (codes of a tokenizer of images, shades of grey). Maps fit an image as far as its parts differ in colour;
--- where they do not, no image fits better than another and nothing is said of other rows. Nor is it where the maps or
--- images of one batch are more alike than those of two, as frames of a film: there other images of the batch fit a
--- right map as well as its own, and better than those of another scene.
---
--- ## References
--- https://en.wikipedia.org/wiki/Join_count_statistic (do neighbours agree more often than by chance)

local elements = require("elements")
local learning = require("learning")
local settings = require("settings")

local LABELS = "match(name, 'batch.*label|batch.*labels|batch.*target|batch.*targets|batch.*mask|batch.*masks|"
  .. "batch.*segmentation*') and match(dtype, 'int*|uint*') and not match(name, '*pixel_mask*|*attention*|*padding*|"
  .. "*valid*|*loss_mask*|*bool_masked*') and not (match(name, '*target*') and match(dtype, 'uint*'))"
local SIDE, PIXELS = 8, 200000 -- of a map at least; that are read at most
local LESS = 4 -- times smaller than its image a map is, at most

--- Adds the map of `height` lines in `ids` to the counts.
local function add_map(counts, ids, height, width, ignored)
  for y = 1, height do
    for x = 1, width do
      local at = (y - 1) * width + x
      local own = ids[at]
      if not ignored(own) then
        counts.of[own], counts.all = (counts.of[own] or 0) + 1, counts.all + 1
        local right = x < width and ids[at + 1]
        if right and not ignored(right) then
          counts.pairs = counts.pairs + 1
          if right == own then counts.alike = counts.alike + 1 end
        end
        local under = y < height and ids[at + width]
        if under and not ignored(under) then
          counts.pairs = counts.pairs + 1
          if under == own then counts.alike = counts.alike + 1 end
        end
        if x > 1 and x < width and y > 1 and y < height then
          local ground = ids[at - 1]
          local one = not ignored(ground) and ids[at + 1] == ground
          for _, far in ipairs({ -width, width }) do
            one = one and ids[at + far - 1] == ground and ids[at + far] == ground and ids[at + far + 1] == ground
          end
          if one then
            counts.on[ground] = (counts.on[ground] or 0) + 1
            if own ~= ground then
              local single = counts.single[ground] or { n = 0, of = {} }
              single.n, single.of[own] = single.n + 1, (single.of[own] or 0) + 1
              counts.single[ground] = single
            end
          end
        end
      end
    end
  end
end

-- Points a side of a map that are compared, channels, rows of a batch; rows of all batches that tell.
local GRID, CHANNELS, ROWS, LEAST = 16, 3, 16, 48

--- The maps of a batch and its images at the same points of a grid: a list of { y = labels, x = channels of values }.
--- Channels are the second axis or the last one; images are as large as the maps, or so many times larger.
local function points_of(labels, height, width, image)
  local a = image.shape
  local first = a[2] <= 16 and a[3] >= height and a[4] >= width
  local channels = math.floor(first and a[2] or a[4])
  local rows = math.min(ROWS, math.floor(a[1]))
  local h, w = math.floor(first and a[3] or a[2]), math.floor(first and a[4] or a[3])
  if channels > 16 or h < height or w < width then return nil end
  local out, size = {}, height * width
  for row = 0, rows - 1 do
    local y, x, n = {}, {}, 0
    for c = 1, math.min(channels, CHANNELS) do x[c] = {} end
    -- Images are large: only the lines that the grid has points on are read.
    for i = 0, math.min(GRID, height) - 1 do
      local down = i * height // math.min(GRID, height)
      local line, pixels = row * h + down * h // height, {}
      local ids = elements.of(labels, row * size + down * width, width)
      if not first then pixels = elements.of(image, line * w * channels, w * channels) end
      for c = 1, first and #x or 0 do
        pixels[c] = elements.of(image, ((row * channels + c - 1) * h + down * h // height) * w, w)
      end
      for k = 0, math.min(GRID, width) - 1 do
        local right = k * width // math.min(GRID, width)
        local at = right * w // width
        n = n + 1
        y[n] = ids[right + 1]
        for c = 1, #x do x[c][n] = first and pixels[c][at + 1] or pixels[at * channels + c] end
      end
    end
    out[#out + 1] = { y = y, x = x }
  end
  return out
end

--- The share of an image's variance that lies between the parts that a map has: of a right map more than of one that is
--- drawn for something else. Nil of a map that shows one label.
local function explained(map, image, ignored)
  local between, all = 0, 0
  for _, x in ipairs(image.x) do
    local sum, count, total, square, n, kinds = {}, {}, 0, 0, 0, 0
    for i, label in ipairs(map.y) do
      if not ignored(label) then
        if not sum[label] then sum[label], count[label], kinds = 0, 0, kinds + 1 end
        sum[label], count[label] = sum[label] + x[i], count[label] + 1
        total, square, n = total + x[i], square + x[i] * x[i], n + 1
      end
    end
    if n < 32 or kinds < 2 then return nil end
    local parts = 0
    for label, one in pairs(sum) do parts = parts + one * one / count[label] end
    between, all = between + parts - total * total / n, all + square - total * total / n
  end
  return all > 0 and between / all or nil
end

--- Of the points of two maps that are both known, the share with one label; and the correlation of two images.
local function likeness(a, b, ignored)
  local same, known, xy, xx, yy = 0, 0, 0, 0, 0
  for i, label in ipairs(a.y) do
    if not ignored(label) and not ignored(b.y[i] or -1) then
      known = known + 1
      if label == b.y[i] then same = same + 1 end
    end
  end
  for c, x in ipairs(a.x) do
    local z, mean_x, mean_z = b.x[c] or {}, 0, 0
    if #z == #x then
      for i = 1, #x do mean_x, mean_z = mean_x + x[i] / #x, mean_z + z[i] / #x end
      for i = 1, #x do
        local p, q = x[i] - mean_x, z[i] - mean_z
        xy, xx, yy = xy + p * q, xx + p * p, yy + q * q
      end
    end
  end
  return known > 0 and same / known or 0, xx > 0 and yy > 0 and xy / math.sqrt(xx * yy) or 0
end

--- Whether the maps or the images of one batch are more alike than those of two, as the frames of a film that are read
--- in turn: by what part of the way to being the same.
local function of_one_scene(batches, ignored, apart)
  local maps, images, counts = { 0, 0 }, { 0, 0 }, { 0, 0 }
  for number, batch in ipairs(batches) do
    local far = batches[number % #batches + 1]
    for row = 1, #batch do
      for step = 1, math.min(4, #batch - 1) do
        local other = (row + step - 1) % #batch + 1
        for kind, one in ipairs({ batch[other], far ~= batch and far[other] or nil }) do
          local map, image = likeness(batch[row], one, ignored)
          maps[kind], images[kind], counts[kind] = maps[kind] + map, images[kind] + image, counts[kind] + 1
        end
      end
    end
  end
  if counts[2] == 0 then return false end
  for _, sums in ipairs({ maps, images }) do
    local here, there = sums[1] / counts[1], sums[2] / counts[2]
    if here - there > apart * (1 - there) then return true end
  end
  return false
end

--- Whether maps belong to other images of their batch. Where maps have nothing to do with their own image, this is as
--- likely the best of the batch as the worst; and where they belong to others, the best of the others fits better than
--- the best of as many of another batch. Both are counted over all rows, so that images in which parts cannot be told
--- by their colour say nothing.
---@param batches table[]  of `points_of`
---@return table?  rows, rank (of their own image, 0 to 1), better, compared, ahead (of one distance: share of rows)
local function of_other_images(batches, ignored)
  local ranks, rows, better, worse, at = 0, 0, 0, 0, {}
  for number, batch in ipairs(batches) do
    local far = batches[number % #batches + 1]
    local n = #batch
    for row = 1, n do
      local own = explained(batch[row], batch[row], ignored)
      local below, among, best, where_ = 0, 0, nil, nil
      for other = 1, own and n or 0 do
        local value = other ~= row and explained(batch[row], batch[other], ignored)
        if value then
          among = among + 1
          if value < own then below = below + 1 end
          if not best or value > best then best, where_ = value, other end
        end
      end
      if best and among >= 4 then
        rows, ranks = rows + 1, ranks + (below + 0.5) / (among + 1)
        at[(where_ - row) % n] = (at[(where_ - row) % n] or 0) + 1
        local best_far
        for other = 1, far ~= batch and #far == n and n or 0 do
          local value = other ~= row and explained(batch[row], far[other], ignored)
          if value and (not best_far or value > best_far) then best_far = value end
        end
        if best_far then
          if best > best_far then better = better + 1 elseif best < best_far then worse = worse + 1 end
        end
      end
    end
  end
  if rows < LEAST then return nil end
  local most, by = 0, 0
  for distance, count in pairs(at) do
    if count > most or count == most and distance < by then most, by = count, distance end
  end
  return { rows = rows, rank = ranks / rows, better = better, compared = better + worse, most = most, by = by,
    of = #batches[1] }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels of pixels are noise, or of other images",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows" },
  options  = {
    single = { default = 0.01, doc = "Share of single pixels on each of two labels, worth reporting" },
    above  = { default = 0.05, doc = "Agreement of neighbours above chance that is none, as a share of what is left" },
    pixels = { default = 800,  doc = "Neighbours below which nothing is said" },
    own    = { default = 2.5,  doc = "Deviations by which a map's own image may fit better and is no better" },
    sure   = { default = 4.0,  doc = "Deviations by which other images of the batch have to fit better than others" },
    scene  = { default = 0.2,  doc = "Likeness within a batch beyond that of two batches, as a share of what is left" },
  },

  run = function(case)
    local opt = case.options
    local named = settings.ignored(case):first()
    local function ignored(v) return v < 0 or v == 255 or named and v == named.number end
    local pictures = case.tensors:where("match(name, 'batch.*') and match(dtype, 'float*|bfloat*|uint8') "
      .. "and numel >= 64")
    local compared, known, points = {}, {}, 0
    local counts, first, read = { of = {}, all = 0, pairs = 0, alike = 0, on = {}, single = {} }, nil, 0
    for batch in case.tensors:where(LABELS):where("zero_share is not null and step is not null"):sort("step")
      :slice(0, 100):rows() do
      local shape = batch.shape or {}
      if #shape == 4 and shape[2] == 1 then shape = { shape[1], shape[3], shape[4] } end
      if #shape == 3 and shape[2] >= SIDE and shape[3] >= SIDE and read < PIXELS then
        local size = math.floor(shape[2] * shape[3])
        local image = pictures:where { run = batch.run, step = batch.step, variant = batch.variant }
        local drawn, beside = false, nil
        for row in image:slice(0, 20):rows() do
          local a = row.shape or {}
          local function covers(height, width)
            return height >= shape[2] and width >= shape[3] and height <= LESS * shape[2] and width <= LESS * shape[3]
          end
          local fits = #a == 4 and a[1] == shape[1] and row.name ~= batch.name
            and (covers(a[3], a[4]) or covers(a[2], a[3]))
          if fits and not drawn then beside = row end
          drawn = drawn or fits
        end
        if not drawn or batch.name:glob("*mask*") and batch:distinct_values(3) <= 2 then size = 0 end
        for row = 0, size == 0 and -1 or math.min(shape[1], math.max(1, PIXELS // (4 * size))) - 1 do
          add_map(counts, elements.of(batch, row * size, size), math.floor(shape[2]), math.floor(shape[3]), ignored)
          read = read + size
        end
        -- One batch that is trained on again and again tells once.
        local key = beside and ("%.9g %.9g"):format(batch.mean or 0, beside.mean or 0)
        if size > 0 and beside and not known[key] and #compared < 4 and shape[1] >= 8 and beside.numel <= 4000000
          and points + batch.numel <= 400000 then
          points, known[key] = points + batch.numel, true
          compared[#compared + 1] = points_of(batch, math.floor(shape[2]), math.floor(shape[3]), beside)
        end
        first = first or size > 0 and batch or nil
      end
    end
    local kinds, even, large = 0, 0, 0 -- labels of a tenth of the pixels or more
    for _, n in pairs(counts.of) do
      kinds, even = kinds + 1, even + (n / counts.all) ^ 2
      if n >= 0.1 * counts.all then large = large + 1 end
    end
    if not first or counts.pairs < opt.pixels or kinds < 2 or kinds > 256 or even > 0.98 or even < 0.02 then
      return skip("label maps of eight pixels a side beside their images, of two labels or more")
    end
    local share = (counts.alike / counts.pairs - even) / (1 - even)
    -- Neighbours that differ more often than chance makes them follow a rule, as digits of a puzzle do.
    local noise = share <= opt.above and share >= -math.max(opt.above, 4 / math.sqrt(counts.pairs)) and large >= 2
    local told  = noise and learning.of(case, first.run, learning.entropy(counts.of), 0.7)
    if told then
      return skip(("labels that cannot be learned: the loss is %.4g at step %d, and their entropy %.4g"):format(
        told.value, told.step, learning.entropy(counts.of)))
    elseif noise then
      report {
        symptom  = "labels-unrelated",
        score    = 0.9,
        at       = { step = first.step, name = first.name },
        message  = ("neighbouring pixels of %s have one label in %s of %s pairs, and any two pixels in %s: a map of "
          .. "things has them together"):format(first.name, units.percent(counts.alike / counts.pairs),
          units.count(counts.pairs), units.percent(even)),
        evidence = { first },
      }
      return
    end
    local found = #compared > 0 and of_other_images(compared, ignored)
    if not found then
      skip(("label maps of %d images in dumped batches of eight rows or more"):format(LEAST), "labels-of-other-rows")
    else
      -- A rank is even from 0 to 1 where the image is none of the map's; each comparison is won by half then.
      local own   = (found.rank - 0.5) * math.sqrt(12 * found.rows)
      local moved = (found.most / found.rows - 1 / (found.of - 1)) / math.sqrt(1 / (found.of - 1) / found.rows)
      local sure  = found.compared > 0
        and (found.better - 0.5 * found.compared) / (0.5 * math.sqrt(found.compared)) or 0
      local scene = own <= opt.own and sure >= opt.sure and of_one_scene(compared, ignored, opt.scene)
      if scene and moved < 1.5 * opt.sure then
        skip("batches whose images are drawn from all: those of one are more alike than of two, as frames of a film",
          "labels-of-other-rows")
      elseif own <= opt.own and (moved >= 1.5 * opt.sure or sure >= opt.sure) then
        report {
          symptom  = "labels-of-other-rows",
          score    = moved >= 1.5 * opt.sure and 0.97 or 0.93,
          at       = { step = first.step, name = first.name },
          message  = ("maps of %s fit their own image no better than others of the batch (rank %.2g of 1 over %d rows; "
            .. "0.5 is chance), and %s"):format(first.name, found.rank, found.rows, moved >= 1.5 * opt.sure
            and ("%d of them fit that of %d rows on best"):format(found.most, found.by)
            or ("another image of their batch fits better than all of another batch in %d of %d rows"):format(
              found.better, found.compared)),
          evidence = { first },
        }
      elseif own <= opt.own then
        skip("images whose parts differ in colour: here no image fits a map better than another",
          "labels-of-other-rows")
      end
    end
    local grounds, wrong, seen, crossed, expected = 0, 0, 0, 0, 0
    local function is_ground(label) return (counts.on[label] or 0) >= 100 end
    local all_grounds = 0
    for ground in pairs(counts.on) do if is_ground(ground) then all_grounds = all_grounds + 1 end end
    for ground, n in pairs(counts.on) do
      local single = counts.single[ground] or { n = 0, of = {} }
      seen, wrong = seen + n, wrong + single.n
      if n >= 100 and single.n >= math.max(5, opt.single * n) then grounds = grounds + 1 end
      if is_ground(ground) then
        expected = expected + single.n * (all_grounds - 1) / (kinds - 1)
        for label, times in pairs(single.of) do if is_ground(label) then crossed = crossed + times end end
      end
    end
    if grounds >= 2 and crossed >= math.max(2, 0.5 * expected) and wrong >= opt.single * seen then
      report {
        symptom  = "labels-partly-wrong",
        score    = 0.9,
        at       = { step = first.step, name = first.name },
        message  = ("%s of %s pixels of %s whose neighbours are all of one label have another, on each of %d labels: "
          .. "they are strewn, and not the shape of a thing"):format(units.percent(wrong / seen), units.count(seen),
          first.name, grounds),
        evidence = { first },
      }
    end
  end,
}
