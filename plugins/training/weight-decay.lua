--- ## What it detects
--- Weights that shrink geometrically, at the rate that learning rate and weight decay set; and updates of which decay
--- is a large part, whether or not the weights shrink.
---
--- ## Why it matters
--- Decay multiplies each weight by 1 - lr * wd a step. Where the gradient does not put back what decay takes, all
--- layers shrink by the same factor, the scores of attention go to zero and the model forgets faster than it learns.
--- The part needs no scale of its own. Decoupled decay takes lr * wd of a weight, of an update u of it: lr * wd / u.
--- Decay that is added to the gradient g is wd * w beside g, whatever the optimizer makes of the sum: wd * |w| / |g|.
--- Weights in balance have a part of sqrt(lr * wd / 2), a hundredth and less.
---
--- Rate and decay make this product together. Whose doing it is shows in what is left of an update without decay: where
--- that alone is a twentieth of the weights and more, step after step, and they do not shrink, the rate tears them up
--- at any decay. And decay that is decoupled stands beside an update of a fifth of the rate and more in each element,
--- against which a decay below a half takes a tenth of weights of usual size: it takes more where the rate has made
--- them large.
---
--- ## How to confirm
--- Compare the logarithm of the weight norm with minus the running sum of lr * wd.
---
--- ## Known false positives
--- Layers that have lost their gradient while they were as large as at first, or larger: decay takes what is left at
--- any size, and is not what ended them. A norm that falls a little from a large initialisation, as decay is meant to
--- do: it has to fall to less than two thirds, and to follow the sum of lr * wd where both are known. Updates of a
--- tenth of the weights and more change norms by themselves; nothing is judged then, unless decay is what they are made
--- of. A gradient that ends in nothing leaves decay alone at the end of a sound run: the part has to be large over
--- three quarters of the steps, in half of the layers. A loss with a floor leaves little gradient as well: weights that
--- grow beside a decay of less than a fifth of it are not held by it. Nor is anything lost to decay where the loss ends
--- at a twentieth of what it was: weights behind a norm may be of any length. What a projection takes at once (pruning,
--- masks, weights that are tied) is not decay's.
---
--- ## References
--- https://arxiv.org/abs/1711.05101

local optimizers = require("optimizers")
local places = require("places")
local runs = require("runs")
local update_ratios = require("update-ratios")

