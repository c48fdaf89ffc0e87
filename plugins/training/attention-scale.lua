--- ## What it detects
--- Attention scores of a fresh model that are too large by the root of the head's width, or by its square: they are not
--- divided by it, or multiplied instead. Where queries, keys and scores are dumped, the factor between them is
--- measured; else it is told from the size of the weights.
---
--- ## Why it matters
--- At small initial weights the scores are small either way and the first loss says nothing. Their size follows from
--- the weights, so the missing division shows at the first step, long before softmax saturates.
---
--- ## How to confirm
--- Print the standard deviation of `scores / (q @ k.T)`: it must be 1 / sqrt(head_dim).
---
--- ## Known false positives
--- Query and key weights that are initialised larger than the rest of their layer, and inputs that are not normalised,
--- where that is so in half of the layers; in fewer it is not said, as layers share their code.
--- Models whose head has fewer than 9 dimensions are not judged: the factor is too small to tell. T5 leaves the
--- division out by design; normalised queries and keys have a learned factor. A factor that the config sets, and heads
--- that are wider than their share of the model's width, are not judged by the weights.
---
--- ## References
--- https://arxiv.org/abs/1706.03762, section 3.2.1

local places = require("places")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

--- What the dumped scores of a layer are times the products of its queries and keys: the same factor at eight places,
--- or nil. Queries and keys are one tensor [row, 2, head, position, width] here, as the recorder stacks them.
---@param scores culprit.Row  [row, head, position, position], before the mask
---@param stacked culprit.Row
---@return number?
local function factor(scores, stacked)
  local out, qk = scores.shape or {}, stacked.shape or {}
  if #out ~= 4 or #qk ~= 5 or qk[2] ~= 2 or qk[3] ~= out[2] or qk[4] ~= out[3] or out[3] ~= out[4] then return nil end
  local heads, places, width = qk[3], qk[4], qk[5]
  if places < 8 or scores.zero_share == nil or stacked.zero_share == nil then return nil end
  local least, most, seen, flat, queries, keys = nil, nil, 0, 0, 0, 0
  for n = 1, 8 do
    local i, j = (n * places) // 8 - 1, ((n - 1) * places) // 16
    local q = stacked:values(i * width, width)
    local k = stacked:values((heads * places + j) * width, width)
    local product, qq, kk = 0, 0, 0
    for d = 1, width do
      product, qq, kk = product + q[d] * k[d], qq + q[d] ^ 2, kk + k[d] ^ 2
    end
    queries, keys = queries + qq, keys + kk
    -- Rotated or masked scores give no one factor; near a right angle rounding decides.
    if math.abs(product) > 0.05 * math.sqrt(qq * kk) then
      local ratio = scores:values(i * places + j, 1)[1] / product
      least, most = math.min(least or ratio, ratio), math.max(most or ratio, ratio)
      seen = seen + 1
    end
    if math.abs(qq - kk) < 1e-3 * qq then flat = flat + 1 end
  end
  -- Queries that were divided beforehand are smaller than keys by as much.
  if queries < keys / math.sqrt(width) then return nil end
  if seen < 4 or flat >= 7 or least <= 0 or most - least > 0.02 * most then return nil end
  return (least + most) / 2
end

--- Whether the softmax takes the scores as they are: its logarithm falls by what they differ, and not by a fraction.
---@param scores culprit.Row
---@param probs culprit.Row  of the same shape
---@return boolean
local function taken_as_they_are(scores, probs)
  local places = scores.shape[3]
  local last   = (places - 1) * places
  local s, p   = scores:values(last, places), probs:values(last, places)
  local high, low = 1, 1
  for j = 2, places do
    if s[j] > s[high] then high = j end
    if s[j] < s[low] then low = j end
  end
  local fall, drop = s[high] - s[low], p[low] > 0 and math.log(p[high] / p[low]) or 0
  return fall > 0.05 and fall < 60 and math.abs(drop / fall - 1) < 0.05
end

