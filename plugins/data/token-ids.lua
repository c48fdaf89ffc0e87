--- ## What it detects
--- Token ids beyond the embedding's rows or below 0, a last id that is far more common than its neighbours or the most
--- common of all (ids that were clamped to it), a tokenizer with more ids than the table has rows, and parts of a batch
--- whose shapes differ. Of ids of items or categories, column by column, a largest one that is the last row of a table
--- and far more common than its neighbours.
---
--- ## Why it matters
--- An id too large fails in the best case; some kernels read past the table, and a clamp makes every rare token the
--- same one. A mask or label of another shape may broadcast instead of failing.
---
--- ## How to confirm
--- Compare `len(tokenizer)` and the largest id of the data with the number of rows of the embedding.
---
--- ## Known false positives
--- Labels may be of any number beside ids, one or several for a text; what they have to fit are the outputs. A mask is
--- held against the ids of its own side, and one of the loss may lack the first place, which nobody tells.
---
--- A last id that is padding or the end of a text, as GPT-2's 50256 is; named in the config as `eos_token_id` or
--- `pad_token_id` it is left out, and so is one that fills the ends of rows, stands in long runs as the places of an
--- image do, is less than one in fifty of all ids or never stands behind itself though so many would (marks between
--- texts), unless the tokenizer's own number is known to be larger, and the mask token of a masked language model,
--- which stands where labels count and is none. Of V ids that mean nothing by their number
--- one in V runs has the last as its most common: that alone counts for less. A last row that is meant for all rare
--- values looks like clamped ids.
---
--- ## References
--- https://github.com/meta-llama/llama-cookbook/issues/189

local function setting(case, pattern)
  local row = case.config:where("match(key, ?)", pattern):where("number is not null"):first()
  return row and row.number
end

--- Rows of the token embedding, by its weight, the logits' width or the config.
local function table_rows(case)
  local weight = case.tensors:where("role == 'weight' and match(name, '*embed*tok*|*tok*emb*|*wte*|*embed_tokens*|"
    .. "*word_embeddings*|*word_emb.*|*text_emb*|*char_emb*|*phone*emb*|*symbol_emb*') and not match(name, "
    .. "'*pos*|*type*')"):first()
  if weight and #weight.shape == 2 then return math.floor(weight.shape[1]), weight.name end
  local rows = setting(case, "vocab_size|model.vocab_size|*.model.vocab_size|*text_config.vocab_size")
    or setting(case, "*n_src_vocab|*n_vocab|*num_chars|*n_symbols|*num_symbols|*num_phonemes|*n_phonemes")
  -- Two vocabularies, of source and target, are not told apart here unless they are as large as each other.
  local two = case.config:where("match(key, '*src_vocab_size|*tgt_vocab_size|*source_vocab_size|*target_vocab_size') "
    .. "and number is not null")
  if not rows and two:count() > 0 and two:min("number") == two:max("number") then rows = two:first().number end
  return rows and math.floor(rows), "vocab_size of the config"
end

local elements = require("elements")
local places = require("places")
local sides = require("sides")

--- Whether an id hides what is to be predicted: of the places whose labels count it stands at half, and is the label of
--- fewer than a quarter of those. A clamped id is what a clamped label is too.
local function hides_labels(case, batches, id)
  local counted, here, same = 0, 0, 0
  for batch in batches:slice(0, 20):rows() do
    local labels = case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant }
      :where("match(name, 'batch.*labels|batch.*targets') and match(dtype, 'int*') and zero_share is not null")
      :where { numel = batch.numel }:first()
    if labels then
      local n = math.min(batch.numel, 65536)
      local x, y = elements.of(batch, 0, n), elements.of(labels, 0, n)
      for i = 1, n do
        if y[i] >= 0 then
          counted = counted + 1
          if x[i] == id then here, same = here + 1, same + (y[i] == id and 1 or 0) end
        end
      end
    end
  end
  return counted >= 4 and here >= 0.5 * counted and same < 0.25 * here
end

