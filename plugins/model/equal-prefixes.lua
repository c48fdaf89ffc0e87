--- ## What it detects
--- Rows of a dumped batch that begin with the same tokens and go on with different ones, where the logits behind the
--- common tokens know how each of them goes on. All that such a place may see is the same, so that its probabilities of
--- the different next tokens add up to 1 at most.
---
--- ## Why it matters
--- A model that sees what it is to predict has a loss far below what the data allow, and generates garbage.
---
--- ## How to confirm
--- Change the last token of an input: only the last position's logits may move.
---
--- ## Known false positives
--- Models that are given more than the tokens: what an encoder made of another text, a picture, a state that is carried
--- over from the batch before. Batches with other inputs that differ are not judged, nor are settings of a memory. What
--- is not asked for, as a question that is seen from both sides, is not looked at. Dropout makes one distribution
--- differ from the next, and not to the sum that is asked for here.
---
--- ## References
--- Probabilities of different tokens at one place add up to 1 at most.

local causality = require("causality")
local logits_of = require("logits")
local masked = require("masked")
local places = require("places")

-- What the loss is told, and the model is not.
local TOLD = "*label*|*target*|*loss_mask*|*assistant_mask*|*completion_mask*|*weight*|*.labels_*|*num_items*"

--- Whether two rows are given the same up to a place by all that the batch has beside the tokens.
---@param others culprit.Row[]
local function alike(others, a, b, count, width)
  for _, other in ipairs(others) do
    local x, y = other:values(a * width, count), other:values(b * width, count)
    for i = 1, count do if x[i] ~= y[i] then return false end end
  end
  return true
end

--- What the batch has beside ids and labels, of their shape; nil where there is something of another shape.
---@return culprit.Row[]?
local function beside(here, ids, labels)
  local out = {}
  for row in here:where("match(name, 'batch.*') and numel > 1 and not match(name, ?)", TOLD):slice(0, 40):rows() do
    if row.name ~= ids.name and row.name ~= labels.name then
      if row.numel ~= ids.numel then return nil end
      out[#out + 1] = row
    end
  end
  return out
end

--- The common beginning that is best told apart by what follows: { a, b, common, sum }.
---@param budget { left: integer }  elements of logits that may be read of all dumps together
local function told_apart(logits, ids, labels, others, width, size, budget)
  local rows = math.min(math.floor(ids.shape[1]), 32)
  local n = math.min(rows * width, 10000)
  local x, y, found, known = ids:values(0, n), labels:values(0, n), nil, {}
  rows = #x // width
  --- Whether the token behind a place is to be told, by a label that stands at it or one place before.
  local function asked(row, place)
    local i = row * width + place + 1
    return y[i] >= 0 or place + 1 < width and y[i + 1] >= 0
  end
  local function id(row, place) return x[row * width + place + 1] end
  --- What the logits give the token that comes behind a place; 0 where no more may be read.
  local function share(row, place)
    local i = row * width + place
    if not known[i] and budget.left >= size then
      budget.left = budget.left - size
      known[i] = math.exp(-logits_of.cost(logits, i, id(row, place + 1)))
    end
    return known[i] or 0
  end
  for a = 0, rows - 2 do
    for b = a + 1, rows - 1 do
      local common = 0
      while common < width and id(a, common) == id(b, common) do common = common + 1 end
      if common >= 1 and common < width and math.min(id(a, common), id(b, common)) >= 0
        and math.max(id(a, common), id(b, common)) < size
        and asked(a, common - 1) and asked(b, common - 1) and alike(others, a, b, common, width) then
        local sum = share(a, common - 1) + share(b, common - 1)
        if not found or sum > found.sum then found = { a = a, b = b, common = common, sum = sum } end
      end
    end
  end
  return found
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Equal beginnings are told apart by what follows them",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "future-reaches-past" },
  options  = {
    read = { default = 3000000, doc = "Elements of logits that are read of all dumps together" },
    sum  = { default = 1.6, doc = "Sum of the probabilities of two different tokens behind one beginning, 1 at most" },
  },

  run = function(case)
    local values = case.tensors:where("zero_share is not null and not match(name, 'battery.*')")
    local denied = causality.denied(case)
    if denied or masked.by(case) then
      return skip("a model that predicts what comes next" .. (denied and ": the config has " .. denied.key or ""))
    end
    local carried = case.config:where("match(key, '*stateful*|*mem_len*|*memory_len*|*carry*|*tbptt*|"
      .. "*truncated_bptt*') and (number > 0 or value in ('true', 'True'))"):first()
    if carried then return skip("rows that depend on themselves alone: the config has " .. carried.key) end
    local found, judged, most, budget = nil, 0, nil, { left = case.options.read }
    for labels in values:where("match(name, '*labels|*targets') and match(dtype, 'int*') and numel >= 8")
      :sort("-step"):slice(0, 40):rows() do
      local here = values:where { run = labels.run, step = labels.step, variant = labels.variant, rank = labels.rank }
      local ids  = here:where("match(name, 'batch.input_ids|batch.tokens|batch.ids') and match(dtype, 'int*')")
        :where { numel = labels.numel }:first()
      local logits = ids and #(ids.shape or {}) == 2 and logits_of.of(case, labels)
      local others = logits and beside(here, ids, labels)
      if logits and others then
        local one = told_apart(logits, ids, labels, others, math.floor(ids.shape[2]), logits.shape[3], budget)
        if one then
          judged = judged + 1
          if not most or one.sum > most.sum then most, found = one, { logits = logits, ids = ids } end
        end
      end
    end
    if judged == 0 then
      return skip("logits beside batch.input_ids of rows that begin alike, in a dump (culprit_recorder.watch)")
    elseif most.sum < case.options.sum then
      return
    elseif not causality.declared(case) then
      return skip("whether the model predicts what comes next: a setting, or labels that are the next tokens")
    end
    local step, from = places.start(case, found.logits.step, false)
    report {
      symptom  = "future-reaches-past",
      score    = 0.95,
      at       = { step = step },
      message  = ("rows %d and %d of step %s begin with the same %s and go on with different ones, to which the logits "
        .. "give probabilities that add up to %.3g, and can to 1 if they see no more than that: they see what comes, "
        .. "%s"):format(most.a + 1, most.b + 1, tostring(found.logits.step), units.plural(most.common, "token"),
        most.sum, from),
      evidence = { found.logits, found.ids },
    }
  end,
}
