--- ## What it detects
--- What the loss counts beside the answers: labels at padding, labels at tokens that the batch's own mask
--- (`assistant_masks`, `loss_mask`, `completion_mask`) marks as no answer, and end tokens whose labels are all ignored.
--- Without such a mask: rows that count from their first token on, beside rows whose question is left out; and labels
--- that are the token in whose places pictures or sounds are read. Of a masked language model: that most tokens count
--- where the config hides a share, and stand there to be read.
---
--- ## Why it matters
--- Padding in the loss makes its mean small and the model fond of padding; trained questions dilute the answers. With
--- pad equal to eos, masking the one masks the other, and the model never learns to stop.
---
--- ## How to confirm
--- Print one row with the counted labels marked.
---
--- ## Known false positives
--- A loss may leave out more than its labels say: the id of padding, or what a mask of its own hides. So labels alone
--- are believed only where some of them are ignored; where none is, logits beside the loss have to show that it counts
--- all of them, but for a batch as models of transformers are given it, of which that is half sure. A mask that is
--- called the loss's own (`loss_mask`) is one that the loss applies, unless they show it. Idefics and its kin leave out
--- labels that are the image token, as `ignore_index`; where padding is labelled with it, it is taken to be left out.
---
--- Labels that are not the token that the mask stands at belong to another place, and it says nothing of them. Nor does
--- a mask with as many zeros among its ones as at the ends of rows say where padding is: it is of what is hidden or
--- missing. Of answers of one token each the end need not be learned. A masked language model's labels may be the whole
--- text, where another tensor marks what counts.
---
--- Texts of pre-training mixed into a batch of conversations count as a whole, rightly. Questions trained on purpose;
--- say so in the config (`train_on_inputs`, `train_on_prompt`), and they are left out. Ends are seldom among the tokens
--- that a masked language model is asked for, and are not looked at there. Labels of another kind than tokens, one for
--- each token, as of names or parts of speech, stand at their own place and have neither questions nor ends.
---
--- ## References
--- https://github.com/huggingface/trl/issues/1920

local elements = require("elements")
local masked  = require("masked")
local lengths = require("row-lengths")
local logits_of = require("logits")
local setting = require("settings").number
local sides = require("sides")

local DELIBERATE = "match(key, '*train_on_input*|*train_on_prompt*') and (number != 0 or value == 'true')"
local DECLINED   = "match(key, '*assistant_only_loss|*completion_only_loss|*mask_prompt*') and (number == 0 or "
  .. "value == 'false')"

