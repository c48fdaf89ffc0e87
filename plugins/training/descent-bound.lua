--- ## What it detects
--- Steps that, all of them together, cannot lower the loss by a noticeable part of it (plain descent), or move no
--- weight by a noticeable part of it (Adam).
---
--- ## Why it matters
--- A step of rate r against the gradient g lowers the loss by r * |g|^2 to first order, and never by more where the
--- loss is curved upwards; momentum m makes r / (1 - m) of it in the long run. The norm of a batch's gradient is that
--- of the true one and its noise, so the sum of r * |g|^2 / (1 - m) over the run is more than the loss can have fallen.
--- Where that is a small part of the first loss the rate keeps the model where it began. Clipping, which makes steps
--- shorter still, is left out: training/gradient-clipping tells of it.
---
--- Adam's step is about the rate in each element, whatever the gradient, and weights behind n inputs are about
--- 1 / sqrt(n). So the sum of the rates times the root of the widest layer, four times the model's width, is more than
--- the part of any matrix that the run can have changed. Both take columns of a log, and neither layers nor weights.
---
--- ## How to confirm
--- Run 500 steps at ten times the rate: the loss falls about ten times as fast.
---
--- ## Known false positives
--- A bound proves one way only: where it is neither small nor as large as the loss, or the weights, nothing is said.
--- Fine-tuning: a first loss far below that of chance is not judged. Gradients that vanish make the sum small as
--- well: the norm must not have fallen to a tenth in the run, nor be so small from the first row on that a step as
--- long as the weights would change nothing (a first update far too long ends in such a place). A loss that fell by
--- more than the bound, or by a tenth under Adam, says that the bound is not one (the logged norm is not that of the
--- whole gradient); nothing is said then. A rate of zero is training/learning-rate's, and so is a schedule that still
--- rises.
---
--- ## References
--- https://arxiv.org/abs/1606.04838 (the descent lemma is its 4.2 and 4.3)

local runs = require("runs")
local targets = require("targets")

