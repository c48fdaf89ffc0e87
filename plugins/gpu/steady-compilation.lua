--- ## What it detects
--- Code that is compiled or loaded in steps after the warm-up: frames of a compiler (Dynamo, Inductor, Triton, XLA),
--- module and library loads, the driver's lazy loading and its own compiler.
---
--- ## Why it matters
--- Compiling is set-up. Where it comes back in later steps something it was specialised on keeps changing (a shape, a
--- number, an object), or a path was not warmed up; seconds are spent for each new version.
---
--- ## How to confirm
--- `TORCH_LOGS=recompiles` prints the guard that failed each time. For loads: run once with
--- `CUDA_MODULE_LOADING=EAGER`.
---
--- ## Known false positives
--- Warm-up spread over several steps: what happens in the first half of the record alone is left out, as is a frame
--- that only looks a compiled function up.
---
--- ## References
--- https://pytorch.org/docs/stable/torch.compiler_troubleshooting.html
--- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#lazy-loading

-- Frames inside which a compiler works. What every call of a compiled function passes (eval_frame, the launcher of
-- Triton's jit, "Torch-Compiled Region") is not among them.
local Compilers = "*_dynamo/convert_frame.py*|*compile_fx.py*: compile_fx*|*compile_fx.py*: "
  .. "fx_codegen*|*entire_frame_compile*|"
  .. "*_compile.compile_inner*|*backend_compile*|*inductor_compile*|*triton/compiler/compiler.py*: compile*|"
  .. "*triton/runtime/autotuner.py*: _bench*|*async_compile.py*: wait*|*XlaCompile*|*xla::*Compiler*|*cudnnFind*|"
  .. "*_nvrtcCompileProgram*|nvrtcCompileProgram*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Code is compiled or loaded again in steady state",
  needs    = { steps = { "start", "stop" },
    any = { host_ops = { "name" }, ranges = { "name", "start" }, host_calls = { "role" },
               profiler_events = { "name", "start" } } },
  relies   = { "launches", "host-times" },
  symptoms = { "compile-in-steady-state", "module-load-in-steady-state" },
  options  = {
    min_share = { default = 0.01, doc = "Share of the steps after the first worth reporting" },
    min_steps = { default = 4,    doc = "Recorded steps below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false

    -- Reports where `work`, rows with start and stop, takes its share of the later steps.
    local function judge(symptom, rank, ordered, work, what, cure)
      local n     = ordered:count()
      local steps = ordered:slice(1, n - 1)
      local half  = steps:row((n - 1) // 2).start
      local hit   = steps:with { lost = steps:overlap(work) }:where("lost > 0")
      local lost, span = hit:sum("lost"), steps:sum("dur")
      local late  = hit:where("start >= ?", half)
      if lost < opt.min_share * span or late:count() == 0 or late:sum("lost") < opt.min_share * late:sum("dur") then
        return
      end
      local idle   = case.gaps:where { rank = rank }:where("state == 'starved'"):intersect(steps:intersect(work))
        :sum("dur")
      local inside = work:with { hit = work:overlap(hit) }:where("hit > 0")
      report {
        symptom     = symptom,
        score       = math.min(1, (hit:count() >= 2 and 0.75 or 0.6) + lost / span),
        share       = lost / span,
        recoverable = idle,
        at          = { rank = rank, step = late:first().step, name = inside:top(1, "dur"):first().name },
        message     = ("%s in %d of %d steps after the first: %s, %s of them; the longest is %s (%s in %s), and the "
          .. "device had nothing to do for %s of it. Set-up would end with the first steps: the second half has %d "
          .. "such steps. %s")
          :format(what, hit:count(), n - 1, units.format(lost), units.percent(lost / span),
          inside:top(1, "dur"):first().name:sub(1, 80), units.format(inside:max("dur")), ("step %d"):format(
          hit:top(1, "lost"):first().step), units.format(idle), late:count(), cure),
        evidence    = { inside:top(5, "dur"), hit:top(5, "lost") },
      }
    end

    for rank, all in case.steps:group("rank") do
      if all:count() >= opt.min_steps then
        judged = true
        local ordered = all:sort("start")
        local here    = { rank = rank }
        local named   = { "name", "start", "stop", "dur" }
        local compile = case.host_ops:where(here):where("match(name, ?)", Compilers):select(table.unpack(named))
          :concat(case.ranges:where(here):where("match(name, ?)", Compilers):select(table.unpack(named)))
          :concat(case.profiler_events:where(here):where("match(name, '*river*ompil*')"):select(table.unpack(named)))
        local loads = case.host_calls:where(here):where { role = "load" }:select(table.unpack(named))
          :concat(case.profiler_events:where(here):where("match(name, '*azy*oad*|*odule*oad*')")
            :select(table.unpack(named)))
        -- A compiler loads what it has compiled: that part is the compiler's.
        local inner = loads:containing(compile)
        loads = loads:with { within = inner }:where("within is null")
        judge("compile-in-steady-state", rank, ordered, compile:renamed("compiling"), "code is compiled",
          "TORCH_LOGS=recompiles names the guard")
        judge("module-load-in-steady-state", rank, ordered, loads:renamed("loading"), "device code is loaded",
          "no compiler is on record around it: these are first uses, which a warm-up or "
            .. "CUDA_MODULE_LOADING=EAGER moves")
      end
    end
    if not judged then skip(("at least %d steps: record more of them"):format(opt.min_steps)) end
  end,
}
