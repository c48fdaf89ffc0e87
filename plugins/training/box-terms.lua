--- ## What it detects
--- The terms of a detector's loss that only places of a thing have, its boxes, their overlap and centre-ness, are
--- exactly 0 in every row to the end.
---
--- ## Why it matters
--- A box is never drawn exactly: where a batch has one thing, these terms are above 0. If they are 0 in row after row
--- no place of any batch is of a thing. Boxes are lost or empty, labels are all padding or ignored, or nothing is
--- matched, as boxes in another unit match nothing. The model learns that there is nothing anywhere, and its loss looks
--- splendid.
---
--- ## How to confirm
--- Count the positive places, or matched boxes, of one batch, and draw its boxes over the image.
---
--- ## Known false positives
--- A term that is turned off by its weight, or that a model does not have, is 0 from the first row on: one alone says
--- nothing then, nor do any where the config has a weight of 0 for them. Digits that are cut off: a term that came down
--- to them by and by is none; one that was a tenth of its first value and more in the row before is. Data in which most
--- pictures are empty has some rows without a thing, and not all of them. Where the rate leaps, or a number of the
--- config is that of a step, between the last row of a term and its first 0, a stage begins that may do without it.
--- Terms of what has no labels, as pseudo boxes or a teacher's, are left out: they begin late and end early.
---
--- ## References
--- https://docs.pytorch.org/vision/stable/models/fcos.html

local box_losses = require("box-losses")
local runs = require("runs")

---@class box_terms.Term  A term that is 0 to the end.
---@field name string
---@field before culprit.Row?  its last row that is not 0; nil where it never was anything else
---@field rest culprit.Table   what comes behind that

--- The setting that turns such a term off.
local function turned_off(case)
  return case.config:where("match(key, ?) and match(key, '*coef*|*weight*|*gain*') and number == 0", box_losses.NAMES)
    :first()
end

--- What says that a stage of the run begins between two steps: the learning rate leaps there, or the config has the
--- number of such a step. What counts from there on was told so, and a term that does not was switched off.
---@return string?
local function stage(case, before, first)
  local rate = case.scalars:where { name = "lr", primary = true }:where("finite(value) and value > 0"):sort("step")
  local was, is = rate:where("step <= ?", before):last(), rate:where("step >= ?", first):first()
  if was and is and math.max(was.value / is.value, is.value / was.value) >= 2 then
    return ("the learning rate goes from %.3g to %.3g"):format(was.value, is.value)
  end
  local set = case.config:where("number > ? and number <= ? and number > 1", before, first)
    :where("match(key, '*stage*|*phase*|*start*|*begin*|*stop*|*until*|*burn*|*switch*|*milestone*|*step|*steps|"
      .. "*iter|*iters|*STAGE*|*START*|*STOP*|*BURN*|*STEPS|*ITER')")
    :where("not match(key, '*eval*|*log*|*save*|*print*|*check*')"):first()
  return set and ("%s is %g"):format(set.key, set.number)
end

--- The terms that are 0 to the end: those that went out, all at once, and those that never were anything else; and
--- whether there is another one, that lives or came down to 0 by and by.
---@return box_terms.Term[] gone
---@return box_terms.Term[] empty
---@return boolean alive
local function terms_of(case)
  local opt, gone, empty, alive = case.options, {}, {}, false
  -- Of the rows of training, which have a loss.
  local steps = case.scalars:where { name = "loss", primary = true }:where("finite(value)"):sort("step")
    :distinct("step"):select("step")
  for name, all in box_losses.of(case, true):group("name") do
    local term = all:select("step", "value"):join(steps, "step"):sort("step")
    if term:count() > opt.min_rows then
      local last = term:where("value != 0"):last()
      local rest = last and term:where("step > ?", last.step) or term
      if rest:count() < opt.min_rows then
        alive = true
      elseif not name:glob(box_losses.NAMES) then -- of boxes or of something else: it tells nothing
      elseif last then
        alive = alive or last.value < opt.fell * term:first().value
        gone[#gone + 1] = { name = name, before = last, rest = rest }
      else
        empty[#empty + 1] = { name = name, rest = rest }
      end
    end
  end
  return gone, empty, alive
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "No place of any batch is of a thing",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "box-terms-zero" },
  options  = {
    min_rows = { default = 5,    doc = "Rows at the end that are 0" },
    fell     = { default = 0.10, doc = "Part of its first value that a term has in the row before its first 0" },
  },

  run = runs.apart(function(case, run)
    local off = turned_off(case)
    if off then return skip(("terms that count: %s is 0"):format(off.key)) end
    local gone, empty, alive = terms_of(case)
    if #gone + #empty == 0 and not alive then
      return skip(("terms of boxes in the rows of the loss, %d at least"):format(case.options.min_rows + 1))
    end
    -- One that never was anything may be turned off; where another one was, they are.
    if alive or #gone == 0 and #empty < 2 then return end
    local found, names, from = #gone > 0 and gone or empty, {}, 0
    for i, term in ipairs(found) do names[i], from = term.name, math.max(from, term.rest:first().step) end
    local first = found[1]
    local began = first.before and stage(case, first.before.step, from)
    if began then
      return skip(("terms that count to the end: a stage begins where these come to 0, %s"):format(began))
    end
    report {
      symptom  = "box-terms-zero",
      score    = 0.9,
      at       = { run = run, step = first.before and from or first.rest:first().step },
      message  = ("%s %s exactly 0 in %s%d rows, %s: no place of any batch is of a thing"):format(
        table.concat(names, ", "), #names > 1 and "are" or "is", first.before and "the last " or "all ",
        first.rest:count(), first.before and ("from step %d on, and %.3g before"):format(from, first.before.value)
        or "from the first on"),
      evidence = { first.before, first.rest:slice(0, 5) },
    }
  end),
}
