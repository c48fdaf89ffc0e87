--- ## What it detects
--- Batch norms whose offset lies so far below zero, by a checkpoint, that hardly anything they put out is above zero: a
--- rectifier behind them lets nothing through.
---
--- What a batch norm puts out in training has the offset for its mean and the gain for its spread, whatever comes in.
--- By Cantelli's inequality at most gain^2 / (gain^2 + offset^2) of a channel lies above zero where the offset is below
--- it.
---
--- ## Why it matters
--- Units that are zero for every input have no gradient, and neither has what feeds them. Statistics of activations
--- would show them; where none are kept the checkpoint still does.
---
--- ## How to confirm
--- Feed a batch and count the outputs of the activation behind the norm that are not zero.
---
--- ## Known false positives
--- Gates that begin shut have such an offset on purpose, and what bears such a name is left out. Gains that have gone
--- to zero, as decay takes those of channels that nobody uses, say nothing, so that all have to be near what they began
--- at. A norm without an activation behind it only moves what comes next; it takes two norms all of whose channels are
--- so. One whose channels no matrix of the checkpoint takes in is the last of its branch: no unit is behind it, and a
--- low offset there is the prior of a rare class. Runs whose config asks for spikes, or for binary or sparse units, are
--- left out.
---
--- ## References
--- https://arxiv.org/abs/1903.06733

local MASKS = require("masks").NAMES
local checkpoints = require("checkpoints")
local settings    = require("settings")

--- Whether a matrix of the checkpoint takes in what a norm puts out, or there is none at all: as many inputs as the
--- norm has channels, or a multiple where they are flattened; of what stands behind the norm also a kernel for each
--- group of channels. A transposed convolution has its inputs first.
local function feeds(rows, norm)
  local n, place, matrices = norm.gain.numel, norm.gain.order or 0, 0
  local weights = rows:where("role == 'weight' and variant is null")
  for piece = 0, weights:count() - 1, 10000 do -- so many rows are given at a time
    for row in weights:slice(piece, 10000):rows() do
      local shape = row.shape or {}
      if #shape > 1 then
        matrices = matrices + 1
        local turned = row.name:lower():glob("*up*|*deconv*|*transpose*|*decod*|*kernel*")
        local groups = #shape > 2 and (row.order or 0) > place and n % shape[2] == 0 and n // shape[2]
        if shape[2] == n or #shape == 2 and shape[2] % n == 0 or turned and shape[1] == n
          or groups and groups > 1 and shape[1] % groups == 0 then
          return true
        end
      end
    end
  end
  return matrices == 0
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Batch norms that put out next to nothing above zero, by a checkpoint",
  needs    = { tensors = { "name", "role", "layer", "step", "min", "max" } },
  symptoms = { "dead-units" },
  options  = {
    above = { default = 0.15, doc = "Share of a channel above zero, at most, that is next to nothing" },
    gain  = { default = 0.3,  doc = "Gain below which a channel is one that nobody uses" },
    norms = { default = 2,    doc = "Norms that have to be so" },
  },

  run = function(case)
    local opt = case.options
    if settings.on(case.config:where("match(key, '*spiking*|*snn*|*binar*|*sparsity*')")):count() > 0 then
      return skip("a model whose units are not meant to be off: a setting speaks of spikes or sparse units")
    end
    local weights, judged = case.tensors:where("role == 'weight' and step is not null and variant is null"), false
    for run in weights:group("run") do
      local own  = weights:where { run = run }
      local last = own:max("step")
      local rows = case.tensors:where { run = run, step = last }
      local shut, first, all = {}, nil, 0
      for _, norm in ipairs(checkpoints.norms(rows)) do
        all = all + 1
        local offset, gain = norm.offset, norm.gain
        local bound = gain.max ^ 2 / (gain.max ^ 2 + offset.max ^ 2)
        if offset.max < 0 and gain.min >= opt.gain and bound <= opt.above
          and not norm.layer:lower():glob(MASKS .. "|*gate*|*alpha*|*quant*|*obj*|*cls*|*score*|*attn*|*se.*|*head*")
          and feeds(rows, norm) then
          shut[#shut + 1] = norm.layer
          if not first or (norm.gain.order or 0) < (first.norm.gain.order or 0) then
            first = { norm = norm, bound = bound }
          end
        end
      end
      judged = judged or all > 0
      if first and #shut >= opt.norms then
        report {
          symptom  = "dead-units",
          score    = 0.85,
          at       = { run = run, step = last, layer = first.norm.layer },
          message  = ("%s has an offset of %.3g at most and gains of %.3g at most in the checkpoint of step %d: no "
            .. "more than %s of what any of its channels puts out is above zero, and so in %d of %d batch norms")
            :format(first.norm.layer, first.norm.offset.max, first.norm.gain.max, last, units.percent(first.bound),
            #shut, all),
          evidence = { first.norm.gain, first.norm.offset },
        }
        return
      end
    end
    if not judged then skip("batch norms with gains and offsets in a checkpoint") end
  end,
}
