--- Rows that a run puts into one batch on purpose: they belong together, and blocks of them are no fault.

local restarts = require("restarts")
local settings = require("settings")

local put_together = {}

local KEYS = "*homogen*|*group_by*|*grouped*|*num_generations|*group_size|*bucket_by*|*length_bucket*|"
  .. "*bucket_sampl*|*task_sampl*|*batch_sampler*|*captions_per*|*n_views|*num_views|*repeated_aug*|*patches_per*|"
  .. "*crops_per*|*samples_per*|*_per_class*|*classes_per*|*n_passages|*num_passages|*negatives*|"
  .. "*n_neg*|*hard_neg*|*n_way*|*n_shot*|*episodic*|"
  .. "*frames_per*|*slices_per*|*clip_len*|*curriculum*|*sortagrad*|*continual*|*class_incremental*"

--- The setting by which rows of a batch belong together; nil where none says so.
---@param case culprit.Case
---@return culprit.Row?
function put_together.rows(case)
  return settings.several(case.config:where("match(key, ?)", KEYS)):first()
end

--- The same, or that of tasks which are learned one after the other.
---@param case culprit.Case
---@return culprit.Row?
function put_together.rows_or_tasks(case)
  return put_together.rows(case) or restarts.continual(case)
end

--- The setting by which rows are what an agent meets, which changes with what it has learned; nil where none says so.
---@param case culprit.Case
---@return culprit.Row?
function put_together.by_an_agent(case)
  return case.config:where("match(key, '*reward*|*env_id*|*env_name*|*n_envs*|*num_envs*|*rollout*')"):first()
end

return put_together
