--- ## What it detects
--- What is to be learned was cut before it was put into rows, so that no row is full. Of speech from text: rows whose
--- last symbols have no frame at all, each of which has exactly as many frames as the longest row has, while no shorter
--- row ends so. Of answers: as many tokens in many rows, no row with more, and none of these with the end token that
--- shorter answers have; or all with the number of a setting, of which fewer than half have the end. Of rows with room
--- behind them: all of one length, or most and none longer, some with an end token or a label and some without.
---
--- ## Why it matters
--- A model of durations learns that what comes late in a sentence takes no time, and a model of answers never to stop.
--- Validation on whole sentences shows the first; of the second nothing is seen before it generates.
---
--- ## How to confirm
--- Count the lengths of the samples before they are cut, and how many are longer than the limit.
---
--- ## Known false positives
--- A symbol that nobody hears has no frame, at the end of a sentence as well: rows that are no longer than others end
--- so too, and one of them is enough to be silent. Answers of one length by nature that are trained without an end
--- token, where a limit is set to their length.
---
--- ## References
--- https://github.com/ming024/FastSpeech2 (durations that sum up to the frames),
--- https://huggingface.co/docs/trl/v0.11.4/en/dpo_trainer (max_completion_length)

local elements = require("elements")
local setting  = require("settings").number
local masked   = require("masked")
local sides    = require("sides")

