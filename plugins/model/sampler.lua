--- ## What it detects
--- How the states of a multi-step process (a diffusion sampler, an integrator, a recurrence) leave those of its
--- reference: at order two only, little by little, all at once, or differently on each run; coefficients that differ;
--- and inputs that grow with the noise level.
---
--- ## Why it matters
--- The pattern names the kind of fault: history, accumulation, corrupted state, race. The last image alone shows none
--- of it.
---
--- ## How to confirm
--- Run one step from the reference's own state: a history or accumulation fault vanishes, a fault of the step does not.
---
--- ## Known false positives
--- Half precision drifts from single precision by itself; `rounding` allows for it.
---
--- ## References
--- https://arxiv.org/abs/2206.00364 (input scaling c_in = 1/sqrt(1 + sigma^2)), https://arxiv.org/abs/2211.01095

--- Errors of one process by step: the relative difference from its reference.
local function errors_of(ours, reference)
  local list = {}
  for row in ours:compare(reference, { "name", "step" }):sort("step"):rows() do
    if row.rel_err then list[#list + 1] = { step = row.step, err = row.rel_err, row = row } end
  end
  return list
end

local function first_beyond(errors, limit)
  for i, e in ipairs(errors) do
    if e.err > limit then return i, e end
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A multi-step process leaves its reference",
  needs    = { tensors = { "name", "step", "data" } },
  symptoms = { "sampler-order-two-wrong", "sampler-error-grows", "sampler-breaks-at-step",
    "sampler-coefficients-differ",
    "sampler-runs-differ", "input-grows-with-noise" },
  options  = {
    rounding = { default = 2e-4, doc = "Relative difference of a state that is rounding; a hundred times that "
      .. "in half" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local all = case.tensors:where("match(name, 'sampler*') and zero_share is not null")
    local function states(variant, name)
      return all:where("match(name, ?)", name or "*state"):where { variant = variant }
    end
    local function limit_of(row) return row.dtype:contains("16") and 100 * opt.rounding or opt.rounding end

    local table_, theirs = states("ours", "*coefficients"):first(), states("reference", "*coefficients"):first()
    local d = table_ and theirs and table_:compare(theirs)
    judged = judged or d ~= nil
    if d and d.rel_err > 1e-5 then
      report {
        symptom = "sampler-coefficients-differ", score = 0.95,
        message = ("%s differs from the reference by %s of its norm, from element %s on"):format(table_.name,
          units.number(d.rel_err), table_:unravel(d.first_diff)),
        evidence = { table_, theirs },
      }
    end

    local again = errors_of(states("again"), states("ours"))
    judged = judged or #again > 0
    local _, other = first_beyond(again, #again > 0 and limit_of(again[1].row) or 0)
    if other then
      report {
        symptom = "sampler-runs-differ", score = 0.95, at = { step = other.step },
        message = ("two runs from one start differ from step %d on, by %s: state is shared or "
          .. "random"):format(other.step,
          units.number(other.err)),
        evidence = { other.row },
      }
    end

    local of = {}
    for order = 1, 2 do of[order] = errors_of(states("ours", "*order" .. order .. "*state"), states("reference")) end
    if #of[1] == 0 and #of[2] == 0 then of[1] = errors_of(states("ours"), states("reference")) end
    local function judge(errors, which)
      if #errors < 3 then return end
      judged = true
      local limit = limit_of(errors[1].row)
      local i, bad = first_beyond(errors, limit)
      if not bad then return end
      local largest, jump = 0, 0 -- the largest factor from one step to the next
      for k = 2, #errors do
        largest = math.max(largest, errors[k].err)
        if k > i or k == i and errors[k - 1].err > 0 then
          jump = math.max(jump, errors[k].err / math.max(errors[k - 1].err, 1e-12))
        end
      end
      if i > 1 and bad.err > 100 * math.max(errors[i - 1].err, 0.01 * limit) then
        report {
          symptom = "sampler-breaks-at-step", score = 0.95, at = { step = bad.step },
          message = ("the state of %s agrees with the reference up to step %d (to %s) and is off by %s at step %d")
            :format(which, errors[i - 1].step, units.number(errors[i - 1].err), units.number(bad.err), bad.step),
          evidence = { errors[i - 1].row, bad.row },
        }
      elseif #errors >= 5 and jump < 30 and errors[#errors].err > 3 * errors[1].err then
        report {
          symptom = "sampler-error-grows", score = 0.9, at = { step = bad.step },
          message = ("the state of %s leaves the reference little by little: %s at step %d, %s at step %d, "
            .. "never more than "
            .. "%.3g times as far as a step before"):format(which, units.number(errors[1].err), errors[1].step,
            units.number(errors[#errors].err), errors[#errors].step, jump),
          evidence = { errors[1].row, errors[#errors].row },
        }
      end
    end
    local _, two = first_beyond(of[2], #of[2] > 0 and limit_of(of[2][1].row) or 0)
    local one = #of[1] > 0 and first_beyond(of[1], limit_of(of[1][1].row))
    if two and #of[1] >= 2 and not one then
      judged = true
      report {
        symptom = "sampler-order-two-wrong", score = 0.97, at = { step = two.step },
        message = ("order one agrees with the reference in all %d steps, order two is off by %s from step %d on: its "
          .. "history or coefficients"):format(#of[1], units.number(two.err), two.step),
        evidence = { two.row },
      }
    else
      judge(#of[2] > 0 and not one and of[2] or of[1], "the process")
    end

    -- The model's input against the noise level: a scaled input keeps its deviation.
    local sigmas, points = all:where("match(name, '*sigma') and numel == 1"), {}
    for sigma in sigmas:where("variant is null or variant != 'reference'"):rows() do
      local input = all:where { run = sigma.run, step = sigma.step, variant = sigma.variant }:where("match(name, "
        .. "'*model_input')"):first()
      if input and (input.std or 0) > 0 and sigma.mean > 0 then
        points[#points + 1] = { x = math.log(sigma.mean), y = math.log(input.std), row = input, sigma = sigma.mean }
      end
    end
    table.sort(points, function(a, b) return a.x > b.x end)
    local high = {}
    for _, p in ipairs(points) do
      if p.sigma > 2 then high[#high + 1] = p end -- below, data and noise mix
    end
    if #high >= 3 and high[1].x - high[#high].x > 0.7 then
      judged = true
      local a, b = high[1], high[#high]
      local slope = (a.y - b.y) / (a.x - b.x)
      if slope > 0.8 then
        report {
          symptom = "input-grows-with-noise", score = 0.95, at = { step = a.row.step },
          message = ("the model's input has deviation %s at noise level %s and %s at %s, a power of %.2f: it is "
            .. "not divided by "
            .. "sqrt(1 + sigma^2)"):format(units.number(a.row.std), units.number(a.sigma), units.number(b.row.std),
            units.number(b.sigma), slope),
          evidence = { a.row, b.row },
        }
      end
    end
    if not judged then
      skip("states of a sampler, sampler.order1.state and sampler.order2.state of each step in the variants "
        .. "reference and "
        .. "ours (and again), or sampler.sigma with sampler.model_input")
    end
  end,
}
