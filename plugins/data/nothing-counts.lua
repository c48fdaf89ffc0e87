--- ## What it detects
--- Batches of which nothing counts in the loss: the weights of their targets are 0 throughout, or all labels are one
--- and the same id, as padding is, where no logged loss is a number other than 0.
---
--- ## Why it matters
--- A mean over what counts divides nothing by nothing, and a sum is 0: no step teaches anything, or the first one makes
--- every weight NaN.
---
--- ## How to confirm
--- Print the sum of the weights, or how many labels are not the padding's id, for one batch before the loss.
---
--- ## Known false positives
--- Of some masks 0 is what counts: one that is 0 throughout is reported where no loss ever was a number other than 0
--- and all that the batch holds is finite, and not where its name is of attention or padding. A batch without any target among others that have
--- some is no finding; all that were dumped have to be so, and a loss that is a number says that something counts.
--- Labels of one id that nobody has named as what is left out count for less: they may be rare.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html on `ignore_index`: a mean over no
--- target is NaN

local runs = require("runs")
local settings = require("settings")

local WEIGHTS = "match(name, 'batch.*weight|batch.*weights') and numel >= 8 and min is not null"
local MASKS   = "match(name, 'batch.*mask|batch.*valid|batch.*observed') and numel >= 8 and min is not null and "
  .. "not match(name, '*pad*|*attn*|*attention*|*causal*|*drop*|*noise*|*hidden*|*bool_masked*')"
local LABELS  = "match(name, 'batch.*label|batch.*labels|batch.*target|batch.*targets') and match(dtype, 'int*') and "
  .. "numel >= 32 and min is not null"

--- Whether the losses of a run say nothing: none of them is a number, or all are 0. Nil where none is logged.
---@param case culprit.Case
---@return boolean?
local function says_nothing(case)
  local losses = case.scalars:where { name = "loss", primary = true }
  if losses:count() == 0 then return nil end
  return losses:where("finite(value) and value != 0"):count() == 0
end

--- Whether an id is known for what is left out: below 0, named so in a config, or fairseq's padding.
---@param case culprit.Case
---@param labels culprit.Row
---@return boolean
local function left_out(case, labels)
  if labels.min < 0 then return true end
  local named = settings.ignored(case):where { number = labels.min }:count() > 0
    or case.config:where("match(key, '*pad_id|*pad_idx|*padding_idx|*pad_token_id')"):where { number = labels.min }
      :count() > 0
  local fairseq = labels.min == 1 and case.tensors:where("match(name, 'batch.*prev_output_tokens')"):count() > 0
  return named or fairseq
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Nothing of a batch counts in the loss",
  needs    = { tensors = { "name", "min", "max" } },
  symptoms = { "labels-all-ignored" },

  run = runs.apart(function(case, run)
    local dumped  = case.tensors:where("variant is null and not match(name, 'battery.*')")
    local weights = dumped:where(WEIGHTS)
    local none    = weights:where("min == 0 and max == 0")
    -- A term of a loss may have nothing to count in a batch: of boxes where there is none.
    local silent = says_nothing(case)
    if weights:count() == 0 and silent and dumped:where("match(name, 'batch.*') and nonfinite > 0"):count() == 0 then
      weights = dumped:where(MASKS)
      none    = weights:where("min == 0 and max == 0")
      if none:count() < weights:count() then weights, none = none:slice(0, 0), none:slice(0, 0) end
    end
    if none:count() > 0 and none:count() == weights:count() and silent ~= false then
      local row = none:sort("step"):first()
      report {
        symptom  = "labels-all-ignored",
        score    = 0.95,
        at       = { run = run, step = row.step },
        message  = ("all %d values of %s are 0 in %s: no target of these counts"):format(row.numel, row.name,
          units.plural(none:count(), "dumped batch", "dumped batches")),
        evidence = { none:slice(0, 4) },
      }
      return
    end
    local labels = dumped:where(LABELS)
    local same   = labels:where("min == max")
    if labels:count() == 0 and weights:count() == 0 then
      return skip("weights of targets, or labels, in a dumped batch")
    end
    if same:count() > 0 and same:count() == labels:count() and same:distinct("min"):count() == 1
      and silent then
      local row   = same:sort("step"):first()
      local known = left_out(case, row)
      report {
        symptom  = "labels-all-ignored",
        score    = known and 0.9 or 0.5,
        at       = { run = run, step = row.step },
        message  = ("all %d labels of %s are %d in %s, and no loss says anything: %s"):format(row.numel, row.name,
          math.floor(row.min), units.plural(same:count(), "dumped batch", "dumped batches"),
          known and "that is what is left out" or "that may be what is left out, as padding is"),
        evidence = { same:slice(0, 4) },
      }
    end
  end),
}
