--- ## What it detects
--- Logits of cached decoding that differ from those of one full forward pass over the same tokens (the recorder's
--- key-value-cache battery), and where the difference begins: where the prompt ends, at a block of the cache, at
--- once, in rows with padding, or slowly.
---
--- ## Why it matters
--- Cached decoding is an optimisation; it must give the same tokens. Where it leaves the full pass tells what is wrong
--- with it.
---
--- ## How to confirm
--- Generate greedily with and without the cache and compare the tokens.
---
--- ## Known false positives
--- Caches of 8 bit or less differ by their rounding. Such a difference grows slowly and leaves the prediction alone;
--- it is reported as information only.
---
--- ## References
--- https://huggingface.co/docs/transformers/kv_cache

local precision = require("precision")

--- The first position that is off by more than `limit`, from 0, and the largest difference.
local function first_beyond(differences, limit)
  local first, largest = nil, 0
  for place, d in ipairs(differences) do
    if d > limit and not first then first = place - 1 end
    largest = math.max(largest, d)
  end
  return first, largest
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Cached decoding differs from the full forward pass",
  needs    = { tensors = { "name", "variant", "data" } },
  symptoms = { "cache-differs-after-prompt", "cache-differs-at-block", "cache-differs-from-start",
    "cache-differs-in-later-rows", "cache-rows-mixed", "cache-drifts" },
  options  = {
    rounding = { default = 40,   doc = "Differences of so many roundings of the largest logit are none" },
    mild     = { default = 0.02, doc = "Difference over the largest logit up to which a cache may drift" },
  },

  run = function(case)
    local opt  = case.options
    local all  = case.tensors:where("zero_share is not null")
    local logits = all:where("name == 'battery.kv_cache.logits'")
    local full, cached = logits:where { variant = "full" }:first(), logits:where { variant = "cached" }:first()
    if not full or not cached then
      return skip("the cache battery, battery/kv_cache.full and .cached (culprit_recorder.battery)")
    end
    if #full.shape ~= 3 or #cached.shape ~= 3 or full.numel ~= cached.numel then
      return skip("logits of one shape [rows, positions, vocabulary] in both variants of the cache battery")
    end
    if full.nonfinite > 0 then return skip("a full forward pass without NaN and Inf") end
    local told   = all:where("name == 'battery.kv_cache.prompt_length'"):first()
    local prompt = told and told:values(0, 1)[1]
    local limit  = opt.rounding * precision.rounding(case, full.dtype) * math.max(full.absmax, 1e-30)
    local rows, bad, first, largest, profile = full.shape[1], {}, nil, 0, nil
    for row = 0, math.min(rows, 64) - 1 do
      local along = cached:difference_along(full, 1, row)
      local at, d = first_beyond(along, limit)
      if at then
        bad[#bad + 1] = row
        if not first or at < first then first, profile = at, along end
        largest = math.max(largest, d)
      end
    end
    if not first then return end

    local agree = cached:argmax_share(full) or 0
    local what  = ("cached logits differ from the full forward pass from position %d on%s, by up to %s (largest "
      .. "logit %s), "
      .. "and predict the same at %s of positions"):format(first,
      prompt and (" (the prompt has %d tokens)"):format(prompt) or "", units.number(largest), units.number(full.absmax),
      units.percent(agree))
    local function say(symptom, score, reason, severity)
      report { symptom = symptom, score = score, severity = severity, at = { token = first },
        message = ("%s: %s"):format(what, reason), evidence = { cached, full } }
    end

    -- Rows that are right when each is decoded alone take something of each other.
    local alone = logits:where { variant = "alone" }:first()
    if alone and alone.numel == full.numel then
      local sound = true
      for _, row in ipairs(bad) do
        if first_beyond(alone:difference_along(full, 1, row), math.max(limit, opt.mild * full.absmax)) then sound =
          false end
      end
      if sound and largest > opt.mild * full.absmax then
        return say("cache-rows-mixed",
          0.95, ("decoded alone, %s right: in a batch the rows take each other's cache"):format(
          #bad == 1 and "the row is" or "these rows are"))
      end
    end
    -- Rows that are another row's exactly were mixed up.
    for _, row in ipairs(bad) do
      for other = 0, math.min(rows, 64) - 1 do
        local along = other ~= row and cached:difference_along(full, 1, row, other)
        local same  = 0
        for place = first + 1, along and #along or 0 do
          if along[place] <= limit then same = same + 1 end
        end
        if along and same >= 0.8 * (#along - first) then
          return say("cache-rows-mixed", 0.97, ("row %d of the cached pass is row %d of the full "
            .. "one"):format(row, other))
        end
      end
    end
    local block = case.config:where("match(key, '*block_size|*page_size') and match(key, '*cache*|*kv*|*page*') "
      .. "and number is not null"):first()
    local size = block and block.number or 8
    -- A cache of 4 bits begins to differ with the first decoded token, as a wrong entry does. That its keys are all
    -- there, a little off, tells it from one; so does a setting that names it.
    local keys, own = all:where { name = "battery.kv_cache.keys", variant = "full" }:first(),
      all:where { name = "battery.kv_cache.keys", variant = "cached" }:first()
    local off    = keys and own and keys.numel == own.numel and own:compare(keys)
    local stored = off and off.rel_err > 1e-3 and off.rel_err <= 0.3 and largest <= 2 * off.rel_err * full.absmax
      or not off and largest <= 0.06 * full.absmax and case.config:where("match(key, '*kv_cache_dtype|*cache_type_k|"
        .. "*cache_implementation|*cache_config.nbits') and "
        .. "match(value, '*int4*|*q4*|*int8*|*q8*|*fp8*|*quantized*|4|8|2')"):first()
    if stored and agree >= 0.95 then
      return say("cache-drifts", 0.8, off and ("the keys are right but for %s, that is what storing them costs"):format(
        units.percent(off.rel_err)) or "the cache is stored in few bits by the config, and differs no more than that",
          "info")
    end
    -- Slow growth that changes no prediction is rounding of the cache.
    local steady, before = true, profile[first + 1]
    for place = first + 2, #profile do
      if profile[place] > 30 * math.max(before, limit) then steady = false end
      before = math.max(before, profile[place])
    end
    if largest <= opt.mild * full.absmax and agree >= 0.98 and steady then
      say("cache-drifts", 0.8, "that is rounding of the cache, not a wrong entry", "info")
    elseif #bad < rows and bad[1] > 0 then
      say("cache-differs-in-later-rows", 0.9, ("row 0 is right and %s of %d wrong, as rows are that need padding")
        :format(units.plural(#bad, "row"), rows))
    elseif prompt and first > prompt + 1 and first % size == 0 then
      say("cache-differs-at-block", block and 0.95 or 0.85, ("position %d is %s of %d, the cache changes "
        .. "to another "
        .. "block there"):format(first, units.plural(first // size, "block"), size))
    elseif prompt and (first == prompt or first == prompt + 1) then
      say("cache-differs-after-prompt", 0.95, first == prompt
        and "the prompt is right and the first decoded token is not: its position or its place in the cache is wrong"
        or "the first decoded token is right and the second is not: position or cache index do not move on")
    elseif prompt and first < prompt then
      say("cache-differs-from-start", 0.9, "the prompt itself is computed differently: mask, rotary positions "
        .. "or weights")
    elseif not prompt then
      skip("battery.kv_cache.prompt_length, to tell the prompt from decoded tokens")
    else
      say("cache-differs-after-prompt", 0.6, ("it goes wrong %d tokens after the prompt, at no block's start")
        :format(first - prompt))
    end
  end,
}
