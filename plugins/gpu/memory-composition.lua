--- ## What it detects
--- What holds the device memory at its peak: parameters, optimizer states, gradients, activations; and whether one
--- tensor alone is a large part of it.
---
--- ## Why it matters
--- Each kind has its own remedy. Activations shrink with batch, sequence and checkpointing; parameters, gradients and
--- optimizer states only with sharding or smaller types; a single large tensor with a loss or an attention in pieces.
---
--- ## How to confirm
--- Halve the batch or the sequence: activations halve, parameters and optimizer states stay.
---
--- ## Known false positives
--- Every training run has a peak that something holds most of, so the composition is information, unless memory ran
--- out or the peak is close to the size of the device. PyTorch tells categories from the data flow of the recorded
--- steps: without a backward pass and an optimizer step in the record most of it is `unknown`, and is then not judged.
---
--- ## References
--- https://pytorch.org/blog/understanding-gpu-memory-1/

local Plural = {
  parameter = "parameters", ["optimizer-state"] = "optimizer states", input = "inputs", temporary = "temporaries",
  activation = "activations", gradient = "gradients", autograd = "autograd's own", unknown = "unknown",
}

--- Of two timelines under one rank nobody could tell whose events are whose: the second begins at 0 again.
local function from_one_file(events)
  return (events:col("place"):diff():min() or 0) >= 0
end

--- The size of the device, where it is known whose: that of the rank, or the one size that all devices have.
local function size_of(case, rank)
  local own = case.devices:where("memory > 0")
  if rank and own:where { rank = rank }:count() > 0 then own = own:where { rank = rank } end
  return own:min("memory") == own:max("memory") and own:min("memory") or nil
end

--- The largest activation or temporary that was allocated before the peak and lives at it. The timeline has no
--- addresses: as many tensors of a size live as were made more than freed.
local function largest_alive(before, floor)
  local made = before:where("action == 'alloc' and bytes >= ?", floor)
  made = made:where { category = { "activation", "temporary", "autograd" } }
  for size in made:distinct("bytes"):top(100, "bytes"):rows() do
    local born = before:where("bytes == ? and (action == 'alloc' or action == 'preexisting')", size.bytes):count()
    local died = before:where("bytes == ? and action == 'free_requested'", -size.bytes):count()
    if born > died then return made:where { bytes = size.bytes }:last() end
  end
end

