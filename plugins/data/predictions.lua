--- ## What it detects
--- Logits whose largest value stands at the very token that the model was given at that position, in the last dumped
--- batch with both.
---
--- ## Why it matters
--- A model that predicts its own input has learned to copy: its labels are not shifted, whatever the batch looks like.
---
--- ## How to confirm
--- Generate ten tokens: the model repeats the last one.
---
--- ## Known false positives
--- Data that repeats each token; the prediction is then as often the next token, and that is compared. A masked
--- language model says what stands at a place that is not hidden, and is left out; so is what gives its input back, as
--- the config says (autoencoders, denoisers, diffusion of text), and what the config says looks both ways. So is what
--- is asked for its ids where some of them were changed, and what has all of a row in one vector.
---
--- ## References
--- https://github.com/huggingface/transformers/issues/27517

local causality = require("causality")
local masked = require("masked")
local token_labels = require("token-labels")
local training = require("training-rows")

--- The dumped batches with ids of that name and labels of their shape: a list of { ids, labels }, the given one first.
local function labelled(case, given)
  local dumped, out = training.batches(case):where("match(dtype, 'int*')"), {}
  local ids = dumped:where { name = given.name, run = given.run }
  for _, rows in ipairs({ ids:where { step = given.step }, ids:where("step != ?", given.step) }) do
    for row in rows:slice(0, 16):rows() do
      local labels = dumped:where { run = row.run, step = row.step, variant = row.variant, rank = row.rank,
        numel = row.numel }:where("match(name, '*labels|*targets')"):first()
      if labels and #row.shape >= 2 then out[#out + 1] = { row, labels } end
    end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The model predicts its own input",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "predictions-repeat-inputs" },
  options  = {
    share   = { default = 0.80, doc = "Share of positions that repeat their input, worth reporting" },
    changed = { default = 0.02, doc = "Share of labels at their own id that is another, from which ids were changed" },
  },

  run = function(case)
    local dumped = case.tensors:where("not match(name, 'battery.*') and zero_share is not null")
    local logits = dumped:where("match(name, 'head.output|lm_head.output|*.lm_head.output|*.head.output|*logits')")
    local found
    local ids = dumped:where("match(name, '*input_ids|*prev_output_tokens') and match(dtype, 'int*')")
    -- Of an encoder-decoder it is what the decoder is given: to copy the source may be the task.
    local decoder = ids:where("match(name, '*decoder_input_ids|*prev_output_tokens')")
    for batch in (decoder:count() > 0 and decoder or ids):sort("step"):rows() do
      local of = logits:where { run = batch.run, step = batch.step, variant = batch.variant }:last()
      local same = of and of:argmax_share(batch, 0)
      if same then found = { batch = batch, logits = of, same = same, after = of:argmax_share(batch, 1) or 0 } end
    end
    if not found then
      return skip("logits (head.output) beside input_ids in a dump: culprit_recorder.watch dumps both")
    end
    local copies = found.same >= case.options.share and found.same > found.after + 0.2
    local back = copies and (causality.denied(case)
      or case.config:where("match(key, '*autoencod*|*reconstruct*|*denois*|*diffusion*|*corrupt*|*noise_schedule*')")
        :where("number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '')"):first()
      or case.config:where("match(key, '*model*|*arch*|*task*|*objective*|*name*')"):where("match(value, "
        .. "'*autoencod*|*Autoencod*|*AutoEncod*|*_vae|vae*|*denois*|*diffusion*|*Diffusion*|*mdlm*|*sedd*|*copy*|*"
        .. "spell*|*correct*|*tagg*')"):first())
    if back then
      return skip(("a model that does not give its input back: %s is %s"):format(back.key, tostring(back.value)))
    end
    local pairs_ = copies and labelled(case, found.batch) or {}
    if pairs_[1] and token_labels.through_one(case, pairs_[1][2]) then
      return skip("a model with places from end to end: all that is said of a row goes through one vector, so that it "
        .. "is to give the row back")
    elseif token_labels.restored(pairs_, -100) > case.options.changed then
      return skip(("a model that is asked for the tokens given: where %s are others, they say what stood there"):format(
        pairs_[1][2].name))
    elseif copies and masked.by(case) then
      return skip("a model that predicts what comes next: this one predicts masked tokens")
    elseif copies then
      report {
        symptom  = "predictions-repeat-inputs",
        score    = 0.95,
        at       = { step = found.batch.step },
        message  = ("at %s of positions of the batch of step %s the largest logit is that of the token given "
          .. "there; the "
          .. "next token is predicted at %s"):format(units.percent(found.same), tostring(found.batch.step),
          units.percent(found.after)),
        evidence = { found.logits, found.batch },
      }
    end
  end,
}
