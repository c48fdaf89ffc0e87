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
--- the config says (autoencoders, denoisers, diffusion of text), and what the config says looks both ways.
---
--- ## References
--- https://github.com/huggingface/transformers/issues/27517

local causality = require("causality")
local masked = require("masked")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The model predicts its own input",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "predictions-repeat-inputs" },
  options  = {
    share = { default = 0.80, doc = "Share of positions that repeat their input, worth reporting" },
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
