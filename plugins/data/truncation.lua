--- ## What it detects
--- Rows of a dumped batch without a label that counts beside rows that have some; and among them those that fill the
--- whole width: they were cut off at the limit, and their answer and end with them. Where no config names the end token
--- it is the label that all shorter rows end in; rows that fill the width and end in another were cut. Where labels are
--- of no tokens, as of sound or images with lengths of their own: rows of the greatest number of labels whose inputs
--- are longer than those of so many labels are, by what shorter rows have, and a setting that is this number. Of what
--- is said of pictures and sounds: most texts as long as a limit of the settings, and none longer. Of documents that
--- are packed into rows, by position ids that begin anew: a quarter or more of one length, without an end token, while
--- none is longer and shorter ones have one.
---
--- ## Why it matters
--- A row without labels is paid for and teaches nothing; a batch of such rows alone has a loss of 0/0. Answers without
--- their end teach the model not to stop.
---
--- ## How to confirm
--- Count the lengths of the samples before they are cut, and how many are longer than the limit.
---
--- ## Known false positives
--- Rows of a conversation whose turns are by design not trained on, and rows whose labels are in another tensor, as
--- those of another task. Where labels leave nothing out a text is cut into pieces, all of which are learned. Of a
--- masked language model's rows a short one may have no hidden token: these are left out. Texts of one length by
--- nature, with a limit set to it, count for less, and so do those whose longest end in the same token as the shorter
--- ones: a limit may just fit them, or keep their end. Where all are of one length and end in one token there is next
--- to nothing to tell. Packed rows are all full: one of them that has an end token was not cut for having no label. The
--- last document of a packed row is cut by the row and does not count.
---
--- ## References
--- https://github.com/huggingface/trl/issues/1920

local elements = require("elements")
local lengths = require("row-lengths")
local masked  = require("masked")
local setting = require("settings").number
local sides = require("sides")

--- The last label of a row that counts, nil where none does, and how many behind it are ignored.
local function last_label(y, width, ignore)
  for t = width, 1, -1 do if y[t] ~= ignore then return y[t], width - t end end
end

--- The end token as the labels have it: what all rows that padding follows end in, of at least four. Sequences that end
--- in their own tokens do not agree in that.
local function common_end(lasts)
  local first = lasts[1]
  for _, id in ipairs(lasts) do if id ~= first then return nil end end
  return #lasts >= 4 and first or nil
end

