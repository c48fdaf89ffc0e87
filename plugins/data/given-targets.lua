--- ## What it detects
--- Targets that a row of the batch holds among its inputs: a tensor of numbers that is another one of the same shape,
--- element by element, in some rows or all; and one id a row that is the last of the ids which the row is given. Where
--- the model gives its input back, rows whose target is something else altogether.
---
--- ## Why it matters
--- What is to be told can be read. The loss falls below what the data allow, copying is all that is learned, and with
--- inputs that do not hold the answer the model is as bad as a guess.
---
--- ## How to confirm
--- Subtract the target from the input of one row.
---
--- ## Known false positives
--- Models that give their input back (autoencoders, imputation, masked pre-training) have it for a target on purpose:
--- where all rows are so and the config or a name says it, nothing is reported. Fields that do not change from one
--- moment to the next are equal in both; rows of less than eight values or of one value alone are not judged. Ids of a
--- process that repeats itself may be equal to the one before them: of less than four kinds, or in less than four rows
--- of ten, they are not reported.
---
--- ## References
--- https://github.com/NVlabs/FourCastNet/blob/master/utils/data_loader_multifiles.py (`dt`, the steps from a field to
--- its target), https://recbole.io/docs/developer_guide/customize_dataloaders.html (`item_id_list` and `item_id`)

local elements = require("elements")
local settings = require("settings")

local TARGETS = "match(name, 'batch.*tar|batch.*target|batch.*targets|batch.*label|batch.*labels|batch.y|batch.*next*|"
  .. "batch.*truth*|batch.*_gt|batch.gt*|batch.*item_id|batch.*pos_item*|batch.*positive*|batch.*output') and "
  .. "not match(name, '*mask*|*weight*|*len*|*neg*')"
local BACK = "*autoenc*|*auto_enc*|*vae*|*vqgan*|*imput*|*reconstruct*|*denois*|*mask_ratio*|*mask_token*|*mlm*|"
  .. "mae_*|*_mae_*"
local ROWS, WIDTH, HEAD = 64, 4096, 32 -- of a batch and of a row, at most, and of a row at first

--- What says that the model gives its input back.
local function gives_back(case)
  return settings.on(case.config:where("match(key, ?)", BACK)):first()
    or case.config:where("match(key, '*model*|*arch*|*task*|*type|*objective*') and match(value, ?)", BACK):first()
    or case.tensors:where("match(name, ?)", "batch.*noise*|batch.*timestep*|batch.*noisy*|batch.*recon*|batch.*masked*")
      :first()
end

--- What says so of one whose loss is of waveforms or a code, and that nothing is changed in what it is given: noise,
--- echoes and masks make an input another one than its target.
local function gives_back_whole(case)
  if case.config:where("match(key, '*noise*|*denois*|*enhanc*|*reverb*|*corrupt*|*degrad*|*mask*|*cutout*|*erase*')")
    :count() > 0 then
    return nil
  end
  return case.scalars:where("match(name, '*recon*loss*|*loss*recon*|*commit*loss*|*codebook*loss*|*waveform*loss*')")
    :first()
end

--- Whether a row of two tensors is the same, and has three values or more; what it begins with mostly says no.
local function same_row(target, input, first, width)
  local equal, kinds, n = true, {}, 0
  for _, piece in ipairs({ { 0, math.min(width, HEAD) }, { HEAD, math.min(width, WIDTH) - HEAD } }) do
    if equal and piece[2] > 0 then
      local y, x = elements.of(target, first + piece[1], piece[2]), elements.of(input, first + piece[1], piece[2])
      for i, v in ipairs(y) do
        equal = equal and x[i] == v
        if n < 3 and not kinds[v] then kinds[v], n = true, n + 1 end
      end
    end
  end
  return equal, n >= 3
end

--- How much of one list goes with another of its length, from -1 to 1; 1 where one of them does not vary.
local function correlation(x, y)
  local n, sx, sy, sxx, syy, sxy = #x, 0, 0, 0, 0, 0
  for i = 1, n do sx, sy = sx + x[i], sy + y[i] end
  for i = 1, n do
    local a, b = x[i] - sx / n, y[i] - sy / n
    sxx, syy, sxy = sxx + a * a, syy + b * b, sxy + a * b
  end
  return sxx > 0 and syy > 0 and sxy / math.sqrt(sxx * syy) or 1
end

--- Of the rows of a target that say something and are not those of the input, how many have nothing to do with it: a
--- correlation below a half in size.
local function of_others(target, input)
  local lines = math.floor(target.shape[1])
  local width = target.numel // lines
  local others = 0
  for row = 0, math.min(lines, ROWS) - 1 do
    local equal, says = same_row(target, input, row * width, width)
    if says and not equal then
      local y, x = elements.of(target, row * width, math.min(width, WIDTH)),
                   elements.of(input, row * width, math.min(width, WIDTH))
      others = others + (math.abs(correlation(x, y)) < 0.5 and 1 or 0)
    end
  end
  return others
end

