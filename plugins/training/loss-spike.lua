--- ## What it detects
--- A loss that jumps many robust deviations above its trailing median, whether it comes back, and whether such spikes
--- become more frequent: they are counted by thirds of the run.
---
--- ## Why it matters
--- A spike that recovers within tens of steps points at one batch; one that does not, at the step size or the numerics.
--- Spikes that come ever closer announce a divergence, whatever the batches.
---
--- ## How to confirm
--- Replay the batch of that step from the checkpoint before it: the same spike means data, none means hardware or
--- state.
---
--- ## Known false positives
--- Runs logged as means over many steps hide spikes; very noisy small-batch runs show a few above 8 deviations. Among
--- the first 24 rows a robust deviation is of few values and may be far too small: there a spike stands out by the
--- plain deviation of the differences, too. Where the task gets harder the loss jumps as well: nothing is reported of a
--- step at which a logged stage, length or resolution changes that has stood for some rows, or in front of which the
--- log names a new stage. Nor is it where the config has a curriculum or a growth of lengths, as long as half of the
--- trailing window is of the task before: up to the steps that it names, or anywhere where it names none; and of the
--- step at which the config lets a term, a layer or another precision begin. Guesses at returns jump where new ones are
--- found: while a return gets better to the end, no jump is reported. A loss that climbs to its top over some rows and
--- stays there has not come back, however few rows are left behind the top. Rates that go round in cycles take the loss
--- up at each restart: a spike there is none. Nor is there any in a range test, whose rate rises by the same factor
--- from row to row until the loss leaves; nor in a loss with a margin, once some of its rows are exactly 0: what is
--- left is of the few examples within the margin, and has no deviation. Nor where the loss is a sum, and the tokens
--- that the recorder counts are as many times more; nor in a row that is no more than a fiftieth of the first loss, and
--- gone within five: of a task that is learned one example makes that.
---
--- ## References
--- Megatron-LM calls a loss spiky at 10 times the largest of the first 100, which misses nearly all of them.

local runs = require("runs")
local settings = require("settings")
local targets = require("targets")

local TASK = "*stage*|*phase*|*curricul*|*difficult*|*seq_len*|*seqlen*|*sequence_length*|*context_len*|*resolution*|"
  .. "*image_size*|*img_size*|*experience*|task|*/task|task_id|*/task_id|*domain*"

--- What says that the task is another one from the spike on: a scalar that has another value there than in the row
--- before, or a line of the log between the two; nil where nothing does.
local function new_task(case, run, before, spike)
  local tasks = case.scalars:where { run = run }:where("match(name, ?)", TASK)
  for name, rows in tasks:group("name") do
    local past = rows:where("step <= ?", before.step):sort("step")
    local was  = past:last()
    local is   = rows:where("step > ? and step <= ?", before.step, spike.step):sort("step"):last()
    -- A length that differs from batch to batch tells of no stage: it has to have stood for some rows.
    local kept = past:slice(math.max(0, past:count() - 32), 32)
    local changes, last = 0, nil
    for row in kept:rows() do
      if last and row.value ~= last then changes = changes + 1 end
      last = row.value
    end
    if was and is and was.value ~= is.value and 4 * changes <= kept:count() then
      return ("%s goes from %.4g to %.4g"):format(name, was.value, is.value)
    end
  end
  -- Of several logs the line of that number is the spike's where it has both of its numbers.
  local own
  for line in case.log_lines:where { line = spike.place }:slice(0, 100):rows() do
    local step, value = false, false
    for _, number in ipairs(line.text:numbers()) do
      step, value = step or number == spike.step, value or number == spike.value
    end
    if step and value then own = own or line end
  end
  if not own then return nil end
  local line = case.log_lines:where("line > ? and line < ? and source == ?", before.place, spike.place, own.source)
    :where("match(text, '*stage ?*|*Stage ?*|*STAGE ?*|*phase ?*|*Phase ?*|*PHASE ?*|*urriculum*')"):first()
  return line and "the log says: " .. line.text:trim()
end

--- What says that the run looks for a rate: a setting, or a rate that rises by the same factor from row to row over
--- more than three decades, which no schedule does to the end. Nil where nothing does.
local function range_test(case, rate)
  local set = settings.on(case.config:where("match(key, '*lr_find*|*lrfind*|*range_test*')")):first()
  if set then return set.key .. " is set" end
  if rate:count() < 24 or rate:min("value") <= 0 or rate:last().value < 1e3 * rate:first().value then return nil end
  local grows = rate:col("value"):log():diff()
  local least, most = grows:min(), grows:max()
  return least > 0 and most - least <= 0.1 * most
    and ("the rate rises by a factor of %.3g from row to row, from %.3g to %.3g"):format(math.exp(most),
      rate:first().value, rate:last().value) or nil
