--- ## What it detects
--- Batches that come a second time in the order of the first, told by the hash of each batch.
---
--- ## Why it matters
--- A loader that begins at the start of its data after a resume trains on the first part twice and never sees the last.
--- The loss hardly shows it.
---
--- ## How to confirm
--- Print the sample ids of the first batch after a resume and of the batch after the checkpoint's step: they are equal
--- if the position was restored.
---
--- ## Known false positives
--- A second epoch in the order of the first, which is a fault of the shuffling and not of a resume, looks the same;
--- more epochs than two do not. Where dumped batches of one hash have other labels, it is of the inputs alone.
---
--- ## References
--- https://github.com/pytorch/data (torchdata.stateful_dataloader)

local training = require("training-rows")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Batches are trained on a second time",
  needs    = { scalars = { "step", "value", metric = "batch_hash" } },
  symptoms = { "batches-replayed" },
  options  = {
    replay = { default = 5, doc = "Batches in a row that are known from before" },
  },

  run = function(case)
    local opt, judged = case.options, false
    -- Known batches in a row, with the distance at which they were seen.
    for name, rows in case.scalars:where("name == 'batch_hash' and finite(value)"):group("run") do
      local anew = training.told_anew(case, name)
      if anew then
        judged = true
        skip(("hashes of whole batches: those of one hash have other %s"):format(anew))
      elseif rows:count() >= 2 * opt.replay and rows:count() <= 10000 then
        judged = true
        local hashes, steps = rows:col("value"):values(), rows:col("step"):values()
        local seen, best, length, since, far = {}, 0, 0, nil, nil
        local at, distance = nil, nil
        for i = 1, #hashes do
          local before = seen[hashes[i]]
          if before and far == i - before then
            length = length + 1
          else
            length, since, far = before and 1 or 0, i, before and i - before or nil
          end
          if length > best then best, at, distance = length, since, far end
          seen[hashes[i]] = i
        end
        -- The same batches at the same steps are the redone part of the log. Batches that come more than twice are
        -- epochs in one order, which is no matter of a resume.
        if best >= opt.replay and steps[at] ~= steps[at - distance] and best < 2 * distance then
          report {
            symptom  = "batches-replayed",
            score    = 0.85,
            at       = { step = steps[at] },
            message  = ("the batches of steps %d to %d are those of steps %d to %d: data that was trained on "
              .. "comes again"):format(steps[at], steps[at + best - 1], steps[at - distance],
              steps[at - distance + best - 1]),
            evidence = { rows:row(at - 1), rows:row(at - 1 - distance) },
          }
        end
      end
    end
    if not judged then skip("the hashes of 10 to 10,000 batches, at every step") end
  end,
}
