--- ## What it detects
--- How much key-value cache one token takes by the model's config, how many tokens the device has room for, and whether
--- the requests on record need more: preemptions and a cache that stays full, or out of memory.
---
--- ## Why it matters
--- The cache decides how many requests run at once. A limit on the context of one request is no limit on their sum.
---
--- ## How to confirm
--- Send one of the long requests alone, and then as many at once as ran before the first preemption.
---
--- ## Known false positives
--- Latent attention (DeepSeek's MLA), sliding windows and state-space layers keep less than the formula says; where the
--- config names one nothing is computed from it. A full cache without waiting or preempted requests is a cache well
--- used.
---
--- ## References
--- Kwon et al. (2023), Efficient Memory Management for Large Language Model Serving with PagedAttention:
--- https://arxiv.org/abs/2309.06180
--- https://docs.vllm.ai/en/latest/configuration/optimization.html#preemption

local ROWS = 10000

--- The first of the keys (globs) whose value is a number.
local function number(case, ...)
  for _, key in ipairs { ... } do
    local row = case.config:where("match(key, ?) and number is not null", key):first()
    if row then return row.number, row end
  end
end

local function text(case, ...)
  for _, key in ipairs { ... } do
    local row = case.config:where("match(key, ?) and value is not null", key):first()
    if row then return row.value:lower() end
  end
end

--- Bytes of an element of the cache, and of a weight.
local function bytes_of(name, default)
  if not name then return default end
  if name:contains("fp8") or name:contains("float8") or name:contains("int8") or name:contains("q8") then return 1 end
  if name:contains("16") or name:contains("half") then return 2 end
  if name:contains("32") or name == "float" then return 4 end
  return default
end

--- What one token takes in the cache: bytes, and how they come about; nil with what is missing.
local function cache_of_token(case)
  if case.config:where("match(key, '*kv_lora_rank') and number > 0"):first()
    or case.config:where("match(key, '*model_type') and match(value, '*mamba*|*rwkv*|*jamba*')"):first()
    or (number(case, "sliding_window", "text_config.sliding_window") or 0) > 0
      and text(case, "use_sliding_window") ~= "false" then
    return nil, "a model whose layers keep keys and values: this one keeps less"
  end
  local layers = number(case, "num_hidden_layers", "n_layer", "n_layers", "text_config.num_hidden_layers",
    "gguf.*.block_count")
  local heads  = number(case, "num_attention_heads", "n_head", "text_config.num_attention_heads",
    "gguf.*.attention.head_count")
  local kv     = number(case, "num_key_value_heads", "text_config.num_key_value_heads",
    "gguf.*.attention.head_count_kv") or heads
  local hidden = number(case, "hidden_size", "n_embd", "text_config.hidden_size", "gguf.*.embedding_length")
  local width  = number(case, "head_dim", "text_config.head_dim", "gguf.*.attention.key_length")
    or hidden and heads and hidden / heads
  if not (layers and kv and width) then
    return nil, "the model's config.json or GGUF: layers, key-value heads and their width"
  end
  local asked = text(case, "*kv_cache_dtype", "*cache_dtype", "*cache_type_k")
  if asked == "auto" then asked = nil end
  local size = bytes_of(asked or text(case, "torch_dtype", "dtype", "text_config.torch_dtype"), 2)
  return 2 * layers * kv * width * size, ("2 x %d layers x %d key-value heads x %d x %s"):format(layers, kv, width,
    units.plural(size, "byte")), layers, kv
end

--- Tokens the cache has room for by the engine's own log: vLLM's "GPU KV cache size: 37,008 tokens" or its blocks of
--- 16.
local function told_room(case)
  local line = case.log_lines:where("contains(text, 'KV cache size:') and contains(text, 'tokens')"):first()
  if line then
    local figures = line.text:sub(line.text:index("KV cache size:")):replace(",", ""):numbers()
    if figures[1] then return figures[1], line end
  end
  line = case.log_lines:where("contains(text, '# GPU blocks:') or contains(text, '# cuda blocks:')"):first()
  if line then
    local at = line.text:index("blocks:")
    local figures = line.text:sub(at):replace(",", ""):numbers()
    if figures[1] then return figures[1] * (number(case, "*block_size") or 16), line end
  end
end

--- Most tokens that requests on record held at once, and how many requests: swept over arrivals and ends.
local function largest_load(case)
  local rows = case.requests:where("at is not null and latency > 0 and prompt_tokens > 0")
  if rows:has("hop") then rows = rows:where { hop = rows:first().hop or "client" } end
  if rows:count() < 2 or rows:count() > ROWS or rows:has("weight") then return end
  local events = {}
  for row in rows:rows() do
    local tokens = row.prompt_tokens + (row.completion_tokens or 0)
    table.insert(events, { at = row.at, tokens = tokens, n = 1 })
    table.insert(events, { at = row.at + row.latency, tokens = -tokens, n = -1 })
  end
  table.sort(events, function(a, b) return a.at < b.at or a.at == b.at and a.n < b.n end)
  local now, n, most, with = 0, 0, 0, 0
  for _, event in ipairs(events) do
    now, n = now + event.tokens, n + event.n
    if now > most then most, with = now, n end
  end
  return most, with, rows:top(3, "prompt_tokens")
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Requests need more key-value cache than there is room for",
  needs    = { any = { counters = { name = { "kv_cache_util", "preemptions" } }, requests = { "prompt_tokens" },
    log_lines = { "text" } } },
  symptoms = { "kv-cache-exhausted", "kv-cache-demand-exceeds-room", "kv-cache-room" },
  options  = {
    full  = { default = 95,  doc = "Percent of the cache in use that count as full" },
    usage = { default = 0.9, doc = "Share of a device's memory that weights and cache may take (vLLM's default)" },
  },

  run = function(case)
    local opt = case.options
    local used    = case.counters:where("name == 'kv_cache_util'")
    local waiting = case.counters:where("name == 'requests_waiting' and value > 0")
    local preempt = case.counters:where("name == 'preemptions'")
    local lines   = case.log_lines:where("contains(text, 'preempted') and contains(text, 'KV cache') "
      .. "or contains(text, 'PreemptionMode') or contains(text, 'KV cache pool is full')")
    local each, how, layers = cache_of_token(case)
    local room, source = told_room(case)
    local device = case.devices:where("memory > 0"):first()
    local asked  = number(case, "*gpu_memory_utilization", "*mem_fraction_static") or opt.usage
    local serves = room or case.requests:count() + used:count() + preempt:count() + lines:count() > 0
      or number(case, "*max_model_len", "*gpu_memory_utilization", "*mem_fraction_static")
    if not serves then return skip("a server: its log, its settings or its requests") end
    if not room and each and device then
      -- Weights by the dumped index or GGUF, where there is one.
      local held = case.tensors:where("match(role, 'weight') and numel > 0")
      local elements = held:sum("numel")
      local ranks = number(case, "*tensor_parallel_size") or 1
      if elements > 0 then
        local size = bytes_of(held:first().dtype, 2)
        room = math.max(0, math.floor((device.memory * asked * ranks - elements * size) / each))
      end
    end
    local needed, with, longest = largest_load(case)
    local limit = number(case, "*max_model_len", "*max_seq_len", "*max_total_tokens")
    local figure = each and ("a token takes %s (%s)"):format(units.bytes(each), how) or nil
    local have = room and ("the cache has room for %s tokens%s"):format(units.count(math.floor(room)),
      each and (", %s"):format(units.bytes(room * each)) or "")

    local full = used:where("value >= ?", opt.full)
    local grew = preempt:count() > 1 and preempt:max("value") > preempt:min("value") and preempt:max("value")
      - preempt:min("value") or preempt:max("value") or 0
    if lines:count() > 0 or grew > 0 and full:count() > 0 or full:count() >= 3 and waiting:count() >= 3 then
      local running = case.counters:where("name == 'requests_running'")
      local parts = {}
      if used:count() > 0 then
        table.insert(parts, ("the cache is %s %% full at most"):format(units.number(used:max("value"), 3)))
      end
      if grew > 0 then
        table.insert(parts, ("%s counted"):format(units.plural(math.floor(grew), "preemption")))
      end
      if lines:count() > 0 then
        table.insert(parts, ("%s of preemption"):format(units.plural(lines:count(), "line")))
      end
      if running:count() > 0 then
        table.insert(parts, ("up to %s running"):format(units.plural(math.floor(running:max("value")), "request")))
      end
      if waiting:count() > 0 then
        table.insert(parts, ("%d waiting"):format(math.floor(waiting:max("value"))))
      end
      table.insert(parts, have or nil)
      table.insert(parts, figure or nil)
      report {
        symptom = "kv-cache-exhausted", score = (lines:count() > 0 or grew > 0) and 0.97 or 0.8,
        message = table.concat(parts, "; "),
        evidence = { lines:slice(0, 3), full:slice(0, 3), source },
      }
    end
    if room and needed and needed > room then
      report {
        symptom = "kv-cache-demand-exceeds-room", score = source and 0.95 or 0.8,
        message = ("%s at once hold %s tokens, and %s: %.1f times as much as there is; %s"):format(
          units.plural(with, "request"), units.count(math.floor(needed)), have, needed / math.max(room, 1),
          figure or "what a token takes is not known without the model's config"),
        evidence = { longest, source or device },
      }
    elseif room then
      report {
        symptom = "kv-cache-room", score = 0.5, severity = "info",
        message = ("%s%s%s%s"):format(have, figure and "; " .. figure or "", limit and limit > 0
          and ("; %s requests of the whole context of %s fit at once"):format(units.number(math.floor(10 * room /
            limit) / 10, 3),
          units.count(math.floor(limit))) or "", needed and ("; the requests on record hold %s at most"):format(
          units.count(math.floor(needed))) or ""),
        evidence = { source or device },
      }
    elseif used:count() == 0 and preempt:count() == 0 then
      skip(each and
        "the engine's start-up log (KV cache size), or the device's memory and the weights, beside the config"
        or how .. "; or the engine's log with its cache usage")
    end
  end,
}
