--- ## What it detects
--- Gradients that point where the last ones did, told from the two moments that Adam keeps in a checkpoint.
---
--- ## Why it matters
--- The first moment is a mean of the last gradients, and the second of their squares. Noise cancels in the one and adds
--- up in the other: of gradients that have nothing in common the squared first moment is (1 - beta1) / (1 + beta1) of
--- the second, .05 with .9, and of gradients of which any two have a cosine of c it is c + (1 - c) times that. Those of
--- different batches agree in little once a model has left its first steps. Where the ratio is far above, the direction
--- is kept: old gradients are still in the buffers.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- Steps that take the whole data or one and the same batch, and batches so large that hardly any noise is left: where
--- epochs, hashes or settings say so nothing is said. A run that is at its beginning, or that moves so little that it
--- is there still, has gradients that agree by themselves; so one has to have come down by a twentieth of its loss, and
--- 50 updates count. Half of the tensors have to show it. Where cosines of gradients are logged they tell.
---
--- ## References
--- Kingma, Ba: Adam (2015), section 2.1 calls the root of the ratio a signal-to-noise ratio

local optimizers = require("optimizers")
local runs = require("runs")
local statistics = require("statistics")

--- The share of the second moment that the squared first one is, of each tensor of a checkpoint that has both, with
--- what the moments lack at first given back.
---@param states culprit.Table  of one run and step
---@param steps number          updates up to there
---@return number[] shares
---@return culprit.Row?         one of the first moments
local function shares_of(states, steps, beta1, beta2)
  local squares, shares, example = {}, {}, nil
  for row in states:where("match(name, '*.exp_avg_sq')"):slice(0, 10000):rows() do squares[row.name] = row end
  local lack = (1 - beta2 ^ steps) / (1 - beta1 ^ steps) ^ 2
  for row in states:where("match(name, '*.exp_avg')"):slice(0, 10000):rows() do
    local square = squares[row.name .. "_sq"]
    if square and square.mean > 0 and square.numel == row.numel then
      shares[#shares + 1] = lack * row.l2 ^ 2 / (square.mean * square.numel)
      example = example or row
    end
  end
  return shares, example
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Adam's moments show gradients that keep their direction",
  needs    = { tensors = { "name", "role", "step", "l2", "mean" }, config = { "key", "value" } },
  symptoms = { "gradients-repeat" },
  options  = {
    cosine  = { default = 0.35, doc = "Cosine of any two of the last gradients from which old ones are in them" },
    tensors = { default = 4,    doc = "Tensors with moments below which nothing is judged" },
    steps   = { default = 50,   doc = "Updates up to which gradients may agree by themselves" },
    learned = { default = 0.95, doc = "Last over first loss up to which a run has left its beginning" },
  },

  run = runs.apart(function(case, run)
    local opt, name = case.options, optimizers.kind(case)
    if not name:glob("*adam*") or name:glob("*mini*|*nadam*|*8bit*|*galore*|*apollo*|*hessian*|*free*") then
      return skip("an optimizer in the config that keeps the means of Adam")
    end
    if case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)"):count() >= 5 then
      return skip("moments where no cosines of gradients are on record: these tell")
    end
    local hashes = case.scalars:where { name = "batch_hash", primary = true }
    if runs.whole_data(case) or hashes:count() >= 4 and hashes:distinct("value"):count() <= 0.5 * hashes:count()
      or case.config:where("match(key, '*overfit*') and match(value, 'true|True|1')"):count() > 0 then
      return skip("batches that differ: steps take the whole data, or one batch again")
    end
    local states = case.tensors:where("role == 'state' and step is not null and variant is null and nonfinite == 0 and "
      .. "numel >= 64 and l2 is not null and mean is not null")
    local step = states:max("step")
    local loss = runs.series(case, "loss"):where("finite(value)")
    if not step or step < opt.steps or loss:count() < 5 then
      return skip(("a checkpoint with Adam's moments after %d updates, beside the loss"):format(opt.steps))
    end
    local tenth = math.max(1, loss:count() // 10)
    if loss:slice(loss:count() - tenth, tenth):median("value") > opt.learned * loss:slice(0, tenth):median("value") then
      return skip("a loss that has come down: at the beginning of a run gradients agree by themselves")
    end

    local beta1, beta2 = optimizers.betas(case, "*betas")
    local set1 = case.config:where("match(key, 'beta1|*.beta1|adam_beta1|*.adam_beta1') and number < 1"):first()
    local set2 = case.config:where("match(key, 'beta2|*.beta2|adam_beta2|*.adam_beta2') and number < 1"):first()
    beta1, beta2 = set1 and set1.number or beta1, set2 and set2.number or beta2
    if beta1 <= 0 or beta1 > 0.95 or beta2 <= beta1 then return skip("a first moment of ten gradients or so") end
    local shares, example = shares_of(states:where { step = step }, step, beta1, beta2)
    if #shares < opt.tensors then return skip(("%d tensors with both of Adam's moments"):format(opt.tensors)) end
    local none   = (1 - beta1) / (1 + beta1)
    local share  = statistics.median(shares)
    local cosine = (share - none) / (1 - none)
    -- A sum that swings to and fro, or that is cleared often, has no such share: nothing is ruled out.
    if cosine < opt.cosine then
      return skip(("moments that tell: their share is %.2g, and sums that swing have no more"):format(share))
    end
    report {
      symptom  = "gradients-repeat",
      score    = cosine > 0.7 and 0.9 or 0.8,
      at       = { run = run, step = step },
      message  = ("in the checkpoint of step %d the squared first moment is %.2g of the second in the median of %d "
        .. "tensors, and %.2g of gradients that have nothing in common: any two of the last ones have a cosine of "
        .. "%.2g%s"):format(math.floor(step), share, #shares, none, math.min(1, cosine),
        cosine > 1 and ", and grow" or ""),
      evidence = { example, states:where { step = step, name = example.name .. "_sq" }:slice(0, 1) },
    }
  end),
}