end

--- What says that a loss is a sum over tokens: the recorder counts them, and the loss over their number neither jumps
--- nor differs as much from row to row. Nil where it is not so.
local function of_more_tokens(case, run, loss, spike, window, sigmas)
  local counts = case.scalars:where { run = run }:where("value > 0")
  local tokens = counts:where { raw_name = "loss_tokens" }
  if tokens:count() == 0 then tokens = counts:where("match(raw_name, 'ntokens|*/ntokens|num_tokens')") end
  tokens = tokens:distinct("step"):select("step", "value")
  local per = loss:select("step", "value"):join(tokens, { "step" }):with { value = "value / value_right" }:sort("step")
  local past = per:where("step < ?", spike.step)
  past = past:slice(math.max(0, past:count() - window), window)
  local own = per:where("step == ?", spike.step):first()
  if not own or past:count() < 8 then return nil end
  local usual = past:median("value")
  local noise = (past:col("value"):diff():robust_std() or 0) / math.sqrt(2)
  return own.value <= usual + math.max(sigmas * noise, 0.1 * usual)
    and "the tokens that it is a sum of are as many times more" or nil
end

--- The step from which on one row in sixteen of a window is exactly 0; nil where there is none.
local function mostly_nothing(loss, window, every)
  local zeros, steps = loss:where("value == 0"):slice(0, 10000), {}
  local many = window // 16
  for row in zeros:rows() do
    steps[#steps + 1] = row.step
    local before = steps[#steps - many + 1]
    if before and row.step - before < window * every then return before end
  end
end

--- What few examples of a batch can add to its mean: `examples` times the loss of one of which nothing is known. Nil
--- where the size of a batch is not set.
local function of_few(case, loss, examples)
  local batch = case.config:where("match(key, '*batch_size|*batch_size_per_gpu|*micro_batch|*samples_per_gpu') and "
    .. "not match(key, '*eval*|*val_*|*test*|*infer*|*generat*') and number >= 1"):first()
  local size = targets.classes(case)
  local one  = size and math.log(size.number) or loss:slice(0, 3):median("value")
  return batch and one and one > 0 and examples * one / batch.number or nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The loss jumps far above its trailing median",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "loss-spike", "loss-spike-recovers", "spikes-repeat", "spikes-denser" },
  options  = {
    window   = { default = 64,   doc = "Rows in the trailing window" },
    sigmas   = { default = 8.0,  doc = "Robust deviations that count as a spike" },
    relative = { default = 0.10, doc = "Least rise over the trailing median, as a share of it" },
    recovery = { default = 50,   doc = "Rows after the spike in which the loss has to come back" },
    denser   = { default = 3.0,  doc = "Spikes of the last third over those of the first worth reporting" },
    solved   = { default = 0.02, doc = "Part of the first loss up to which a row is of a task that is learned" },
    examples = { default = 8,    doc = "Examples of which nothing is known that one batch may have for no reason" },
    spikes   = { default = 5,    doc = "Spikes that are many, in the run or in its last third" },
  },

  run = function(case)
    local opt, judged, sparse, longest = case.options, false, nil, 0
    local harder
    local copied = case.config:where("match(key, '*target_network*|*target_update*|*target_sync*') and number > 1")
      :first()
    local named_cyclic = case.config:where("match(key, '*sched*|*decay_style*') and match(value, '*restart*|*cycl*|"
      .. "*sgdr*|*Restart*|*Cycl*') and not match(value, '*one*cycl*|*One*Cycl*|*1cycl*')"):count() > 0
    for run_name, run in case.scalars:where { name = "loss", primary = true }:group("run") do
      local loss = run:sort("step"):where("finite(value)")
      judged  = judged or loss:count() > 8 -- a deviation needs eight values before it
      longest = math.max(longest, loss:count())
      local every = loss:count() > 1 and (loss:last().step - loss:first().step) / (loss:count() - 1) or 1
      if every >= 2 then sparse = math.max(sparse or 0, every) end
      -- Of a loss that is never 0 the logarithm tells as well: there noise that is a multiple of the loss is no jump.
      local costs = loss:count() > 0 and loss:min("value") > 0
      local few_make = costs and of_few(case, loss, opt.examples) or math.huge
      local function jumps(window)
        local values = loss:col("value")
        return loss:with { z = values:robust_z(window), usual = values:rolling(window, "median"),
          in_log = costs and values:log():robust_z(window) or values:robust_z(window) }
          :where("z > ? and value > usual * ?", opt.sigmas, 1 + opt.relative)
      end
      local short = opt.window // 4
      local rate  = runs.series(case, "lr", run_name):where("finite(value)")
      local finds = range_test(case, rate)
      local from  = mostly_nothing(loss, opt.window, math.max(1, every))
      local apart = {}
      for _, window in ipairs { opt.window, short } do
        for row in jumps(window):where("in_log > ?", opt.sigmas):slice(0, 10000):rows() do apart[row.step] = true end
      end
      --- Whether a row stands out of few rows before it, whose robust deviation may be next to nothing by chance, as
      --- that of nine is where five of them happen to be close: it has to by their differences as well.
      local function stands_out(row)
        local past = loss:where("step < ?", row.step)
        if past:count() >= short + 8 then return true end
        local spread = past:col("value"):diff():std() or 0
        return row.value - row.usual > opt.sigmas * spread / math.sqrt(2)
      end
      --- Of jumps those that are no tail of a skewed noise.
      local function kept(rows)
        local steps = {}
        for row in rows:slice(0, 10000):rows() do
          if (apart[row.step] or row.value - row.usual > few_make) and stands_out(row) then
            steps[#steps + 1] = row.step
          end
        end
        return rows:where { step = steps }
      end
      local hot  = kept(jumps(opt.window))
      -- While the loss still falls the long window's spread is that of the fall; a short one sees the noise.
      local noise = (loss:col("value"):diff():robust_std() or 0) / math.sqrt(2)
      if hot:count() == 0 and noise > 0 then
        hot = kept(jumps(short):where("value - usual > ?", 12 * noise))
      end
      if from and hot:where("step >= ?", from):count() > 0 then
        harder = harder or ("losses other than 0: from step %d on one row in sixteen has none"):format(from)
        hot = hot:where("step < ?", from)
      end
      if finds and hot:count() > 0 then
        harder = "the loss at a rate that is meant: " .. finds
        hot = hot:slice(0, 0)
      end
      local spike = hot:top(1, "z"):first()

      -- A spike may last some rows: rows within five of the one before belong to it.
      local third, few = loss:count() // 3, true
      if third >= 8 and hot:count() <= 10000 then
        local counts, last = { 0, 0, 0 }, nil
        local from2, from3 = loss:row(third).step, loss:row(2 * third).step
        for row in hot:rows() do
          if not last or row.step > last + 5 * math.max(1, (loss:last().step - loss:first().step) / loss:count()) then
            local part = row.step < from2 and 1 or row.step < from3 and 2 or 3
            counts[part] = counts[part] + 1
          end
          last = row.step
        end
        local all = counts[1] + counts[2] + counts[3]
        few = all <= 2
        if all >= opt.spikes and not copied then
          report {
            symptom  = "spikes-repeat",
            score    = 0.85,
            at       = { step = hot:sort("step"):first().step },
            message  = ("the loss spikes %d times between steps %d and %d"):format(all, hot:sort("step"):first().step,
              hot:sort("step"):last().step),
            evidence = { hot:slice(0, 8) },
          }
        end
        if third >= 32 and counts[3] >= opt.spikes and counts[3] >= opt.denser * math.max(1, counts[1])
          and counts[3] >= counts[2] then
          report {
            symptom  = "spikes-denser",
            score    = 0.85,
            at       = { step = from3 },
            message  = ("spikes of the loss become more frequent: %d, %d and %d in the thirds of the run"):format(
              counts[1], counts[2], counts[3]),
            evidence = { hot:where("step >= ?", from3):slice(0, 5) },
          }
        end
      end
      local before = spike and loss:where("step < ?", spike.step):last()
      local why = before and new_task(case, run_name, before, spike)
      -- Where the rate goes round in cycles, the loss goes up with it at each restart.
      local near = spike and rate:where("step <= ?", spike.step)
      near = near and near:slice(math.max(0, near:count() - short), short)
      local low, anew = math.huge, nil
      for row in (near or rate:slice(0, 0)):rows() do
        if row.value > 1.5 * low then anew = anew or row end
        low = math.min(low, row.value)
      end
      if anew and (named_cyclic or settings.cycles(case, rate)) then
        why = why or ("the learning rate starts anew, from %.3g to %.3g"):format(low, anew.value)
      end
      -- Rows of two kinds, with and without a rare class say, have no deviation: as high ones stand in the window.
      local past = spike and loss:where("step < ?", spike.step)
      past = past and past:slice(math.max(0, past:count() - opt.window), opt.window)
      if past and costs and past:count() >= 8 and past:quantile("value", 0.25) < 0.01 * past:quantile("value", 0.75)
        and spike.value < 3 * past:max("value") then
        why = why or ("rows before it are of two kinds, about %.2g and %.2g"):format(past:quantile("value", 0.25),
          past:quantile("value", 0.75))
      end
      local gained = spike and settings.returns_rise(case)
      if gained then why = why or gained.name .. " rises to the end, and the loss is of guesses at it" end
      if spike and copied then why = why or copied.key .. " renews its targets at intervals" end
      local stage = spike and settings.stage_before(case, loss, spike, opt.window)
      if stage then why = why or stage.key .. " makes it another one" end
      if spike then why = why or of_more_tokens(case, run_name, loss, spike, opt.window, opt.sigmas) end
      -- A loss that has come to a fiftieth of what it was and less has no noise to speak of: a row that is no larger
      -- and gone within some rows is one example of a task that is learned.
      local begin  = loss:slice(0, 3):median("value")
      local within = spike and costs and spike.value < opt.solved * begin
        and loss:where("step > ?", spike.step):slice(0, 5)
      if within and within:count() == 5 and within:min("value") <= 2 * spike.usual then
        why = why or ("it is no more than %s of the first and soon back, as of one that is learned"):format(
          units.percent(opt.solved))
      end
      if why then
        harder = ("the loss of one task: at step %d, where it jumps, %s"):format(spike.step, why)
      elseif spike then
        report {
          symptom  = "loss-spike",
          score    = math.min(0.99, 1 - 0.5 * opt.sigmas / spike.z),
          at       = { step = spike.step },
          message  = spike.z < 1e6 and ("loss jumps to %.4g at step %d, %s robust deviations above its trailing median "
            .. "of %.4g"):format(spike.value, spike.step, units.count(math.floor(spike.z)), spike.usual)
            or ("loss jumps to %.4g at step %d from %.4g, of which rows before differ by nothing"):format(spike.value,
            spike.step, spike.usual),
          evidence = { spike, loss:around(spike, 4) },
        }
        -- No surer than that it was a spike, and the less the larger rises were that the run had before.
        local rises = loss:with { rise = loss:col("value") - loss:col("value"):rolling(short, "median") }
          :where("step < ?", before and before.step or spike.step):slice(math.max(8, loss:count() // 10), loss:count())
        local like  = math.max(0, rises:max("rise") or 0) / (spike.value - spike.usual)
        local sure  = math.min(0.9, 1 - 0.5 * opt.sigmas / spike.z) * math.max(0.05, 1 - 2 * like)
        local after = loss:where("step > ?", spike.step):slice(0, opt.recovery)
        local back  = after:slice(math.min(3, after:count() // 2), opt.recovery)
        local band  = spike.usual + math.min(0.1 * (spike.value - spike.usual), 0.5 * math.abs(spike.usual))
        -- Of one that climbed to its top over some rows these are among those in which it could have come back.
        local calm_before = loss:where("step < ? and value <= ?", spike.step, band):last()
        local climbed = calm_before and loss:where("step > ? and step < ?", calm_before.step, spike.step):count() or 0
        if after:count() + climbed < 5 then skip("five losses after the spike", "loss-spike-recovers") end
        -- One batch makes one spike; what spikes again and again has another reason.
        if few and after:count() >= 5 and back:median("value") <= band then
          local calm = after:where("value <= ?", band):first()
          report {
            symptom  = "loss-spike-recovers",
            score    = sure,
            at       = { step = spike.step },
            message  = ("the loss is back at %.4g by step %d, %d step%s after the spike"):format(calm.value, calm.step,
              calm.step - spike.step, calm.step - spike.step == 1 and "" or "s"),
            evidence = { calm, after:slice(0, 5) },
          }
        end
      end
    end
    if not judged then return skip("at least 9 logged losses") end
    if copied then skip("a loss whose targets do not move: " .. copied.key .. " renews them", "spikes-repeat") end
    if harder then skip(harder, "loss-spike", "loss-spike-recovers") end
    -- A bad step between two logged ones leaves no trace, or one that a mean has flattened.
    if not sparse and longest < 24 then skip("24 logged losses", "spikes-repeat") end
    if not sparse and longest < 96 then skip("96 logged losses", "spikes-denser") end
    if sparse then skip(("the loss of every step: it is logged every %.0f"):format(sparse)) end
  end,
}
