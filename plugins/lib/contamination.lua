--- Texts that a model is measured by, looked for in the documents that it is trained on.

local contamination = {}

--- The options of a detector that calls `look`.
contamination.options = {
  share   = { default = 0.5,  doc = "Share of a text's words that have to stand in one training document" },
  telling = { default = 0.01, doc = "Share of the examples below which the score of the whole set stays right" },
  bytes   = { default = 1e9,  doc = "Training text that is looked at: more takes too long" },
}

--- The first documents, as far as they can be looked at in time.
local function bounded(documents, bytes)
  local all = documents:sum("bytes")
  return all <= bytes and documents or documents:slice(0, math.floor(documents:count() * bytes / all))
end

--- Reports what of a column of `tests` stands in `trained`, the first `opt.bytes` of it. False when there is nothing to
--- be judged: one side is empty, or all texts are shorter than 8 words.
---@param opt table        values of contamination.options
---@param tests culprit.Table
---@param column string    that of `tests` which holds the texts
---@param trained culprit.Table  rows of case.documents
---@param symptom string
---@param what string      what the rows of `tests` are called in the message
---@return boolean judged
function contamination.look(opt, tests, column, trained, symptom, what)
  if tests:count() == 0 or trained:count() == 0 then return false end
  trained = bounded(trained, opt.bytes)
  if trained:count() == 0 then return false end
  local judged = tests:standing_in(column, trained, "text")
  local all    = judged:count()
  if all == 0 then return false end
  local hits  = judged:where("share >= ?", opt.share)
  local n     = hits:count()
  if n == 0 then return true end
  local exact = hits:where("exact"):count()
  local worst = hits:top(1, "longest"):first()
  local names = {}
  for row in hits:slice(0, 3):rows() do names[#names + 1] = row.id or ("line %d"):format(row.place) end
  local match = trained:row(worst.found_in)
  report {
    symptom  = symptom,
    severity = n < opt.telling * all and "warning" or nil,
    score    = n < opt.telling * all and 0.6 or 0.97,
    message  = ("%s of %s %s (%s) stand in the training documents, %s: %s%s; the longest piece in common has %s words "
      .. "(%s, in %s)"):format(units.count(n), units.count(all), what, units.percent(n / all), exact == n
      and "all of them word for word" or ("%s of them word for word and the others with %s or more of their words")
      :format(units.count(exact), units.percent(opt.share)), table.concat(names, ", "), n > #names and " ..." or "",
      units.count(worst.longest), worst.id or "a prompt", match.id),
    evidence = { worst, match, hits:slice(0, 5) },
  }
  return true
end

return contamination
