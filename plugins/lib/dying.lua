--- A gradient norm that falls to nothing within the first steps while the loss does not: what training/gradient-dies
--- reports, and what says elsewhere that the steps which broke a run may stand between those on record.

local runs = require("runs")

local dying = {}

---@class dying.Found
---@field first culprit.Row    the larger of the first two norms
---@field late culprit.Table   norms after the first part of the run
---@field norm culprit.Table
---@field usual number         median of the late ones
---@field finish number        the last loss

--- Where the norm of the whole, or of its layers together, dies early; nil where it does not.
---@param case culprit.Case
---@param opt table  gone, ever, level, part, layers, min_rows: as training/gradient-dies has them
---@return dying.Found?
---@return string?  what is needed, where it cannot be told
function dying.early(case, opt)
  local own  = case.scalars:where { metric = "grad_norm", primary = true }:where("finite(value)")
  local loss = runs.series(case, "loss"):where("finite(value)")
  local layered = own:where("layer is not null")
  local deep = layered:distinct("layer"):count() >= opt.layers
  -- The whole, from its first steps on; else the root of the sum of its layers' squares.
  local norm = runs.series(case, "grad_norm"):where("finite(value)")
  if norm:count() == 0 or norm:first().step > 2 then
    norm = layered:with { square = "value * value" }:aggregate({ "step" }, { square = "sum square" })
      :with { value = "sqrt(square)" }:sort("step"):renamed("gradient norms of layers")
  end
  local count = norm:count()
  if count < opt.min_rows or norm:first().step > 2 or loss:count() < 5 then
    return nil, ("gradient norms from the first steps on, %d and more, beside the loss"):format(opt.min_rows)
  end
  -- What broke has neither an end nor a gradient there.
  if case.scalars:where { name = "loss", primary = true }:where("value is not null and not finite(value)")
    :count() > 0 then
    return nil, "a loss that is a number to the end"
  end
  local whole = runs.whole_data(case)
    or case.config:where("match(key, '*overfit_batch*|*overfit_one*|*single_batch*') and match(value, 'true|True|1') "
      .. "or match(key, '*optim*|*optimizer*') and match(value, '*bfgs*|*BFGS*')"):count() > 0
  -- So have batches that are all the same one.
  local hashes = case.scalars:where { name = "batch_hash", primary = true }
  whole = whole or hashes:count() >= 4 and hashes:distinct("value"):count() <= 0.1 * hashes:count()
  local batch = case.config:where("match(key, 'batch_size|*.batch_size|*train_batch_size') and number > 0")
    :max("number")
  local size  = case.config:where("match(key, '*num_samples|*num_examples|*dataset_size|*n_train|*train_size|"
    .. "*num_train*samples|*max_train_samples') and number > 1"):min("number")
  whole = whole or batch and size and batch >= size
  local some = deep or case.config:where("match(key, '*batch_size') and number > 0"):count() > 0
  if whole or not some then return nil, "batches that differ: steps may take the whole data" end

  -- Norms that were logged before the loss was scaled back fall with its scale.
  local scale = case.scalars:where { metric = "loss_scale", primary = true }:where("value > 0")
  if scale:count() > 0 and scale:max("value") >= 100 * scale:min("value") then
    return nil, "gradient norms beside a loss scale that stays"
  end

  local last  = norm:last().step
  local late  = norm:where("step >= ?", math.max(10, opt.part * last))
  local first = norm:slice(0, 2):top(1, "value"):first()
  if late:count() < opt.min_rows then return nil, ("%d gradient norms after the first tenth"):format(opt.min_rows) end
  local begin  = loss:slice(0, 3):median("value")
  local finish = loss:slice(loss:count() - math.max(3, loss:count() // 10), loss:count()):median("value")
  local usual  = late:median("value")
  if usual <= 0 or usual > opt.gone * first.value or late:max("value") > opt.ever * first.value
    or begin <= 0 or finish < opt.level * begin or finish > 1.5 * begin then
    return nil
  end
  return { norm = norm, first = first, late = late, usual = usual, finish = finish }
end

--- Defaults of the options of training/gradient-dies, and what other detectors go by.
dying.usual = { gone = 1e-4, ever = 1e-2, level = 0.4, part = 0.1, layers = 3, min_rows = 4 }

return dying
