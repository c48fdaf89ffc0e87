--- ## What it detects
--- A first loss far from ln V, where V is the number of classes: what a fresh model that knows nothing must score. V is
--- taken from the config, else from the last dimension of dumped logits beside labels that are integers, or the rows of
--- a dumped embedding. Classes of a condition, where the loss compares numbers, are none. Terms that the config names
--- beside the cross-entropy (`ce + 0.5 dice`) lift the level by their weights at most. Without classes: a first loss
--- several times what a model that says nothing would have on the dumped batch, which is ln 2 for labels of 0 and 1,
--- and for numbers their mean square (or, of an absolute error, at most its root). Where the outputs of the step are
--- dumped beside its labels, their own cross-entropy has to be the logged loss, else it is another one.
---
--- ## Why it matters
--- Far above: the initial logits are too large, or labels and vocabulary disagree. Far below: pretrained weights, a
--- leak, or a mean over positions that score nothing.
---
--- ## How to confirm
--- Evaluate the untrained model on random tokens: ln V again means that the data knows something.
---
--- ## Known false positives
--- Of two classes, one of which is rare, an output bias that begins at their rate gives a first loss far below ln 2:
--- a low one is reported of three classes and more. Logits of a fresh head are no zeros: independent ones of variance
--- s make about s / 2 nats, and usual heads behind a normalisation have a variance of 1/3 (uniform, PyTorch) to 2
--- (He), so up to one nat is none. Fine-tuning: a pretrained model starts far below, and rightly so. It is reported
--- as information then. Where its logits are dumped and higher for their labels than for those of other places, it may
--- as well start above, sure of what was so in other data. Losses with added terms
--- (auxiliary losses of experts, z-loss) start above; where the config
--- speaks of a teacher, of distillation, of a margin, of a second loss whose weight is a tenth and more, or of pairs
--- that are told apart (CLIP) nothing is said, nor of tokens that outputs have too few columns for. A row that is an
--- epoch has the mean of it, and its being low is that of learning. Losses that add up
--- over the elements of a row or of the batch are as many times larger; where the factor is such a number nothing is
--- said. A first loss within a thousandth of ln 2 is that of pairs of which neither is preferred (DPO), whatever the
--- model knows. Margins, rewards, policies, pairs, quantiles and the like have no such level: where the config names a
--- loss that is no cross-entropy, columns of rewards stand beside it, or no dumped output has a number for each class,
--- nothing is said. A distance that is added up over pixels is large of small outputs too: where these are dumped, they
--- have to be as large as the loss would have them. A loss that goes below 0 is a likelihood's, often added up over all
--- of the data, and no distance.
---
--- ## References
--- Losses in bits instead of nats are 1.4427 times larger and are recognised by that factor; bits per byte are not
--- judged, since that needs the number of bytes of a token.

local class_costs = require("class-costs")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

--- Whether a row is an epoch: steps are counted as epochs are, so that the first loss is the mean of a whole one.
local function of_epochs(case, run_name, losses)
  local epochs = runs.series(case, "epoch", run_name)
  local first, last = epochs:first(), epochs:last()
  return epochs:count() >= math.max(2, 0.9 * losses) and last.value - first.value == last.step - first.step
end

