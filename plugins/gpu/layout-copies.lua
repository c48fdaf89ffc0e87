--- ## What it detects
--- Kernels and copies that only move values on the device: layout conversions between channel orders, transposes,
--- strided copies, concatenations, casts; and what asks for them, by the kernel's name and the operator above it. Where
--- conversions around convolutions and transposes are the largest kind it is the layout; otherwise the values are cast,
--- concatenated or made contiguous, which a memory format does not change.
---
--- ## Why it matters
--- They do no arithmetic. A tenth of the kernel time in them usually means that one operator wants another memory
--- format or type than its neighbours. The remedy depends on the kind: a memory format for conversions around
--- convolutions, strides instead of `.contiguous()`, one type for casts.
---
--- ## How to confirm
--- Run model and input in `torch.channels_last`: the conversion kernels vanish or their number doubles; keep the
--- better one. If the layout is the same in every layer, it is not the layout: look at the casts and concatenations.
---
--- ## Known false positives
--- Models that permute by design, such as window attention. Moving averages of the weights copy once a step.
---
--- ## References
--- https://pytorch.org/tutorials/intermediate/memory_format_tutorial.html

local windows = require("windows")

local CONVERSIONS = "layout conversions around convolutions"

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A large share of the kernel time goes to moving values around",
  needs    = { windows = { "dur" }, gpu_work = { "name", "dur", role = "compute" } },
  relies   = { "launches", "kernels" },
  symptoms = { "layout-copies", "value-copies" },
  options  = {
    min_share  = { default = 0.10, doc = "Share of the kernel time in such work worth reporting" },
    min_window = { default = 0.01, doc = "Share of the window below which moving less does not matter" },
    saved      = { default = 0.50, doc = "Part of that time that one memory format and one type throughout save" },
  },

  run = function(case)
    local opt      = case.options
    local layout   = "*nchwToNhwc*|*nhwcToNchw*|*tensorTransformGeneric*|*batched_transpose*|*SubTensorOpWithTranspose*"
    local transposes = "*transpose_readWrite*|*transpose_kernel*|*permute_kernel*"
    local shuffles = transposes
      .. "|*direct_copy_kernel*|*CatArrayBatchedCopy*|*float16_copy_kernel*|*half_copy_kernel*"
                  .. "|*copy_device_to_device*"
    for window in case.windows:rows() do
      local here    = { rank = window.rank, device = window.device }
      local work    = windows.work(case, window)
      local kernels = work:where { role = "compute" }
      local device_copies = work:where { copy_kind = "DtoD" }
      local moves   = kernels:where("match(name, ?) or match(name, ?)", layout, shuffles):concat(device_copies)
      local spent   = moves:sum("dur")
      local total   = kernels:sum("dur") + device_copies:sum("dur")
      if total > 0 and spent >= opt.min_share * total and spent >= opt.min_window * window.dur then
        -- Who asks: the innermost of these around the launch. `aten::copy_` itself is always innermost and says
        -- nothing.
        local calls = case.host_calls:where { rank = window.rank }
        local asks  = case.host_ops:where { rank = window.rank, category = "operator" }:where("match(name, ?)",
          "aten::contiguous|aten::clone|aten::reshape|aten::to|aten::_to_copy|aten::cat|aten::stack|*conv*|*ema*|*EMA*")
        local asked = {}
        local function add(kind, ns) asked[kind] = (asked[kind] or 0) + ns end
        local rest  = moves:where("not match(name, ?)", layout)
        add(CONVERSIONS, spent - rest:sum("dur"))
        local cats  = rest:where("match(name, '*CatArrayBatchedCopy*')")
        add("concatenations", cats:sum("dur"))
        local casts = rest:where("match(name, '*float16_copy_kernel*|*half_copy_kernel*')")
        add("casts", casts:sum("dur"))
        rest = rest:where("not match(name, '*CatArrayBatchedCopy*|*float16_copy_kernel*|*half_copy_kernel*')")
        local steps = case.ranges:where { rank = window.rank, category = "optimizer" }
        -- A convolution makes its operands contiguous inside itself: that is its layout.
        local convs = case.host_ops:where { rank = window.rank, category = "operator" }:where("match(name, '*conv*')")
        rest = rest:with { ask = rest:launched_by(calls, asks), step = rest:launched_by(calls, steps),
                           conv = rest:launched_by(calls, convs) }
        add("copies in the optimizer step", rest:where("step is not null"):sum("dur"))
        rest = rest:where("step is null")
        local turned = rest:where("match(name, ?)", transposes)
        add("transposes", turned:where("conv is null"):sum("dur"))
        add(CONVERSIONS, turned:where("conv is not null"):sum("dur"))
        rest = rest:where("not match(name, ?)", transposes)
        add("other copies", rest:where("ask is null"):sum("dur"))
        local function share_out(rows, otherwise)
          for row in rows:aggregate({ "ask" }, { total = "sum dur" }):top(5000, "total"):rows() do
            local name = asks:row(row.ask).name
            add(string.glob(name, "aten::to|aten::_to_copy") and "casts"
              or string.glob(name, "aten::cat|aten::stack") and "concatenations"
              or string.glob(name, "*ema*|*EMA*") and "moving averages of the weights"
              or otherwise, row.total)
          end
        end
        share_out(rest:where("conv is null"), "contiguous copies")
        share_out(rest:where("conv is not null"), CONVERSIONS)
        local order, said = {}, {}
        for kind, ns in pairs(asked) do
          if ns >= 0.05 * spent then order[#order + 1] = kind end
        end
        table.sort(order, function(a, b) return asked[a] > asked[b] end)
        for _, kind in ipairs(order) do said[#said + 1] = units.percent(asked[kind] / spent) .. " " .. kind end

        local faster = moves:with { saved = ("dur * %g"):format(opt.saved) }:select("start", "stop", "name", "saved")
        -- It is the layout only where that is the largest part.
        local turns, most = (asked[CONVERSIONS] or 0) + (asked.transposes or 0), 0
        for kind, ns in pairs(asked) do
          if kind ~= CONVERSIONS and kind ~= "transposes" then most = math.max(most, ns) end
        end
        report {
          symptom     = turns >= most and "layout-copies" or "value-copies",
          score       = math.min(1, 0.5 + spent / total),
          share       = spent / window.dur,
          recoverable = work:join(faster, { "start", "stop", "name" }, "left"):ends_sooner("saved", calls),
          at          = here,
          message     = ("%s of the kernel time on GPU %d only moves values, %s such as %s (%s, %s of the window): %s")
            :format(
            units.percent(spent / total), window.device,
              units.plural(moves:count(), "kernel or copy", "kernels and copies"),
              string.sub(moves:top(1, "dur"):first().name, 1, 60),
            units.format(spent), units.percent(spent / window.dur), table.concat(said, ", ")),
          evidence    = {
            moves:aggregate({ "name" }, { count = "count", total = "sum dur" }):top(5, "total")
              :renamed("kernels by time"),
            moves:top(5, "dur"),
          },
        }
      end
    end
  end,
}
