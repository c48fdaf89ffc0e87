--- ## What it detects
--- A batch with boxes none of which has a class: all labels are below 0, which is what padding has.
---
--- ## Why it matters
--- What is padding is of no thing, so that the whole batch is ground: no place has a box or a class to learn, and what
--- is divided by the number of things is divided by nothing.
---
--- ## How to confirm
--- Count the labels of a batch that are 0 or more, before the loss.
---
--- ## Known false positives
--- A detector of one kind of things needs no classes: where the config has one the batch is not judged. Images without
--- any thing have no boxes of a size, and their labels are padding rightly; a few boxes may be of a crowd that is
--- left out. Batches without classes may take turns with labelled ones, as proposals of a second set do: from the first
--- such batch on all have to be so, and no logged term of boxes may be above 0, as it is where a box has a class.
---
--- ## References
--- https://docs.pytorch.org/vision/stable/models/fcos.html (boxes and labels of an image)

local box_losses = require("box-losses")
local labelled_boxes = require("labelled-boxes")
local runs = require("runs")
local training = require("training-rows")

--- A term of the loss that only boxes with a class have, above 0 at a step or behind it; nil where none was logged.
local function taught(case, step)
  return box_losses.of(case):where("value > 0 and step >= ?", step):first()
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "No box of a batch has a class",
  needs    = { tensors = { "name", "data", "shape" } },
  symptoms = { "labels-all-ignored" },
  options  = {
    boxes = { default = 8, doc = "Boxes of a batch from which not all are of a crowd that is left out" },
  },

  run = runs.apart(function(case, run)
    if case.config:where("match(key, '*num_classes|*num_labels|*n_classes|nc|*.nc') and number <= 1"):count() > 0 then
      return skip("a detector of several classes")
    end
    local dumped, judged, bare = training.batches(case), false, nil
    for labels in dumped:where("match(name, '*labels|*classes') and match(dtype, 'int*') and numel >= 4")
      :slice(0, 200):rows() do
      local boxes, count = labelled_boxes.beside(dumped, labels)
      judged = judged or count > 0
      if count >= case.options.boxes and labels.max then
        if labels.max < 0 then
          bare = bare or { labels = labels, boxes = boxes, count = count }
        elseif bare then
          return skip("boxes that lose their classes for good: batches with classes follow")
        end
      end
    end
    if bare then
      local term = taught(case, bare.labels.step)
      if term then return skip("boxes none of which is taught: later on the loss has " .. term.name) end
      report {
        symptom  = "labels-all-ignored",
        score    = 0.95,
        at       = { run = run, step = bare.labels.step },
        message  = ("the batch of step %d has %s, and all %d labels are below 0: no place is of a thing"):format(
          math.floor(bare.labels.step), units.plural(bare.count, "box", "boxes"), math.floor(bare.labels.numel)),
        evidence = { bare.labels, bare.boxes },
      }
      return
    end
    if not judged then skip("a dumped batch with boxes and their labels") end
  end),
}
