--- Which optimizer a config names, and what is true of its updates. What holds of Adam does not of all that is called
--- after it: RAdam begins as plain descent, LAMB measures its steps by the weights, NovoGrad's second moment is one
--- number a layer. A rule about one of them asks here first, and says nothing where the run does not say what it is.

local optimizers = {}

--- Called after Adam, and other in what a first update is or in how long it is: plain descent at first (RAdam),
--- another momentum (NAdam), a rate that is found or warmed up within (D-Adaptation, schedule-free), gradients that are
--- projected (GaLore, APOLLO, AdamP), one moment for many elements (Adam-mini), curvature (AdaHessian).
local OTHERS = "*radam*|*rectified*|*nadam*|*free*|*dadapt*|*d_adapt*|dadam|*.dadam|*prodigy*|*galore*|"
  .. "*apollo*|*adamp|*mini*|*muon*|*lamb*|*soap*|*shampoo*|*sophia*|*sparseadam*|*hessian*"

--- The setting that names the optimizer; nil where none does.
---@param case culprit.Case
---@return culprit.Row?
function optimizers.named(case)
  return case.config:where("match(key, '*optimizer|*optim|*optimizer_type|*optimizer_name|*optimizer.type|"
    .. "*optimizer.name|*optimizer_class|*optimizer.class_name|*optimizer._target_|*optim.name|*optim.type|"
    .. "*optim._target_|*optim_type|*optim_name|opt|*.opt') and not match(key, '*distributed*|*offload*|*load_*|"
    .. "*save*|*no_*|*use_*')"):where("number is null and value is not null and not match(value, "
    .. "'true|false|True|False|none|None|null|')"):first()
end

--- The name in lower case; empty where none is set.
---@param case culprit.Case
---@return string
function optimizers.kind(case)
  local row = optimizers.named(case)
  return row and tostring(row.value):lower() or ""
end

--- Whether it is Adam itself, of either decay: the first update is the rate in each element that has a gradient, later
--- ones seldom are more, and epsilon stands beside the root of each element's second moment.
---@param case culprit.Case
---@return culprit.Row?  the setting that says so
function optimizers.adam(case)
  local row = optimizers.named(case)
  if not row then return nil end
  local kind = tostring(row.value):lower()
  return kind:contains("adam") and not kind:glob(OTHERS) and row or nil
end

--- Whether updates are as long as gradients are, times a rate: descent with momentum or without.
---@param case culprit.Case
---@return boolean
function optimizers.plain(case)
  return optimizers.kind(case):glob("sgd*|*.sgd*|*_sgd|momentum|*.momentum|nesterov|gd|*gradient_descent*|"
    .. "*gradientdescent*|*asgd") or false
end

--- Whether the optimizer keeps Adam's two means, of each element by itself, under their names and as they are.
---@param case culprit.Case
---@return boolean
function optimizers.keeps_means(case)
  local kind = optimizers.kind(case)
  return kind:glob("*adam*") and not kind:glob("*8bit*|*mini*|*galore*|*apollo*|*hessian*|*free*") or false
end

--- How long Adam's two moments remember: what a pair says that is set under such a key, and else what PyTorch takes.
---@param case culprit.Case
---@param keys string  a glob of keys
---@return number, number
function optimizers.betas(case, keys)
  local set  = case.config:where("match(key, ?)", keys):first()
  local pair = set and set.value and set.value:numbers() or {}
  return pair[1] or 0.9, pair[2] or 0.999
end

--- Whether a gradient's size cancels out of the updates: of all that is named and no plain descent, nor a search along
--- a line; or where betas are set without a name, as Adam and its relatives have them.
---@param case culprit.Case
---@return boolean
function optimizers.scale_free(case)
  local kind = optimizers.kind(case)
  if kind == "" then
    return case.config:where("match(key, 'betas|*.betas|beta2|*.beta2|adam_beta*|*.adam_beta*') and not match(key, "
      .. "'*noise*|*diffusion*')"):count() > 0
  end
  return not optimizers.plain(case) and not kind:glob("*lbfgs*|*lars*|lomo|*.lomo")
end

--- Whether the first updates are long, or short, by design, so that they say nothing of a rate or a warm-up: without a
--- correction for the empty moment (RMSprop), with sums that only grow (Adagrad), after a start or a search of its own.
---@param case culprit.Case
---@return boolean
function optimizers.begins_otherwise(case)
  return optimizers.kind(case):glob("*rmsprop*|*adagrad*|*adadelta*|*adafactor*|*radam*|*free*|*prodigy*|*dadapt*|"
    .. "*d_adapt*|*lbfgs*|*rprop*|*ftrl*|*lamb*|*lars*") or false
end

--- Whether the logged rate is not the one that updates are made with: one that the optimizer warms up, estimates or
--- multiplies within. Adafactor does so where its steps are relative, and logs one number then; without them, as the
--- trainers of transformers set it, the rate is the logged one.
---@param case culprit.Case
---@param rate culprit.Table  finite rates of one run
---@return boolean
function optimizers.own_rate(case, rate)
  local kind = optimizers.kind(case)
  return kind:glob("*free*|*prodigy*|*dadapt*|*d_adapt*|dadam|*.dadam|*lbfgs*|*rprop*|*mechanic*")
    or kind:glob("*adafactor*") and rate:max("value") == rate:min("value") or false
end

--- Whether decay is taken from the weights beside the update (true) or added to the gradient (false); nil where the
--- config does not say. "Adam" alone does not: Megatron's and DeepSpeed's is AdamW by default, PyTorch's is not.
---@param case culprit.Case
---@return boolean?
function optimizers.decoupled(case)
  local kind = optimizers.kind(case)
  local said = case.config:where("match(key, '*adam_w_mode|*decoupled_weight_decay|*decoupled_wd|*decouple')"):first()
  if said then return tostring(said.value):lower() == "true" or said.number == 1 end
  -- Apex's Adam, which these take, is AdamW unless told otherwise.
  local apex = case.config:where("match(key, '*lr_decay_style|*tensor_model_parallel*|*zero_optimization*|"
    .. "*train_micro_batch_size_per_gpu|*pipeline_model_parallel*')"):count() > 0
  if apex and kind:glob("*adam*") then return true end
  if kind:glob("*adamw*|*lion*|*schedule*free*|*nadamw*") then return true end
  if optimizers.plain(case) or kind:glob("*rmsprop*|*adagrad*|*adadelta*|torch.optim.adam|*torch.optim.adam.adam") then
    return false
  end
  return nil
end

return optimizers
