--- ## What it detects
--- Of a cache whose logits are wrong (the recorder's key-value-cache battery), what stands in the first layer's slots:
--- each token's key is compared with the one that a full pass puts there. Keys that stand in other slots, keys that
--- belong to other positions, slots that are empty, keys of another row, or keys that are all right, so that they are
--- read wrongly.
---
--- ## Why it matters
--- A wrong position, a wrong place in the cache and a wrong mask all go wrong at the first decoded token; the keys tell
--- them apart.
---
--- ## How to confirm
--- Print the slot and the position of the first five decoded tokens, and the mask of the first.
---
--- ## Known false positives
--- Caches that wrap around (sliding windows) keep keys in another order on purpose; where the logits are right nothing
--- is judged. Keys stored in 4 bits differ by a tenth; the limit follows what the prompt's keys show.
---
--- ## References
--- https://huggingface.co/docs/transformers/kv_cache

local NEAR, SLOTS, COARSE = 2, 1024, 1e-3

--- Distance of two lists over the length of the second; nil where that is zero.
local function distance(a, b)
  local apart, size = 0, 0
  for i = 1, #b do
    apart = apart + (a[i] - b[i]) * (a[i] - b[i])
    size  = size + b[i] * b[i]
  end
  if size > 0 then return math.sqrt(apart / size) end
end

local function is_empty(a)
  for i = 1, #a do
    if a[i] ~= 0 then return false end
  end
  return true
end

--- What stands in each slot of a row: right, empty, near (another token's key of this row), row (another row's), other.
local function look(cached, full, row, limit)
  local rows, slots, width = full.shape[1], math.min(full.shape[2], SLOTS), full.shape[3]
  local function key(t, r, s) return t:values((r * full.shape[2] + s) * width, width) end
  local found = {}
  for s = 0, slots - 1 do
    local own  = key(cached, row, s)
    local away = distance(own, key(full, row, s))
    local kind = "other"
    if is_empty(own) then
      kind = "empty"
    elseif away and away <= limit then
      kind = "right"
    else
      for other = 0, rows - 1 do
        local d = other ~= row and distance(own, key(full, other, s))
        if d and d <= limit then kind = "row" end
      end
      for near = math.max(0, s - NEAR), math.min(slots - 1, s + NEAR) do
        local d = near ~= s and distance(own, key(full, row, near))
        if d and d <= limit then kind = "near" end
      end
    end
    found[s + 1] = { kind = kind, away = away or 0 }
  end
  return found
end

local function count(found, kind, first, last)
  local n, at = 0, nil
  for s = first, last do
    if found[s + 1].kind == kind then
      n, at = n + 1, at or s
    end
  end
  return n, at
end

--- The longest run of empty slots: its first and its length.
local function hole(found)
  local best, at, run = 0, nil, 0
  for s = 1, #found do
    run = found[s].kind == "empty" and run + 1 or 0
    if run > best then best, at = run, s - run end
  end
  return at, best
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A key-value cache holds other keys than a full pass",
  needs    = { tensors = { "name", "variant", "data" } },
  symptoms = { "cache-keys-moved", "cache-keys-of-other-positions", "cache-block-empty", "cache-rows-mixed",
    "cache-keys-right" },
  options  = {
    rounding = { default = 40, doc = "Differences of so many roundings of the largest logit are none" },
    mild  = { default = 0.02, doc = "Difference of the logits over the largest up to which a cache is sound" },
    apart = { default = 0.02, doc = "Relative difference up to which two keys are one" },
  },

  run = function(case)
    local opt = case.options
    local all = case.tensors:where("zero_share is not null")
    local function of(name, variant) return all:where { name = "battery.kv_cache." .. name, variant = variant }:first()
      end
    local full, cached       = of("keys", "full"), of("keys", "cached")
    local logits, decoded    = of("logits", "full"), of("logits", "cached")
    local told = all:where("name == 'battery.kv_cache.prompt_length'"):first()
    if not (full and cached and logits and decoded and told) then
      return skip("the first layer's keys in battery/kv_cache.full and .cached: cached_forward that returns "
        .. "(logits, keys) (culprit_recorder.check_cache)")
    end
    if #full.shape ~= 3 or full.numel ~= cached.numel or #logits.shape ~= 3 or logits.numel ~= decoded.numel
      or full.nonfinite > 0 or full.shape[1] ~= logits.shape[1] then
      return skip("finite keys [rows, places, width] and logits of one shape in both variants of the cache battery")
    end
    local prompt, slots = told:values(0, 1)[1], math.min(full.shape[2], SLOTS)
    if prompt < 1 or prompt >= slots then return skip("a prompt shorter than the row, to have decoded tokens") end
    local row, largest, first
    for r = 0, math.min(full.shape[1], 64) - 1 do
      for place, d in ipairs(decoded:difference_along(logits, 1, r)) do
        if d > opt.rounding * 2 ^ -23 * logits.absmax then
          if not row then row, first = r, place - 1 end
          largest = math.max(largest or 0, d)
        end
      end
    end
    if not row then return end
    local mild = largest <= opt.mild * logits.absmax -- keys that are right are stored with less precision then

    -- What storing costs is seen where nothing can be wrong but the storing: at the keys of the prompt.
    local found, noise = look(cached, full, row, opt.apart), {}
    for s = 0, prompt - 1 do table.insert(noise, found[s + 1].away) end
    table.sort(noise)
    local median = noise[(#noise + 1) // 2]
    local limit  = math.max(opt.apart, math.min(0.3, 4 * median))
    if limit > opt.apart then found = look(cached, full, row, limit) end

    local wrong = ("logits of row %d are wrong from position %d on, by up to %s; the prompt has %d tokens"):format(row,
      first,
      units.number(largest), prompt)
    local function say(symptom, score, reason)
      report { symptom = symptom, score = score, at = { token = first }, message = reason .. ": " .. wrong,
        evidence = { cached, full } }
    end
    local last          = slots - 1
    local mixed         = count(found, "row", 0, last)
    local near, moved   = count(found, "near", 0, last)
    local empty, vacant = count(found, "empty", 0, last)
    local right         = count(found, "right", 0, last)
    local other         = count(found, "other", prompt, last)
    local at, run       = hole(found)
    -- A text that repeats a token makes keys of wrong positions equal to a neighbour's here and there.
    local by_place      = near >= math.max(1, (count(found, "other", 0, last)))
    if mixed >= 0.5 * prompt then
      say("cache-rows-mixed", 0.97, ("%d slots of the cache hold the keys of another row"):format(mixed))
    elseif by_place then
      say("cache-keys-moved", 0.97, ("%s hold%s another token's key, the first is slot %d%s"):format(
        units.plural(near, "slot"), near == 1 and "s" or "", moved, vacant
          and (", and slot %d is empty"):format(vacant) or ""))
    elseif run >= 4 and at + run <= last then
      say("cache-block-empty",
        0.97, ("slots %d to %d are empty, those behind them are not: a block was cleared or never "
        .. "written"):format(at, at + run - 1))
    elseif empty > 0 and empty >= other then
      say("cache-keys-moved", 0.9, ("%s empty, the first is slot %d of %d"):format(
        empty == 1 and "1 slot is" or empty .. " slots are", vacant, slots))
    elseif mild or right == slots and median > COARSE and largest <= 2 * median * logits.absmax then
      return -- right but for the storing, which accounts for the logits
    elseif right == slots then
      say("cache-keys-right",
        0.95, ("all %d keys of the first layer are right, so that they are read wrongly: mask, scale "
        .. "or block table"):format(slots))
    elseif other + near >= 0.5 * (slots - prompt) and (count(found, "right", 0, prompt - 1)) == prompt then
      say("cache-keys-of-other-positions",
        0.97, ("the prompt's keys are right and %d of %d decoded ones are no token's of "
        .. "the full pass: they were computed at other positions"):format(other, slots - prompt))
    else
      skip(("keys that are told apart: %d of %d slots are right, %d of no token"):format(right, slots,
        count(found, "other", 0, last)))
    end
  end,
}
