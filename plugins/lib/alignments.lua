--- The loss of CTC of dumped logits, which adds up over all alignments of a row's labels with its frames: where a
--- logged loss is that to half a per cent, it is known what it was taken of.

local statistics = require("statistics")

local alignments = {}

--- ln(e^a + e^b)
local function log_add(a, b)
  if a < b then a, b = b, a end
  return b == -math.huge and a or a + math.log(1 + math.exp(b - a))
end

--- The CTC loss of one row: -ln of the probability of all alignments of some labels with its frames.
---@param scores number[][]  ln of the probabilities of each frame
---@param frames integer
---@param labels integer[]
---@param blank integer
---@return number?  nil where the labels do not fit into the frames
local function of_row(scores, frames, labels, blank)
  local states = { blank }
  for _, label in ipairs(labels) do
    states[#states + 1] = label
    states[#states + 1] = blank
  end
  local now = {}
  for s = 1, #states do now[s] = s <= 2 and scores[1][states[s] + 1] or -math.huge end
  for t = 2, frames do
    local after = {}
    for s = 1, #states do
      local sum = now[s]
      if s > 1 then sum = log_add(sum, now[s - 1]) end
      if s > 2 and states[s] ~= blank and states[s] ~= states[s - 2] then sum = log_add(sum, now[s - 2]) end
      after[s] = sum + scores[t][states[s] + 1]
    end
    now = after
  end
  local loss = -log_add(now[#states], #states > 1 and now[#states - 1] or -math.huge)
  return loss < math.huge and loss or nil
end

--- How many frames the rows of a batch have behind the layers that make them fewer: each way that gives the longest row
--- as many as the logits have.
local function frame_counts(lengths, frames)
  local ways = {}
  if not lengths then return ways end
  local longest = 0
  for _, n in ipairs(lengths) do longest = math.max(longest, n) end
  for factor = 1, 16 do
    for up = 0, factor > 1 and 1 or 0 do
      if (longest + up * (factor - 1)) // factor == frames then
        local way = {}
        for i, n in ipairs(lengths) do way[i] = math.max(1, math.floor((n + up * (factor - 1)) // factor)) end
        ways[#ways + 1] = way
      end
    end
  end
  return ways
end

--- What the loss of a dump with logits, labels and lengths is of: "once" where it is the CTC loss of the logits,
--- "twice" where it is that behind a second softmax, with its value and that of the logits. Every usual way to take the
--- mean is tried, so the value has to be that of one of them to half a per cent.
---@param here culprit.Table  the tensors of the step, of which some may be lengths
---@param logits culprit.Row  [rows, frames, classes] or [frames, rows, classes]
---@param labels culprit.Row  [rows, places], negative where there is none
---@param value number  the loss, in nats
---@param blanks integer[]  classes that may be the blank
---@return string? kind "neither" where it is none of them, nil where that cannot be told
---@return number? value, number? once
function alignments.loss_of(here, logits, labels, value, blanks)
  local shape, rows = logits.shape, labels.shape[1]
  if #shape ~= 3 or #labels.shape ~= 2 or logits.numel > 400000 or rows > 64 then return nil end
  local by_time = shape[1] ~= rows and shape[2] == rows
  if not by_time and shape[1] ~= rows then return nil end
  local frames, classes = shape[by_time and 1 or 2], shape[3]
  local function lengths_of(names, most)
    local row = here:where("match(name, ?) and match(dtype, 'int*')", names)
      :where("numel == ? and max <= ?", rows, most):first()
    return row and row:values(0, rows)
  end
  local target = lengths_of("*transcript_len*|*target_len*|*label_len*|*labels_len*|*text_len*|*y_len*|*token_len*",
    labels.shape[2])
  local input = lengths_of("*sig_len*|*input_len*|*audio_len*|*feat*_len*|*frame_len*|*src_len*|*x_len*|*wav_len*|"
    .. "*signal_len*|*logit_len*|*output_len*", math.huge)
  local width, wanted = labels.shape[2], {}
  for i = 1, rows do
    local list = {}
    for t, v in ipairs(labels:values((i - 1) * width, width)) do
      if v >= 0 and (not target or t <= target[i]) then list[#list + 1] = math.floor(v) end
    end
    if #list == 0 then return nil end
    wanted[i] = list
  end
  local ways = frame_counts(input, frames)
  if #ways == 0 and not input then ways[1] = {} end -- every row has all of them
  if #ways == 0 then return nil end
  local totals
  for _, form in ipairs({ false, true }) do
    local scores = {}
    for i = 1, rows do
      scores[i] = {}
      for t = 1, frames do
        local at = by_time and (t - 1) * rows + i - 1 or (i - 1) * frames + t - 1
        scores[i][t] = statistics.log_softmax(logits:values(at * classes, classes), form)
      end
    end
    for _, blank in ipairs(blanks) do
      for _, way in ipairs(ways) do
        local each, all, labels_ = 0, 0, 0
        for i = 1, rows do
          local loss = of_row(scores[i], math.min(way[i] or frames, frames), wanted[i], blank) or 0
          each, all, labels_ = each + loss / #wanted[i] / rows, all + loss, labels_ + #wanted[i]
        end
        for kind, total in ipairs({ each, all, all / rows, all / labels_ }) do
          local key = ("%d %d"):format(kind, blank)
          if math.abs(total - value) <= 0.005 * math.abs(value) then
            if not form then return "once", total, total end
            return "twice", total, totals[key]
          end
          totals = totals or {}
          totals[key] = totals[key] or total
        end
      end
    end
  end
  return "neither"
end

return alignments
