--- ## What it detects
--- Over call stacks of the processes of a job (py-spy, faulthandler): ranks that are elsewhere than the others. Either
--- most wait in a collective or for the device and a few do not, or all wait and a few wait in another place of the
--- program.
---
--- ## Why it matters
--- In a hang the odd one out is the cause: those that wait in the collective cannot go on without it. Its stack says
--- what holds it up: the data loader, a checkpoint, a lock.
---
--- ## How to confirm
--- Take the stacks again half a minute later: in a hang they have not moved.
---
--- ## Known false positives
--- Stacks of a job that runs. Stages of a pipeline, which run different code; groups larger than a quarter of the ranks
--- are not odd.
---
--- ## References
--- ByteRobust groups stacks over ranks in the same way: https://arxiv.org/abs/2509.16293

local lists = require("lists")

local WAITS = "*distributed_c10d*|*nccl*|*rccl*|*all_reduce*|*allreduce*|*all_gather*|*allgather*|*reduce_scatter*"
  .. "|*all_to_all*|*alltoall*|*barrier*|*broadcast*|*cudastreamsynchronize*|*cudaeventsynchronize*"
  .. "|*cudadevicesynchronize*|*hipstreamsynchronize*"
  .. "|*torch/cuda*synchronize*|*_engine_run_backward*"

--- What a stack that waits for nobody does; the first that fits, from the innermost frame outwards.
local DOES = {
  { "*torch/utils/data*|*dataloader*|*multiprocessing/queues*|*datasets/*", "in the data loader" },
  { "*torch/serialization*|*checkpoint*|*safetensors*|*save_state*|*state_dict*", "in saving or loading a checkpoint" },
  { "*_inductor*|*_dynamo*|*triton/*compile*|*torch/utils/cpp_extension*", "compiling code" },
  { "*threading.py* acquire*|*threading.py* wait*|*lock*acquire*|*pthread_mutex*|*futex*|*take_gil*|*filelock*",
    "waiting for a lock" },
  { "*socket*|*ssl.py*|*requests/*|*urllib3/*|*http/client*", "in a network request" },
  { "*gc.collect*|* collect", "collecting garbage" },
}

local LIBRARY = "*site-packages/*|*dist-packages/*|*/lib/python3*|*<frozen*|torch/*"
  .. "|*.so*|*.so|*libc*|*.cpp:*|*.cc:*|*.c:*"

--- The innermost frame of the program itself, and the innermost three of all.
local function place_of(frames)
  local parts = frames:split(" < ")
  local own = parts[#parts]
  for i = #parts, 1, -1 do
    if not parts[i]:glob(LIBRARY) then
      own = parts[i]
      break
    end
  end
  return own, table.concat({ table.unpack(parts, math.max(1, #parts - 2)) }, " < "), parts
end

local function waits(parts)
  for i = #parts, math.max(1, #parts - 11), -1 do
    if parts[i]:lower():glob(WAITS) then return true end
  end
  return false
end

local function doing(parts)
  for i = #parts, math.max(1, #parts - 15), -1 do
    for _, kind in ipairs(DOES) do
      if parts[i]:lower():glob(kind[1]) then return kind[2] end
    end
  end
  return nil
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The stacks of a few ranks are elsewhere than those of the others",
  needs    = { stacks = { "frames" } },
  symptoms = { "stack-odd-on-host", "stack-odd-collective" },
  options  = {
    odd_share = { default = 0.25, doc = "Share of the ranks up to which those elsewhere are odd" },
  },

  run = function(case)
    -- One thread of each process: the main thread, as it was last seen.
    local stacks = case.stacks:where("frames is not null")
    local word, by = "rank", "rank"
    if not stacks:has("rank") then word, by = "process", stacks:has("pid") and "pid" or "source" end
    local list, processes = {}, {}
    for who, threads in stacks:group(by) do
      local main = threads:where("match(thread, 'Main*|main*')"):last() or threads:first()
      local own, inner, parts = place_of(main.frames)
      local process = { who = who, row = main, threads = threads, own = own, inner = inner, waits = waits(parts),
        does = doing(parts) }
      list[#list + 1] = who
      processes[who] = process
    end
    if #list < 2 then
      return skip("the stacks of at least two ranks: py-spy dump --pid of every rank, one file each")
    end
    table.sort(list)
    local limit = math.max(1, math.floor(case.options.odd_share * #list))

    local busy, places, order = {}, {}, {}
    for _, who in ipairs(list) do
      local process = processes[who]
      if not process.waits then
        busy[#busy + 1] = who
      else
        if not places[process.own] then
          places[process.own] = {}
          order[#order + 1] = process.own
        end
        table.insert(places[process.own], who)
      end
    end
    table.sort(order, function(a, b)
      if #places[a] ~= #places[b] then return #places[a] > #places[b] end
      return a < b
    end)
    if #order == 0 then return end
    local usual = processes[places[order[1]][1]]

    if #busy > 0 then
      if #busy > limit then return end
      local first = processes[busy[1]]
      local holder = first.threads:where("state == 'gil'"):first()
      local lock = ""
      if holder and holder.tid ~= first.row.tid then
        lock = ("; thread %s holds the interpreter lock there, in %s"):format(holder.thread or holder.tid or "?",
          (place_of(holder.frames)))
      elseif holder then
        lock = "; it holds the interpreter lock"
      end
      report {
        symptom  = "stack-odd-on-host",
        score    = #list >= 3 and 0.9 or 0.75,
        at       = { [word] = busy[1] },
        message  = ("%s %s not waiting like the %d others, which are in %s: %s %s is %s, in %s%s"):format(
          lists.counted(word, busy), #busy == 1 and "is" or "are", #list - #busy, usual.own, word, busy[1],
          first.does or "in other code", first.inner, lock),
        evidence = { first.row, usual.row },
      }
      return
    end
    local odd = {}
    for i = 2, #order do
      for _, who in ipairs(places[order[i]]) do odd[#odd + 1] = who end
    end
    table.sort(odd)
    if #odd == 0 or #odd > limit or #list < 3 then return end
    local first = processes[odd[1]]
    report {
      symptom  = "stack-odd-collective",
      score    = 0.8,
      at       = { [word] = odd[1] },
      message  = ("%s %s in %s while %d others wait in %s: they are in different parts of the program"):format(
        lists.counted(word, odd), #odd == 1 and "waits" or "wait", first.own, #places[order[1]], usual.own),
      evidence = { first.row, usual.row },
    }
  end,
}
