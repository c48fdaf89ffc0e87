--- ## What it detects
--- Known errors in text logs: out of memory, illegal accesses, device-side assertions, collective timeouts and
--- mismatches, driver and library mismatches, and others. Events of the driver (Xid, SXid) are those of `logs/xid`.
---
--- What part an error has in the failure decides how much it counts (`role` and `aftermath` of `errors`): the first
--- one of a failure in full; what came of it, such as the timeouts of all other ranks, as a note; one that the run went
--- on after, little.
---
--- ## Why it matters
--- The first error is usually the cause and the last one in the file a consequence: a rank dies, and all others time
--- out. An error that training went on after is not why it ended.
---
--- Kernels run asynchronously. An illegal access is noticed by a later call, whose stack is printed, and that call is
--- not at fault; only `CUDA_LAUNCH_BLOCKING=1` makes the two the same. A core dump of the device names the kernel.
---
--- ## How to confirm
--- Read the lines around the first one, on the rank that logged it first. For an asynchronous CUDA error run again with
---
---     export CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_COREDUMP_SHOW_PROGRESS=1
---     export CUDA_COREDUMP_FILE=/tmp/cuda_core_%h.%p.%t
---     FLAGS=skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory
---     export CUDA_COREDUMP_GENERATION_FLAGS=$FLAGS
---
--- and look at the dump with `cuda-gdb -ex 'target cudacore /tmp/cuda_core_...'`; or run the smallest failing case
--- under `compute-sanitizer --tool memcheck`.
---
--- ## Known false positives
--- Lines that quote an error, such as documentation in a log. Settings that merely name one (`nccl_timeout=1800`) and
--- counts of zero (`nan encountered 0 times`) are not taken. "No space left on device" of NCCL's segments is /dev/shm,
--- not a disk. Weights of a head that another task has not are told, and count little.
---
--- ## References
--- CUDA-GDB, GPU core dumps: https://docs.nvidia.com/cuda/cuda-gdb/index.html,
--- https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__COREDUMP.html

local DUMP = "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_COREDUMP_SHOW_PROGRESS=1 "
  .. "CUDA_COREDUMP_FILE=/tmp/cuda_core_%h.%p.%t CUDA_COREDUMP_GENERATION_FLAGS='skip_nonrelocated_elf_images,"
  .. "skip_global_memory,skip_shared_memory,skip_local_memory'"

-- Errors of kernels, which a later call reports.
local ASYNCHRONOUS = { ["illegal-access"] = true, ["device-assert"] = true, ["index-out-of-bounds"] = true }

-- Errors that speak of another process.
local OF_OTHERS = { ["nccl-timeout"] = true, ["nccl-network"] = true, ["rdma-error"] = true, ["rank-exited"] = true }

-- States and no events: they last, and the first word of them tells when they began.
local LASTING = { ["nan-detected"] = true }

-- What these say stands behind a long beginning.
local LONG = { ["checkpoint-shape"] = 300, ["keys-mismatch"] = 300 }

-- How a run was ended from outside, by the code of the row.
local ENDED = {
  ["time-limit"]   = "the scheduler ended the job: its time limit was reached",
  preemption       = "the scheduler took the nodes for another job (preemption)",
  requeue          = "the scheduler put the job back into its queue",
  ["node-failure"] = "the scheduler lost a node of the job",
  cancelled        = "the scheduler cancelled the job or step; by whom and why is in its records (sacct, scontrol)",
  eviction         = "the node evicted the pod: a resource ran low",
  ["1"]            = "SIGHUP: the terminal or connection that it was started from was closed (start it with nohup, "
    .. "tmux or a scheduler)",
  ["2"]            = "SIGINT: somebody pressed Ctrl-C",
  ["15"]           = "SIGTERM came from outside: a scheduler, the container's runtime or a user",
}

-- The kernel's, a container's or a scheduler's own word for memory; else only the signal is known.
local BY_KERNEL = "*oom-kill*|*oomkill*|*OOMKill*|*OOM Kill*|*ut of memory*|*ut-of-memory*|*total-vm*"

