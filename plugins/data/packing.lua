--- ## What it detects
--- Rows of several documents (`cu_seqlens`) whose position ids do not begin anew at a document's start, whose attention
--- weights reach from one document into another, or whose documents do not end with an end token.
---
--- Where the batch has no bounds and the config says that rows are packed, a document begins where position ids begin
--- anew, and its first token has nothing but itself to look at. Where these do not, an end token inside of a row is a
--- bound, and so is what lies between two answers, by the mask of the answers (`completion_mask`): position ids that
--- count on behind it in every row, none of them beginning anew, are told with less certainty, since the turns of one
--- long conversation may end so as well.
---
--- ## Why it matters
--- Packed documents that see each other train the model on contexts that do not exist; quality falls and no curve shows
--- it.
---
--- ## How to confirm
--- Change the first document of a packed row: logits of the second must not move.
---
--- ## Known false positives
--- Pretraining on one long stream, where documents see each other by choice. Such batches have no `cu_seqlens`, and the
--- config no `packing`; they are not judged.
---
--- ## References
--- https://huggingface.co/blog/packing-with-FA2

local elements = require("elements")
local places = require("places")
local settings = require("settings")

--- Whether bounds are those of documents in some rows of ids: the last of them is where these end, but for what fills
--- the last row up. Those of pictures' patches are not.
local function bounds_of(bound, whole)
  return bound.max <= whole.numel and bound.max >= 0.5 * whole.numel
end

--- Whether documents are kept apart by one id that is not the end token: nearly all end in it, or begin with it, and at
--- least two thirds of its places are such.
local function marked(list, dumps)
  for _, counts in ipairs(list) do
    local all, most, id = 0, 0, nil
    for v, n in pairs(counts) do
      all = all + n
      if n > most then most, id = n, v end
    end
    local total = 0
    for _, ids in ipairs(id and dumps or {}) do total = total + ids:count_equal(id) end
    if all > 0 and most >= 0.9 * all and 3 * most >= 2 * total then return true end
  end
  return false
end

local LEAST_ROWS = 8
-- Rows of a batch that are looked at, where the probabilities have as many.
local MOST_ROWS = 8

