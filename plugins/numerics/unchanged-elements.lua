--- ## What it detects
--- Updates that are not zero but leave a share of the weights bit-identical: they are smaller than half the distance to
--- the next number of the weights' format.
---
--- ## Why it matters
--- bf16 has eight significant bits. An update of a five-hundredth of a weight and less is rounded away, every time, so
--- learning stops as the rate decays, although rate and gradients look right.
---
--- ## How to confirm
--- Apply one update in fp32 to a copy of the weights and count the elements that differ after rounding.
---
--- ## Known false positives
--- Rows of an embedding that no token of the batch touches, units that are dead: the median over the layers is judged.
--- In fp32 elements stay the same too where updates are below a ten-millionth of the weights, so only larger ones
--- count.
---
--- ## References
--- https://arxiv.org/abs/2010.06192

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates are lost in the rounding of the weights",
  needs    = { scalars = { "step", "value", metric = "unchanged_share" } },
  symptoms = { "updates-lost-in-rounding", "unchanged-elements-rise" },
  options  = {
    share = { default = 0.05, doc = "Share of unchanged elements that fp32 never has at ordinary updates" },
    ratio = { default = 5e-6, doc = "Update over weight below which fp32 loses updates as well" },
  },

  run = function(case)
    local opt    = case.options
    local all    = case.scalars:where { primary = true }:where("finite(value)")
    local shares = all:where { metric = "unchanged_share" }
    local moved  = all:where { metric = "update_ratio" }
    if moved:count() == 0 then return skip("update ratios beside the unchanged elements") end
    local layers = shares:where("layer is not null"):count() > 0
    if layers then shares, moved = shares:where("layer is not null"), moved:where("layer is not null") end
    -- Layers that do not move at all are another check's.
    local both = shares:join(moved:distinct("step", "name", "layer"):select("step", "layer", "value"),
      layers and { "step", "layer" } or { "step" }):where("value_right > 0")
    local usual = both:aggregate({ "step" }, { share = "median value", ratio = "median value_right", layers = "count" })
      :renamed("unchanged elements"):sort("step")
    local told = usual:where("ratio >= ?", opt.ratio)
    if told:count() < 3 then return skip("three steps with updates above a millionth of the weights") end
    local high = told:where("share >= ?", opt.share)
    if high:count() < math.max(3, 0.3 * told:count()) then return end
    local worst = high:top(1, "share"):first()
    -- In fp32 nothing of this size is lost: weights that are exactly zero, or get no gradient, stay as they are.
    local full = case.config:where("match(key, '*precision|*dtype') and match(value, '*32*')"):count() > 0
      and case.tensors:where("role == 'weight' and match(dtype, '*16*')"):count() == 0
    report {
      symptom  = "updates-lost-in-rounding",
      score    = full and 0.4 or worst.share >= 0.3 and 0.95 or 0.8,
      at       = { step = high:first().step },
      message  = ("%s of the weights of the median layer are bit-identical after an update of %.2g of their size "
        .. "(step %d); in "
        .. "fp32 such an update changes all of them"):format(units.percent(worst.share), worst.ratio, worst.step),
      evidence = { high:top(5, "share") },
    }
    local early, late = told:slice(0, told:count() // 2), told:slice(told:count() // 2, told:count())
    if told:count() >= 6 and late:max("share") >= 2 * early:median("share") and late:max("share") >= 0.2 then
      report {
        symptom  = "unchanged-elements-rise",
        score    = 0.85,
        at       = { step = late:top(1, "share"):first().step },
        message  = ("the share of unchanged weights rises from %s to %s as updates shrink from %.2g to %.2g of the "
          .. "weights"):format(
          units.percent(early:median("share")), units.percent(late:max("share")), early:median("ratio"),
          late:top(1, "share"):first().ratio),
        evidence = { told:first(), late:top(1, "share") },
      }
    end
  end,
}
