--- ## What it detects
--- Pictures that all end at one row, with nothing but one value below it down to their edge: a limit on rows has cut
--- them, and padding filled up what is missing. Of pictures whose channels lie apart the first one is looked at.
---
--- ## Why it matters
--- What lies below the limit is never learned, and what is asked of the whole picture cannot be told from the rest.
--- Validation on whole pictures is worse than training, or both are where both are cut.
---
--- ## How to confirm
--- Look at one picture of a training batch beside the file that it was read from.
---
--- ## Known false positives
--- Pictures of one shape that are padded to a larger one at the bottom, as cameras' are for a detector; where a setting
--- speaks of letterboxes, of padding or of a divisor of sizes, or a mask in the batch says where they end, nothing is
--- said. Pictures that have a border above as well, as digits in a frame, are left out.
---
--- ## References
--- https://pytorch.org/vision/stable/generated/torchvision.transforms.Pad.html

local PICTURES = "batch.input|batch.inputs|batch.image*|batch.img*|batch.pixel_values|batch.x|batch.picture*|"
  .. "batch.frame*|batch.color*|batch.colour*|batch.rgb*|batch.lq|batch.gt|batch.lr|batch.hr"

--- How a dumped batch of pictures lies: their number, rows, and the numbers of a row that follow each other; nil where
--- it is none.
local function layout(tensor)
  local shape = tensor.shape or {}
  if #shape ~= 4 then return nil end
  if shape[2] <= 16 and shape[3] >= 8 and shape[4] >= 8 then
    return { pictures = shape[1], rows = shape[3], width = shape[4], size = shape[2] * shape[3] * shape[4] }
  elseif shape[4] <= 4 and shape[2] >= 8 and shape[3] >= 8 then
    return { pictures = shape[1], rows = shape[2], width = shape[3] * shape[4], size = shape[2] * shape[3] * shape[4] }
  end
end

--- The one value of a row of a picture; nil where it has several.
local function only_value(tensor, from, width)
  local values = tensor:values(from, width)
  for _, value in ipairs(values) do
    if value ~= values[1] then return nil end
  end
  return values[1]
end

--- The rows that a picture has before one value fills it to its lower edge, and whether one fills its first row too.
local function extent(tensor, at, picture)
  local from = picture * at.size
  local fill = only_value(tensor, from + (at.rows - 1) * at.width, at.width)
  if fill == nil then return at.rows, false end
  local rows = at.rows - 1
  while rows > 0 and only_value(tensor, from + (rows - 1) * at.width, at.width) == fill do rows = rows - 1 end
  return rows, rows > 0 and only_value(tensor, from, at.width) ~= nil
end

--- The mask beside a batch of pictures that is 0 from the row of a cut on, and has something above it: [N,H,W] or
--- [N,1,H,W], of the pictures' own size or of a part of it; nil where there is none.
local function mask_of(case, pictures, at, cut)
  local masks = case.tensors:where { run = pictures.run, step = pictures.step }
    :where("match(name, 'batch.*mask*') and zero_share > 0")
  for mask in masks:slice(0, 8):rows() do
    local shape = mask.shape or {}
    local rows, width = shape[#shape - 1] or 0, shape[#shape] or 0
    if (#shape == 3 or #shape == 4 and shape[2] == 1) and shape[1] == at.pictures and rows >= 2 and width >= 2
      and rows * width <= 10000 and at.rows % rows == 0 and at.width % width == 0 then
      local said, below = false, true
      for picture = 0, math.min(4, at.pictures) - 1 do
        local values = mask:values(math.floor(picture * rows * width), math.floor(rows * width))
        for i, v in ipairs(values) do
          if v ~= 0 then
            local row = (i - 1) // width
            said, below = true, below and row < math.ceil(cut * rows / at.rows)
          end
        end
      end
      if said and below then return mask end
    end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "All pictures end at one row",
  needs    = { tensors = { "name", "shape" } },
  symptoms = { "rows-cut-at-limit", "pictures-end-early" },
  options  = {
    pictures = { default = 8,    doc = "Pictures of a batch that are looked at" },
    batches  = { default = 3,    doc = "Dumped batches that are looked at" },
    least    = { default = 6,    doc = "Pictures below which one end of all is chance" },
    most     = { default = 0.9,  doc = "Share of the rows above which a border is no cut" },
    share    = { default = 0.7,  doc = "Share of the pictures that end there; what is erased reaches further" },
  },

  run = function(case)
    local opt = case.options
    local padded = case.config:where("match(key, '*letterbox*|*size_divisor|*size_divisibility|*pad_to*|"
      .. "*padding_mode')")
      :where("value is not null and not match(value, 'false|False|none|None|null|0|1')"):first()
    if padded then return skip("pictures that nothing pads on purpose: " .. padded.key .. " is set") end
    local batches = case.tensors:where("match(name, ?) and zero_share is not null and numel >= 64", PICTURES)
      :sort("step")
    local seen, ends, at_end, looked = 0, {}, nil, {}
    for tensor in batches:rows() do
      local at = layout(tensor)
      -- Crops of another size are other pictures.
      if at and at.rows * at.width <= 65536 and at.width <= 10000 and seen < opt.batches * opt.pictures
        and (not at_end or at.rows == at_end.rows and at.width == at_end.width) then
        looked[#looked + 1] = tensor
        for picture = 0, math.min(opt.pictures, at.pictures) - 1 do
          local rows, above = extent(tensor, at, picture)
          if above or rows == 0 then return end
          ends[rows] = (ends[rows] or 0) + 1
          at_end, seen = at_end or at, seen + 1
        end
      end
    end
    if seen == 0 then return skip("a dumped batch of pictures (batch.image): culprit_recorder.watch dumps batches") end
    local cut, count = at_end.rows, 0
    for rows = 1, at_end.rows do
      if (ends[rows] or 0) > count then cut, count = rows, ends[rows] end
    end
    for rows = 1, cut - 1 do
      if ends[rows] then return end
    end
    if seen < opt.least or count < opt.share * seen or cut > opt.most * at_end.rows then return end
    local first = looked[1]
    local mask = mask_of(case, first, at_end, cut)
    if mask then
      return skip(("pictures that nothing fills up on purpose: %s says where they end"):format(mask.name))
    end
    local message = ("%d of %d pictures of %s that were looked at end at row %d of %d, with one value below, and none "
      .. "ends before: what is there was cut off, and filled up"):format(count, seen, first.name, cut, at_end.rows)
    for _, symptom in ipairs { "rows-cut-at-limit", "pictures-end-early" } do
      report {
        symptom  = symptom,
        score    = 0.8,
        at       = { run = first.run, step = first.step, name = first.name },
        message  = message,
        evidence = looked,
      }
    end
  end,
}
