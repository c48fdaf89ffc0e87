--- ## What it detects
--- A chat model prompted without its template, and answers of a model that only continues text: they go on as the
--- user, ask the next question of a list, or invent the whole dialogue. Who speaks is told by a known name or, in any
--- language, by two words with a colon (or letters, "Q.") at the beginnings of lines, of which the first one asks.
---
--- ## Why it matters
--- A base model completes documents, a chat model answers within its markers. Either in the other's place sounds
--- fluent and is useless, and no error tells.
---
--- ## How to confirm
--- Print the prompt as the engine has it, with special tokens; look whether the checkpoint's name lacks -instruct.
---
--- ## Known false positives
--- Prompts of few examples make any model write the next example: where the prompt itself has such turns, its answers
--- are left out. A scene, an interview or a list of questions that a prompt asks for is a dialogue from its first line
--- on: so is none of these, unless the prompt is a question, which such an answer leaves open.
---
--- ## References
--- https://huggingface.co/docs/transformers/chat_templating

local one_hop = require("requests").one_hop

local ANSWERS = 5000
local MARKERS = { "<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "[INST]", "<|user|>", "<|assistant|>",
  "<|START_OF_TURN_TOKEN|>", "<|start|>", "<|turn>" }
local TURNS = { "\nUser:", "\nHuman:", "\nQ:", "\nQuestion:", "\n### Instruction", "\n### Human", "\nuser:", "\nuser\n",
  "\nCustomer:", "\nStudent:" }

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

local function holds(text, words)
  for _, word in ipairs(words) do
    if text:contains(word) then return word end
  end
end

--- The word with a colon that begins \p line, or the letter with a full stop ("Q. Who?"), and the rest; nil where it
--- begins otherwise.
local function label_of(line)
  local initial = line:sub(1, 1)
  if line:sub(2, 3) == ". " and initial >= "A" and initial <= "Z" then return initial, line:sub(4, -1) end
  local at = line:index(":")
  if not at or at < 2 or at > 24 then return nil end
  local word = line:sub(1, at - 1)
  if word:contains(" ") or word:contains("\"") or word:contains("/") or word:lower() == word then return nil end
  return word, line:sub(at + 1, -1)
end

--- A line that asks as somebody ("Frage: ...?") and is answered in the next one by somebody else, where the prompt has
--- no such line: a dialogue that nobody asked for.
local function dialogue_in(text, prompt)
  local asks
  for _, line in ipairs(text:split("\n")) do
    local word, rest = label_of(line)
    -- "A. ...? B. ..." is a list, "Q. ...? R. ..." question and réponse.
    local list = asks and word and #asks == 1 and asks ~= "Q" and #word == 1 and LETTERS:contains(asks .. word)
    if asks and word and word ~= asks and not list and not rest:trim():ends_with("?") then return "\n" .. asks end
    asks = word and rest:trim():ends_with("?")
      and not (prompt and prompt:contains(word .. line:sub(#word + 1, #word + 1))) and word or nil
  end
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A base model where a chat model is expected, or a chat model without its template",
  needs    = { any = { requests = {}, tokens = { "text", part = "prompt" } } },
  symptoms = { "prompt-without-template", "answer-writes-users-turn" },
  options  = {
    share = { default = 0.3, doc = "Share of answers that go on as the user worth reporting" },
    min   = { default = 2,   doc = "Such answers below which nothing is said" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local template = case.config:where { key = "tokenizer.chat_template" }:first()
    local wanted   = {}
    for _, marker in ipairs(MARKERS) do
      if template and template.value and template.value:contains(marker) then table.insert(wanted, marker) end
    end
    if #wanted > 0 then
      -- Prompts as the engine has them: by the hop, by an endpoint that applies no template, or by their tokens.
      ---@type integer, integer, culprit.Row?
      local bare, all, first = 0, 0, nil
      local raw = case.requests:where("prompt is not null and (match(hop, 'engine') or match(endpoint, '*/generate|"
        .. "*/completion|*/completions') and not match(endpoint, '*chat/completions'))")
      for row in raw:slice(0, ANSWERS):rows() do
        all = all + 1
        if not holds(row.prompt, wanted) then bare, first = bare + 1, first or row end
      end
      local tokens = case.tokens:where("part == 'prompt' and text is not null"):slice(0, 500000)
      if all == 0 and tokens:count() > 0 and tokens:distinct("request"):count() <= 5000 then
        for _, prompt in tokens:group("request") do
          all = all + 1
          local found = false
          for _, marker in ipairs(wanted) do found = found or prompt:where("contains(text, ?)", marker):count() > 0 end
          if not found then bare, first = bare + 1, first or prompt:first() end
        end
      end
      judged = all > 0
      if all > 0 and bare >= 0.9 * all then
        report {
          symptom = "prompt-without-template", score = all >= 3 and 0.9 or 0.8,
          at = { name = first.id or first.request },
          message = ("%d of %s reach the model without \"%s\", with which the tokenizer's chat template opens a turn")
            :format(bare, units.plural(all, "prompt"), wanted[1]),
          evidence = { first, template },
        }
      end
    end

    local going_on, all, rows, example = 0, 0, {}, nil
    for row in one_hop(case.requests:where("response is not null")):slice(0, ANSWERS):rows() do
      -- What the reader puts before a message, "user: ", is no turn of the text.
      if not (row.prompt and holds(row.prompt, TURNS)) then
        all = all + 1
        local turn = holds("\n" .. row.response, TURNS) or dialogue_in(row.response, row.prompt)
        -- A dialogue from its first line on may be what a prompt that is no question asks for.
        local asked = turn and row.prompt and ("\n" .. row.response):starts_with(turn)
          and not row.prompt:trim():ends_with("?")
        if turn and not asked then
          going_on = going_on + 1
          example  = example or { row = row, turn = turn }
          if #rows < 5 then table.insert(rows, row) end
        end
      end
    end
    judged = judged or all > 0
    if going_on >= opt.min and going_on >= opt.share * all then
      local at = math.max(1, ("\n" .. example.row.response):index(example.turn) - 1)
      report {
        symptom = "answer-writes-users-turn", score = math.min(0.95, 0.6 + 0.4 * going_on / all),
        at = { name = example.row.id },
        message = ("%d of %s go on as the user: \"%s\" at character %d%s"):format(going_on, units.plural(all, "answer"),
          example.row.response:sub(at, at + 40):replace("\n", "\\n"), at,
          example.row.id and (" of " .. example.row.id) or ""),
        evidence = rows,
      }
    end
    if not judged then skip("answers with their text; for prompts the engine's own, and tokenizer_config.json") end
  end,
}
