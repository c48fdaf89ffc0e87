--- ## What it detects
--- Position ids of a dumped batch that are one and the same number at every place of every row.
---
--- ## Why it matters
--- The encoding of position is then the same vector, or the same rotation, everywhere: an offset that says nothing. A
--- model without a causal mask sees a bag of words.
---
--- ## How to confirm
--- Print `position_ids[0]`: they have to count up, from 0 again where a packed document begins.
---
--- ## Known false positives
--- One token a row, as in decoding. Ids with an axis for each of time, height and width are constant along some of them
--- (one image has one time), never along all. Packed and padded rows begin again, or repeat one id over the padding,
--- and still count up elsewhere.
---
--- ## References
--- https://huggingface.co/docs/transformers/glossary#position-ids

---@type culprit.Detector
return {
  api      = 1,
  summary  = "All position ids of a batch are the same",
  needs    = { tensors = { "name", "shape", "min", "max" } },
  symptoms = { "position-ids-constant" },

  run = function(case)
    local ids = case.tensors:where("match(name, '*position_ids|*pos_ids|*position_id') and match(dtype, 'int*') and "
      .. "min is not null and not match(name, 'battery.*')"):sort("step")
    local judged, constant = 0, nil
    for row in ids:slice(0, 1000):rows() do
      local shape = row.shape or {}
      -- Of what has fewer than four places a row one id may be right.
      if #shape >= 1 and shape[#shape] >= 4 then
        judged = judged + 1
        if row.min ~= row.max then return end
        constant = constant or row
      end
    end
    if judged == 0 then
      return skip("batch.position_ids of a step in a dump, where the model is given any (culprit_recorder.watch)")
    end
    local places = require("places")
    local step, from = places.start(case, constant.step, false)
    report {
      symptom  = "position-ids-constant",
      score    = 0.95,
      at       = { step = step, name = constant.name },
      message  = ("all %s of %s, %d a row, are %d%s: every place has the same position; %s"):format(
        units.plural(constant.numel, "id"), constant.name, constant.shape[#constant.shape], constant.min,
        judged > 1 and (" in %s"):format(units.plural(judged, "dump")) or "", from),
      evidence = { constant },
    }
  end,
}
