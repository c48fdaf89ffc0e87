--- ## What it detects
--- Weights that must have begun far too large, told from the first checkpoint: half of the matrices are larger than all
--- updates of Adam up to there can have made them.
---
--- So does a batch norm whose gains are far above one and the same in every channel: all begin at one number, each has
--- a gradient of its own, and so they are still what they began at, but for decay.
---
--- ## Why it matters
--- A start at ten times the scale is seen in no gradient and, behind norms, in no loss but by how slowly it falls: what
--- an update changes is then a small part of each weight. Statistics of layers or a first loss would show it; where
--- neither is kept the checkpoint still does.
---
--- ## How to confirm
--- Print the standard deviation of each matrix before the first step, beside 1 / sqrt(inputs).
---
--- ## Known false positives
--- Designs that scale weights when they are used (equalised rates, NTK parametrisation, weights of unit variance) hold
--- elements of about 1, so that only what began above 2 counts, and only where half of all matrices did. Some hold
--- larger ones: where a setting names the design, or a multiplier that takes them to 1, nothing is said; nor of a layer
--- that puts out, in a dump of the first step, far less than its weights make of its inputs. Tables, codes
--- and features that are drawn once are left out by name. An update of Adam moves an element by at most
--- rate * (1 - beta1) / sqrt(1 - beta2), and decay takes away; other optimizers have no such bound and are not judged,
--- nor are runs that begin from weights of another one. Gains begin at one, or below; of optimizers whose updates have
--- the size of the rate, all that they may have moved by is taken off, and fewer than eight gains are not looked at.
---
--- ## References
--- Kingma, Ba: Adam (2015), section 2.1, bounds the update

local first_updates = require("first-updates")
local optimizers    = require("optimizers")
local settings      = require("settings")

local DRAWN = "*emb*|*wte*|*wpe*|*pos*|*table*|*code*|*fourier*|*freq*|*rff*|*random*|*expert*|*a_log*|*query*|"
  .. "*latent*|*prototype*|*anchor*|*buffer*|*queue*|*running*"

--- How far one update of Adam may move an element, in rates.
local function bound(case)
  local beta1, beta2 = optimizers.betas(case, "*betas")
  if beta1 >= 1 or beta2 >= 1 then return nil end
  return math.max(1, (1 - beta1) / math.sqrt(1 - beta2))
end

--- The rows of two dimensions and more.
local function matrices(rows)
  local places, at = {}, 0
  for row in rows:slice(0, 10000):rows() do
    if #(row.shape or {}) > 1 then places[#places + 1] = at end
    at = at + 1
  end
  return rows:take(places)
end

--- The batch norm whose gains are the same in every channel and largest, less what updates of the rate's size can have
--- made of it.
---@return table?  row, least: what its gains began above
local function even_gains(case, rows, step)
  local norms = {}
  for row in rows:where("role == 'value' and match(name, '*running_mean')"):slice(0, 5000):rows() do
    norms[row.layer:replace(".running_mean", "")] = true
  end
  local rates = case.scalars:where { name = "lr", primary = true }:where("finite(value) and step <= ?", step)
  local moved = optimizers.plain(case) and 0 or rates:count() > 0 and 4 * step * rates:max("value")
  local found
  for row in rows:where("role == 'weight' and variant is null and numel >= 8 and nonfinite == 0 and "
    .. "match(dtype, 'float*|bfloat16') and match(name, '*weight')"):slice(0, 5000):rows() do
    if moved and norms[row.layer] and #(row.shape or {}) == 1 and row.min > 0 and row.max <= 1.01 * row.min
      and (not found or row.min > found.row.min) then
      found = { row = row, least = row.min - moved }
    end
  end
  return found
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Weights that began too large, by the first checkpoint",
  needs    = { tensors = { "name", "role", "step", "rms", "shape" }, config = { "key", "value" } },
  symptoms = { "initial-weights-off" },
  options  = {
    rms  = { default = 2.0, doc = "Root mean square above which no design begins most of its matrices" },
    gain = { default = 8.0, doc = "Gain above which no design begins a batch norm" },
  },

  run = function(case)
    local opt = case.options
    if settings.loaded(case) then return skip("a run that begins from weights nobody has trained") end
    for run in case.tensors:where("role == 'weight' and step is not null"):group("run") do
      local of   = case.tensors:where { run = run }
      local step = of:where { role = "weight" }:min("step")
      local even = step and even_gains(case, of:where { step = step }, step)
      if even and even.least > opt.gain then
        report {
          symptom  = "initial-weights-off",
          score    = 0.85,
          at       = { run = run, step = step, layer = even.row.layer },
          message  = ("at step %d the gains of all %d channels of %s are %.4g to %.4g: they began at one number, above "
            .. "%.3g, and not at 1"):format(step, even.row.numel, even.row.layer, even.row.min, even.row.max,
            even.least),
          evidence = { even.row },
        }
        return
      end
    end
    local adam = optimizers.adam(case)
    local reach = adam and bound(case)
    if not reach then return skip("an optimizer of the family of Adam in the config, whose updates are bounded") end
    local weights = case.tensors:where("role == 'weight' and step is not null and variant is null and numel >= 64 and "
      .. "match(dtype, 'float*|bfloat16') and not match(layer, ?)", DRAWN)
    local judged, kind = false, first_updates.kinds(case)
    for run in weights:group("run") do
      local of    = weights:where { run = run }
      local step  = of:min("step")
      local rates = case.scalars:where { name = "lr" }:where("finite(value) and step <= ?", step)
      local rows  = matrices(of:where { step = step }:where("nonfinite == 0"))
      if step and rates:count() > 0 and rows:count() >= 4 then
        judged = true
        local moved = reach * step * rates:max("value")
        local large = rows:where("rms > ?", opt.rms + moved)
        local usual = rows:median("rms")
        local plain = 0
        for row in large:slice(0, 10000):rows() do plain = plain + (kind(row.layer) and 0 or 1) end
        local scaled = large:count() > 0 and first_updates.parametrized(case, large:median("rms"))
        if large:count() >= 0.5 * rows:count() and scaled then
          skip(("weights that are used as they are: %s scales them"):format(scaled.key), "initial-weights-off")
        elseif plain >= 0.5 * rows:count() then
          local worst = large:top(1, "rms"):first()
          report {
            symptom  = "initial-weights-off",
            score    = 0.85,
            at       = { run = run, step = step, layer = worst.layer },
            message  = ("at step %d the root mean square of the median of %s is %.3g, and %d updates at a rate of %.3g "
              .. "at most move it by %.3g: it began above %.3g (%s has %.3g)"):format(step,
              units.plural(rows:count(), "matrix", "matrices"), usual, math.floor(step), rates:max("value"), moved,
              usual - moved, worst.name, worst.rms),
            evidence = { worst, rates:top(1, "value"), adam },
          }
        end
      end
    end
    if not judged then skip("four matrices of one checkpoint, and rates up to it") end
  end,
}
