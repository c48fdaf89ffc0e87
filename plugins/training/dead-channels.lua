--- ## What it detects
--- Channels of a batch norm that have seen nothing but zeros: their running mean in a checkpoint is exactly 0, and
--- their running variance only the share of its first 1 that is left after so many batches.
---
--- ## Why it matters
--- What is zero for every input has no gradient upstream, and the norm puts out its bias alone: the channel is lost.
---
--- ## How to confirm
--- Feed a batch and print the largest value of each channel before the norm.
---
--- ## Known false positives
--- Channels that are pruned, or experts that nothing reaches; a setting that prunes says so. A norm that was never in
--- training has means of 0 and variances of 1, and is left out, as is one of the inputs, by its name: columns may be 0
--- for all rows.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html (running_mean, running_var, momentum)

local elements = require("elements")
local runs     = require("runs")
local settings = require("settings")

--- The buffer of a norm that stands beside its running mean, in its file or else in the only one that has it; of
--- several files none may have a step.
local function beside(case, mean, name)
  local named = case.tensors:where { run = mean.run, step = mean.step, name = mean.name:replace("running_mean", name) }
  local own = mean.source and named:where { source = mean.source }
  if own and (own:count() > 0 or named:count() > 1) then named = own end
  return mean.order and named:where("order == ?", mean.order + 1):first() or named:first()
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Channels of a batch norm have seen nothing but zeros",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "dead-units" },
  options  = {
    share  = { default = 0.5,  doc = "Share of a norm's channels that makes a layer dead" },
    left   = { default = 0.05, doc = "Running variance up to which nothing was added to what is left of the first 1" },
    least  = { default = 8,    doc = "Channels below which a norm is not judged" },
  },

  run = runs.apart(function(case, run)
    local opt = case.options
    local pruned = settings.on(case.config:where("match(key, '*prun*|*sparsity*|*spiking*|*snn*')")):first()
    if pruned then return skip(("channels that are to be used: by %s some are not"):format(pruned.key)) end
    local means = case.tensors:where("match(name, '*running_mean') and zero_share is not null and variant is null and "
      .. "not match(name, '*initial_bn*|*input_bn*|*bn0.*|*input_norm*|*normalizer*')")
      :where("numel >= ?", opt.least):sort("step", "place")
    -- Of each norm as it is at the end.
    local last = means:max("step")
    if last then means = means:where("step is null or step == ?", last) end
    if means:count() == 0 then return skip("the running statistics of a batch norm, as checkpoints have them") end
    local found, seen, worst = {}, {}, nil
    for mean in means:where("zero_share >= ?", opt.share):slice(0, 400):rows() do
      local var = mean.numel <= 10000 and beside(case, mean, "running_var")
      if var and var.numel == mean.numel then
        local m, v, dead = elements.of(mean, 0, mean.numel), elements.of(var, 0, var.numel), 0
        for i = 1, #m do
          if m[i] == 0 and v[i] <= opt.left then dead = dead + 1 end
        end
        if dead >= opt.share * mean.numel then
          local layer = mean.name:replace(".running_mean", "")
          local one   = { layer = layer, mean = mean, var = var, dead = dead }
          if not seen[layer] then found[#found + 1], seen[layer] = one, true end
          if not worst or dead / mean.numel > worst.dead / worst.mean.numel then worst = one end
        end
      end
    end
    if not worst then return end
    local first = found[1]
    report {
      symptom  = "dead-units",
      score    = 0.85,
      at       = { run = run, step = first.mean.step, layer = first.layer },
      message  = ("%d of %d channels that come into %s have a running mean of exactly 0 and a running variance of at "
        .. "most %.2g: they were zero in every batch; it is the first of %s"):format(first.dead, first.mean.numel,
        first.layer, opt.left, units.plural(#found, "norm that is so", "norms that are so")),
      evidence = { first.mean, first.var, worst.mean },
    }
  end),
}
