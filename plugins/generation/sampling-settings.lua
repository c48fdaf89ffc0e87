--- ## What it detects
--- Sampling at a temperature above 1.2 that no nucleus holds back; and settings that the client left open and the
--- server filled in from the model's generation config.
---
--- ## Why it matters
--- At a temperature of 1.5 a token of probability 0.001 is ten times as likely as the model has it; a hundred tokens
--- later one was drawn. Defaults that a model folder brings make two servers of one model answer differently.
---
--- ## How to confirm
--- Send temperature, top_p and the penalties with each request, and compare answers.
---
--- ## Known false positives
--- Creative work at a high temperature with top_p or min_p below 1.
---
--- ## References
--- https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html (--generation-config)

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Sampling settings beyond use, or not those of the client",
  needs    = { requests = {},
    any = { requests = { "temperature" }, config = { "number", key = "generation.temperature" } } },
  symptoms = { "temperature-extreme", "settings-injected" },
  options  = {
    hot   = { default = 1.2,  doc = "Temperature above which the tail of the distribution is drawn from" },
    open  = { default = 0.99, doc = "top_p from which on nothing is cut off" },
    share = { default = 0.2,  doc = "Share of requests worth reporting" },
  },

  run = function(case)
    local opt = case.options
    local told = case.requests:where("temperature is not null")
    local hot  = told:where("temperature > ? and (top_p is null or top_p >= ?)", opt.hot, opt.open)
    if hot:count() > 0 and hot:count() >= opt.share * told:count() then
      local t = hot:median("temperature")
      report {
        symptom = "temperature-extreme", score = math.min(0.95, 0.5 + 0.5 * (t - 1)),
        message = ("%d of %s were sampled at a temperature of %s (median) with %s: a token of probability 0.001 beside "
          .. "one of 0.9 is drawn %.0f times as often as at 1"):format(hot:count(),
          units.plural(told:count(), "request"),
          units.number(t, 3), hot:count("top_p") > 0 and "top_p 1" or "no top_p", (0.001 / 0.9) ^ (1 / t - 1)),
        evidence = { hot:slice(0, 5) },
      }
    end

    -- What the client left open and the server has, beside the model's own defaults.
    local client = case.requests:where("hop == 'client' and id is not null")
    local server = case.requests:where("hop is not null and hop != 'client' and id is not null")
    local both   = server:join(client, { "id" })
    for _, key in ipairs { "temperature", "top_p" } do
      local filled  = both:where(("%s is not null and %s_right is null"):format(key, key))
      local default = case.config:where { key = "generation." .. key }:first()
      if filled:count() > 0 and filled:count() >= opt.share * both:count() then
        local value = filled:median(key)
        -- 1 is what no setting means.
        local own   = default and default.number and math.abs(default.number - value) < 1e-6
        if own or math.abs(value - 1) > 1e-6 then
          report {
            symptom = "settings-injected", score = own and 0.95 or 0.85, at = { name = key },
            message = ("%d of %s have no %s at the client and %s at the server%s"):format(filled:count(),
              units.plural(both:count(), "request"), key, units.number(value),
              own and (", the default of the model's generation config") or ""),
            evidence = { filled:slice(0, 4), default },
          }
        end
      end
    end
  end,
}
