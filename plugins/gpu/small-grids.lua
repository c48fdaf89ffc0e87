--- ## What it detects
--- Kernels that leave much of the device unused: fewer blocks than multiprocessors, or a last wave that is nearly
--- empty. How many blocks fit one multiprocessor follows from threads, registers and shared memory of the kernel.
---
--- ## Why it matters
--- Such a kernel takes the same time for twice the work. A larger batch, a split of the reduction (split-K) or kernels
--- side by side on several streams fill the device; a faster device does not.
---
--- ## How to confirm
--- Double the batch: the step takes less than 1.3 times as long. If it takes twice as long, the device was full.
---
--- ## Known false positives
--- Persistent kernels size their grid to the device and are left out, as their waves are full. A kernel beside others
--- on another stream shares the device: only the time in which no filling kernel runs counts. Kernels below 5 us are a
--- matter of launching.
---
--- ## References
--- https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html#wave-quant ;
--- limits per compute capability: CUDA C++ Programming Guide, "Compute Capabilities".

local windows = require("windows")

--- By compute capability: threads and blocks that fit a multiprocessor, and its shared memory in KiB. All have 64 Ki
--- registers. From 8.0 on each block takes 1 KiB of shared memory for the system.
local limits = {
  ["7.0"] = { 2048, 32, 96 },  ["7.2"] = { 2048, 32, 96 },  ["7.5"] = { 1024, 16, 64 },
  ["8.0"] = { 2048, 32, 164 }, ["8.6"] = { 1536, 16, 100 }, ["8.7"] = { 1536, 16, 164 }, ["8.9"] = { 1536, 24, 100 },
  ["9.0"] = { 2048, 32, 228 }, ["10.0"] = { 2048, 32, 228 }, ["10.3"] = { 2048, 32, 228 }, ["12.0"] = { 1536, 24, 100 },
}

--- Blocks of such a kernel that fit one multiprocessor, or nil where the limits are not known.
local function resident(limit, kernel)
  if not limit or not kernel.threads or not kernel.registers then return nil end
  local warps = math.ceil(kernel.threads / 32)
  local fit   = math.min(limit[2], (limit[1] // 32) // warps)
  if kernel.registers > 0 then -- registers are handed out to warps by 256
    fit = math.min(fit, 65536 // (math.ceil(kernel.registers * 32 / 256) * 256) // warps)
  end
  local shared = (kernel.shared_bytes or 0) + (limit[3] >= 100 and 1024 or 0)
  if shared > 0 then fit = math.min(fit, limit[3] * 1024 // math.tointeger(shared)) end
  return math.max(1, math.tointeger(fit) or 1)
end

--- The share of the device that a grid keeps busy, 1 where it is full or not known.
local function filled(blocks, processors, fit)
  if blocks < processors then return blocks / processors end
  -- Between one block for each multiprocessor and a full wave all run at once: how much they slow each other down is
  -- not in the profile. From there on a partly empty last wave takes as long as a full one.
  local waves = fit and blocks / (processors * fit) or 1
  return waves > 1 and waves / math.ceil(waves) or 1
end

--- The rows of `long` of each of the kinds in `small`, in that order, with what they fill and could save.
local function rows_of(small, long, saved)
  local by_kind = {}
  for name, blocks, threads, rows in long:group("name", "blocks", "threads") do
    by_kind[("%d %d %s"):format(blocks, threads, name)] = rows
  end
  local parts = {}
  for i, s in ipairs(small) do
    parts[i] = by_kind[("%d %d %s"):format(s.kind.blocks, s.kind.threads, s.kind.name)]
      :with { filled = s.share, saved = ("dur * %g"):format(saved * (1 - s.share)) }
  end
  while #parts > 1 do -- neighbours, so that no row is copied more often than the logarithm of their number
    local next_parts = {}
    for i = 1, #parts, 2 do
      next_parts[#next_parts + 1] = parts[i + 1] and parts[i]:concat(parts[i + 1]) or parts[i]
    end
    parts = next_parts
  end
  return parts[1]
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Kernels are too small to fill the device",
  needs    = { windows = { "dur" }, gpu_work = { "dur", "grid", "block", role = "compute" },
    devices = { "multiprocessors" } },
  relies   = { "kernels" },
  symptoms = { "small-grids" },
  options  = {
    min_share  = { default = 0.20, doc = "Share of the kernel time in such kernels worth reporting" },
    min_window = { default = 0.05, doc = "Share of the window below which it does not matter" },
    full       = { default = 0.70, doc = "Share of the device that counts as filled" },
    min_dur    = { default = 5 * units.us, doc = "Kernels shorter than this are a matter of launching" },
    saved      = { default = 0.50, doc = "Part of the unused share that better shapes win back" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local model   = case.devices:where(here):first()
      local work    = windows.work(case, window)
      local kernels = work:where { role = "compute" }
      if model and model.multiprocessors and kernels:count() > 0 then
        local limit = model.vendor == "nvidia" and model.compute_major
          and limits[("%d.%d"):format(model.compute_major, model.compute_minor or 0)]
        local sized = kernels:with { blocks = "product(grid)", threads = "product(block)" }
        local long  = sized:where("dur >= ? and blocks is not null", opt.min_dur)
        local known = long:sum("dur") >= 0.5 * kernels:where("dur >= ?", opt.min_dur):sum("dur")
        local kinds = long:aggregate({ "name", "blocks", "threads" },
          { total = "sum dur", registers = "max registers", shared_bytes = "max shared_bytes" })
        local total = kernels:covered()
        local small, most = {}, 0
        for kind in kinds:top(5000, "total"):rows() do
          local share = filled(kind.blocks, model.multiprocessors, resident(limit, kind))
          if share < opt.full then
            small[#small + 1] = { kind = kind, share = share }
            most = most + kind.total
          end
        end
        -- What they take in all bounds what they take alone.
        if known and #small > 0 and most >= opt.min_share * total and most >= opt.min_window * window.dur then
          local low   = rows_of(small, long, opt.saved)
          local rest  = kernels:join(low:select("start", "stop", "name", "filled"), { "start", "stop", "name" }, "left")
            :where("filled is null")
          local spent = low:subtract(rest):sum("dur")
          if spent >= opt.min_share * total and spent >= opt.min_window * window.dur then
            local faster = low:select("start", "stop", "name", "saved")
            local worst  = low:aggregate({ "name", "blocks", "threads" },
              { count = "count", total = "sum dur", filled = "max filled" })
              :top(5, "total")
            local first  = worst:first()
            report {
              symptom     = "small-grids",
              score       = math.min(1, 0.5 + spent / total),
              share       = spent / window.dur,
              recoverable = work:join(faster, { "start", "stop", "name" }, "left")
                :ends_sooner("saved", case.host_calls:where { rank = window.rank }),
              at          = here,
              message     = ("%s of the kernel time on GPU %d (%s, %s of the window) is in %s too small to fill its %d "
                .. "multiprocessors; most in %d x %s with %s, which fill %s")
                :format(units.percent(spent / total), window.device, units.format(spent),
                  units.percent(spent / window.dur),
                  units.plural(low:count(), "kernel"), model.multiprocessors, first.count,
                    string.sub(first.name, 1, 60),
                  units.plural(first.blocks, "block"),
                  units.percent(first.filled)),
              evidence    = { worst:renamed("kernels by time"), low:top(5, "dur") },
            }
          end
        end
      end
    end
  end,
}
