--- ## What it detects
--- Labels of pixels that are noise: single pixels with a label that none of their eight neighbours has, though these
--- are of one label, in the ground as in what lies on it, and some of them the label of another ground; or neighbours
--- that agree as often as any two pixels do, neither more nor less.
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
--- pixels have to be of a ground. A map of land by its pixels may have such specks in truth. Maps that are smaller than
--- eight pixels or of one label are not judged, nor are those without an image beside them of at most four times their
--- side (puzzles, boards, lines of letters), bytes that are named a target (pictures), masks of two values, as a masked
--- autoencoder draws them, and labels of very many kinds (codes of a tokenizer of images, shades of grey).
---
--- ## References
--- https://en.wikipedia.org/wiki/Join_count_statistic (do neighbours agree more often than by chance)

local elements = require("elements")

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

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels of pixels are noise",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "labels-partly-wrong", "labels-unrelated" },
  options  = {
    single = { default = 0.01, doc = "Share of single pixels on each of two labels, worth reporting" },
    above  = { default = 0.05, doc = "Agreement of neighbours above chance that is none, as a share of what is left" },
    pixels = { default = 800,  doc = "Neighbours below which nothing is said" },
  },

  run = function(case)
    local opt = case.options
    local named = case.config:where("match(key, '*ignore_index|*ignore_label|*void_label') and number is not null")
      :first()
    local function ignored(v) return v < 0 or v == 255 or named and v == named.number end
    local pictures = case.tensors:where("match(name, 'batch.*') and match(dtype, 'float*|bfloat*|uint8') "
      .. "and numel >= 64")
    local counts, first, read = { of = {}, all = 0, pairs = 0, alike = 0, on = {}, single = {} }, nil, 0
    for batch in case.tensors:where(LABELS):where("zero_share is not null and step is not null"):sort("step")
      :slice(0, 100):rows() do
      local shape = batch.shape or {}
      if #shape == 4 and shape[2] == 1 then shape = { shape[1], shape[3], shape[4] } end
      if #shape == 3 and shape[2] >= SIDE and shape[3] >= SIDE and read < PIXELS then
        local size = math.floor(shape[2] * shape[3])
        local image = pictures:where { run = batch.run, step = batch.step, variant = batch.variant }
        local drawn = false
        for row in image:slice(0, 20):rows() do
          local a = row.shape or {}
          local function covers(height, width)
            return height >= shape[2] and width >= shape[3] and height <= LESS * shape[2] and width <= LESS * shape[3]
          end
          drawn = drawn or #a == 4 and a[1] == shape[1] and row.name ~= batch.name
            and (covers(a[3], a[4]) or covers(a[2], a[3]))
        end
        if not drawn or batch.name:glob("*mask*") and batch:distinct_values(3) <= 2 then size = 0 end
        for row = 0, size == 0 and -1 or math.min(shape[1], math.max(1, PIXELS // (4 * size))) - 1 do
          add_map(counts, elements.of(batch, row * size, size), math.floor(shape[2]), math.floor(shape[3]), ignored)
          read = read + size
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
    if share <= opt.above and share >= -math.max(opt.above, 4 / math.sqrt(counts.pairs)) and large >= 2 then
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