-- The signals that end a process from inside.
local SIGNALS = { ["11"] = "SIGSEGV, an access outside of its memory", ["4"] = "SIGILL, an instruction that this "
  .. "processor lacks", ["8"] = "SIGFPE, an arithmetic error" }

-- The device that is full is the shared memory of the node or container: of NCCL's segments the line names the source.
local SHARED_MEMORY = "*/dev/shm*|*nccl-shm*|*shm.h:*|*shmutils.cc:*|*posix_fallocate*"

-- Weights of heads, which a checkpoint has for its own task and a model of another task has not.
local HEADS = "cls.*|*.cls.*|*pooler.*|*lm_head*|*classifier*|score.*|qa_outputs.*|*predictions.*|*_head.*|"
  .. "sequence_summary.*|logits_proj.*|vocab_*"

-- How much an error says, the most telling first: which rows, score and severity, of warnings as well.
local TIERS = {
  { rows = "(role is null or role == 'initiating') and (aftermath is null or aftermath == 'terminal')",
    score = 0.95, severity = "error", warning = 0.6 },
  { rows = "(role is null or role == 'initiating') and aftermath == 'recovered'",
    score = 0.5, severity = "warning", warning = 0.6, note = "the run was started again or tried again afterwards" },
  { rows = "(role is null or role == 'initiating') and aftermath == 'progressed'",
    score = 0.3, severity = "info", warning = 0.6, note = "the run went on afterwards" },
  { rows = "role == 'cascade' or role == 'teardown'", score = 0.1, severity = "info", warning = 0.1 },
  { rows = "role == 'advice'", score = 0.1, severity = "info", warning = 0.1, note = "advice" },
}

-- A server outlives the requests that it fails; there, going on says little.
local SERVED = { score = 0.9, severity = "error", warning = 0.6, note = "the server went on afterwards" }

local function most_telling(errors, serving)
  for i, tier in ipairs(TIERS) do
    local rows = errors:where(tier.rows)
    if rows:count() > 0 then return serving and (i == 2 or i == 3) and SERVED or tier, rows end
  end
  return TIERS[1], errors
end

-- Whether a list of weights, as transformers prints it, is whole and has heads alone.
local function heads_alone(message)
  local open = message:index("['")
  local close = open and message:index("']", open)
  if not close then return false end
  for _, name in ipairs(message:sub(open + 2, close - 1):split("', '")) do
    if not name:glob(HEADS) then return false end
  end
  return true
end

-- Of what is said about names that differ the row that says most, and how much, if it is a warning: a head that the
-- checkpoint has besides belongs to another task, and one that is drawn anew is missing until it is trained.
local function names_that_differ(rows, trained)
  local heads, new
  for row in rows:slice(0, 100):rows() do
    if row.type ~= "warning" or not heads_alone(row.message or "") then return row, 0.85 end
    heads = heads or row
    new = new or not (row.message or ""):contains("were not used") and row
  end
  if new and not trained then return new, 0.4 end
  return heads, 0.1
end

-- What the text of PyTorch says is free on the device, in bytes.
local function free_of(row)
  local text = row.message or ""
  local from = text:index("of which ")
  local to = from and text:index(" is free", from)
  if not to then return nil end
  local said = text:sub(from + 9, to - 1)
  local number = said:numbers()[1]
  local unit = ({ GiB = 1 << 30, MiB = 1 << 20, KiB = 1 << 10, bytes = 1 })[said:split(" ")[2] or ""]
  return number and unit and number * unit
end

local function clock(seconds)
  local day = seconds % 86400
  return ("%02d:%02d:%04.1f"):format(math.floor(day / 3600), math.floor(day / 60) % 60,
    math.floor(day % 60 * 10) / 10)
end