--- Whether a loss above zero ends as a small part of what it was, in nearly all of the last tenth of the run.
local function fitted(case, part)
  local loss  = runs.series(case, "loss"):where("finite(value)")
  local count = loss:count()
  local tenth = count // 10
  return tenth >= 1 and loss:min("value") > 0
    and loss:slice(count - tenth, tenth):quantile("value", 0.9) < part * loss:slice(0, 3):median("value")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Weight decay shrinks the weights",
  needs    = { scalars = { "step", "value", metric = "weight_norm" } },
  symptoms = { "weights-shrink", "weights-follow-decay", "decay-large-part-of-update" },
  options  = {
    fall     = { default = 0.67, doc = "Last weight norm over the first below which the weights have shrunk" },
    min_rows = { default = 6,    doc = "Logged values below which nothing is judged" },
    part     = { default = 0.3,  doc = "Part of an update that decoupled decay is at most in sound training" },
    beside   = { default = 0.08, doc = "Decay over the gradient it is added to, that sound training stays below" },
    holds    = { default = 0.2,  doc = "The same, from which it is large whatever the weights do" },
    fitted   = { default = 0.05, doc = "Last over first loss below which nothing was lost to decay" },
    own      = { default = 0.5,  doc = "Decoupled decay below which what it takes is the rate's doing" },
    a_step   = { default = 4e-3, doc = "Part of a weight that decay takes a step, below which gradients balance it" },
    enormous = { default = 1.0,  doc = "Decay below which none is told by updates that are smaller" },
    left     = { default = 0.05, doc = "Update less decay over the weights, of a rate that is too high at any decay" },
  },

  run = runs.apart(function(case, run)
    local opt   = case.options

    --- The part of decay in the update of the median layer, by step, in three quarters of the steps at least.
    local function part_of_decay()
      local set  = case.config:where("match(key, '*weight_decay|*wd|*adam_weight_decay|*weight_decay_rate')")
      local wd   = set:where("number > 0"):first()
      local name = optimizers.named(case)
      if not wd then
        if set:count() == 0 then skip("weight_decay in a config", "decay-large-part-of-update") end
        return
      end
      local kind = optimizers.kind(case)
      local function names(list)
        for _, word in ipairs(list) do
          if kind:contains(word) then return true end
        end
        return false
      end
      local said  = optimizers.decoupled(case)
      local apart = said == true
      local added = said == false or names { "sgd", "adam", "rmsprop", "momentum", "adagrad", "adadelta", "nesterov" }
      if not apart and not added then
        return skip("the optimizer's name in a config", "decay-large-part-of-update")
      end
      local all  = case.scalars:where { primary = true }:where("finite(value) and value > 0")
      -- Of the layers, or of all weights together, where layers are not on record.
      local rows = all:where("layer is not null")
      if rows:where { metric = apart and "update_ratio" or "grad_norm" }:count() == 0
        or not apart and rows:where { metric = "weight_norm" }:count() == 0 then
        rows = all:where("layer is null"):with { layer = "coalesce(layer, 'all')" }
      end
      all = rows
      local one  = all:where { metric = apart and "update_ratio" or "grad_norm" }:distinct("step", "layer")
        :select("step", "layer", "value")
      local both
      if apart then
        both = one:join(runs.series(case, "lr"):distinct("step"):select("step", "value"), { "step" })
      else
        both = one:join(all:where { metric = "weight_norm" }:distinct("step", "layer"):select("step", "layer", "value"),
          { "step", "layer" })
      end
      -- Weights that a rate too high has thrown out are large, so that decay is: that is the rate's doing.
      local sizes = case.scalars:where { metric = "weight_norm", primary = true }:where("layer is not null and "
        .. "finite(value) and value > 0"):aggregate({ "step" }, { size = "median value" }):sort("step")
      if sizes:count() > 0 and sizes:max("size") > 3 * sizes:first().size then return end
      local parts = both:where("value_right > 0"):with { part = "value_right / value" }
        :aggregate({ "step" }, { part = "median part" }):sort("step")
      if parts:count() < 4 then
        return skip(apart and "update ratios of layers beside the learning rate"
          or "gradient and weight norms of layers", "decay-large-part-of-update")
      end
      local usual = wd.number * parts:quantile("part", 0.25)
      if usual < (apart and opt.part or opt.beside) then return end
      -- A loss with a floor of its own leaves little gradient beside any decay; weights that grow are not held by it.
      if not apart and usual < opt.holds and sizes:count() > 1 and sizes:last().size > sizes:first().size then
        return skip(("a decay of %.2g of the gradient and more, or weights that it holds: these grow")
          :format(opt.holds), "decay-large-part-of-update")
      end
      -- What goes by the name of Adam may take decay from the weights all the same. Where it is added, and larger than
      -- the gradient, the sum points inwards, and weights shrink until the two are about as large.
      local rates = runs.series(case, "lr")
      local steps = parts:last().step - parts:first().step
      local taken = rates:count() > 0 and rates:mean("value") * wd.number * steps or 0
      local gone  = sizes:count() > 0 and math.log(sizes:max("size") / sizes:last().size) or 0
      local updates = case.scalars:where { metric = "update_ratio", primary = true }:where("layer is not null and "
        .. "finite(value)"):aggregate({ "step" }, { ratio = "median value" })
      -- Or updates end smaller than what would be taken from the weights alone, and these hold: then it is added.
      local function held()
        if wd.number < opt.enormous or taken < 0.2 or sizes:count() == 0 or gone >= 0.5 * taken then return false end
        local beside = updates:join(rates:distinct("step"):select("step", "value"), { "step" }):where("value > 0")
          :with { part = "ratio / value" }:sort("step")
        return beside:count() >= 3
          and beside:slice(beside:count() // 2, beside:count()):median("part") < 0.7 * wd.number
      end
      if said == nil and usual >= 1 and gone < math.log(1 / 0.7) and not held() then
        return skip(("decay that is known to be added to the gradient: %s may take it from the weights, and these do "
          .. "not shrink"):format(kind), "decay-large-part-of-update")
      end
      -- Where hardly anything moves, decay is as much of it as is left, and takes nothing.
      if apart and taken < 0.2 then return end
      local median = wd.number * parts:median("part")
      if apart and wd.number < opt.own then
        return skip(("a decay of %g and more, or a lower rate: less decay is large beside weights that the rate has "
          .. "made large"):format(opt.own), "decay-large-part-of-update")
      end
      -- Weights that decay has made small are torn by sound steps; those that stay or grow, by long ones.
      local kept = sizes:count() > 0 and sizes:last().size >= sizes:first().size
      if kept and updates:count() >= 4 and updates:median("ratio") * (1 - math.min(1, median)) >= opt.left then
        return skip("updates that without decay are a small part of the weights: the rate tears these up at any decay",
          "decay-large-part-of-update")
      end
      if fitted(case, opt.fitted) then
        return skip("a loss that is not near zero: where nothing is left to learn, decay is what is left of updates",
          "decay-large-part-of-update")
      end
      report {
        symptom  = "decay-large-part-of-update",
        score    = (apart or usual >= 0.2) and 0.95 or 0.75,
        at       = { run = run, step = parts:first().step },
        message  = apart and ("%s = %g takes %.2g of the size of an update in the median layer, over %d logged steps")
          :format(wd.key, wd.number, median, parts:count())
          or ("%s = %g adds %.2g of the gradient's own size to it in the median layer, over %d logged steps")
          :format(wd.key, wd.number, median, parts:count()),
        evidence = { wd, name, one:slice(0, 3) },
      }
    end
    part_of_decay()

    local norms = case.scalars:where { metric = "weight_norm", primary = true }:where("value > 0 and finite(value)")
    -- What a projection takes at once no decay has taken.
    local ratios = case.scalars:where { metric = "update_ratio", primary = true }:where("finite(value)")
    for _, step in ipairs(update_ratios.projected(case, ratios:where("layer is not null"))) do
      norms = norms:where("step > ?", step)
    end
    local layers = norms:where("layer is not null")

    local moved = case.scalars:where { metric = "update_ratio", primary = true }:where("layer is not null and "
      .. "finite(value)")
    -- The first updates of an adaptive optimizer are its rate in each element, and gone some steps later.
    local begin = norms:min("step") or 0
    local span  = (norms:max("step") or 0) - begin
    local soon  = begin + math.min(0.25 * span, math.max(10, 0.05 * span))
    local torn  = moved:aggregate({ "step" }, { ratio = "median value" }):where("ratio >= 0.1 and step > ?", soon)
    local decay = case.config:where("match(key, '*weight_decay|*wd|*adam_weight_decay|*weight_decay_rate') and "
      .. "number > 0"):first()
    local rates = runs.series(case, "lr")
    -- Plain descent sends decay through its momentum, which multiplies it. Others have momenta of another kind.
    local momentum = optimizers.plain(case) and case.config:where("match(key, 'momentum|*optim*.momentum|"
      .. "*.sgd_momentum|sgd_momentum|opt.momentum|train*.momentum|solver.momentum|hparams.momentum') "
      .. "and number > 0 and number < 1"):first()
    local coupled  = momentum and 1 / (1 - momentum.number) or 1
    local taken_a_step = decay and rates:count() > 0 and coupled * decay.number * rates:max("value") or 0
    if torn:count() >= 2 and taken_a_step < 0.4 * torn:median("ratio") then
      return skip("updates that leave the weights whole: these replace them")
    end

    local worst, shrunk, judged = nil, 0, 0
    local function judge(values, name, layer)
      local series = values:sort("step")
      if series:count() < opt.min_rows then return end
      local first, last = series:first(), series:last()
      judged = judged + 1
      if last.value / first.value < opt.fall then
        shrunk = shrunk + 1
        if not worst or last.value / first.value < worst.ratio then
          worst = { name = name, layer = layer, first = first, last = last, ratio = last.value / first.value,
            series = series }
        end
      end
    end
    for layer, values in layers:group("layer") do judge(values, layer, layer) end
    local whole = norms:where("layer is null"):with { square = "value * value" }
    if whole:count() == 0 then whole = norms:with { square = "value * value" } end
    whole = whole:aggregate({ "step" }, { sum = "sum square" }):sort("step")
    local total = whole:count() >= 2 and math.sqrt(whole:last().sum / whole:first().sum) or 1
    -- Rows of several layers are no series: what is judged is all of them together, by step.
    if judged == 0 then judge(whole:with { value = "sqrt(sum)" }:renamed("weight norms"), "the model") end
    if judged == 0 then return skip(("weight norms at %d steps"):format(opt.min_rows)) end
    -- Most layers, or the model as a whole: a head that grows does not acquit an embedding that goes.
    if not worst or shrunk < 0.5 * judged and total > opt.fall then return end

    -- Decay shrinks whatever has no gradient, however small it is: where the gradients of most layers are zero while
    -- the weights are as large as at first, decay is not what ended them.
    local grads = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null and "
      .. "finite(value)"):aggregate({ "step" }, { grad = "median value" })
    local ended = layers:aggregate({ "step" }, { size = "median value" }):join(grads, { "step" })
      :where("grad == 0"):sort("step"):first()
    local whole_at_first = layers:where { step = worst.first.step }:median("value")
    if ended and whole_at_first and ended.step > worst.first.step and ended.size >= whole_at_first then
      return skip(("weights that have a gradient beside the decay: that of the median layer is 0 at step %d, where its "
        .. "weights are %.2g times as large as at first"):format(ended.step, ended.size / whole_at_first))
    end

    -- What has come to balance: decay would have taken far more than went, a little at each step, and gradients put the
    -- rest back. So it is with weights behind a norm in any long training.
    local between = rates:where("step >= ? and step <= ?", worst.first.step, worst.last.step)
    local steps   = worst.last.step - worst.first.step
    local a_step  = decay and between:count() >= 3 and coupled * decay.number * between:mean("value") or 0
    if a_step * steps > 0.4 and a_step < opt.a_step and -math.log(worst.ratio) < 0.3 * a_step * steps then
      return skip("weights that decay shrinks: these are in balance with it")
    end

    -- A loss that came to nearly nothing and stays there misses nothing that decay takes: behind a norm the length of
    -- weights says nothing.
    if fitted(case, opt.fitted) then
      return skip(("a loss that misses what decay takes: it ends below %.2g of what it was"):format(opt.fitted))
    end

    -- From the last step on at which the norm is what it was at first.
    local since = worst.series:where("value >= ?", worst.first.value):max("step")
    local from  = places.since(since, worst.first.step)
    report {
      symptom  = "weights-shrink",
      score    = worst.ratio < 0.4 and 0.95 or 0.8,
      at       = { run = run, step = since, layer = worst.layer },
      message  = ("the weight norm of %s falls from %.3g at step %d to %.3g at step %d, %.2g of it, %s%s")
        :format(worst.name, worst.first.value, worst.first.step, worst.last.value, worst.last.step, worst.ratio, from,
          worst.layer and ("; %d of %d layers shrink"):format(shrunk, judged) or ""),
      evidence = { worst.first, worst.last },
    }

    rates = between
    if not decay or rates:count() < 3 then return end
    if optimizers.decoupled(case) and decay.number < opt.own then
      return skip(("a decay of %g and more: less follows the rate, which is high where it takes as much"):format(
        opt.own), "weights-follow-decay")
    end
    local taken = a_step * steps
    local seen  = -math.log(worst.ratio)
    -- What decay alone would take, against what went: the gradient puts some back, so less than all of it went.
    if taken > 0.4 and seen < 1.6 * taken then
      report {
        symptom  = "weights-follow-decay",
        score    = seen > 0.3 * taken and 0.95 or 0.8,
        at       = { run = run, step = since, layer = worst.layer },
        message  = ("%s = %g at a mean learning rate of %.2g takes a factor of exp(-%.3g) over %d steps; the weights "
          .. "of %s lost "
          .. "exp(-%.3g) of it, %s"):format(decay.key, decay.number, rates:mean("value"), taken, steps, worst.name,
          seen, from),
        evidence = { decay, worst.first, worst.last, rates:slice(0, 3) },
      }
    end
  end),
}