local function judge(case, rank, events)
  local opt  = case.options
  local peak = events:top(1, "allocated"):first()
  if not peak or peak.allocated <= 0 then return false end
  local before = events:where("place <= ?", peak.place)
  local kinds  = before:aggregate({ "category" }, { held = "sum bytes" }):sort("-held", "category")
  local held, listed = {}, {}
  for row in kinds:rows() do
    held[row.category] = row.held
    if row.held >= opt.listed * peak.allocated then
      local name = Plural[row.category] or row.category
      listed[#listed + 1] = ("%s %s"):format(name, units.percent(row.held / peak.allocated))
    end
  end
  local function share(...)
    local sum = 0
    for _, kind in ipairs { ... } do sum = sum + (held[kind] or 0) end
    return sum / peak.allocated
  end
  if share("unknown") > opt.unknown then return false end

  local here  = { rank = rank }
  local whose = rank and (" of rank %d"):format(rank) or ""
  local size  = size_of(case, rank)
  local fails = case.errors:where { signature = "cuda-oom" }
  if rank then fails = fails:where("rank is null or rank == ?", rank) end
  local oom   = fails:count() > 0 or case.memory_events:where { action = "oom" }:count() > 0
  local large = largest_alive(before, opt.single * peak.allocated)
  local told  = ("live memory%s peaks at %s%s, of which %s"):format(whose, units.bytes(peak.allocated),
    size and (" of %s"):format(units.bytes(size)) or "", table.concat(listed, ", "))
  report {
    symptom  = "memory-composition",
    severity = "info",
    score    = 1,
    at       = here,
    message  = told .. (large and ("; one %s alone is %s, %s"):format(large.category, units.bytes(large.bytes),
      units.percent(large.bytes / peak.allocated)) or ""),
    evidence = { kinds:renamed("live memory at the peak"), peak },
  }
  local near = size and peak.allocated >= opt.near * size
  if not oom and not near then return true end

  local why = "memory ran out in this run"
  if not oom then why = ("that is %s of the device"):format(units.percent(peak.allocated / size)) end
  local function state(symptom, score, part, message, rows)
    report {
      symptom = symptom, severity = oom and "error" or "warning", score = score, share = part, at = here,
      message = ("%s; %s: %s"):format(told, why, message),
      evidence = { rows or peak, kinds:renamed("live memory at the peak") },
    }
  end
  local states = share("parameter", "gradient", "optimizer-state")
  if share("activation") >= opt.most then
    state("memory-mostly-activations", 0.9, share("activation"),
      "activations shrink with batch, sequence and checkpointing")
  end
  if states >= opt.most then
    state("memory-mostly-model-states", 0.9, states,
      ("parameters, gradients and optimizer states are %s and do not shrink with the batch")
        :format(units.percent(states)))
  end
  if large then
    state("memory-one-large-tensor", 0.85, large.bytes / peak.allocated,
      ("one %s of %s is %s of the peak, as logits over a vocabulary or the scores of an attention are")
        :format(large.category, units.bytes(large.bytes), units.percent(large.bytes / peak.allocated)), large)
  end
  -- The optimizer's step: all gradients are there, activations are gone, and temporaries as large as the parameters.
  local parameters = held.parameter or 0
  local scratch    = (held.temporary or 0) + (held.unknown or 0)
  if parameters > 0 and (held.gradient or 0) >= opt.all * parameters and scratch >= opt.all * parameters and
    scratch >= opt.scratch * peak.allocated and share("activation") < 0.1 then
    state("memory-peak-in-optimizer", 0.85, scratch / peak.allocated,
      ("the peak is in the optimizer's step, whose temporaries take %s beside %s of parameters")
        :format(units.bytes(scratch), units.bytes(parameters)))
  end
  return true
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "What holds the device memory at its peak",
  needs    = { memory_events = { "bytes", "allocated", "category" } },
  symptoms = {
    "memory-composition", "memory-mostly-activations", "memory-mostly-model-states", "memory-one-large-tensor",
    "memory-peak-in-optimizer",
  },
  options  = {
    near    = { default = 0.90, doc = "Peak over the device's memory from which on it is more than information" },
    most    = { default = 0.50, doc = "Share of the peak from which on a kind is called most of it" },
    single  = { default = 0.20, doc = "Share of the peak from which on one tensor is large" },
    unknown = { default = 0.50, doc = "Share of the peak without a category beyond which nothing is judged" },
    all     = { default = 0.80, doc = "Gradients and temporaries over parameters in an optimizer's step" },
    scratch = { default = 0.10, doc = "Share of the peak in an optimizer's temporaries worth reporting" },
    listed  = { default = 0.01, doc = "Share of the peak below which a kind is not listed" },
  },

  run = function(case)
    local events, judged, mixed = case.memory_events:where("category is not null"), false, false
    local nameless = events:where("rank is null")
    local function look(rank, rows)
      if from_one_file(rows) then
        if judge(case, rank, rows) then judged = true end
      else
        mixed = true
      end
    end
    for rank, rows in events:group("rank") do look(rank, rows) end
    if nameless:count() > 0 then look(nil, nameless) end
    if mixed then
      skip("one memory timeline a rank: name the files after their ranks, as in timeline_rank3.raw.json.gz")
    elseif not judged then
      skip("categories of the memory: record whole steps, with backward pass and optimizer, with record_shapes, "
        .. "profile_memory and with_stack, then prof.export_memory_timeline(\"x.raw.json.gz\")")
    end
  end,
}
