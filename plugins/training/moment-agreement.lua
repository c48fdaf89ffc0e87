--- ## What it detects
--- Gradients that point where the last ones did, told from the two moments that Adam keeps in a checkpoint.
---
--- ## Why it matters
--- The first moment is a mean of the last gradients, and the second of their squares. Noise cancels in the one and adds
--- up in the other: of gradients that have nothing in common the squared first moment is (1 - beta1) / (1 + beta1) of
--- the second, .05 with .9, and of gradients of which any two have a cosine of c it is c + (1 - c) times that, where
--- all are as long. Those of different batches agree in little once a model has left its first steps. Where the ratio
--- is far above, the direction is kept: old gradients are still in the buffers.
---
--- ## How to confirm
--- Print the gradient norm right after `zero_grad()`: it must be zero, or the gradients None.
---
--- ## Known false positives
--- Steps that take the whole data or one and the same batch: where epochs, hashes or settings say so nothing is said.
--- Batches so large that hardly any noise is left agree too, and nothing here tells them. A run that is at its
--- beginning, or that moves so little that it is there still, has gradients that agree by themselves; so one has to
--- have come down by a twentieth of its loss, and 50 updates count, by the optimizer's own counter. Norms that grow,
--- and a long one among the last, raise the ratio: what the logged norms give without agreement is taken off, and
--- without such norms nothing is said. Decay that is added to gradients is one direction, and the most that it can add
--- is taken off. Half of the tensors have to show it. Where cosines of gradients are logged they tell. Nor where norms
--- stay more than ten times what clipping leaves in a buffer: of such gradients nine tenths are new.
---
--- ## References
--- Kingma, Ba: Adam (2015), section 2.1 calls the root of the ratio a signal-to-noise ratio

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local statistics = require("statistics")

--- By the number of their elements, the most that a decay adds to the gradient of weights: nothing where it is taken
--- from the weights beside the update, and nil for what has no weights in the checkpoint.
---@param step number  of the checkpoint
---@return fun(numel: integer): number?
local function added_by_decay(case, step)
  local decay = case.config:where("match(key, '*weight_decay|l2|*.l2|*l2_reg*|*l2_lambda') and number > 0")
    :max("number")
  if not decay or optimizers.decoupled(case) == true then return function() return 0 end end
  local longest = {}
  for numel, rows in case.tensors:where("role == 'weight' and variant is null and step == ? and l2 is not null", step)
    :group("numel") do
    longest[numel] = decay * rows:max("l2")
  end
  return function(numel) return longest[numel] end
end

