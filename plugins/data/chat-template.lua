--- ## What it detects
--- The same messages as token ids by training and by serving (the recorder's template battery): a first token that is
--- missing or doubled, a prompt that ends before the marker that opens the answer, other markers.
---
--- ## Why it matters
--- A model answers well only to the very tokens that it was trained on; one missing or doubled token costs points and
--- raises nothing.
---
--- ## How to confirm
--- Decode both lists of ids with special tokens shown, side by side.
---
--- ## Known false positives
--- A system prompt that serving adds on purpose.
---
--- ## References
--- https://huggingface.co/docs/transformers/chat_templating

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Training and serving render the same messages differently",
  needs    = { tensors = { "name", "variant", "data" } },
  symptoms = { "chat-bos-missing", "chat-bos-doubled", "chat-opener-missing", "chat-markers-differ" },

  run = function(case)
    local ids   = case.tensors:where("name == 'battery.template.ids' and zero_share is not null")
    local train, serve = ids:where { variant = "train" }:first(), ids:where { variant = "serve" }:first()
    if not train or not serve or train.numel == 0 or serve.numel == 0 then
      return skip("the template battery, battery/template.train and .serve (culprit_recorder.battery)")
    end
    local a, b = train:values(0, math.min(train.numel, 10000)), serve:values(0, math.min(serve.numel, 10000))
    -- How many ids agree from the given places on.
    local function agree(i, j)
      local n = 0
      while a[i + n] and a[i + n] == b[j + n] do n = n + 1 end
      return n
    end
    local function say(symptom, score, message)
      report { symptom = symptom, score = score, message = message, evidence = { train, serve } }
    end
    local n = agree(1, 1)
    if n == #b and n == #a then return end
    if agree(2, 1) >= math.min(#a - 1, #b) and n == 0 then
      return say("chat-bos-missing", 0.97, ("serving leaves out the first token of training, id %d; the %d "
        .. "after it agree")
        :format(a[1], agree(2, 1)))
    end
    if b[1] == a[1] and b[2] == a[1] and a[2] ~= a[1] and agree(2, 3) >= math.min(#a - 1, #b - 2) then
      return say("chat-bos-doubled", 0.97, ("serving begins with the first token of training, id %d, twice; the "
        .. "%d after "
        .. "it agree"):format(a[1], agree(2, 3)))
    end
    -- The recorder ends the ids of training where the answer begins, so both should end alike.
    if n == #b and #a > #b then
      return say("chat-opener-missing", 0.9, ("the %d tokens of serving are those of training, and training has "
        .. "%d more "
        .. "before the answer (id %d first): the marker that opens the answer is missing"):format(#b, #a - #b,
          a[n + 1]))
    end
    local tail = 0 -- how many agree at the end
    while tail < math.min(#a, #b) - n and a[#a - tail] == b[#b - tail] do tail = tail + 1 end
    say("chat-markers-differ", 0.95, ("training and serving render the same messages differently from token %d "
      .. "on: id %s "
      .. "against %s; %d of %d tokens differ between the first %d and the last %d that agree"):format(n,
      tostring(a[n + 1]), tostring(b[n + 1]), math.max(#a, #b) - n - tail, math.max(#a, #b), n, tail))
  end,
}
