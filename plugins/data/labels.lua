--- ## What it detects
--- Labels of a dumped batch that equal its input tokens at the same position, or that are all the ignore value.
---
--- ## Why it matters
--- A language model is trained on the next token. Labels equal to the inputs teach it to copy; labels that are all
--- ignored teach it nothing.
---
--- ## How to confirm
--- Decode the first ten tokens of inputs and labels side by side.
---
--- ## Known false positives
--- Models that shift inside the forward pass (Hugging Face's `*ForCausalLM`) get unshifted labels by design. The loss
--- tells: it falls to nearly zero only when nothing shifts.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/data_collator

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels equal the inputs, or are all ignored",
  needs    = { tensors = { "name", "step", role = { "value", "input", "output" } } },
  symptoms = { "labels-equal-inputs", "labels-all-ignored" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    equal  = { default = 0.90, doc = "Share of positions that must agree" },
  },

  run = function(case)
    -- A dump of statistics alone has no values, and no share of zeros.
    local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null")
    local ids    = dumped:where("match(name, '*input_ids|*tokens')")
    local labels = dumped:where("match(name, '*labels|*targets')")
    if labels:count() == 0 or ids:count() == 0 then
      return skip("a dumped batch with input_ids and labels")
    end
    local same, checked, least = nil, 0, 1.0
    for batch in labels:rows() do
      local inputs = ids:where { step = batch.step }:first()
      if batch:count_equal(case.options.ignore) == batch.numel then
        report {
          symptom  = "labels-all-ignored",
          score    = 0.97,
          at       = { step = batch.step },
          message  = ("all %s labels of the batch at step %s are %d, the ignore value"):format(units.count(batch.numel),
            tostring(batch.step), case.options.ignore),
          evidence = { batch },
        }
      elseif inputs and inputs.numel == batch.numel then
        local share = batch:equal_share(inputs, 0)
        local next_ = batch:equal_share(inputs, 1)
        if share and next_ then -- else their shapes differ, or there is no next place
          checked = checked + 1
          least   = math.min(least, share)
          if share > next_ and not same then same = { batch = batch, inputs = inputs, share = share, next_ = next_ } end
        end
      end
    end
    if same and least >= case.options.equal then
      report {
        symptom  = "labels-equal-inputs",
        score    = 0.97,
        at       = { step = same.batch.step },
        message  = ("labels equal the input tokens at the same position in %s of positions of %d dumped batches (the "
          .. "next token: %s): nothing is shifted")
          :format(units.percent(same.share), checked, units.percent(same.next_)),
        evidence = { same.batch, same.inputs },
      }
    end
    if checked == 0 then skip("a dumped batch whose labels and input_ids have one shape") end
  end,
}
