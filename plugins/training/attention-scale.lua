--- ## What it detects
--- Attention scores of a fresh model that are too large by the root of the head's width, or by its square: they are not
--- divided by it, or multiplied instead.
---
--- ## Why it matters
--- At small initial weights the scores are small either way and the first loss says nothing. Their size follows from
--- the weights, so the missing division shows at the first step, long before softmax saturates.
---
--- ## How to confirm
--- Print the standard deviation of `scores / (q @ k.T)`: it must be 1 / sqrt(head_dim).
---
--- ## Known false positives
--- Query and key weights that are initialised larger than the rest of their layer, and inputs that are not normalised.
--- Models whose head has fewer than 9 dimensions are not judged: the factor is too small to tell.
---
--- ## References
--- https://arxiv.org/abs/1706.03762, section 3.2.1

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention scores are not divided by the root of the head's width",
  needs    = {
    scalars = { "step", "value", "layer", metric = "max_attention_logit" },
    config  = { "number" },
  },
  symptoms = { "attention-scale-too-large" },

  run = function(case)
    local function setting(globs)
      local row = case.config:where("match(key, ?) and number > 0", globs):first()
      return row and row.number
    end
    local width = setting("*d_model|*n_embd|*hidden_size|*embed_dim")
    local heads = setting("*n_head|*n_heads|*num_heads|*num_attention_heads")
    if not width or not heads then return skip("the width and the number of heads in a config") end
    local few = setting("*n_kv_head|*n_kv_heads|*num_key_value_heads") or heads
    local root = math.sqrt(width / heads)
    if root < 3 then return skip("heads of 9 dimensions or more") end

    local all   = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local first = all:where { metric = "max_attention_logit" }:sort("step"):first()
    if not first or first.step > 1 then return skip("attention scores of step 0: record from the first step") end
    -- Training aligns queries with keys, so that scores outgrow what the size of the weights says.
    local vocabulary = setting("*vocab_size|*num_classes")
    local loss = runs.series(case, "loss"):first()
    if vocabulary and loss and loss.value < 0.9 * math.log(vocabulary) then
      return skip(("an untrained model: the first loss is %.3g, chance is %.3g"):format(loss.value,
        math.log(vocabulary)))
    end
    local found, judged = nil, 0
    for row in all:where { metric = "max_attention_logit", step = first.step }:slice(0, 1000):rows() do
      -- The weights are logged for the layer itself or for the module that it is a part of.
      local owner, norm = row.layer, nil
      local function of(metric) return all:where { metric = metric, layer = owner, step = first.step }:first() end
      for _ = 1, 3 do
        norm = of("weight_norm")
        if norm then break end
        local parts = owner:split(".")
        if #parts < 2 then break end
        table.remove(parts)
        owner = table.concat(parts, ".")
      end
      if norm and norm.value > 0 then
        -- What is logged beside the norm tells how many weights there are, and so whether the gains of a normalisation,
        -- which are one, are among them. What is left are query, key, value and output.
        local rms, ratio, update = of("weight_rms"), of("update_ratio"), of("update_rms")
        local count = rms and rms.value > 0 and (norm.value / rms.value) ^ 2
          or ratio and update and update.value > 0 and (ratio.value * norm.value / update.value) ^ 2
        local matrices = 2 * width ^ 2 + 2 * width ^ 2 * few / heads
        local vectors  = count and width <= 128 and math.floor((count - matrices) / width + 0.5)
        local without  = not vectors or vectors == 0 or vectors == 4
        local with     = not vectors or vectors == 1 or vectors == 2 or vectors == 5 or vectors == 6
        local least, most
        for _, gains in ipairs({ without and 0 or false, with and width or false }) do
          local square = gains and (norm.value ^ 2 - gains) / matrices or 0
          if square > 0 then
            -- Inputs of unit size make scores of a standard deviation of width * square, whose largest is about five.
            local excess = row.value / (5.2 * width * square)
            least, most = math.min(least or excess, excess), math.max(most or excess, excess)
          end
        end
        if least then
          judged = judged + 1
          if least > 0.6 * root and most < 1.8 * root ^ 2 and (not found or least > found.excess) then
            found = { row = row, excess = least, norm = norm }
          end
        end
      end
    end
    if judged == 0 then return skip("the size of the attention's weights at step 0: weight_norm and weight_rms") end
    if not found then return end
    report {
      symptom  = "attention-scale-too-large",
      score    = 0.85,
      at       = { layer = found.row.layer, step = first.step },
      message  = ("the largest score of %s at step %d is %.3g, %.2g times what weights of this size give (%.2g); the "
        .. "root of the head's width is %.2g"):format(found.row.layer, first.step, found.row.value, found.excess,
        found.row.value / found.excess, root),
      evidence = { found.row, found.norm },
    }
  end,
}
