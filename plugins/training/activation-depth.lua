--- ## What it detects
--- Activations of the fresh model that grow or shrink by a factor from block to block.
---
--- ## Why it matters
--- Each block adds to the residual stream. Where what it adds is not scaled by depth, or the weights are too large, the
--- stream grows by a factor per block and the last blocks see nothing but the first ones' noise.
---
--- ## How to confirm
--- Print the root mean square of each block's output for the untrained model: within a factor of two of each other.
---
--- ## Known false positives
--- Networks that widen or narrow on purpose. Only blocks whose names differ in one number are compared, at the first
--- logged step, and the growth has to hold from block to block.
---
--- ## References
--- GPT-2 scales what writes to the residual stream by 1/sqrt(2 L); https://arxiv.org/abs/1901.09321

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Activations of the fresh model grow or shrink from block to block",
  needs    = { scalars = { "step", "value", "layer", metric = "activation_rms" } },
  symptoms = { "activation-grows-with-depth", "activation-shrinks-with-depth" },
  options  = {
    factor = { default = 2.0, doc = "Factor from one block to the next, held for three, that is growth" },
  },

  run = function(case)
    local rows  = case.scalars:where { metric = "activation_rms", primary = true }:where("layer is not null and "
      .. "value > 0")
    local first = rows:where("finite(value)"):sort("step"):first()
    if not first or first.step > 1 then return skip("activations of layers at step 0: record from the first step") end
    if settings.loaded(case) then
      return skip("a fresh model: this one starts from weights that were trained before")
    end
    local families, order = {}, {}
    for row in rows:where { step = first.step }:slice(0, 10000):rows() do
      local kind, depth = {}, nil
      for _, part in ipairs(row.layer:split(".")) do
        local number = math.tointeger(tonumber(part))
        if number and not depth then depth = number kind[#kind + 1] = "*" else kind[#kind + 1] = part end
      end
      local name = table.concat(kind, ".")
      if depth then
        if not families[name] then families[name] = {} order[#order + 1] = name end
        table.insert(families[name], { depth = depth, row = row })
      end
    end
    if #order == 0 then return skip("activations of numbered blocks") end

    local worst
    for _, name in ipairs(order) do
      local blocks = families[name]
      table.sort(blocks, function(a, b) return a.depth < b.depth end)
      for _, way in ipairs({ 1, -1 }) do
        local run, from = 0, nil
        for index = 2, #blocks do
          local factor = (blocks[index].row.value / blocks[index - 1].row.value) ^ way
          if factor >= case.options.factor then
            from = from or blocks[index - 1]
            run  = run + 1
            local total = (blocks[index].row.value / from.row.value) ^ way
            if run >= 3 and (not worst or total > worst.total) then
              worst = { total = total, from = from.row, to = blocks[index].row, way = way, run = run }
            end
          else
            run, from = 0, nil
          end
        end
      end
    end
    if not worst then return end
    report {
      symptom  = worst.way > 0 and "activation-grows-with-depth" or "activation-shrinks-with-depth",
      score    = 0.85,
      at       = { layer = worst.to.layer, step = worst.to.step },
      message  = ("at step %d the activations of %s are %.3g and those of %s %.3g: a factor of %.3g a block over %d "
        .. "blocks")
        :format(worst.to.step, worst.from.layer, worst.from.value, worst.to.layer, worst.to.value,
        worst.total ^ (1 / worst.run), worst.run),
      evidence = { worst.from, worst.to },
    }
  end,
}
