--- ## What it detects
--- How the labels of dumped batches lie beside their token ids: at the same place (nothing is shifted), or a place
--- behind where the loss moves them by one, two places on (shifted twice), next to them but for a share that is wrong,
--- or nowhere; and labels that are all ignored.
---
--- ## Why it matters
--- A language model is trained on the next token. Labels equal to the inputs teach it to copy, labels two places on to
--- skip a token, random ones to forget; none of it raises an error.
---
--- ## How to confirm
--- Decode the first ten tokens of inputs and labels of one row side by side.
---
--- ## Known false positives
--- Models that shift inside the forward pass (Hugging Face's `*ForCausalLM`) get unshifted labels by design. Where the
--- dump has the logits, the loss they have against the labels tells which it is; else such labels count for less. Of an
--- encoder-decoder the labels are held against what the decoder gets (decoder_input_ids, prev_output_tokens). Where
--- that is not dumped its labels are no next token of anything here, and are left out, as those of encoders are. The
--- end token of a padded or packed row has no id to be held against and does not count. Labels of masked tokens and
--- tags of tokens are told by what stands where they count, and left out too, but for the rows that they belong to:
--- tags of other rows end behind the tokens in some rows and before them in others. Tasks of copying have labels that
--- are ids of other places, up to 8 away, and a training loss far below the entropy of the labels says that they can be
--- learned: neither is random; nor are those that the ids of their row tell, place by place. Labels that are their own
--- ids but for some are of ids that were changed, and are to be put back. Where a row holds two streams by turns the
--- token after the next is the next of its own. Labels of later tokens beside those of the next, of the same ids, are
--- of a head of their own. Labels may be right where the ids are not, on purpose: beside the id
--- before, one of the two is like no other pair. Labels in a row of another length are a text of their own where they
--- are the longer the more tokens there are. Wrong labels all of which stand a multiple of some places apart are where
--- pieces of rows meet, and no noise, which is at any place.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/data_collator

local lengths = require("row-lengths")
local masked  = require("masked")
local runs    = require("runs")
local settings = require("settings")
local sides = require("sides")
local targets = require("targets")
local token_labels = require("token-labels")

local DECODER = "*decoder_input_ids|*decoder_ids|*prev_output_tokens|*tgt_in|*tgt_input*|*decoder_in"
-- Either what the decoder is given, or the target that the model shifts itself: labels at the same place mean nothing.
local TARGET  = "batch.tgt|batch.tgt_ids|batch.tgt_tokens|batch.target_ids|batch.target_tokens"
local SOURCE  = "*src*|*source*|*encoder_*"
local IDS     = "match(name, '*input_ids|*tokens|" .. DECODER .. "|" .. TARGET
  .. "') and not match(name, 'battery.*|" .. SOURCE .. "')"
local LABELS  = "match(name, '*labels|*targets|*tgt_out|*tgt_output*') and not match(name, 'battery.*')"
local LOGITS = "match(name, 'head.output|lm_head.output|*.lm_head.output|*.head.output|*logits') "
  .. "and not match(name, 'battery.*')"

--- What of a batch is no next token of anything: the ids that are often given and never a label (a start token,
--- padding, a mask token; three times, since a single one may have lost its label to a wrong one), and the padding at
--- the end of a row, the id that most of the rows that end in two or more equal ids end in.
local function never_predicted(x, y, width, ignore)
  local given, ends, padding, most = {}, {}, nil, 0
  for i = 1, #x do given[x[i]] = (given[x[i]] or 0) + 1 end
  for i = 1, #y do if y[i] ~= ignore then given[y[i]] = 0 end end
  for last = width, #x, width do
    if x[last] == x[last - 1] then ends[x[last]] = (ends[x[last]] or 0) + 1 end
  end
  for last = width, #x, width do -- in the order of the rows, so that the first of equals wins
    if (ends[x[last]] or 0) > most then padding, most = x[last], ends[x[last]] end
  end
  return given, padding
end

--- The lag of each row, from -1 to 2: labels[t] == ids[t + lag] at most places, with the share; nil where none fits
--- better than the others. A label can be held against a later id only where that id is a token of the same sequence
--- that is predicted: the label of a row's last token is the end token, and what the model is given next is padding or
--- the start of another sequence. So the next label has to count too, and the id to be one that is predicted somewhere
--- and no padding.
local function lags(ids, labels, width, ignore)
  local found = {}
  local n = math.min(labels.numel, 8192) // width * width
  local x, y = ids:values(0, n), labels:values(0, n)
  local given, padding = never_predicted(x, y, width, ignore)
  for first = 0, n - width, width do
    local best, stop = { share = 0, places = 0, right = 0, of = 0 }, width
    while stop > 1 and x[first + stop] == padding do stop = stop - 1 end
    for lag = 0, 2 do
      local equal, places = 0, 0
      for t = first + 1, first + stop - lag do
        local id = x[t + lag]
        if y[t] ~= ignore and (lag == 0 or y[t + 1] ~= ignore and (given[id] or 0) < 3) then
          places = places + 1
          if y[t] == id then equal = equal + 1 end
        end
      end
      local share = places > 0 and equal / places or 0
      if share > best.share then
        best = { lag = lag, share = share, places = best.places, second = best.share, right = equal, of = places }
      else best.second = math.max(best.second or 0, share) end
      best.places = math.max(best.places, places)
    end
    -- Labels may stand behind their ids, where both a collator moved them and a model does.
    local equal, places = 0, 0
    for t = first + 2, math.min(first + stop + 1, first + width) do
      if y[t] ~= ignore then
        places = places + 1
        if y[t] == x[t - 1] then equal = equal + 1 end
      end
    end
    if equal >= 0.9 * places and places >= 4 and equal / places > best.share then
      best = { lag = -1, share = equal / places, places = math.max(best.places, places), second = best.share,
        right = equal, of = places }
    end
    if best.places >= 4 then found[#found + 1] = best end
  end
  return found
end

--- Whether the labels are no tokens to come: those of masked tokens, where the model is given one and the same id that
--- is no label at half of the places that count, or tags of tokens, which have few values where the ids have many.
local function other_task(ids, labels, ignore)
  if masked.hides(ids, labels, ignore) then return true end
  local x, y = ids:values(0, math.min(ids.numel, 8192)), labels:values(0, math.min(ids.numel, 8192))
  local label, id, at, kinds, tags, places = {}, {}, {}, 0, 0, 0
  for i = 1, #y do
    if not id[x[i]] then id[x[i]], kinds = true, kinds + 1 end
    if y[i] ~= ignore then
      if not label[y[i]] then label[y[i]], tags = true, tags + 1 end
      at[x[i]], places = (at[x[i]] or 0) + 1, places + 1
    end
  end
  for given, n in pairs(at) do
    if not label[given] and n >= 0.5 * places then return places >= 4 end
  end
  return tags >= 2 and places >= 8 * tags and kinds >= 4 * tags
end

--- The lag from -8 to 8 at which half of the labels of a batch or more are the ids, or nil: what a model is to copy,
--- late or early, is no random label.
local function some_lag(ids, labels, width, ignore)
  local n = math.min(labels.numel, 4096) // width * width
  local x, y = ids:values(0, n), labels:values(0, n)
  for lag = -8, 8 do
    local equal, places = 0, 0
    for first = 0, n - width, width do
      for t = math.max(1, 1 - lag), math.min(width, width - lag) do
        if y[first + t] ~= ignore then
          places = places + 1
          if y[first + t] == x[first + t + lag] then equal = equal + 1 end
        end
      end
    end
    if places >= 16 and equal >= 0.5 * places then return lag end
  end
end

--- Whether labels are of a head that says a later token than the next: they are ids two places on or more, and other
--- labels of the batch, of the same ids, are the next ones in nine rows of ten.
local function of_later_head(labels, batch, inputs, opt)
  local width = math.floor(batch.shape[#batch.shape])
  local own
  for other in labels:where { run = batch.run, step = batch.step, variant = batch.variant, numel = batch.numel }:rows()
  do
    if other.name ~= batch.name and #other.shape == #batch.shape and other.shape[#other.shape] == width then
      own = own or some_lag(inputs, batch, width, opt.ignore) or 0
      if own < 2 then return false end
      local rows, right = lags(inputs, other, width, opt.ignore), 0
      for _, row in ipairs(rows) do
        if row.lag == 1 and row.share >= opt.equal and row.second < row.share then right = right + 1 end
      end
      if right > 0 and right >= 0.9 * #rows then return true end
    end
  end
  return false
end

--- Adds the places in a row, counted from its start, of the labels that differ from the next token.
local function add_odd(odd, ids, labels, width, ignore)
  local n = math.min(labels.numel, 4096) // width * width
  local x, y = ids:values(0, n), labels:values(0, n)
  for first = 0, n - width, width do
    for t = 1, width - 1 do
      local counts = y[first + t] ~= ignore and y[first + t + 1] ~= ignore -- the last one's next token is no other's
      if counts and y[first + t] ~= x[first + t + 1] then odd[#odd + 1] = t end
    end
  end
end

--- The distance of 2 or more at which all labels of some batches stand that differ from the next token; nil where they
--- are so by chance once in ten thousand times or more often. Labels that are noise are wrong at any place.
local function every(batches, ignore)
  local period, odd = 0, {}
  for _, pair in ipairs(batches) do
    add_odd(odd, pair[1], pair[2], math.floor(pair[2].shape[#pair[2].shape]), ignore)
  end
  for i = 2, #odd do
    local a, b = period, math.abs(odd[i] - odd[1])
    while b > 0 do a, b = b, a % b end
    period = a
  end
  return period >= 2 and (#odd - 1) * math.log(period) > math.log(1e4) and period or nil
end

--- The entropy of the labels that count, in nats: random ones leave no loss far below it.
local function entropy(labels, ignore)
  local counts, n = {}, 0
  for _, v in ipairs(labels:values(0, math.min(labels.numel, 8192))) do
    if v ~= ignore then counts[v], n = (counts[v] or 0) + 1, n + 1 end
  end
  local sum = 0
  for _, count in pairs(counts) do sum = sum - count / n * math.log(count / n) end
  return sum
end

--- How many places the loss moves the labels on before it compares them, 0 or 1: a model that has learned something
--- predicts the label that it is compared with. Nil where one batch does not tell; `pooled` gathers how often the
--- largest logit is that of the label here and of the next one, of how many labels.
local function moved(case, batch, ignore, pooled)
  local logits = case.tensors:where { step = batch.step }:where(LOGITS):where("zero_share is not null"):last()
  if not logits then return nil end
  local here, ahead = logits:argmax_share(batch, 0, ignore), logits:argmax_share(batch, 1, ignore)
  local cost, later = logits:cross_entropy(batch, 0, ignore), logits:cross_entropy(batch, 1, ignore)
  if not (here and ahead and cost and later) then return nil end
  local n = batch.numel - batch:count_equal(ignore)
  pooled.here, pooled.ahead, pooled.n = pooled.here + n * here, pooled.ahead + n * ahead, pooled.n + n
  if here > ahead + 0.1 and here > 1.5 * ahead and cost < later - 0.2 then return 0 end
  if ahead > here + 0.1 and ahead > 1.5 * here and later < cost - 0.2 then return 1 end
end

--- The same of all batches together, where twice as many labels fit one place on as here, or here as there, and the
--- difference is more than three of its deviations. A model hits the labels that it is trained on most often.
local function moved_in_all(pooled)
  if pooled.n == 0 then return nil end
  local here, ahead = pooled.here / pooled.n, pooled.ahead / pooled.n
  local error_ = math.sqrt((here * (1 - here) + ahead * (1 - ahead)) / pooled.n)
  -- A model that predicts neither has learned nothing that could tell: places of a text are no independent draws.
  if math.max(here, ahead) < 0.15 or math.abs(here - ahead) <= 3 * error_ then return nil end
  return here > 2 * ahead and 0 or ahead > 2 * here and 1 or nil
end

--- The first mask of a dumped batch that counts nothing, with the loss of its step: that is 0 / 0 then, or 0 where the
--- count is kept from being 0. A mask that is 0 where values count has another loss, so that alone says nothing.
local function counts_nothing(case)
  local masks = case.tensors:where("match(name, 'batch.*') and match(name, '*observed*|*loss_mask*|*loss_weight*|"
    .. "*sample_weight*|*target_mask*|*label_mask*') and not match(name, '*unobserved*') and numel > 0 and "
    .. "zero_share is not null and step is not null")
  for mask in masks:sort("step"):slice(0, 400):rows() do
    if mask:count_equal(0) == mask.numel then
      local dump = case.tensors:where { run = mask.run, step = mask.step, variant = mask.variant }
        :where("match(name, 'loss.output') and numel == 1"):first()
      local row  = not dump and case.scalars:where { name = "loss", primary = true, run = mask.run, step = mask.step }
        :first()
      local none = dump and (dump.nonfinite > 0 or dump:count_equal(0) == 1)
        or row and (row.value ~= row.value or math.abs(row.value) == math.huge or row.value == 0)
      if none then return mask, dump or row, row and row.value == 0 or dump and dump.nonfinite == 0 end
    end
  end
end

local function report_all_ignored(batch, ignore)
  report {
    symptom  = "labels-all-ignored",
    score    = 0.97,
    at       = { step = batch.step },
    message  = ("all %s labels of the batch at step %s are %d, the ignore value")
      :format(units.count(batch.numel), tostring(batch.step), ignore),
    evidence = { batch },
  }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Labels are not the next token, or are all ignored",
  needs    = { tensors = { "name", role = { "value", "input", "output" } } },
  symptoms = { "labels-not-next", "labels-equal-inputs", "labels-all-ignored", "labels-two-ahead",
    "labels-partly-wrong", "labels-unrelated", "labels-of-other-rows" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    equal  = { default = 0.90, doc = "Share of a row's labels that must agree with its ids" },
    wrong  = { default = 0.03, doc = "Share of labels that differ from the next token, worth reporting" },
    changed = { default = 0.02, doc = "Share of labels at their own id that is another, from which ids were changed" },
  },

  run = function(case)
    local opt    = case.options
    -- A dump of statistics alone has no values, and no share of zeros.
    local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null")
    local ids, labels = dumped:where(IDS), dumped:where(LABELS)
    local mask_of_none, loss_of_none, is_zero = counts_nothing(case)
    if mask_of_none then
      report {
        symptom  = "labels-all-ignored",
        score    = 0.95,
        at       = { step = mask_of_none.step },
        message  = ("all %s values of %s at step %d are 0, and the loss of that step is %s: it is of nothing"):format(
          units.count(mask_of_none.numel), mask_of_none.name, mask_of_none.step, is_zero and "0" or "not finite"),
        evidence = { mask_of_none, loss_of_none },
      }
    end
    if ids:count() == 0 then
      -- Labels of which none counts need no ids to be told. Those of pixels are ignored as 255, or as a setting says.
      local named = settings.ignored(case):first()
      for batch in labels:where("numel >= 2"):sort("step"):rows() do
        local void = named and named.number or batch.shape and #batch.shape >= 3 and 255
        if void and void ~= opt.ignore and batch:count_equal(void) == batch.numel then
          report_all_ignored(batch, void)
          break
        end
        if batch:count_equal(opt.ignore) == batch.numel then
          report_all_ignored(batch, opt.ignore)
          break
        end
      end
    end
    if labels:count() == 0 or ids:count() == 0 then
      return skip("a dumped batch with input_ids and labels (culprit_recorder.watch dumps batches)")
    end
    local other = case.config:where("match(key, '*is_encoder_decoder|*is_encoder|*bidirectional|*mlm*')")
      :where("number != 0 or value == 'true'"):count() > 0
      or case.tensors:where("match(name, '" .. SOURCE .. "') and match(name, 'batch.*') and match(dtype, 'int*')")
        :count() > 0
    local decoder, either = ids:where("match(name, '" .. DECODER .. "')"), false
    if decoder:count() == 0 then
      decoder = ids:where("match(name, '" .. TARGET .. "')")
      either  = decoder:count() > 0
    end
    if decoder:count() > 0 then ids, other = decoder, false end
    -- Labels end where the text does that the decoder is given, and not where the source does beside it.
    local masks = decoder:count() > 0 and "*decoder_attention_mask" or "*attention_mask"
    local translates = decoder:count() == 0 and case.config:where("match(key, '*is_encoder_decoder') and "
      .. "(number != 0 or match(value, 'true|True'))"):count() > 0
    local others = { "labels-not-next", "labels-equal-inputs", "labels-two-ahead", "labels-partly-wrong",
      "labels-unrelated" } -- what takes more than the labels alone
    local pooled = { here = 0, ahead = 0, n = 0 }
    local of, rows, example, shift, empty, judged = { [-1] = 0, [0] = 0, 0, 0, next = 0 }, 0, {}, nil, nil, 0
    local swapped, ends, lag -- labels of other rows, and whether that is known; the lag at which labels are ids
    local padding = lengths.padding()
    local looked, seen = {}, {} -- inputs and labels of batches; the same of their masks
    local right, compared = 0, 0 -- of the rows whose labels are best at the next token
    for batch in labels:sort("-step"):rows() do -- the last of them first, it has learned most
      local inputs = sides.beside(ids:where { run = batch.run, step = batch.step, variant = batch.variant }, batch.name)
      if batch:count_equal(opt.ignore) == batch.numel then
        empty = batch
      elseif inputs and inputs.numel == batch.numel and #batch.shape == #inputs.shape
        and batch.shape[#batch.shape] > 2 and not of_later_head(labels, batch, inputs, opt) then
        if other_task(inputs, batch, opt.ignore) or token_labels.are_classes(case, inputs, batch) then
          other = "masked"
        end
        local mask = sides.beside(case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant,
          numel = batch.numel }
          :where("match(name, ?)", masks):where("not match(name, 'battery.*') and zero_share is not null"), batch.name)
        if translates or mask and not lengths.pads(mask) then mask = nil end
        if mask then
          if #seen < 32 then seen[#seen + 1] = { mask, batch } end
          lengths.add_padding(padding, inputs, mask, batch, opt.ignore)
          if lengths.alien_padding(padding) then
            swapped = swapped or { batch = batch, inputs = mask, words = ("%d labels stand at padding, of %d kinds and "
              .. "none of them padding"):format(padding.counted, padding.kinds) }
          end
        end
        if mask and not swapped then
          local belong, words, known = lengths.of_other_rows(mask, batch, opt.ignore)
          ends = ends or known
          swapped = belong and { batch = batch, inputs = mask, words = words } or nil
        end
        lag = lag or some_lag(inputs, batch, batch.shape[#batch.shape], opt.ignore)
        judged, shift = judged + 1, shift or moved(case, batch, opt.ignore, pooled)
        if #looked < 8 then looked[#looked + 1] = { inputs, batch } end
        for _, row in ipairs(lags(inputs, batch, batch.shape[#batch.shape], opt.ignore)) do
          rows = rows + 1
          if row.share >= opt.equal and row.second < row.share then
            of[row.lag] = of[row.lag] + 1
            example[row.lag] = { batch = batch, inputs = inputs } -- the earliest is the one to name
          end
          if row.lag == 1 then of.next, right, compared = of.next + 1, right + row.right, compared + row.of end
          example.any = { batch = batch, inputs = inputs }
        end
      end
    end
    if empty then report_all_ignored(empty, opt.ignore) end
    if not ends and not swapped then
      skip("attention_mask beside the labels of 16 rows, some of them padded at their ends", "labels-of-other-rows")
    end
    local costs = runs.series(case, "loss")
    local told = swapped and costs:count() >= 10 and costs:slice(costs:count() - 5, 5):median("value")
      < 0.5 * entropy(swapped.batch, opt.ignore)
    if swapped and (told or lengths.go_together(seen, opt.ignore)) then
      skip("labels that end with the tokens of their row: these are another text, which " .. (told and "is learned"
        or "is the longer the more tokens a row has"), "labels-of-other-rows")
      return skip("what the decoder is given (decoder_input_ids) beside the labels", table.unpack(others))
    end
    if swapped then
      report {
        symptom  = "labels-of-other-rows",
        score    = 0.95,
        at       = { step = swapped.batch.step },
        message  = swapped.words .. ": they belong to other rows",
        evidence = { swapped.batch, swapped.inputs },
      }
      return skip("labels of the rows that they stand beside", "labels-not-next", "labels-equal-inputs",
        "labels-two-ahead", "labels-partly-wrong", "labels-unrelated")
    end
    shift = shift or moved_in_all(pooled)
    if judged == 0 or rows == 0 or other then
      return skip(other == "masked" and "labels that are tokens to come: these are of masked tokens, or tags"
        or other and "what the decoder is given (decoder_input_ids) beside the labels"
        or "a dumped batch whose labels and input_ids have one shape, with 4 labels a row that count",
        table.unpack(others))
    end
    local where = ("%d of %d rows of %s"):format(0, rows, units.plural(judged, "dumped batch", "dumped batches"))
    local function share_of(n) return where:replace("0 of", n .. " of") end
    local function also(symptom, e, n)
      report { symptom = symptom, score = 0.97, at = { step = e.batch.step }, evidence = { e.batch, e.inputs },
        message = ("%s are not trained on the next token"):format(share_of(n)) }
    end
    -- Rows at their own tokens beside rows one place behind: wherever the loss compares them, for one kind it is there.
    local mixed = shift == nil and math.min(of[0], of[-1]) >= math.max(1, 0.1 * rows)
    local own   = (shift == 1 or mixed) and -1 or 0 -- the lag of labels that are compared where their token is given
    local unshifted, ahead = of[own], of[2 - (shift or 0)] or 0
    -- The next token it is in most rows, and in more places than chance or common tokens make.
    local next_best = of.next >= 0.8 * rows and right >= 0.25 * compared
    local nowhere = of[-1] + of[0] + of[1] + of[2] == 0 and not next_best
    -- Inputs that are not the true ones, on purpose.
    local sampled = case.config:where("match(key, '*scheduled_sampling*|*sampling_prob*|*word_dropout*|"
      .. "*token_dropout*') and number > 0"):first()
      or case.config:where("match(key, '*teacher_forcing*') and number < 1"):first()
    -- Labels at their own token are sound where the model shifts them, which it does for all rows or for none.
    local losses = runs.series(case, "loss")
    -- A loss of pairs falls to nothing where these are learnt by heart, whatever the tokens are; and so does one that
    -- counts padding, which is easily said.
    -- A first loss above chance is of weights that begin too large, and says nothing of how much there was to learn.
    local kinds = targets.classes(case)
    local begun = math.min(losses:slice(0, 3):median("value") or 0, kinds and math.log(kinds.number) or math.huge)
    local copies = losses:count() >= 6 and not sides.preference(case) and padding.counted == 0
      and losses:slice(losses:count() - 3, 3):median("value") < 0.05 * begun
    if unshifted >= math.max(1, 0.1 * rows) and of[1] < 0.1 * rows and not mixed
      and (either or shift == nil and not copies) then
      return skip("whether the loss shifts these labels, which lie at their own tokens: logits (head.output) beside "
        .. "the batch of a late step, or the logged loss (culprit_recorder.watch)", table.unpack(others))
    elseif unshifted >= math.max(1, 0.1 * rows) and token_labels.restored(looked, opt.ignore) > opt.changed then
      return skip(("ids that stand as they were: at %s of the places whose label counts another one is given, and the "
        .. "labels say what stood there"):format(units.percent(token_labels.restored(looked, opt.ignore))),
        table.unpack(others))
    elseif unshifted >= math.max(1, 0.1 * rows) and token_labels.through_one(case, example[own].batch) then
      return skip(("a model with places from end to end: all that is said of a row of %s goes through one vector, so "
        .. "that it is to give the row back"):format(example[own].inputs.name), table.unpack(others))
    elseif unshifted >= math.max(1, 0.1 * rows) then
      local e = example[own]
      also("labels-not-next", e, unshifted)
      report {
        symptom  = "labels-equal-inputs",
        score    = 0.97,
        at       = { step = e.batch.step },
        message  = own == -1 and ("labels are the input tokens one place before in %s, %s: the model is to copy")
          :format(share_of(unshifted), shift == 1 and "and the loss compares them with what is said one place before"
          or ("and those at the same position in %d others"):format(of[0]))
          or ("labels equal the input tokens at the same position in %s%s: nothing is shifted"):format(
          share_of(unshifted), shift == 0 and ", and the loss compares them there"
          or of[1] >= 0.1 * rows and (", and the next token in %d others"):format(of[1])
          or ", and the loss falls to nearly nothing"),
        evidence = { e.batch, e.inputs },
      }
    elseif ahead >= math.max(1, 0.1 * rows) and (shift or 0) == 0 and token_labels.by_turns(looked) then
      return skip("rows of one stream: by turns these hold two, and the token after the next is the next of its own",
        table.unpack(others))
    elseif ahead >= math.max(1, 0.1 * rows) then
      local e = example[2 - (shift or 0)]
      also("labels-not-next", e, ahead)
      report {
        symptom  = "labels-two-ahead",
        score    = 0.97,
        at       = { step = e.batch.step },
        message  = ("in %s the model is trained on the token after the next: %s"):format(share_of(ahead), shift == 1
          and "the labels are shifted, and the loss shifts them again"
          or "the labels are the input tokens two places on, shifted twice"),
        evidence = { e.batch, e.inputs },
      }
    elseif next_best and compared > 0 and 1 - right / compared >= opt.wrong and sampled then
      return skip("labels and the tokens that were there: the config has " .. sampled.key .. ", which replaces some of "
        .. "what the decoder is given", "labels-partly-wrong")
    elseif next_best and compared > 0 and 1 - right / compared >= opt.wrong then
      if token_labels.ids_changed(looked, opt.ignore) then
        return skip("labels that are wrong: beside the id before them it is the ids given that are like no others, and "
          .. "not the labels", "labels-partly-wrong")
      end
      local seams = every(looked, opt.ignore)
      if seams then
        return skip(("labels that are wrong at any place: those that differ from the next token stand %d apart or a "
          .. "multiple of it, as where pieces of rows were put together"):format(seams), "labels-partly-wrong")
      end
      report {
        symptom  = "labels-partly-wrong",
        score    = 0.95,
        at       = { step = example.any.batch.step },
        message  = ("%s of the labels that count differ from the next token, in %s; the others equal it")
          :format(units.percent(1 - right / compared), share_of(of.next)),
        evidence = { example.any.batch, example.any.inputs },
      }
    elseif nowhere and lag then
      return skip(("labels that are tokens to come: these are the ids %d places %s, a task of its own"):format(
        math.abs(lag), lag < 0 and "before" or "on"), "labels-unrelated")
    elseif nowhere and losses:count() >= 10 and losses:slice(losses:count() - 5, 5)
      :median("value") < 0.5 * entropy(example.any.batch, opt.ignore) then
      return skip("labels that cannot be learned: the training loss comes to less than half of their entropy",
        "labels-unrelated")
    elseif nowhere and token_labels.related(looked, opt.ignore) then
      return skip("labels that the ids of their row say nothing of: these are told by them", "labels-unrelated")
    elseif nowhere then
      report {
        symptom  = "labels-unrelated",
        score    = 0.85,
        at       = { step = example.any.batch.step },
        message  = ("in none of %s do the labels equal the input tokens at the same place, one or two on: they belong "
          .. "to other inputs, or are random"):format(share_of(rows):replace(rows .. " of ", "")),
        evidence = { example.any.batch, example.any.inputs },
      }
    end
  end,
}
