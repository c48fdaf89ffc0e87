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
--- Rows of an embedding that no token of the batch touches, units that are dead: the median over the layers is judged,
--- without tables, of which a model of clicks has more than other layers; of all weights together nothing is said where
--- the config speaks of many tables.
--- In fp32 elements stay the same too where updates are below a ten-millionth of the weights, so only larger ones
--- count, and nothing is said of a run whose config names fp32 and whose dumps hold no 16-bit weight. Elements without
--- a gradient (units that are dead or saturated, frozen parts) stay the same in any format. Two
--- things tell them from rounding: an element that a coarse format changes at all moves by a unit of its last place, so
--- that a share f of changed elements, the smallest, makes an update of about 2^-8 f^1.5 of bf16 weights, and a far
--- smaller one was not rounded; and a frozen part is the same share at every step. Where a state of the optimizer, in a
--- finer format, rounds to a weight of its checkpoint, updates go into that copy and none is lost; nor where weights on
--- record have more digits than 16 bits keep, or moments beside 16-bit weights are in float32.
---
--- ## References
--- https://arxiv.org/abs/2010.06192

local freezing  = require("freezing")
local precision = require("precision")
local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates are lost in the rounding of the weights",
  needs    = { scalars = { "step", "value", metric = "unchanged_share" } },
  symptoms = { "updates-lost-in-rounding", "unchanged-elements-rise" },
  options  = {
    share = { default = 0.05, doc = "Share of unchanged elements that fp32 never has at ordinary updates" },
    ratio = { default = 5e-6, doc = "Update over weight below which fp32 loses updates as well" },
    many  = { default = 0.25, doc = "Share below which most of what is asked for is done, so that it is information" },
  },

  run = runs.apart(function(case, run)
    local opt    = case.options
    local all    = case.scalars:where { primary = true }:where("finite(value)")
    local shares = all:where { metric = "unchanged_share" }
    local moved  = all:where { metric = "update_ratio" }
    if moved:count() == 0 then return skip("update ratios beside the unchanged elements") end
    -- A master copy in fp32, a sum of what was rounded off and rounding by chance lose nothing.
    local kept = case.config:where("match(key, '*master_weight*|*master_param*|*fp32_master*|*stochastic_round*|"
      .. "*kahan*')")
      :where("not match(value, 'false|False|none|None|null|0|')"):first()
    if kept then
      return skip(("updates that are rounded into the weights: %s keeps what that loses"):format(kept.key))
    end
    local copy = precision.copy(case)
    if copy then
      return skip(("updates that are rounded into the weights: these are what %s is rounded to, which keeps what that "
        .. "loses"):format(copy.name))
    end
    local moment = precision.moments(case)
    if moment then
      return skip(("weights in a format that rounds: %s is float32, so that 16-bit ones may be cast for the file")
        :format(moment.name))
    end
    local layers = shares:where("layer is not null"):count() > 0
    if layers then shares, moved = shares:where("layer is not null"), moved:where("layer is not null") end
    -- Layers that do not move at all, or of which a part never does, are another check's.
    if layers then
      local layered, whole = all:where("layer is not null"), {}
      for layer in shares:group("layer") do
        if not freezing.part(layered, layer, opt.share, case) then whole[#whole + 1] = layer end
      end
      shares = shares:where { layer = whole }
    end
    local rest = layers and shares:where("not match(layer, '*emb*|*Emb*|*wte*|*wpe*|*table*|*sparse*|*lookup*|"
      .. "*categorical*|*hash*|*bag*|*tok_*')")
    if rest and rest:count() > 0 then shares = rest end
    local both = layers and shares:join(moved:distinct("step", "name", "layer"):select("step", "layer", "value"),
      { "step", "layer" }) or shares:join(moved:select("step", "value"), { "step" })
    local rounding = precision.rounding(case)
    local unit     = rounding > 2 ^ -20 and rounding or 2 ^ -8
    both = both:where("value_right > 0"):with { changed = "max(0, 1 - value)" }
    -- Rows that a batch lacks are as many at each step; what rounds away is more where updates are smaller.
    local ample  = both:where("value_right >= ?", opt.ratio)
    local varies = rounding > 2 ^ -20 and ample:count() >= 6 and ample:max("value") >= ample:min("value") + 0.2
    if not layers and not varies and case.config:where("match(key, '*num_embeddings*|*embedding_sizes*|*table_size*|"
      .. "*hash_size*|*hash_bucket*|*cardinalit*|*num_sparse*|*sparse_feat*|*categorical*|*num_tables*')"):count() > 0
    then
      return skip("unchanged elements by layer: rows of tables that a batch lacks stay as they are")
    end
    local fine = both:where("value >= ? and value_right < ? * changed * sqrt(changed)", opt.share, 0.2 * unit):count()
    local part = freezing.still(both, both:with { value = "value_right" }, opt.share)
    if not layers and part then return skip("unchanged elements by layer: a part of the model never changes") end
    local usual = both:aggregate({ "step" }, { share = "median value", ratio = "median value_right", layers = "count" })
      :renamed("unchanged elements"):sort("step")
    local told = usual:where("ratio >= ?", opt.ratio)
    if told:count() < 3 then return skip("three steps with updates above a millionth of the weights") end
    local high = told:where("share >= ?", opt.share)
    if high:count() < math.max(3, 0.3 * told:count()) then return end
    -- Some layers, most of the time, change by less than their format could.
    if fine >= 0.3 * both:where("value >= ?", opt.share):count() then return end
    local worst = high:top(1, "share"):first()
    -- In fp32 nothing of this size is lost: weights that are exactly zero, or get no gradient, stay as they are.
    local coarse = case.tensors:where("role == 'weight' and match(dtype, '*16*')"):count() > 0
    local full   = not coarse
      and case.config:where("match(key, '*precision|*dtype') and match(value, '*32*')"):count() > 0
    -- fp32 by the config, and by the dumped weights where there are any: nothing is rounded away, and what stands still
    -- gets no gradient.
    if full then return end
    local fp32 = case.tensors:where("role == 'weight' and dtype == 'float32' and numel >= 64 and not match(name, "
      .. "'battery.*')")
    if not coarse and rounding < 2 ^ -20 and fp32:count() > 0 then
      return skip("weights in a format that rounds: the dumped ones are float32, of which other rows stand still")
    end
    if rest and rest:count() == 0 and not coarse and rounding < 2 ^ -20 then
      return skip("a layer that each batch asks for as a whole: rows of tables that a batch lacks stay as they are")
    end
    if not layers and not coarse and rounding < 2 ^ -20 then
      return skip("the format of the weights: dump one, or unchanged elements by layer")
    end
    local finer = precision.finer(case)
    if finer then
      return skip(("weights in a format that rounds: numbers of %s have more digits than 16 bits keep"):format(
        finer.name))
    end
    report {
      symptom  = "updates-lost-in-rounding",
      score    = worst.share >= 0.3 and 0.95 or worst.share >= opt.many and 0.8 or 0.4,
      severity = worst.share < opt.many and "info" or nil,
      at       = { run = run, step = high:first().step },
      message  = ("%s of the weights of the median layer are bit-identical after an update of %.2g of their size "
        .. "(step %d); in "
        .. "fp32 such an update changes all of them"):format(units.percent(worst.share), worst.ratio, worst.step),
      evidence = { high:top(5, "share") },
    }
    local early, late = told:slice(0, told:count() // 2), told:slice(told:count() // 2, told:count())
    local top = late:max("share") or 0
    if told:count() >= 6 and top >= 2 * early:median("share") and top >= 0.2 then
      report {
        symptom  = "unchanged-elements-rise",
        score    = 0.85,
        at       = { run = run, step = late:top(1, "share"):first().step },
        message  = ("the share of unchanged weights rises from %s to %s as updates shrink from %.2g to %.2g of the "
          .. "weights"):format(
          units.percent(early:median("share")), units.percent(late:max("share")), early:median("ratio"),
          late:top(1, "share"):first().ratio),
        evidence = { told:first(), late:top(1, "share") },
      }
    end
  end),
}