--- The share of the second moment that the squared first one is, of each tensor of a checkpoint that has both and had
--- all updates, with what the moments lack at first given back; at least, where decay has a part in it.
---@param states culprit.Table  of one run and step
---@param updates number        up to there
---@param decay fun(numel: integer): number?
---@return number[] shares
---@return culprit.Row?         one of the first moments
local function shares_of(states, updates, beta1, beta2, decay)
  local squares, counts, shares, example = {}, {}, {}, nil
  for row in states:where("numel == 1 and match(name, '*.step')"):slice(0, 10000):rows() do
    counts[row.name] = row.mean
  end
  local large = states:where("numel >= 64")
  for row in large:where("match(name, '*.exp_avg_sq')"):slice(0, 10000):rows() do squares[row.name] = row end
  for row in large:where("match(name, '*.exp_avg')"):slice(0, 10000):rows() do
    local square = squares[row.name .. "_sq"]
    local added  = decay(row.numel)
    if square and square.mean > 0 and square.numel == row.numel and added
      and counts[row.name:sub(1, #row.name - #"exp_avg") .. "step"] == updates then
      local first  = math.max(0, row.l2 / (1 - beta1 ^ updates) - added)
      local second = (square.mean * square.numel / (1 - beta2 ^ updates)) ^ 0.5 + added
      shares[#shares + 1] = (first / second) ^ 2
      example = example or row
    end
  end
  return shares, example
end

--- The norm of the gradient at each update back from the last, from those that are logged: straight lines between them.
--- Nil where these do not reach over what the moments remember, lie further apart than the first moment remembers, or
--- where they lie apart and one stands out, as others may between them.
---@param norms culprit.Table  up to the checkpoint
---@param scale number         updates a step
---@param updates number
---@param memory integer       updates that the second moment remembers
---@return number[]?  the last one first
local function norms_back(norms, scale, updates, memory)
  local rows = norms:count()
  local kept = norms:slice(math.max(0, rows - 10000), 10000)
  if kept:count() < 10 then return nil end
  local at = {}
  for row in kept:rows() do at[#at + 1] = { update = row.step * scale, value = row.value } end
  local apart = (at[#at].update - at[1].update) / (#at - 1)
  local from  = math.max(updates - memory / 3, 0.05 * updates)
  if apart <= 0 or apart > 10.5 or at[#at].update < updates - 10.5 or at[1].update - apart > from then return nil end
  if apart > 1.5 and norms:max("value") > 3 * norms:median("value") then return nil end
  local out, i = {}, #at
  for back = 0, math.min(updates - 1, memory) do
    local update = updates - back
    while i > 1 and at[i].update > update do i = i - 1 end
    local low, high = at[i], at[i + 1]
    if not high or update <= low.update then
      out[#out + 1] = low.value
    else
      local part = (update - low.update) / (high.update - low.update)
      out[#out + 1] = low.value + part * (high.value - low.value)
    end
  end
  return out
end

--- What the squared first moment is of the second for gradients of such norms that have nothing in common, and for
--- those that all point one way.
---@param back number[]   norms, the last one first
---@param limit number    what clipping leaves of them at most
local function expected(back, limit, beta1, beta2)
  local squares, none, full, ones, twos = 0, 0, 0, 0, 0
  for i, value in ipairs(back) do
    local norm = math.min(value, limit)
    local one, two = beta1 ^ (i - 1), beta2 ^ (i - 1)
    none, full, squares = none + (one * norm) ^ 2, full + one * norm, squares + two * norm ^ 2
    ones, twos = ones + one, twos + two
  end
  local second = squares / twos
  return none / ones ^ 2 / second, (full / ones) ^ 2 / second
end

--- The cosine that any two of the gradients have for a share, at least, as the logged norms may be before or behind
--- clipping and a step may be counted from 0 or 1, and those of a tensor may be level where that of all falls; and what
--- the share is of those that have nothing in common.
---@return number? cosine, number? none
local function cosine_of(share, norms, step, updates, limit, beta1, beta2)
  local nothing = (1 - beta1) / (1 + beta1)
  local least   = (share - nothing) / (1 - nothing)
  for _, shift in ipairs { 0, 1 } do
    local shifted = norms:where("step <= ?", step - shift):with { step = ("step + %d"):format(shift) }
    local back = norms_back(shifted, updates / step, updates, math.min(20000, math.ceil(10 / (1 - beta2))))
    if not back then return nil end
    for _, most in ipairs { math.huge, limit or math.huge } do
      local none, full = expected(back, most, beta1, beta2)
      local cosine = (share - none) / (full - none)
      if full > none and cosine < least then least, nothing = cosine, none end
    end
  end
  return least, nothing
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
    local opt = case.options
    if not optimizers.keeps_means(case) or optimizers.kind(case):glob("*nadam*") then
      return skip("an optimizer in the config that keeps the means of Adam")
    end
    if case.scalars:where { metric = "grad_cosine", primary = true }:where("finite(value)"):count() >= 5 then
      return skip("moments where no cosines of gradients are on record: these tell")
    end
    if runs.whole_data(case) or runs.same_batches(case)
      or case.config:where("match(key, '*overfit*') and match(value, 'true|True|1')"):count() > 0 then
      return skip("batches that differ: steps take the whole data, or one batch again")
    end
    local states = case.tensors:where("role == 'state' and step is not null and variant is null and nonfinite == 0 and "
      .. "l2 is not null and mean is not null")
    local step = states:where("match(name, '*.exp_avg')"):max("step")
    -- A step of the log may be one of several batches of an update.
    local updates = step and states:where { step = step }:where("numel == 1 and match(name, '*.step')"):max("mean")
    local loss = runs.series(case, "loss"):where("finite(value)")
    if not updates or step <= 0 or updates < opt.steps or loss:count() < 5 then
      return skip(("a checkpoint with Adam's moments and its counter after %d updates, beside the loss")
        :format(opt.steps))
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
    local shares, example = shares_of(states:where { step = step }, updates, beta1, beta2, added_by_decay(case, step))
    if #shares < opt.tensors then
      return skip(("%d tensors with both of Adam's moments, and the weights where decay is added to gradients")
        :format(opt.tensors))
    end
    local share = statistics.median(shares)
    -- What clipping leaves of old gradients in a buffer is no longer than its threshold, and where nothing clips the
    -- buffer itself, the norm grows with each gradient that is added.
    local limit, norms = settings.clipping(case):first(), runs.series(case, "grad_norm"):where("finite(value)")
    local part  = math.max(1, norms:count() // 10)
    local early = norms:count() >= 10 and norms:slice(0, part):median("value")
    local ended = early and norms:slice(norms:count() - part, part):median("value")
    if limit and early and norms:min("value") > 10 * limit.number and ended < 1.4 * early then
      return skip(("a norm that old gradients can be in: clipping leaves %.3g of them, and the norm is %.3g and more")
        :format(limit.number, norms:min("value")))
    end
    -- Norms that grow, or one that is long, raise the share without any agreement.
    local cosine, none = cosine_of(share, norms, step, updates, limit and limit.number, beta1, beta2)
    if not cosine then return skip("norms of the gradient at each step, or each tenth where none stands out") end
    -- A sum that swings to and fro, or that is cleared often, has no such share: nothing is ruled out.
    if cosine < opt.cosine then
      return skip(("moments that tell: by their share of %.2g gradients have a cosine of %.2g, and sums that swing "
        .. "have no more"):format(share, cosine))
    end
    if cosine > 1.2 then return skip("tensors whose gradients are as long as the logged norms say") end
    report {
      symptom  = "gradients-repeat",
      score    = cosine > 0.7 and 0.9 or 0.8,
      at       = { run = run, step = step },
      message  = ("in the checkpoint of step %d the squared first moment is, in the median of %d tensors, %.2g times "
        .. "what it is of gradients of such norms that have nothing in common: it takes a cosine of %.2g of any two")
        :format(math.floor(step), #shares, share / none, math.min(1, cosine)),
      evidence = { example, states:where { step = step, name = example.name .. "_sq" }:slice(0, 1) },
    }
  end),
}
