--- Settings of a run: rows of case.config.

local settings = {}

--- The first number that a setting has whose key is `name`, or ends in `.name`; nil where there is none.
---@param case culprit.Case
---@param name string
---@return number?
function settings.number(case, name)
  local row = case.config:where("match(key, ?)", name .. "|*." .. name):where("number is not null"):first()
  return row and row.number
end

--- Those of some rows of case.config that switch something on, or set it: a number other than 0, or a value that is
--- no word for off.
---@param rows culprit.Table
---@return culprit.Table
function settings.on(rows)
  return rows:where("number != 0 or number is null and value is not null and not match(value, "
    .. "'false|False|none|None|null|0|')")
end

--- Those of some rows of case.config that ask for more than one, or name something.
---@param rows culprit.Table
---@return culprit.Table
function settings.several(rows)
  return rows:where("number > 1 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '')")
end

--- The share of a label that goes to other classes, as trainers call it: timm's smoothing, ESPnet's lsm_weight.
---@param case culprit.Case
---@return culprit.Row?
function settings.smoothing(case)
  return case.config:where("match(key, '*label_smoothing|*label_smoothing_factor|smoothing|*.smoothing|*lsm_weight') "
    .. "and number > 0"):first()
end

--- Whether a setting is of a part that is switched off: `use` or `enabled` beside it is false.
---@param case culprit.Case
---@param key string
---@return boolean
function settings.is_off(case, key)
  local parts = key:split(".")
  local front = table.concat(parts, ".", 1, #parts - 1)
  return #parts > 1 and case.config:where { key = { front .. ".use", front .. ".enabled", front .. ".enable" } }
    :where("match(value, 'false|False')"):count() > 0
end

--- A setting by which the run is in fp16, where gradients are scaled and may be logged so.
---@param case culprit.Case
---@return culprit.Row?
function settings.fp16(case)
  return case.config:where("match(key, '*precision|*dtype|fp16|*.fp16') and match(value, 'fp16*|*float16|16|16-*|half|"
    .. "true|True') and not match(value, '*bf*')"):first()
end

-- Of how many batches' gradients are added up for an update, as trainers call it.
local ACCUMULATION = "*accumulation_steps|*accumulate_grad_batches|*grad_accum*|*accum_grad|*grad_acc_step*|"
  .. "*accum_steps|*accum_iter|*accum_freq|*accum_count|*accumulate_step|*accumulate_steps|accumulate|*.accumulate|"
  .. "update_freq|optimization.update_freq|*cumulative_iters|*accumulative_counts|*num_microbatches|"
  .. "*accumulate_every|*accum_grad_iters"

--- The settings of how many batches' gradients are added up for an update, each with a number from 1; evaluation, which
--- may collect batches as well, updates nothing. A list with a number for each epoch counts by its first.
---@param case culprit.Case
---@return culprit.Table
function settings.accumulation(case)
  local rows = case.config:where("match(key, ?) and not match(key, 'eval*|*.eval*|*_eval*')", ACCUMULATION)
  local list = rows:where("number is null and match(value, '[*]')"):slice(0, 1)
  local count = list:count() > 0 and tonumber(tostring(list:first().value):sub(2, -2):split(",")[1]:trim())
  local numbers = rows:where("number >= 1")
  if numbers:count() > 0 then return numbers end
  if count and count >= 1 then return list:with { number = count } end
  -- Or how large the parts are that a batch is taken in, beside the batch.
  local part  = case.config:where("match(key, 'sub_batch_size|*.sub_batch_size') and number >= 1"):first()
  local whole = part and case.config:where { key = part.key:sub(1, #part.key - #"sub_batch_size") .. "batch_size" }
    :where("number >= 1"):first()
  return whole and part.number < whole.number and case.config:where { key = part.key }:slice(0, 1)
    :with { number = math.ceil(whole.number / part.number) } or numbers
end

--- How many gradients may be added up for an update: batches that are accumulated, on devices that may sum; 1 where the
--- config has neither.
---@param case culprit.Case
---@return number
function settings.accumulated(case)
  return (settings.accumulation(case):max("number") or 1)
    * (case.config:where("match(key, '*world_size') and number > 1"):max("number") or 1)
end

--- What changes the task on the way by design, from one step to the next: harder examples, longer rows.
local STAGES = "*curriculum*|*seqlen_start|*seq_len_start|*seq_len_warm*|*seqlen_warm*|*difficulty*"
--- What does so little by little: the weight of a term or of an augmentation goes up, a queue of negatives fills.
local RAMPS = "*kl_anneal*|*kl_warm*|*beta_anneal*|*beta_warm*|*aug*_warm*|*aug*_ramp*|*moco_k|*queue_size|"
  .. "*queue_len*|*final_sparsity|*target_sparsity|*pruning*|*teacher_ema*|*ema_teacher*|*mean_teacher*|"
  .. "*consistency_ramp*|*consistency_warm*|*rampup*"
--- Logged sizes of a task that grows on the way.
local SIZES = "kl_weight|*/kl_weight|*kl_coef*|*kl_beta*|beta|*/beta|*curriculum*|*difficulty*|seq_len|*/seq_len|"
  .. "*seqlen*|*sequence_length*|*num_targets*|*n_targets*|*num_pos|*n_pos|*positives*|*resolution*|*image_size*|"
  .. "*img_size*|*sparsity*|*queue_len*|*queue_size*"
--- What is measured against a target that moves: a policy that gets on meets larger returns, and an adversary that
--- gets on makes the others' loss larger. The rewards of preferences are of fixed pairs.
local AGAINST = "*return*|*reward*|ep_len*|*/ep_len*|*episode*|*td_error*|*q_value*|*disc_*|*discriminator*|loss_d|"
  .. "*/loss_d|d_loss|*/d_loss|g_loss|*/g_loss|loss_g|*/loss_g|*gen_loss|*loss_gen|*generator*|*critic*|*actor_loss*"

--- The setting by which the task becomes another one on the way, at once or little by little, and the loss moves
--- without the weights' doing; nil where there is none. A queue of negatives that a checkpoint has is one as well.
---@param case culprit.Case
---@return { key: string }?
function settings.harder(case)
  local set = settings.on(case.config:where("match(key, ?)", STAGES .. "|" .. RAMPS)):first()
  local queue = not set and case.tensors:where("match(name, 'queue_ptr|*.queue_ptr')"):first()
  return set or queue and { key = queue.name } or nil
end

--- What is logged of the size of a task and has grown by a fifth between two steps, or in the whole run: rows get
--- longer, targets more, or the weight of a term goes up; nil where nothing has.
---@param case culprit.Case
---@param run string?
---@param from number?
---@param to number?
---@return culprit.Row?
function settings.grown(case, run, from, to)
  local found
  for _, rows in case.scalars:where { run = run }:where("match(name, ?) and finite(value)", SIZES):group("name") do
    local by_step = rows:sort("step")
    local was = from and by_step:where("step <= ?", from):last() or by_step:first()
    local is  = to and by_step:where("step <= ?", to):last() or by_step:last()
    if was and is and is.value > 1.2 * was.value then found = found or is end
  end
  return found
end

--- Whether the loss is a world model's, which learns what was recorded, whatever its actor and critic are after.
---@param case culprit.Case
---@return boolean
local function of_world(case)
  return case.scalars:where("name == 'loss' and match(raw_name, '*model_loss|*world_model*')"):count() > 0
end

--- What says that the loss is measured against a target that moves: a logged return or the loss of an adversary; nil
--- where nothing does.
---@param case culprit.Case
---@return culprit.Row?
---@return string?  what it is called
function settings.moving(case)
  if of_world(case) then return nil end
  -- A layer may be called a generator.
  local logged = case.scalars:where("match(name, ?) and not match(name, '*chosen*|*rejected*|*margin*|*accurac*') and "
    .. "not match(metric, 'grad_*|weight_*|update_*|activation_*|*_share|nonfinite|exp_avg*|optimizer_*')", AGAINST)
    :first()
  if logged then return logged, logged.name end
  local set = settings.on(case.config:where("match(key, '*n_critic*|*critic_iters*|*gan_mode*|*adversarial_loss*|"
    .. "*gan_loss*')")):first() or case.config:where("match(key, '*loss*|*objective*|*criterion*') and "
    .. "match(value, '*wgan*|*hinge_gan*|*lsgan*|*adversarial*')"):first()
  return set, set and set.key
end

--- A return of an environment that gets better, to the end: by half of all that it has ever been apart. The loss is
--- that of guesses at such returns, and jumps where new ones are found. Nil where none does.
---@param case culprit.Case
---@return culprit.Row?
function settings.returns_rise(case)
  if of_world(case) then return nil end
  local found
  local returns = case.scalars:where("match(name, '*return|*return_mean|*reward|*reward_mean|*rew_mean|*returns') and "
    .. "not match(name, '*chosen*|*rejected*|*margin*|*accurac*|*loss*') and finite(value) and layer is null")
  for _, rows in returns:group("name") do
    local by_step = rows:sort("step")
    local n = by_step:count() // 5
    if n >= 4 and not found then
      local range = by_step:max("value") - by_step:min("value")
      local rise  = by_step:slice(by_step:count() - n, n):median("value") - by_step:slice(0, n):median("value")
      if range > 0 and rise >= 0.5 * range then found = by_step:last() end
    end
  end
  return found
end

--- The setting by which the task becomes another one between two steps. Where it names steps ("start_step": 100) one of
--- these has to lie there, or the end of its warm-up behind them; where it names none any step may be one. A ramp moves
--- no loss at once and is none. nil where there is none.
---@param case culprit.Case
---@param from number  the last step that is known to be of the task before
---@param to number    the step that may be of the next one
---@return culprit.Row?
function settings.stage(case, from, to)
  local open, found
  local named = false
  local function at(row, step, lasts)
    if step <= 0 then return end
    named = true
    if step >= from and (lasts or step <= to) then found = found or row end
  end
  for row in settings.on(case.config:where("match(key, ?)", STAGES)):slice(0, 100):rows() do
    local key = row.key:lower()
    open = open or row
    if row.number then
      if key:glob("*step*") then at(row, row.number, key:glob("*warm*")) end
    else
      -- In a list of stages steps are the numbers behind the word, of one place or in brackets.
      for i, piece in ipairs(tostring(row.value):lower():split("step")) do
        local head = piece:split(",")[1]
        local numbers = (head:contains("[") and piece:split("]")[1] or head):numbers()
        for _, step in ipairs(i > 1 and numbers or {}) do at(row, step) end
      end
    end
  end
  return found or not named and open or nil
end

--- The setting that names a step between two as that at which a part of the training begins or ends: another term of
--- the loss, another layer, another precision; or a number of steps after which it does so each time. The start of the
--- run itself, and those of rates, are none of a part. nil where no setting does.
---@param case culprit.Case
---@param from number
---@param to number
---@return culprit.Row?
function settings.begins(case, from, to)
  local found
  local parts = settings.on(case.config:where("match(key, '*_start*|*start_*|*begin*|*switch*|*_until*|"
    .. "*depth_schedule*') and not match(key, 'start_*|*.start_*|*lr*|*learning*|*warm*|*resume*|*beta_start|*ramp*|"
    .. "*anneal*|*profil*|*eval*|*log_*|*ckpt*|*save*')"))
  for row in parts:slice(0, 200):rows() do
    for _, step in ipairs(row.number and { row.number } or tostring(row.value):numbers()) do
      if step > 1 and step >= from and step <= to then found = found or row end
    end
  end
  local each = case.config:where("match(key, '*steps_per_layer|*steps_per_stage|*steps_per_task|*steps_per_phase|"
    .. "*steps_per_level|*reset_interval|*restart_every|*restart_interval') and number > 1")
  for row in each:slice(0, 20):rows() do
    if to // row.number > (from - 1) // row.number then found = found or row end
  end
  return found
end

--- The same of a jump above the trailing median of a series: until half of its rows are of the new task it is that of
--- the one before.
---@param case culprit.Case
---@param series culprit.Table  of one run, by step
---@param spike culprit.Row     the row that jumps
---@param window integer        rows of the median
---@return culprit.Row?
function settings.stage_before(case, series, spike, window)
  local past  = series:where("step < ?", spike.step)
  local since = past:slice(math.max(0, past:count() - window // 2), 1):first()
  local near  = past:slice(math.max(0, past:count() - 4), 1):first()
  return since and settings.stage(case, since.step, spike.step)
    or near and settings.begins(case, near.step, spike.step)
end

--- Keys of what counts, or warms up, something else than the training's updates: steps of an episode, of a sampler or
--- of a profiler, the warm-up of a second loss or of an average.
local elsewhere = "*kl_*|*ema_*|*profil*|*bench*|*beta*|*temperature*|*gan_*|*disc*|*aux*|*momentum*|*batch*|*curric*|"
  .. "*env_*|*env.*|*episode*|*rollout*|*eval*|*val_*|*generat*|*sampl*|ode.*|*.ode.*|*ode_*steps|*solver*|*diffusion*|"
  .. "*noise*|*mask*|*infer*|*freeze*|*mcmc*|*agent*|*decoding*"

--- The steps over which the rate rises at first, where a config sets them: above 0, or just 0 with `zero`.
---@param case culprit.Case
---@param zero boolean?
---@return culprit.Row?
function settings.warmup(case, zero)
  return case.config:where("match(key, '*warmup_steps|*warmup_iters|*lr_warmup_iters|*warmup_updates|*warmup_num_steps|"
    .. "*warmup_iterations|*scheduler.t_warmup')")
    :where("not match(key, ?)", elsewhere):where(zero and "number == 0" or "number > 0"):first()
end

--- The number of updates that a schedule, or else the training, is planned for.
---@param case culprit.Case
---@return culprit.Row?
function settings.planned(case)
  local function first(globs)
    return case.config:where("match(key, ?) and number > 0", globs):where("not match(key, ?)", elsewhere):first()
  end
  return first("*lr_decay_iters|*decay_steps|*lr_decay_steps")
    or first("*max_steps|*max_iters|*num_training_steps|*total_steps|*train_iters|*max_iterations")
end

--- What names the schedule of the learning rate, and not that of a noise, a mask, a decay or a second loss.
---@param case culprit.Case
---@return culprit.Row?
function settings.schedule(case)
  return case.config:where("match(key, '*scheduler|*schedule|*scheduler.name|*scheduler.type|*scheduler_type|"
    .. "*scheduler._target_|*scheduler.class_path|*lr_decay_style') and not match(key, '*beta*|*noise*|*sigma*|"
    .. "*temp*|*mask*|*kl_*|*drop*|*forcing*|*ema*|*eps*|"
    .. "*timestep*|*momentum*|*wd_*|*weight_decay*|*diffusion*|*aux*|*curric*|*batch*')"):first()
end

--- The largest learning rate that a config sets; the one in a checkpoint's optimizer is that of its step, and no plan.
---@param case culprit.Case
---@return number?
function settings.planned_rate(case)
  return case.config:where("match(key, 'lr|*.lr|*learning_rate|*base_lr|*max_lr|*peak_lr|*init_lr|*lr_init|*start_lr|"
    .. "*model_lr') "
    .. "and not match(key, '*min*|*param_groups*') and number > 0"):max("number")
end

--- Whether a config sets the two ends of a cyclic rate, and how many steps lie between them, as PyTorch's and
--- SpeechBrain's have them.
---@param case culprit.Case
---@return boolean
function settings.cyclic_ends(case)
  for low in case.config:where("match(key, 'base_lr|*.base_lr') and number is not null"):rows() do
    -- The three stand side by side.
    local front = low.key:sub(1, #low.key - #"base_lr")
    local high  = case.config:where { key = front .. "max_lr" }:where("number > ?", low.number):count() > 0
    local size  = case.config:where { key = { front .. "step_size", front .. "step_size_up" } }:where("number >= 1")
      :count() > 0
    if high and size then return true end
  end
  return false
end

--- Whether a logged rate goes round in cycles: it comes down to less than half and back, never beyond its first peak or
--- the rate that is set, twice or more, after as many steps each time or twice as many. A schedule that begins anew
--- by accident does so once, or whenever a run is stopped.
---@param case culprit.Case
---@param rate culprit.Table  rates of one run by step
---@return boolean
function settings.cycles(case, rate)
  local rows = rate:count()
  if rows < 8 then return false end
  local first, apart = rate:first().step, (rate:last().step - rate:first().step) / (rows - 1)
  local peak, top, low, places, begin = 0, nil, nil, {}, nil
  local set = settings.planned_rate(case) or 0
  for piece = 0, math.min(rows, 20000) - 1, 10000 do -- so many rows are given at a time
    for row in rate:slice(piece, 10000):rows() do
      local value = row.value
      if low and value > 2 * low then
        -- Up again: the rise began here, and the fall before it was from a peak.
        places[#places + 1], low, peak = begin, nil, value
      elseif value < 0.5 * peak and (not low or value <= low) then
        low, begin = value, row.step
      end
      if not low then peak = math.max(peak, value) end
      top = top or (value < peak and peak) or nil
      if top and value > 1.1 * math.max(top, set) then return false end
    end
  end
  if #places < 2 then return false end
  local before = places[1] - first
  for i = 2, #places do
    local gap = places[i] - places[i - 1]
    local slack = 0.15 + 2 * apart / math.max(before, 1e-9)
    if math.abs(gap / before - 1) > slack and math.abs(gap / before - 2) > 2 * slack then return false end
    before = gap
  end
  return true
end

--- What says that a run goes on from weights that were trained before.
---@param case culprit.Case
---@return culprit.Row?
function settings.loaded(case)
  return case.config:where("match(key, '*init_from|*resume|*resume_from*|*pretrained*|*model_name_or_path|"
    .. "*load_checkpoint*|*finetun*|*fine_tun*|*from_checkpoint*|*warm_start*|*backbone_weights|*init_ckpt*|"
    .. "*init_checkpoint*|*load_from|*restore_from*|*ckpt_path')")
    :where("value is not null and not match(value, 'scratch|none|None|null|false|False|0|auto|allow|must|never|')")
    -- HiFi-GAN's takes spectrograms that another model predicted, and says nothing of weights.
    :where(case.config:where("match(key, '*num_mels') and number > 0"):count() > 0 and "not match(key, '*fine_tuning')"
      or "key is not null"):first()
end

--- Settings that name the class that counts for nothing; nnU-Net has it among its labels.
---@param case culprit.Case
---@return culprit.Table
function settings.ignored(case)
  return case.config:where("match(key, '*ignore_index|*ignore_label|*void_label|*labels.ignore')")
    :where("number is not null")
end

--- Whether a policy is trained by ratios of probabilities: what is clipped may be those, or the value.
local function clips_ratios(case)
  return case.config:where("match(key, '*gae*|*clip_range*|*cliprange*|*clip_ratio*|*clip_coef*|lam|"
    .. "*.lam|*ent_coef*|*entropy_coef*|ppo_*|*.ppo_*|*clip_vloss*') or match(value, 'ppo|PPO|*.ppo|*.PPO')")
    :count() > 0
end

--- The thresholds that the norm of all gradients is clipped at, in either order of the words.
---@param case culprit.Case
---@return culprit.Table
function settings.clipping(case)
  local rows = case.config:where("number > 0 and (match(key, '*max_grad_norm|*max_gradient_norm|*grad_clip|*clip_grad|"
    .. "*gradient_clip|*clip_gradient|*clip_gradients|*clip_grad_norm|*clip_gradient_norm|*gradient_clipping|"
    .. "*grad*clip_val|*clip_norm|*norm_clip|*norm_clipping|*grad_clip_thresh|*clip*.max_norm|*clip*_max_norm|"
    .. "*optimizer.max_norm|*optim.max_norm|training.max_norm|train.max_norm|*global_clipnorm|*grad_clip_norm|"
    .. "*gradient_clipping_threshold'))")
  if rows:count() > 0 then return rows end
  -- A "clip" alone is one too, but where policies are trained.
  return clips_ratios(case) and rows or case.config:where("number > 0 and match(key, 'clip|train.clip|training.clip|"
    .. "trainer.clip|optim.clip|optimizer.clip|args.clip|hparams.clip|solver.clip')")
end

--- What says that gradients are clipped element by element, or unit by unit: the threshold is no norm of them all. Nil
--- where nothing does.
---@param case culprit.Case
---@return culprit.Row?
function settings.clipped_by_parts(case)
  return case.config:where("match(key, '*clip*') and match(value, 'agc|AGC|adaptive*|*value|*per_layer|*layerwise|"
    .. "*unit*')"):first()
    or settings.on(case.config:where("match(key, ?)", clips_ratios(case) and "*agc|*agc_clip*|*adaptive_grad*"
      or "*clip_value|*clip_by_value*|*clipvalue|*agc|*agc_clip*|*adaptive_grad*")):first()
end

--- What says that the training loss is a sum of other losses than validation has: softened targets of a teacher, which
--- are scaled by the square of a temperature; nil where nothing does. The two have no common scale then.
---@param case culprit.Case
---@return culprit.Row?
function settings.distilled(case)
  return case.config:where("match(key, '*distill*|*teacher*|*kd_alpha*|*kd_weight*|*kd_temp*|*kd_loss*|"
    .. "*knowledge_dist*')"):where("not match(key, '*teacher_forc*') and not match(value, "
    .. "'false|False|none|None|null|0|0.0|')"):first()
end

--- The last part of a path, which names a run.
---@param path string
---@return string
function settings.name_of(path)
  local parts = path:split("/")
  return parts[#parts]
end

return settings
