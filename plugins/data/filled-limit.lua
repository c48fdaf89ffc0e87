--- ## What it detects
--- A setting that limits how much of a sample is read, as frames, rows, points or boxes, and that each dumped batch
--- fills to the last place: no sample has less, so that most may have had more.
---
--- ## Why it matters
--- What lies behind the limit is never learned, and what is asked of the whole sample cannot be told from the rest.
---
--- ## How to confirm
--- Count the samples that are longer than the limit before they are cut.
---
--- ## Known false positives
--- Samples that are all of one length by nature, with a limit set to it, and crops that are drawn anew: the statement
--- is a lead and no more. What is padded up to the limit does not reach it. Limits on text are left out, whose rows are
--- packed or padded to them, and so is a number that is a size, a window or a length of something else as well.
---
--- ## References
--- https://huggingface.co/docs/transformers/pad_truncation

local LIMITS = "max_*|*.max_*|*_max_*|*_limit|limit_*|*.limit_*"
local OTHERS = "*step*|*epoch*|*iter*|*grad*|*norm*|*_lr*|*lr_*|*position*|*len|*length*|*seq*|*token*|*vocab*|"
  .. "*worker*|*depth*|*degree*|*new_*|*keep*|*time*|*augment*|*class*|*bins*|*freq*|*area*|*batch_size*|*trial*|"
  .. "*beta*|*eval*|*val_*|*valid*|*test*|*detections*|*dets*|*scale*|*ratio*"

--- A limit of the settings on what a sample has; no other setting that is a size has the same number.
local function limits(case)
  local out = {}
  for set in case.config:where("match(key, ?) and not match(key, ?) and number >= 2", LIMITS, OTHERS)
    :where("number < 1e6"):slice(0, 20):rows() do
    local sized = case.config:where("number == ? and key != ?", set.number, set.key)
      :where("match(key, '*size*|*len*|*window*|*context*|*crop*|*dim*|*width*|*height*|*num_*|*n_*')"):count()
    if sized == 0 and set.number % 1 == 0 then out[#out + 1] = set end
  end
  return out
end

--- Whether nine samples of ten have something at the last place of an axis: none of what rows are padded with.
---@param row culprit.Row   a batch
---@param axis integer      from 1, not that of the samples
---@return boolean
local function filled(row, axis)
  local shape, rows = row.shape, math.floor(row.shape[1])
  local inner, outer, there = 1, 1, 0
  for k = axis + 1, #shape do inner = inner * math.floor(shape[k]) end
  for k = 2, axis - 1 do outer = outer * math.floor(shape[k]) end
  local places, size = math.floor(shape[axis]), row.numel // rows
  if row.numel > 65536 * 16 or row.zero_share == nil then return false end
  for sample = 0, math.min(rows, 32) - 1 do
    local some = false
    for block = 0, outer - 1 do
      local from = sample * size + (block * places + places - 1) * inner
      for _, v in ipairs(some and {} or row:values(from, math.min(inner, 1000))) do
        some = some or v ~= 0 and v ~= -1 and v ~= -100
      end
    end
    there = there + (some and 1 or 0)
  end
  return there >= 0.9 * math.min(rows, 32)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A limit on what is read of a sample is reached by every batch",
  needs    = { tensors = { "name", "shape" }, config = { "key", "number" } },
  symptoms = { "rows-fill-limit" },
  options  = {
    batches = { default = 2, doc = "Dumped batches below which one length is chance" },
  },

  run = function(case)
    local found = limits(case)
    if #found == 0 then return skip("a setting that limits what is read of a sample (max_frames, max_rows)") end
    local first, batches, reached = nil, {}, {} -- reached: by limit and tensor, how many batches are at it
    for row in case.tensors:where("match(name, 'batch.*') and step is not null"):sort("step"):slice(0, 200):rows() do
      local shape = row.shape or {}
      local own   = batches[row.name] or { count = 0 }
      batches[row.name] = own
      own.count = own.count + 1
      for k, set in ipairs(found) do
        -- The first axis is that of the rows.
        for axis = 2, #shape do
          if shape[axis] == set.number then
            local key = k .. "/" .. row.name .. "/" .. axis
            reached[key] = (reached[key] or 0) + 1
            if reached[key] >= case.options.batches and reached[key] == own.count then
              own.at = { set = set, axis = axis, row = row, key = key }
            end
          end
        end
      end
      first = first or row
    end
    if not first then return skip("a dumped batch: culprit_recorder.watch dumps batches") end
    local names = {}
    for name, own in pairs(batches) do
      if own.at and reached[own.at.key] == own.count then names[#names + 1] = name end
    end
    table.sort(names)
    while names[1] and not filled(batches[names[1]].at.row, batches[names[1]].at.axis) do table.remove(names, 1) end
    local at = names[1] and batches[names[1]].at
    if not at then return end
    report {
      symptom  = "rows-fill-limit",
      score    = 0.25,
      at       = { run = at.row.run, step = at.row.step, name = names[1] },
      message  = ("%s is %g, and so is the size of %s along axis %d in each of %d dumped batches, to the last place: "
        .. "samples may have had more, which is lost"):format(at.set.key, at.set.number, names[1], at.axis - 1,
        batches[names[1]].count),
      evidence = { at.set, at.row },
    }
  end,
}
