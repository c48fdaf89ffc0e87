--- ## What it detects
--- Tensors that ranks of one job should hold alike and do not: which one differs first, and whether gradients differ by
--- the number of ranks.
---
--- ## Why it matters
--- Data-parallel ranks start from the same weights and apply the same update. Once one differs they train different
--- models, and the average of their gradients fits none. A factor of the world size is a sum taken for a mean.
---
--- ## How to confirm
--- Compare a checksum of each parameter over the ranks right after initialisation and after the first step.
---
--- ## Known false positives
--- Weights that are sharded over the ranks on purpose: where most of the tensors differ at every step, or shapes do,
--- they are taken for shards. Name them with their shard if only some are. Where nothing but the state of an optimizer
--- is held by rank, and none of it that has several values is alike, each rank keeps a part of one state (ZeRO).
---
--- ## References
--- https://arxiv.org/abs/2211.05100 reports LayerNorm weights that differed over tensor-parallel ranks

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Ranks hold different values of one replicated tensor",
  needs    = { tensors = { "rank", "name", "role" } },
  symptoms = { "replicas-differ", "gradient-world-size-factor" },

  run = function(case)
    local held = case.tensors:where("rank is not null and match(role, 'weight|exp_avg|exp_avg_sq|grad|state')")
    local ranks = held:distinct("rank"):count()
    if ranks < 2 then return skip("weights of two ranks: dump them with their rank") end

    local same, differ, first, factor = 0, 0, nil, nil
    local moments = held:where("match(role, 'weight|grad')"):distinct("rank"):count() < 2
    for _, _, rows in held:sort("step", "order"):group("step", "name") do
      local base = rows:sort("rank"):first()
      local off
      for row in rows:where("rank != ?", base.rank):slice(0, 64):rows() do
        local equal = row.numel == base.numel
          and (row.hash and base.hash and row.hash == base.hash
            or row.l2 == base.l2 and row.min == base.min and row.max == base.max and row.mean == base.mean)
        if row.numel ~= base.numel then equal = nil end
        if equal == false then off = off or row end
      end
      if rows:count() >= 2 then
        if off then
          differ = differ + 1
          first  = first or { base = base, row = off }
          local ratio = base.l2 and base.l2 > 0 and off.l2 and off.l2 / base.l2 or 0
          local near  = math.abs(ratio - ranks) < 1e-3 * ranks or math.abs(ratio - 1 / ranks) < 1e-3 / ranks
          if base.role == "grad" and near then factor = factor or { base = base, row = off, ratio = ratio } end
        elseif not (moments and base.min ~= nil and base.min == base.max) then
          same = same + 1 -- zeros that nothing was added to are alike in parts as well
        end
      end
    end
    if same + differ == 0 then return skip("one tensor of the same name on two ranks") end
    if factor then
      report {
        symptom  = "gradient-world-size-factor",
        score    = 0.95,
        at       = { step = factor.row.step, layer = factor.row.layer, rank = factor.row.rank },
        message  = ("the gradient %s of rank %d is %.4g times that of rank %d, and there are %d ranks: a sum stands "
          .. "for a mean")
          :format(factor.row.name, factor.row.rank, factor.ratio, factor.base.rank, ranks),
        evidence = { factor.base, factor.row },
      }
    end
    local weights = held:where { role = "weight" }
    if not first or (weights:count() > 0 or moments) and same == 0 and differ > 3 then
      if first and not factor then
        return skip("tensors that ranks share: all differ, so they may be shards of sharded weights")
      end
      return
    end
    report {
      symptom  = "replicas-differ",
      score    = 0.9,
      severity = "error",
      at       = { step = first.row.step, layer = first.row.layer, rank = first.row.rank },
      message  = ("%s differs between ranks %d and %d%s (norm %.6g against %.6g), the first of %d tensors that do; "
        .. "%d are alike")
        :format(first.row.name, first.base.rank, first.row.rank,
        first.row.step and (" at step %d"):format(first.row.step) or "", first.base.l2 or 0, first.row.l2 or 0,
          differ, same),
      evidence = { first.base, first.row },
    }
  end,
}
