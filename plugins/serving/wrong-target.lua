--- ## What it detects
--- Answers of another model than the one asked for: by two hops of one request, or by the model that a config names.
--- Two sides that different models answered. One and the same long answer to different prompts, and a client that holds
--- another answer than the server gave, or one that carries the id of an earlier request.
---
--- ## Why it matters
--- Hours of debugging go to a model that was never called, or to an answer that belongs to the request before.
---
--- ## How to confirm
--- Call the server directly with the same body, and compare the model and the id of the answer.
---
--- ## Known false positives
--- Aliases: gpt-x answers as gpt-x-2025-01-01, org/name as name; one name within the other is the same model. Short
--- answers, refusals and error pages are alike by nature: only answers of 120 characters count.
---
--- ## References
--- https://platform.openai.com/docs/api-reference/chat/object (model, id)

local ROWS = 5000
local ORDER = { client = 1, gateway = 2, server = 3, engine = 4 }
local REFUSALS = { "sorry", "cannot assist", "can't assist", "can't help", "cannot help", "unable to", "as an ai",
  "error", "<!doctype", "<html" }

--- Whether two names may mean one model.
local function same_model(a, b)
  local function plain(name)
    local parts = name:lower():split("/")
    return parts[#parts]:replace("_", "-"):replace(".gguf", ""):replace(":latest", ""):trim()
  end
  a, b = plain(a), plain(b)
  return a:contains(b) or b:contains(a)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Another model, or another answer, than asked for",
  needs    = { any = { requests = {}, config = { "value", key = "model" } } },
  symptoms = { "answered-by-other-model", "models-differ-between-sides", "same-answer-to-different-prompts",
    "client-shows-other-answer", "answer-older-than-request" },
  options  = {
    old    = { default = 60,  doc = "Seconds before its request from which an answer is an old one" },
    length = { default = 120, doc = "Characters of an answer that are not alike by chance" },
    min    = { default = 2,   doc = "Different prompts with one answer worth reporting" },
  },

  run = function(case)
    local opt, judged = case.options, false

    -- One request at several hops: what the client holds against what was served.
    local hops, other, shown = case.requests:where("hop is not null and id is not null"):sort("place"), nil, {}
    if hops:distinct("hop"):count() >= 2 then
      judged = true
      local wrong, rows = 0, {}
      local seen = {}
      for row in hops:slice(0, ROWS):rows() do
        local before = seen[row.id]
        if not before then
          seen[row.id] = row
        elseif before.hop ~= row.hop then
          local near, far = before, row
          if (ORDER[near.hop] or 9) > (ORDER[far.hop] or 9) then near, far = far, near end
          if near.model and far.model and not same_model(near.model, far.model) then
            wrong = wrong + 1
            other = other or { near = near, far = far }
            if #rows < 6 then table.insert(rows, near) table.insert(rows, far) end
          end
          if near.response and far.response and near.response:trim() ~= far.response:trim()
            and #near.response >= 20 and not far.response:starts_with(near.response:trim()) then
            table.insert(shown, { near = near, far = far })
          end
        end
      end
      if other then
        report {
          symptom = "answered-by-other-model", score = 0.95, at = { name = other.near.id },
          message = ("%s: the %s asks for %s and the %s has %s%s"):format(units.plural(wrong, "request"),
            other.near.hop, other.near.model, other.far.hop, other.far.model,
            other.far.endpoint and (" at " .. other.far.endpoint) or ""),
          evidence = rows,
        }
      end
    end
    if #shown > 0 then
      local one, owner = shown[1], nil
      for row in case.requests:where("response is not null and id != ?", one.near.id):slice(0, ROWS):rows() do
        if row.response:trim() == one.near.response:trim() then owner = row break end
      end
      report {
        symptom = "client-shows-other-answer", score = owner and 0.95 or 0.85, at = { name = one.near.id },
        message = ("%s: the %s holds another answer than the %s gave; %s reads \"%s\" at the %s%s"):format(
          units.plural(#shown, "request"), one.near.hop, one.far.hop, one.near.id,
          one.near.response:sub(1, 40):replace("\n", "\\n"), one.near.hop,
          owner and owner.id and (", which is the answer to " .. owner.id) or ""),
        evidence = { one.near, one.far, owner },
      }
    end

    -- Ids are given once: the same one beside another prompt, with the answer of the first, came out of a cache.
    local held, stale, kept = {}, 0, {}
    for row in case.requests:where("id is not null and prompt is not null and response is not null"):sort("at")
      :slice(0, ROWS):rows() do
      local key   = row.id .. " " .. (row.hop or "")
      local first = held[key]
      if not first then
        held[key] = row
      -- A number that counts the rows of a file stands in every file; short answers are alike by nature.
      elseif first.prompt ~= row.prompt and first.response == row.response
        and (#row.response >= opt.length or not tonumber(row.id)) then
        stale = stale + 1
        if #kept < 4 then
          table.insert(kept, first)
          table.insert(kept, row)
        end
      end
    end
    if stale > 0 then
      local first, row = kept[1], kept[2]
      report {
        symptom = "client-shows-other-answer", score = math.min(0.95, 0.8 + 0.05 * stale), at = { name = row.id },
        message = ("%s with the id and the answer of an earlier one: %s answered \"%s\" first%s, and stands "
          .. "beside \"%s\"%s"):format(units.plural(stale, "prompt") .. (stale == 1 and " comes" or " come"), row.id,
          first.prompt:sub(1, 50):replace("\n", "\\n"), row.at and first.at
            and (", %s s before"):format(units.number(row.at - first.at, 3)) or "",
          row.prompt:sub(1, 50):replace("\n", "\\n"), row.latency and (", after %s s"):format(
            units.number(row.latency, 2)) or ""),
        evidence = kept,
      }
    end

    -- An answer that was made before it was asked for was kept by somebody. A clock that is off is so by the same for
    -- all.
    local aged = case.requests:where("created is not null and at is not null"):with { early = "at - created" }
    if aged:count() >= opt.min then
      judged = true
      local off = aged:col("early"):quantile(0.05)
      local old = aged:where("early > ? and early > ?", opt.old, off + opt.old):sort("at")
      if old:count() >= opt.min then
        local oldest = old:top(1, "early"):first()
        report {
          symptom = "answer-older-than-request", score = math.min(0.95, 0.8 + 0.05 * old:count()),
          at = { name = oldest.id },
          message = ("%d of %s say that they were made before they were asked for, that of %s by %s s"):format(
            old:count(), units.plural(aged:count(), "answer"), oldest.id or "one", units.number(oldest.early, 3)),
          evidence = { old:slice(0, 4) },
        }
      end
    end

    -- The record has the model asked for beside the one that answered.
    local asked = case.requests:where("asked_model is not null and model is not null")
    if asked:count() > 0 then
      judged = true
      local count, one = 0, nil
      for row in asked:slice(0, ROWS):rows() do
        if not same_model(row.model, row.asked_model) then count, one = count + 1, one or row end
      end
      if one and not other then
        report {
          -- All of them alike may be a name that the server gives its model.
          symptom = "answered-by-other-model", score = count < asked:count() and 0.9 or 0.6,
          at      = { name = one.model },
          message = ("%d of %s got another model than they asked for: %s asked for %s and was answered by %s"):format(
            count, units.plural(math.min(asked:count(), ROWS), "request"), one.id or "one", one.asked_model,
            one.model),
          evidence = { one },
        }
      end
    end

    -- A config of the client names the model.
    local wanted = case.config:where("match(key, 'model|*.model|model_name|*.model_name|model_id') and "
      .. "value is not null and number is null"):first()
    -- Beside an answer stands the model that gave it, whoever kept it.
    local answered = case.requests:where("model is not null and (hop is null or hop != 'client' or "
      .. "response is not null)")
    if wanted and not other and answered:count() > 0 then
      judged = true
      -- A server may serve its model under names of its own.
      local served_as = case.config:where("match(key, 'served_model_name*|*.served_model_name*|*alias*') and "
        .. "value is not null")
      local function is_served(model)
        for row in served_as:rows() do if row.value:contains(model) then return true end end
        return false
      end
      for model, rows in answered:group("model") do
        if not same_model(model, wanted.value) and not is_served(model) and rows:count() >= 0.5 * answered:count() then
          report {
            symptom = "answered-by-other-model", score = 0.85, at = { name = model },
            message = ("%d of %s were answered by %s, and %s names %s"):format(rows:count(),
              units.plural(answered:count(), "request"), model, wanted.key, wanted.value),
            evidence = { wanted, rows:first() },
          }
        end
      end
    end

    -- Two sides.
    local sides = {}
    for name, rows in case.requests:where("model is not null"):group("variant") do
      if rows:distinct("model"):count() == 1 then table.insert(sides, { name = name, row = rows:first() }) end
    end
    if #sides == 2 then
      judged = true
      if sides[1].row.model ~= sides[2].row.model then
        report {
          symptom = "models-differ-between-sides", score = 0.95, severity = "warning", at = { name = sides[2].name },
          message = ("%s was answered by %s, %s by %s"):format(sides[1].name, sides[1].row.model, sides[2].name,
            sides[2].row.model),
          evidence = { sides[1].row, sides[2].row },
        }
      end
    end

    -- One answer to different prompts.
    local answers, most = {}, nil
    -- As one hop has them: what client and engine both recorded is one answer, to one prompt.
    local served = case.requests:where("response is not null and prompt is not null and (status is null or "
      .. "status == 200)")
    local first = served:where("hop is not null"):first()
    if first then served = served:where("hop is null or hop == ?", first.hop) end
    for row in served:slice(0, ROWS):rows() do
      local text, refused = row.response:trim(), false
      for _, word in ipairs(REFUSALS) do refused = refused or text:sub(1, 200):lower():contains(word) end
      judged = true
      if #text >= opt.length and not refused then
        local a = answers[text] or { prompts = {}, n = 0, rows = {} }
        answers[text] = a
        if not a.prompts[row.prompt] then
          a.prompts[row.prompt], a.n = true, a.n + 1
          if #a.rows < 4 then table.insert(a.rows, row) end
          if a.n > 1 and (not most or a.n > most.n) then most = a end
        end
      end
    end
    if most and most.n >= opt.min then
      report {
        symptom = "same-answer-to-different-prompts", score = math.min(0.9, 0.5 + 0.1 * most.n),
        message = ("%d different prompts have one and the same answer of %d characters: \"%s\""):format(most.n,
          #most.rows[1].response, most.rows[1].response:sub(1, 50):replace("\n", "\\n")),
        evidence = most.rows,
      }
    end
    if not judged then skip("requests with model and hop, or prompts with their answers") end
  end,
}
