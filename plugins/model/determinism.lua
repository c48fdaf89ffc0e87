--- ## What it detects
--- Two runs of one seed that are not equal, and what differs first: the initial weights, the batches or only their
--- order, the outputs, or nothing but rounding. By the recorder's determinism battery, or by the metrics of two runs
--- whose configs are equal. Where the config has layers that draw random numbers in training, such as dropout, and the
--- outputs differ nearly everywhere and by more than rounding, these numbers were drawn anew.
---
--- ## Why it matters
--- What differs first names the source of randomness that is not seeded. Differences of rounding alone come from the
--- order of atomic additions and are no fault.
---
--- ## How to confirm
--- Seed that source, run twice, compare again.
---
--- ## Known false positives
--- Kernels with atomic additions; a difference of some roundings is reported as information only. Such a difference
--- grows as training goes on, and a log of few digits shows it when it is one of the last: two runs that part by so
--- little have grown apart, and nothing happened at that step.
---
--- ## References
--- https://pytorch.org/docs/stable/notes/randomness.html

local places = require("places")

local SYMPTOM = { init = "seeded-init-differs", batch = "seeded-batches-differ", forward = "seeded-forward-differs",
  loss = "seeded-forward-differs", gradient = "seeded-forward-differs", update = "seeded-forward-differs" }

local WHAT = { init = "the initial weights", batch = "the batches", forward = "the outputs, from equal weights "
  .. "and batches",
  loss = "the losses", gradient = "the gradients, of equal outputs", update = "the updates, of equal gradients" }

local RANDOM = "a config with dropout or another layer that draws random numbers"

--- Whether two tensors hold the same values in another order.
local function reordered(a, b)
  if a.numel ~= b.numel then return false end
  if a.numel > 10000 then
    return a.min == b.min and a.max == b.max and math.abs(a.mean - b.mean) <= 1e-9 * a.absmax
      and math.abs(a.std - b.std) <= 1e-9 * a.absmax
  end
  local x, y = a:values(), b:values()
  table.sort(x)
  table.sort(y)
  for i, value in ipairs(x) do
    if value ~= y[i] then return false end
  end
  return true
end

--- Decimals that a series was written with, at most 9.
local function decimals(rows)
  local digits = 0
  for row in rows:slice(0, 100):rows() do
    local scaled = row.value * 10 ^ digits
    while digits < 9 and math.abs(scaled - math.floor(scaled + 0.5)) > 1e-6 * math.max(1, math.abs(scaled)) do
      digits = digits + 1
      scaled = row.value * 10 ^ digits
    end
  end
  return digits
end

