--- ## What it detects
--- A busy device whose clock falls below its own plateau, whether a limit of heat or power is on record at those
--- samples, and the signature of a hang: full use at the power of an idle device.
---
--- ## Why it matters
--- A device at 1.2 GHz instead of 1.8 runs every kernel slower, and in a job of many ranks all others wait for it. Use
--- (`utilisation`) is a symptom: it says that a kernel was resident, not that it got on.
---
--- ## How to confirm
--- `nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER` under load: the active reasons name the limit. Confirmed if
--- the same kernels are slower in the same proportion as the clock.
---
--- ## Known false positives
--- Low clocks while idle are power saving: samples below 80 % use are left out. A clock locked low on purpose has no
--- plateau above itself and is not seen.
---
--- ## References
--- https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html

-- SwPowerCap, HwSlowdown, SwThermal, HwThermal and HwPowerBrake in NVML's mask.
local Limits = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The clock of a busy device falls, or it is busy at idle power",
  needs    = { counters = { "at", "value", name = { "gpu_clock_mhz", "power_watts" } } },
  symptoms = { "gpu-clock-drop", "gpu-throttle-reason", "gpu-busy-at-idle-power" },
  options  = {
    drop        = { default = 0.10, doc = "Share below its plateau from which on a clock has dropped" },
    busy        = { default = 80,   doc = "Use in percent from which on a device is busy" },
    min_share   = { default = 0.05, doc = "Share of the busy samples that must show the drop" },
    min_samples = { default = 20,   doc = "Busy samples below which nothing is judged" },
    hot         = { default = 83,   doc = "Temperature in degrees Celsius from which on heat is taken for the limit" },
    full_power  = { default = 0.95, doc = "Share of the power limit from which on power is taken for the limit" },
    idle_power  = { default = 100,  doc = "Power in watts below which a large device cannot be at work" },
    hang_for    = { default = 60 * units.s, doc = "How long use must be full at idle power, in ns" },
    large       = { default = 250,
                    doc = "Power in watts that a device must have shown or be allowed for it to be a large one" },
  },

  run = function(case)
    local opt, clocked, powered = case.options, false, false
    -- Samples of one poll share their time; a counter of its own rate gives its last value before.
    local function series(rows, name)
      return rows:where { name = name }:sort("at"):select("at", "value", "rank", "device")
    end
    -- Monitors such as nvidia-smi know devices, not ranks.
    local timed, groups = case.counters:where("at is not null"), {}
    for rank, device, rows in timed:group("rank", "device") do
      groups[#groups + 1] = { rank = rank, device = device, rows = rows }
    end
    for device, rows in timed:where("rank is null"):group("device") do
      groups[#groups + 1] = { device = device, rows = rows }
    end
    for _, group in ipairs(groups) do
      local device, rows = group.device, group.rows
      local here  = { rank = group.rank, device = device }
      local clock = series(rows, "gpu_clock_mhz")
      local use   = series(rows, "gpu_util")
      if use:count() == 0 then use = series(rows, "sm_active") end
      local power = series(rows, "power_watts")
      local limit = series(rows, "power_limit_watts"):max("value")
      local heat  = series(rows, "temperature_c")
      -- Flags by name, and NVML's mask, in which 1, 2, 16 and 256 are idling and settings, no limits.
      local why   = rows:where("match(name, 'throttle_*') and name != 'throttle_reasons' and value > 0")
      local masks = rows:where { name = "throttle_reasons" }
      for row in masks:aggregate({ "value" }, { n = "count" }):top(500, "n"):rows() do
        if Limits & (math.tointeger(row.value) or 0) ~= 0 then why = why:concat(masks:where { value = row.value }) end
      end
      why = why:sort("at")

      local joined = clock:count() > 0 and use:count() > 0 and
        clock:join(use:with { used = use:col("value") }:select("at", "used"), { "at" }):where("used >= ?", opt.busy)
      if joined and joined:count() >= opt.min_samples then
        clocked = true
        local plateau = joined:quantile("value", 0.9)
        local low     = joined:where("value < ?", (1 - opt.drop) * plateau)
        if low:count() >= math.max(3, opt.min_share * joined:count()) then
          local interval = joined:col("at"):diff():median() or 0
          local lost, share = 0, low:count() / joined:count()
          for _, v in ipairs(low:col("value"):values()) do lost = lost + interval * (1 - v / plateau) end
          local function during(t)
            return t:count() > 0 and t:select("at", "value"):with { seen = t:col("value") }:select("at", "seen")
              :join(low, { "at" })
          end
          local hot_at, power_at, why_at = during(heat), during(power), during(why)
          local hot   = hot_at and hot_at:count() > 0 and hot_at:median("seen")
          local watts = power_at and power_at:count() > 0 and power_at:median("seen")
          local cool  = joined:where("value >= ?", (1 - opt.drop) * plateau)
          local figures = (hot and (", %.0f C"):format(hot) or "") .. (watts and (", %.0f W"):format(watts) or "")
            .. (limit and (" of %.0f W allowed"):format(limit) or "")
          report {
            symptom     = "gpu-clock-drop",
            score       = 0.85,
            share       = share,
            recoverable = math.tointeger(lost // 1),
            at          = here,
            message     = ("the clock of GPU %d is at %.0f MHz in the median of %d busy samples (%s), against a "
              .. "plateau of %.0f MHz in the other %d%s; low clocks at less than %d %% use would be power saving and "
              .. "are not counted")
                :format(device,
              low:median("value"), low:count(), units.percent(share), plateau, cool:count(), figures, opt.busy),
            evidence    = { low:slice(0, 5) },
          }
          local reason, shown
          if why_at and why_at:count() > 0 then
            local first = why:join(low:select("at"), { "at" }):first()
            reason, shown = ("the driver names %s"):format(first and first.name or "a limit"), why
          elseif hot and hot >= opt.hot then
            reason, shown = ("it is at %.0f C"):format(hot), heat
          elseif watts and limit and watts >= opt.full_power * limit then
            reason, shown = ("it draws %.0f of the %.0f W it may"):format(watts, limit), power
          end
          if reason then
            report {
              symptom  = "gpu-throttle-reason",
              score    = 0.95,
              share    = share,
              at       = here,
              message  = ("while the clock of GPU %d is down, %s; without a limit on record the clock could also have "
                .. "been set by hand")
                :format(device, reason),
              evidence = { shown:slice(0, 5), low:slice(0, 3) },
            }
          end
        end
      end

      -- Full use at idle power: a kernel spins and nothing gets on. Small devices never draw so much.
      local both = power:count() > 0 and use:count() > 0 and
        power:join(use:with { used = use:col("value") }:select("at", "used"), { "at" }):sort("at")
      if both and both:count() >= opt.min_samples
        and ((limit or 0) >= opt.large or (power:max("value") or 0) >= opt.large) then
        powered = true
        local begun, ended, samples, longest, seen = nil, nil, 0, 0, 0
        local from, best_from, best_to
        local ats, watts, used = both:col("at"):values(), both:col("value"):values(), both:col("used"):values()
        for i = 1, #ats do
          if used[i] and watts[i] and used[i] > 95 and watts[i] < opt.idle_power then
            from = from or ats[i]
            samples = samples + 1
            if ats[i] - from > longest then longest, seen, best_from, best_to = ats[i] - from, samples, from, ats[i] end
          else
            from, samples = nil, 0
          end
        end
        if longest >= opt.hang_for and seen >= 5 then
          report {
            symptom  = "gpu-busy-at-idle-power",
            score    = 0.9,
            at       = here,
            message  = ("GPU %d reports more than 95 %% use at less than %d W for %s (%d samples in a row), though it "
              .. "can draw %.0f W: a kernel spins and waits, as in a collective whose peer is gone; a device at work "
              .. "draws more")
                :format(device,
              opt.idle_power, units.format(longest), seen, math.max(limit or 0, power:max("value"))),
            evidence = { both:where("at >= ? and at <= ?", best_from, best_to):slice(0, 5) },
          }
        end
      end
    end
    local how = "nvidia-smi --query-gpu=timestamp,index,clocks.sm,power.draw,power.limit,temperature.gpu,"
      .. "utilization.gpu --format=csv -lms 500"
    if not clocked then
      skip(("at least %d samples of the clock beside use while the device is busy: %s"):format(opt.min_samples, how),
        "gpu-clock-drop", "gpu-throttle-reason")
    end
    if not powered then
      skip(("at least %d samples of power beside use, of a device that can draw %d W: %s"):format(opt.min_samples,
        opt.large, how), "gpu-busy-at-idle-power")
    end
  end,
}
