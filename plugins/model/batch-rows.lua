--- ## What it detects
--- Prompts that get other logits as rows of a padded batch than alone (the recorder's batch battery), and what tells
--- them apart: rows that take part of the padding, positions that count through it, rows that come back in another
--- order, rows that change though they need no padding, or rounding.
---
--- ## Why it matters
--- Servers batch. What is right for one request at a time and wrong under load is found last.
---
--- ## How to confirm
--- Decode one short prompt greedily, alone and beside a longer one, and compare the logits of the first step.
---
--- ## Known false positives
--- Kernels choose the order of their sums by the batch's size, so rows differ by some roundings, and where two tokens
--- are nearly equally likely another one wins. That is reported as information. A model that was never meant to be
--- padded on the left fails that half of the check: look at the side that is in use.
---
--- ## References
--- https://huggingface.co/docs/transformers/llm_tutorial#wrong-padding-side
--- https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/

local precision = require("precision")

--- The largest difference over the first `length` places of a row, and the first place with one above `limit`.
local function apart(a, b, row, other, length, limit)
  local most, first = 0, nil
  for place, d in ipairs(a:difference_along(b, 1, row, other)) do
    if place <= length then
      if d > limit and not first then first = place - 1 end
      most = math.max(most, d)
    end
  end
  return most, first
end

--- The row of `single` that row `row` of the batch equals over what both have, or nil.
local function swapped(batch, single, row, lengths, limit)
  for other = 0, #lengths - 1 do
    local n = math.min(lengths[row + 1], lengths[other + 1])
    if other ~= row and apart(batch, single, row, other, n, limit) <= limit then return other end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A prompt gets other logits in a batch than alone",
  needs    = { tensors = { "name", "variant", "data" } },
  symptoms = { "batch-padded-rows-differ", "batch-padding-seen", "batch-positions-shifted", "batch-rows-mixed",
    "batch-changes-rows",
    "batch-jitters" },
  options  = {
    rounding = { default = 40, doc = "Differences of so many roundings of the largest logit are none" },
    exact    = { default = 2,  doc = "Differences of so many roundings are not even worth a mention" },
  },

  run = function(case)
    local all = case.tensors:where("zero_share is not null and match(name, 'battery.batch_rows.*')")
    local function logits(variant)
      return all:where { name = "battery.batch_rows.logits", variant = variant }:first()
    end
    local single, told = logits("single"), all:where("name == 'battery.batch_rows.lengths'"):first()
    if not single or not told then
      return skip("the batch battery, battery/batch_rows.single beside .right or .left (culprit_recorder.check_batch)")
    end
    local lengths = told:values()
    if #single.shape ~= 3 or single.shape[1] ~= #lengths or single.nonfinite > 0 then
      return skip("finite logits [rows, positions, vocabulary] of each row alone, and as many lengths")
    end
    local longest = math.max(table.unpack(lengths))
    local step    = precision.rounding(case, single.dtype) * math.max(single.absmax, 1e-30)
    local limit, judged, jitter = case.options.rounding * step, 0, nil

    for _, side in ipairs { "right", "left" } do
      local batch, other = logits(side), logits(side .. "_other")
      if batch and batch.numel == single.numel then
        judged = judged + 1
        local bad, seen, whole, largest, first, worst = {}, nil, nil, 0, nil, nil
        for row = 0, #lengths - 1 do
          local most, at = apart(batch, single, row, row, lengths[row + 1], limit)
          if at then
            bad[#bad + 1] = row
            if not first or most > largest then first, worst = at, row end
            if lengths[row + 1] == longest then whole = row end
          end
          largest = math.max(largest, most)
          local known = other and other.numel == batch.numel
          if known and apart(batch, other, row, row, lengths[row + 1], limit) > limit then
            seen = seen or row
          end
        end
        local what = ("padded on the %s, %d of %s differ%s from the same rows alone, row %d by up to %s from "
          .. "position %d on "
          .. "(largest logit %s; the same token wins at %s of all places)")
        local function say(symptom, score, reason)
          report { symptom = symptom, score = score, at = { token = first }, evidence = { batch, single },
            message = what:format(side, #bad, units.plural(#lengths, "row"), #bad == 1 and "s" or "", worst or 0,
              units.number(largest), first or 0, units.number(single.absmax),
              units.percent(batch:argmax_share(single) or 0)) .. ": " .. reason }
        end
        if #bad > 0 and not (other and other.numel == batch.numel) then
          skip(("battery/batch_rows.%s_other, with another token as padding"):format(side), "batch-padding-seen")
        end
        local from = #bad > 0 and swapped(batch, single, bad[1], lengths, limit)
        if from then
          -- On the other side each row would be looked for at another row's length.
          return say("batch-rows-mixed", 0.98, ("row %d of the batch is what row %d is alone"):format(bad[1], from))
        elseif #bad > 0 and seen then
          say("batch-padded-rows-differ", 0.97, whole and "all rows do" or "rows that need no padding do not")
          say("batch-padding-seen",
            0.97, ("with another token as padding row %d changes, so its tokens attend to the padding")
            :format(seen))
        elseif #bad > 0 and whole then
          say("batch-changes-rows",
            0.9, ("row %d needs no padding: the other rows of the batch change it"):format(whole))
        elseif #bad > 0 and side == "left" then
          say("batch-padded-rows-differ", 0.97, "rows that need no padding do not")
          say("batch-positions-shifted", 0.95,
            "which token pads does not matter, so the padding is masked and positions "
            .. "count from the start of the padding")
        elseif #bad > 0 then
          say("batch-changes-rows", 0.7, "which token pads does not matter, and the rows are padded behind their end")
        elseif largest > case.options.exact * step and (not jitter or largest > jitter.size) then
          jitter = { size = largest, side = side, batch = batch, same = batch:argmax_share(single) or 0 }
        end
      end
    end
    if judged == 0 then
      return skip("battery/batch_rows.right or .left with logits of the shape of .single")
    end
    if jitter then
      report {
        symptom = "batch-jitters", score = 0.7, severity = "info",
        message = ("rows of a batch differ from the same rows alone by up to %s, %d roundings of the largest logit, "
          .. "and the "
          .. "same token wins at %s of all places: kernels round by the shape of the batch"):format(
          units.number(jitter.size, 2), math.ceil(jitter.size / step), units.percent(jitter.same)),
        evidence = { jitter.batch, single },
      }
    end
  end,
}