--- How long the inputs and labels of the dumped rows are: two lists; empty where lengths of inputs are not dumped.
local function lengths_of_rows(dumped, ignore)
  local inputs, labels, first = {}, {}, nil
  for batch in dumped:where("match(name, 'batch.*label*|batch.*target*|batch.*transcript*|batch.*text*') and "
    .. "match(dtype, 'int*')"):slice(0, 100):rows() do
    local shape = batch.shape or {}
    local rows, width = shape[1] or 0, shape[2] or 0
    local here = dumped:where { run = batch.run, step = batch.step, variant = batch.variant, numel = rows }
      :where("match(dtype, 'int*')")
    local own  = here:where("match(name, '*transcript_len*|*target_len*|*label_len*|*labels_len*|*text_len*|*y_len*')")
      :first()
    local fed  = here:where("match(name, '*sig_len*|*signal_len*|*input_len*|*audio_len*|*feat*_len*|*frame*_len*|"
      .. "*src_len*|*x_len*|*wav_len*')"):first()
    if #shape == 2 and rows > 1 and width > 1 and fed and (own or batch:count_equal(ignore) > 0) then
      first = first or batch
      local said, counts = fed:values(0, rows), own and own:values(0, rows)
      for row = 1, rows do
        local count = counts and counts[row]
        if not count then
          count = 0
          for _, v in ipairs(batch:values((row - 1) * width, width)) do if v ~= ignore then count = count + 1 end end
        end
        inputs[#inputs + 1], labels[#labels + 1] = said[row], count
      end
    end
  end
  return inputs, labels, first
end

--- Whether rows of the most labels have inputs too long for them: in words, or nil; then the setting that is their
--- number, which `limit` finds, and whether there are no shorter rows to compare with.
local function cut_short(inputs, labels, limit)
  local most, n = 0, #labels
  for _, count in ipairs(labels) do most = math.max(most, count) end
  local named = limit(most)
  if n < 32 or most < 1 or not named then return nil end
  local count, x, y, xx, xy, at, long = 0, 0, 0, 0, 0, {}, 0
  for i = 1, n do
    if labels[i] < most then
      count, x, y = count + 1, x + labels[i], y + inputs[i]
      xx, xy = xx + labels[i] ^ 2, xy + labels[i] * inputs[i]
    else
      at[#at + 1] = inputs[i]
    end
  end
  table.sort(at)
  local few, many = at[math.ceil(0.1 * #at)], at[math.ceil(0.9 * #at)]
  -- All rows have as many: then nothing but their inputs' length speaks, that of the longest over that of the shortest.
  -- That is weak: number plates and codes are of one length, whatever their inputs are.
  if count == 0 then
    return many >= 1.5 * few and ("all %d dumped rows have %d labels, which is %s, though eight of ten inputs are "
      .. "%d to %d long"):format(n, most, named.key, few, many), named, true
  end
  local wide = xx - x * x / count
  if count < 8 or #at < 8 then return nil end
  -- Where all shorter rows have as many labels, more of them take proportionally more at most: no label takes nothing.
  local slope = wide > 0 and (xy - x * y / count) / wide or y / x
  local left = 0
  for i = 1, n do
    if labels[i] < most then left = left + (inputs[i] - y / count - slope * (labels[i] - x / count)) ^ 2 end
  end
  local expected, mean, spread = y / count + slope * (most - x / count), 0, 0
  for _, v in ipairs(at) do mean = mean + v / #at end
  for _, v in ipairs(at) do spread = spread + (v - mean) ^ 2 / #at end
  local error_ = math.sqrt(spread / #at + left / math.max(1, count - 2)
    * (1 / count + (wide > 0 and (most - x / count) ^ 2 / wide or 0)))
  if slope > 0 and mean - expected > 4 * error_ and mean - expected >= 0.5 * slope then
    return ("%d of %d dumped rows have %d labels, which is %s, and inputs %.3g long on average; by the shorter rows %d "
      .. "labels take %.3g"):format(#at, n, most, named.key, mean, most, expected), named
  end
end

--- Texts beside pictures or sounds, without labels of their own: they are what is to be found or told. How many tokens
--- each has, by its mask or up to the padding, and the last token of each.
local function lengths_of_texts(dumped, pad)
  local lengths, ends, first = {}, {}, nil
  if dumped:where("match(name, 'batch.*label*|batch.*target*')"):count() > 0 then return lengths, ends end
  for batch in dumped:where("match(name, 'batch.input_ids|batch.*caption*_ids|batch.text_ids|batch.tokens') and "
    .. "match(dtype, 'int*') and step is not null"):slice(0, 100):rows() do
    local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
    local shown = here:where("match(name, 'batch.*pixel*|batch.*image*|batch.*audio*|batch.*video*|batch.*mel*|"
      .. "batch.*waveform*') and match(dtype, 'float*|bfloat*|uint8')"):first()
    local shape = batch.shape or {}
    if shown and #shape == 2 and shown.shape and shown.shape[1] == shape[1] then
      local seen = here:where("match(name, '*attention_mask|*text_mask')"):where { numel = batch.numel }:first()
      local width = math.floor(shape[2])
      for line = 0, math.min(batch.numel, 65536) - width, width do
        -- Padding stands on either side; by no mask and no other name than its config's it is one id again and again.
        local ids, m = batch:values(line, width), seen and seen:values(line, width)
        local from, n = 1, width
        local function padded(t) if m then return m[t] == 0 end return pad and ids[t] == pad end
        while n > 0 and padded(n) do n = n - 1 end
        while from < n and padded(from) do from = from + 1 end
        while not m and n > from and ids[n] == ids[n - 1] do n = n - 1 end
        while not m and not pad and from < n and ids[from] == ids[from + 1] do from = from + 1 end
        lengths[#lengths + 1] = n - from + 1
        ends[#ends + 1] = n > 0 and ids[n] or -1
      end
      first = first or batch
    end
  end
  return lengths, ends, first
end

--- The documents of packed rows, by position ids that begin anew: how many tokens each has and whether it ends in the
--- end token. The last of a row is left out: the row's end cuts it by design. Nothing of rows of one document each.
---@return {most: integer, at: integer, endless: integer, shorter: integer, ended: integer, first: culprit.Row?}
local function packed_documents(dumped, eos, ignore)
  local found, documents = { most = 0, at = 0, endless = 0, shorter = 0, ended = 0 }, {}
  for counts in dumped:where("match(name, '*position_ids') and match(dtype, 'int*') and step is not null")
    :sort("step"):slice(0, 20):rows() do
    local here  = dumped:where { run = counts.run, step = counts.step, variant = counts.variant, numel = counts.numel }
    local ids   = sides.beside(here:where("match(name, '*input_ids') and match(dtype, 'int*')"), counts.name)
    local mask  = sides.beside(here:where("match(name, '*attention_mask')"), counts.name)
    local width = counts.shape and #counts.shape == 2 and math.floor(counts.shape[2]) or 0
    -- Of a text that is all learned a piece may end anywhere, as the next one goes on; of an answer nothing goes on.
    local truth = sides.beside(here:where("match(name, '*labels|*targets') and match(dtype, 'int*')"), counts.name)
    local asked = truth and truth:count_equal(ignore) >= 0.1 * truth.numel
    for line = 0, ids and asked and not mask and width > 2 and math.min(counts.numel, 65536) - width or -1, width do
      local at, id = elements.of(counts, line, width), elements.of(ids, line, width)
      local from = 1
      for t = 2, width do
        if at[t] ~= at[t - 1] + 1 then
          -- What begins anew begins at 0; padding stands still or counts from anywhere.
          if at[from] == 0 and at[t] == 0 then
            documents[#documents + 1] = { long = t - from, ended = id[t - 1] == eos }
            found.first = found.first or counts
          end
          from = t
        end
      end
      -- None is longer than the limit, the last of a row either.
      found.most = math.max(found.most, at[from] == 0 and width - from + 1 or 0)
    end
  end
  for _, one in ipairs(documents) do found.most = math.max(found.most, one.long) end
  for _, one in ipairs(documents) do
    if one.long == found.most then
      found.at, found.endless = found.at + 1, found.endless + (one.ended and 0 or 1)
    else
      found.shorter, found.ended = found.shorter + 1, found.ended + (one.ended and 1 or 0)
    end
  end
  return found
end

--- Reports packed documents that were cut before they were packed: many of the greatest length have no end token, where
--- the shorter ones have one, or, where there is none of these, the greatest length is a limit that the config sets.
local function cut_before_packing(case, dumped, eos, ignore)
  local seen  = eos and packed_documents(dumped, eos, ignore)
  local count = seen and seen.at + seen.shorter or 0
  if not seen or count < 12 or seen.at < 0.25 * count or seen.endless < 0.8 * seen.at then return false end
  local limit = case.config:where("match(key, '*max*len*|*truncat*|*max*token*|*cutoff*') and number == ?", seen.most)
    :first()
  if seen.ended < 0.9 * seen.shorter or seen.shorter == 0 and not limit then return false end
  report {
    symptom  = "rows-cut-at-limit",
    score    = (limit or seen.shorter >= 4) and 0.95 or 0.8,
    at       = { step = seen.first.step },
    message  = ("%d of %d documents in packed rows have %d tokens, %sand none has more; %d of them have no end "
      .. "token%s: they were cut before they were packed"):format(seen.at, count, seen.most,
      limit and ("which is %s, "):format(limit.key) or "", seen.endless,
      seen.shorter > 0 and (", while %d of the %d shorter ones have one"):format(seen.ended, seen.shorter) or ""),
    evidence = { seen.first, limit },
  }
  return true
end

--- Whether dumped batches have targets that are numbers and no sequence of ids: there is no text then whose end could
--- be lost.
local function numbers_alone(dumped)
  local batch = dumped:where("match(name, 'batch.*') and step is not null")
  if batch:where("match(name, '*target|*targets|*label|*labels|batch.y|*future_values') and "
    .. "match(dtype, 'float*|bfloat*')"):count() == 0 then return false end
  for row in batch:where("match(dtype, 'int*|uint*')"):slice(0, 200):rows() do
    if row.shape and #row.shape >= 2 and row.numel > row.shape[1] then return false end
  end
  return true
end

--- Whether labels leave out a tenth of the tokens that are given, or more: those of a question.
local function leaves_out(batch, ids, seen, pad, ignore)
  local n = math.min(batch.numel, 65536)
  local y, x = elements.of(batch, 0, n), elements.of(ids, 0, n)
  local s, tokens, out = seen and elements.of(seen, 0, n), 0, 0
  for i = 1, n do
    if s and s[i] ~= 0 or not s and x[i] ~= pad then
      tokens = tokens + 1
      if y[i] == ignore then out = out + 1 end
    end
  end
  return out >= 0.1 * tokens
end

--- The rows of a batch that have a label in another tensor of the same ids: each row is of one task of several.
---@param here culprit.Table  of one batch
---@param ids culprit.Row
---@param batch culprit.Row   the labels that are looked at
---@param ignore integer
---@return table<integer, boolean>  from 0
local function labelled_elsewhere(here, ids, batch, ignore)
  local out, rows = {}, math.floor(batch.shape[1])
  for other in here:where("match(name, '*label|*labels|*targets') and match(dtype, 'int*') and name != ?", batch.name)
    :slice(0, 8):rows() do
    local own = sides.beside(here:where("match(name, '*input_ids|*prev_output_tokens') and match(dtype, 'int*')"),
      other.name)
    if own and own.name == ids.name and other.shape[1] == rows then
      local width = other.numel // rows
      for row = 0, rows - 1 do
        for _, v in ipairs(elements.of(other, row * width, math.min(width, 4096))) do
          if v >= 0 and v ~= ignore then out[row] = true break end
        end
      end
    end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Rows were cut at the length limit and lost what is trained on",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "rows-cut-at-limit", "rows-without-labels" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    share  = { default = 0.01, doc = "Share of rows worth reporting" },
  },

  run = function(case)
    local opt    = case.options
    local dumped = case.tensors:where("zero_share is not null and not match(name, 'battery.*')")
    local pad, eos = setting(case, "pad_token_id"), setting(case, "eos_token_id")
    if cut_before_packing(case, dumped, eos, opt.ignore) then return end
    local cut_ended = 0 -- rows that are cut, and have an end all the same
    local rows, full, cut, endless, short, short_ended, empty, with = 0, 0, 0, 0, 0, 0, 0, 0
    local first, limit, judged
    local answered = false -- whether labels are of answers, and not of all that a row has
    local short_lasts, full_lasts = {}, {} -- the last labels of rows, where no eos_token_id is known
    for batch in dumped:where("match(name, '*labels|*targets') and match(dtype, 'int*')"):rows() do
      local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
      -- An encoder-decoder's labels belong to what its decoder is given.
      local decoder = here:where("match(name, '*decoder_input_ids|*prev_output_tokens') and match(dtype, 'int*')")
        :first()
      local ids   = decoder
        or sides.beside(here:where("match(name, '*input_ids') and match(dtype, 'int*')"), batch.name)
      local seen  = sides.beside(here:where(decoder and "match(name, '*decoder_attention_mask')"
        or "match(name, '*attention_mask')"):where("numel == ?", batch.numel), batch.name)
      if seen and not lengths.pads(seen) then seen = nil end
      local width = batch.shape[#batch.shape]
      if ids and ids.numel == batch.numel and (seen or pad) and width > 2 and width <= 10000
        and batch:count_equal(opt.ignore) > 0 then
        -- Where no label of the batch counts, no row lost its own to the limit.
        local none = batch:count_equal(opt.ignore) == batch.numel
        limit, judged = width, judged or batch
        local elsewhere = labelled_elsewhere(here, ids, batch, opt.ignore)
        answered = answered or decoder ~= nil or leaves_out(batch, ids, seen, pad, opt.ignore)
        for line = 0, math.min(batch.numel, 65536) - width, width do
          local y, x = batch:values(line, width), ids:values(line, width)
          local s, counted, ended = seen and seen:values(line, width), 0, false
          for t = 1, width do
            if y[t] ~= opt.ignore then counted = counted + 1 end
            if eos and t > 1 and (x[t] == eos or y[t] == eos) then ended = true end
          end
          local padded = s and (s[width] == 0 or s[1] == 0) or not s and (x[width] == pad or x[1] == pad)
          local last, behind = last_label(y, width, opt.ignore)
          -- Labels moved on by the collator leave the last place of a full row empty.
          if last and not eos and padded and behind > 0 then short_lasts[#short_lasts + 1] = last
          elseif last and not eos and not padded and behind <= 1 then full_lasts[#full_lasts + 1] = last end
          -- A row of another task has its labels in another tensor.
          local other = counted == 0 and elsewhere[line // width]
          rows = rows + (other and 0 or 1)
          if counted == 0 and not other then
            empty = empty + 1
            first = first or batch
          elseif counted > 0 then
            with = with + 1
          end
          if not other and padded then
            short = short + 1
            if ended then short_ended = short_ended + 1 end
          elseif not other then
            full = full + 1
            if counted == 0 and not none then
              cut = cut + 1
              if ended then cut_ended = cut_ended + 1 end
            end
            if eos and not ended then endless = endless + 1 first = first or batch end
          end
        end
      end
    end
    if rows == 0 then
      local inputs, counts, batch = lengths_of_rows(dumped, opt.ignore)
      if batch and #counts >= 32 then
        local words, limit_, weak = cut_short(inputs, counts, function(n)
          return case.config:where("match(key, '*max*len*|*max*label*|*max*target*|*max*text*|*max*transcript*|*limit*|"
            .. "*truncat*') and number == ?", n):first()
        end)
        if words then
          report {
            symptom  = "rows-cut-at-limit",
            score    = weak and 0.6 or 0.9,
            at       = { step = batch.step },
            message  = words .. (weak and ": cut off there, unless labels are of one length"
              or ": their labels were cut off there"),
            evidence = { batch, limit_ },
          }
        end
        return skip("rows of tokens of which some are ignored", "rows-without-labels")
      end
      local texts, ends, said = lengths_of_texts(dumped, pad)
      if said and #texts >= 32 then
        local most, at, others = 0, 0, 0
        for _, n in ipairs(texts) do most = math.max(most, n) end
        local last, kept = {}, 0 -- what shorter texts end in; longest ones that do so
        for i, n in ipairs(texts) do
          if n == most then at = at + 1 else others, last[ends[i]] = others + 1, true end
        end
        for i, n in ipairs(texts) do if n == most and last[ends[i]] then kept = kept + 1 end end
        local sure = others > 0 and kept < 0.5 * at
        -- Texts of one length that end in one id were not cut.
        local lasts_, common_ = {}, 0
        for i, n in ipairs(texts) do
          if n == most then
            lasts_[ends[i]] = (lasts_[ends[i]] or 0) + 1
            common_ = math.max(common_, lasts_[ends[i]])
          end
        end
        local whole = others == 0 and common_ >= 0.9 * at
        local limit_ = case.config:where("match(key, '*max*len*|*context_length|*max*token*|*max*word*|*max_text*|"
          .. "*max*caption*|*truncat*') and number == ?", most):first()
        -- Long rows that are all full are packed, or cut out of something longer on purpose.
        if limit_ and most >= 3 and at >= 0.5 * #texts and (others > 0 or most <= 256) then
          report {
            symptom  = "rows-cut-at-limit",
            score    = sure and 0.9 or others > 0 and 0.8 or whole and 0.3 or 0.7,
            at       = { step = said.step },
            message  = ("%d of %d dumped texts have %d tokens, which is %s, and none has more: %s"):format(at, #texts,
              most, limit_.key, sure and "what else was said was cut off"
              or others > 0 and "what else was said was cut off, unless so many are as long by themselves"
              or "cut off there, unless they are of one length"),
            evidence = { said, limit_ },
          }
        end
        return skip("rows of tokens of which some are ignored", "rows-without-labels")
      end
      if numbers_alone(dumped) then return end
      return skip("a dumped batch with labels of which some are ignored, and padding that attention_mask or "
        .. "pad_token_id "
        .. "in config.json tells (culprit_recorder.watch)")
    end
    if masked.by(case) then return skip("rows of which more is trained on than a few hidden tokens") end
    if with == 0 then return end -- every label ignored is another matter
    local common = not eos and common_end(short_lasts)
    for _, last in ipairs(common and full_lasts or {}) do if last ~= common then endless = endless + 1 end end
    if common then short_ended = short end
    -- Where all rows are full, packed ones or pieces of a text, that says nothing of one that has an end.
    if short == 0 then cut = cut - cut_ended end
    -- Shorter rows end with eos and full ones do not: the end was cut.
    -- Of a text that is all learned a piece may end anywhere, as the next one goes on.
    local lost = answered and short_ended >= 0.8 * short and short > 0 and endless or 0
    if math.max(cut, lost) >= math.max(1, opt.share * rows) then
      report {
        symptom  = "rows-cut-at-limit",
        score    = cut > 0 and 0.95 or 0.85,
        at       = { step = (first or judged).step },
        message  = ("%d of %d dumped rows fill all %d places; %d of them have no label that counts and %d no "
          .. "end token, "
          .. "while %d of the %d shorter rows have one: they were cut at the limit"):format(full, rows, limit,
            cut, lost,
          short_ended, short),
        evidence = { first or judged },
      }
    end
    if empty - cut >= math.max(1, opt.share * rows) then
      report {
        symptom  = "rows-without-labels",
        score    = 0.9,
        at       = { step = first.step },
        message  = ("%d of %d dumped rows have no label that counts although they are not cut off; %d others have some")
          :format(empty - cut, rows, with),
        evidence = { first },
      }
    end
  end,
}
