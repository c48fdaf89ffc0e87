--- ## What it detects
--- Where in the network a rise of the gradient begins: the layer whose gradient leaves its own level first, or the one
--- that holds nearly all of the squared norm.
---
--- ## Why it matters
--- The global norm says when; the layer says where to look. Attention that saturates, an embedding row, a layer without
--- normalisation each rise before the rest does.
---
--- ## How to confirm
--- Log that layer's activations and gradient every step around the first rise.
---
--- ## Known false positives
--- The output layer and the embedding hold most of the norm in many healthy models, so a share is reported only where
--- it was not there from the start. Gradients that nearly cancel, as of few numbers or of one, and those behind a start
--- at which all outputs are alike, leave a small level for one row or stay small: a rise is no origin that is gone in
--- the next row, or that ends below what the median of the other layers has. Layers come alive where a model finds what
--- it has looked for, as an alignment: a loss that is never above its last values from that step on, and falls below
--- them, breaks nowhere. Nor do guesses at a return that gets better to the end.
---
--- ## References
--- https://arxiv.org/abs/2304.13013 for spikes that begin in the embedding

local runs = require("runs")
local settings = require("settings")

--- Whether the loss goes on falling from a step on: none of its later rows is above the last 32 before, and the last
--- ones are below all of those.
local function falls_on(case, step)
  local loss = runs.series(case, "loss")
  local before, after = loss:where("step < ?", step), loss:where("step >= ?", step)
  local count = before:count()
  before = before:slice(math.max(0, count - 32), count)
  count  = after:count()
  if before:count() < 5 or count < 10 then return false end
  return after:max("value") <= before:max("value")
    and after:slice(count - math.max(5, count // 10), count):max("value") < before:min("value")
    -- A number that is none is no fall.
    and case.scalars:where { name = "loss", primary = true }:where("step >= ? and not finite(value)", step):count() == 0
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The rise of the gradient begins in one layer",
  needs    = { scalars = { "step", "value", "layer", metric = "grad_norm" } },
  symptoms = { "layer-gradient-rising", "layer-gradient-dominates" },
  options  = {
    factor   = { default = 10.0, doc = "Factor over a layer's own median so far that is a rise" },
    share    = { default = 0.80, doc = "Share of the squared norm that one layer holds" },
    min_rows = { default = 6,    doc = "Logged steps below which nothing is judged" },
  },

  run = runs.apart(function(case, run)
    local opt   = case.options
    local grads = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null"):sort("step")
    local finite = grads:where("finite(value)")
    local steps, layers = finite:distinct("step"):count(), finite:distinct("layer"):count()
    if steps < opt.min_rows or layers < 3 then
      return skip(("gradient norms of 3 layers or more at %d steps"):format(opt.min_rows))
    end

    -- First to rise: each layer against the median of its own values before.
    local first
    for layer, values in finite:group("layer") do
      local level = values:with { usual = values:col("value"):rolling(32, "median") }
      local rose
      for row in level:where("value > ? * usual and usual > 0", opt.factor):slice(0, 200):rows() do
        local next_ = grads:where { layer = layer }:where("step > ? and value is not null", row.step):first()
        local stays = not next_ or not (next_.value <= row.value / 3)
        local beside = stays and finite:where { step = row.step }:where("layer != ?", layer):median("value")
        rose = rose or stays and (not beside or row.value >= beside) and row or nil
      end
      -- What rises from exactly nothing has no level: a model that starts at zero, a branch that is switched on.
      if values:first().value == 0 then rose = nil end
      if rose and values:where("step < ?", rose.step):count() >= 3
        and (not first or rose.step < first.step or rose.step == first.step
          and rose.value / rose.usual > first.factor) then
        first = { layer = layer, step = rose.step, factor = rose.value / rose.usual, row = rose }
      end
    end
    local gained = first and settings.returns_rise(case)
    if gained then
      skip(("a loss against a target that stays: %s rises to the end"):format(gained.name), "layer-gradient-rising")
    elseif first and falls_on(case, first.step) then
      skip(("a loss that does not fall on: from step %d on, where the gradient of %s rises, it does"):format(first.step,
        first.layer), "layer-gradient-rising")
    elseif first then
      local others = finite:where { step = first.step }:where("layer != ?", first.layer)
      report {
        symptom  = "layer-gradient-rising",
        score    = 0.8,
        at       = { run = run, layer = first.layer, step = first.step },
        message  = ("the gradient of %s rises first: %.3g at step %d, %.3g times its median so far; the median of "
          .. "the %d other layers is %.3g there"):format(first.layer, first.row.value, first.step, first.factor,
            others:count(),
          others:median("value")),
        evidence = { first.row, others:top(3, "value") },
      }
    end

    -- The share of the squared norm late in the run, where it was not there early.
    local squared = finite:with { square = "value * value" }
    local half    = finite:distinct("step"):row(steps // 2).step
    local early   = squared:where("step < ?", half)
    local late    = squared:where("step >= ?", half)
    local total, before = late:sum("square"), early:sum("square")
    for layer, values in late:group("layer") do
      local share = values:sum("square") / total
      local was   = early:where { layer = layer }:sum("square") / before
      if layers >= 4 and share > opt.share and was < 0.5 * share then
        report {
          symptom  = "layer-gradient-dominates",
          score    = 0.75,
          at       = { run = run, layer = layer, step = half },
          message  = ("%s holds %s of the squared gradient norm from step %d on, and held %s before"):format(layer,
            units.percent(share), half, units.percent(was)),
          evidence = { values:top(3, "square") },
        }
      end
    end
  end),
}
