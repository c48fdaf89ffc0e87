--- ## What it detects
--- Prompts that two sides (training and serving, before and after) turn into different numbers of tokens.
---
--- ## Why it matters
--- Another number of tokens for the same text means another tokenizer or other settings of it: the model sees pieces
--- that it was not trained on, and nothing fails.
---
--- ## How to confirm
--- Encode one of the prompts on both sides and decode the ids again.
---
--- ## Known false positives
--- Prompts are compared by their text, so what a server adds around it counts too: a difference that is the same for
--- every prompt is a template and is left to others. Two models on purpose.
---
--- ## References
--- https://huggingface.co/docs/transformers/main_classes/tokenizer

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Two sides split the same text into different numbers of tokens",
  needs    = { requests = { "prompt", "prompt_tokens", "variant" } },
  symptoms = { "same-text-other-token-count" },
  options  = {
    prompts = { default = 5, doc = "Prompts that both sides have, below which nothing is said" },
  },

  run = function(case)
    local judged = false
    -- The same prompt on two sides; one difference for all is what a template adds.
    local counted = case.requests:where("prompt is not null and prompt_tokens is not null and variant is not null")
    local sides, first = {}, {}
    for variant, rows in counted:group("variant") do sides[#sides + 1] = { name = variant, rows = rows } end
    if #sides >= 2 then
      for row in sides[1].rows:slice(0, 10000):rows() do first[row.prompt] = first[row.prompt] or row end
      local compared, differ, by, example, bytes, tokens, others = 0, 0, {}, nil, 0, 0, 0
      for row in sides[2].rows:slice(0, 10000):rows() do
        local other = first[row.prompt]
        if other then
          first[row.prompt] = nil
          compared, bytes = compared + 1, bytes + #row.prompt
          tokens, others = tokens + other.prompt_tokens, others + row.prompt_tokens
          local more = row.prompt_tokens - other.prompt_tokens
          if more ~= 0 then
            differ, example = differ + 1, example or { other, row }
          end
          by[more] = (by[more] or 0) + 1
        end
      end
      local constant = 0
      for _, n in pairs(by) do constant = math.max(constant, n) end
      -- Fewer bytes than tokens on both sides: the texts on record are not all that was tokenized.
      if bytes < tokens and bytes < others then compared = 0 end
      judged = judged or compared >= case.options.prompts
      if compared >= case.options.prompts and differ >= 0.5 * compared and constant < 0.8 * compared then
        report {
          symptom = "same-text-other-token-count", score = 0.9,
          message = ("%d of %d prompts have other numbers of tokens in %s than in %s: %.2f bytes a token against %.2f")
            :format(differ, compared, sides[2].name, sides[1].name, bytes / others, bytes / tokens),
          evidence = example,
        }
      end
    end
    if not judged then
      skip(("the same %d prompts on two sides, with prompt_tokens"):format(case.options.prompts))
    end
  end,
}