--- Whether the loss of a dumped batch is the mean over all labels that it does not ignore, and not over those alone
--- that `kept` keeps; nil where logits or the loss are not dumped, or both are nearly the same.
---@param case culprit.Case
---@param labels culprit.Row
---@param ignore integer
---@param kept fun(i: integer): boolean   of the i-th label, from 1
---@return boolean?
local function counts_all(case, labels, ignore, kept)
  local loss = case.tensors:where { run = labels.run, step = labels.step, variant = labels.variant }
    :where("match(name, 'loss.output') and numel == 1"):first()
  local value = loss and loss.mean
  local logits = value and value == value and labels.max >= 0 and logits_of.of(case, labels)
  local size = logits and math.floor(logits.shape[#logits.shape])
  if not size or labels.numel * size > 2000000 then return nil end
  local all, n, own, m = 0, 0, 0, 0
  for i, y in ipairs(elements.of(labels, 0, labels.numel)) do
    if y >= 0 and y ~= ignore then
      local cost = logits_of.cost(logits, i - 1, y)
      all, n = all + cost, n + 1
      if kept(i) then own, m = own + cost, m + 1 end
    end
  end
  if n == 0 or m == 0 or math.abs(all / n - own / m) <= 0.02 * all / n then return nil end
  if math.abs(value - all / n) <= 0.2 * math.abs(all / n - own / m) then return true end
  return false
end

--- A tensor of the batch that marks the places to be told, so that labels need not: ones and zeros of the labels'
--- shape, few ones, and each id that is another than its label stands at one. Nil where none does.
---@param here culprit.Table  of one batch
---@param ids culprit.Row
---@param labels culprit.Row
---@return culprit.Row?
local function marks_places(here, ids, labels)
  local n = math.min(labels.numel, 65536)
  for mask in here:where { numel = labels.numel }:where("match(name, 'batch.*') and min == 0 and max == 1 and "
    .. "not match(name, '*attention*')"):slice(0, 8):rows() do
    local x, y, m = elements.of(ids, 0, n), elements.of(labels, 0, n), elements.of(mask, 0, n)
    local other, outside, ones = 0, 0, 0
    for i = 1, n do
      if m[i] == 1 then ones = ones + 1 end
      if x[i] ~= y[i] then
        other = other + 1
        if m[i] ~= 1 then outside = outside + 1 end
      end
    end
    if other >= 8 and outside == 0 and ones < 0.5 * n then return mask end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss counts padding or questions, or never an end token",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "padding-trained", "prompt-trained", "eos-ignored" },
  options  = {
    ignore  = { default = -100, doc = "Label that the loss leaves out" },
    share   = { default = 0.02, doc = "Share of padding or questions among the counted labels, worth reporting" },
    padding = { default = 0.08, doc = "Share of all padding that is trained on, below which labels fell there by "
      .. "chance" },
  },

  run = function(case)
    local opt    = case.options
    local ignore = masked.ignored(case, opt.ignore)
    local dumped = case.tensors:where("zero_share is not null and not match(name, 'battery.*')")
    local pad, eos = setting(case, "pad_token_id"), setting(case, "eos_token_id")
    local n = { counted = 0, padding = 0, prompt = 0, marked = 0, masked = 0, eos = 0, eos_counted = 0, standing = 0,
      instead = 0, stands = 0 }
    -- The id in whose places a model reads a picture or a sound: what stands there is no word that anyone could say.
    local stand_in = case.config:where("match(key, '*image_token_id|*image_token_index|*video_token_id|"
      .. "*video_token_index|*audio_token_id|*audio_token_index') and number >= 0"):first()
    local first, mask_name
    ---@type integer, integer, table?, boolean
    local whole, asked, whole_row, tagged = 0, 0, nil, false
    local unlike = false -- labels of some batch are not its tokens
    local padding = lengths.padding()
    local ignored, padding_counts, prompt_counts = 0, nil, nil -- labels that say so; what losses show that they count
    local hides = case.config:where("match(key, '*mlm_probability|*mlm_prob|*masking_ratio|*masking_prob')")
      :where("number > 0 and number < 0.5"):first()
    hides = masked.by(case) and hides or nil -- a collator has that share even where it hides nothing
    local shown = { text = 0, counted = 0, given = 0 } -- of a masked language model
    local marks ---@type culprit.Row?
    local answers, longest = 0, 0 -- rows that count any label; the most labels that one of them counts
    for batch in dumped:where("match(name, '*labels|*targets') and match(dtype, 'int*')"):rows() do
      local here  = dumped:where { run = batch.run, step = batch.step, variant = batch.variant }
      -- An encoder-decoder's labels belong to what its decoder is given, each to the place that predicts it.
      local decoder = here:where("match(name, '*decoder_input_ids|*prev_output_tokens') and match(dtype, 'int*')")
        :first()
      local ids   = decoder
        or sides.beside(here:where("match(name, '*input_ids') and match(dtype, 'int*')"), batch.name)
      local width = batch.shape[#batch.shape]
      if ids and ids.numel == batch.numel and width > 1 and width <= 10000 then
        local seen   = sides.beside(here:where(decoder and "match(name, '*decoder_attention_mask')"
          or "match(name, '*attention_mask')"):where("numel == ?", ids.numel), batch.name)
        if seen and not lengths.pads(seen) then seen = nil end
        local answer = sides.beside(here:where("match(name, '*assistant_mask*|*loss_mask|*completion_mask')")
          :where("numel == ?", ids.numel), batch.name)
        mask_name = mask_name or answer and answer.name
        -- Labels stand at their token, or one place before it.
        local ahead, same = batch:equal_share(ids, 1, ignore) or 0, batch:equal_share(ids, 0, ignore) or 0
        local function counting(label) return label >= 0 and label ~= ignore end
        local beside, outside = {}, {}
        -- Labels that are no tokens, as of names and parts of speech, have neither questions nor ends. That some have
        -- the number of the next token says nothing.
        local tags = not decoder and math.max(ahead, same) < 0.5 and (batch.max or 0) < 0.5 * (ids.max or 0)
        -- Labels of masked tokens stand at their own places, and few of them are what is given there.
        local own  = decoder or tags or ahead < 0.5 and masked.by(case) ~= nil
        local lag  = not own and ahead > same and (ahead >= 0.5 or ahead >= 3 * same + 0.1) and 1 or 0
        -- What a decoder is given are its labels moved on by a place: the one before an end token says it. Labels that
        -- are the tokens of no place do not say which of them stands for an end.
        local ends = decoder and ahead > same and 1 or lag
        local told = eos and math.max(ahead, same) >= 0.5
        if tags then tagged = true end
        if eos and not told then unlike = true end
        marks = marks or hides and marks_places(here, ids, batch)
        first = first or batch
        if seen then lengths.add_padding(padding, ids, seen, batch, ignore) end
        for line = 0, math.min(batch.numel, 65536) - width, width do
          local y, x = batch:values(line, width), ids:values(line, width)
          local counted = 0
          for t = 1, width do
            counted = counted + (counting(y[t]) and 1 or 0)
            if stand_in and not decoder and x[t] == stand_in.number then n.stands = n.stands + 1 end
            if stand_in and not decoder and y[t] == stand_in.number then
              local here_ = x[math.min(t + lag, width)] == y[t]
              n.standing, n.instead = n.standing + (here_ and 1 or 0), n.instead + (here_ and 0 or 1)
            end
          end
          ignored, longest = ignored + width - counted, math.max(longest, counted)
          answers = answers + (counted > 0 and 1 or 0)
          local s, a = seen and seen:values(line, width), answer and answer:values(line, width)
          local text = width -- the last place that is no padding
          while text > 0 and (s and s[text] == 0 or not s and pad and x[text] == pad) do text = text - 1 end
          -- Where pad is eos and no mask tells, the first of the trailing ones ends the text.
          if not s and pad and pad == eos and text < width then text = text + 1 end
          local begin = 1
          while s and begin < text and s[begin] == 0 do begin = begin + 1 end
          -- The first token is nobody's label. A question has three tokens at least.
          local left, rest = 0, 0
          for t = begin + 1 - lag, text - lag do
            if t >= 1 and counting(y[t]) then rest = rest + 1 elseif rest == 0 then left = left + 1 end
          end
          if text - begin >= 8 and rest > 0 then
            if rest >= text - begin then
              whole, whole_row = whole + 1, whole_row or { batch = batch, line = line / width }
            elseif left >= 3 then
              asked = asked + 1
            end
          end
          for t = begin, hides and not decoder and lag == 0 and text or 0 do
            shown.text = shown.text + 1
            if counting(y[t]) then
              shown.counted, shown.given = shown.counted + 1, shown.given + (y[t] == x[t] and 1 or 0)
            end
          end
          for t = 1, width - lag do
            local at, counts = t + lag, counting(y[t])
            if counts then n.counted = n.counted + 1 end
            if at > text or at < begin then
              n.masked = n.masked + 1
              -- With eos as padding the first one after the text is an end that should be learned.
              if counts and not (at == text + 1 and x[at] == eos) then
                n.padding, beside[line + t] = n.padding + 1, true
              end
            elseif a and a[at] == 0 then
              n.marked = n.marked + 1
              -- A mask tells of the token that it stands at, and of no label that is another one.
              if counts and (own or y[t] == x[at]) then n.prompt, outside[line + t] = n.prompt + 1, true end
            end
          end
          -- The end of what counts: one behind what is left out ends a question, or stands between texts.
          for t = 1, told and width - ends or 0 do
            local at, counts = t + ends, counting(y[t])
            if x[at] == eos and at > 1 and x[at - 1] ~= eos and (not a or a[at] == 1 or at == text + 1)
              and (counts or t > 1 and counting(y[t - 1])) then
              n.eos = n.eos + 1
              if counts then n.eos_counted = n.eos_counted + 1 end
            end
          end
        end
        if lag == 0 or ahead >= 0.5 then
          -- Labels that the collator moved on stand at the place of the logits that say them.
          if next(beside) and padding_counts == nil then
            padding_counts = counts_all(case, batch, ignore, function(i) return not beside[i] end)
          end
          if next(outside) and prompt_counts == nil then
            prompt_counts = counts_all(case, batch, ignore, function(i) return not outside[i] end)
          end
        end
      end
    end
    if not first or n.counted == 0 then
      return skip("a dumped batch with labels that count beside input_ids of their shape (culprit_recorder.watch)")
    end
    -- Without logits labels that ignore some are believed, but for a mask that is the loss's own.
    local function believed(counts, own) return counts or counts == nil and ignored > 0 and not own end
    -- What models of transformers are given: they take the loss themselves, and ignore -100 alone.
    local inside = first.name == "batch.labels" and masked.ignored(case, opt.ignore) == -100
      and dumped:where("name == 'batch.attention_mask'"):where { step = first.step, run = first.run }:count() > 0
    local unknown = "logits and the loss of a dumped batch, to tell whether it counts what is not ignored"
    local deliberate = case.config:where(DELIBERATE):first() or case.config:where(DECLINED):first()
    local tags_mask = tagged and sides.beside(dumped:where("match(name, '*attention_mask')")
      :where("numel == ? and step == ?", first.numel, first.step), first.name)
    if lengths.alien_padding(padding) or tags_mask and lengths.of_other_rows(tags_mask, first, ignore) then
      skip("labels of the rows that they stand beside: where they end is not where the tokens do", "padding-trained")
    elseif n.padding / n.counted >= opt.share and not believed(padding_counts, false)
      and not (padding_counts == nil and inside) then
      if padding_counts == nil then skip(unknown, "padding-trained") end
    -- Who counts padding counts all of it, or the part of it that is masked as text is.
    elseif n.padding / n.counted >= opt.share
      and n.padding >= math.min(opt.padding, hides and hides.number / 2 or 1) * n.masked then
      report {
        symptom = "padding-trained", score = believed(padding_counts, false) and 0.97 or 0.5,
        at = { step = first.step },
        message = ("%s of the labels that the loss counts are padding (%s of %s): %s of all padding is trained on")
          :format(units.percent(n.padding / n.counted), units.count(n.padding), units.count(n.counted),
            units.percent(n.padding / n.masked)),
        evidence = { first },
      }
    end
    if not deliberate and n.prompt / n.counted >= opt.share
      and not believed(prompt_counts, mask_name:glob("*loss_mask")) then
      if prompt_counts == nil then skip(unknown, "prompt-trained") end
    elseif not deliberate and n.prompt / n.counted >= opt.share then
      report {
        symptom = "prompt-trained", score = 0.97, at = { step = first.step },
        message = ("%s of the labels that the loss counts lie outside of %s (%s of %s), and no setting asks for it")
          :format(units.percent(n.prompt / n.counted), mask_name, units.count(n.prompt), units.count(n.counted)),
        evidence = { first },
      }
    end
    local leaves = case.config:where("match(key, '*model_type') and match(value, '*idefics*|*smolvlm*')"):count() > 0
    -- Some models leave out that very id, and their padding is labelled with it as well.
    if not deliberate and not leaves and n.instead == 0 and n.standing >= math.max(8, opt.share * n.counted) then
      report {
        symptom = "prompt-trained", score = 0.9, at = { step = first.step },
        message = ("%s of the labels that the loss counts are %d, the %s (%s of %s): it stands for what is shown, and "
          .. "nobody says it"):format(units.percent(n.standing / n.counted), math.floor(stand_in.number), stand_in.key,
          units.count(n.standing), units.count(n.counted)),
        evidence = { first, stand_in },
      }
    elseif not deliberate and not tagged and not mask_name and whole > 0 and asked >= 2 and asked >= whole then
      report {
        symptom = "prompt-trained", score = 0.4, at = { step = whole_row.batch.step },
        message = ("%d of %d rows count from their first token on, the question too, while the loss of the others "
          .. "begins at their answer: the answer was not found in them (row %d of step %d is one)"):format(whole,
          whole + asked, whole_row.line + 1, whole_row.batch.step or 0),
        evidence = { whole_row.batch },
      }
    end
    -- Of the words that are chosen to be said some stay as they are, a tenth mostly.
    if marks then
      skip("labels that say themselves which of them count: " .. marks.name .. " does", "prompt-trained")
    elseif hides and shown.text >= 64 and shown.counted >= math.max(0.5, 2 * hides.number) * shown.text
      and shown.given >= 0.5 * shown.counted then
      report {
        symptom = "prompt-trained", score = 0.95, at = { step = first.step },
        message = ("the loss counts %s of the tokens where %s is %s; at %s of those the token itself can be read")
          :format(units.percent(shown.counted / shown.text), hides.key, hides.value,
            units.percent(shown.given / shown.counted)),
        evidence = { first, hides },
      }
    end
    if tagged then
      skip("labels that are tokens: these are fewer kinds than there are tokens, as of names or parts of speech",
        "prompt-trained", "eos-ignored")
    elseif n.eos_counted == 0 and masked.by(case) then
      return skip("a model that predicts what comes next: this one predicts masked tokens", "eos-ignored")
    elseif n.eos >= 3 and n.eos_counted == 0 and longest == 1 and answers >= 8 then
      return skip("answers that end somewhere: each is one token", "eos-ignored")
    elseif n.eos >= 3 and n.eos_counted == 0 then
      report {
        symptom = "eos-ignored", score = 0.95, at = { step = first.step },
        message = ("none of the %d end tokens (id %d) of the dumped rows has a label that counts%s: the model never "
          .. "learns to stop"):format(n.eos, eos, pad == eos and "; pad_token_id is the same id, so the mask of "
            .. "the padding "
          .. "covers it" or ""),
        evidence = { first },
      }
    end
    if n.masked == 0 then skip("rows with padding", "padding-trained") end
    -- A setting that names a stand-in says nothing where none stands in the rows, nor where a model leaves it out.
    if n.marked == 0 and asked < 2 and (n.stands == 0 or leaves or n.instead > 0) then
      skip("a mask of the answers (batch.loss_mask or batch.assistant_masks)", "prompt-trained")
    end
    if n.eos < 3 and not tagged then
      skip(unlike and "labels that are the tokens beside them, of three texts with an end"
        or "three texts with an end, and eos_token_id in config.json", "eos-ignored")
    end
  end,
}
