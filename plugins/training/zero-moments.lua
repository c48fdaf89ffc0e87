--- ## What it detects
--- Layers whose moments in a checkpoint of Adam are exactly zero although the optimizer has stepped them: gradients
--- came at every step, and each one was zero.
---
--- ## Why it matters
--- PyTorch makes the state of a parameter at its first gradient, so what is frozen or cut off has none. A second
--- moment only ever decays by a factor, so that one of zero means that there was never a gradient but zero: the units
--- behind are all dead, or all of it is multiplied by a zero that nothing opens. Only the checkpoint is needed, and no
--- statistics of layers.
---
--- ## How to confirm
--- Look at the output of the activation behind the first of these layers for one batch: `(h == 0).all()`. Print the
--- layer's bias; one that is far below zero keeps every unit off.
---
--- ## Known false positives
--- A head whose loss has a weight of zero, experts that no token reaches, adapters beside a factor that starts at zero,
--- queries and keys over one place, recurrent weights of sequences of one step: their gradients are zero by design.
--- What bears such a name is left out, and so is what lies behind all that learns, and everything where the config has
--- a weight of a loss that is zero. Moments in fp16 lose small gradients and are not judged. Flat and sharded states
--- have no parameters.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html (None and zero are not the same)

local BY_DESIGN = "*expert*|*lora*|*adapter*|*hypernet*|*q_proj*|*k_proj*|*to_q*|*to_k*|*query*|*.key*|*_hh_*|*_hh|"
  .. "*.q|*.k|*.q.*|*.k.*|*wq*|*wk*|*projector*|*recurrent*|*aux*|*pooler*|*head*|*emb*|*wte*|*wpe*|*table*|"
  .. "*mask_token*"

--- What is called NAME.exp_avg_sq is of NAME.
local function parameter(row, moment) return row.name:sub(1, #row.name - #moment - 1) end

--- By name, the rows of one moment.
local function named(rows, moment)
  local out = {}
  for row in rows:where("match(name, ?)", "*." .. moment):slice(0, 10000):rows() do
    out[parameter(row, moment)] = row
  end
  return out
end

--- The parameters of an optimizer's state at one step, in its order: each with its second moment and whether that and
--- the first one are zero.
local function parameters(rows)
  local first, counters, out = named(rows, "exp_avg"), named(rows, "step"), {}
  for row in rows:where("match(name, '*.exp_avg_sq')"):slice(0, 10000):rows() do
    local name  = parameter(row, "exp_avg_sq")
    local count = counters[name]
    if first[name] and count and not row.dtype:glob("float16") then
      out[#out + 1] = { name = row.layer, row = row, count = count.mean,
        zero = row.l2 == 0 and row.nonfinite == 0 and first[name].l2 == 0 and first[name].nonfinite == 0 }
    end
  end
  return out
end

--- Layers by the names of the model where the state has them, and shapes else.
local function list(found)
  local names, seen = {}, {}
  for _, one in ipairs(found) do
    local name = one.name:lower() ~= one.name:upper() and one.name or table.concat(one.row.shape or {}, " x ")
    if not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  return table.concat(names, ", ", 1, math.min(4, #names))
    .. (#names > 4 and (" and %d more"):format(#names - 4) or "")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Gradients came and were zero, every time, by the optimizer's moments",
  needs    = { tensors = { "name", "role", "layer", "step", "l2" } },
  symptoms = { "gradient-always-zero" },
  options  = {
    updates = { default = 20, doc = "Updates before which a zero that opens later may still be shut" },
  },

  run = function(case)
    local states = case.tensors:where("role == 'state' and step is not null and numel >= 1")
    local judged = false
    for run in states:where("match(name, '*.exp_avg_sq')"):slice(0, 20000):group("run") do
      local rows = states:where { run = run }
      local all  = parameters(rows:where { step = rows:where("match(name, '*.exp_avg_sq')"):max("step") })
      local zero, matrices, live, last = {}, 0, 0, 0
      for i, one in ipairs(all) do
        if not one.zero then
          live, last = live + 1, i
        elseif one.count >= case.options.updates and not one.name:lower():glob(BY_DESIGN) then
          zero[#zero + 1] = one
          if #(one.row.shape or {}) > 1 then matrices = matrices + 1; one.at = i end
        end
      end
      judged = judged or #all > 0
      local upstream = false
      for _, one in ipairs(zero) do upstream = upstream or one.at ~= nil and one.at < last end
      local off = case.config:where("match(key, '*loss*weight*|*weight*loss*|*coef*|*lambda*|*_alpha|*loss_scale*') "
        .. "and number == 0"):first()
      local rates = case.scalars:where { name = "lr" }:where("finite(value)")
      if rates:count() > 0 and rates:max("value") <= 0 then
        skip("a learning rate above zero: a gate that starts shut stays shut without", "gradient-always-zero")
      elseif live > 0 and matrices > 0 and upstream and off then
        skip(("a loss all of whose parts count: %s is 0"):format(off.key), "gradient-always-zero")
      elseif live > 0 and matrices > 0 and upstream then
        report {
          symptom  = "gradient-always-zero",
          score    = 0.9,
          at       = { run = run, step = zero[1].row.step, layer = zero[1].row.layer },
          message  = ("both moments of %d of %d parameters are exactly 0 after %d updates (%s): a gradient came "
            .. "to them at every step and was 0, as from units that are all dead; what is frozen or cut off has no "
            .. "moments")
            :format(#zero, #all, zero[1].count, list(zero)),
          evidence = { zero[1].row, zero[#zero].row },
        }
      end
    end
    if not judged then skip("moments of Adam by parameter, and its counter, in a checkpoint") end
  end,
}
