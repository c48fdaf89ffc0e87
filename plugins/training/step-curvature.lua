--- ## What it detects
--- Steps of plain descent that are longer than the curvature of the loss allows, told from loss, gradient norm and rate
--- alone.
---
--- ## Why it matters
--- A loss that is never below 0, of curvature L along its gradient, has a gradient of at most sqrt(2 L f) where it is
--- f: a step of 1 / L lowers it by |g|^2 / 2L, and there is no more to lower than f. So |g|^2 / 2f is a curvature that
--- the loss has there. Descent of rate r with momentum m is thrown out where the curvature is above 2 (1 + m) / r, so
--- that r |g|^2 > 4 (1 + m) f proves a rate that is too high for the place. Both have to be of one function: descent on
--- a sum over B examples that logs their mean has a gradient B times that of the logged loss.
---
--- ## How to confirm
--- Restart from the last checkpoint before the step with a tenth of the rate.
---
--- ## Known false positives
--- The norm has to be that of the gradient of the logged loss, before clipping: rows above a threshold are left out,
--- runs that scale the loss, sum it over examples, accumulate or whose loss goes below 0 are not judged. A loss with a
--- kink at 0, as of absolute differences or of a margin, keeps its gradient down to 0: unless the config names another,
--- or classes and no loss, only rows above half of the first loss count. Where half of the rows and more show it, and
--- the loss comes down to half and stays below where it began, the norm is that of more terms than the log has. One row
--- is an outlier of its batch; three have to show it.
---
--- ## References
--- https://arxiv.org/abs/2103.00065 (training at the edge of stability, 2 / r, and 2 (1 + m) / r with momentum)

local optimizers = require("optimizers")
local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

-- Names of terms of a loss that has a curvature everywhere, and of those that do not.
local SMOOTH = "*mse*|*squared*|l2|l2loss|l2_loss|*cross*entropy*|ce|* ce|*bce*|*xent*|*nll|nllloss|nll_loss|*huber*|"
  .. "*dice*"
local KINK   = "*hinge*|*margin*|*l1*|*mae*|*absolute*|*gauss*"

--- Whether the loss has a curvature everywhere: one that is named such, or a classifier's where none is named.
local function is_smooth(case)
  local named = case.config:where("match(key, ?) and number is null and value is not null", targets.LOSS)
  for row in named:slice(0, 20):rows() do
    for _, term in ipairs(tostring(row.value):lower():split("+")) do
      if not term:trim():glob(SMOOTH) or term:glob(KINK) then return false end
    end
  end
  return named:count() > 0 or targets.classes(case) ~= nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Steps of plain descent are longer than the curvature allows",
  needs    = { scalars = { "step", "value", metric = "grad_norm" }, config = { "key", "value" } },
  symptoms = { "step-beyond-curvature" },
  options  = {
    rows  = { default = 3,    doc = "Rows that have to show it" },
    share = { default = 0.02, doc = "Share of the rows that have to" },
    level = { default = 0.5,  doc = "Part of the first loss above which a loss with a kink counts" },
  },

  run = function(case)
    local opt = case.options
    local name = optimizers.named(case)
    if not name or not optimizers.plain(case) then
      return skip("plain descent, named in a config: other optimizers' steps are not as long as the gradient")
    end
    if settings.accumulation(case):where("number > 1"):count() > 0 then
      return skip("steps of one batch: these accumulate, and the norm may be that of a sum")
    end
    local sum = case.config:where("match(key, 'reduction|*.reduction|*loss_reduction|*loss.reduction') and "
      .. "match(value, 'sum|Sum|SUM')"):first()
      or case.config:where("match(key, '*size_average') and match(value, 'false|False')"):first()
    if sum then
      return skip(("the gradient of the logged loss: %s = %s sums over examples, and a mean may be logged"):format(
        sum.key, sum.value))
    end
    local scales = case.scalars:where { metric = "loss_scale", primary = true }:where("value > 1")
    if scales:count() > 0 then return skip("gradient norms of a loss that is not scaled") end
    local momentum = case.config:where("match(key, 'momentum|*.momentum|sgd_momentum|*.sgd_momentum') and number > 0 "
      .. "and number < 1"):first()
    local m = momentum and momentum.number or 0
    local limit = settings.clipping(case):min("number") or math.huge
    local smooth = is_smooth(case)

    local judged = false
    for run_name, run in case.scalars:where { name = "grad_norm", primary = true }:group("run") do
      local loss = runs.series(case, "loss", run_name)
      -- Norm and loss may be of different batches: the loss is as high as the mean of the last rows, or higher.
      local losses = loss:distinct("step")
      losses = losses:with { loss = "value", mean = losses:col("value"):rolling(8, "mean") }
        :with { loss = "value + max(0, mean - value)" }
      local rows = run:where("finite(value) and value > 0 and value <= ?", limit):distinct("step")
        :with { norm = "value" }:select("step", "norm")
        :join(losses:select("step", "loss"), { "step" })
        :join(runs.series(case, "lr", run_name):where("value > 0"):distinct("step"):with { rate = "value" }
          :select("step", "rate"), { "step" })
        :sort("step")
      if rows:count() >= opt.rows and loss:min("value") >= 0 then
        judged = true
        local least = smooth and 0 or opt.level * loss:slice(0, 3):median("value")
        local beyond = rows:where("loss > 0 and loss >= ?", least)
          :with { part = "rate * norm * norm / loss" }:with { part = ("part / %.17g"):format(4 * (1 + m)) }
          :where("part > 1")
        -- Steps most of which were beyond what the loss bears would not have brought it down and kept it there: then
        -- the gradient is that of something else, which has terms that the logged loss lacks.
        local third  = math.max(1, loss:count() // 3)
        local start  = loss:slice(0, 3):median("value")
        local finish = loss:slice(loss:count() - third, third)
        local falls  = finish:median("value") < opt.level * start and finish:max("value") < start
        if beyond:count() >= 0.5 * rows:count() and falls then
          skip(("a gradient of the logged loss alone: %s of the steps would be too long for it, and it comes down to "
            .. "%.3g from %.3g"):format(units.percent(beyond:count() / rows:count()), finish:median("value"), start))
        elseif beyond:count() >= math.max(opt.rows, opt.share * rows:count()) then
          local first, top = beyond:first(), beyond:top(1, "part"):first()
          report {
            symptom  = "step-beyond-curvature",
            score    = beyond:median("part") >= 2 and 0.95 or 0.85,
            at       = { step = first.step },
            message  = ("at %d of %d logged steps, first at step %d, the rate is too high for the curvature that the "
              .. "gradient proves: at step %d a norm of %.3g at a loss of %.4g is a curvature of %.3g, and a rate of "
              .. "%.3g%s bears %.3g"):format(beyond:count(), rows:count(), first.step, top.step, top.norm, top.loss,
              top.norm ^ 2 / (2 * top.loss), top.rate, m > 0 and (" with a momentum of %g"):format(m) or "",
              2 * (1 + m) / top.rate),
            evidence = { runs.series(case, "grad_norm", run_name):where { step = top.step },
              loss:where { step = top.step }, name },
          }
        end
      end
    end
    if not judged then
      skip("rows with loss, gradient norm below any clipping threshold and learning rate, of a loss that is no less "
        .. "than 0")
    end
  end,
}
