--- Matrices of a checkpoint that are still what they were drawn as: zeros that no update has moved, and elements that
--- are too large for the inputs they stand for while all updates together are a small part of them. A checkpoint has
--- the shapes, which statistics of layers do not have: a convolution of 3 x 3 over 34 channels has 306 inputs.

local drawn_weights = {}

local SOURCES, LEAST = 8, 3  -- files that are looked at, newest first; matrices that are a model
local NOTHING = 1e-20        -- an element below it passes nothing

--- Tables, whose rows are looked up, and what begins as it pleases.
drawn_weights.LOOKED_UP = "*embed*|*wte*|*wpe*|*emb.*|*table*|*codebook*|*token*|*query*|*queries*|*latent*|"
  .. "*prototype*|*slots*|*memory*|*lookup*|*fourier*|*freq*"
-- These, norms, and copies.
local NOT_DRAWN = drawn_weights.LOOKED_UP .. "|*lora_*|*norm*|*.ln*|ema.*|ema_*|*.ema.*|*_ema.*|exp_avg*|*.exp_avg*|"
  .. "*momentum_buffer*|target*|*.target*|teacher*|*.teacher*"
-- GPT-2's Conv1D and what is called a kernel have the inputs first.
local INPUTS_FIRST = "*kernel*|*c_attn*|*c_proj*|*c_fc*"

--- The number of inputs of each output of a matrix or a convolution; nil of what is neither.
local function inputs_of(row)
  local shape = row.shape or {}
  if #shape < 2 or #shape > 5 or shape[1] < 2 then return nil end
  if row.name:lower():glob(INPUTS_FIRST) then return shape[1] end
  local inputs = 1
  for at = 2, #shape do inputs = inputs * shape[at] end
  return inputs >= 2 and inputs or nil
end

--- The matrices of the newest file that has some, with the number of inputs of each.
---@param case culprit.Case
---@return { row: culprit.Row, inputs: integer }[]
local function matrices(case)
  local weights = case.tensors:where("variant is null and source is not null and role == 'weight' and numel >= 64 and "
    .. "absmax is not null and std is not null and match(dtype, 'float64|float32|float16|bfloat16')")
  local seen = 0
  for _, rows in weights:sort("-step"):group("source") do
    local out = {}
    for row in rows:slice(0, 5000):rows() do
      local inputs = inputs_of(row)
      if inputs and not row.name:lower():glob(NOT_DRAWN) then out[#out + 1] = { row = row, inputs = inputs } end
    end
    if #out >= LEAST then return out end
    seen = seen + 1
    if seen == SOURCES then break end
  end
  return {}
end

--- How far the weights of the median layer went at most, as a share of them, from step 0 to the last that is logged;
--- nil where updates are not logged.
local function travelled(layered)
  local moved = layered:where { metric = "update_ratio" }:aggregate({ "step" }, { ratio = "median value" })
  if moved:count() < 2 then return nil end
  return moved:mean("ratio") * (moved:max("step") + 1)
end

--- Matrices that are zero although the run has gone on to this file: most of them, since single ones may begin so by
--- design. Where a gradient gets past them when the log begins they were not zero then, and a file that has zeros was
--- written wrongly, or they have been taken away.
---@param case culprit.Case
---@param layered culprit.Table  scalars of layers
---@return { layer: string, message: string, evidence: culprit.Row[] }?
function drawn_weights.zero(case, layered)
  local all, none = matrices(case), {}
  for _, one in ipairs(all) do
    if one.row.absmax < NOTHING then none[#none + 1] = one.row end
  end
  if #none < LEAST or #none < 0.6 * #all then return nil end
  local grads = layered:where { metric = "grad_norm" }:where("finite(value)")
  local start = grads:where { step = grads:min("step") }
  if start:count() < LEAST or start:where("value < ?", NOTHING):count() < 0.5 * start:count() then return nil end
  return {
    layer    = none[1].layer,
    message  = ("%d of %d matrices are zero in a checkpoint of the run, %s first, and most layers had no gradient when "
      .. "the log begins: they began so, and nothing passes them"):format(#none, #all, none[1].name),
    evidence = { none[1], none[2] },
  }
end

--- Matrices whose elements are far too large for their inputs and have hardly moved, so that they were drawn so.
---@param case culprit.Case
---@param layered culprit.Table  scalars of layers
---@param least number           standard deviation times the root of the inputs that is too large
---@return { layer: string, message: string, evidence: culprit.Row[] }?
function drawn_weights.large(case, layered, least)
  local far = travelled(layered)
  if not far or far > 0.5 then return nil end
  local all, large, ones = matrices(case), {}, 0
  for _, one in ipairs(all) do
    if one.row.std * math.sqrt(one.inputs) > least then large[#large + 1] = one end
    -- Drawn at 1 whatever their inputs, and divided by their root when they are used.
    if one.row.std > 0.8 and one.row.std < 1.25 then ones = ones + 1 end
  end
  if #large < LEAST or 2 * #large <= #all or 2 * ones > #all then return nil end
  local first = large[1]
  return {
    layer    = first.row.layer,
    message  = ("%s has a standard deviation of %.3g, which over %d inputs multiplies a signal by %.3g, and so do %d "
      .. "of %d matrices of this checkpoint by more than %g; all updates of the run come to %.2g of the weights at "
      .. "most, so that they were drawn so"):format(first.row.name, first.row.std, first.inputs,
      first.row.std * math.sqrt(first.inputs), #large, #all, least, far),
    evidence = { first.row, large[2].row },
  }
end

return drawn_weights
