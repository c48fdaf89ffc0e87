--- ## What it detects
--- Gradients that shrink or grow through the depth of the network: the norm of the first block's against the last's.
---
--- ## Why it matters
--- Each layer multiplies the gradient. A factor of 0.7 leaves a thousandth after twenty layers, so the first ones do
--- not learn; a factor of 1.3 makes them take steps a hundred times too large.
---
--- ## How to confirm
--- Plot the gradient norm of the blocks after one backward pass of the fresh model.
---
--- ## Known false positives
--- Blocks of very different size. Norms are divided by the root of the number of weights where both norm and root mean
--- square of the weights are logged. Gradients of exactly zero are another check's. Where one step from block to block
--- has nearly all of the factor it is the scale of that layer, as of a head that begins small, and no depth.
---
--- ## References
--- https://arxiv.org/abs/2002.04745 for the growth of gradients in post-norm transformers

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients vanish or explode through the depth of the network",
  needs    = { scalars = { "step", "value", "layer", metric = "grad_norm" } },
  symptoms = { "gradient-vanishes-with-depth", "gradient-explodes-with-depth" },
  options  = {
    vanish   = { default = 1e-3, doc = "First block's gradient over the last's that is vanishing" },
    explode  = { default = 70.0, doc = "First block's gradient over the last's that is exploding" },
    min_rows = { default = 3,    doc = "Logged steps below which nothing is judged" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    -- Blocks of one kind: names that differ in one number alone, blocks.0.mlp and blocks.1.mlp.
    local families, order = {}, {}
    local grads = case.scalars:where { metric = "grad_norm", primary = true }:where("layer is not null and value > 0")
    for layer, values in grads:where("finite(value)"):group("layer") do
      local parts, kind, depth = layer:split("."), {}, nil
      for _, part in ipairs(parts) do
        local number = math.tointeger(tonumber(part))
        if number and not depth then depth = number kind[#kind + 1] = "*" else kind[#kind + 1] = part end
      end
      local name = table.concat(kind, ".")
      if depth and values:count() >= opt.min_rows then
        if not families[name] then families[name] = {} order[#order + 1] = name end
        table.insert(families[name], { depth = depth, layer = layer, values = values })
      end
    end

    local worst
    for _, name in ipairs(order) do
      local blocks = families[name]
      if #blocks >= 3 then
        table.sort(blocks, function(a, b) return a.depth < b.depth end)
        local first, last = blocks[1], blocks[#blocks]
        local ratio = first.values:median("value") / last.values:median("value")
        -- A steady factor per layer, not one odd layer: the middle lies between the two ends.
        local middle = blocks[(#blocks + 1) // 2].values:median("value")
        local low, high = first.values:median("value"), last.values:median("value")
        local between = middle >= 0.5 * math.min(low, high) and middle <= 2 * math.max(low, high)
        local strength = math.abs(math.log(ratio))
        -- One step that has it all is the scale of that layer, as of a head that begins small.
        local largest = 0
        for i = 2, #blocks do
          largest = math.max(largest, math.abs(math.log(blocks[i - 1].values:median("value")
            / blocks[i].values:median("value"))))
        end
        between = between and strength - largest >= 0.5 * strength * (#blocks - 2) / (#blocks - 1)
        if between and (ratio <= opt.vanish or ratio >= opt.explode) and (not worst or strength > worst.strength) then
          worst = { first = first, last = last, ratio = ratio, strength = strength, count = #blocks }
        end
      end
    end
    if #order == 0 then return skip("gradient norms of numbered blocks: log them per layer") end
    if not worst then return end
    local per_layer = worst.ratio ^ (1 / (worst.count - 1))
    report {
      symptom  = worst.ratio < 1 and "gradient-vanishes-with-depth" or "gradient-explodes-with-depth",
      score    = 0.9,
      at       = { run = run, layer = worst.first.layer, step = worst.first.values:first().step },
      message  = ("the gradient of %s is %.2g in the median, that of %s %.2g: a factor of %.2g over %d blocks, %.2g "
        .. "from one to the one before"):format(worst.first.layer, worst.first.values:median("value"), worst.last.layer,
        worst.last.values:median("value"), worst.ratio, worst.count, per_layer),
      evidence = { worst.first.values:slice(0, 3), worst.last.values:slice(0, 3) },
    }
  end),
}