--- How many packed rows of a batch without bounds have an end token or two answers inside, and in how many the
--- positions begin anew.
---@return {rows: integer, ended: integer, twice: integer, anew: integer, first: culprit.Row?}
local function counted(dumped, eos)
  local out = { rows = 0, ended = 0, twice = 0, anew = 0 }
  for counts in dumped:where("match(name, '*position_ids') and match(dtype, 'int*') and numel <= 1000000")
    :sort("step"):rows() do
    local ids = dumped:where { run = counts.run, step = counts.step, variant = counts.variant }
      :where("match(name, '*input_ids') and match(dtype, 'int*')"):first()
    local width = counts.shape[#counts.shape]
    if #counts.shape == 2 and ids and ids.numel == counts.numel then
      local mask = dumped:where { run = counts.run, step = counts.step, variant = counts.variant }
        :where("match(name, '*completion_mask|*assistant_mask*') and numel == ?", counts.numel):first()
      local answer = mask and elements.of(mask, 0, mask.numel)
      local at, id = elements.of(counts, 0, counts.numel), elements.of(ids, 0, ids.numel)
      for row = 0, #at // width - 1 do
        local ended, anew, answers = false, false, answer and answer[row * width + 1] == 1 and 1 or 0
        for i = row * width + 2, (row + 1) * width do
          ended = ended or id[i - 1] == eos and id[i] ~= eos
          if answer and answer[i] == 1 and answer[i - 1] ~= 1 then answers = answers + 1 end
          anew = anew or at[i] <= at[i - 1]
        end
        out.rows, out.first = out.rows + 1, out.first or counts
        if ended then out.ended = out.ended + 1 elseif answers >= 2 then out.twice = out.twice + 1 end
        if anew then out.anew = out.anew + 1 end
      end
    end
  end
  return out
end

--- The most of a query's attention in other documents of its packed row, by position ids that begin anew inside of it,
--- and whose probabilities show it: { mass, probs, counts, seen }. Which row of the batch the probabilities are of is
--- known where they have as many rows; one row may be any, and the least of all counts. Nothing where no row of
--- documents is beside probabilities, or more than `left` elements of these would have to be read.
local function across_restarts(dumped, left)
  local worst, judged = nil, false
  for probs in dumped:where("match(name, '*prob*|*attn_weights*|*attention_weights*') and min >= 0 and max <= 1.001")
    :sort("step"):slice(0, 40):rows() do
    local here   = dumped:where { run = probs.run, step = probs.step, variant = probs.variant }
    local counts = here:where("match(name, '*position_ids') and match(dtype, 'int*')"):first()
    local a, b   = probs.shape or {}, counts and counts.shape or {}
    local width  = #b == 2 and math.floor(b[2]) or 0
    local fits   = #a == 4 and width > 2 and a[4] == width and a[3] == width and (a[1] == 1 or a[1] == b[1])
      and math.abs(probs.mean * width - 1) < 0.02 and probs.numel <= 4000000
    -- One row of many may be of any of them, and all are needed.
    if fits and a[1] == 1 and b[1] > 64 then fits = false end
    local least, told -- of the rows of the batch that the probabilities may be of; whether all, or one, can tell
    local read = {}   -- by where a row of probabilities begins, its sums: the same for every row of the batch
    for row = 0, fits and math.min(b[1], a[1] == 1 and 64 or MOST_ROWS) - 1 or -1 do
      -- Nothing is known of what may be of a row that cannot tell.
      if a[1] == 1 and row > 0 and not told or left <= 0 then break end
      local at, begins = elements.of(counts, row * width, width), { 1 }
      local stands = false -- where positions do not count on, nor begin at 0, there is padding
      for t = 2, width do
        if at[t] == 0 and at[t - 1] > 0 then begins[#begins + 1] = t
        elseif at[t] ~= at[t - 1] + 1 then stands = true end
      end
      local most, kept, bounded = 0, false, not stands and at[1] == 0 and #begins > 1
      if bounded and (a[1] > 1 or least ~= 0) then -- of what may be of a row that is kept apart no more is asked
        local heads, plane = math.floor(a[2]), a[1] == 1 and 0 or row
        for head = 0, heads - 1 do
          for k = 2, #begins do
            -- The first token of a document has nothing but itself to look at.
            local first = ((plane * heads + head) * width + begins[k] - 1) * width
            local sums = read[first]
            if not sums and left > 0 then
              sums, left = { before = 0, after = 0 }, left - width
              for t, v in ipairs(elements.of(probs, first, width)) do
                if t < begins[k] then sums.before = sums.before + v
                elseif t > begins[k] then sums.after = sums.after + v end
              end
              read[first] = sums
            end
            local before, after = sums and sums.before or 0, sums and sums.after or math.huge
            -- Where tokens to come are seen as well no mask holds at all, which is another matter.
            if after <= 1e-3 * before then most = math.max(most, before) end
            -- Without a mask every document sees the one before; scores that overflow break through one here and there.
            if sums and before <= 1e-6 then kept = true end
          end
        end
      end
      if kept then most = 0 end
      if a[1] == 1 then
        least, told = math.min(least or most, most), (row == 0 or told) and bounded
      else
        least, told = math.max(least or most, most), told or bounded
      end
    end
    if left <= 0 then break end -- not all of these were read
    judged = judged or told or false
    if told and (not worst or least > worst.mass) then
      worst = { mass = least, probs = probs, counts = counts }
    end
  end
  return worst, judged
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Documents packed into one row are not kept apart",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "positions-run-on", "attention-crosses-documents", "eos-absent" },
  options  = {
    mass = { default = 1e-6, doc = "Share of a query's attention in other documents that is no rounding" },
    crossed = { default = 0.01, doc = "The same where position ids alone tell where documents begin" },
    read = { default = 1500000, doc = "Elements of attention that are read where position ids alone tell" },
  },

  run = function(case)
    local dumped = case.tensors:where("zero_share is not null and not match(name, 'battery.*')")
    local bounds = dumped:where("match(name, '*cu_seqlens*|*cu_seq_lens*') and numel <= 10000")
    local setting = case.config:where("match(key, '*eos_token_id') and number is not null"):first()
    if bounds:count() == 0 then
      local packed = settings.on(case.config:where("match(key, '*packing|*pack_sequences|packed|*.packed') "
        .. "and not match(key, '*eval*')")):first()
      local seen = packed and counted(dumped, setting and setting.number)
      -- Padding begins anew too, or stands still: such rows are not judged.
      if seen and seen.rows >= LEAST_ROWS and seen.anew == 0
        and seen.ended + seen.twice >= 0.5 * seen.rows then
        report {
          symptom = "positions-run-on", score = 0.85, at = { step = seen.first.step },
          message = ("position ids count on through each of %d packed rows (%s = %s), and %d of these have an end "
            .. "token inside%s: what comes behind it does not begin at 0, unless all of a row are turns of one "
            .. "conversation"):format(seen.rows, packed.key, packed.value, seen.ended,
            seen.twice > 0 and (" and %d more two answers"):format(seen.twice) or ""),
          evidence = { seen.first, packed },
        }
        return skip("batch.cu_seqlens, the bounds of packed documents", "attention-crosses-documents", "eos-absent")
      end
      local crossed, known
      if packed then crossed, known = across_restarts(dumped, case.options.read) end
      if crossed and crossed.mass > case.options.crossed then
        report {
          symptom = "attention-crosses-documents", score = 0.95,
          at = { step = crossed.probs.step, layer = crossed.probs.layer },
          message = ("in %s the first token of a document inside of a packed row (%s = %s), where position ids begin "
            .. "anew, has %s of its attention on the documents before it"):format(crossed.probs.name, packed.key,
            packed.value, units.percent(crossed.mass)),
          evidence = { crossed.probs, crossed.counts, packed },
        }
      end
      if known then
        return skip("batch.cu_seqlens, the bounds of packed documents", "positions-run-on", "eos-absent")
      end
      return skip("batch.cu_seqlens, the bounds of packed documents, beside position_ids or attention probabilities")
    end
    local eos, starts, on, ends, ended, judged = setting and setting.number, 0, 0, 0, 0, false
    local first, worst, crossing, clean, layers, count = nil, nil, nil, {}, {}, 0
    local lasts, firsts, read = {}, {}, {} -- the ids on both sides of a bound, and all of them
    for bound in bounds:sort("step"):rows() do
      local here  = dumped:where { run = bound.run, step = bound.step, variant = bound.variant }
      local ids   = here:where("match(name, '*input_ids') and match(dtype, 'int*')"):first()
      local counts = here:where("match(name, '*position_ids') and match(dtype, 'int*')"):first()
      local whole = ids or counts
      if whole and not bounds_of(bound, whole) then whole, ids, counts = nil, nil, nil end
      if ids then read[#read + 1] = ids end
      local width = whole and whole.shape[#whole.shape]
      for _, at in ipairs(bound:values()) do
        local inside = whole and at > 0 and at < whole.numel and at % width ~= 0 -- a row's start needs no care
        if inside and counts and counts.numel == whole.numel then
          local around = counts:values(at - 1, 2)
          starts, first = starts + 1, first or counts
          if around[2] == around[1] + 1 then on = on + 1 end
        end
        if inside and ids and eos then
          ends = ends + 1
          local around = ids:values(at - 1, 2)
          if around[1] == eos then ended = ended + 1 end
          lasts[around[1]] = (lasts[around[1]] or 0) + 1
          firsts[around[2]] = (firsts[around[2]] or 0) + 1
        end
      end
      for probs in here:where("match(name, '*prob*|*attn_weights*|*attention_weights*') and min >= 0 and max <= 1.001")
        :rows() do
        local width = probs.shape[#probs.shape]
        local mass = math.abs(probs.mean * width - 1) < 0.02 and probs:mass_across(bound)
        if mass then judged = true end
        if mass and mass > case.options.mass and (not worst or mass > worst.mass) then
          worst = { mass = mass, probs = probs, bound = bound }
        end
        if mass and mass > case.options.mass then
          crossing = crossing or { mass = mass, probs = probs, bound = bound }
          local name = probs.layer or probs.name
          if not layers[name] then layers[name], count = true, count + 1 end
        elseif mass and not crossing then clean[probs.name] = true
        end
      end
    end
    if starts > 0 and on >= 0.5 * starts then
      report {
        symptom = "positions-run-on", score = 0.95, at = { step = first.step },
        message = ("position ids count on at %d of %d document starts inside of packed rows: a document's "
          .. "positions do not "
          .. "begin at 0"):format(on, starts),
        evidence = { first, bounds:slice(0, 3) },
      }
    end
    if worst then
      -- Documents are kept apart by what is set up once: what the first look shows was so before it.
      local step, from = places.start(case, crossing.probs.step, clean[crossing.probs.name] or false)
      report {
        symptom = "attention-crosses-documents", score = 0.97, at = { step = step, layer = crossing.probs.layer },
        message = ("in %s one query has %s of its attention on tokens of other documents of its packed row, %s%s")
          :format(crossing.probs.name, units.percent(crossing.mass), from, count < 2 and "" or
            ("; it is the first of %d layers that do so, the most %s in %s"):format(count, units.percent(worst.mass),
            worst.probs.name)),
        evidence = { crossing.probs, crossing.bound, worst.probs.name ~= crossing.probs.name and worst.probs or nil },
      }
    end
    if ends >= 4 and ended <= 0.1 * ends and marked({ lasts, firsts }, read) then
      skip("documents that nothing else keeps apart: these end in one id, or begin with one", "eos-absent")
    elseif ends >= 4 and ended <= 0.1 * ends then
      report {
        symptom = "eos-absent", score = 0.9, at = { step = bounds:first().step },
        message = ("%d of %d packed documents end without the end token (id %d): nothing separates them, and "
          .. "nothing teaches "
          .. "the model to stop"):format(ends - ended, ends, eos),
        evidence = { bounds:slice(0, 3) },
      }
    end
    if starts == 0 then skip("batch.position_ids beside batch.cu_seqlens", "positions-run-on") end
    if not judged then
      skip("attention probabilities beside batch.cu_seqlens", "attention-crosses-documents")
    end
    if ends < 4 then
      skip("input_ids of four packed documents, and eos_token_id in a config", "eos-absent")
    end
  end,
}
