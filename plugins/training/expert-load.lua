--- ## What it detects
--- A router that sends nearly all to few experts, by the logged share or count of each expert.
---
--- ## Why it matters
--- Experts that get nothing learn nothing, and the model is as small as those that are left. The loss does not tell: it
--- is that of a smaller model.
---
--- ## How to confirm
--- Count the tokens of each expert over a whole global batch.
---
--- ## Known false positives
--- Loads of a micro-batch of a few tokens are uneven by chance; the median of many rows is taken. Experts that are
--- meant for one domain each are as uneven as the domains.
---
--- ## References
--- N experts with the shares p are used like exp(-sum p ln p) equal ones: N where all are alike, 1 where one gets all.
--- https://arxiv.org/abs/2101.03961

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A router sends nearly all to few experts",
  needs    = { scalars = { "step", "value" } },
  symptoms = { "experts-starved" },
  options  = {
    used     = { default = 0.5, doc = "Experts in equal use over those there are below which most of them starve" },
    min_rows = { default = 8,   doc = "Logged loads below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    local loads = case.scalars:where("finite(value) and value >= 0 and match(name, '*expert*') and match(name, "
      .. "'*load*|*frac*|*share*|*usage*|*util*|*token*|*count*|*prob*') and not match(name, '*drop*|*overflow*') "
      .. "and not match(metric, 'zero_share|unchanged_share|saturated_share|subnormal_share|near_max_share|"
      .. "attention_entropy_share')") -- of parts of an expert

    --- A name without its last number: that of all experts of a layer; nil where it has none, or where it numbers the
    --- layers.
    local function family(name)
      local function is_digit(at) return tonumber(name:sub(at, at)) ~= nil end
      local stop = #name
      while stop > 0 and not is_digit(stop) do stop = stop - 1 end
      local start = stop
      while start > 1 and is_digit(start - 1) do start = start - 1 end
      local before = name:sub(1, start - 1):lower()
      if before:glob("*layer|*layer?|*layers?|*block|*block?|*blocks?|*stage?") then return nil end
      return stop > 0 and name:sub(1, start - 1) .. "*" .. name:sub(stop + 1) or nil
    end

    local groups, order = {}, {}
    for run_name, name, rows in loads:group("run", "name") do
      local of = family(name)
      local key = of and (run_name or "") .. "\t" .. of
      if key then
        if not groups[key] then groups[key], order[#order + 1] = { name = of, experts = {} }, key end
        local experts = groups[key].experts
        experts[#experts + 1] = { name = name, rows = rows:sort("step") }
      end
    end

    for _, key in ipairs(order) do
      local group, steps, uses = groups[key], {}, {}
      local n = #group.experts
      for _, expert in ipairs(group.experts) do
        for row in expert.rows:slice(0, 5000):rows() do
          local at = steps[row.step] or { sum = 0, logs = 0, count = 0 }
          at.sum, at.count = at.sum + row.value, at.count + 1
          at.logs = at.logs + (row.value > 0 and row.value * math.log(row.value) or 0)
          steps[row.step] = at
        end
      end
      for step, at in pairs(steps) do
        if at.count == n and at.sum > 0 then
          uses[#uses + 1] = { step = step, used = math.exp(math.log(at.sum) - at.logs / at.sum) }
        end
      end
      if n >= 3 and #uses >= opt.min_rows then
        judged = true
        table.sort(uses, function(a, b) return a.step < b.step end)
        local since, late = #uses, {}
        while since > 1 and uses[since - 1].used < opt.used * n do since = since - 1 end
        for i = #uses - math.max(3, #uses // 4) + 1, #uses do late[#late + 1] = uses[i].used end
        table.sort(late)
        local used = late[(#late + 1) // 2]
        if used < opt.used * n and uses[since].used < opt.used * n then
          local busiest, most = nil, -1
          for _, expert in ipairs(group.experts) do
            local level = expert.rows:slice(math.max(0, expert.rows:count() - 5), 5):median("value")
            if level > most then busiest, most = expert, level end
          end
          report {
            symptom  = "experts-starved",
            score    = math.min(0.95, 0.85 + 0.2 * (opt.used - used / n)),
            at       = { step = uses[since].step },
            message  = ("the %d experts of %s are used like %.1f equal ones from step %d on, like %.1f at step %d; %s "
              .. "gets most"):format(n, group.name, used, uses[since].step, uses[1].used, uses[1].step, busiest.name),
            evidence = { busiest.rows:slice(0, 1), busiest.rows:slice(math.max(0, busiest.rows:count() - 5), 5) },
          }
        end
      end
    end
    if not judged then skip(("the load of each expert in %d rows"):format(opt.min_rows)) end
  end,
}
