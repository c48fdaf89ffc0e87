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
--- Data that were multiplied on purpose to give them weight: then every document of a source has the same number of
--- copies. What most documents share (a system prompt, a template) and headers do not count. Of a large file the first
--- part is looked at, so the copies found are fewer than there are.
---
--- ## References
--- https://arxiv.org/abs/2107.06499 (deduplication makes language models better), https://arxiv.org/abs/2205.10487

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
      local n = copies:count()
      if all >= opt.documents and n >= 3 then
        local groups = copies:aggregate("copy_of", { n = "count" })
        local largest = groups:top(1, "n"):first()
        local members = copies:where("copy_of == ?", largest.copy_of)
        local share, part = n / all, (largest.n + 1) / all
        if share >= opt.share or (part >= opt.cluster and largest.n >= 4) then
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
