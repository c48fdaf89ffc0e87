--- ## What it detects
--- Attention weights that are the softmax of more than the products of queries and keys over the root of the head's
--- width: what the products are multiplied by is measured from the dumped queries, keys and weights.
---
--- ## Why it matters
--- Wherever the division stands, before the mask, within the softmax or in a fused kernel, its result is in the
--- weights: their logarithm grows with the product of query and key by exactly that factor. Without it scores of
--- unit-sized queries and keys have a deviation of the root of the width, and the softmax saturates.
---
--- ## How to confirm
--- Regress `log(probs)` on `q @ k.T` over the keys of one query: the slope must be 1 / sqrt(head_dim).
---
--- ## Known false positives
--- Not judged are factors that the config sets, T5 and attention of convolutional networks (SAGAN, non-local blocks),
--- which leave the division out by design, queries that were divided beforehand, and queries or keys of one length, as
--- normalised ones are: their factor is learned. Gains that have been trained give these several lengths again; then a
--- layer, a setting or a dump of the first steps has to show that they are normalised. Where the weights follow
--- something besides the products, such as a bias by distance or a cap, no factor explains them all and nothing is
--- said.
---
--- ## References
--- https://arxiv.org/abs/1706.03762, section 3.2.1

local places = require("places")
local runs = require("runs")
local settings = require("settings")

--- Factors of their own, set or learned.
local OWN = "match(key, '*qk_norm*|*qk_layernorm*|*query_key_norm*|*attention_multiplier*|*query_pre_attn*|"
  .. "*attn_scale*|*attention_scale*|*softmax_scale*|*attn_temperature*|*attention_temperature*|"
  .. "*cosine_att*|*yarn*|*mscale*|*mup|*use_mup*')"
local UNDIVIDED = "match(key, '*model_type|*architectures*|model|*model.name|*model_name*|*arch|*attention_type|"
  .. "*name_or_path') and match(value, '*t5*|*T5*|*sagan*|*SAGAN*|*nonlocal*|*non_local*|*NonLocal*|*danet*|"
  .. "*luong*|*ngpt*|*nGPT*')"
-- Layers that normalise queries or keys; with gains of their own these have several lengths again.
local NORMALISED = "match(layer, '*.q_norm*|*.norm_q*|*qk_norm*|*.query_norm*|*.q_layernorm*|*query_layernorm*|*.q_ln*|"
  .. "*qk_ln*|*.s_qk*|*.sqk*')"

