--- ## What it detects
--- Sigmoid or tanh layers whose units sit at their limits. Of several the first in forward order is named, of those
--- that are so when it begins. Of a fresh model fewer are enough, where as many are at one limit as at the other.
---
--- ## Why it matters
--- There the derivative is near zero: what lies upstream gets no gradient, and the layer passes on signs only. Weights
--- are drawn so that what goes into an activation has a spread of about 1, and 5/3 before a tanh. Of values with that
--- spread a sigmoid has 0.0004 % within a hundredth of its limits, which are 4.6 away, and a tanh, whose are 2.3 away,
--- 17 %. Where 15 % of a fresh sigmoid's units are there the spread is 3.2, and where 35 % of a tanh's are it is 2.5.
---
--- ## How to confirm
--- Plot the inputs of the activation: beyond 5 in magnitude sigmoid's derivative is below 0.01.
---
--- ## Known false positives
--- Gates that are meant to be open or closed, after long training. Single steps are not reported. The probability that
--- a model ends in: where one label in a hundred is 1 it is near 0 for nearly all rows, and rightly. So a last layer
--- that is the only one at a limit, whose mean is near 0 or 1 and which has values elsewhere, is left out. A gate that
--- begins open or closed has a bias, and its units are at one limit; a model that was trained before is not fresh. Nor
--- is a fresh layer judged whose largest or least value is short of its limit, as where padding gives the rest.
--- Sigmoids that scale what goes through them, and that training takes from the middle to 1 while the loss falls, let
--- it through.
---
--- ## References
--- https://proceedings.mlr.press/v9/glorot10a.html

local MASKS = require("masks").NAMES
local places = require("places")
local runs = require("runs")
local settings = require("settings")

