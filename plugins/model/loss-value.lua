--- ## What it detects
--- A loss that is not the cross-entropy of the dumped logits but that of their softmax: a softmax stands before a loss
--- that has one itself; and a loss with an element for each pair of predictions and targets.
---
--- ## Why it matters
--- Probabilities instead of logits squeeze the loss into 1 nat below ln V, with gradients many times too small; the
--- model learns a little and stops. Shapes that broadcast compare each prediction with each target.
---
--- ## How to confirm
--- Compute the cross-entropy of one dumped batch by hand.
---
--- ## Known false positives
--- Losses with other terms (z-loss, distillation) agree with neither form, and nothing is said. Contrastive losses
--- have a matrix of pairs by design, of logits and not of losses.
---
--- ## References
--- https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss is not that of the logits, or compares everything with everything",
  needs    = { tensors = { "name", "shape" } },
  symptoms = { "loss-of-softmaxed-logits", "loss-broadcast" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
  },

  run = function(case)
    local dumped = case.tensors:where("not match(name, 'battery.*')")
    local judged, softmaxed, times, plain, neither = false, nil, 0, 0, 0
    local outputs = "match(name, 'head.output|lm_head.output|*.head.output|*.lm_head.output|*logits|out.output|"
      .. "fc_out.output')"
    for logits in dumped:where(outputs):where("zero_share is not null"):sort("step"):rows() do
      local here   = dumped:where { step = logits.step, variant = logits.variant }
      local labels = here:where("match(name, '*labels|*targets') and match(dtype, 'int*') and zero_share is not "
        .. "null"):first()
      local loss   = here:where("match(name, 'loss.output') and numel == 1"):first()
      local value  = loss and loss.mean
      if not value and logits.step then
        local logged = case.scalars:where { name = "loss", primary = true, step = logits.step }:first()
        value = logged and logged.value
      end
      local once  = labels and logits:cross_entropy(labels, 0, case.options.ignore)
      local twice = once and logits:cross_entropy(labels, 0, case.options.ignore, "twice")
      if once and value and value == value and once == once then
        judged = true
        local width = logits.shape[#logits.shape]
        local probabilities = logits.nonfinite == 0 and logits.min >= 0 and logits.max <= 1.0001
          and math.abs(logits.mean * width - 1) < 1e-3
        -- Both forms are near ln V before training; they have to differ by more than the thinned batch does. A softmax
        -- of a softmax spreads losses over one nat at most, so that some rows of the batch give its mean within some
        -- per cent; a loss that weighs rows in another way lies near it by chance, and not at every dump.
        if probabilities and math.abs(value - once) < 0.1 * once then
          times, softmaxed = times + 1, { logits = logits, labels = labels, value = value, twice = once,
            already = true }
        elseif math.abs(once - twice) > 0.1 * twice and math.abs(value - twice) < 0.2 * math.abs(value - once)
          and math.abs(value - twice) <= 0.04 * twice then
          times, softmaxed = times + 1, { logits = logits, labels = labels, value = value, once = once, twice = twice }
        elseif math.abs(value - once) < 0.2 * math.abs(value - twice) then
          plain = plain + 1
        elseif math.abs(once - twice) > 0.1 * twice then
          neither = neither + 1
        end
      end
    end
    if softmaxed and times > plain + neither then
      report {
        symptom  = "loss-of-softmaxed-logits",
        score    = 0.97,
        at       = { step = softmaxed.logits.step },
        message  = softmaxed.already
          and ("%s holds probabilities, its rows add up to 1, and the loss of %s is their cross-entropy as if "
            .. "they were "
          .. "logits (%s): the softmax is applied twice"):format(softmaxed.logits.name, units.number(softmaxed.value),
            units.number(softmaxed.twice))
          or ("the loss at step %s is %s; the dumped logits give %s, and %s after a second softmax"):format(
            tostring(softmaxed.logits.step), units.number(softmaxed.value), units.number(softmaxed.once),
            units.number(softmaxed.twice)),
        evidence = { softmaxed.logits, softmaxed.labels },
      }
    end

    for loss in dumped:where("match(name, '*loss*') and not match(name, '*logits*|*mask*') and numel > 1"):rows() do
      local targets = dumped:where { step = loss.step, variant = loss.variant }:where("match(name, '*labels|*targets')")
        :first()
      if targets and #loss.shape == 2 and loss.shape[1] == loss.shape[2] and loss.shape[1] == targets.shape[1]
        and loss.numel == targets.numel * targets.numel then
        judged = true
        return report {
          symptom  = "loss-broadcast",
          score    = 0.95,
          at       = { step = loss.step, name = loss.name },
          message  = ("%s is %d x %d for %d targets: each prediction is compared with each target"):format(loss.name,
            loss.shape[1], loss.shape[2], targets.numel),
          evidence = { loss, targets },
        }
      end
    end
    -- Predictions [B, 1] against float targets [B] broadcast to [B, B] in any elementwise loss.
    for targets in dumped:where("match(name, '*labels|*targets') and match(dtype, 'float*|bfloat*')"):rows() do
      local rows, out = targets.shape[1], nil
      if #targets.shape == 1 and rows > 1 then
        out = dumped:where { step = targets.step, variant = targets.variant }:where(outputs):first()
      end
      judged = judged or out ~= nil
      if out and #out.shape == 2 and out.shape[1] == rows and out.shape[2] == 1 then
        return report {
          symptom  = "loss-broadcast",
          score    = 0.85,
          at       = { step = targets.step, name = out.name },
          message  = ("%s is %d x 1 and the float targets are %d: an elementwise loss of the two compares each "
            .. "prediction "
            .. "with each target"):format(out.name, rows, rows),
          evidence = { out, targets },
        }
      end
    end
    if not judged then
      skip("logits (head.output), labels and loss.output of one step in a dump (culprit_recorder.watch)")
    end
  end,
}
