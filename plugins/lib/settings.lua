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

--- The thresholds that gradients are clipped at.
---@param case culprit.Case
---@return culprit.Table
function settings.clipping(case)
  return case.config:where("match(key, '*max_grad_norm|*grad_clip|*clip_grad|*clip_grad_norm|*gradient_clipping|"
    .. "*gradient_clip_val|*clip_norm') and number > 0")
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
