--- Whether the loss of a run is the cross-entropy of classes, of which knowing nothing costs the logarithm of their
--- number: what the outputs of a dumped batch cost themselves, and what settings and columns beside it say else.

local elements = require("elements")
local targets  = require("targets")

local costs = {}

local PLACES, VALUES = 256, 2000000

--- Where the numbers of the classes lie in an output beside labels: their count, and whether they are the second axis,
--- as of pictures, and not the last. An output may be dumped of the first rows alone. Nil where it fits none.
local function classes_of(out, labels)
  local own, truth = out.shape or {}, labels.shape or {}
  if #own == 2 and own[1] == labels.numel then return own[2], false end
  if #own < 2 or #own ~= #truth + 1 or own[1] > truth[1] then return nil end
  local last, second = true, true
  for i = 2, #truth do
    last   = last and own[i] == truth[i]
    second = second and own[i + 1] == truth[i]
  end
  if last then return own[#own], false end
  return second and own[2] or nil, true
end

--- What the classes of one output cost at labels `ahead` places on: mean and its standard error; nil of few labels.
local function cost(out, labels, width, second, ahead)
  local row    = #(labels.shape or {}) >= 2 and labels.numel // math.max(1, labels.shape[1]) or 1
  local places = out.numel // width
  local inner  = second and out.numel // math.max(1, out.shape[1]) // width or 1
  local step   = math.max(1, places // math.max(8, math.min(PLACES, VALUES // width)))
  local truth  = elements.of(labels, 0, math.min(labels.numel, places + ahead))
  local whole  = second and out.numel <= VALUES and elements.of(out, 0, out.numel)
  if second and not whole then return nil end
  local n, sum, square = 0, 0, 0
  for place = 0, places - 1, step do
    local id = (ahead == 0 or place % row < row - ahead) and truth[place + ahead + 1]
    if id and id >= 0 and id < width then
      local z, from, stride = whole, place // inner * inner * width + place % inner, inner
      if not whole then z, from, stride = elements.of(out, place * width, width), 0, 1 end
      local top, total = -math.huge, 0
      for k = 0, width - 1 do top = math.max(top, z[from + k * stride + 1]) end
      for k = 0, width - 1 do total = total + math.exp(z[from + k * stride + 1] - top) end
      local one = math.log(total) + top - z[from + math.floor(id) * stride + 1]
      n, sum, square = n + 1, sum + one, square + one * one
    end
  end
  if n < 4 then return nil end
  return sum / n, math.sqrt(math.max(0, square / n - (sum / n) ^ 2) / n)
end

---@class costs.Found
---@field mean number
---@field same boolean        whether the loss is theirs
---@field output culprit.Row
---@field labels culprit.Row? of the same
---@field ahead integer?      places from an output to its label
---@field width integer?      classes, on the last axis

--- What the outputs that are dumped at the step of a logged loss cost against the labels of that step, and whether that
--- is the loss: within a tenth and four standard errors, for the labels as they are or those of the next place. Nil
--- where no outputs are dumped beside labels.
---@param case culprit.Case
---@param loss culprit.Row
---@return costs.Found?
function costs.of(case, loss)
  local here   = case.tensors:where("step == ? and nonfinite == 0 and numel >= 4", loss.step)
  local ids    = here:where("match(name, 'batch.*|*.batch.*') and match(dtype, 'int*')")
  local labels = ids:where("match(name, '*label|*labels|*target|*targets|*.y')")
  if labels:count() == 0 then labels = ids:where("match(name, '*input_ids|*tokens')") end
  local found
  for out in here:where("role == 'output' and match(dtype, 'float*|bfloat*') and match(layer, ?)", targets.HEADS)
    :slice(0, 4):rows() do
    for truth in labels:slice(0, 4):rows() do
      local width, second = classes_of(out, truth)
      if width and width >= 2 and (truth.max < width or truth.min < 0 or truth.max == 255) then
        for ahead = 0, #(truth.shape or {}) == 2 and not second and 1 or 0 do
          local mean, error_ = cost(out, truth, width, second, ahead)
          if mean then
            local off = math.abs(mean - loss.value)
            if off <= 0.1 * math.max(mean, loss.value) + 4 * error_ then
              return { mean = mean, same = true, output = out, labels = truth, ahead = ahead,
                width = not second and width or nil }
            end
            if not found or off < math.abs(found.mean - loss.value) then
              found = { mean = mean, same = false, output = out }
            end
          end
        end
      end
    end
  end
  return found
end

--- Whether logits know their labels: whether the one of each place's own label is above what the labels of the other
--- places have there. The row of a fresh head that gives the logit of a class is drawn apart from those of the others,
--- so that each class is a draw of its own, above or below by chance; weights that were trained have most of them
--- above.
---@param found costs.Found?
---@return boolean
function costs.knows(found)
  if not found or not found.same or not found.width then return false end
  local out, labels, width = found.output, found.labels, found.width
  local row    = #(labels.shape or {}) >= 2 and labels.numel // math.max(1, labels.shape[1]) or 1
  local places = math.min(PLACES, out.numel // width, VALUES // width)
  local truth  = elements.of(labels, 0, math.min(labels.numel, places + found.ahead))
  local judged, shares = {}, {}
  for place = 0, places - 1 do
    local id = (found.ahead == 0 or place % row < row - found.ahead) and truth[place + found.ahead + 1]
    if id and id >= 0 and id < width then
      judged[#judged + 1] = { place = place, id = math.floor(id) }
      shares[math.floor(id)] = (shares[math.floor(id)] or 0) + 1
    end
  end
  local classes = {} -- sum and number of places of each
  for _, one in ipairs(judged) do
    local z, others = elements.of(out, one.place * width, width), 0
    for id, count in pairs(shares) do others = others + count / #judged * z[id + 1] end
    local sums = classes[one.id] or { 0, 0 }
    classes[one.id] = { sums[1] + z[one.id + 1] - others, sums[2] + 1 }
  end
  local n, sum, square = 0, 0, 0
  for _, sums in pairs(classes) do
    local mean = sums[1] / sums[2]
    n, sum, square = n + 1, sum + mean, square + mean ^ 2
  end
  if n < 8 then return false end
  local error_ = math.sqrt(math.max(0, square / n - (sum / n) ^ 2) / (n - 1))
  return sum / n > 2.6 * error_ -- by chance once in two hundred
end

local SOFTMAX = "*cross*ent*|*xent*|*nll*|*softmax*|*categorical*|ce|celoss|*causallm*|*causal_lm*|*maskedlm*|"
  .. "*masked_lm*|*lm_loss*|*sequenceclassification*|*tokenclassification*|*conditionalgeneration*|multiclass|multi:*"
local ALTERED = "*binary*|*sigmoid*|*focal*|*margin*|*adjust*|*sampled*|*contrast*|*nce*|*evidential*|*gauss*|*poisson*"
local UNSAID  = "none|null|default|auto|mean|sum|true|false"

--- What says that the loss is another one, of which the logarithm of a number of classes is no level: a name that is
--- none of a cross-entropy's, or columns of rewards and pairs beside it. Nil where nothing does.
---@param case culprit.Case
---@return string?
function costs.other(case)
  if not targets.terms(case) then
    local names = case.config:where("match(key, ?) and number is null and value is not null",
      targets.LOSS .. "|objective|*.objective")
    for row in names:slice(0, 20):rows() do
      local name = tostring(row.value):lower()
      local said = name ~= "" and not name:glob(UNSAID) and not name:glob("*/*")
      if said and (not name:glob(SOFTMAX) or name:glob(ALTERED)) then return ("%s is %s"):format(row.key, row.value) end
    end
  end
  local column = case.scalars:where("layer is null and match(name, '*reward*|*advantage*|*policy_loss*|*surrogate*|"
    .. "logps|logps/*|*/logps/*')"):first()
  return column and column.name .. " is logged beside it" or nil
end

--- Whether any output of a head has an axis for so many classes, or none is dumped.
---@param heads culprit.Table
---@param count number
---@return boolean
function costs.fits(heads, count)
  for row in heads:slice(0, 8):rows() do
    local own = row.shape or {}
    if #own < 2 and row.numel == count then return true end
    for i = 2, #own do
      if targets.covers(own[i], count) then return true end
    end
  end
  return heads:count() == 0
end

return costs
