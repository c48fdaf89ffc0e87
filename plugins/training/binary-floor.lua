--- ## What it detects
--- A binary cross-entropy that stays near the ln 2 of knowing nothing while what is predicted gets right: its outputs
--- go through a sigmoid before the loss that has one.
---
--- ## Why it matters
--- Behind two sigmoids a probability lies between .5 and .731, however sure the model is: what is not there costs ln 2
--- at least, and what is there .313. Masks that are cut at a half look right all the same, and learn slowly.
---
--- ## How to confirm
--- Print the least and the largest of what the loss is given: logits have both signs, and probabilities lie between 0
--- and 1. `BCEWithLogitsLoss` and Dice terms with `sigmoid=True` take logits.
---
--- ## Known false positives
--- Labels that are smoothed or mixed, weights of the positive class and focal losses have other floors; where a setting
--- names one nothing is said. A term that is multiplied does not begin at ln 2 and is not judged. Scores of a threshold
--- that is tuned say little of the loss, so that a high one is asked for.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html. With a dice of d some 2 (1 - d) of
--- the marked places are wrong; of .3 of a picture marked and a dice of .7 no model needs more than .48.

local settings = require("settings")

local TERM = "*bce*|*BCE*|ce_loss|*/ce_loss|*.ce_loss|loss_ce|*/loss_ce|*binary_cross*"
-- Terms that are held out, of another network, or at ln 2 by design, as where domains are not to be told apart.
local OTHERS = "*val*|*eval*|*test*|*Val*|*domain*|*adv*|d_*|*disc*|*gan*|*kd*|*distil*"
-- What a score has to be, so that most of what is predicted is right.
local SCORES = { { "*dice*|*Dice*", 0.7 }, { "*iou*|*IoU*|*jaccard*", 0.55 } }

--- The score of a run that is furthest above what is asked for, at its end; nil where none is.
local function score_of(case, run)
  local best
  for _, asked in ipairs(SCORES) do
    local glob, least = asked[1], asked[2]
    local rows = case.scalars:where { run = run }:where("layer is null and finite(value) and match(name, ?) and "
      .. "not match(name, '*loss*|*Loss*|*thr*|*weight*|*coef*')", glob)
    for _, values in rows:group("name") do
      local last = values:sort("step"):last()
      local rose = values:max("value") - values:min("value") >= 0.02 -- a setting is a number as well
      if rose and values:max("value") <= 1 and last.value >= least
        and (not best or last.value / least > best.above) then
        best = { row = last, above = last.value / least }
      end
    end
  end
  return best and best.row
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A binary cross-entropy stays near ln 2 while its predictions are right",
  needs    = { scalars = { "step", "name", "value" } },
  symptoms = { "loss-of-softmaxed-logits" },
  options  = {
    rows  = { default = 4,   doc = "Logged values of the term below which it is not judged" },
    least = { default = 0.5, doc = "Level that it never falls below behind two sigmoids, with half of all marked" },
    most  = { default = 0.75, doc = "Level above which it is worse than knowing nothing" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local other = settings.on(case.config:where("match(key, '*label_smoothing*|*mixup*|*cutmix*|*pos_weight*|"
      .. "*positive_weight*|*focal*')")):where("number is null or number != 1"):first()
    if other then return skip(("a plain binary cross-entropy: the config has %s"):format(other.key)) end
    local terms = case.scalars:where("primary and layer is null and finite(value) and match(name, ?) and "
      .. "not match(name, ?)", TERM, OTHERS)
    for run, name, rows in terms:group("run", "name") do
      local count = rows:count()
      local score = count >= opt.rows and score_of(case, run)
      if score then
        judged = true
        rows = rows:sort("step")
        local first = rows:slice(0, 2):median("value")
        local level = rows:slice(count - math.max(2, count // 3), count):median("value")
        if first >= 0.6 and first <= 0.8 and level >= 1.1 * opt.least and level <= opt.most
          and rows:min("value") >= opt.least then
          report {
            symptom  = "loss-of-softmaxed-logits",
            score    = 0.9,
            at       = { run = run, step = rows:first().step },
            message  = ("%s goes from %.3g to %.3g, near the ln 2 of knowing nothing, while %s is %.3g: behind a "
              .. "second sigmoid it is never below .693 where nothing is there and .313 where something is"):format(
              name, first, level, score.name, score.value),
            evidence = { rows:first(), rows:last(), score },
          }
        end
      end
    end
    if not judged then skip("a binary cross-entropy by itself, and a dice or an overlap that has risen") end
  end,
}
