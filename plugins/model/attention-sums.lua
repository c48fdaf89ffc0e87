--- ## What it detects
--- Dumped attention weights whose lines do not add up to one: a softmax over another axis, weights that were masked or
--- scaled after it, dropout in a dump of decoding or evaluation; and queries that are no padding and whose weights are
--- NaN.
---
--- ## Why it matters
--- A line of attention is an average. If it does not add up to one, values grow or shrink with the context's length and
--- the model works at the lengths it was trained on only.
---
--- ## How to confirm
--- Sum one line of the softmax's output over the keys.
---
--- ## Known false positives
--- Models with a learned sink (gpt-oss) drop the sink's column, so their lines add up to less than one; where the
--- config says so only sums above one count. Weights after dropout scatter about one: right in training, which is not
--- reported. Lines of zeros are masked queries and left out. Weights that were cut to a part of their keys are not
--- judged. A mask that is applied to weights takes from lines with keys of weight zero: where lines without any are
--- short as well, as with one added to the denominator or a sigmoid for each score, it is no mask's doing. Weights
--- below 0 anywhere are no softmax's.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html
--- https://github.com/huggingface/transformers/blob/main/src/transformers/models/gpt_oss/modeling_gpt_oss.py

local precision = require("precision")
local attention = require("attention")

local NAMES = attention.NAMES .. " and not match(name, 'battery.*|loss.*|*.loss.*')"

