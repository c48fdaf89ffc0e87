--- ## What it detects
--- Which operation made the first non-finite values out of finite ones: a logarithm or a quotient of zero, an
--- exponential, a row without any allowed key, a product beyond the number format, a gradient that is infinite at zero.
---
--- ## Why it matters
--- All of these end as NaN in the loss, and each has another remedy. What went in at the very place where the first bad
--- value came out tells them apart.
---
--- A loss that is written out by hand is no layer, so that nothing says what went into it. Where the last output
--- before it lies between 0 and 1 and its gradient is not finite at places of exactly 0 or 1 and at no other, its
--- logarithm was taken, or that of one less it: -log p has the slope -1 / p.
---
--- ## How to confirm
--- Recompute the operation from the dumped input in fp32, at the reported index alone.
---
--- ## Known false positives
--- Operations that are told by their values may be some other function that agrees on 32 of them; only -log, log, 1/x
--- and exp are looked for.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection names the backward function instead

local MASKS = require("masks").NAMES

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The operation that made the first non-finite values",
  needs    = { tensors = { "layer", "role", "nonfinite", "data" } },
  symptoms = { "nonfinite-from-log", "nonfinite-from-division", "nonfinite-from-exp", "nonfinite-masked-row",
    "nonfinite-from-range", "nonfinite-gradient-at-zero" },

  run = function(case)
    local dumped = case.tensors:where("not match(name, ?)", MASKS .. "|battery.*")
    -- Infinities that a mask put before a softmax are no fault; what comes out of it is.
    local first  = dumped:where("nan > 0 or (inf > 0 and (max is null or not match(name, '*scores*|*attn_weights*') "
      .. "or dtype == 'float16'))")
      :sort("step", "order"):first()
    if not first then
      local broken = case.scalars:where("name == 'loss' and value is not null and not finite(value)"):count() > 0
      if broken then skip("a dump of the step in which the first value breaks, with what went into each layer") end
      return
    end
    if not first.first_nonfinite then return skip("the values of a dump: its statistics name no operation") end
    local step  = first.step and dumped:where { step = first.step } or dumped:where("step is null")
    local place = first.first_nonfinite
    local at    = { step = first.step, layer = first.layer }
    local where_bad = first:unravel(place)

    local told = false
    local function finding(symptom, score, message, ...)
      told = true
      report { symptom = symptom, score = score, at = at, message = message, evidence = { first, ... } }
    end

    --- A loss out of probabilities of which some are exactly 0 or 1: whether it took their logarithm.
    local function from_probabilities()
      if first.role ~= "grad" and first.numel ~= 1 then return end
      local before = step:where("role == 'output' and nonfinite == 0 and numel > 1 and min >= 0 and max <= 1")
        :where("order < ?", first.order or 0):sort("-order"):slice(0, 3)
      for output in before:rows() do
        local count = math.min(output.numel, 4096)
        local slope = step:where { layer = output.layer, role = "grad" }:where("numel == ? and nonfinite > 0",
          output.numel):first()
        local probabilities = output:values(0, count)
        local slopes = slope and slope:values(0, count)
        local ends, broken, elsewhere, inner = 0, 0, 0, 0
        for i, p in ipairs(probabilities) do
          local at_end = p == 0 or p == 1
          ends  = ends + (at_end and 1 or 0)
          inner = inner + (at_end and 0 or 1)
          if slopes and slopes[i] - slopes[i] ~= 0 then
            broken    = broken + 1
            elsewhere = elsewhere + (at_end and 0 or 1)
          end
        end
        if broken > 0 and elsewhere == 0 and inner > 0 then
          finding("nonfinite-from-log", 0.95, ("%s is exactly 0 or 1 at %d of %d values, and its gradient is not "
            .. "finite at %d of these and at no other: the loss takes the logarithm of it, or of one less it"):format(
            output.name, ends, count, broken), output, slope)
          return true
        end
      end
    end

    local function decide()
      if from_probabilities() then return end
      if first.role == "grad" then
        local value = step:where { layer = first.layer }:where("role != 'grad' and nonfinite == 0"):where("numel == ?",
          first.numel)
          :first()
        if value and value:values(place, 1)[1] == 0 then
          finding("nonfinite-gradient-at-zero", 0.9, ("the gradient of %s is not finite at %s, where %s is exactly 0: "
            .. "a root or a norm has an infinite slope there"):format(first.layer, where_bad, value.name), value)
        end
        return
      end

      local shape = first.shape or {}
      local width = shape[#shape] or 1
      local begin = place - place % width
      local own   = step:where { layer = first.layer }
      local input = own:where("role == 'input'"):where("numel == ?", first.numel):first()
      if input and input.nan == 0 then
        local value = input:values(place, 1)[1]
        -- A row that the mask emptied.
        if input.inf > 0 and first.nan > 0 then
          local open = 0
          for _, x in ipairs(input:values(begin, math.min(width, 4096))) do
            if x > -math.huge then open = open + 1 end
          end
          if open == 0 then
            finding("nonfinite-masked-row", 0.95, ("%s is NaN from %s on: all %d values of that row of its input are "
              .. "-inf, no key is allowed"):format(first.name, where_bad, width), input)
            return
          end
        end
        if input.nonfinite == 0 then
          -- Which function agrees with the finite values of the same block?
          local count = math.min(first.numel, 4096)
          local from  = math.max(0, math.min(place - count // 2, first.numel - count))
          local xs, ys = input:values(from, count), first:values(from, count)
          local tries, agree = 0, { log = 0, neglog = 0, inverse = 0, exp = 0 }
          for i = 1, #xs do
            local x, y = xs[i], ys[i]
            if y == y and math.abs(y) < math.huge and x ~= 0 and tries < 64 then
              tries = tries + 1
              local function near(want) return math.abs(y - want) <= 2e-2 * math.abs(want) + 1e-6 end
              if x > 0 and near(math.log(x)) then agree.log = agree.log + 1 end
              if x > 0 and near(-math.log(x)) then agree.neglog = agree.neglog + 1 end
              if near(1 / x) then agree.inverse = agree.inverse + 1 end
              if x < 700 and near(math.exp(x)) then agree.exp = agree.exp + 1 end
            end
          end
          local function is(kind) return tries >= 4 and agree[kind] >= 0.9 * tries end
          local zeros = math.floor(input.zero_share * input.numel + 0.5)
          local low   = first.layer:lower()
          local named = low:glob("*log*|*nll*|*likelihood*|*entropy*") and not low:glob("*logit*")
          -- The logarithm of zero is -Inf, that of what is below zero NaN.
          local undefined = value and (value == 0 and first.inf > 0 or value < 0 and first.nan > 0)
          if undefined and (is("log") or is("neglog") or tries < 4 and named) then
            finding("nonfinite-from-log", 0.97, ("%s takes the logarithm of %g at %s; %d of the %d values of its input "
              .. "are 0"):format(
              first.layer, value, where_bad, zeros, input.numel), input)
            return
          end
          if value == 0 and (is("inverse") or low:glob("*div*|*rsqrt*|*recip*|*mean*")) then
            finding("nonfinite-from-division", 0.95, ("%s divides by 0 at %s; %d of the %d values of its input are 0")
              :format(
              first.layer, where_bad, zeros, input.numel), input)
            return
          end
          if value and value > (first.dtype == "float16" and 11 or 88)
            and (is("exp") or low:glob("*exp*|*softmax*")) then
            finding("nonfinite-from-exp", 0.95, ("%s is the exponential of %.4g at %s; %s ends at exp(%s)")
              :format(first.layer, value,
              where_bad, first.dtype, first.dtype == "float16" and "11.09" or "88.72"), input)
            return
          end
          -- A row of zeros that is divided by its own size.
          if value == 0 and first.nan > 0 then
            local nonzero = 0
            for _, x in ipairs(input:values(begin, math.min(width, 4096))) do
              if x ~= 0 then nonzero = nonzero + 1 end
            end
            if nonzero == 0 and width > 1 then
              finding("nonfinite-from-division", 0.95, ("%s is NaN from %s on, where all %d values of its input's row "
                .. "are 0: it divides by their size without an epsilon"):format(first.name, where_bad, width), input)
              return
            end
          end
        end
      end

      -- A divisor of its own, dumped under the same module: fewer values, some of them zero.
      local divisor = step:where("nonfinite == 0 and zero_share > 0 and numel < ?", first.numel)
        :where("match(name, ?) and match(name, '*std*|*var*|*denom*|*norm*|*count*|*sum*|*scale*')",
          first.layer:split(".")[1] .. "*"):first()
      if divisor and first.inf + first.nan > 0 and (not input or input.nonfinite == 0) then
        finding("nonfinite-from-division", 0.9, ("%s is not finite from %s on, and %s, which it is divided by, is 0 at "
          .. "%s of its %s")
          :format(first.name, where_bad, divisor.name,
            units.count(math.floor(divisor.zero_share * divisor.numel + 0.5)),
            units.plural(divisor.numel, "value")), divisor)
        return
      end

      local limits = { float16 = 65504, float8_e4m3 = 448, float8_e5m2 = 57344 }
      local limit  = limits[first.dtype]
      local clean  = own:where("role == 'input'")
      if limit and first.inf > 0 and clean:sum("nonfinite") == 0 and (first.absmax or 0) > 0.25 * limit then
        finding("nonfinite-from-range", 0.95, ("%s holds %s of %s, and its finite values reach %.5g of the %d that %s "
          .. "can hold"):format(
          first.name, units.plural(first.inf, "Inf", "Inf"), units.count(first.numel), first.absmax, limit,
          first.dtype),
          clean:slice(0, 3))
      end
    end
    decide()
    -- Silence would rule out every operation, the right one too.
    if not told then
      skip(("what went into %s and came out of it, in the step in which it breaks"):format(first.layer or first.name))
    end
  end,
}
