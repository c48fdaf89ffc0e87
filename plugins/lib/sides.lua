--- Batches of pairs, as of preferences and of retrieval: each tensor's name begins with its side, `chosen_labels`
--- beside `rejected_labels`, and what is of one side says nothing of the other.

local sides = {}

local STEMS = { "input_ids", "labels", "targets", "attention_mask", "text_mask", "loss_mask", "completion_mask",
  "position_ids", "tokens" }

--- What a tensor's name has before the word that says what it holds: `chosen_` of `batch.chosen_labels`.
---@param name string
---@return string
local function side(name)
  local parts = name:split(".")
  local leaf  = parts[#parts]
  for _, stem in ipairs(STEMS) do
    if leaf:ends_with(stem) then return leaf:sub(1, #leaf - #stem) end
  end
  return ""
end

--- The first of some tensors that is of the same side as another; where none is, the first that is of no side, or any
--- if the other is of none.
---@param rows culprit.Table  of one batch
---@param name string         of the other tensor
---@return culprit.Row?
function sides.beside(rows, name)
  local own, neutral = side(name), nil
  for row in rows:slice(0, 1000):rows() do
    local its = side(row.name)
    if its == own then return row end
    if own == "" or its == "" then neutral = neutral or row end
  end
  return neutral
end

--- What says that the loss is of pairs of answers, as of DPO and its kin: one number a pair, of two log probabilities,
--- and no cross-entropy over a vocabulary. Nil where nothing does.
---@param case culprit.Case
---@return culprit.Row?
function sides.preference(case)
  return case.scalars:where { name = { "rewards_margin", "rewards_accuracy" } }:first()
end

return sides
