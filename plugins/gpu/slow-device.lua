--- ## What it detects
--- A device that takes longer than its peers for the same kernels: name, grid and block agree, so the work does. It
--- tells a device that is slower for all kinds of kernels alike, one that is slower for memory traffic only, and one
--- that is slow at times only; and joins clock and throttle counters where a collector recorded them.
---
--- ## Why it matters
--- In a synchronous job everybody waits for the slowest device, and no change of the program helps. Heat, a power cap,
--- remapped memory rows or another process on the device show as waiting time on all other ranks.
---
--- ## How to confirm
--- Swap the device with another node's: the slowness stays with the device. If it stays with the rank, it is the
--- rank's work.
---
--- ## Known false positives
--- More work on one rank shows as other grids or other counts and is not compared. Kernels whose work depends on data
--- (embeddings, routing) may differ with equal grids, which is why most kernels must agree. Of two devices one is
--- always the slower: without counters it is named, not blamed. Slow links show in collectives, not here.
---
--- ## References
--- https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html

local windows = require("windows")

-- SwPowerCap, HwSlowdown, SwThermal, HwThermal and HwPowerBrake in NVML's mask; its other bits are idling and settings.
local Limits = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

--- The clock of the multiprocessors, by the first of its names that was sampled.
local function clock_of(rows)
  for _, name in ipairs { "gpu_clock_mhz", "gpc_clock_mhz", "graphics_clock_mhz" } do
    local clock = rows:where { name = name }
    if clock:count() > 0 then return clock end
  end
  return rows:where("match(name, '*clock*|*Clock*|*frequency*') and not match(name, "
    .. "'*throttl*|*event*|*reason*|*mem*|*max*')")
end