--- The norm of all weights, at its largest: of the model, or of the layers that are logged, which is less.
---@param case culprit.Case
---@param run_name string?
---@return number?
local function size_of_weights(case, run_name)
  local norms = case.scalars:where { metric = "weight_norm", primary = true, run = run_name }:where("finite(value)")
  local whole = norms:where("layer is null"):max("value")
  if whole then return whole end
  local square = norms:where("layer is not null"):with { square = "value * value" }
    :aggregate({ "step" }, { sum = "sum square" }):max("sum")
  return square and math.sqrt(square)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "All steps together are too short to lower the loss",
  needs    = { scalars = { "step", "value", metric = "lr" }, config = { "key", "value" } },
  symptoms = { "steps-too-short-to-descend" },
  options  = {
    part     = { default = 0.15, doc = "Bound of the fall over the first loss below which the run goes nowhere" },
    way      = { default = 0.10, doc = "Bound of the way over the weights below which the run goes nowhere" },
    min_rows = { default = 8,    doc = "Rows with rate and gradient norm below which nothing is judged" },
    long     = { default = 100,  doc = "Steps from which a run is judged" },
  },

  run = function(case)
    local opt  = case.options
    local name = case.config:where("match(key, 'optim|optimizer|*.optim|*.optimizer|*optimizer_type|*optimizer_name"
      .. "|*optimizer.type|*optimizer.name|*opt')"):first()
    local kind  = name and tostring(name.value):lower() or ""
    local plain = kind:glob("sgd*|*.sgd|momentum|nesterov")
    local adam  = kind:glob("*adam*") and not kind:glob("*radam*|*free*|*dadapt*")
    if not plain and not adam then
      return skip("plain descent or Adam: the optimizer in the config is another, or none is named")
    end
    -- Terms beside the cross entropy, as of an overlap, only add to a loss that is to be no less than chance has.
    local classes = targets.classes(case) or not targets.numbers(case)
      and case.config:where("match(key, 'out_classes|*.out_classes') and number > 1"):first()
    if not classes then return skip("num_classes or vocab_size in a config") end
    local width = adam and case.config:where("match(key, '*hidden_size|*d_model|*n_embd|*embed_dim|*hidden_dim|"
      .. "*embedding_dim|dim|*.dim|model_dim|*.model_dim|*dim_model') and number >= 1"):max("number")
    if adam and not width then return skip("the model's width in a config: hidden_size, d_model or the like") end
    local momentum = plain and case.config:where("match(key, 'momentum|*.momentum') and number > 0 and number < 1")
      :first()
    local gain = momentum and 1 / (1 - momentum.number) or 1
    local judged = false
    for run_name, run in case.scalars:where { name = "lr", primary = true }:group("run") do
      local rows = run:sort("step"):where("finite(value)"):distinct("step"):select("step", "value")
      if plain then
        rows = rows:join(runs.series(case, "grad_norm", run_name):where("finite(value) and value > 0"):distinct("step")
          :select("step", "value"), { "step" }):sort("step")
      end
      local loss  = runs.series(case, "loss", run_name):where("finite(value)")
      local count = rows:count()
      local span  = count > 0 and rows:last().step - math.min(1, rows:first().step) or 0
      if count >= opt.min_rows and span >= opt.long and rows:where("value > 0"):count() >= 0.9 * count
        and loss:count() >= opt.min_rows then
        judged = true
        local mean  = rows:mean("value")
        local start = loss:slice(0, 3):median("value")
        local fell  = start - loss:slice(loss:count() - 3, 3):median("value")
        local fresh = start >= 0.75 * math.log(classes.number)
        if plain and fresh then
          local sum = 0
          for row in rows:slice(0, 10000):rows() do sum = sum + row.value * row.value_right ^ 2 end
          local bound = gain * span * sum / math.min(count, 20000)
          local usual = rows:median("value_right")
          local fades = rows:slice(count - count // 4, count):median("value_right")
            < 0.1 * rows:slice(0, 3):median("value_right")
          -- A step as long as the weights themselves moves the loss by |g| |w|, to first order: where that is nothing,
          -- no rate is what is missing.
          local weights = size_of_weights(case, run_name)
          if weights and usual * weights < opt.part * start then
            skip(("gradients that longer steps could use: %.3g times weights of %.3g move the loss by %.2g at any rate")
              :format(usual, weights, usual * weights))
          elseif bound < opt.part * start and fell <= bound and not fades then
            report {
              symptom  = "steps-too-short-to-descend",
              score    = bound < opt.part / 3 * start and 0.95 or 0.85,
              at       = { step = rows:first().step },
              message  = ("%d steps at a mean rate of %.3g%s against gradients of %.3g can lower the loss by %.2g at "
                .. "most, to first order, of %.4g"):format(math.floor(span), mean,
                momentum and (" with momentum %g"):format(momentum.number) or "", usual, bound, start),
              evidence = { name, rows:slice(0, 3), loss:first(), loss:last() },
            }
          elseif bound < start or fell > bound then
            skip(("steps that could lower the loss to nothing: the bound is %.2g of %.4g, and proves neither"):format(
              bound, start))
          end
        elseif adam and fresh then
          local way   = span * mean * math.sqrt(4 * width)
          local late  = rows:slice(2 * count // 3, count)
          local rises = late:last().value > 1.01 * late:first().value
          if way < opt.way and fell <= 0.1 * start and not rises then
            report {
              symptom  = "steps-too-short-to-descend",
              score    = way < opt.way / 3 and 0.95 or 0.85,
              at       = { step = rows:first().step },
              message  = ("%d steps of %s at a mean rate of %.3g move no weight by more than %.2g in all, %.2g of what "
                .. "weights behind %d inputs are"):format(math.floor(span), name.value, mean, span * mean, way,
                math.floor(4 * width)),
              evidence = { name, rows:slice(0, 3), loss:first(), loss:last() },
            }
          elseif way < 1 then
            skip(("steps that could replace the weights: the bound is %.2g of them, and proves neither"):format(way))
          end
        end
      end
    end
    if not judged then
      skip(("learning rate%s at %d steps, beside the loss"):format(plain and " and gradient norm" or "", opt.min_rows))
    end
  end,
}
