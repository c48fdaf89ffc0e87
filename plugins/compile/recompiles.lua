--- ## What it detects
--- Functions that torch.compile compiles again and again, by the logs of `TORCH_LOGS=recompiles`: how often, which
--- guard fails most, and what it is that changes: the size of an argument, a number, a global, the mode of gradients.
---
--- ## Why it matters
--- Each version costs seconds to minutes while the device waits, and after eight versions (`recompile_limit`) the
--- function runs as if it were not compiled, for the rest of the process.
---
--- ## How to confirm
--- Run 50 steps on one repeated batch: compilation must stop. If it goes on, the function itself is made anew.
---
--- ## Known false positives
--- A warm-up over every shape that will come. Recompiles that end in the first quarter of the log are taken for one,
--- unless the limit was reached.
---
--- ## References
--- https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
--- https://github.com/pytorch/pytorch/issues/99091

--- The text between quotes behind `word`: of "tensor 'x' size mismatch" x, of "tensor 'L['x']' size" L['x'].
local function nameIn(guard)
  local from = guard:index("tensor '")
  if not from then return "a tensor" end
  local rest = guard:sub(from + 8)
  local to = rest:index("' ") -- a name may hold quotes: L['x']
  return to and rest:sub(1, to - 1) or rest
end

--- The words behind "at index" of a guard of a tensor.
local function dimension(guard)
  local from = guard:index("at index ")
  return from and guard:sub(from + 9):split(".")[1]
end