--- The first step at which two series of one metric differ, with both values. One of them may be a log of few digits.
local function first_difference(a, b)
  local other = {}
  local least = math.min(decimals(a), decimals(b))
  local allowed = least < 9 and 0.51 * 10 ^ -least or 0
  for row in b:slice(0, 10000):rows() do other[row.step] = row end
  for row in a:slice(0, 10000):rows() do
    local twin = other[row.step]
    if twin and not (math.abs(row.value - twin.value) <= allowed) and (row.value == row.value
      or twin.value == twin.value) then
      return row, twin
    end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Two runs of one seed differ",
  needs    = { any = { tensors = { "name", "variant", "data" }, scalars = { "run", "step", "value" } } },
  symptoms = { "seeded-init-differs", "seeded-batches-differ", "seeded-batches-reordered", "seeded-forward-differs",
    "seeded-draws-differ", "seeded-runs-jitter", "rerun-parts-late" },
  options  = {
    jitter = { default = 1e-5, doc = "Relative difference that is rounding, in single precision" },
    half   = { default = 0.02, doc = "The same in half precision" },
    spread = { default = 0.5,  doc = "Share of outputs that differ where random layers drew other numbers" },
  },

  run = function(case)
    local opt = case.options
    local all = case.tensors:where("match(name, 'battery.determinism.*') and zero_share is not null")
    local narrow = case.config:where("match(key, '*precision|*dtype') and match(value, '*16*')"):first()
    local judged, missing = false, {}
    -- The battery begins anew from the seed, as the run did at its first step.
    local begin = places.first_step(case)
    -- What draws random numbers in each training pass, on purpose.
    local draws = case.config:where("match(key, '*dropout*|*_pdrop|*drop_rate|*drop_path*|*stochastic_depth*|"
      .. "*droppath*|*layerdrop*|*noise_std*|*noisy_gate*|*router_jitter*') and number > 0"):first()
    local function drawn(score, message, evidence)
      report { symptom = "seeded-draws-differ", score = score, severity = "error", message = message,
        at = { step = begin },
        evidence = evidence }
    end
    for _, part in ipairs({ "init", "batch", "forward", "loss", "gradient", "update" }) do
      local rows = all:where { name = "battery.determinism." .. part }
      local a, b = rows:where { variant = "first" }:first(), rows:where { variant = "second" }:first()
      local d = a and b and a:compare(b)
      judged = judged or d ~= nil
      if not d then missing[#missing + 1] = part end
      if d and d.max_abs > 0 then
        local allowed = (narrow or a.dtype:contains("16")) and opt.half or opt.jitter
        local rounding = part ~= "init" and part ~= "batch" and d.rel_err <= allowed
        local same = part == "batch" and reordered(a, b)
        local _, wrong = a:allclose(b, allowed, allowed * a.absmax)
        if part == "forward" and not rounding and draws and wrong and wrong >= opt.spread * a.numel then
          drawn(0.95, ("%s of the outputs differ between two passes from one seed, weights and batch, and the config "
            .. "has %s = %s: its random numbers are not those of the seed, from the start"):format(
            units.percent(wrong / a.numel), draws.key, tostring(draws.value)), { a, b, draws })
        end
        -- What comes after the first difference follows from it, and says nothing of its own.
        if part == "init" or part == "batch" then
          skip("equal weights and batches of both runs", "seeded-forward-differs", "seeded-draws-differ",
            "seeded-runs-jitter")
        elseif not draws then
          skip(RANDOM, "seeded-draws-differ")
        end
        if part == "init" then
          skip("equal weights of both runs", "seeded-batches-differ", "seeded-batches-reordered")
        end
        return report {
          at       = { step = begin },
          symptom  = rounding and "seeded-runs-jitter" or same and "seeded-batches-reordered" or SYMPTOM[part],
          score    = rounding and 0.8 or 0.97,
          severity = rounding and "info" or "error",
          message  = ("of two runs of one seed %s differ first, by %s of their norm%s"):format(WHAT[part],
            units.number(d.rel_err), rounding and ": rounding, as atomic additions leave it"
            or same and ": the same values in another order, from the start" or ", from element "
            .. a:unravel(d.first_diff) .. " on, from the start"),
          evidence = { a, b },
        }
      end
    end
    if not draws then skip(RANDOM, "seeded-draws-differ") end
    if judged then
      skip("two runs of one config and seed", "rerun-parts-late")
      for _, part in ipairs(missing) do
        local needed = ("battery/determinism.%s of both runs"):format(part)
        if part == "init" then skip(needed, "seeded-init-differs")
        elseif part == "batch" then skip(needed, "seeded-batches-differ", "seeded-batches-reordered") end
      end
      return
    end

    -- Two runs with one config: which metric parts first, and by how much.
    local names, runs = {}, {}
    for run, rows in case.scalars:where { primary = true }:group("run") do
      if rows:where { metric = "loss" }:count() >= 3 and not run:contains("battery") then
        names[#names + 1], runs[#runs + 1] = run, rows
      end
    end
    local function settings(run)
      local list, known = {}, {}
      for row in case.config:where { run = run }:sort("key"):rows() do
        -- Runs may be written by several hands, and to several folders.
      if not row.key:glob("*dir*|*path*|*run_name*") then
        known[row.key] = tostring(row.value):replace(" ", "")
        list[#list + 1] = row.key .. "=" .. known[row.key]
      end
      end
      return table.concat(list, "\n"), #list, known
    end
    --- Whether what both configs name is equal, with the seed and enough besides: two loggers may write one config in
    --- words of their own.
    local function agree(one, two)
      local shared, seeded = 0, false
      for key, value in pairs(one) do
        if two[key] ~= nil and two[key] ~= value then return false end
        if two[key] ~= nil then shared, seeded = shared + 1, seeded or key:glob("seed|*.seed") end
      end
      return seeded and shared >= 5
    end
    local ours, n, mine = settings(names[1] or "")
    local theirs, _, other_ = settings(names[2] or "")
    local same = ours == theirs and ours:contains("seed=")
    if #names ~= 2 or n == 0 or not same and not agree(mine, other_) then
      return skip("the determinism battery (culprit_recorder.battery), or two runs with one config and seed")
    end
    local function part(metric)
      return first_difference(runs[1]:where { metric = metric }:sort("step"),
        runs[2]:where { metric = metric }:sort("step"))
    end
    local loss, other = part("loss")
    local digits = math.min(decimals(runs[1]:where { metric = "loss" }), decimals(runs[2]:where { metric = "loss" }))
    -- A CPU adds in one order.
    local one_order = case.config:where("match(key, 'device|*.device|*accelerator') and match(value, 'cpu*') or "
      .. "match(key, '*torch_cuda|*cuda_version') and match(value, 'null|none|None')"):count() > 0
    local grown = loss and not one_order and digits < 9 and math.abs(loss.value - other.value) <= 5.5 * 10 ^ -digits
    local batch = part("batch_hash")
    if not batch and runs[1]:where { metric = "batch_hash" }:count() == 0 then
      skip("the hash of each batch (batch_hash)", "seeded-batches-differ", "seeded-batches-reordered")
    end
    if not loss then return end
    local distance = math.abs(loss.value - other.value) / math.max(math.abs(loss.value), math.abs(other.value), 1e-30)
    local first = runs[1]:where { metric = "loss" }:min("step")
    local counts = { runs[1]:where { metric = "loss" }:where("step <= 1000"):count(),
      runs[2]:where { metric = "loss" }:where("step <= 1000"):count() }
    if loss.step == first and (counts[1] > 2 * counts[2] or counts[2] > 2 * counts[1]) then
      return skip("two runs logged at one interval: one of these may log means over many steps")
    end
    local equal = runs[1]:where { metric = "loss" }:where("step < ?", loss.step):count()
    -- What is not seeded shows in the first steps; a fault of the machine, or a race, at any.
    local symptom = batch and batch.step <= loss.step and "seeded-batches-differ"
      or equal >= 3 and loss.step - first >= 20 and not grown and "rerun-parts-late"
      or (distance <= (narrow and opt.half or opt.jitter) or grown) and "seeded-runs-jitter"
      or loss.step == first and runs[1]:has("value") and "seeded-init-differs" or "seeded-forward-differs"
    -- Of configs in other words only the equal beginning shows that they are one; and so has the rate to be.
    local rate = part("lr")
    if not same and (symptom ~= "rerun-parts-late" or rate and rate.step <= loss.step) then
      return skip("two runs with one config, in the same words")
    end
    if symptom == "seeded-forward-differs" and loss.step == first and draws then
      drawn(0.7, ("the first losses of two runs of one seed differ, and the config has %s = %s, which draws random "
        .. "numbers"):format(draws.key, tostring(draws.value)), { loss, other, draws })
    end
    if grown and equal >= 3 and loss.step - first >= 20 then
      return skip("losses that part by more than their last digits: these may have grown apart from rounding, or not")
    end
    report {
      symptom  = symptom,
      score    = symptom == "seeded-runs-jitter" and 0.8 or 0.9,
      severity = symptom == "seeded-runs-jitter" and "info" or "error",
      at       = { step = loss.step },
      message  = ("two runs of one config and seed part at step %d, by %s of the loss%s"):format(loss.step,
        units.number(distance), symptom == "seeded-batches-differ" and ("; their batches differ from step %d on")
        :format(batch.step) or symptom == "seeded-runs-jitter" and ": rounding"
        or ("; the %d losses before it are equal to the last digit"):format(equal)),
      evidence = { loss, other },
    }
  end,
}
