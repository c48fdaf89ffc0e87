--- ## What it detects
--- Weights that an optimizer holds in bf16 or fp16, and whose last update, worked out from the moments of the same
--- checkpoint, is for most elements less than half the distance to the next number: it was rounded away.
---
--- ## Why it matters
--- Such a model stops learning long before its loss would, and neither loss, gradients nor rate look wrong. The
--- checkpoint holds all that an update of Adam is made of, so that nothing else has to be logged.
---
--- ## How to confirm
--- Work the update out in fp32 for one tensor and count `(w + update).to(w.dtype) == w`. Train 50 steps with weights in
--- fp32 and autocast.
---
--- ## Known false positives
--- Stochastic rounding and sums that carry what was rounded keep the updates; a setting or a state that names them is
--- left out, and so is a state with a tensor in a finer format that a weight is the rounding of, whatever its name: the
--- copy that updates go into. Moments in fp32 beside 16-bit weights are of a run with a copy in fp32. Where the rate
--- has fallen far below its peak everybody's updates are lost, so that checkpoints are judged at half the peak and
--- more. Of groups of parameters with rates of their own the largest is taken for all. Without names in the state,
--- tensors of one shape are taken in the order of the file.
---
--- ## References
--- https://arxiv.org/abs/2010.06192

local optimizers = require("optimizers")
local places     = require("places")
local precision  = require("precision")
local settings   = require("settings")