--- What changed, by the guard that failed, and what to do about it.
local function meaning(guard)
  local code = guard:split(" # ")[1]:trim()
  if code:starts_with("tensor '") then
    local name = nameIn(code)
    if code:contains("size mismatch") then
      local dim = dimension(code) or "?"
      return ("the size of %s at dimension %s"):format(name, dim),
        ("mark_dynamic(%s, %s), dynamic=True, or lengths padded to a few sizes"):format(name, dim)
    elseif code:contains("rank mismatch") then
      return ("the number of dimensions of " .. name), "inputs of one form for each compiled function"
    elseif code:contains("stride mismatch") then
      return ("the strides of " .. name), "contiguous() before the call"
    elseif code:contains("dtype mismatch") then
      return ("the dtype of " .. name), "one dtype for all calls"
    elseif code:contains("requires_grad mismatch") then
      return ("requires_grad of " .. name), "one compiled function for training and one for evaluation"
    elseif code:contains("dispatch key") then
      return ("the kind of tensor or the mode (autocast, inference) of " .. name), "the same mode around every call"
    end
    return ("the metadata of " .. name), "inputs of one form"
  end
  if code:contains("GLOBAL_STATE") or code:contains("check_global_state") or code:contains("grad_mode") then
    return "a global mode: gradients, autocast, deterministic algorithms or the number of threads",
      "the same mode around every call"
  end
  if code:contains(".training") then return "train() or eval()", "one compiled function for each mode" end
  if code:contains("_dynamic_indices") then
    return "whether a dimension is marked dynamic", "mark_dynamic before every call"
  end
  if code:contains("check_obj_id") or code:contains("check_type_id") or code:contains("deallocated")
    or code:contains("ID_MATCH") then
    return "an object, which is another one in each call", "the object, or the function, made once and kept"
  end
  if code:contains("size()") or code:contains(".shape") then
    return ("a size: " .. code:split(" == ")[1]:sub(1, 80)), "mark_dynamic or dynamic=True"
  end
  if code:contains("stride()") then return ("the strides in " .. code:sub(1, 80)), "contiguous() before the call" end
  if code:starts_with("len(") then
    return ("the length " .. code:split(" == ")[1]:sub(1, 80)), "a list of one length, or a tensor"
  end
  if code:contains("tensor_alias") or code:contains("no_tensor_aliasing") then
    return "which inputs are one tensor", "inputs that never share memory"
  end
  local name = code
  for _, sign in ipairs({ " == ", " <= ", " >= ", " < ", " > ", " != " }) do name = name:split(sign)[1] end
  if name ~= code and name ~= "" and not name:contains("(") then
    if name:contains("G['") then return ("the global " .. name), "a constant, or a tensor argument" end
    return ("the value " .. name), "a tensor in its place, or a number that does not change"
  end
  return code:sub(1, 100), "what the guard names held constant"
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A compiled function is compiled again and again",
  needs    = { compilations = { kind = { "recompile", "limit", "compile", "graph-break" } } },
  symptoms = { "recompiles-repeat" },
  options  = {
    min_recompiles = { default = 4,    doc = "Recompiles of one function on one rank worth reporting" },
    warm_up        = { default = 0.25, doc = "Share of the log in which recompiles may end and be a warm-up" },
    min_lines      = { default = 20,   doc = "Lines of the program itself that are needed to tell a warm-up" },
    shown          = { default = 3,    doc = "Functions reported" },
  },

  run = function(case)
    local opt  = case.options
    local rows = case.compilations:where("kind == 'recompile' or kind == 'limit'")
    local storms = {}
    -- Of each rank its own versions; the rank with most stands for the function.
    for fn, of in rows:group("function") do
      for site, here in of:group("site") do
        local worst, worstRank, ranks = nil, nil, 0
        local ranked = here:where("rank is not null")
        if ranked:count() > 0 then
          for rank, mine in ranked:group("rank") do
            ranks = ranks + 1
            if not worst or mine:count() > worst:count() then worst, worstRank = mine, rank end
          end
        else
          worst = here
        end
        local times = worst:where { kind = "recompile" }
        local limit = worst:where { kind = "limit" }:first()
        local n     = times:count()
        if n >= opt.min_recompiles or limit then
          storms[#storms + 1] = { name = fn, site = site, rank = worstRank, ranks = ranks, times = times, n = n,
                                  limit = limit, rows = worst }
        end
      end
    end
    table.sort(storms, function(a, b) return a.n > b.n end)
    local said = 0
    for _, storm in ipairs(storms) do
      local first = storm.rows:first()
      -- How far the program got is told by what it prints itself, since the compiler prints dozens of lines a version.
      local own   = case.log_lines:where { source = first.source }
        :where("not contains(text, 'torch/_') and not contains(text, 'torch._')")
      local total = own:count()
      local warm  = not storm.limit and total >= opt.min_lines
        and storm.rows:max("place") < own:row(math.floor(opt.warm_up * total)).line
      if not warm and said < opt.shown then
        said = said + 1
        -- The guard that fails most, by what it speaks of.
        local order, groups = {}, {}
        for row in storm.times:where("reason is not null"):slice(0, 5000):rows() do
          local what, cure = meaning(row.reason)
          if not groups[what] then
            groups[what] = { what = what, cure = cure, n = 0, first = row }
            order[#order + 1] = groups[what]
          end
          groups[what].n, groups[what].last = groups[what].n + 1, row
        end
        table.sort(order, function(a, b) return a.n > b.n end)
        local most = order[1]
        if not most and storm.limit and storm.limit.reason then
          local guard      = storm.limit.reason:index(": ")
          local what, cure = meaning(guard and storm.limit.reason:sub(guard + 2) or storm.limit.reason)
          most = { what = what, cure = cure, n = 0, first = storm.limit }
        end
        local path    = storm.site:split("/")
        local seconds = case.compilations:where("kind == 'compile' and function == ? and site == ?", storm.name,
          storm.site):sum("seconds")
        local message = ("%s (%s) is compiled again %s%s%s"):format(storm.name, path[#path],
          storm.n > 0 and units.plural(storm.n, "time") or "up to the limit",
          storm.ranks > 1 and (" on rank %d, the most of %d ranks"):format(storm.rank, storm.ranks) or "",
          seconds > 0 and (", %s of compilation"):format(units.format(math.floor(seconds * 1e9))) or "")
        if most then
          message = message .. (": %s changes%s, as in `%s`"):format(most.what,
            most.n > 0 and most.n < storm.n and (" in %d of them"):format(most.n) or "",
            (most.first.reason or ""):split(" # ")[1]:trim():sub(1, 120))
          message = message .. ". What helps: " .. most.cure
        end
        if storm.limit then
          message = message .. (". It reached %s: it runs uncompiled from then on"):format(
            (storm.limit.reason or "its limit"):split(":")[1])
        end
        local at       = { source = first.source, line = first.place, rank = storm.rank, name = storm.name }
        local evidence = { storm.rows:slice(0, 8) }
        report {
          symptom  = "recompiles-repeat",
          score    = storm.limit and 0.9 or math.min(0.85, 0.5 + 0.05 * storm.n),
          severity = "warning",
          at       = at,
          message  = message,
          evidence = evidence,
        }
      end
    end
  end,
}
