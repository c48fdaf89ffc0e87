--- ## What it detects
--- Elementwise kernels that follow each other on one stream over about as many elements: each reads from memory what
--- the one before wrote. Optimizer steps, gradient accumulation and plain copies are left out.
---
--- ## Why it matters
--- Such a kernel takes as long as its bytes take to move. One fused kernel reads and writes once for the whole chain.
---
--- ## How to confirm
--- `torch.compile` the module that holds the chain: the kernels become one `triton_poi_fused_*`. If the time stays, the
--- intermediate values are kept for the backward pass and have to be written anyway.
---
--- ## Known false positives
--- Neighbours on different tensors of the same size cannot be fused; a profile does not record addresses.
---
--- ## References
--- https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html, "Fuse operations"

local windows = require("windows")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Chains of elementwise kernels run unfused",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", "grid", role = "compute" } },
  relies   = { "launches", "kernels" },
  symptoms = { "elementwise-chains" },
  options  = {
    min_share  = { default = 0.10, doc = "Share of the kernel time in kernels that continue a chain worth reporting" },
    min_window = { default = 0.03, doc = "Share of the window below which fusing does not matter" },
    alike      = { default = 4.5,
                   doc = "Ratio of grids up to which two kernels may work on as many elements: they take 1 to 4 a "
                       .. "thread" },
    saved      = { default = 0.50,
                   doc = "Part of the continuing kernels' time that fusing saves; what backward needs is "
                         .. "still written" },
    min_dur    = { default = 3 * units.us, doc = "Kernels shorter than this are a matter of launching" },
  },

  run = function(case)
    local opt = case.options
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local work    = windows.work(case, window)
      local kernels = work:where { role = "compute" }
      local calls   = case.host_calls:where { rank = window.rank }
      local steps   = case.ranges:where { rank = window.rank, category = "optimizer" }
      local adding  = case.host_ops:where { rank = window.rank }:where("match(name, '*AccumulateGrad*')")
      local sized   = kernels:with {
        blocks = "product(grid)",
        step   = kernels:launched_by(calls, steps),
        grad   = kernels:launched_by(calls, adding),
      }
      local own   = " and step is null and grad is null and blocks is not null"
      local links = "match(name, '*elementwise_kernel*') and not match(name, '*FillFunctor*|*distribution*')" .. own
      local rows  = sized:where(links):with { link = 1 }:concat(sized:where("not (" .. links .. ")"):with { link = 0 })
        :sort("stream", "start")
      -- Of each kernel against the one before it on its stream. A copy may begin a chain; the rest of it is counted.
      local followers = rows:with {
        other = rows:col("stream"):diff(), kind = rows:col("link"):diff(), growth = rows:col("blocks"):diff(),
      }:with { before = "blocks - growth" }:where("link == 1 and kind == 0 and (other == 0 or other is null) and dur "
        .. ">= ? and blocks <= ? * before and before <= ? * blocks and not match(name, '*copy_kernel*')",
        opt.min_dur, opt.alike, opt.alike)
      local spent, total = followers:sum("dur"), kernels:sum("dur")
      if total > 0 and spent >= opt.min_share * total and spent >= opt.min_window * window.dur then
        local all    = rows:where("link == 1")
        local faster = followers:with { saved = ("dur * %g"):format(opt.saved) }:select("start", "stop", "name",
          "saved")
        report {
          symptom     = "elementwise-chains",
          score       = math.min(1, 0.5 + spent / total),
          share       = spent / window.dur,
          recoverable = work:join(faster, { "start", "stop", "name" }, "left"):ends_sooner("saved", calls),
          at          = here,
          message     = ("%d elementwise kernels on GPU %d continue a chain over the same number of elements: %s, %s "
            .. "of the kernel time and %s of the window; %d elementwise kernels take %s in all")
            :format(followers:count(), window.device, units.format(spent), units.percent(spent / total),
              units.percent(spent / window.dur), all:count(), units.percent(all:sum("dur") / total)),
          evidence    = {
            followers:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
              :renamed("kernels by time"),
            followers:top(5, "dur"),
          },
        }
      end
    end
  end,
}
