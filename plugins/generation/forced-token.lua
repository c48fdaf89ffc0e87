--- ## What it detects
--- Greedy decoding that hands out a token which the model gave next to no probability, beside one that it was sure of.
--- That decoding is greedy is taken from the temperature, or seen from the tokens: where the model was unsure, the
--- likeliest one came all the same. Where neither tells, only tokens count that sampling would hardly ever draw.
---
--- ## Why it matters
--- The model was right and another token came: a mask, a draft that was accepted, a row of another request. Prompts,
--- weights and temperature are acquitted.
---
--- ## How to confirm
--- Send the request again without speculative decoding, grammars and biases.
---
--- ## Known false positives
--- Penalties and biases where log probabilities are those before them: many tokens deviate then, not a few. End tokens
--- that are held back are another matter.
---
--- ## References
--- https://docs.vllm.ai/en/latest/features/spec_decode.html

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Greedy decoding draws a token that is not the likeliest",
  needs    = { tokens = { "request", "position", "logprob", "best_logprob" } },
  symptoms = { "greedy-token-not-likeliest" },
  options  = {
    sure  = { default = 0.8,  doc = "Probability of the likeliest token from which on another one is out of place" },
    drawn = { default = 0.02, doc = "Probability of the drawn one up to which it counts" },
    share = { default = 0.2,  doc = "Share of tokens above which something works on all: a penalty" },
  },

  run = function(case)
    local opt = case.options
    local all = case.tokens:where("logprob is not null and best_logprob is not null and (part is null or "
      .. "part == 'answer')"):slice(0, 500000)
    local told = case.requests:where("temperature is not null")
    local warm = told:where("temperature > 0.01")
    local cold = told:where("temperature <= 0.01")
    local greedy
    if told:count() > 0 and cold:count() == 0 then return end
    if warm:count() > 0 then
      greedy = all:join(cold:select("id"):with { request = "id" }:distinct("request"), { "request" })
    else
      greedy = all
    end
    if greedy:count() < 32 then return skip("32 tokens of greedy answers with their alternatives: logprobs=5") end
    -- Where the best had less than 0.7, sampling would take another one every third time.
    local unsure = greedy:where("best_logprob < ?", math.log(0.7))
    local taken  = unsure:where("logprob >= best_logprob - 0.01")
    local drawn = opt.drawn
    if told:count() == 0 and (unsure:count() < 8 or taken:count() < 0.8 * unsure:count()) then
      -- Nothing tells whether decoding is greedy. What sampling would not draw once in ten such records counts still.
      drawn = math.min(drawn, 0.1 / greedy:count())
    end
    local odd = greedy:where("best_logprob > ? and logprob < ?", math.log(opt.sure), math.log(drawn))
      :where("not match(best, '<*>|[[]*]') and not match(text, '<*>|[[]*]')"):sort("request", "position")
    if odd:count() == 0 or odd:count() > opt.share * greedy:count() then return end
    -- The first of each answer: behind it the model may be lost.
    local firsts = odd:distinct("request")
    local f = firsts:first()
    local before = greedy:where("request == ? and position < ? and position >= ?", f.request, f.position,
      f.position - 6):sort("position")
    local words = {}
    for row in before:rows() do table.insert(words, row.text or "?") end
    report {
      symptom = "greedy-token-not-likeliest", score = math.min(0.97, 0.85 + 0.02 * firsts:count()),
      at = { name = f.request, token = f.position },
      message = ("%d of %s %s not the likeliest: at token %d of %s, behind \"%s\", \"%s\" came with a "
        .. "probability of %s where \"%s\" had %s (%s in all)"):format(odd:count(),
        units.plural(greedy:count(), "token") .. (told:count() > 0 and " drawn greedily" or ""),
        odd:count() == 1 and "is" or "are", f.position, f.request or "one answer",
        table.concat(words):replace("\n", "\\n"), (f.text or "?"):replace("\n", "\\n"),
        units.number(math.exp(f.logprob), 2), (f.best or "?"):replace("\n", "\\n"),
        units.number(math.exp(f.best_logprob), 3), units.plural(firsts:count(), "answer")),
      evidence = { firsts:slice(0, 5) },
    }
  end,
}
