--- ## What it detects
--- The first tensor in execution order that holds NaN or Inf, whether its inputs were finite, and what kind of tensor
--- it is.
---
--- ## Why it matters
--- NaN spreads to everything within one step. Only the tensor whose inputs are still finite was broken by its own
--- operation.
---
--- ## How to confirm
--- Recompute that one operation from the dumped inputs in fp32: finite confirms overflow, NaN again an undefined
--- operation.
---
--- ## Known false positives
--- Masks that hold -inf by design; name them `*mask*` and they are left out. So is what a batch holds at a step whose
--- loss is finite: missing values, and bounds without end. Behind a loss that is NaN weights and activations are as
--- well, wherever it began: of dumps from later steps only the batch is judged. Scores that are minus infinity from the
--- first dump on, and nothing else that is not finite, in a run whose losses all are, are what a softmax leaves out.
---
--- ## References
--- Ascend's msprobe applies the same rule to operators: clean inputs, non-finite outputs.

local MASKS = require("masks").NAMES
local batch_loss = require("batch-loss")
local breaks = require("breaks")

local INPUTS = "batch*|*input_ids*|*pixel_values*|*labels*"
local BATCH  = ("match(name, '%s')"):format(INPUTS)
local ROWS   = {
  ["nonfinite-activation"] = "role is null or role != 'weight' and role != 'grad'",
  ["nonfinite-input"]      = BATCH,
  ["nonfinite-gradient"]   = "role == 'grad'",
  ["nonfinite-weight"]     = "role == 'weight'",
}
local WHAT   = {
  ["nonfinite-activation"] = "activations",
  ["nonfinite-input"]      = "the batch",
  ["nonfinite-gradient"]   = "gradients",
  ["nonfinite-weight"]     = "weights",
}

