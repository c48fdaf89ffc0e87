--- ## What it detects
--- Parameters that the optimizer of a checkpoint holds and has no state for: none of its steps met a gradient of
--- theirs.
---
--- ## Why it matters
--- PyTorch's optimizers make the state of a parameter when they first step it, which they do where it has a gradient.
--- What a detached graph cuts off, or a model that was copied or replaced no longer uses, is held and has none. Where
--- each parameter that is held has a state, each has had a gradient: what stands still then is either not held, as what
--- was frozen before the optimizer was made, or is put back behind it. So this chooses between causes that look alike.
---
--- ## How to confirm
--- Compare `len(opt.state)` with the number of `opt.param_groups[...]["params"]`, and look up the names of the rest.
---
--- ## Known false positives
--- Frozen parameters that were handed to the optimizer all the same, experts that no token reached, and modules for
--- what this data lacks: they are held without a state as well, and are no fault by themselves, so that this is told as
--- a fact. Of a twelfth of all and more it is a sign of a fault, but where settings freeze something or have experts;
--- heads for other losses, which nobody calls, may be as much. SGD without momentum has no state at all; where none is
--- on record, betas or a momentum have to say that there should be one. Flat and sharded states, what lies in several
--- files, and LBFGS, which has one state for all, are not judged.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.state_dict.html

local held = require("held")
local lists = require("lists")
local places = require("places")
local settings = require("settings")

-- What keeps a part of a model from learning, or asks parts of it alone at each step.
local BY_DESIGN = "*freez*|*frozen*|*trainable*|*requires_grad*|*expert*|*moe*|*lora*|*adapter*|*peft*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The optimizer holds parameters that never had a gradient",
  needs    = { tensors = { "name", "role", "step" }, config = { "key", "number", "source" } },
  symptoms = { "held-without-state", "much-held-without-state" },
  options  = {
    much  = { default = 0.08, doc = "Share of what is held from which that is a large part of a model" },
    least = { default = 4, doc = "Parameters from which it is one" },
    steps = { default = 2, doc = "Step of the checkpoint below which parameters may not have had their turn" },
  },

  run = function(case)
    local found = held.found(case, case.options.steps)
    if not found then
      return skip("a checkpoint with an optimizer that keeps a state of each parameter it steps, and its groups")
    end
    if found.states == found.held then return end
    -- A state is made at the first gradient: without one there was none from the first step on.
    local start = places.start(case, found.step, false, found.run)
    local layers, upstream, behind = held.unstepped(case, found)
    local last = layers and layers[#layers]
    local named = layers and (upstream and #layers > 1 and (": all %d layers up to %s"):format(#layers, last)
      or ": " .. lists.first(layers, 6)) or ""
    report {
      symptom  = "held-without-state",
      severity = "info",
      -- Outputs that no loss asks for lie behind all that learns, and nothing is cut off from a loss there.
      score    = behind and 0.3 or 0.95,
      at       = { run = found.run, step = start, layer = last, layers = layers },
      message  = ("the optimizer holds %d parameters and has a state for %d of them at step %d: %d never had a "
        .. "gradient at any of its steps%s"):format(found.held, found.states, found.step, found.held - found.states,
        named),
      evidence = { found.rows:slice(0, 3) },
    }
    local without = found.held - found.states
    local by_design = settings.on(case.config:where("match(key, ?)", BY_DESIGN)):first()
    if by_design then
      return skip(("parameters that are all to learn: the config has %s"):format(by_design.key),
        "much-held-without-state")
    end
    if without < case.options.least or without < case.options.much * found.held then return end
    report {
      symptom  = "much-held-without-state",
      score    = without >= 0.2 * found.held and 0.8 or 0.6,
      at       = { run = found.run, step = start, layer = last, layers = layers },
      message  = ("%s of the parameters that the optimizer holds never had a gradient, up to step %d: they are cut off "
        .. "from the loss, or are not those of the model that runs"):format(units.percent(without / found.held),
        found.step),
      evidence = { found.rows:slice(0, 3) },
    }
  end,
}
