--- ## What it detects
--- Rows of a dumped batch without a label that counts beside rows that have some; and among them those that fill the
--- whole width: they were cut off at the limit, and their answer and end with them. Where no config names the end token
--- it is the label that all shorter rows end in; rows that fill the width and end in another were cut.
---
--- ## Why it matters
--- A row without labels is paid for and teaches nothing; a batch of such rows alone has a loss of 0/0. Answers without
--- their end teach the model not to stop.
---
--- ## How to confirm
--- Count the lengths of the samples before they are cut, and how many are longer than the limit.
---
--- ## Known false positives
--- Rows of a conversation whose turns are by design not trained on. Of a masked language model's rows a short one may
--- have no hidden token: these are left out.
---
--- ## References
--- https://github.com/huggingface/trl/issues/1920

local masked  = require("masked")
local setting = require("settings").number

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
    local rows, full, cut, endless, short, short_ended, empty, with = 0, 0, 0, 0, 0, 0, 0, 0
    local first, limit, judged
    local short_lasts, full_lasts = {}, {} -- the last labels of rows, where no eos_token_id is known
    for batch in dumped:where("match(name, '*labels|*targets') and match(dtype, 'int*')"):rows() do
      local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
      -- An encoder-decoder's labels belong to what its decoder is given.
      local decoder = here:where("match(name, '*decoder_input_ids|*prev_output_tokens') and match(dtype, 'int*')")
        :first()
      local ids   = decoder or here:where("match(name, '*input_ids') and match(dtype, 'int*')"):first()
      local seen  = here:where(decoder and "match(name, '*decoder_attention_mask')"
        or "match(name, '*attention_mask')"):where("numel == ?", batch.numel):first()
      local width = batch.shape[#batch.shape]
      if ids and ids.numel == batch.numel and (seen or pad) and width > 2 and width <= 10000
        and batch:count_equal(opt.ignore) > 0 then
        limit, judged = width, judged or batch
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
          rows = rows + 1
          if counted == 0 then
            empty = empty + 1
            first = first or batch
          else
            with = with + 1
          end
          if padded then
            short = short + 1
            if ended then short_ended = short_ended + 1 end
          else
            full = full + 1
            if counted == 0 then cut = cut + 1 end
            if eos and not ended then endless = endless + 1 first = first or batch end
          end
        end
      end
    end
    if rows == 0 then
      return skip("a dumped batch with labels of which some are ignored, and padding that attention_mask or "
        .. "pad_token_id "
        .. "in config.json tells (culprit_recorder.watch)")
    end
    if masked.by(case) then return skip("rows of which more is trained on than a few hidden tokens") end
    if with == 0 then return end -- every label ignored is another matter
    local common = not eos and common_end(short_lasts)
    for _, last in ipairs(common and full_lasts or {}) do if last ~= common then endless = endless + 1 end end
    if common then short_ended = short end
    -- Shorter rows end with eos and full ones do not: the end was cut.
    local lost = short_ended >= 0.8 * short and short > 0 and endless or 0
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