--- What the logarithm of the weights of a query grows by with the product of query and key, over the keys that it sees
--- at all, at up to 16 queries; nil where no one factor explains it, "length" where queries or keys have one length.
---@param stacked culprit.Row  queries and keys, [row, 2, head, position, width]
---@param probs culprit.Row    [row, head, position, position]
---@return number|string|nil
local function factor(stacked, probs)
  local heads, count, width = math.floor(probs.shape[2]), math.floor(probs.shape[3]), math.floor(stacked.shape[5])
  local head = heads // 2
  local q = stacked:values(head * count * width, count * width)
  local k = stacked:values((heads + head) * count * width, count * width)
  --- Mean of the squared lengths, and how far they are from each other.
  local function lengths(x)
    local sum, least, most = 0, math.huge, 0
    for i = 0, count - 1 do
      local square = 0
      for d = 1, width do square = square + x[i * width + d] ^ 2 end
      sum, least, most = sum + square, math.min(least, square), math.max(most, square)
    end
    return sum / count, (most - least) * count / math.max(sum, 1e-30)
  end
  local queries, spread_q = lengths(q)
  local keys, spread_k = lengths(k)
  if spread_q < 0.05 or spread_k < 0.05 then return "length" end
  -- Queries that were divided beforehand are smaller than keys by as much.
  if queries < keys / math.sqrt(width) then return nil end
  local xy, xx, yy, seen = 0, 0, 0, 0
  for n = 1, 16 do
    local i = (n * count) // 16 - 1
    local p = i >= 2 and probs:values((head * count + i) * count, count) or {}
    local x, y, mean_x, mean_y = {}, {}, 0, 0
    for j = 1, #p do
      -- Weights that are next to nothing have few digits left, and those of hidden keys none.
      if p[j] > 1e-6 then
        local product = 0
        for d = 1, width do product = product + q[i * width + d] * k[(j - 1) * width + d] end
        x[#x + 1], y[#y + 1] = product, math.log(p[j])
        mean_x, mean_y = mean_x + product, mean_y + y[#y]
      end
    end
    if #x >= 3 then
      for j = 1, #x do
        local a, b = x[j] - mean_x / #x, y[j] - mean_y / #x
        xy, xx, yy = xy + a * b, xx + a * a, yy + b * b
      end
      seen = seen + #x - 1
    end
  end
  if seen < 16 or xx == 0 or yy == 0 then return nil end
  -- All of it, but for what rounding leaves.
  local left = yy - xy * xy / xx
  if left > 4e-4 * yy or yy / seen < 1e-6 then return nil end
  return xy / xx
end

--- The name of a layer without its last part, with the point: "blocks.1" is the beginning of blocks.10 as well.
local function parent_of(layer)
  local parts = layer:split(".")
  return #parts > 1 and layer:sub(1, #layer - #parts[#parts]) or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Attention weights are the softmax of scores that are not divided by the root of the head's width",
  needs    = { tensors = { "layer", "role", "shape" } },
  symptoms = { "attention-scale-too-large" },

  run = runs.apart(function(case, run)
    local own = settings.on(case.config:where(OWN)):first() or case.config:where(UNDIVIDED):first()
    if own then return skip("scores that are divided by the root of the head's width: " .. own.key .. " says other") end
    local norm = case.scalars:where(NORMALISED):first() or case.tensors:where(NORMALISED):first()
    if norm then
      return skip("queries and keys as they were projected: " .. norm.layer .. " normalises them, for a factor of its "
        .. "own")
    end
    local judged, hits, layers, count = 0, {}, {}, 0
    local inputs = case.tensors:where("role == 'input' and match(layer, '*score*|*attn_weights*|*softmax*') and "
      .. "not match(layer, '*cross*') and zero_share is not null and nonfinite == 0")
    for stacked in inputs:sort("step"):slice(0, 60):rows() do
      local qk = stacked.shape or {}
      local parent = #qk == 5 and qk[2] == 2 and qk[4] >= 8 and qk[5] >= 9 and qk[4] * qk[5] <= 10000
        and parent_of(stacked.layer)
      local probs = parent and case.tensors:where("match(layer, '*probs*|*attn_weights*|*softmax*') and role == "
        .. "'output' and zero_share is not null and nonfinite == 0 and min >= 0 and max <= 1.001"):where {
          run = stacked.run, step = stacked.step, variant = stacked.variant, rank = stacked.rank }
        :where("starts_with(layer, ?)", parent):first()
      local out = probs and probs.shape or {}
      if #out == 4 and out[2] == qk[3] and out[3] == qk[4] and out[4] == qk[4] then
        local found = factor(stacked, probs)
        if found == "length" then
          return skip("queries and keys of different lengths: normalised ones have a factor of their own")
        end
        if found and found > 0 then
          judged = judged + 1
          local excess = found * math.sqrt(qk[5])
          local exact  = math.abs(excess / math.sqrt(qk[5]) - 1) < 0.02 or math.abs(excess / qk[5] - 1) < 0.02
          if excess > 2 then
            hits[#hits + 1] = { stacked = stacked, probs = probs, factor = found, excess = excess, exact = exact }
            if not layers[stacked.layer] then layers[stacked.layer], count = true, count + 1 end
          end
        end
      end
    end
    if judged == 0 then
      return skip("queries, keys and attention weights of a layer, with heads of 9 dimensions or more "
        .. "(culprit_recorder.watch)")
    end
    local first = hits[1]
    if not first then return end
    local width = math.floor(first.stacked.shape[5])
    report {
      symptom  = "attention-scale-too-large",
      score    = first.exact and 0.97 or 0.85,
      at       = { run = run, layer = first.stacked.layer,
        step = (places.start(case, first.stacked.step, judged > #hits)) },
      message  = ("the logarithm of %s grows by %.4g times the product of query and key; heads of %d dimensions ask "
        .. "for %.4g%s"):format(first.probs.name, first.factor, width, 1 / math.sqrt(width),
        count > 1 and ("; it is the first of %d layers that are so"):format(count) or ""),
      evidence = { first.stacked, first.probs },
    }
  end),
}
