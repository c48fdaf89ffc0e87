--- ## What it detects
--- Places where torch.compile cannot go on and breaks the code into several graphs, by its logs: where, why, how often.
---
--- ## Why it matters
--- Each break ends a graph: values go back to Python, nothing is fused across it, CUDA graphs end there, and the rest
--- of the function is compiled, guarded and recompiled on its own. One break in a block that runs 80 times a step
--- counts 80 times; one before a log line counts nothing.
---
--- ## How to confirm
--- `torch.compile(fullgraph=True)` fails at the first break and names it. Time the step with the cause taken out.
---
--- ## Known false positives
--- Breaks in code that runs once: they are told, as information, and accuse nobody.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/compile/programming_model.graph_breaks_index.html

--- What to do about the commonest reasons.
local function cure(reason)
  local lower = (reason or ""):lower()
  if lower:contains("item()") or lower:contains("scalar_outputs") then
    return "keep the value a tensor (torch.where), or capture_scalar_outputs = True"
  elseif lower:contains("print") or lower:contains("logging") then
    return "print outside the compiled code, or reorderable_logging_functions"
  elseif lower:contains("data-dependent") or lower:contains("data dependent") or lower:contains("generic_jump") then
    return "torch.where or torch.cond in place of `if` on a tensor"
  elseif lower:contains("nonzero") or lower:contains("dynamic shape operator") or lower:contains("masked") then
    return "masks in place of selections, or capture_dynamic_output_shape_ops = True"
  elseif lower:contains("disable") then
    return "the decorator moved out of the compiled region"
  elseif lower:contains("custom op") or lower:contains("skipfiles") or lower:contains("marked as skipped")
    or lower:contains("builtin") or lower:contains("c++") or lower:contains("c function") then
    return "the call moved out, or wrapped as torch.library.custom_op"
  elseif lower:contains("hook") then
    return "hooks set before compiling, or removed"
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Compiled code is broken into several graphs",
  needs    = { compilations = { kind = { "graph-break", "compile", "recompile" } } },
  symptoms = { "graph-breaks", "graph-breaks-many" },
  options  = {
    many  = { default = 8, doc = "Places with a break that are many" },
    shown = { default = 4, doc = "Places named in the message" },
  },

  run = function(case)
    local opt    = case.options
    local breaks = case.compilations:where { kind = "graph-break" }
    if breaks:count() == 0 then
      -- Recompiles may be logged without the breaks.
      skip("a log with TORCH_LOGS=graph_breaks")
      return
    end
    local places = breaks:where("site is not null"):aggregate({ "site" }, { n = "count", reason = "first reason",
      fn = "first function", first = "first place", source = "first source" })
    local named = {}
    for row in places:top(opt.shown, "n"):rows() do
      local path = row.site:split("/")
      local help = cure(row.reason)
      named[#named + 1] = ("%s%s (%s%s%s)"):format(path[#path], row.fn and " in " .. row.fn or "",
        (row.reason or "no reason given"):sub(1, 120), row.n > 1 and (", %d times"):format(row.n) or "",
        help and "; what helps: " .. help or "")
    end
    local n     = places:count()
    local first = breaks:first()
    report {
      symptom  = "graph-breaks",
      score    = 0.5,
      severity = "info",
      at       = { source = first.source, line = first.place, rank = first.rank, name = first.site },
      message  = ("compiled code is broken in %s: %s%s"):format(units.plural(n, "place"), table.concat(named, "; "),
        n > #named and ("; and %d more"):format(n - #named) or ""),
      evidence = { breaks:distinct("site"):slice(0, 10) },
    }
    if n >= opt.many then
      report {
        symptom  = "graph-breaks-many",
        score    = 0.7,
        severity = "warning",
        at       = { source = first.source, line = first.place, rank = first.rank },
        message  = ("compiled code is broken in %d places: as many graphs are guarded, launched and recompiled apart")
          :format(n),
        evidence = { places:renamed("places with a graph break"):top(10, "n") },
      }
    end
  end,
}
