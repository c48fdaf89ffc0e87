--- ## What it detects
--- Targets of a forecaster that are no future: whole rows of them stand among the values that the model is given of the
--- same row, or they have the level of their past and none of its course, though each day of the past goes on from the
--- day before it.
---
--- ## Why it matters
--- A window that is cut where the past ends, and not behind it, asks for what can be read. The training loss falls
--- below what the series allow, and the forecasts of the real future are as bad as guesses.
---
--- ## How to confirm
--- Print the last values of the past and the target of one row, side by side.
---
--- ## Known false positives
--- Models that give their input back (autoencoders, imputation, masked pre-training) have targets as long as their
--- inputs or say so in the config, and are left out. So are series that repeat themselves to the last digit, or may do
--- so as soon as the past ends; targets of less than three values; those that are only in part among the inputs, as
--- where a decoder begins with some known days; and those of other names than past and future that are not as long as
--- the horizon of the config, as where each step is told by those before it. That past and future have one course is
--- asked of tensors of one name alone (`past_target`, `future_target`), and of no targets that are strides apart.
---
--- ## References
--- https://ts.gluon.ai/stable/api/gluonts/gluonts.transform.split.html (past and future of a window)

local elements = require("elements")

local TARGETS = "match(name, 'batch.*target|batch.*targets|batch.*label|batch.*labels|batch.y|batch.future_values|"
  .. "batch.future_y') and not match(name, '*past*|*mask*|*observed*')"
local GIVEN   = "not match(name, '*future*|*decoder*|*dec_*|*label*|*mask*|*observed*|*weight*|*noise*|*scale*|"
  .. "batch.y') and (match(name, '*past*') or not match(name, '*target*'))"
local ROWS, COLUMNS = 256, 16 -- of a batch and of its input, at most

