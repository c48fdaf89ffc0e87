--- ## What it detects
--- Steps that run forward and backward but not the optimizer's kernels that the other steps run, and what says why:
--- the check for non-finite gradients, the logged loss, gradient norm and loss scale of that step, the first
--- non-finite tensor.
---
--- ## Why it matters
--- Such a step is thrown away. One now and then is how dynamic loss scaling finds its scale; several in a row mean
--- that the non-finite value does not come from the scale.
---
--- ## How to confirm
--- Log `scaler.get_scale()` after each update: it halves in exactly the steps named. Otherwise something else skips:
--- a guard in the loop, an exception, accumulation.
---
--- ## Known false positives
--- Gradient accumulation steps every N-th time only; that distance is learned from the record and is no finding. A
--- fused optimizer that is given `found_inf` skips inside its kernel, which a profile cannot see.
---
--- ## References
--- https://pytorch.org/docs/stable/amp.html#gradient-scaling

-- Kernels that only an optimizer runs, and the batched ones that clipping and unscaling share with it. "*lamb*" would
-- take every kernel made from a lambda.
local Own    = "*adam*|*sgd*|*multi_tensor_lamb*|*fusedlamb*|*fused_lamb*|*lambstage*|*rmsprop*|*adagrad*|*adafactor*|"
  .. "*fused_lion*|*lion_update*|*fusedopt*|*fused_opt*|*optimizerstep*|*optimizer_step*"