--- Samples that say that the clock is held down.
local function limits_of(rows)
  local out   = rows:where("match(name, 'throttle_*|*throttl*|*Throttl*') and name != 'throttle_reasons' and value > 0")
  if out:count() > 0 then return out end
  local masks = rows:where { name = "throttle_reasons" }
  for row in masks:aggregate({ "value" }, { n = "count" }):top(500, "n"):rows() do
    if Limits & (math.tointeger(row.value) or 0) ~= 0 then out = out:concat(masks:where { value = row.value }) end
  end
  return out
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "One device is slower than its peers at the same kernels",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", "grid", "block", role = "compute" } },
  relies   = { "kernels" },
  symptoms = { "device-slow", "device-slow-memory", "device-slower-of-two", "device-uneven", "device-clock-low",
    "device-throttled" },
  options  = {
    ratio     = { default = 1.05, doc = "Median duration over the cohort's from which a kernel is slower" },
    agree     = { default = 0.80, doc = "Share of the kernels that must be slower" },
    spread    = { default = 0.10,
                  doc = "Widest interquartile range of the ratios of a device that is slower throughout" },
    min_kinds = { default = 10, doc = "Kernels that devices must have in common" },
    min_count = { default = 3, doc = "Times a device must have run a kernel for its median to count" },
    min_dur   = { default = 10 * units.us, doc = "Kernels shorter than this are too short for the clock of a trace" },
    uneven    = { default = 1.5, doc = "Ninth tenth over median of a kernel's durations that is far apart" },
    clock     = { default = 0.97, doc = "Clock over the cohort's below which it is low" },
  },

  run = function(case)
    local opt     = case.options
    local moving  = "*elementwise*|*copy*|*Copy*|*reduce_kernel*|*oftmax*|*SoftMax*|*norm*|*bn_*"
      .. "|*embedding*|*indexSelect*"
    local kernels = nil
    for window in case.windows:rows() do
      local part = windows.work(case, window):where { role = "compute" }
      kernels = kernels and kernels:concat(part) or part
    end
    local key  = { "name", "blocks", "threads" }
    local runs = kernels:with { blocks = "product(grid)", threads = "product(block)" }
    local each = runs:aggregate({ "rank", "device", "name", "blocks", "threads" },
      { count = "count", typical = "median dur", longest = "max dur", total = "sum dur" })
        :where("count >= ?", opt.min_count)
    local cohort = each:aggregate(key, { members = "count", usual = "median typical", worst = "median longest" })
      :where("usual >= ?", opt.min_dur)
    local devices = each:distinct("rank", "device")
    if devices:count() < 2 then
      return skip("at least two devices: give the profiles of several ranks together")
    end
    local two    = devices:count() == 2
    local shared = each:join(cohort:where("members >= ?", two and 2 or 3), key)

    --- Monitors such as nvidia-smi know devices, not ranks: theirs count where no two ranks have the same number.
    local apart = devices:aggregate({ "device" }, { n = "count" }):count() == devices:count()
    local function counters_of(here)
      local rows = case.counters:where(here)
      if rows:count() > 0 or not apart then return rows end
      return case.counters:where("rank is null and device == ?", here.device)
    end

    local judged = false
    for device in devices:rows() do
      local here   = { rank = device.rank, device = device.device }
      local mine   = shared:where(here)
      if two then -- against the other one, as the median of two is half one's own
        local other = shared:where("rank != ? or device != ?", device.rank, device.device):select("name", "blocks",
          "threads", "typical")
        mine = mine:join(other, key):with { ratio = "typical / typical_right" }
      else
        mine = mine:with { ratio = "typical / usual" }
      end
      if mine:count() >= opt.min_kinds then
        judged = true
        local function slower(rows)
          return rows:count() > 0 and rows:where("ratio >= ?", opt.ratio):count() / rows:count() or 0
        end
        local bytes  = mine:where("match(name, ?)", moving)
        local rest   = mine:where("not match(name, ?)", moving)
        local middle = mine:median("ratio")
        local iqr    = mine:quantile("ratio", 0.75) - mine:quantile("ratio", 0.25)
        local mine_of = counters_of(here)
        local clock   = clock_of(mine_of)
        local limits  = limits_of(mine_of)
        local title  = ("GPU %d of rank %d"):format(device.device, device.rank)
        local lost   = mine:sum("total") * (1 - 1 / middle)
        local window = case.windows:where(here):first()
        local shown  = { mine:top(5, "total"):renamed("kernels against the cohort") }

        --- The clock against that of the other devices, as text, and the ratio.
        local slow_clock, said = nil, ""
        local others = case.counters:where("(rank != ? or device != ?) and match(name, ?)", device.rank, device.device,
          clock:count() > 0 and clock:first().name or "")
        if clock:count() > 0 and others:count() > 0 then
          slow_clock = clock:where { name = clock:first().name }:median("value") / others:median("value")
          said = ("; its %s is %s of its peers'"):format(clock:first().name, units.percent(slow_clock))
        end

        local function state(symptom, severity, message, score)
          report {
            symptom = symptom, severity = severity, score = score, at = here, share = lost / window.dur,
            recoverable = severity == "error" and math.floor(lost) or nil, message = message .. said, evidence = shown,
          }
        end
        local found = true
        if middle >= opt.ratio and slower(mine) >= opt.agree and iqr <= opt.spread then
          local message = ("%s takes %.2f times as long as %s for %s of %d kernels with the same grid, all kinds alike "
            .. "(middle half of the ratios %.2f wide)")
            :format(title, middle, two and "the other device" or "its peers", units.percent(slower(mine)),
              mine:count(), iqr)
          if two and not slow_clock and limits:count() == 0 then
            state("device-slower-of-two", "info", message .. ": which of two is at fault needs clocks, power or a "
              .. "third device", 0.6)
          else
            state("device-slow", "error", message, 0.9)
          end
        elseif not two and bytes:count() >= 5 and rest:count() >= 5 and slower(bytes) >= opt.agree
               and rest:median("ratio") < 1 + (opt.ratio - 1) / 2 then
          state("device-slow-memory", "error",
            ("%s takes %.2f times as long as its peers for %d kernels that only move bytes, and %.2f times for the "
              .. "other %d"):format(
              title, bytes:median("ratio"), bytes:count(), rest:median("ratio"), rest:count()), 0.85)
        elseif not two then
          -- Slices of another process: some runs of a kernel take far longer, on this device alone.
          local apart = mine:where("count >= 10 and longest >= ? * typical and worst < ? * usual", opt.uneven,
            opt.uneven)
          if apart:count() >= opt.agree * mine:where("count >= 10"):count() and apart:count() >= opt.min_kinds then
            state("device-uneven", "error",
              ("%s runs %d of %d kernels at its peers' speed mostly, but %.1f times as long at worst, which its peers "
                .. "do not"):format(
                title, apart:count(), mine:count(), apart:compute("longest / typical"):median()), 0.7)
          else
            found = false
          end
        else
          found = false
        end
        if found and not slow_clock then skip("the clocks of this device and of another", "device-clock-low") end
        if found and slow_clock and slow_clock < opt.clock then
          report { symptom = "device-clock-low", score = 0.9, at = here, evidence = { clock:slice(0, 5) },
            message = ("the %s of %s is %s of its peers'"):format(clock:first().name, title,
              units.percent(slow_clock)) }
        end
        if found and limits:count() > 0 then
          report { symptom = "device-throttled", score = 0.95, at = here, evidence = { limits:slice(0, 5) },
            message = ("%s says that its clock is held down: %s in %d samples"):format(title, limits:first().name,
              limits:count()) }
        end
      end
    end
    if not judged then
      return skip(("at least %d kernels of %s and more that devices have in common: record more steps of every rank")
        :format(
        opt.min_kinds, units.format(opt.min_dur)))
    end
    if two then skip("a third device", "device-slow-memory", "device-uneven") end
  end,
}