--- Whether no layer with weights is recorded behind this one. Blocks that are recorded as a whole behind their parts
--- are no layers of their own.
local function ends(case, layer)
  local names, behind = {}, false
  for name, rows in case.scalars:where("primary == true and layer is not null"):group("layer") do
    local whole = false
    for _, before in ipairs(names) do whole = whole or before:starts_with(name .. ".") end
    if behind and not whole and rows:where("match(metric, 'weight_norm|grad_norm')"):count() > 0 then return false end
    names[#names + 1] = name
    behind = behind or name == layer
  end
  return behind
end

--- Whether units that began elsewhere have all gone to the upper limit of a sigmoid: what they scale is let through.
local function opened(case, shares, layer)
  local mean = case.scalars:where { primary = true, layer = layer, metric = "activation_mean" }:sort("step"):last()
  return shares:where { layer = layer }:sort("step"):first().value < 0.1 and mean ~= nil and mean.value > 0.9
    and mean.value <= 1
end

--- How much of the loss is gone between the step from which units are at a limit and the end, where they are those of
--- one layer alone, which was not so at first, and that is a fifth or more; a twentieth, of whatever layers, where what
--- they scale is let through: training drives them there, and learns by it.
local function gains(case, run, shares, found)
  local open = true
  for _, one in ipairs(found.layers) do open = open and opened(case, shares, one.layer) end
  if not open and (#found.layers > 1
    or shares:where { layer = found.first.layer }:sort("step"):first().value >= 0.1) then return nil end
  local loss = case.scalars:where { name = "loss", primary = true, run = run }:where("finite(value)"):sort("step")
  local after = loss:where("step >= ?", found.onset)
  local tenth = math.max(3, after:count() // 10)
  if after:count() < 3 * tenth then return nil end
  local begun = after:slice(0, tenth):median("value")
  local gain  = begun ~= 0 and (begun - after:slice(after:count() - tenth, tenth):median("value")) / math.abs(begun)
    or 0
  return gain >= (open and 0.05 or 0.2) and gain or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Sigmoid or tanh units sit at their limits",
  needs    = { scalars = { "step", "value", "layer", metric = "saturated_share" } },
  symptoms = { "saturated-units" },
  options  = {
    share   = { default = 0.50, doc = "Share of the units at a limit that saturates a layer" },
    sigmoid = { default = 0.15, doc = "Share of a fresh sigmoid's units at its limits, as many at either" },
    tanh    = { default = 0.35, doc = "The same of a tanh" },
  },

  run = runs.apart(function(case, run)
    local shares = case.scalars:where { metric = "saturated_share", primary = true }
      :where("layer is not null and finite(value)")
    -- Of a gate that begins open or closed all units are at one limit from the first step on, by its bias. What large
    -- weights make is at both limits, and what training makes comes later.
    local function begins_closed(layer)
      local start = shares:where { layer = layer }:sort("step"):first()
      local mean  = case.scalars:where { primary = true, layer = layer, step = start.step, metric = "activation_mean" }
        :first()
      local rms   = case.scalars:where { primary = true, layer = layer, step = start.step, metric = "activation_rms" }
        :first()
      -- A tanh at both its limits has a mean near zero as well, and not near its root mean square.
      return start.step <= 1 and start.value >= case.options.share and mean ~= nil and rms ~= nil
        and (mean.value >= 0 and rms.value < 0.2 or math.abs(mean.value) > 0.95)
    end
    -- What is called a gate, or is the sigmoid of a swish, opens and closes as training makes it.
    local function gate(layer)
      local parts = layer:lower():split(".")
      local above = places.parent(layer:lower())
      return (parts[#parts]:glob("gate|*_gate|gate_*|gates|*swish*|*silu*|*glu*") or parts[#parts] == "sigmoid"
        and above:glob("*swish*|*silu*|*glu*|*gate*|*feed_forward*|ff*|*.ff*|*conv_module*|*squeeze*|*excit*"))
        and shares:where { layer = layer }:sort("step"):first().value < case.options.share
    end
    local found = places.over(shares, case.options.share, function(layer)
      return not begins_closed(layer) and not gate(layer)
    end)
    if not found then
      if settings.loaded(case) then return end
      -- What a fresh model's weights make of its inputs, before any of them has moved.
      for layer, values in shares:where("not match(layer, '" .. MASKS .. "|*gate*|*gumbel*|*binar*|*quant*|*probs*')")
        :group("layer") do
        local start = values:sort("step"):first()
        local own   = case.scalars:where { primary = true, layer = layer, step = start.step }
        local mean  = own:where { metric = "activation_mean" }:first()
        local least = mean and (math.abs(mean.value - 0.5) <= 0.1 and case.options.sigmoid
          or math.abs(mean.value) <= 0.2 and case.options.tanh)
        -- A mean in the middle has units at both limits, or at one and the rest beyond the middle, as with padding.
        local top = own:where { metric = "activation_max" }:first()
        local low = own:where { metric = "activation_min" }:first()
        local floor = mean and mean.value > 0.3 and 0.01 or -0.99
        local both  = (not top or top.value >= 0.99) and (not low or low.value <= floor)
        if least and both and not begins_closed(layer) and start.step <= 1 and start.value >= least
          and values:count() >= 3
          and values:median("value") >= least then
          report {
            symptom  = "saturated-units",
            score    = 0.8,
            at       = { run = run, layer = layer, step = start.step },
            message  = ("%s of the units of %s are at a limit of their activation at step %d, as many at one as at "
              .. "the other (their mean is %.2g), and %s later on: what goes into it is far wider than fresh weights "
              .. "make it"):format(units.percent(start.value), layer, start.step, mean.value,
              units.percent(values:median("value"))),
            evidence = { values:slice(0, 3), mean },
          }
          return
        end
      end
      return
    end
    -- Of all that are recorded with such a share it is the last, and nothing but it is at a limit.
    local last, count = nil, 0
    for layer, values in shares:group("layer") do
      last = layer
      if values:median("value") >= case.options.share then count = count + 1 end
    end
    if count == 1 and found.first.layer == last then
      local own  = case.scalars:where { primary = true, layer = last }
      local mean = own:where { metric = "activation_mean" }:median("value")
      if mean and (mean < 0.1 or mean > 0.9 and mean <= 1) and mean >= 0 and ends(case, last) then return end
    end
    local first = found.first
    local gain = gains(case, run, shares, found)
    if gain then
      return skip(("a loss that units at a limit cost something: those of %s get there from step %d on, and it falls "
        .. "by %s from there"):format(first.layer, found.onset, units.percent(gain)))
    end
    report {
      symptom  = "saturated-units",
      score    = found.worst.share >= 0.7 and 0.95 or 0.8,
      at       = { run = run, layer = first.layer, layers = places.names(found), step = found.onset },
      message  = ("%s of the units of %s are at a limit of their activation at %d of %d logged steps, %s"):format(
        units.percent(first.share), first.layer, first.over:count(), first.all, places.others(case, found)),
      evidence = places.rows(found),
    }
  end),
}