--- The series that a row holds: whole, or by columns where a step has several values and the target has one.
local function series(row, width, columns)
  local out = {}
  for c = 1, columns do
    out[c] = {}
    for t = c, width, columns do out[c][#out[c] + 1] = row[t] end
  end
  return out
end

--- Where in `x` the values of `y` stand one after the other, counted from the end of `x`; nil where they do not, where
--- `y` has less than three values, or where `x` repeats itself at that distance anyway. `step` values are one moment.
local function found_at(x, y, step)
  local kinds, n = {}, 0
  for _, v in ipairs(y) do
    if v ~= v then return nil end
    if not kinds[v] then kinds[v], n = true, n + 1 end
  end
  if n < 3 then return nil end
  for from = #x - #y, 0, -step do
    local k = 1
    while k <= #y and x[from + k] == y[k] do k = k + 1 end
    if k > #y then
      local back, same = #x - from, 0
      -- A past that is one period long begins as its future does.
      if from == 0 then return nil end
      for t = back + 1, #x do if x[t] == x[t - back] then same = same + 1 end end
      if same > 0 and same >= 0.5 * (#x - back) then return nil end
      return back
    end
  end
end

--- How much neighbours agree, as a share of the variance that the past of the row has: within the past, over its end,
--- and within the future.
local function courses(x, y)
  local mean, square = 0, 0
  for _, v in ipairs(x) do mean = mean + v / #x end
  for _, v in ipairs(x) do square = square + (v - mean) ^ 2 / #x end
  if not (square > 0 and square < math.huge) then return nil end
  local past, future, spread = 0, 0, 0
  for t = 2, #x do past = past + (x[t] - mean) * (x[t - 1] - mean) / (#x - 1) / square end
  for t = 2, #y do future = future + (y[t] - mean) * (y[t - 1] - mean) / (#y - 1) / square end
  for _, v in ipairs(y) do spread = spread + (v - mean) ^ 2 / #y / square end
  return past, (y[1] - mean) * (x[#x] - mean) / square, future, spread
end

local function summary(list)
  local n, mean, square = #list, 0, 0
  for _, v in ipairs(list) do mean = mean + v / n end
  for _, v in ipairs(list) do square = square + (v - mean) ^ 2 end
  return mean, math.sqrt(square / math.max(1, n - 1) / n)
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Targets of a forecaster that are not the future of their row",
  needs    = { tensors = { "name", "data" } },
  symptoms = { "targets-among-inputs", "labels-unrelated" },
  options  = {
    share = { default = 0.1,  doc = "Share of rows whose targets are given, worth reporting" },
    rows  = { default = 64,   doc = "Rows below which the course of a series is not judged" },
    known = { default = 0.3,  doc = "Agreement of neighbours in the past from which it can be missed" },
    sure  = { default = 6,    doc = "Standard errors by which the future has less, half of it over the end" },
  },

  run = function(case)
    local opt = case.options
    local ahead = case.config:where("match(key, '*prediction_length|*pred_len|*pred_length|*forecast_length|"
      .. "*forecast_horizon|*horizon|*output_chunk_length|*n_ahead|*steps_ahead') and number > 0"):first()
    local gives_back = case.config:where("match(key, '*imput*|*reconstruct*|*autoencod*|*mask_ratio*|*masking_ratio*')")
      :where("number > 0 or number is null and value not in ('false', 'False', 'none', 'None', 'null', '')"):first()
    if gives_back then
      return skip("targets that are not the inputs by design: the config has " .. gives_back.key)
    end
    local floats = case.tensors:where("match(name, 'batch.*') and match(dtype, 'float*|bfloat*') and numel >= 8 and "
      .. "zero_share is not null and step is not null")
    local targets = floats:where(TARGETS):sort("step"):slice(0, 64)
    local rows, hits, at, example = 0, 0, {}, nil
    local past, seam, future, spread, pair = {}, {}, {}, {}, nil
    for target in targets:rows() do
      local shape = target.shape or {}
      local lines = math.floor(shape[1] or 0)
      local width = lines > 0 and target.numel // lines or 0
      local here  = floats:where { run = target.run, step = target.step, variant = target.variant }
      local given = here:where(GIVEN):slice(0, 12)
      local seen  = here:where("match(name, '*future*observed*')"):where { numel = target.numel }:first()
      for input in (#shape >= 2 and width >= 3 and given or given:slice(0, 0)):rows() do
        local own   = input.shape or {}
        local long  = lines > 0 and own[1] == lines and input.numel // lines or 0
        local named = target.name:glob("*future*") and input.name:glob("*past*")
        local deep  = #own == 3 and math.floor(own[3]) or 1
        local steps = #shape == 3 and math.floor(shape[3]) or 1
        -- One value a moment is sought in each column; several as they stand.
        local columns = steps == 1 and deep <= COLUMNS and deep or 1
        -- Targets that are the inputs from some step on are those of a model that tells each step by those before it.
        local horizon = ahead and width // steps == ahead.number
        if (named or horizon) and #own >= 2 and #own <= 3 and long // columns > width and long <= 16384
          and (columns > 1 or deep == steps) then
          local same = target.name:replace("future", "") == input.name:replace("past", "") and deep == 1
          for row = 0, math.min(lines, ROWS) - 1 do
            local y = elements.of(target, row * width, width)
            local list = series(elements.of(input, row * long, long), long, columns)
            local back
            for _, x in ipairs(list) do back = back or found_at(x, y, steps) end
            if same or not here:where(GIVEN):where { name = target.name:replace("future", "past") }:first() then
              rows = rows + 1
            end
            if back then
              hits, at[back // steps] = hits + 1, (at[back // steps] or 0) + 1
              example = example or { target = target, input = input }
            end
            local all = true
            local counts = seen and elements.of(seen, row * width, width) or {}
            for _, v in ipairs(counts) do all = all and v ~= 0 end
            if same and all and width >= 4 then
              local a, b, c, d = courses(list[1], y)
              if a and d == d and d < math.huge then
                past[#past + 1], seam[#seam + 1], future[#future + 1], spread[#spread + 1] = a, b, c, d
                pair = { target = target, input = input }
              end
            end
          end
        end
      end
    end
    if rows == 0 then
      return skip("a dumped batch of a forecaster: float targets of three values a row beside a longer past")
    end
    local most, distance = 0, nil
    for back, n in pairs(at) do if n > most then most, distance = n, back end end
    if most >= math.max(4, opt.share * rows) and most >= 0.9 * hits then
      local steps = #example.target.shape == 3 and example.target.shape[3] or 1
      local width = example.target.numel // example.target.shape[1] // steps
      return report {
        symptom  = "targets-among-inputs",
        score    = 0.97,
        at       = { step = example.target.step, name = example.target.name },
        message  = ("in %d of %d dumped rows the %d values of %s stand in %s of the same row, %d before its end%s: "
          .. "they are not the future"):format(most, rows, width, example.target.name, example.input.name, distance,
          distance == width and ", its last ones" or ""),
        evidence = { example.target, example.input },
      }
    end
    local apart = case.config:where("match(key, '*stride*|*horizons*|*lead_time*|*gap') and "
      .. "(number > 1 or number is null)"):first()
    if apart then
      return skip("targets that go on where their past ends: the config has " .. apart.key, "labels-unrelated")
    end
    if #past < opt.rows then
      return skip(("%d rows of past and future of one name"):format(opt.rows), "labels-unrelated")
    end
    local before, over, after = summary(past), { summary(seam) }, { summary(future) }
    table.sort(spread)
    local size = spread[(#spread + 1) // 2]
    if before >= opt.known and size >= 0.25 and size <= 4 and over[1] <= 0.25 * before and after[1] <= 0.25 * before
      and over[1] + 0.5 * opt.sure * over[2] < before and after[1] + opt.sure * after[2] < before then
      report {
        symptom  = "labels-unrelated",
        score    = 0.9,
        at       = { step = pair.target.step, name = pair.target.name },
        message  = ("%s has the level and the spread of %s, and not its course: neighbours agree by %.2f of the "
          .. "variance there, by %.2f in the targets and by %.2f over the end (%d dumped rows), as if they were drawn "
          .. "at random"):format(pair.target.name, pair.input.name, before, after[1], over[1], #past),
        evidence = { pair.target, pair.input },
      }
    end
  end,
}
