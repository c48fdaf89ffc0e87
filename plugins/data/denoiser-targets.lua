--- ## What it detects
--- Training targets of a denoiser that are not made of their own row's noise and clean sample: in some rows, or in all.
---
--- ## Why it matters
--- Every way to train a denoiser asks for the same two things in other shares: the noise, the clean sample, the
--- velocity a * noise - s * sample, their difference, the score. So the target of a row is a sum of its noise and its
--- sample with two numbers that belong to the row's timestep; and where one of these is not dumped, of the other and
--- the noisy sample that the model is given, which is such a sum itself. A target that is no such sum was drawn anew,
--- taken from another row or put into another order, and the model can only learn the mean.
---
--- ## How to confirm
--- Fit the target of one row by its noise and its sample: the remainder has to be rounding.
---
--- ## Known false positives
--- A conditional denoiser calls the clean sample its target, and what it is given besides the image: where no row's
--- target is made of its noise, it has to be made of another row's, or the config to say what is predicted and the
--- target to be of the size of the noise. Noise that is paired with samples of other rows on purpose (optimal
--- transport) is left out. None else for one noise level a row. Where each place has a level of its own the target is
--- fitted in part, which is not reported; nor is anything where neither noise nor sample of the target's shape is
--- dumped.
---
--- ## References
--- https://arxiv.org/abs/2006.11239 (noise), https://arxiv.org/abs/2202.00512 (velocity),
--- https://arxiv.org/abs/2206.00364 and https://arxiv.org/abs/2210.02747 (combinations of both)

local LIMIT = 16384 -- places of a row that are fitted
local ROWS  = 64    -- rows of a dump

--- The part of y's sum of squares that no a * u + b * v explains; v may be nil.
local function remainder(y, u, v)
  local yy, uu, vv, uv, uy, vy = 0, 0, 0, 0, 0, 0
  for i = 1, #y do
    local a, b = u[i], v and v[i] or 0
    yy, uu, vv = yy + y[i] * y[i], uu + a * a, vv + b * b
    uv, uy, vy = uv + a * b, uy + a * y[i], vy + b * y[i]
  end
  if yy == 0 or yy ~= yy or yy == math.huge then return nil end
  local det = uu * vv - uv * uv
  local explained = 0
  if det > 1e-9 * uu * vv and det > 0 then
    explained = (vv * uy * uy - 2 * uv * uy * vy + uu * vy * vy) / det
  elseif uu > 0 then explained = uy * uy / uu
  elseif vv > 0 then explained = vy * vy / vv
  end
  return 1 - explained / yy
end

--- Whether two rows point the same way, but for three parts in a hundred.
local function alike(u, v)
  local uu, vv, uv = 0, 0, 0
  for i = 1, #u do uu, vv, uv = uu + u[i] * u[i], vv + v[i] * v[i], uv + u[i] * v[i] end
  return uu * vv - uv * uv <= 1e-3 * uu * vv
end

local PREDICTED = "match(key, '*prediction_type|*parameterization|*parametrization|*predict_target|*pred_type|"
  .. "*pred_target') and match(value, 'eps*|v|v_*|v-*|velocity*|noise|flow*|rectified*')"
local COUPLED   = "match(key, '*optimal_transport*|*ot_*|*.ot|ot|*coupling*|*sinkhorn*|*immiscible*|*reflow*|*distill*|"
  .. "*teacher*|*consistency*') and (number > 0 or number is null and value not in ('false', 'False', 'none', 'None', "
  .. "'null', ''))"

