--- ## What it detects
--- Gradients that disagree with finite differences at every step size, and those that are a constant multiple of them
--- (the recorder's gradient battery).
---
--- ## Why it matters
--- A wrong backward function trains, only worse. A constant factor (2, the batch size, -1) is a forgotten mean, a
--- double count or a sign.
---
--- ## How to confirm
--- `torch.autograd.gradcheck` in double precision on the function alone.
---
--- ## Known false positives
--- Kinks (ReLU at 0) spoil single elements; most must disagree. Single precision cannot be checked finely, and is given
--- room. Straight-through estimators disagree on purpose.
---
--- ## References
--- https://cs231n.github.io/neural-networks-3/#gradcheck

--- Names of common factors.
local function name_of(factor)
  for _, known in ipairs({ 2, 0.5, -1, 4, 0.25, -2 }) do
    if math.abs(factor / known - 1) < 0.01 then return ("%g"):format(known) end
  end
  return ("%.4g"):format(factor)
end

--- Of one step size: the median relative error, and the median ratio with the share of elements near it.
local function judge(analytic, numeric, from)
  local errors, ratios, largest = {}, {}, 0
  for _, a in ipairs(analytic) do largest = math.max(largest, math.abs(a)) end
  for i, a in ipairs(analytic) do largest = math.max(largest, math.abs(numeric[from + i])) end
  for i, a in ipairs(analytic) do
    local n = numeric[from + i]
    -- What is tiny beside the others is rounding.
    if math.max(math.abs(a), math.abs(n)) > 1e-3 * largest then
      errors[#errors + 1] = math.abs(a - n) / (math.abs(a) + math.abs(n))
      if n ~= 0 then ratios[#ratios + 1] = a / n end
    end
  end
  if #errors == 0 then return nil end
  table.sort(errors)
  table.sort(ratios)
  local middle, near = ratios[(#ratios + 1) // 2] or 0, 0
  for _, r in ipairs(ratios) do
    if math.abs(r - middle) <= 0.02 * math.abs(middle) then near = near + 1 end
  end
  return errors[(#errors + 1) // 2], middle, near / #errors, #errors
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients disagree with finite differences",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "gradient-differs-from-numeric", "gradient-off-by-factor" },
  options  = {
    double = { default = 1e-3, doc = "Relative error that is wrong in double precision" },
    single = { default = 0.05, doc = "Relative error that is wrong in single precision" },
  },

  run = function(case)
    local all   = case.tensors:where("match(name, 'battery.gradient.*') and zero_share is not null")
    local steps = all:where("match(name, '*.step_sizes')"):first()
    local sizes = steps and steps:values(0, 100)
    local judged, wrong, factor = 0, nil, nil
    for analytic in all:where("match(name, '*.analytic')"):rows() do
      local parameter = analytic.name:sub(18, -10)
      local numeric   = all:where { name = analytic.name:replace(".analytic", ".numeric") }:first()
      if sizes and numeric and numeric.numel == analytic.numel * #sizes and numeric.numel <= 10000
        and analytic.absmax and analytic.nonfinite + numeric.nonfinite == 0 and math.max(analytic.absmax,
          numeric.absmax or 0) > 0 then
        local a, n, best = analytic:values(), numeric:values(), nil
        for i, size in ipairs(sizes) do
          local err, ratio, near, count = judge(a, n, (i - 1) * #a)
          -- A factor gives nearly the same error at each step size; then the steadiest ratio counts.
          if err and (not best or err < 0.95 * best.err or err <= 1.05 * best.err and near > best.near) then
            best = { err = err, ratio = ratio, near = near, count = count, size = size, row = analytic,
              numeric = numeric,
              parameter = parameter }
          end
        end
        local allowed = analytic.dtype == "float64" and case.options.double or case.options.single
        if best then
          judged = judged + 1
          if best.err > allowed then
            if best.near >= 0.9 and best.count >= 3 and best.ratio ~= 0 then
              factor = factor or best
              factor.n = (factor.n or 0) + 1
            elseif not wrong or best.err > wrong.err then
              best.n = (wrong and wrong.n or 0) + 1
              wrong = best
            else
              wrong.n = wrong.n + 1
            end
          end
        end
      end
    end
    if judged == 0 then return skip("the gradient battery, battery/gradient.safetensors (culprit_recorder.battery)") end
    if wrong then
      report {
        symptom  = "gradient-differs-from-numeric",
        score    = 0.95,
        at       = { name = wrong.parameter },
        message  = ("the gradient of %s is off by %s in the median of %d elements even at the best step size, "
          .. "%g; %d of %d "
          .. "parameters disagree with finite differences"):format(wrong.parameter, units.percent(wrong.err),
            wrong.count,
          wrong.size, wrong.n + (factor and factor.n or 0), judged),
        evidence = { wrong.row, wrong.numeric },
      }
    end
    if factor then
      report {
        symptom  = "gradient-off-by-factor",
        score    = 0.97,
        at       = { name = factor.parameter },
        message  = ("the gradient of %s is %s times its finite difference in %s of %d elements; so it is in %d of %d "
          .. "parameters%s"):format(factor.parameter, name_of(factor.ratio), units.percent(factor.near), factor.count,
          factor.n, judged, factor.n == judged and ", so the factor is in the loss" or ", so the factor is in that "
          .. "parameter's own backward"),
        evidence = { factor.row, factor.numeric },
      }
    end
  end,
}