--- The rows of a target that are those of another tensor: how many of how many that say something.
local function same_rows(target, input)
  local lines = math.floor(target.shape[1])
  local width = target.numel // lines
  local rows, hits = 0, 0
  for row = 0, math.min(lines, ROWS) - 1 do
    local equal, tells = same_row(target, input, row * width, width)
    if tells then
      rows = rows + 1
      hits = hits + (equal and 1 or 0)
    end
  end
  return hits, rows
end

--- Whether one id a row is the last of the ids that the row is given: how many of how many rows, and of how many kinds
--- they are. Padding is 0 at either end, or what stands behind the length of the row.
local function last_ids(target, input, lengths)
  local lines = math.floor(target.shape[1])
  local width = input.numel // lines
  local ids, all = elements.of(target, 0, lines), {}
  local lens  = lengths and elements.of(lengths, 0, lines) or {}
  local kinds, count, hits = {}, 0, 0
  for row = 1, math.min(lines, 4 * ROWS) do
    local x = elements.of(input, (row - 1) * width, width)
    local at = lens[row] and lens[row] >= 1 and lens[row] <= width and math.floor(lens[row]) or width
    while at > 1 and x[at] == 0 do at = at - 1 end
    all[row] = x[at]
    if x[at] == ids[row] then hits = hits + 1 end
    if not kinds[ids[row]] then kinds[ids[row]], count = true, count + 1 end
  end
  return hits, #all, count
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Targets stand among the inputs of their row",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "targets-among-inputs", "labels-of-other-rows" },
  options  = {
    share = { default = 0.1, doc = "Share of rows whose target is the input, worth reporting" },
    ids   = { default = 0.4, doc = "Share of rows whose id is the last one given, worth reporting" },
    kinds = { default = 4,   doc = "Ids that are not judged where they are fewer" },
  },

  run = function(case)
    local opt   = case.options
    local batch = case.tensors:where("match(name, 'batch.*') and numel >= 8 and step is not null and shape is not null")
    local back, whole = gives_back(case), gives_back_whole(case)
    local judged, found, swapped = false, nil, nil

    --- Keeps what is found, the surest first.
    local function keep(hits, rows, target, input, words)
      if found and found.share >= hits / rows then return end
      found = { share = hits / rows, target = target, input = input,
        message = ("in %d of %d dumped rows %s is " .. words):format(hits, rows, target.name, input.name) }
    end
    for target in batch:where(TARGETS):sort("step"):slice(0, 32):rows() do
      local shape = target.shape or {}
      local lines = shape[1] and math.floor(shape[1]) or 0
      local here  = batch:where { run = target.run, step = target.step, variant = target.variant }
        :where("name != ?", target.name)
      local float = target.dtype:glob("float*|bfloat*")
      if float and #shape >= 2 and lines >= 2 and target.numel // lines >= 8 then
        for input in here:where("numel == ? and dtype == ?", target.numel, target.dtype)
          :where("not (" .. TARGETS .. ")"):slice(0, 8):rows() do
          local own = input.shape or {}
          if #own == #shape and own[1] == shape[1] and own[#own] == shape[#shape] then
            judged = true
            local hits, rows = same_rows(target, input)
            if whole and rows >= 4 and hits >= 0.3 * rows and hits < rows
              and of_others(target, input) == rows - hits then
              swapped = swapped or { target = target, input = input,
                message = ("in %d of %d dumped rows %s is %s, which the model is to give back, and in the others it "
                .. "has nothing to do with it: these have the target of another row"):format(hits, rows, target.name,
                input.name) }
            elseif rows >= 2 and hits >= math.max(2, opt.share * rows) and not (back and hits >= 0.9 * rows) then
              keep(hits, rows, target, input, "%s, element by element: the target is what the model is given")
            end
          end
        end
      elseif target.dtype:glob("int*|uint*") and lines >= 8 and target.numel == lines then
        local lengths = here:where("match(name, '*len*') and match(dtype, 'int*|uint*') and numel == ?", lines):first()
        local lists = here:where("match(dtype, 'int*|uint*') and numel > ?", lines)
          :where("match(name, '*id*|*item*|*seq*|*hist*|*tokens*') and not match(name, '*mask*|*neg*')")
        for input in lists:slice(0, 8):rows() do
          local own = input.shape or {}
          if #own == 2 and own[1] == lines and own[2] >= 2 then
            judged = true
            local hits, rows, kinds = last_ids(target, input, lengths)
            if kinds >= opt.kinds and hits >= opt.ids * rows then
              keep(hits, rows, target, input, "the last id of %s: what is to come next is given")
            end
          end
        end
      end
    end
    if swapped then
      report {
        symptom  = "labels-of-other-rows",
        score    = 0.9,
        at       = { step = swapped.target.step, name = swapped.target.name },
        message  = swapped.message,
        evidence = { swapped.target, swapped.input },
      }
    elseif found then
      report {
        symptom  = "targets-among-inputs",
        score    = found.share >= 0.9 and 0.9 or 0.95, -- some rows alone are no design
        at       = { step = found.target.step, name = found.target.name },
        message  = found.message,
        evidence = { found.target, found.input },
      }
    elseif not judged then
      skip("a dumped batch with a target of the shape of an input, or one id a row beside a list of ids")
    end
  end,
}
