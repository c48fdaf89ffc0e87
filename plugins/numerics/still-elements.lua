--- ## What it detects
--- Elements of a bf16 weight that are bit-identical at two dumps far apart, and just those that are too large for the
--- optimizer's step, while smaller ones beside them moved.
---
--- ## Why it matters
--- A bf16 number of size 2^e changes by 2^(e-7) or not at all, so an update below half of that is lost, every time.
--- Adam's update is about the rate and hardly ever more, whatever the gradient is: above 256 times the rate and the
--- next power of two nothing can move.
---
--- ## How to confirm
--- Subtract two checkpoints of one weight: its large elements give exact zeros.
---
--- ## Known false positives
--- bf16 copies of fp32 weights move when the sum of many updates passes a step of the format. Only dumps so far apart
--- that a random walk of such updates, rate times the root of their number, passes one are judged. What is frozen or
--- gets no gradient stands still at any size. Optimizers whose update is not about the rate are not judged.
---
--- ## References
--- https://arxiv.org/abs/2010.06192

local optimizers = require("optimizers")
local places     = require("places")

--- Whether all values have the eight significant bits of bf16, as a bf16 weight has that was widened for the dump.
---@param values number[]
---@return boolean
local function on_grid(values)
  for _, x in ipairs(values) do
    if x ~= 0 then
      local scaled = math.abs(x) / 2 ^ (math.floor(math.log(math.abs(x), 2)) - 7)
      if scaled ~= math.floor(scaled) then return false end
    end
  end
  return true
end

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Large elements of bf16 weights never move",
  needs    = { tensors = { "name", "role", "dtype", "step", "data" }, config = { "key", "value" } },
  symptoms = { "updates-lost-in-rounding" },
  options  = {
    slack = { default = 1.25, doc = "Adam's update over its rate" },
    few   = { default = 0.05, doc = "Share of the large elements that may move all the same" },
    most  = { default = 0.60, doc = "Share of the elements below a quarter of that size that have to move" },
  },

  run = function(case)
    local opt  = case.options
    local adam  = optimizers.adam(case) or optimizers.kind(case):glob("*lion*")
    local rates = case.scalars:where { name = "lr", primary = true }:where("finite(value) and value > 0")
    if not adam or rates:count() < 2 then
      return skip("the rate of an optimizer whose update is about it, Adam or Lion")
    end
    local exact = case.tensors:where("role == 'weight' and numel >= 256 and nonfinite == 0 and step is not null and "
      .. "match(dtype, 'bfloat16|float32') and not match(name, 'battery.*')")
    local judged, found = false, nil
    for _, rows in exact:group("name") do
      local early, late = rows:sort("step"):first(), rows:sort("-step"):first()
      local steps = late.step - early.step
      local between = rates:where("step >= ? and step <= ?", early.step, late.step)
      local top = between:max("value")
      -- The least power of two that an update cannot change, and the step of the format there.
      local size = top and 2 ^ math.ceil(math.log(256 * opt.slack * top, 2))
      local walk = top and between:mean("value") * math.sqrt(steps)
      if steps >= 50 and top and early.numel == late.numel and walk >= size / 128 then
        local count = math.min(early.numel, 10000)
        local a, b  = early:values(0, count), late:values(0, count)
        local large, large_moved, small, small_moved = 0, 0, 0, 0
        local coarse = on_grid(a) and on_grid(b)
        for i = 1, coarse and count or 0 do
          local x = math.abs(a[i])
          if x >= size then
            large = large + 1
            if a[i] ~= b[i] then large_moved = large_moved + 1 end
          elseif x > 0 and x < size / 4 then
            small = small + 1
            if a[i] ~= b[i] then small_moved = small_moved + 1 end
          end
        end
        if large >= 50 and small >= 50 then
          judged = true
          local lost = large_moved <= opt.few * large and small_moved >= opt.most * small
          if lost and (not found or large > found.large) then
            found = { early = early, late = late, large = large, stood = large - large_moved, small = small,
              moved = small_moved, size = size, top = top, walk = walk }
          end
        end
      end
    end
    if not judged then
      return skip("a bf16 weight dumped twice, so far apart that updates would add up to a step of the format")
    end
    if not found then return end
    report {
      symptom  = "updates-lost-in-rounding",
      score    = 0.95,
      -- What format the weights have is set up once.
      at       = { step = places.start(case, found.early.step, false), layer = found.early.layer,
        name = found.early.name },
      message  = ("%d of %d elements of %s beyond %.3g are bit-identical at steps %d and %d, and %s of those below "
        .. "%.3g moved: bf16 rounds away an update of at most %.3g there; %d of them at random would add up to %.2g")
        :format(found.stood, found.large, found.early.name, found.size, found.early.step, found.late.step,
        units.percent(found.moved / found.small), found.size / 4, found.top * opt.slack,
        found.late.step - found.early.step, found.walk),
      evidence = { found.early, found.late },
    }
  end,
}
