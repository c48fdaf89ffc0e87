--- ## What it detects
--- Runs side by side that differ in the learning rate alone, of which those at the higher rates fail and those at the
--- lower ones learn.
---
--- ## Why it matters
--- It is the experiment that tells a rate that is too high from everything else: data, model and code are the same.
--- Nothing else has to be looked for in the run that broke.
---
--- ## How to confirm
--- Repeat the run that failed with another seed: it fails again.
---
--- ## Known false positives
--- A sweep goes up to rates that fail on purpose; what is said of them is true nevertheless. Runs that differ in any
--- other setting than rate, seed, name or place are not compared. A run has failed whose loss is not finite at its end,
--- or no better than the worst that the others began with after half their steps; one has learned whose loss came down
--- to half.
---
--- ## References
--- https://arxiv.org/abs/1803.09820 (a range test of rates)

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Of runs that differ in the rate alone, those at higher rates fail",
  needs    = { scalars = { "step", "value", metric = "loss" }, config = { "key", "value" } },
  symptoms = { "only-higher-rates-fail" },
  options  = {
    apart    = { default = 2.0, doc = "Lowest rate that fails over the highest that learns" },
    learned  = { default = 0.5, doc = "Last over first loss of a run that has learned" },
    others   = { default = 2,   doc = "Runs that have learned below which nothing is compared" },
    long     = { default = 0.5, doc = "Steps over those of the shortest that learned, of a run that has failed" },
    min_rows = { default = 3,   doc = "Logged losses of a run below which it is not judged" },
  },

  run = function(case)
    local opt = case.options
    local RATE  = "lr|*.lr|*_lr|*learning_rate|*base_lr|*max_lr|*peak_lr"
    local PLACE = "*seed*|*name*|*dir*|*path*|*output*|*run_id*|*wandb*|*port*|*time*|*date*|*uuid*|id|*.id|*tag*"
    --- The rate that one run's own settings name, and all that others have to share with it.
    local function settings_of(name)
      local own = case.config:where { run = name }
      local rate = own:where("match(key, ?) and not match(key, '*min*') and number > 0", RATE):max("number")
      local rest = {}
      for row in own:where("not match(key, ?)", RATE .. "|" .. PLACE):slice(0, 1000):rows() do
        rest[#rest + 1] = row.key .. "=" .. tostring(row.value)
      end
      table.sort(rest)
      return rate, table.concat(rest, "\n")
    end

    local same, low, high, begin, least = nil, {}, {}, 0, math.huge
    local all = {}
    for name, run in case.scalars:where { name = "loss", primary = true }:where("run is not null"):group("run") do
      local rate, rest = settings_of(name)
      local loss = run:sort("step")
      if not rate or loss:count() < opt.min_rows or same and rest ~= same then
        return skip("runs side by side whose settings differ in the learning rate alone")
      end
      same = rest
      all[#all + 1] = { name = name, rate = rate, loss = loss }
    end
    for _, one in ipairs(all) do
      local finite = one.loss:where("finite(value)")
      local last = one.loss:where("value is not null"):last()
      one.broken = last ~= nil and last.value - last.value ~= 0
      one.first, one.finish = finite:first(), finite:slice(math.max(0, finite:count() - 3), 3):median("value")
      if not one.broken and one.first and one.first.value > 0 and one.finish <= opt.learned * one.first.value then
        low[#low + 1], begin = one, math.max(begin, one.first.value)
        least = math.min(least, one.loss:last().step)
      end
    end
    for _, one in ipairs(all) do
      -- What was stopped by hand soon after its start has not failed yet.
      local long = one.loss:last().step >= opt.long * least
      if one.broken or long and one.finish and one.finish > begin and begin > 0 then high[#high + 1] = one end
    end
    if #low < opt.others then
      return skip(("%d runs that learn, side by side, with settings of their own"):format(opt.others))
    end
    if #high == 0 then return end
    table.sort(low, function(a, b) return a.rate > b.rate end)
    table.sort(high, function(a, b) return a.rate < b.rate end)
    if high[1].rate < opt.apart * low[1].rate then return end
    report {
      symptom  = "only-higher-rates-fail",
      score    = 0.95,
      at       = { run = high[1].name, step = high[1].first and high[1].first.step or 0 },
      message  = ("of %s that differ in the learning rate alone, the %d at %.3g and below learn, to a loss of %.3g, "
        .. "and at %.3g the loss %s"):format(units.plural(#all, "run"), #low, low[1].rate, low[1].finish, high[1].rate,
        high[1].broken and "is no number" or ("ends at %.3g"):format(high[1].finish)),
      evidence = { low[1].loss:last(), high[1].loss:last() },
    }
  end,
}
