--- ## What it detects
--- The optimizer of a run's last checkpoint counts fewer updates than the run has made: its state began anew on the
--- way.
---
--- ## Why it matters
--- What a resume does not restore starts with moments of zero: Adam's next updates move every parameter by the whole
--- rate, without a warm-up.
---
--- ## How to confirm
--- Print `optimizer.state[p]["step"]` after loading the checkpoint: it must be the step of the checkpoint.
---
--- ## Known false positives
--- Which checkpoint is the last is told by its epoch, that has to be the last one of the settings; a best one may be
--- older. Batches that are added up for an update, parts that learn in turn and optimizers that begin anew on purpose
--- count fewer; where a setting speaks of these nothing is said, nor where the count is a third of the steps, a fourth
--- or another whole fraction. A log may count samples, tokens or frames, of which an update has many: nothing is said
--- of a count of less than a sixth of the steps, or of one that comes to them when multiplied by the batch size.
---
--- ## References
--- https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html

local checkpoints = require("checkpoints")
local restarts    = require("restarts")
local runs        = require("runs")
local settings    = require("settings")

local EPOCHS = "epochs|*.epochs|num_epochs|*.num_epochs|max_epochs|*.max_epochs|n_epochs|*.n_epochs|num_train_epochs"

--- The epoch that the folder of an optimizer's file is called after, as models/weights_19 of Monodepth2; nil of none.
local function of_folder(case)
  local last
  for row in case.config:where("match(key, '*param_groups.0.lr')"):slice(0, 1000):rows() do
    local parts  = row.source:split("/")
    local folder = parts[#parts - 1] or ""
    local words  = folder:replace("-", "_"):split("_")
    local number = folder:lower():glob("weights_*|epoch_*|epoch-*|*_epoch_*") and tonumber(words[#words])
    if number and (not last or number > last) then last = number end
  end
  return last
end

--- Whether the file with the latest epoch has the last one that the settings ask for, from 0 or from 1.
local function finished(case)
  local epoch = case.config:where("key == 'epoch' and number >= 0"):max("number") or of_folder(case)
  local asked = case.config:where("match(key, ?) and number >= 2", EPOCHS):first()
  return epoch and asked and (epoch == asked.number - 1 or epoch == asked.number) and epoch or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The last checkpoint's optimizer counts fewer updates than the run has made",
  needs    = {
    tensors = { "name", "role", "mean" },
    config  = { "key", "number" },
    scalars = { "step", "value", metric = "loss" },
  },
  symptoms = { "optimizer-state-reset" },
  options  = {
    behind = { default = 0.9, doc = "Updates over the steps of the run below which some are missing" },
    least  = { default = 10,  doc = "Missing updates below which a loss scaler may have skipped them" },
    times  = { default = 6,   doc = "Steps an update from which on the log counts something else" },
  },

  run = runs.apart(function(case, run)
    local set = restarts.setting(case)
    if set then return skip(("an optimizer's state that is kept: by %s it begins anew"):format(set.key)) end
    -- What is frozen for a time has counts of its own; the highest one is of what always learns.
    if settings.accumulated(case) > 1 or settings.on(case.config:where("match(key, '*thaw*|*gan_*|*n_critic*|"
      .. "*d_steps*')")):count() > 0 then
      return skip("an update a step of one optimizer, of some parameter throughout")
    end
    local epoch = finished(case)
    if not epoch then return skip("a checkpoint with the last epoch that the settings ask for") end
    local loss  = runs.series(case, "loss", run)
    -- Where losses are those of epochs, norms may be those of steps.
    local norms = runs.series(case, "grad_norm", run)
    if norms:count() >= 4 and loss:count() > 0 and norms:last().step >= 3 * loss:last().step then loss = norms end
    local counters = case.tensors:where { role = "state", numel = 1 }:where("match(name, '*state.*.step') and "
      .. "mean >= 1"):sort("mean")
    local count = counters:last()
    if loss:count() < 2 or loss:first().step > 1 or not count or runs.by_epochs(case, run, loss) then
      return skip("a log of steps from the first on, and the counters of an optimizer's state")
    end
    -- Where little of what the optimizer holds has the highest count, all else is frozen or cut off, and this may have
    -- been for a time.
    local held = checkpoints.held(case) or 0
    if counters:where("mean == ?", count.mean):distinct("name"):count() < 0.5 * held then
      return skip("a count of updates that most of the optimizer's parameters have")
    end
    local steps = loss:last().step - loss:first().step + 1
    local times = steps / count.mean
    local batch = case.config:where("match(key, '*batch_size|*batch') and number >= 2 and number >= ? and number <= ?",
      0.9 * times, 1.1 * times):first()
    if times > case.options.times or batch then
      return skip("a log whose steps are updates: they may be samples or frames, of which an update has several")
    end
    if count.mean >= case.options.behind * steps or steps - count.mean < case.options.least
      or times > 2.5 and math.abs(times - math.floor(times + 0.5)) < math.min(0.1, 0.02 * times) then
      return
    end
    local begun = math.floor(loss:last().step + 1 - count.mean)
    report {
      symptom  = "optimizer-state-reset",
      score    = 0.9,
      at       = { run = run, step = begun },
      message  = ("the optimizer of the checkpoint of epoch %g, the last one, counts %g updates, and the run has made "
        .. "%d: its moments began anew at step %d"):format(epoch, count.mean, math.floor(steps), begun),
      evidence = { count, loss:last() },
    }
  end),
}