local Shared = "*multi_tensor_apply*"
local Others = "*non_finite*|*lpnorm*|*l2norm*|*norm_kernel*|*scalartensor*|*scale_functor*|*scalefunctor*"
local Check  = "*non_finite_check*|*amp_update_scale*|*check_finite*|*overflow_check*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A step runs forward and backward but no update",
  needs    = { steps = { "start", "stop" }, gpu_work = { "name", "correlation" },
    host_calls = { "start", "correlation" } },
  relies   = { "launches", "kernels", "whole-record" },
  symptoms = { "update-skipped", "update-skipped-after-overflow-check" },
  options  = {
    min_updates = { default = 3,    doc = "Steps with an update below which the usual distance is not known" },
    same_work   = { default = 0.70,
                    doc = "Share of the usual other kernels that a step must run to have had a backward pass" },
  },

  run = function(case)
    local opt, judged, reason = case.options, false, nil
    for rank, all in case.steps:group("rank") do
      local steps = all:sort("start")
      local n     = steps:count()
      -- A kernel counts to the step in which it was launched.
      local work = case.launches:where { rank = rank, kind = "kernel" }
      work = work:with { step_row = work:containing(steps) }:where("step_row is not null")
      local graph = case.host_calls:where { rank = rank }:where("match(name, '*GraphLaunch*')"):count() > 0
      if work:count() > 0 and n >= opt.min_updates + 1 and n <= 10000 and not graph then
        local ranges = case.ranges:where { rank = rank, category = "optimizer" }
        local names  = work:aggregate({ "name" }, { n = "count" })
        local is_opt = {}
        for row in names:top(5000, "n"):rows() do
          local low = row.name:lower()
          is_opt[row.name] = low:glob(Own) and not low:glob(Others) or low:glob(Shared) and not low:glob(Others) or nil
        end
        local updates
        if ranges:count() > 0 then
          updates = work:with { within = work:containing(ranges) }:where("within is not null")
        else
          local list = {}
          for name in pairs(is_opt) do list[#list + 1] = name end
          updates = #list > 0 and work:where { name = list } or work:slice(0, 0)
        end
        local has, others = {}, {}
        for i = 0, n - 1 do has[i], others[i] = 0, 0 end
        for row in work:aggregate({ "step_row" }, { n = "count" }):rows() do others[row.step_row] = row.n end
        for row in updates:aggregate({ "step_row" }, { n = "count" }):rows() do has[row.step_row] = row.n end
        local done, rest = {}, {}
        for i = 0, n - 1 do
          others[i] = others[i] - has[i]
          rest[#rest + 1] = others[i]
          if has[i] > 0 then done[#done + 1] = i end
        end
        table.sort(rest)
        local usual = rest[(#rest + 1) // 2]
        if #done >= opt.min_updates then
          judged = true
          -- The usual distance between updates: 1, or the number of batches that are accumulated.
          local seen, period = {}, nil
          for i = 2, #done do
            local gap = done[i] - done[i - 1]
            seen[gap] = (seen[gap] or 0) + 1
          end
          for gap, times in pairs(seen) do
            if not period or times > seen[period] then period = gap end
          end
          local missing = {}
          if seen[period] * 2 > #done - 1 then
            for i = 2, #done do
              for k = done[i - 1] + period, done[i] - 1, period do
                if others[k] >= opt.same_work * usual then missing[#missing + 1] = k end
              end
            end
          end
          -- A backward pass runs autograd's functions; where those are on record the step must have them.
          local autograd = case.host_ops:where { rank = rank }:where("match(name, 'autograd::engine*')")
          for _, k in ipairs(missing) do
            local step   = steps:row(k)
            local only   = steps:slice(k, 1)
            local back   = autograd:count() == 0 or autograd:where("start >= ? and start < ?", step.start, step.stop)
              :count() > 0
            if back then
              local inside  = work:where { step_row = k }
              local checked = inside:where("match(name, ?)", Check)
              local asked   = case.host_ops:where { rank = rank }:where("match(name, "
                .. "'*non_finite_check*|*amp_update_scale*')")
                :where("start >= ? and start < ?", step.start, step.stop)
              ---@type string[], culprit.Evidence[]
              local notes, rows = {}, { only }
              for s in case.scalars:where { step = step.step, primary = true }
                  :where("metric == 'loss' or metric == 'grad_norm' or metric == 'loss_scale'"):sort("metric")
                    :slice(0, 6):rows() do
                notes[#notes + 1] = ("%s %s"):format(s.name, units.number(s.value, 6))
                rows[#rows + 1] = s
              end
              local bad = case.tensors:where { step = step.step }:where("nonfinite > 0"):sort("order"):first()
              if bad then
                notes[#notes + 1] = ("first non-finite tensor %s (%d of %d values)"):format(bad.name, bad.nonfinite,
                  bad.numel)
                rows[#rows + 1] = bad
              end
              local amp  = checked:count() + asked:count() > 0
              local rare = #missing == 1
              report {
                symptom     = "update-skipped",
                severity    = rare and "warning" or "error",
                score       = 0.9,
                recoverable = step.dur,
                share       = step.dur / steps:sum("dur"),
                at          = { rank = rank, step = step.step },
                message     = ("step %d runs %d kernels besides the optimizer's (usually %d) but none of the %d of an "
                  .. "update; updates come every %s, %d of %d are missing. %s%s"):format(step.step, others[k], usual,
                  has[done[1]], period == 1 and "step" or ("%d steps"):format(period), #missing,
                  #done + #missing, #notes > 0 and ("At this step: " .. table.concat(notes, ", ")) or
                  "No scalar or tensor of this step is on record", rare and
                  "; one alone may be the search for the loss scale" or ""),
                evidence    = rows,
              }
              if amp then
                report {
                  symptom  = "update-skipped-after-overflow-check",
                  severity = rare and "warning" or "error",
                  score    = 0.9,
                  at       = { rank = rank, step = step.step },
                  message  = ("step %d checked its gradients for non-finite values (%d kernels, %d calls) and then ran "
                    .. "no update: the scaler skipped it; without the check a guard or an exception in the loop would "
                    .. "be left")
                      :format(
                    step.step, checked:count(), asked:count()),
                  evidence = { checked:count() > 0 and checked:slice(0, 3) or asked:slice(0, 3) },
                }
              end
            end
          end
        else
          reason = "at least " .. opt.min_updates .. " steps with optimizer kernels: record more steps, or name the "
            .. "update with an `Optimizer.step` range"
        end
      elseif graph then
        reason = "kernels outside of CUDA graphs: a replay does not tell an update from a step without one"
      end
    end
    if not judged then
      skip(reason or "more steps with the launches of their kernels: record them with CUDA runtime activities")
    end
  end,
}