--- What a message says of the layers beside the first.
local function others(count, worst, excess)
  if count < 2 then return "" end
  return ("; it is the first of %d layers that are so, the most by %.2g times in %s"):format(count, excess, worst)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention scores are not divided by the root of the head's width",
  needs    = { any = {
    scalars = { "step", "value", "layer", metric = "max_attention_logit" },
    tensors = { "layer", "role", "shape" },
  } },
  symptoms = { "attention-scale-too-large" },

  run = runs.apart(function(case, run)
    local plain = case.config:where("match(key, '*model_type|*architectures*|model') and match(value, '*t5*|*T5*')")
      :count() > 0
    local measured, hits = 0, {}
    for scores in case.tensors:where("role == 'output' and match(layer, '*score*|*attn_weights*|*attention_scores*')")
      :slice(0, 100):rows() do
      local stacked = case.tensors:where { layer = scores.layer, role = "input", step = scores.step,
        variant = scores.variant, rank = scores.rank }:first()
      local parent = scores.layer:replace("." .. scores.layer:split(".")[#scores.layer:split(".")], "")
      local probs  = stacked and case.tensors:where("match(layer, '*probs*') and role == 'output' and numel == ?",
        scores.numel):where { run = scores.run, step = scores.step, variant = scores.variant, rank = scores.rank }
        :where("starts_with(layer, ?) and zero_share is not null", parent):first()
      local found = probs and not plain and factor(scores, stacked)
      if found and not taken_as_they_are(scores, probs) then found = nil end
      if found then
        measured = measured + 1
        local width  = stacked.shape[5]
        local excess = found * math.sqrt(width)
        local exact  = math.abs(excess / math.sqrt(width) - 1) < 0.05 or math.abs(excess / width - 1) < 0.05
        if excess > 1.5 and (exact or excess > 2) then
          hits[#hits + 1] = { scores = scores, stacked = stacked, factor = found, excess = excess, width = width,
            exact = exact }
        end
      end
    end
    if #hits > 0 then
      local first, worst, layers, count, sure = hits[1], hits[1], {}, 0, false
      for _, hit in ipairs(hits) do
        if (hit.scores.step or 0) < (first.scores.step or 0) then first = hit end
        if hit.excess > worst.excess then worst = hit end
        if not layers[hit.scores.layer] then layers[hit.scores.layer], count = true, count + 1 end
        sure = sure or hit.exact
      end
      report {
        symptom  = "attention-scale-too-large",
        score    = sure and 0.97 or 0.8,
        at       = { run = run, layer = first.scores.layer,
          step = (places.start(case, first.scores.step, measured > #hits)) },
        message  = ("the dumped scores of %s are %.4g times the products of queries and keys; heads of %d dimensions "
          .. "ask for %.4g%s"):format(first.scores.layer, first.factor, first.width, 1 / math.sqrt(first.width),
          others(count, worst.scores.layer, worst.excess)),
        evidence = { first.scores, first.stacked, count > 1 and worst.scores or nil },
      }
      return
    end
    if measured > 0 then return end

    local function setting(globs)
      local row = case.config:where("match(key, ?) and number > 0", globs):first()
      return row and row.number
    end
    local width = setting("*d_model|*n_embd|*hidden_size|*embed_dim")
    local heads = setting("*n_head|*n_heads|*num_heads|*num_attention_heads")
    if not width or not heads then return skip("the width and the number of heads in a config") end
    local few = setting("*n_kv_head|*n_kv_heads|*num_key_value_heads") or heads
    -- A factor of its own, set or learned, makes scores of another size; so do heads wider than their share.
    local own = case.config:where("match(key, '*qk_norm*|*qk_layernorm*|*query_key_norm*|*attention_multiplier*|"
      .. "*query_pre_attn_scalar*|*attn_scale*|*attention_scale*|*softmax_scale*|*softcap*|*cosine_att*|*alibi*')")
    own = settings.on(own):first()
    if own then
      return skip("scores that are divided by the root of the head's width: " .. own.key .. " sets another")
    end
    local head = setting("*head_dim|*d_kv")
    if head and head ~= width / heads then return skip("heads that share the model's width") end
    local root = math.sqrt(width / heads)
    if root < 3 then return skip("heads of 9 dimensions or more") end

    local all   = case.scalars:where { primary = true }:where("layer is not null and finite(value)")
    local first = all:where { metric = "max_attention_logit" }:sort("step"):first()
    if not first or first.step > 1 then return skip("attention scores of step 0: record from the first step") end
    -- Training aligns queries with keys, so that scores outgrow what the size of the weights says.
    local classes = targets.classes(case)
    local vocabulary = classes and classes.number
    local loss = runs.series(case, "loss"):first()
    if vocabulary and loss and loss.value < 0.9 * math.log(vocabulary) then
      return skip(("an untrained model: the first loss is %.3g, chance is %.3g"):format(loss.value,
        math.log(vocabulary)))
    end
    local dropped = math.min(setting("*dropout|*dropout_rate|*dropout_prob|*drop_rate") or 0, 0.9)
    local found, worst, over, judged = nil, nil, 0, 0
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
            -- Inputs of unit size make scores of a standard deviation of width * square, whose largest is about five;
            -- what dropout leaves of queries' and keys' inputs is larger by 1 / (1 - p) in the mean square.
            local excess = row.value * (1 - dropped) / (5.2 * width * square)
            least, most = math.min(least or excess, excess), math.max(most or excess, excess)
          end
        end
        if least then
          judged = judged + 1
          if least > 0.6 * root and most < 1.8 * root ^ 2 then
            local one = { row = row, excess = least, norm = norm }
            found, over = found or one, over + 1
            if not worst or least > worst.excess then worst = one end
          end
        end
      end
    end
    if judged == 0 then
      return skip("queries, keys and scores of a layer; or the size of the attention's weights at step 0: weight_norm "
        .. "and weight_rms")
    end
    -- Layers share their code: where most have scores of the right size, the others' inputs are large.
    if not found or 2 * over < judged then return end
    report {
      symptom  = "attention-scale-too-large",
      score    = 0.85,
      at       = { run = run, layer = found.row.layer, step = first.step },
      message  = ("the largest score of %s at step %d is %.3g, %.2g times what weights of this size give (%.2g); the "
        .. "root of the head's width is %.2g%s"):format(found.row.layer, first.step, found.row.value, found.excess,
        found.row.value / found.excess, root, others(over, worst.row.layer, worst.excess)),
      evidence = { found.row, found.norm, over > 1 and worst.row or nil },
    }
  end),
}