-- An error's text on one line: without the advice that CUDA's errors carry and the watchdog's words before them.
local function text_of(row)
  local text = row.message or ""
  local advice = text:index("\nCUDA kernel errors")
  if advice then text = text:sub(1, advice - 1) end
  local behind = text:index("terminated with exception: ")
  if behind then text = "watchdog: " .. text:sub(behind + #"terminated with exception: ") end
  text = text:replace("\n", " "):replace("\t", " ")
  while text:contains("  ") do text = text:replace("  ", " ") end
  if text:starts_with(" ") then text = text:sub(2) end
  if text == "" or text:starts_with("===") then text = row.type or "an error" end
  return text
end

-- Where an exception was raised, and who called that: the innermost of the frames says most.
local function place_of(frames)
  local list = frames:split(" < ")
  local place = string.sub(list[#list], 1, 120)
  if #list > 1 then place = place .. ", called from " .. string.sub(list[#list - 1], 1, 120) end
  return place
end

local function name_of(row)
  return row.signature or row.type or "an error"
end

local function with_source(errors, row)
  return errors:where("source == ?", row.source)
end

local function times(errors)
  return errors:count() + errors:sum("repeats")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Known errors in the logs",
  needs    = { log_lines = { "text" } },
  symptoms = {
    "log-cuda-oom", "log-oom-fragmented", "log-host-oom", "log-illegal-access", "log-device-assert",
    "log-index-out-of-bounds", "log-nccl-timeout", "log-nccl-mismatch", "log-nccl-network", "log-rank-exited",
    "log-xid", "log-ecc", "log-nvlink", "log-driver-too-old", "log-arch-missing", "log-library-mismatch",
    "log-shm-exhausted", "log-port-in-use", "log-fork-after-cuda", "log-nan-detected", "log-shape-mismatch",
    "log-keys-mismatch", "log-checkpoint-corrupt", "log-recompile-limit", "log-unused-parameters",
    "log-sequence-too-long", "log-padding-side", "log-file-descriptors", "log-profiler-permission",
    "log-uncaught-exception", "log-terminated", "log-native-crash", "log-disk-full", "log-kv-cache-no-room",
    "log-cuda-library", "log-checkpoint-shape", "log-driver-mismatch", "log-rdma-error",
  },
  options  = {
    fragmented = { default = 0.10, doc = "Reserved but unallocated share of the device that means fragmentation" },
  },

  run = function(case)
    local own     = case.errors:where("type is null or (type != 'Xid' and type != 'SXid')")
    local starts  = own:where("role == 'initiating'")
    local unknown = own:where("signature is null and (type is null or (type != 'warning' and type != 'NCCL'))")

    local serving = case.requests:count() > 0 and case.scalars:count() == 0

    -- Whether the stack of an asynchronous error is that of the call at fault.
    local blocking = case.config:where("match(key, '*CUDA_LAUNCH_BLOCKING*|*cuda_launch_blocking*') and value == '1'")
      :count() > 0
      or case.log_lines:where("match(text, '*CUDA_LAUNCH_BLOCKING=1*|*CUDA_LAUNCH_BLOCKING: 1*|"
        .. "*CUDA_LAUNCH_BLOCKING?: ?1?*') and not match(text, '*passing CUDA*|*try *|*consider*|*debugging*')")
        :count() > 0

    -- When an error happened: by its own stamp, or by the last one before it in its log.
    local function time_of(row)
      if row.wall_time then return row.wall_time end
      local before = case.log_lines:where("source == ? and line <= ? and wall_time is not null", row.source or "",
        row.line or 0):last()
      return before and before.wall_time
    end

    -- "rank 3 first, 12:04:05.2; 7 other ranks followed within 622 s": only where the record has one failure.
    local function who_first(first)
      if first.role ~= "initiating" or starts:count() > 1 then return "" end
      local followers = own:where("role == 'cascade'")
      local others = followers:where("rank is not null")
      if first.rank then others = others:where("rank != ?", first.rank) end
      local ranks = others:distinct("rank"):count()
      if ranks == 0 then return "" end
      local at = time_of(first)
      local last = others:max("wall_time")
      local dated = at and at > 31622400
      if not first.rank and not dated then return "" end
      return ("; %sfirst%s, %s followed%s"):format(first.rank and ("rank %d "):format(first.rank) or "",
        dated and (first.wall_time and ", " or ", about ") .. clock(at) or "",
        units.plural(ranks, "other rank"),
        dated and last and last >= at and (" within %s s"):format(units.number(last - at, 3)) or "")
    end

    local function start_of(row)
      return with_source(starts, row):where("line < ?", row.line or 0):last() or starts:first()
    end

    -- What a consequence came of.
    local function came_of(row)
      if row.role == "teardown" then return "; said while the run was ending" end
      if row.signature == "terminated" and start_of(row) and start_of(row).signature == "terminated" then return "" end
      if row.role ~= "cascade" then return "" end
      local start = start_of(row)
      if not start then return "; a consequence of what another process met" end
      return ("; came after %s%s (line %d%s)"):format(name_of(start),
        start.rank and (" on rank %d"):format(start.rank) or "", start.line or 0,
        start.source ~= row.source and start.source and " of " .. start.source or "")
    end

    local function asynchronous(row)
      if not ASYNCHRONOUS[row.signature or ""] or row.type == "compute-sanitizer" then return "" end
      if blocking then return "; CUDA_LAUNCH_BLOCKING=1 was set, so the stack is that of the call at fault" end
      local where = row.frames and ("%s is where it surfaced, not where it happened"):format(
        row.frames:split(" < ")[#row.frames:split(" < ")])
        or "the call that reports it is not the one at fault"
      return ("; kernels run asynchronously: %s. Run again with %s, then cuda-gdb -ex 'target cudacore FILE'")
        :format(where, DUMP)
    end

    -- What no signature knows still ended the run, unless it was only a warning.
    if unknown:count() == 0 then
      unknown = own:where("signature is null and type == 'NCCL'")
    end
    if unknown:count() > 0 then
      local tier, rows = most_telling(unknown, serving)
      local final = rows:where("role == 'initiating'"):last() or rows:last()
      local led = final.role == "initiating"
        and with_source(unknown, final):where("role == 'cascade' and line > ?", final.line or 0):last()
      report {
        symptom  = "log-uncaught-exception",
        score    = math.min(0.9, tier.score),
        severity = tier.severity,
        at       = { source = final.source, line = final.line, rank = final.rank },
        message  = ("%s%s%s%s%s%s%s"):format(final.type and final.message and not final.message:starts_with(final.type)
          and final.type .. ": " or "",
          string.sub(final.message or final.type or "an error", 1, 200),
          final.frames and (", raised at " .. place_of(final.frames)) or "",
          led and ("; it led to %s: %s"):format(led.type or "an error", string.sub(led.message or "", 1, 100)) or "",
          rows:count() > 1 and ("; the last of %d such errors"):format(times(rows)) or "",
          who_first(final) .. came_of(final), tier.note and "; " .. tier.note or ""),
        evidence = led and { final, led } or { final },
      }
    end

    for signature, errors in own:where("signature is not null"):group("signature") do
      local shared = signature == "disk-full" and errors:where("match(message, ?)", SHARED_MEMORY) or nil
      if shared and shared:count() > 0 then
        local disk = errors:where("not match(message, ?)", SHARED_MEMORY)
        if disk:count() > 0 then
          errors = disk
        else
          signature = "shm-exhausted"
        end
      end
      local tier, rows = most_telling(errors, serving)
      if LASTING[signature] then
        local all = errors:where("role is null or role == 'initiating'")
        rows = all:count() > 0 and all or rows
      end
      local first = rows:where("role == 'initiating'"):first() or rows:first()
      -- Who ended the run may say why only in a later line.
      if signature == "terminated" and first.role == "initiating" then
        first = errors:where("type == 'scheduler' and code != 'cancelled'"):first() or first
      end
      local named = errors:where("rank is not null")
      local ranks = named:distinct("rank"):count()
      local warning = first.type == "warning"
      if signature == "keys-mismatch" then
        local sure
        first, sure = names_that_differ(rows, case.scalars:count() > 0)
        warning = first.type == "warning"
        if warning then tier = { score = sure, severity = sure > 0.1 and "error" or "info", warning = sure } end
      end
      -- A tokenizer says so of texts that are cut or packed afterwards; a row as long in the model ends in an index
      -- that is out of range, and training that went on without one had none.
      if signature == "sequence-too-long" and warning and case.scalars:where { name = "loss" }:count() > 0
        and own:where("signature == 'index-out-of-bounds' or signature == 'device-assert'"):count() == 0 then
        tier = { score = 0.1, severity = "info", warning = 0.1 }
      end
      -- Raised while an exception was handled of which nothing is known: what is known says more.
      if first.role == "cascade" and not OF_OTHERS[signature] then
        local start = start_of(first)
        if start and not start.signature then tier = { score = 0.9, severity = "error", warning = 0.6 } end
      end
      local count, lead = times(errors), who_first(first)
      local also = ""
      if signature == "terminated" and ENDED[first.code or ""] then
        also = "; " .. ENDED[first.code]
      elseif signature == "native-crash" and SIGNALS[first.code or ""] then
        also = ("; native code died of %s; Python shows no traceback for it (PYTHONFAULTHANDLER=1, a core dump)")
          :format(SIGNALS[first.code])
      elseif signature == "host-oom" and first.type == "signal" and not first.message:glob(BY_KERNEL) then
        also = "; killed by SIGKILL, which leaves no message: mostly the kernel for memory (dmesg says so), else a "
          .. "scheduler or a launcher"
      end
      report {
        symptom  = "log-" .. signature,
        -- A warning that the run went on after says less than the error that ended it.
        score    = warning and tier.warning or tier.score,
        severity = warning and tier.severity == "error" and "warning" or tier.severity,
        at       = { source = first.source, line = first.line, rank = first.rank },
        message  = ("%s%s%s%s%s%s%s%s"):format(string.sub(text_of(first), 1, LONG[signature] or 160),
          count > 1 and (" (%s times)"):format(units.count(count)) or "",
          ranks > 1 and (lead ~= "" and " on %d ranks" or " on %d ranks, first on rank %d"):format(ranks,
            named:first().rank) or "",
          lead, came_of(first), asynchronous(first), also, tier.note and not warning and "; " .. tier.note or ""),
        evidence = { rows:slice(0, 10) },
      }
      if signature == "cuda-oom" then
        local loose = errors:where("reserved_unallocated is not null and capacity > 0")
          :with { share = "reserved_unallocated / capacity" }:top(1, "share"):first()
        if loose and loose.share >= case.options.fragmented then
          report {
            symptom  = "log-oom-fragmented",
            score    = 0.85,
            at       = { source = loose.source, line = loose.line },
            message  = ("%s of the device (%s) is reserved but unallocated while %s cannot be found")
              :format(units.percent(loose.share),
              units.bytes(loose.reserved_unallocated), loose.bytes and units.bytes(loose.bytes) or "the request"),
            evidence = { loose },
          }
        else
          -- A segment of the allocator is 20 MiB at least; twice that is there, and still the request fails.
          for row in errors:where("bytes > 0"):slice(0, 20):rows() do
            local free = free_of(row)
            if free and free >= 2 * math.max(row.bytes, 20 << 20) then
              report {
                symptom  = "log-oom-fragmented",
                score    = 0.6,
                at       = { source = row.source, line = row.line },
                message  = ("%s cannot be found while %s are free on the device: in pieces, or kept by another limit")
                  :format(units.bytes(row.bytes), units.bytes(free)),
                evidence = { row },
              }
              break
            end
          end
        end
      end
    end
  end,
}