--- Whether a row's target is made of another row's noise, with its own sample or that row's.
local function of_another(y, own, noise, clean, lines, width, many, line)
  for other = 0, lines - 1 do
    local u = other ~= line and noise:values(other * width, many)
    if u and (remainder(y, u, own) or 1) <= 0.05 then return true end
    if u and clean and (remainder(y, u, clean:values(other * width, many)) or 1) <= 0.05 then return true end
  end
  return false
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Targets of a denoiser that are not of their row",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "denoiser-target-unrelated", "denoiser-target-partly-wrong" },
  options  = {
    alien = { default = 0.8,  doc = "Unexplained part of a target from which it has nothing of its row's noise" },
    own   = { default = 0.05, doc = "Unexplained part up to which it is made of them; half precision leaves 1e-5" },
    width = { default = 32,   doc = "Values of a row below which chance explains too much" },
  },

  run = function(case)
    local opt = case.options
    local floats = case.tensors:where("not match(name, 'battery.*') and match(dtype, 'float*|bfloat*') "
      .. "and zero_share is not null")
    local targets = floats:where("match(name, 'batch.target|batch.targets|batch.*_target|batch.label|batch.labels|"
      .. "batch.velocity|batch.flow')")
    local epsilon = case.config:where("match(key, '*prediction_type|*parameterization|*parametrization')")
      :where("match(value, 'eps*')"):first()
    local coupled = case.config:where(COUPLED):first()
    if coupled then
      return skip("targets of a row's own noise and sample: the config has " .. coupled.key)
    end
    local rows, alien, own, first, worst, strange, sized = 0, 0, 0, nil, 0, 0, 0
    for target in targets:rows() do
      local beside = floats:where { run = target.run, step = target.step, variant = target.variant,
        numel = target.numel }
      local noise  = beside:where("match(name, 'batch.noise|batch.eps|batch.epsilon|batch.*_noise')"):first()
      local clean  = beside:where("match(name, 'batch.image|batch.images|batch.pixel_values|batch.latents|batch.latent|"
        .. "batch.sample|batch.samples|batch.clean|batch.x0|batch.x_0|batch.x_start|batch.x1|batch.x_1|batch.input|"
        .. "batch.x')"):first()
      -- Noise and sample make what the model is given: of the three any two make the third, and the target.
      local mixed  = beside:where("match(name, 'batch.noisy*|batch.x_t|batch.xt|batch.z_t|batch.zt|"
        .. "batch.*_noisy')"):first()
      local of_mixture = false
      if mixed and not epsilon and (noise ~= nil) ~= (clean ~= nil) then
        if noise then clean = mixed else noise = mixed end
        of_mixture = true
      end
      local lines  = target.shape[1] or 1
      local width  = target.numel // math.max(lines, 1)
      -- Without the sample only a target that the config calls the noise can be judged.
      if noise and (clean or epsilon) and #target.shape >= 2 and width >= opt.width then
        for line = 0, math.min(lines, ROWS) - 1 do
          local many = math.min(width, LIMIT)
          local u, v = noise:values(line * width, many), not epsilon and clean and clean:values(line * width, many)
          -- Next to no noise, or nothing but noise, and rounding is all that the mixture tells of the other.
          local part = not (of_mixture and alike(u, v)) and remainder(target:values(line * width, many), u, v or nil)
          if part then
            rows = rows + 1
            if part <= opt.own then own = own + 1 end
            if part >= opt.alien then
              alien, first, worst = alien + 1, first or { target, noise, clean }, math.max(worst, part)
              local y, yy, uu, most = target:values(line * width, many), 0, 0, 0
              for i = 1, #y do
                yy, uu, most = yy + y[i] * y[i], uu + u[i] * u[i], math.max(most, math.abs(y[i]))
              end
              if yy >= 0.64 * uu and yy <= 1.56 * uu and most > 1.01 then sized = sized + 1 end
              if alien <= 16 and of_another(y, v or nil, noise, clean, math.min(lines, 16), width, many, line) then
                strange = strange + 1
              end
            end
          end
        end
      end
    end
    if rows == 0 then
      return skip("a dumped batch with target, noise and the clean sample, of one shape (culprit_recorder.watch)")
    end
    -- In parts that are neither, places have noise levels of their own, or the target is of another kind.
    if alien == 0 or alien + own < 0.9 * rows then return end
    if own == 0 and strange < 0.5 * math.min(alien, 16)
      and not (sized >= 0.8 * alien and case.config:where(PREDICTED):count() > 0) then
      return skip("what the model is to predict (prediction_type), and a target of the noise's size")
    end
    report {
      symptom  = own > 0 and "denoiser-target-partly-wrong" or "denoiser-target-unrelated",
      score    = 0.97,
      at       = { step = first[1].step, name = first[1].name },
      message  = ("in %d of %d dumped rows %s is not made of the row's noise%s: %s of it stays unexplained there%s")
        :format(alien, rows, first[1].name, epsilon and (", which %s = %s says it is"):format(epsilon.key,
        epsilon.value) or " and sample", units.percent(worst), own > 0
        and (", and next to nothing in the other %d"):format(own) or ""),
      evidence = first,
    }
  end,
}
