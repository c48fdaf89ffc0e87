--- ## What it detects
--- Throughput that falls during the run and stays low, or a step time that rises.
---
--- ## Why it matters
--- If throughput moves and the loss does not, the model is not the problem: look at the node, the loader and the
--- clocks.
---
--- ## How to confirm
--- Restart on another node with the same data: the old rate back means the node.
---
--- ## Known false positives
--- Evaluation inside the timed step. Where a logged length, resolution, batch or number of trained weights grows, or
--- the config has a curriculum or layers that are released by and by, slower steps do more, and nothing is said; nor
--- where it names that very step as the one at which a part of the training begins.
---
--- ## References
--- Minder and Greyhound find fail-slow machines by change points of exactly this series.

local settings = require("settings")

-- What makes a step do more than those before it.
local MORE = "*batch_size*|*num_tokens*|*tokens_per*|*trainable*|*unfro*|*active_params*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Throughput falls and stays low",
  needs    = { scalars = { "step", "value", metric = { "throughput", "step_time" } } },
  symptoms = { "throughput-drop" },
  options  = {
    drop = { default = 0.15, doc = "Loss of speed worth reporting" },
  },

  run = function(case)
    local judged = false
    local released = settings.harder(case)
      or settings.on(case.config:where("match(key, '*unfreez*|*gradual_unfreeze*|*progressive_*')")):first()
    for _, metric in ipairs { "throughput", "step_time" } do
      for run_name, run in case.scalars:where { name = metric, primary = true }:group("run") do
        local series = run:sort("step"):where("finite(value) and value > 0")
        if series:count() >= 24 then
          judged = true
          local tenth = series:count() // 10
          local now   = series:slice(series:count() - tenth, tenth):median("value")
          for change in series:col("value"):change_points():rows() do
            local speed = metric == "throughput" and change.after / change.before or change.before / change.after
            local still = metric == "throughput" and now / change.before or change.before / now
            local lasts = series:count() - change.at >= series:count() / 10 and still <= 1 - case.options.drop
            if speed <= 1 - case.options.drop and lasts then
              local at = series:row(change.at)
              local last = series:row(math.max(0, change.at - 2))
              local grown = settings.grown(case, run_name, last.step, at.step)
              local begun = settings.begins(case, last.step, at.step)
              local more = grown and grown.name or released and released.key or begun and begun.key
              for _, own in case.scalars:where { run = run_name }:where("match(name, ?) and not match(name, "
                .. "'*per_sec*|*/s|*_per_s')", MORE):group("name") do
                local was = own:where("step <= ?", last.step):sort("step"):last()
                local is  = own:where("step <= ?", at.step):sort("step"):last()
                if was and is and is.value > 1.1 * was.value then more = more or is.name end
              end
              if more then
                return skip(("steps that do the same throughout: %s says that later ones do more"):format(more))
              end
              report {
                symptom  = "throughput-drop",
                score    = math.min(0.95, 0.5 + (1 - speed)),
                at       = { step = at.step },
                message  = ("%s goes from %.4g to %.4g at step %d and stays there: %s slower")
                  :format(metric, change.before, change.after,
                  at.step, units.percent(1 - speed)),
                evidence = { at, series:around(at, 3) },
              }
              return
            end
          end
        end
      end
    end
    if not judged then skip("at least 24 logged values of throughput or step time") end
  end,
}
