--- ## What it detects
--- A first loss far from ln V, where V is the number of classes: what a fresh model that knows nothing must score. V is
--- taken from the config, else from the last dimension of dumped logits or the rows of a dumped embedding.
---
--- ## Why it matters
--- Far above: the initial logits are too large, or labels and vocabulary disagree. Far below: pretrained weights, a
--- leak, or a mean over positions that score nothing.
---
--- ## How to confirm
--- Evaluate the untrained model on random tokens: ln V again means that the data knows something.
---
--- ## Known false positives
--- Fine-tuning: a pretrained model starts far below, and rightly so. It is reported as information then. Losses with
--- added terms (auxiliary losses of experts, z-loss) start above.
---
--- ## References
--- Losses in bits instead of nats are 1.4427 times larger and are recognised by that factor; bits per byte are not
--- judged, since that needs the number of bytes of a token.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The first loss is far from the logarithm of the vocabulary",
  needs    = { scalars = { "step", "value", metric = "loss" },
    any = { config = { "number" }, tensors = { "shape" } } },
  symptoms = { "initial-loss-off", "initial-loss-low", "loss-in-bits" },
  options  = {
    tolerance = { default = 0.15, doc = "Relative distance above ln V worth reporting" },
    below     = { default = 0.25, doc = "Relative distance below ln V worth reporting" },
  },

  run = function(case)
    --- The number of classes, the row that says so, and what it is.
    local function classes()
      local size = case.config:where("match(key, '*vocab_size|*num_classes|*n_classes|*num_labels') and number > 1")
        :first()
      if size then return size.number, size end
      local dumped = case.tensors:where("numel > 1 and role == 'output' and match(layer, "
        .. "'head|lm_head|*.head|*.lm_head|logits|*.logits|*output_layer')"):first()
        or case.tensors:where("numel > 1 and role == 'weight' and match(layer, '*embed_tokens|*wte|*embed.tok|"
          .. "*word_embeddings|*tok_embeddings|lm_head|*.lm_head')"):first()
      if not dumped then return nil end
      local shape = dumped.shape
      if not shape or #shape < 2 then return nil end
      return dumped.role == "output" and shape[#shape] or shape[1], dumped
    end

    local count, source = classes()
    if not count or count < 2 then return skip("vocab_size or num_classes in a config, or dumped logits") end
    local chance = math.log(count)
    local sum    = case.config:where("match(key, '*accumulation_steps|*accumulate_grad_batches|*grad_accum*') "
      .. "and number > 1"):first()
    local judged = false
    for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local first = run:sort("step"):where("value is not null"):first()
      local raw   = first and tostring(first.raw_name or ""):lower() or ""
      if first and first.step <= 1 and not raw:glob("*bpb*|*bits_per*|*bpc*") then
        judged = true
        local ratio = first.value / chance
        local times = math.floor(ratio + 0.5)
        -- The sum over accumulated batches is what training/accumulation-scale reports.
        local summed = sum and sum.number == times and math.abs(ratio - times) <= 0.04 * times
        if math.abs(ratio - 1.4427) < 0.04 then
          report {
            symptom  = "loss-in-bits",
            score    = 0.9,
            severity = "info",
            at       = { step = first.step },
            message  = ("the first loss, %.4g, is log2 %d = %.4g: it is logged in bits, not in nats")
              :format(first.value, math.floor(count), chance / math.log(2)),
            evidence = { first, source },
          }
        elseif ratio < math.huge and not summed
          and (ratio > 1 + case.options.tolerance or ratio < 1 - case.options.below) then
          report {
            symptom  = ratio > 1 and "initial-loss-off" or "initial-loss-low",
            score    = ratio > 1.25 and 0.95 or ratio > 1 and 0.7 or 0.5,
            severity = ratio > 1 and "warning" or "info",
            at       = { step = first.step },
            message  = ("the first loss is %.4g, chance is ln %d = %.4g: %s")
              :format(first.value, math.floor(count), chance,
              first.value <= 0 and "nothing is scored"
              or ratio > 1 and "the initial logits are too large or the labels do not fit the vocabulary"
              or "the model starts with knowledge"),
            evidence = { first, source },
          }
        end
      end
    end
    if not judged then skip("the loss of step 0 or 1, in nats or bits") end
  end,
}