--- The tensors of a batch that hold values which are not finite at a step whose loss is: a model that takes them for
--- missing, or for a bound without end, is none that they break. Their names as a pattern, and one of them.
---@param case culprit.Case
---@param dumped culprit.Table
---@return string?, culprit.Row?
local function taken_as_missing(case, dumped)
  local names, known, example = {}, {}, nil
  for row in dumped:where("match(name, 'batch.*') and nonfinite > 0 and step is not null"):sort("step"):slice(0, 400)
    :rows() do
    local here = dumped:where { run = row.run, step = row.step, variant = row.variant }
    local loss = batch_loss.dumped(case, row)
    local grad = here:where("role == 'grad' and nonfinite > 0"):first()
    local said = not loss and case.scalars:where { name = "loss", primary = true, run = row.run, step = row.step }
      :where("finite(value) and value != 0"):first()
    local finite = said or loss and loss.nonfinite == 0 and loss:count_equal(0) == 0
    if not known[row.name] and finite and not grad then
      known[row.name], names[#names + 1], example = true, row.name, example or row
    end
  end
  return table.concat(names, "|"), example
end

--- The scores that were set to minus infinity before a softmax, as of moves that are not allowed: all that is not
--- finite in them is that, from the first dump on, and each logged loss, dumped gradient and weight of the run is
--- finite. Their names as a pattern, and one of them.
---@param case culprit.Case
---@param dumped culprit.Table
---@return string, culprit.Row?
local function ruled_out(case, dumped)
  local names, known, example = {}, {}, nil
  local losses = case.scalars:where { name = "loss", primary = true }
  if losses:where("finite(value)"):count() < 2 or losses:where("value is null or not finite(value)"):count() > 0
    or dumped:where("(role == 'grad' or role == 'weight') and nonfinite > 0"):count() > 0
    or dumped:where("nan > 0"):count() > 0 then
    return ""
  end
  local scores = dumped:where("inf > 0 and not match(name, ?)", INPUTS):where("zero_share is not null")
  for row in scores:sort("step"):slice(0, 400):rows() do
    -- What is designed so is so from the first dump on.
    if row:count_equal(-math.huge) < row.inf or dumped:where { name = row.name }:sort("step"):first().inf == 0 then
      return ""
    end
    if not known[row.name] then known[row.name], names[#names + 1], example = true, row.name, example or row end
  end
  return table.concat(names, "|"), example
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "First tensor that is not finite, and where it was born",
  needs    = { tensors = { "layer", "role", "nonfinite" } },
  symptoms = { "nonfinite-activation", "nonfinite-input", "nonfinite-gradient", "nonfinite-weight" },

  run = function(case)
    -- What a probe computed after the run shows the state that the run left, not where it began.
    -- A best value begins at infinity, before any is there, and so do the limits that an observer has seen.
    local dumped = case.tensors:where("not match(name, ?)", MASKS .. "|battery.*")
      :where("not (numel == 1 and match(name, 'callbacks.*|*best_model_score|*best_score|*best_loss|*best_metric*|"
        .. "*best_val*|*best_acc*|*best_k_*'))")
      :where("not match(name, '*.min_val|*.max_val|*.min_vals|*.max_vals')")
    local taken, example = taken_as_missing(case, dumped)
    if example then
      dumped = dumped:where("not match(name, ?)", taken)
      skip(("a batch whose values are all meant: the loss is finite at step %d, where %s holds some that are not")
        :format(example.step, example.name), "nonfinite-input")
    end
    local scores, score = ruled_out(case, dumped)
    if score then
      dumped = dumped:where("not match(name, ?)", scores)
      skip(("values that are to be finite: those of %s are minus infinity, as what a softmax is to leave out, and each "
        .. "loss is finite"):format(score.name), "nonfinite-activation")
    end
    local first  = dumped:where("nonfinite > 0"):sort("step", "order"):first()
    -- What was not dumped may have broken as well, or before.
    for symptom, rows in pairs(ROWS) do
      if dumped:where(rows):count() == 0 then skip("a dump of " .. WHAT[symptom], symptom) end
    end
    if not first then
      local broken = case.scalars:where("name == 'loss' and value is not null and not finite(value)"):count() > 0
      if broken then skip("a dump of the step in which the first value breaks") end
      return
    end

    -- Weights that a loss of NaN has moved break whatever is computed with them; a batch breaks by itself.
    local loss = first.step and not first.name:glob(INPUTS) and breaks.before(case, first.run, first.step - 1)
    if loss then
      skip(("a dump of the step in which the first value breaks: the loss is %s from step %d on"):format(
        units.number(loss.value), loss.step), "nonfinite-activation", "nonfinite-gradient", "nonfinite-weight")
      first = dumped:where(BATCH):where("nonfinite > 0"):sort("step", "order"):first()
      if not first then return end
    end

    local step   = (first.step and dumped:where { step = first.step } or dumped:where("step is null")):sort("order")
    local inputs = step:where { layer = first.layer, role = "input" }:where("order < ?", first.order or 0)
    local before = first.order and step:where("order < ? and role != 'weight' and role != 'grad'", first.order):last()
    local clean  = first.step and dumped:where("step < ?", first.step):where { name = first.name }:sort("step"):last()
    local born   = first.role ~= "input" and inputs:count() > 0 and inputs:sum("nonfinite") == 0
    local kind   = first.name:glob(INPUTS) and "nonfinite-input"
                   or first.role == "weight" and "nonfinite-weight"
                   or first.role == "grad" and "nonfinite-gradient"
                   or "nonfinite-activation"

    local what = first.nan > 0 and first.inf > 0 and ("%d NaN and %d Inf"):format(first.nan, first.inf)
                 or first.nan > 0 and ("%d NaN"):format(first.nan) or ("%d Inf"):format(first.inf)
    if first.first_nonfinite then
      what = ("%s of %s, first at %s"):format(what, units.count(first.numel), first:unravel(first.first_nonfinite))
    else -- a dump of statistics alone tells that there is one
      what = first.nan > 0 and first.inf > 0 and "NaN and Inf" or first.nan > 0 and "NaN" or "Inf"
    end
    local from
    if born then
      from = ("its inputs are finite (up to %.4g), so it was born here"):format(inputs:max("absmax") or 0)
    elseif before and before.nonfinite == 0 then
      from = ("the tensor before it, %s, is finite up to %.4g"):format(before.name, before.absmax or 0)
    else
      from = "what went into it was not dumped"
    end
    if clean and clean.nonfinite == 0 then
      from = from .. ("; at step %d it was finite, up to %.5g"):format(clean.step, clean.absmax or 0)
    end
    report {
      symptom  = kind,
      score    = born and 0.97 or 0.8,
      severity = "error",
      at       = { step = first.step, layer = first.layer },
      message  = ("%s%s%s holds %s; %s"):format(first.name, first.dtype and (" (%s)"):format(first.dtype) or "",
        first.step and (" at step %d"):format(first.step) or "", what, from),
      evidence = { first, inputs, clean or first },
    }
  end,
}