--- Ids of items, users or categories, a column each, whose largest is the last row of a table that a weight or a config
--- names and stands there far more often than those before it: { batch, name, id, count, total, span, high }.
local function clamped_category(case, factor)
  local sizes = {}
  for row in case.tensors:where("role == 'weight'"):slice(0, 2000):rows() do
    if #row.shape == 2 then sizes[math.floor(row.shape[1])] = true end
  end
  for row in case.config:where("number is not null and match(key, '*num_embeddings*|*n_items|*num_items|*n_users|"
    .. "*num_users|*cardinalit*|*table_size*|*table_rows*|*num_categories*|*vocab_size*|*hash_size*')"):rows() do
    sizes[math.floor(row.number)] = true
  end
  local batches = case.tensors:where("match(name, 'batch.*') and match(dtype, 'int*|uint*') and zero_share is not null")
    :where("match(name, '*item*|*user*|*sparse*|*categor*|batch.*_id|batch.ids|batch.cat*') and "
    .. "not match(name, '*label*|*target*|*hash*|*index|*mask*|*len*|*input_ids')")
  local judged = false
  for name, series in batches:group("name") do
    local shape = series:first().shape
    local columns = #shape >= 2 and math.floor(shape[#shape]) or 1
    local counts, total = {}, 0
    for column = 1, columns do counts[column] = {} end
    for batch in (columns <= 256 and series or series:slice(0, 0)):rows() do
      for i, id in ipairs(elements.of(batch, 0, math.min(batch.numel, 262144) // columns * columns)) do
        local of = counts[(i - 1) % columns + 1]
        of[id] = (of[id] or 0) + 1
      end
      total = total + batch.numel // columns
    end
    for column = 1, columns do
      local of, last = counts[column], -1
      for id in pairs(of) do last = math.max(last, id) end
      last = math.floor(last)
      if last >= 16 and sizes[last + 1] then
        judged = true
        local span, others = math.min(64, last // 2), {}
        for id = last - span, last - 1 do others[#others + 1] = of[id] or 0 end
        table.sort(others)
        local high, count = others[math.ceil(0.9 * #others)], of[last]
        if count >= 10 and count >= factor * math.max(high, 1) and count - high >= 4 * math.sqrt(high + 1) then
          return { batch = series:first(), name = name, column = columns > 1 and column or nil, id = last,
            count = count, total = total, span = span, high = high }, true
        end
      end
    end
  end
  return nil, judged
end

--- The most rows of any table, and its name: of several vocabularies any may be that of the ids.
local function largest_table(case, rows, from)
  for weight in case.tensors:where("role == 'weight' and match(name, '*emb*|*wte*') and not match(name, "
    .. "'*pos*|*type*')"):slice(0, 200):rows() do
    if #weight.shape == 2 and weight.shape[1] > rows then rows, from = math.floor(weight.shape[1]), weight.name end
  end
  return rows, from
end

--- Whether some ids of a batch may stand for pictures or sounds and are replaced before any table is asked.
local function stands_in(case, batch)
  return case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant }:where("match(name, "
    .. "'batch.*') and match(name, '*pixel*|*image*|*video*|*audio*|*speech*|*mel*|*feature*|*patches*') and "
    .. "match(dtype, 'float*|bfloat*|uint8')"):count() > 0
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Token ids do not fit the embedding, or a batch's parts each other",
  needs    = { tensors = { "name", "min", "max" } },
  symptoms = { "token-id-out-of-range", "token-ids-clamped", "tokenizer-exceeds-table", "batch-shapes-differ",
    "category-ids-clamped" },
  options  = {
    factor = { default = 3.0, doc = "Count of the last id over that of nearly all its neighbours that stands out" },
    first  = { default = 1.3, doc = "Count of the last id over that of the most common other one that stands out" },
  },

  run = function(case)
    -- A tokenizer and what is done with its ids are chosen before the first step.
    local begin = places.first_step(case)
    local batches = case.tensors:where("match(name, '*input_ids|batch.src|batch.tgt|batch.src_*|batch.tgt_*|"
      .. "*prev_output_tokens') and not match(name, 'battery.*|*mask*|*len*')")
    -- What is said aloud, or drawn from a text, has names of its own; bytes of what is no text are no rows of a table.
    if batches:count() == 0 and table_rows(case) then
      batches = case.tensors:where("match(name, 'batch.text|batch.texts|batch.tokens|batch.text_ids|batch.phone*|"
        .. "batch.char|batch.chars|batch.characters|batch.symbols') and not match(name, '*mask*|*len*') and "
        .. "match(dtype, 'int*')")
    end
    if batches:count() == 0 then
      local found, judged = clamped_category(case, case.options.factor)
      local needed = "dumped input_ids (culprit_recorder.watch dumps batches)"
      if not found and not judged then return skip(needed) end
      skip(needed, "token-id-out-of-range", "token-ids-clamped", "tokenizer-exceeds-table", "batch-shapes-differ")
      if not found then return end
      return report {
        symptom = "category-ids-clamped", score = 0.85, at = { step = begin },
        message = ("the last id of the table, %d, is %d of %s dumped values of %s%s; of the %d ids before it nine in "
          .. "ten stand there at most %d times: larger ids look clamped to it, from the start"):format(found.id,
          found.count, units.count(found.total), found.name, found.column and (" (column %d)"):format(found.column)
          or "", found.span, found.high),
        evidence = { found.batch },
      }
    end
    skip("dumped ids of items or categories and no text", "category-ids-clamped")
    local rows, from = table_rows(case)
    local integer = batches:where("match(dtype, 'int*|uint*')")
    if not rows then
      skip("the embedding's weight or vocab_size in config.json", "token-id-out-of-range", "tokenizer-exceeds-table")
    end
    local most, whole = largest_table(case, rows or 0, from)
    local far = rows and integer:where("max >= ? or min < 0", most):first()
    if far and stands_in(case, far) then
      skip("ids of text alone: pictures or sounds may stand for some of these", "token-id-out-of-range")
    elseif far then
      report {
        symptom = "token-id-out-of-range", score = 0.97, at = { step = far.step },
        message = ("token ids of the batch of step %s go from %d to %d, and the table has the rows 0 to %d (%s)")
          :format(tostring(far.step), far.min, far.max, most - 1, whole),
        evidence = { far },
      }
    end

    local tokenizer = setting(case, "*tokenizer_vocab_size|*tokenizer.vocab_size|*tokenizer_size|*len_tokenizer")
    if not tokenizer then skip("the tokenizer's size in a config", "tokenizer-exceeds-table") end
    if rows and tokenizer and tokenizer > rows then
      report {
        symptom = "tokenizer-exceeds-table", score = 0.95, at = { step = begin },
        message = ("the tokenizer has %d ids and the table %d rows (%s): %d ids have no row"):format(tokenizer,
          rows, from,
          math.floor(tokenizer) - rows),
        evidence = { case.config:where("match(key, '*vocab_size*|*tokenizer*')"), batches:slice(0, 1) },
      }
    end

    for batch in batches:rows() do
      local others = case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant }
        :where("match(name, 'batch.attention_mask|batch.loss_mask|batch.position_ids|batch.token_type_ids')")
      -- Of an encoder-decoder a mask may be that of either side.
      local two = case.tensors:where { run = batch.run, step = batch.step, variant = batch.variant }
        :where("match(name, '*decoder_input_ids|*prev_output_tokens|batch.src*|batch.tgt*')"):count() > 0
        or case.config:where("match(key, '*is_encoder_decoder|*encoder_layers|*num_encoder_layers|*decoder_layers|"
          .. "*num_decoder_layers')"):count() > 0
      for other in (two and others:slice(0, 0) or others):rows() do
        -- A mask may be per head or per pair of positions, positions one row for all. What is longer than the ids also
        -- covers what is put before them: a prefix, or what is kept of the past.
        -- A mask is of the ids of its own side, and one of what is told may lack the first place, which nobody tells.
        local its  = sides.beside(batches:where { run = batch.run, step = batch.step, variant = batch.variant },
          other.name)
        local fits = other.numel == batch.numel or #other.shape ~= #batch.shape or its and its.name ~= batch.name
          or other.name == "batch.loss_mask" and other.shape[1] == batch.shape[1]
            and other.shape[#other.shape] == batch.shape[#batch.shape] - 1
          or other.name == "batch.position_ids" and other.shape[1] == 1
          or other.shape[1] == batch.shape[1] and other.shape[#other.shape] > batch.shape[#batch.shape]
        if not fits then
          return report {
            symptom = "batch-shapes-differ", score = 0.85, at = { step = batch.step },
            message = ("%s of step %s is %s and the token ids are %s"):format(other.name, tostring(batch.step),
              table.concat(other.shape, " x "), table.concat(batch.shape, " x ")),
            evidence = { other, batch },
          }
        end
      end
    end

    local valued = integer:where("zero_share is not null")
    if not rows or valued:count() == 0 then
      return skip("the embedding's weight or vocab_size in config.json, and the values of input_ids",
        "token-ids-clamped")
    end
    local last = rows - 1
    if last < 16 or valued:max("max") > last then return end
    for _, special in ipairs({ "*eos_token_id*", "*pad_token_id*", "*bos_token_id*", "*unk_token_id*",
      "*mask_token_id*", "*cls_token_id*", "*sep_token_id*", "*decoder_start_token_id*", "*blank_id*",
      "*image_token*", "*video_token*", "*audio_token*" }) do
      if setting(case, special) == last then return end
    end
    if hides_labels(case, valued, last) then return end
    -- How often the last id and up to 64 before it stand, and how often it fills the end or the start of a row, as
    -- padding does, or stands in long runs, as the places of an image do; a clamped id stands behind itself by chance.
    local span, counts, total, behind, runs, lines = math.min(64, last // 2), {}, 0, 0, 0, 0
    for batch in valued:rows() do
      local width = #batch.shape >= 2 and math.floor(batch.shape[#batch.shape]) or batch.numel
      lines = lines + (#batch.shape >= 2 and batch.shape[1] or 1)
      for line = 0, math.min(batch.numel, math.max(width, 262144)) - 1, math.max(1, width) do
        local ids = elements.of(batch, line, math.min(width, 262144))
        for i, id in ipairs(ids) do
          counts[id], total = (counts[id] or 0) + 1, total + 1
          if id == last and ids[i - 1] == last then runs = runs + 1 end
        end
        local stop, start = #ids, 1
        while stop > 0 and ids[stop] == last do stop = stop - 1 end
        while start <= stop and ids[start] == last do start = start + 1 end
        behind = behind + math.max(0, #ids - stop - 1) + math.max(0, start - 2)
      end
    end
    local others, most = {}, 0
    for id = last - span, last - 1 do others[#others + 1] = counts[id] or 0 end
    for id, times in pairs(counts) do if id ~= last then most = math.max(most, times) end end
    table.sort(others)
    local high, count = others[math.ceil(0.9 * #others)], counts[last] or 0
    if count < 20 or behind >= 0.5 * count or runs >= 0.75 * count then return end
    -- Marks between texts are as rare as texts are long, or never beside each other.
    local marks = count < 0.02 * total or count * count >= 5 * total and runs == 0
    if marks and not (tokenizer and tokenizer > rows) then return end
    if count >= case.options.factor * math.max(high, 1) then
      report {
        symptom = "token-ids-clamped", score = tokenizer and 0.95 or 0.85, at = { step = begin },
        message = ("the last id of the vocabulary, %d, is %s of %s dumped ids, %d times; of the %d ids before it nine "
          .. "in ten stand there at most %d times: larger ids look clamped to it, from the start"):format(last,
          units.percent(count / total), units.count(total), count, span, high),
        evidence = { valued },
      }
    -- Of equally common ids one may be ahead by a deviation, sqrt(c). A mark of an end stands about once a row.
    elseif count >= case.options.first * most and count - most >= 1.5 * math.sqrt(count) and count > 1.5 * lines then
      report {
        symptom = "token-ids-clamped", score = 0.65, at = { step = begin },
        message = ("the last id of the vocabulary, %d, is the most common one: %d times among %s dumped ids, the next "
          .. "%d times: larger ids look clamped to it, from the start"):format(last, count, units.count(total), most),
        evidence = { valued },
      }
    end
  end,
}