--- Whether the losses of a run are logged in bits: wherever its perplexity is logged it is 2 to the power of one of
--- them, and nowhere e to it.
---@param case culprit.Case
---@param run string?
---@return boolean
local function in_bits(case, run)
  local beside = case.scalars:where { run = run }:where("layer is null and finite(value) and (match(name, '*loss*') or "
    .. "match(raw_name, '*loss*'))")
  local looked, in_twos = 0, 0
  for shown in case.scalars:where { run = run, metric = "perplexity" }:where("finite(value) and value > 1.5")
    :slice(0, 10):rows() do
    local any, fits = false, false
    for loss in beside:where { step = shown.step }:rows() do
      any = true
      if math.abs(math.exp(loss.value) - shown.value) <= 0.02 * shown.value then return false end
      fits = fits or math.abs(2 ^ loss.value - shown.value) <= 0.02 * shown.value
    end
    if any then looked, in_twos = looked + 1, in_twos + (fits and 1 or 0) end
  end
  return looked > 0 and in_twos == looked
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The first loss is far from the logarithm of the vocabulary",
  needs    = { scalars = { "step", "value", metric = "loss" },
    any = { config = { "number" }, tensors = { "shape" } } },
  symptoms = { "initial-loss-off", "initial-loss-low", "loss-in-bits", "initial-predictions-large" },
  options  = {
    tolerance = { default = 0.15, doc = "Relative distance above ln V worth reporting" },
    spread    = { default = 1.0,  doc = "Nats above ln V that the spread of fresh logits may make" },
    below     = { default = 0.25, doc = "Relative distance below ln V worth reporting" },
    times     = { default = 4.0,  doc = "Times the loss of a model that says nothing, of numbers, worth reporting" },
  },

  run = function(case)
    local numbers = targets.numbers(case)
    -- Terms beside the cross-entropy, each between 0 and its weight, lift the level by their weights at most.
    local entropy, shares = targets.terms(case)
    --- The number of classes and what says so. A width of the output is one where the dumped labels are integers below
    --- it, one for each row of outputs, or shares that add up to 1; of numbers, codes and pixels it is none. Nor is the
    --- size of a table, a recommender's: labels that are numbers, or fit a far narrower output, tell.
    local function classes()
      if numbers or targets.partners(case) then return nil end
      local kinds  = case.config:where("match(key, ?) and number > 1", entropy and targets.CLASSES
        or "*num_classes|*n_classes|*num_labels"):first()
      local size   = kinds or targets.vocabulary(case):first()
      local heads  = case.tensors:where("numel > 1 and role == 'output' and match(layer, ?)", targets.HEADS)
      local dumped = heads:first()
      -- One output a row is a score, whatever is read.
      if not kinds and case.config:where("match(key, '*num_classes|*n_classes|*num_labels') and number == 1")
        :count() > 0 then
        return nil
      end
      local shape  = dumped and dumped.shape or {}
      local width  = #shape >= 2 and shape[#shape] or nil
      local truth  = case.tensors:where("match(name, '*label|*labels|*target|*targets') and numel > 0")
      local whole  = truth:where("match(dtype, 'int*')")
      local tokens = case.tensors:where("match(name, '*input_ids|*tokens') and match(dtype, 'int*')")
      for row in truth:where("match(dtype, 'float*|bfloat*') and min >= 0 and max <= 1"):slice(0, 5):rows() do
        local own = row.shape or {}
        if #own >= 2 and own[#own] >= 2 and math.abs(row.mean * own[#own] - 1) < 1e-3 then return own[#own], row end
      end
      if truth:count() > 0 and whole:count() == 0 then return nil end
      local ids    = whole:count() > 0 and whole or tokens
      if width then
        local each = dumped.numel // (width * math.max(1, shape[1]))
        for row in ids:slice(0, 20):rows() do
          local own = row.shape or {}
          local fits = (row.max or 0) < width and #own >= 1 and row.numel // math.max(1, own[1]) == each
          if fits and not (size and (kinds or width >= 0.5 * size.number)) then return width, dumped end
        end
      end
      -- Tokens that are read, or ids that are hashed, and not predicted: the outputs are fewer.
      if size and not kinds and width and not targets.covers(width, size.number)
        or size and not class_costs.fits(heads, size.number) then
        return nil
      end
      if size and (kinds or not dumped or ids:count() > 0) then return size.number, size end
      local rows = tokens:count() > 0 and case.tensors:where("numel > 1 and role == 'weight' and match(layer, "
        .. "'*embed_tokens|*wte|*embed.tok|*word_embeddings|*tok_embeddings|lm_head|*.lm_head')"):first()
      if rows and not dumped and #(rows.shape or {}) >= 2 then return rows.shape[1], rows end
    end

    --- The loss of a model that says nothing on the dumped batch, an upper bound; the numbers of elements that a loss
    --- might add up; the tensor; whether labels are 0 and 1.
    local function silent()
      local batch = case.tensors:where("match(name, 'batch.*|*.batch.*') and rms is not null and numel >= 4")
        :where("(step is null or step <= 1) and nonfinite == 0")
      local truth = "match(name, '*label|*labels|*target|*targets|*.y|*click')"
      for row in batch:where(truth):where(numbers and "match(dtype, 'float*|bfloat*')" or "numel > 0"):slice(0, 10)
        :rows() do
        if row.min == 0 and row.max == 1 and row:count_equal(0) + row:count_equal(1) == row.numel then
          return math.log(2), {}, row, true
        end
      end
      -- What is predicted may be any of the batch's numbers, so the largest of them bounds it.
      local floats = batch:where("match(dtype, 'float*|bfloat*')")
      if floats:count() == 0 or not numbers and batch:where(truth):where("match(dtype, 'int*')"):count() > 0
        or batch:where("match(name, '*input_ids|*tokens')"):count() > 0 then
        return nil
      end
      local row   = floats:top(1, "rms"):first()
      local shape = row.shape or {}
      local each  = shape[1] and shape[1] > 0 and row.numel / shape[1] or 1
      -- Without targets the batch itself is what is predicted, if anything of it is: in its own shape.
      local output = batch:where(truth):count() == 0 and case.tensors:where("role == 'output' and numel > 1 and "
        .. "match(layer, 'head|*.head|*output_layer')"):first()
      local own    = output and output.shape or {}
      if output and own[1] and math.abs(output.numel / math.max(1, own[1]) - each) > 0.5 then return nil end
      local size  = case.config:where("match(key, '*batch_size') and number > 0"):first()
      return math.max(row.rms ^ 2, row.rms), { each, size and each * size.number or row.numel }, row, false
    end

    --- How large the outputs are that are dumped at the step of a loss, with a number for each of a row's, where that
    --- is too small by half for a square (or absolute) error of that size; nil where none is dumped, or one is larger.
    local function small_outputs(first, row)
      local each = row.numel / math.max(1, (row.shape or {})[1] or 1)
      local most
      for out in case.tensors:where("role == 'output' and step == ? and rms is not null and numel >= ?", first.step,
        math.max(2, each)):slice(0, 400):rows() do
        if out.numel / math.max(1, (out.shape or {})[1] or 1) == each then most = math.max(most or 0, out.rms) end
      end
      local needed = math.sqrt(math.max(0, first.value))
      return most and most < 0.5 * (math.min(needed, first.value) - row.rms) and most or nil
    end

    --- The squared error that is logged beside a loss that is something else, as bits and a weighted distortion are;
    --- nil where none is.
    local function error_beside(first)
      for row in case.scalars:where { run = first.run, step = first.step }:where("layer is null and finite(value) and "
        .. "match(name, 'mse|mse_loss|*/mse|*/mse_loss|*_mse|*_mse_loss|*squared_error') and not match(name, "
        .. "'*val*|*eval*|*test*|*root*')"):rows() do
        if math.abs(row.value - first.value) > 0.02 * math.abs(first.value) then return row end
      end
    end

    local sum = settings.accumulation(case):where("number > 1"):first()
    --- Whether the first loss that has any beside it is larger than each of two and more terms that are logged at the
    --- same step, and no more than their sum: it is one of several losses, of which each has a chance level of its own.
    local function of_terms(run_name)
      local all = case.scalars:where { primary = true, run = run_name }
        :where("layer is null and finite(value) and value > 0 and name != 'loss' and (match(name, '*loss*') or "
          .. "match(raw_name, '*loss*')) and not match(name, '*val*|*eval*|*test*|*scale*')")
      local step  = all:min("step")
      local terms = all:where { step = step }:distinct("name")
      if terms:count() < 2 then return nil end
      -- Of several logs the one that has the terms says what they add up to.
      for whole in case.scalars:where { name = "loss", run = run_name, step = step }:rows() do
        local batches = sum and math.max(1, sum.number) or 1
        if terms:max("value") < 0.98 * whole.value and batches * terms:sum("value") >= 0.9 * whole.value then
          return terms:first()
        end
      end
    end

    -- The sum over all alignments of an input and its labels is no cross-entropy of classes.
    local aligned = case.config:where("match(key, '*ctc*|*blank_id*|*blank_idx*|*rnnt*|*transducer*') or match(value, "
      .. "'*ctc*|*CTC*|*rnnt*|*RNNT*|*transducer*')"):first()
      or case.tensors:where("match(name, 'batch.*') and match(name, '*transcript_len*|*target_len*|*label_len*|"
        .. "*labels_len*|*targets_len*|*y_len*')"):first()
    if aligned then return skip("a loss of labels that stand beside the outputs, which those of CTC do not") end
    -- Softened and weighted sums of losses have a chance level of their own.
    local mixed = case.config:where("match(key, '*distill*|*teacher*|*kd_alpha*|*kd_weight*|*kd_temp*') and "
      .. "not match(key, '*teacher_forc*') and not match(value, 'false|False|none|None|null|0|')"):first()
      or case.config:where("match(key, '*aux_weight*|*aux_loss_weight*|*auxiliary_weight*|*aux_logits*|"
        .. "*deep_supervision*|*loss_weight|*loss_weights|*loss_weights.*|"
        .. "*exit_weights*|*medusa*|*lambdas*') and (number >= 0.1 or number is null) and "
        .. "not match(value, 'false|False|none|None|null|0|')"):first()
    if mixed then return skip("a loss of one part: " .. mixed.key .. " makes it a sum of several") end
    -- A margin is taken off the logit of the right class, and a scale of 16 to 64 goes with it.
    local margin = settings.on(case.config:where("match(key, '*margin*|*arcface*|*cosface*|*sphereface*|*amsoftmax*|"
      .. "*cosine_head*|*cosine_classifier*|*cosine_scale*|"
      .. "*am_softmax*') or match(value, '*arcface*|*ArcFace*|*cosface*|*CosFace*|*amsoftmax*|*AMSoftmax*')")):first()
    if margin then
      return skip(("a loss of plain logits: %s %s is of a margin, under which knowing nothing costs more")
        :format(margin.key, tostring(margin.value)))
    end
    -- Pairs that are told apart are as many as the batch, whatever the tokenizer's table, and a temperature spreads
    -- the logits of a fresh model beyond what independent ones have.
    local pairs_of = case.config:where("match(key, '*logit_scale*|*projection_dim|*contrastive*|*infonce*|*ntxent*|"
      .. "*simclr*|*siglip*') or match(value, 'clip|*clip_model*|CLIPModel|*siglip*|*simclr*|*dual_encoder*')"):first()
    if pairs_of then return skip("a loss of classes: " .. pairs_of.key .. " says that pairs are told apart") end
    local count, source = classes()
    if not count or count < 2 then
      local chance, sums, row, binary = silent()
      local needed = "vocab_size or num_classes in a config, or dumped logits"
      if not chance or chance <= 0 then
        return skip(needed .. "; or the numbers of a dumped batch")
      end
      for _, symptom in ipairs({ "initial-loss-off", "initial-loss-low", "loss-in-bits" }) do skip(needed, symptom) end
      local judged, parted = false, nil -- what is made of parts in one run is so in the next
      -- A weight above 1 makes the loss as many times larger, as the 45 of HiFi-GAN's spectrograms.
      local heavy = case.config:where("match(key, '*lambda_*|*loss_coef*|*loss_weight*|*loss_mult*') and number > 1.5")
        :first()
      if heavy then
        return skip(("a loss that is not weighted: %s is %g"):format(heavy.key, heavy.number),
          "initial-predictions-large")
      end
      for run_name in case.scalars:where { name = "loss", primary = true }:group("run") do
        parted = parted or of_terms(run_name)
      end
      for _, run in case.scalars:where { name = "loss", primary = true }:group("run") do
        local first = run:sort("step"):where("finite(value)"):first()
        first = first and not binary and error_beside(first) or first
        local small = first and not binary and small_outputs(first, row)
        if small and first.step <= 1 then
          judged = true
          skip(("outputs as large as the loss has them: those dumped at step %d are %.3g in the root mean square")
            :format(first.step, small), "initial-predictions-large")
        elseif first and first.step <= 1 and parted then
          judged = true
          skip(("a loss of one part: %s stands beside it, with others"):format(parted.name),
            "initial-predictions-large")
        elseif first and first.step <= 1 and run:where("finite(value)"):min("value") < 0 then
          judged = true
          skip("a loss that is a distance: below 0 it is of likelihoods, whose sum over the data has no such level",
            "initial-predictions-large")
        elseif first and first.step <= 1 then
          judged = true
          local ratio, summed = first.value / chance, false
          -- The sum over accumulated batches is training/accumulation-scale's.
          if sum and ratio > 0.4 * sum.number and ratio < 1.12 * sum.number then summed = true end
          for _, n in ipairs(sums) do
            if n > 1 and ratio > 0.5 * n and ratio < 2 * n then summed = true end
          end
          if ratio > case.options.times and not summed then
            report {
              symptom  = "initial-predictions-large",
              score    = ratio > 2.5 * case.options.times and 0.95 or 0.8,
              severity = "warning",
              at       = { step = first.step },
              message  = ("the first %s is %.4g, %.3g times that of a model that says nothing (%s%.3g, by %s): "
                .. "what the untrained model predicts is far larger than what it should"):format(first.name,
                first.value, ratio, binary and "ln 2 = " or "at most ", chance, row.name),
              evidence = { first, row },
            }
          end
        end
      end
      if not judged then skip("the loss of step 0 or 1", "initial-predictions-large") end
      return
    end
    skip("a loss of numbers, or of labels that are 0 or 1", "initial-predictions-large")
    local chance = math.log(count) * (entropy or 1)
    local level  = ("ln %d"):format(math.floor(count))
    if entropy and entropy ~= 1 then level = ("%g * %s"):format(entropy, level) end
    --- The sum over accumulated batches, which is what training/accumulation-scale reports.
    local function summed_up(first)
      local times = math.floor(first.value / chance + 0.5)
      return sum and sum.number == times and math.abs(first.value / chance - times) <= 0.04 * times
    end
    --- A number of rows or tokens that the loss is the sum over: a first loss that is as many times that of a fresh
    --- model, and stays of that size, since logits that are too large are brought down at once. Nil where none is.
    local function added_up(run, first)
      local settled = run:sort("step"):where("finite(value)"):slice(2, math.max(4, run:count() // 10)):median("value")
      if not settled or settled < 0.5 * first.value then return nil end
      local function one(keys)
        return case.config:where("match(key, ?) and number > 1", keys):first()
      end
      local rows, length = one("*batch_size|*micro_batch*"), one("*seq_len|*seq_length|*block_size|*context_length|"
        .. "*max_length")
      local numbers = {}
      if rows then numbers[#numbers + 1] = rows.number end
      if length then numbers[#numbers + 1] = length.number end
      if rows and length then numbers[#numbers + 1] = rows.number * length.number end
      for _, label in ipairs({ "batch.label", "batch.labels", "batch.target", "batch.targets" }) do
        local row = case.tensors:where { name = label }:first()
        if row then numbers[#numbers + 1] = row.numel end
      end
      for _, n in ipairs(numbers) do
        local each = first.value / n
        if n >= 4 and each >= 0.97 * chance and each <= chance + math.max(0.05 * chance, case.options.spread) then
          return n
        end
      end
    end
    local judged = false
    local named  = class_costs.other(case)
    local nats, nats_of_terms, in_nats = chance, shares, level
    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local first = run:sort("step"):where("value is not null"):first()
      -- fairseq logs its losses in bits, beside a perplexity that is 2 to their power.
      local unit = first and in_bits(case, run_name) and math.log(2) or 1
      chance, shares = nats / unit, nats_of_terms / unit
      level = unit == 1 and in_nats or in_nats:replace("ln ", "log2 ")
      local own   = unit == 1 and first and first.step <= 1 and class_costs.of(case, first)
      local sums  = first and added_up(run, first)
      local raw   = first and tostring(first.raw_name or ""):lower() or ""
      -- Logged every tenth step, or as the mean of ten: from where a run only comes down it began above.
      local later = first and first.step > 1 and first.step <= 10 and first.value > 2 * chance + shares
        and not summed_up(first) and not sums and run:where("finite(value)"):count() >= 10
        and first.value >= 0.9 * run:where("finite(value)"):max("value")
      local term = first and first.value > 0 and of_terms(run_name)
      if first and first.value < 0 then
        skip("a cross-entropy: none is below 0", "initial-loss-off", "initial-loss-low", "loss-in-bits")
        judged = true
      elseif term then
        skip(("a loss of one part: %s stands beside it, with others"):format(term.name), "initial-loss-off",
          "initial-loss-low", "loss-in-bits")
        judged = true
      elseif first and (own and not own.same or not own and named) then
        skip(own and ("a loss that is the cross-entropy of the outputs: those of %s cost %.4g at step %d, and it is "
          .. "%.4g"):format(own.output.name, own.mean, first.step, first.value)
          or "a cross-entropy of classes: " .. named, "initial-loss-off", "initial-loss-low", "loss-in-bits")
        judged = true
      elseif sums and first.step <= 10 then
        skip(("a mean loss: the first, %.4g, is that of a fresh model added up over %d"):format(first.value,
          math.floor(sums)), "initial-loss-off", "initial-loss-low", "loss-in-bits")
        judged = true
      elseif later then
        judged = true
        report {
          symptom  = "initial-loss-off",
          score    = 0.75,
          severity = "warning",
          at       = { step = first.step },
          message  = ("the first logged loss, of step %d, is %.4g and hardly a later one is higher; chance is %s "
            .. "= %.4g")
            :format(first.step, first.value, level, chance),
          evidence = { first, source },
        }
      elseif first and first.step <= 1 and count ~= 2 and math.abs(first.value - math.log(2)) < 1e-3 then
        skip("a loss of classes: the first is ln 2, that of pairs of which neither is preferred", "initial-loss-off",
          "initial-loss-low", "loss-in-bits")
        judged = true
      elseif first and first.step <= 1 and not raw:glob("*bpb*|*bits_per*|*bpc*") then
        judged = true
        local summed = summed_up(first)
        local lifted = math.min(shares, math.max(0, first.value - chance))
        local ratio  = (first.value - lifted) / chance
        -- Weights that were trained on other data are sure of what is wrong here, and of more that is right; what they
        -- cost in nats is no number of bits.
        if ratio > 1 and class_costs.knows(own) then
          skip(("a fresh model: the first logits of %s are higher for their labels than for those of other places")
            :format(own.output.name), "initial-loss-off", "loss-in-bits")
        elseif unit == 1 and shares == 0 and math.abs(ratio - 1.4427) < 0.04 then
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
          and (ratio > 1 + case.options.tolerance and (first.value - lifted - chance) * unit > case.options.spread
            or ratio < 1 - case.options.below and count > 2 and not of_epochs(case, run_name, run:count())) then
          report {
            symptom  = ratio > 1 and "initial-loss-off" or "initial-loss-low",
            -- Of few classes chance is little, and heads that begin at twice of it are in use.
            score    = ratio > 1.25 and ((first.value - lifted - chance) * unit > 1.5 or ratio > 2.2) and 0.95
              or 0.5,
            severity = ratio > 1 and "warning" or "info",
            at       = { step = first.step },
            message  = ("the first loss is %.4g, chance is %s = %.4g%s: %s")
              :format(first.value, level, chance, shares > 0 and (" and other terms %g at most"):format(shares) or "",
              first.value <= 0 and "nothing is scored"
              or ratio > 1 and "the initial logits are too large or the labels do not fit the vocabulary"
              or own and "the model starts with knowledge"
              or "the model starts with knowledge, or this is no mean cross-entropy"),
            evidence = { first, source },
          }
        end
      end
    end
    if not judged then skip("the loss of step 0 or 1, in nats or bits") end
  end,
}