--- Whether a dump was cut to fewer keys than the batch has, so that only causal lines are whole.
local function is_cut(values, probs)
  local ids = values:where { run = probs.run, step = probs.step, variant = probs.variant }
    :where("match(name, '*input_ids')"):first()
  return ids and ids.shape[#ids.shape] > probs.shape[#probs.shape] and (probs:mass_above_diagonal() or 1) > 1e-6
end

local function where_of(head, probs)
  return ("head %d%s of %s"):format(head.head, head.row > 0 and (", row %d"):format(head.row) or "", probs.name)
end

--- The axis along which all sums are one, other than the last, or nil.
local function other_axis(probs, limit)
  for axis = #probs.shape - 2, 0, -1 do
    local sums = probs.shape[axis + 1] > 1 and probs:sums_along(axis)
    if sums and sums.min and sums.nonfinite == 0 and sums.min >= 1 - limit and sums.max <= 1 + limit then return axis
      end
  end
end

--- The largest sum of a line that lacks no key and adds up to less than one; nil where one that lacks none is whole, or
--- none lacks none. What a mask takes away after the softmax it takes from lines with keys of weight zero alone.
local function full_line(probs, limit)
  local keys, most = probs.shape[#probs.shape], nil
  local lines = probs.numel // keys
  for n = 0, math.min(lines, 4096) - 1 do
    local sum, zeros = 0, 0
    for _, weight in ipairs(probs:values(n * keys, keys)) do
      sum, zeros = sum + weight, zeros + (weight == 0 and 1 or 0)
    end
    if zeros == 0 and sum >= 1 - limit then return nil end
    if zeros == 0 then most = math.max(most or 0, sum) end
  end
  return most
end

local function axis_name(probs, axis)
  local back = #probs.shape - axis
  return back == 2 and "the queries" or back == 3 and "the heads" or "the rows of the batch"
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention weights do not add up to one",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "attention-sums-off", "attention-sums-above-one", "attention-sums-elsewhere", "attention-dropped",
    "attention-row-nan" },
  options  = {
    rounding = { default = 8,    doc = "Sums off by so many roundings are one" },
    off      = { default = 1e-3, doc = "Sums off by less are one in any case" },
  },

  run = function(case)
    local opt, values = case.options, case.tensors:where("zero_share is not null")
    local found, worst, bad, done = values:where(NAMES), nil, nil, 0
    local decoding = "match(variant, '*eval*|*decod*|*generat*|*serv*|*infer*|*cached*|*full*') or token is not null"
    local evaluated = found:where(decoding)
    local sinks = case.config:where("match(key, '*sink*') or match(key, '*model_type') and value == 'gpt_oss'"):first()
    for probs in found:rows() do
      if done + probs.numel > attention.ELEMENTS or #probs.shape < 2 then break end
      local limit = math.max(opt.off, opt.rounding * precision.rounding(case, probs.dtype))
      local mask, mark = attention.padding(case, values, probs)
      local heads = not is_cut(values, probs) and (mask and probs:attention_heads(mask, mark) or
        probs:attention_heads())
      if heads then
        done = done + probs.numel
        local nan = heads:where("nan > 0"):top(1, "nan"):first()
        if nan and not bad then
          bad = { probs = probs, head = nan, heads = heads:where("nan > 0"):count(), masked = mask ~= nil }
        end
        local off = heads:where("off > ?", limit)
        if off:count() > 0 and (not worst or off:max("off") > worst.off) then
          worst = { probs = probs, heads = heads, wrong = off, off = off:max("off"), limit = limit }
        end
      end
    end
    if done == 0 then
      return skip("dumped attention probabilities (output_attentions, or the recorder where attention is a softmax)")
    end

    if bad then
      report {
        symptom  = "attention-row-nan",
        score    = bad.masked and 0.95 or 0.7,
        severity = bad.masked and "error" or "warning",
        at       = { step = bad.probs.step, layer = bad.probs.layer, token = bad.head.first_nan },
        message  = ("the weights of query %d are NaN in %s, and in %s; %s"):format(bad.head.first_nan,
          where_of(bad.head, bad.probs), units.plural(bad.heads, "head"), bad.masked and
            "it is no padding: every key was "
            .. "masked, or its scores were NaN" or "whether it is padding is not recorded (attention_mask)"),
        evidence = { bad.probs },
      }
    end
    if not worst then return end

    local head, probs = worst.wrong:top(1, "off"):first(), worst.probs
    local below = values:where(attention.NAMES:replace("min >= 0", "min < 0"))
      :where("not match(name, 'battery.*|loss.*|*.loss.*')"):first()
    if below then
      return skip(("weights that are a softmax: %s has some below 0, as a difference of two has"):format(below.name))
    end
    local low, high   = worst.heads:min("sum_min"), worst.heads:max("sum_max")
    local mean        = worst.heads:mean("sum_mean")
    local what = ("in %s the weights of query %d add up to %s (off in %d of %s, sums go from %s to %s; rounding "
      .. "would be %s)")
      :format(where_of(head, probs), head.off_query, units.number(head.off_sum), worst.wrong:count(),
      units.plural(worst.heads:count(), "head"), units.number(low), units.number(high), units.number(worst.limit, 2))
    local function say(symptom, score, reason)
      report { symptom = symptom, score = score, at = { step = probs.step, layer = probs.layer, token = head.off_query
        },
        message = what .. ": " .. reason, evidence = { probs, worst.wrong:top(3, "off") } }
    end
    local axis = worst.wrong:count() > 0.5 * worst.heads:count() and other_axis(probs, worst.limit)
    if axis then
      local reason = ("along axis %d, %s, they add up to one, so the softmax runs over the wrong axis"):format(axis,
        axis_name(probs, axis))
      say("attention-sums-off", 0.98, reason)
      say("attention-sums-elsewhere", 0.98, reason)
    elseif low < 1 - worst.limit and high > 1 + worst.limit and math.abs(mean - 1) < 0.1 then
      -- Scattered about one: dropout, which belongs to training.
      if evaluated:count() == 0 then
        skip("a dump of decoding or evaluation: in training dropout belongs there", "attention-dropped")
      else
        say("attention-dropped",
          0.9, ("they scatter about %s, as dropout leaves them, in a dump of decoding or evaluation")
          :format(units.number(mean, 3)))
      end
    elseif high - low <= worst.limit then
      say("attention-sums-off", 0.95, ("all of them alike, so the weights were scaled by %s after the softmax"):format(
        units.number(mean)))
      if mean > 1 then say("attention-sums-above-one", 0.9, "scaled after the softmax") end
    elseif high > 1 + worst.limit then
      say("attention-sums-off", 0.95, "that is no average")
      say("attention-sums-above-one", 0.9,
        "weights were added or scaled after the softmax, or it is no softmax over the keys")
    elseif not sinks and full_line(probs, worst.limit) then
      skip(("weights that are a softmax over the keys: of %s lines in which no key has none add up to %s at most, so "
        .. "that no mask took the rest"):format(probs.name, units.number(full_line(probs, worst.limit))),
        "attention-sums-off")
    elseif not sinks then
      say("attention-sums-off", 0.9,
        "a part of each line was taken away after the softmax: a mask that is applied to the "
        .. "weights and not to the scores, or a sink whose column was dropped")
    end
  end,
}
