--- ## What it detects
--- A block after which the model no longer says what it said before: hidden states of each block are read through the
--- output layer (logit lens), and the share of positions whose largest logit is the label is followed through the
--- depth.
---
--- ## Why it matters
--- In a sound model the share rises from block to block. Where it falls back to little, the block destroys what those
--- before it worked out: weights that were not loaded, a wrong residual path, a kernel that computes something else.
---
--- ## How to confirm
--- Replace the block by the identity (return its input) and evaluate: a broken block costs less when it is gone.
---
--- ## Known false positives
--- Early blocks may speak another basis than the output layer, so a low share there says nothing; only a fall is
--- reported. Models without a residual stream.
---
--- ## References
--- The final norm is left out: RMSNorm keeps the order of logits up to its gain. nostalgebraist, interpreting GPT: the
--- logit lens, 2020.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A block destroys what the model had worked out",
  needs    = { tensors = { "data", "name", "shape" } },
  symptoms = { "prediction-lost-in-block" },
  options  = {
    known  = { default = 0.3, doc = "Share of right positions from which the model is said to know the answer" },
    lost   = { default = 0.5, doc = "Part of that share whose loss is reported" },
    ignore = { default = -100, doc = "Label that the loss leaves out" },
  },

  run = function(case)
    local opt, judged, found = case.options, false, nil
    local states = case.tensors:where("match(name, '*blocks.*.output|*layers.*.output|*h.*.output')")
    for step, here in states:sort("step", "order"):group("step") do
      local all    = case.tensors:where { step = step }
      local labels = all:where("match(name, 'batch.labels') and match(dtype, 'int*')"):first()
      local head   = all:where("match(name, '*lm_head.weight|head.weight|*.head.weight|*output.weight')"):first()
        or all:where("match(name, '*embed.weight|*embed_tokens.weight|*wte.weight')"):first()
      local bests, depth = {}, 0 -- of each stack: an encoder beside a decoder says nothing of what that one knows
      -- Labels that are the ids themselves are moved on by the model; at its own place each token is known from the
      -- first block on, and has to make room for the next one.
      local ids   = all:where("match(name, '*input_ids|*tokens') and match(dtype, 'int*')"):first()
      local shift = labels and ids and (ids.numel == labels.numel)
        and (labels:equal_share(ids, 0, opt.ignore) or 0) >= 0.5 and 1 or 0
      if labels and head then
        for state in here:rows() do
          -- The stream itself, blocks.3.output, and not what a part of a block adds to it, be it an attn or an mlp.2.
          local parts = state.layer:split(".")
          if #string.numbers(parts[#parts]) == 1 and not parts[#parts]:contains("_")
            and (parts[#parts - 1] or ""):glob("*blocks|*layers|h") then
            local share = state:lens_share(head, labels, shift, opt.ignore)
            if share then
              depth, judged = depth + 1, true
              local stack = state.layer:sub(1, #state.layer - #parts[#parts])
              local best  = bests[stack]
              -- Of a few positions, as of short answers, two shares differ by chance.
              local places = (labels.numel - labels:count_equal(opt.ignore))
                * math.min(1, state.numel / state.shape[#state.shape] / labels.numel)
              local error_ = best and math.sqrt((share * (1 - share) + best.share * (1 - best.share))
                / math.max(1, places))
              if best and best.share >= opt.known and share <= (1 - opt.lost) * best.share
                and best.share - share > 3 * error_
                and (not found or best.share - share > found.best.share - found.share) then
                found = { step = step, best = best, share = share, state = state }
              end
              if not best or share > best.share then bests[stack] = { share = share, state = state } end
            end
          end
        end
      end
    end
    if not judged then
      skip("outputs of the blocks, the weight of the output layer and batch.labels of one step in a dump "
        .. "(culprit_recorder.watch)")
    end
    if found then
      report {
        symptom  = "prediction-lost-in-block",
        score    = math.min(0.9, 0.5 + found.best.share - found.share),
        at       = { step = found.step, layer = found.state.layer },
        message  = ("read through the output layer, the state after %s has the label first at %s of the positions, the "
          .. "state after %s at %s: what was worked out is lost there"):format(found.best.state.layer,
          units.percent(found.best.share), found.state.layer, units.percent(found.share)),
        evidence = { found.best.state, found.state },
      }
    end
  end,
}
