--- ## What it detects
--- A loss that repeats a pattern at a fixed distance of steps: found by the autocorrelation of the loss without its
--- trend, and told by shape. Levels that change within the period are data in blocks; a fall at each boundary and none
--- between them is a data set that is learned by heart.
---
--- ## Why it matters
--- Shuffled data has no period. One that is as long as an epoch, a shard or a round of the domains names what is not
--- shuffled, or what is too small.
---
--- ## How to confirm
--- Log the domain or shard of each batch, or shuffle with a large buffer: the period goes.
---
--- ## Known false positives
--- Learning rates in cycles move the loss with their own period; those are left out. An evaluation in the training loop
--- that disturbs the data's order does so by design. A loss against a copy of the network, as of Q-learning, jumps at
--- each renewal of the copy, and so does one of labels that are dealt out anew with each clustering: where the config
--- names such nothing is said, nor while a return gets better. Nor is it where half
--- of the layers are moved at some steps only: an optimizer that takes them in turn gives the loss its round. Tasks,
--- losses and batches without labels take turns by design: of a period of fewer than six steps nothing is said.
---
--- ## References
--- The fall at epoch boundaries: https://www.fast.ai/posts/2023-09-04-learning-jumps/

local settings = require("settings")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss repeats a pattern with a fixed period",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-sawtooth", "loss-drops-at-epochs" },
  options  = {
    peak     = { default = 0.35, doc = "Autocorrelation at the period that is worth reporting" },
    min_rows = { default = 64,   doc = "Logged losses below which no period is looked for" },
  },

  run = function(case)
    local opt, judged = case.options, false

    --- Whether one distance between rows is that of nearly all, wherever the others are.
    local function odd(gaps)
      local sorted, same = {}, 0
      for i = 2, #gaps do sorted[#sorted + 1] = gaps[i] end
      table.sort(sorted)
      local usual = sorted[(#sorted + 1) // 2]
      for _, gap in ipairs(sorted) do same = same + (math.abs(gap - usual) <= 0.5 * usual and 1 or 0) end
      return same >= 0.9 * #sorted
    end

    --- Means of `count` equal parts at most, with the number of rows in each.
    local function thinned(values)
      local by = math.max(1, math.ceil(#values / 1500))
      local out = {}
      for i = 1, #values - by + 1, by do
        local sum = 0
        for j = i, i + by - 1 do sum = sum + values[j] end
        out[#out + 1] = sum / by
      end
      return out, by
    end

    --- The values less a running mean over `width` of them, centred; the ends are left out.
    local function detrended(values, width)
      local sum, out = 0, {}
      local half = width // 2
      for i = 1, #values do
        sum = sum + values[i]
        if i > 2 * half + 1 then sum = sum - values[i - 2 * half - 1] end
        if i >= 2 * half + 1 then out[#out + 1] = values[i - half] - sum / (2 * half + 1) end
      end
      return out
    end

    local function correlation(x, lag, power)
      local sum = 0
      for i = 1, #x - lag do sum = sum + x[i] * x[i + lag] end
      return sum / (#x - lag) / power
    end

    --- A layer of those that are moved now and then, at half of the logged steps at most, where the rate is not 0; nil
    --- unless half of the layers are such.
    local function in_turns(run_name)
      local layers, some, example = 0, 0, nil
      local still = case.scalars:where { metric = "lr", primary = true, run = run_name }:where("value == 0")
        :select("step"):with { stopped = true }
      for layer, rows in case.scalars:where { metric = "update_ratio", primary = true, run = run_name }
        :where("layer is not null and finite(value)"):group("layer") do
        local own = rows:join(still, "step", "left"):where("stopped is null")
        local moved, all = own:where("value > 0"):count(), own:count()
        if moved > 0 then layers = layers + 1 end
        if all >= 6 and moved > 0 and 2 * moved <= all then
          some = some + 1
          example = example or { layer = layer, told = ("%d of %d logged steps"):format(moved, all) }
        end
      end
      return 2 * some >= layers and example or nil
    end

    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value) and value > 0")
      local rows = loss:count()
      -- Rows at other distances, as dense at first, make a trend or a slow wave a period. The last stretch of one
      -- distance is looked at.
      if rows >= opt.min_rows and rows <= 10000 then
        local gaps, since = loss:col("step"):diff():values(), rows
        local usual = gaps[rows]
        while since > 1 and math.abs(gaps[since] - usual) <= 0.5 * usual do since = since - 1 end
        if since > 1 and not odd(gaps) then loss, rows = loss:slice(since - 1, rows), rows - since + 1 end
      end
      if rows >= opt.min_rows and rows <= 10000 then
        judged = true
        -- Logarithms: the swing of a falling loss falls with it. The first tenth is the steep part.
        local from   = rows // 10
        local used   = loss:slice(from, rows)
        local values, by = thinned(used:col("value"):log():values())
        local apart  = (used:last().step - used:first().step) / math.max(1, used:count() - 1) * by

        -- One window for the trend decides which periods are seen: those up to it.
        local found, round
        for _, part in ipairs { 24, 12, 6, 3 } do
          local width = #values // part
          if width >= 8 and not found and not round then
            local x, power = detrended(values, width), 0
            -- Single outliers would correlate with nothing and hide the rest: they are cut at four deviations.
            for i = 1, #x do power = power + x[i] * x[i] end
            local limit = 4 * math.sqrt(power / #x)
            power = 0
            for i = 1, #x do
              x[i] = math.max(-limit, math.min(limit, x[i]))
              power = power + x[i] * x[i] / #x
            end
            local acf = {}
            local most = math.min(width, #x // 3)
            for lag = 1, most do acf[lag] = power > 0 and correlation(x, lag, power) or 0 end
            -- A period is a peak beyond the first dip below nought, high, sharp against the dip, and there again at
            -- twice the distance.
            local lag = 1
            while lag <= most and acf[lag] > 0 do lag = lag + 1 end
            local highest, peaks, best = 0, {}, nil
            for i = math.max(lag, 6), most - 1 do
              if acf[i] >= acf[i - 1] and acf[i] >= acf[i + 1]
                and acf[i] >= math.max(opt.peak, 4 / math.sqrt(#x)) then
                peaks[#peaks + 1] = i
                highest = math.max(highest, acf[i])
              end
            end
            -- Multiples of a period are peaks too; the period is the first of about their height.
            for _, i in ipairs(peaks) do
              if acf[i] >= 0.7 * highest then best = i break end
            end
            -- Steps that take turns, as tasks or losses do: the period is a few of them, and others its multiples. Of
            -- rows that are further apart a few make a block.
            for i = 2, best and apart <= 1.5 * by and 5 or 1 do
              if i < most and i * by < 12 and acf[i] >= 0.7 * highest and acf[i] > acf[i - 1]
                and acf[i] >= acf[i + 1] then
                round, best = round or i, nil
              end
            end
            if best and 2 * best <= #x // 2 then
              local again = -1
              for i = math.floor(1.9 * best), math.ceil(2.1 * best) do
                again = math.max(again, correlation(x, i, power))
              end
              if again >= 0.6 * acf[best] and #x >= 3 * best then
                found = { lag = best, height = acf[best], x = x }
              end
            end
          end
        end

        if round then
          skip(("a period of six steps or more: the loss repeats every %d, as of tasks or losses by turns"):format(
            round * by), "loss-sawtooth", "loss-drops-at-epochs")
        elseif found then
          local period = found.lag * apart
          -- The pattern: means over the places in the period.
          local sums, counts = {}, {}
          for i = 1, #found.x do
            local place = (i - 1) % found.lag + 1
            sums[place]   = (sums[place] or 0) + found.x[i]
            counts[place] = (counts[place] or 0) + 1
          end
          local low, high, steepest, other, last = math.huge, -math.huge, 0, 0, nil
          for turn = 1, found.lag + 1 do
            local place = (turn - 1) % found.lag + 1
            local mean  = sums[place] / counts[place]
            low, high = math.min(low, mean), math.max(high, mean)
            if last and math.abs(mean - last) > math.abs(steepest) then steepest = mean - last end
            if last then other = math.max(other, mean - last) end
            last = mean
          end
          -- Blocks of data begin with a loss that jumps up; what is learned by heart, with one that falls. Where it
          -- jumps back as well, blocks are of different worth, and nothing is learned by heart between them.
          local levels = steepest < 0 and other > -0.6 * steepest
          local falls = steepest < -0.5 * (high - low) and not levels
          local rate = case.scalars:where { name = "lr", primary = true, run = run_name }:sort("step")
          local turns = rate:col("value"):diff()
          local cyclic = rate:count() >= 16
            and rate:with { up = turns }:where("up > 0 and step >= ?", used:first().step):count() >= 0.05 * rate:count()
          local epochs = case.scalars:where { name = "epoch", primary = true, run = run_name }:sort("step")
          local per
          if epochs:count() >= 4 and epochs:last().value > epochs:first().value then
            per = (epochs:last().step - epochs:first().step) / (epochs:last().value - epochs:first().value)
          end
          local epoch = per and math.abs(period / per - 1) < 0.1
          -- Targets that a copy of the network gives jump with each new copy, and the loss with them.
          local copied = case.config
            :where("match(key, '*target_network*|*target_update*|*target_sync*') and number > 1"):first()
            or settings.on(case.config:where("match(key, '*reassign*|*recluster*|*relabel*|*reset_interval*')")):first()
          local gained = settings.returns_rise(case)
          local turns_of = in_turns(run_name)
          if turns_of then
            skip(("updates of all layers at every step: %s is moved at %s, and so the loss may have their round")
              :format(turns_of.layer, turns_of.told), "loss-sawtooth", "loss-drops-at-epochs")
          elseif copied then
            skip("a loss whose targets do not move: " .. copied.key .. " renews them at intervals", "loss-sawtooth",
              "loss-drops-at-epochs")
          elseif gained then
            skip(("a loss against a target that stays: %s rises to the end"):format(gained.name), "loss-sawtooth",
              "loss-drops-at-epochs")
          elseif not cyclic then
            report {
              symptom  = falls and "loss-drops-at-epochs" or "loss-sawtooth",
              score    = math.min(0.95, 0.5 + 0.5 * found.height),
              at       = { step = used:first().step },
              message  = ("the loss repeats every %d steps%s: autocorrelation %.2f, a swing of %s, and it %s at "
                .. "once"):format(math.floor(period + 0.5), epoch and ", one epoch" or "", found.height,
                  units.percent(math.exp(high - low) - 1), levels and "falls and rises" or steepest < 0 and "falls"
                  or "rises"),
              evidence = { used:slice(0, math.min(rows, 2 * found.lag * by)) },
            }
          end
        end
      end
    end
    if not judged then skip(("%d to 10,000 logged losses"):format(opt.min_rows)) end
  end,
}
