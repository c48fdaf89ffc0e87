--- ## What it detects
--- Activations that keep growing over the run, with the step at which they would pass the end of fp16 or fp8 if they
--- went on so. Of layers that grow about as much the first on record is named, as what is behind it takes it up.
---
--- ## Why it matters
--- Growth by a constant factor per step has a date at which it passes the end of the number format. Known in advance it
--- is a change of the rate; met unprepared it is a NaN.
---
--- ## How to confirm
--- Extrapolate the logarithm of the largest value: the crossing of 65504 should fall on the first overflow.
---
--- ## Known false positives
--- Activations of a fresh model grow from nearly zero to their working level; growth is judged from two fifths of the
--- run, and a branch or a gate that comes up to where other layers are has found its level. A forecast is made only for
--- a run that computes in fp16 or fp8.
---
--- ## References
--- https://arxiv.org/abs/2302.05442, https://arxiv.org/abs/2204.02311

local runs = require("runs")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Activations grow over the run",
  needs    = { scalars = { "step", "value", "layer", metric = { "activation_max", "activation_rms" } } },
  symptoms = { "activation-growth", "activation-overflow-ahead" },
  options  = {
    growth = { default = 10.0, doc = "Factor from two fifths of the run to its maximum worth reporting" },
  },

  run = runs.apart(function(case, run)
    local all = case.scalars:where { primary = true }:where("layer is not null and finite(value) and value > 0")
    local rows = all:where { metric = "activation_max" }
    if rows:count() == 0 then rows = all:where { metric = "activation_rms" } end
    -- Attention scores start at nearly zero; below some tens they are only finding their level.
    rows = rows:where("value >= 50 or not match(layer, '*scores*|*attn_logits*|*attention_logits*|*probs*')")

    -- What a probe keeps of its outputs may be kept in fp16 whatever they were computed in.
    local half = case.config:where("match(key, '*precision*|*dtype*|*fp16*|amp|*.amp|*use_amp|*amp_*') and "
      .. "match(value, '*fp16*|*float16*|16-mixed|16') and not match(value, '*bf*')"):count() > 0
      or case.tensors:where { dtype = "float16" }:where("match(role, 'input|output') and not match(name, "
      .. "'battery*|*probe*')"):count() > 0
    local fp8  = case.config:where("match(key, '*fp8*') and match(value, 'true|True|e4m3*|hybrid*|HYBRID')"):count() > 0
      or case.tensors:where("match(dtype, 'float8*')"):count() > 0
    local limit = fp8 and 448 or half and 65504 or nil
    -- A number that is beyond the end of a format is not in it.
    if limit and rows:count() > 0 and rows:max("value") > limit then limit = nil end

    local growing, most, ahead, judged = {}, 0, nil, 0
    for layer, values in rows:group("layer") do
      local series = values:sort("step")
      if series:count() >= 5 then
        judged = judged + 1
        local from = series:row((2 * series:count()) // 5)
        local late = series:where("step >= ?", from.step)
        local peak = late:top(1, "value"):first()
        local factor = peak.value / from.value
        -- A layer that comes up to where others are has found its level, as a branch or a gate that begins closed.
        local level = rows:where { step = from.step }:max("value")
        if factor >= case.options.growth and peak.value > level then
          growing[#growing + 1] = { layer = layer, from = from, peak = peak, factor = factor }
          most = math.max(most, factor)
        end
        local last = late:last()
        local rate = late:col("value"):log():slope(late:col("step"))
        if limit and rate and rate > 0 and last.value < limit and last.value / from.value >= 2 then
          local crossing = last.step + math.log(limit / last.value) / rate
          if crossing < 2 * last.step and (not ahead or crossing < ahead.step) then
            ahead = { layer = layer, step = crossing, last = last, rate = rate }
          end
        end
      end
    end
    if judged == 0 then return skip("activations of a layer at 5 steps or more") end
    -- What is behind the layer that grows takes it up: of those that grow about as much the first is where it begins.
    local grown
    for _, one in ipairs(growing) do
      if not grown and math.log(one.factor) >= 0.8 * math.log(most) then grown = one end
    end
    if grown then
      report {
        symptom  = "activation-growth",
        score    = 0.85,
        at       = { run = run, layer = grown.layer, step = grown.peak.step },
        message  = ("the largest value of %s grows from %.4g at step %d to %.5g at step %d"):format(grown.layer,
          grown.from.value, grown.from.step, grown.peak.value, grown.peak.step),
        evidence = { grown.from, grown.peak },
      }
    end
    if ahead then
      report {
        symptom  = "activation-overflow-ahead",
        score    = 0.75,
        at       = { run = run, layer = ahead.layer, step = ahead.last.step },
        message  = ("%s is at %.4g at step %d and doubles every %.3g steps: it would pass %d, the end of %s, at step "
          .. "%.0f")
          :format(ahead.layer, ahead.last.value, ahead.last.step, math.log(2) / ahead.rate, limit,
          limit == 448 and "fp8 e4m3" or "fp16", ahead.step),
        evidence = { ahead.last },
      }
    end
  end),
}