--- Which state belongs to which weight: by layer and shape where both have names, and else in the order of their shape.
local function pairs_of(weights, first, second)
  local waiting, out = {}, {}
  for row in weights:sort("order"):slice(0, 5000):rows() do
    local shape = row.dtype .. table.concat(row.shape or {}, "x")
    waiting[shape] = waiting[shape] or { next = 1 }
    table.insert(waiting[shape], row)
  end
  local squares = {}
  for row in second:slice(0, 5000):rows() do squares[row.name:replace("exp_avg_sq", "")] = row end
  for row in first:sort("order"):slice(0, 5000):rows() do
    local list = waiting[row.dtype .. table.concat(row.shape or {}, "x")]
    local square = squares[row.name:replace("exp_avg", "")]
    if list and square and square.dtype == row.dtype then
      local found
      for i = 1, #list do
        if list[i] and list[i].layer == row.layer then found = found or i end
      end
      while not found and list[list.next] == false do list.next = list.next + 1 end
      found = found or list[list.next] and list.next
      if found then
        out[#out + 1] = { weight = list[found], first = row, second = square }
        list[found] = false
      end
    end
  end
  return out
end

--- The share of elements whose update is less than half the distance to the next number.
local function lost(pair, adam, elements)
  local n = math.min(pair.weight.numel, elements)
  local w, m, v = pair.weight:values(0, n), pair.first:values(0, n), pair.second:values(0, n)
  local unit, count, all = precision.HALF_UNIT[pair.weight.dtype], 0, 0
  for i = 1, n do
    -- A gradient of zero asks for no update, whatever the format.
    if w[i] ~= 0 and m[i] ~= 0 and v[i] > 0 then
      local update = adam.rate * math.abs(m[i]) / (1 - adam.beta1 ^ adam.count)
        / (math.sqrt(v[i] / (1 - adam.beta2 ^ adam.count)) + adam.epsilon)
      all = all + 1
      if update < unit * 2 ^ math.floor(math.log(math.abs(w[i]), 2)) then count = count + 1 end
    end
  end
  return all >= 64 and count / all or nil
end

--- What an update is made of besides moments: rate, betas, epsilon, and how many there were.
local function adam_at(case, states, step)
  local rates = case.scalars:where { name = "lr", primary = true }:where("finite(value)")
  local rate, peak = rates:where("step <= ?", step):sort("step"):last(), rates:max("value")
  local count = states:where("numel == 1 and match(name, '*.step')"):where { step = step }:max("mean")
  if not rate or not count or count < 1 or rate.value < 0.5 * peak then return nil end
  -- The logged rate is of one group of parameters. Of several the largest loses least.
  local groups = case.config:where("match(key, '*param_groups.?.lr|*param_groups.??.lr') and number > 0")
  local apart  = groups:distinct("number"):count() > 1
  local low, top = groups:min("number") or 1, groups:max("number") or 1
  local factor = apart and rate.value < math.sqrt(low * top) and top / low or 1
  local beta1, beta2 = optimizers.betas(case, "*param_groups.0.betas")
  local eps = case.config:where("match(key, '*param_groups.0.eps') and number is not null"):first()
  return { rate = rate.value * factor, count = count, beta1 = beta1, beta2 = beta2,
    epsilon = eps and eps.number or 1e-8, row = rate }
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Updates that the format of the weights rounds away, by a checkpoint alone",
  needs    = { tensors = { "name", "role", "step", "dtype", "data" }, scalars = { "step", "value", name = "lr" } },
  symptoms = { "updates-lost-in-rounding" },
  options  = {
    share    = { default = 0.4,  doc = "Share of the elements of the median tensor whose update is lost" },
    elements = { default = 4096, doc = "Elements of a tensor that are looked at" },
    tensors  = { default = 40,   doc = "Tensors that are looked at" },
  },

  run = function(case)
    local opt    = case.options
    local coarse = "numel >= 64 and step is not null and nonfinite == 0 and match(dtype, 'bfloat16|float16')"
    local states = case.tensors:where { role = "state" }
    local first  = states:where(coarse):where("match(name, '*.exp_avg')")
    if first:count() == 0 then return skip("moments of Adam in a 16-bit format, beside such weights") end
    if states:where("match(name, '*master*|*fp32*|*kahan*|*compensat*|*.shift')"):count() > 0
      or settings.on(case.config:where("match(key, '*stochastic_round*|*kahan*|*master_weights*')")):count() > 0 then
      return skip("weights that keep no copy of what is rounded away")
    end
    local copy = precision.copy(case)
    if copy then
      return skip(("weights that keep no copy of what is rounded away: they are what %s is rounded to"):format(
        copy.name))
    end
    local judged, clean = false, false
    if first:distinct("run"):count() > 1 then return skip("checkpoints of one run") end
    for step in first:sort("step"):group("step") do
      local adam    = adam_at(case, states, step)
      local weights = case.tensors:where { role = "weight", step = step }:where(coarse):where("variant is null")
      local shares, worst = {}, nil
      if adam then
        local second = states:where { step = step }:where("match(name, '*.exp_avg_sq')")
        for i, pair in ipairs(pairs_of(weights, first:where { step = step }, second)) do
          local share = i <= opt.tensors and lost(pair, adam, opt.elements)
          if share then
            shares[#shares + 1] = share
            if not worst or share > worst.share then worst = { share = share, pair = pair } end
          end
        end
      end
      judged = judged or #shares > 0
      table.sort(shares)
      local median = shares[(#shares + 1) // 2]
      if median and median >= opt.share then
        report {
          symptom  = "updates-lost-in-rounding",
          score    = 0.95,
          -- What format the weights have is set up once; a look that found nothing lost is all that dates it.
          at       = { run = worst.pair.weight.run, step = places.start(case, step, clean),
            layer = worst.pair.weight.layer },
          message  = ("by its moments and a rate of %.3g, the update of step %d is for %s of the elements of the "
            .. "median tensor less than half the distance to the next %s, %s of %s: it was rounded away"):format(
            adam.rate, step, units.percent(median), worst.pair.weight.dtype, units.percent(worst.share),
            worst.pair.weight.name),
          evidence = { worst.pair.weight, worst.pair.first, worst.pair.second, adam.row },
        }
        return
      end
      clean = clean or #shares > 0
    end
    if not judged then
      skip("a rate, 16-bit weights and their moments in one checkpoint, at half the peak rate or more")
    end
  end,
}
