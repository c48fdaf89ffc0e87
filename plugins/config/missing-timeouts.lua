--- ## What it detects
--- Requests that hang (minutes for a few tokens, or no end at all) beside a configuration of the client or server that
--- sets no time limit, or switches it off.
---
--- ## Why it matters
--- A request without a limit holds its connection, its slot in the batch and its cache until somebody restarts the
--- client. A few of them stop a service that has room for all others.
---
--- ## How to confirm
--- Set a limit of some times the 99th percentile of sound answers at the client and send the same requests: the ones
--- that hang now fail by name.
---
--- ## Known false positives
--- Long answers: at five tokens a second or more a request is at work, however long it takes. Batch jobs without a
--- user.
---
--- ## References
--- https://github.com/openai/openai-python#timeouts (10 minutes by default)

local CLIENT = "model|*.model|model_name|base_url|*.base_url|api_base|*.api_base|endpoint|*.endpoint|temperature|"
  .. "*.temperature|max_tokens|*.max_tokens|max_retries|*.max_retries|max_num_seqs|gpu_memory_utilization|"
  .. "served_model_name|port|host"
local LIMITS = "*timeout*|*deadline*|*max_request_time*|*time_limit*"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Requests hang and no time limit is set",
  needs    = { requests = {}, config = { "key", "value" } },
  symptoms = { "requests-hang-without-timeout" },
  options  = {
    seconds = { default = 60, doc = "Time of a request from which on it can be called hanging" },
    times   = { default = 20, doc = "Times the median request that it must have taken" },
    rate    = { default = 5,  doc = "Tokens a second at which a request is at work" },
  },

  run = function(case)
    local opt = case.options
    local settings = case.config:where("match(key, ?)", CLIENT)
    if settings:count() == 0 then return skip("the settings of the client or server of these requests") end
    local timed = case.requests:where("latency > 0")
    if timed:count() < 10 then return skip("the latencies of ten requests") end

    local usual = timed:median("latency")
    local slow  = timed:where("latency >= ? and latency >= ?", opt.seconds, opt.times * usual)
      :where("completion_tokens is null or completion_tokens < ? * latency", opt.rate)
    local open  = case.requests:where("latency is null and status is null and finish_reason is null and response is "
      .. "null and error is null and hop == 'client' and at is not null")
    local hang  = slow:count() + open:count()
    if hang < 2 then return end

    local limits, off = case.config:where("match(key, ?)", LIMITS), nil
    for row in limits:rows() do
      local text = (row.value or ""):lower()
      if text == "null" or text == "none" or text == "" or text == "~" or text == "-1" or text == "0" or text == "inf"
        or text == "false" then
        off = off or row
      else
        return -- A limit is set, even if a long one.
      end
    end
    report {
      symptom = "requests-hang-without-timeout", score = math.min(0.95, 0.75 + 0.02 * hang),
      at = { name = slow:count() > 0 and slow:first().id or open:first().id },
      message = ("%s%s%s, and %s"):format(
        slow:count() > 0 and ("%s took %s s or more, the median is %s s"):format(units.plural(slow:count(), "request"),
          units.number(slow:min("latency"), 3), units.number(usual, 3)) or "",
        slow:count() > 0 and open:count() > 0 and "; " or "",
        open:count() > 0 and ("%s never ended"):format(units.plural(open:count(), "request")) or "",
        off and ("%s = %s sets no time limit"):format(off.key, off.value or "null")
          or "no setting of the client or server limits the time"),
      evidence = { slow:top(3, "latency"), open:slice(0, 2), off or settings:first() },
    }
  end,
}