--- The rows of dumped durations: { frames, how many of the last symbols have none }; nothing of a row whose durations
--- are no sum of its frames.
local function timed_rows(dumped)
  local rows, first = {}, nil
  for durations in dumped:where("match(name, 'batch.*duration*') and not match(name, '*log*')"):sort("step")
    :slice(0, 100):rows() do
    local shape = durations.shape or {}
    local here = dumped:where { run = durations.run, step = durations.step, variant = durations.variant,
      rank = durations.rank, numel = shape[1] }
    local frames  = here:where("match(name, '*mel_len*|*frame*_len*|*spec_len*|*target_len*|*output_len*')"):first()
    local symbols = here:where("match(name, '*src_len*|*text_len*|*phone*_len*|*token_len*|*input_len*')"):first()
    if #shape == 2 and frames and symbols then
      local width = math.floor(shape[2])
      local long, many = elements.of(frames, 0, frames.numel), elements.of(symbols, 0, symbols.numel)
      for row = 1, math.min(shape[1], 65536 // width) do
        local d, sum, none = durations:values((row - 1) * width, width), 0, 0
        for t = 1, math.min(width, many[row]) do
          sum  = sum + d[t]
          none = d[t] == 0 and none + 1 or 0
        end
        if sum == long[row] and sum > 0 then
          rows[#rows + 1], first = { frames = sum, none = none }, first or durations
        end
      end
    end
  end
  return rows, first
end

--- The answers of dumped rows that padding follows: { tokens, whether one is the end }.
local function answers(dumped, eos, ignore)
  local rows, first = {}, nil
  for labels in dumped:where("match(name, '*labels|*targets')"):sort("step"):slice(0, 200):rows() do
    local shape = labels.shape or {}
    local here  = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank,
      numel = labels.numel }
    -- An encoder-decoder's labels begin with the answer: the question is the encoder's.
    local decoder = here:where("match(name, '*decoder_input_ids|*prev_output_tokens')"):first()
    local ids   = decoder or sides.beside(here:where("match(name, '*input_ids')"), labels.name)
    local width = #shape == 2 and math.floor(shape[2]) or 0
    local last_row = ids and width > 3 and math.min(labels.numel, 65536) - width or -1
    for line = 0, last_row, math.max(width, 1) do
      local y, x, n, from, last = labels:values(line, width), ids:values(line, width), 0, nil, nil
      for t = 1, width do
        if y[t] >= 0 and y[t] ~= ignore then n, from, last = n + 1, from or t, t end
      end
      -- One answer behind a question, with room left in its row. A decoder may be given the end token to begin with.
      if n > 0 and (from > 2 or decoder) and last < width and last - from + 1 == n then
        local ended = false
        for t = from, math.min(width, last + 1) do ended = ended or y[t] == eos or not decoder and x[t] == eos end
        rows[#rows + 1], first = { tokens = n, ended = ended }, first or labels
      end
    end
  end
  return rows, first
end

--- The texts of dumped rows: { tokens, whether the end token is among them, whether a label counts, whether the row is
--- full }; nothing where labels leave out less than a tenth of them, as of a text whose pieces end anywhere.
local function texts(dumped, eos, pad, ignore)
  local rows, first, tokens, out = {}, nil, 0, 0
  for labels in dumped:where("match(name, '*labels|*targets')"):sort("step"):slice(0, 200):rows() do
    local shape = labels.shape or {}
    local here  = dumped:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank,
      numel = labels.numel }
    local ids   = sides.beside(here:where("match(name, '*input_ids') and not match(name, '*decoder*')"), labels.name)
    local mask  = sides.beside(here:where("match(name, '*attention_mask')"), labels.name)
    local width = #shape == 2 and math.floor(shape[2]) or 0
    local last_row = ids and (mask or pad) and pad ~= eos and width > 3 and math.min(labels.numel, 65536) - width or -1
    for line = 0, last_row, math.max(width, 1) do
      local y, x, n = labels:values(line, width), ids:values(line, width), width
      local m = mask and mask:values(line, width)
      while n > 0 and (m and m[n] == 0 or not m and x[n] == pad) do n = n - 1 end
      local row = { tokens = n, ended = false, counts = false, full = n == width }
      for t = 1, n do
        local counts = y[t] >= 0 and y[t] ~= ignore
        row.ended, row.counts = row.ended or t > 1 and x[t] == eos, row.counts or counts
        tokens, out = tokens + 1, out + (counts and 0 or 1)
      end
      rows[#rows + 1], first = row, first or labels
    end
  end
  return out >= 0.1 * tokens and rows or {}, first
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "What is to be learned was cut before it was put into rows",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "rows-cut-at-limit" },
  options  = {
    ignore = { default = -100, doc = "Label that the loss leaves out" },
    rows   = { default = 16,   doc = "Rows below which nothing is judged" },
    share  = { default = 0.1,  doc = "Share of the rows that have the greatest length, below which none was set" },
  },

  run = function(case)
    local opt = case.options
    local dumped = case.tensors:where("match(dtype, 'int*') and zero_share is not null")
      :where("not match(name, 'battery.*')")
    local judged = false

    local timed, durations = timed_rows(dumped)
    if #timed >= opt.rows then
      judged = true
      local most, at, lost, elsewhere = 0, 0, 0, 0
      for _, row in ipairs(timed) do most = math.max(most, row.frames) end
      for _, row in ipairs(timed) do
        local longest = row.frames == most
        at = at + (longest and 1 or 0)
        if row.none > 0 and longest then lost = lost + 1 elseif row.none > 0 then elsewhere = elsewhere + 1 end
      end
      if lost >= 4 and elsewhere == 0 and at >= opt.share * #timed then
        local limit = case.config:where("match(key, '*max*len*|*max*frame*|*segment*|*limit*') and number == ?", most)
          :first()
        report {
          symptom  = "rows-cut-at-limit",
          score    = 0.95,
          at       = { step = durations.step },
          message  = ("%d of %d dumped rows have %d frames%s, and none has more; in %d of them the last symbols have "
            .. "no frame, and in none of the %d shorter rows: frames were cut off and their symbols were not"):format(
            at, #timed, most, limit and (", which is %s"):format(limit.key) or "", lost, #timed - at),
          evidence = { durations, limit },
        }
      end
    end

    local eos = setting(case, "eos_token_id")
    local said, labels = answers(dumped, eos, opt.ignore)
    if eos and #said >= opt.rows then
      judged = true
      local most, at, endless, shorter, ended = 0, 0, 0, 0, 0
      for _, row in ipairs(said) do most = math.max(most, row.tokens) end
      for _, row in ipairs(said) do
        if row.tokens == most then
          at, endless = at + 1, endless + (row.ended and 0 or 1)
        else
          shorter, ended = shorter + 1, ended + (row.ended and 1 or 0)
        end
      end
      local limit = case.config:where("match(key, '*max*completion*|*max*answer*|*max*response*|*max*target*|"
        .. "*max*output*|*max*new_tokens*|*max*len*') and number == ?", most):first()
      local told = shorter >= 4 and ended >= 0.9 * shorter
      -- Some that are as long as the limit may end there by themselves.
      local fits = at - endless
      local cut  = endless == at or (told or shorter == 0 and fits >= 4) and endless >= math.max(4, 0.5 * at)
      if most >= 2 and at >= math.max(4, opt.share * #said) and cut and (told or shorter == 0 and limit) then
        report {
          symptom  = "rows-cut-at-limit",
          score    = (told and fits == 0 or fits >= 4) and 0.93 or 0.85,
          at       = { step = labels.step },
          message  = ("%d of %d answers of dumped rows have %d tokens%s, and none has more; %s of them %s the end "
            .. "token (id %d)%s: they were cut off there"):format(at, #said, most,
            limit and (", which is %s"):format(limit.key) or "", fits == 0 and "none" or tostring(fits),
            fits > 1 and "have" or "has", eos,
            told and (", which %d of the %d shorter ones have"):format(ended, shorter) or ""),
          evidence = { labels, limit },
        }
      end
    end
    -- Rows of one length that leave room: what is as long by itself ends alike, or counts alike.
    local all, dump = texts(dumped, eos, setting(case, "pad_token_id"), opt.ignore)
    if eos and #all >= opt.rows and not masked.by(case) then
      judged = true
      local most, at, endless, bare, other, full = 0, 0, 0, 0, 0, 0
      for _, row in ipairs(all) do most = math.max(most, row.tokens) end
      for _, row in ipairs(all) do
        full = full + (row.full and 1 or 0)
        if row.tokens < most then other = other + (row.ended and 0 or 1) else
          at = at + 1
          endless, bare = endless + (row.ended and 0 or 1), bare + (row.counts and 0 or 1)
        end
      end
      local shorter = #all - at
      local unlike  = endless > 0 and (endless < at or bare > 0 and bare < at)
      local usual   = shorter >= 4 and other == 0 and endless >= 0.5 * at
      if full == 0 and most >= 4 and at >= math.max(8, 0.5 * #all) and other == 0
        and (shorter == 0 and unlike and endless >= 0.25 * at or usual) then
        report {
          symptom  = "rows-cut-at-limit",
          score    = 0.9,
          at       = { step = dump.step },
          message  = ("%d of %d dumped rows have %d tokens and room for more, and none has more: %d of them lack "
            .. "the end token (id %d)%s: they were cut off there"):format(at, #all, most, endless, eos,
            bare > 0 and (", and %d have no label that counts"):format(bare)
            or shorter > 0 and (", which all %d shorter ones have"):format(shorter) or ", and the others have it"),
          evidence = { dump },
        }
      end
    end
    if not judged then
      skip(("durations beside the lengths of symbols and frames of %d rows in dumped batches, or as many answers with "
        .. "padding behind them, and eos_token_id"):format(opt.rows))
    end
  end,
}
