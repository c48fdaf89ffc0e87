--- ## What it detects
--- Documents of a training set that are copies of others, word for word or nearly: how many, and how large the largest
--- group is.
---
--- ## Why it matters
--- A text that is there k times is trained on k times an epoch. The model learns it by heart, repeats it when it is
--- asked for something else, and the rest of the data gets less of the training than was planned.
---
--- ## How to confirm
--- Read three members of the largest group. Train on the set without copies: the validation loss falls no less.
---
--- ## Known false positives
--- Data that were multiplied on purpose to give a source weight. Where every document has the same number of copies,
--- word for word, passes were written out, and none has more weight than another: nothing is said. Nor is it of
--- several records of one passage, as questions about a text: what they do not share are three words or more at one
--- end, in most of what is no word-for-word copy. What most documents share (a system prompt, a template) and headers
--- do not count. Of a large file the first part is looked at, so the copies found are fewer than there are.
---
--- ## References
--- https://arxiv.org/abs/2107.06499 (deduplication makes language models better), https://arxiv.org/abs/2205.10487

local prefixes = require("prefixes")

local LOOKED_AT = 200

--- Whether two texts are the same but for one end, where each has three words or more of its own: two records of one
--- passage.
local function of_one_passage(a, b)
  local least = math.min(#a, #b)
  local head = prefixes.agreeing(least, function(n) return a:sub(1, n) == b:sub(1, n) end)
  local tail = prefixes.agreeing(least, function(n) return a:sub(-n) == b:sub(-n) end)
  local shared = math.max(head, tail)
  if shared < 0.5 * least then return false end
  local function words(text)
    local rest, n = head >= tail and text:sub(head + 1) or text:sub(1, #text - tail), 0
    for _, word in ipairs(rest:trim():split(" ")) do if word ~= "" then n = n + 1 end end
    return n
  end
  return math.min(head, tail) <= 0.1 * shared and words(a) >= 3 and words(b) >= 3
end

--- Whether most near copies are records of one passage with another one.
local function records_of_passages(set, copies)
  local near, so = copies:where("not exact"), 0
  local n = math.min(near:count(), LOOKED_AT)
  for row in near:slice(0, n):rows() do
    if of_one_passage(row.text, set:row(row.copy_of).text) then so = so + 1 end
  end
  return n > 0 and so >= 0.8 * n
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Many documents of the training set are copies",
  needs    = { documents = { "text" } },
  symptoms = { "training-documents-repeat" },
  options  = {
    documents  = { default = 20,   doc = "Documents below which a share says nothing" },
    share      = { default = 0.05, doc = "Share of documents that are copies worth reporting" },
    cluster    = { default = 0.02, doc = "Share of documents in one group worth reporting" },
    similarity = { default = 0.8,  doc = "Share of common runs of words that makes two documents copies" },
    bytes      = { default = 2.5e8, doc = "Text that is looked at: more takes too long" },
  },

  run = function(case)
    local opt, judged = case.options, false
    -- What is held out has a question of its own, whether it is among the training data: data/contamination.
    local trained = case.documents:where("text is not null and (split is null or split == 'train')")
    for run, set in trained:group("run") do
      local bytes = set:sum("bytes")
      if bytes > opt.bytes then set = set:slice(0, math.floor(set:count() * opt.bytes / bytes)) end
      local compared = set:near_duplicates("text", opt.similarity)
      local all, copies = compared:count(), compared:where("copy_of is not null")
      judged = judged or all >= opt.documents
      if records_of_passages(set, copies) then copies = copies:where("exact") end
      local n = copies:count()
      if all >= opt.documents and n >= 3 then
        local groups = copies:aggregate("copy_of", { n = "count" })
        local largest = groups:top(1, "n"):first()
        local members = copies:where("copy_of == ?", largest.copy_of)
        local share, part = n / all, (largest.n + 1) / all
        -- As many copies of each, and nothing else: the passes of a training, one behind the other.
        local passes = groups:min("n") == largest.n and (largest.n + 1) * groups:count() == all
        if passes and copies:where("exact"):count() == n then
          largest = nil
        elseif share >= opt.share or (part >= opt.cluster and largest.n >= 4) then
          local exact, first = copies:where("exact"):count(), set:row(largest.copy_of)
          report {
            symptom  = "training-documents-repeat",
            score    = math.min(0.95, 0.6 + share),
            message  = ("%s of %s training documents (%s) are copies of others, %s of them word for word: %s are "
              .. "different; the largest of %s groups has %s (%s), which begins with document %s"):format(
              units.count(n), units.count(all), units.percent(share), exact == n and "all" or units.count(exact),
              units.count(all - n), units.count(groups:count()), units.count(largest.n + 1), units.percent(part),
              first.id),
            evidence = { first, members:slice(0, 5) },
          }
        end
      end
    end
    if not judged then
      skip(("%d documents of a training set with 8 words or more (train.jsonl)"):format(opt.documents))
    end
  end,
}
