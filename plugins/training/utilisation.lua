--- ## What it detects
--- Model FLOPs utilisation (MFU): the floating-point operations that the model needs for its tokens, over what the
--- devices could do. (6 N + 12 L H Q T) operations a token, with N parameters, L layers, H heads of size Q, and T
--- positions. A logged figure is compared with the same formula.
---
--- ## Why it matters
--- 35 to 50 % is what good dense training reaches; below 20 % something other than the model's arithmetic takes the
--- time. A figure above 1 is no speed but a wrong peak, a wrong dtype, or tokens counted twice.
---
--- ## How to confirm
--- Count operations with torch.utils.flop_counter.FlopCounterMode for one step, and divide by the measured step time.
---
--- ## Known false positives
--- Mixtures of experts use a part of their parameters for a token; where the config names experts nothing is computed.
--- Small models do not fill a device. Figures between 0.9 and 3 whose name says no unit may be either, and nothing is
--- said of them.
---
--- ## References
--- https://arxiv.org/abs/2204.02311, appendix B; nanoGPT's estimate_mfu

local targets = require("targets")

---@type culprit.Detector
return {
  api      = 1,
  summary  = "The model uses a small, or an impossible, share of the devices",
  needs    = { scalars = { "step", "value", metric = { "mfu", "throughput", "step_time" } } },
  symptoms = { "mfu-low", "mfu-impossible" },
  options  = {
    low      = { default = 0.20, doc = "Utilisation below which it is low" },
    most     = { default = 0.90, doc = "Utilisation that no training reaches" },
    min_rows = { default = 16,   doc = "Logged steps below which nothing is judged" },
  },

  run = function(case)
    local opt, judged = case.options, false
    -- Dense peaks in operations a second: at 16 bits, with the matrix units.
    local peaks = {
      { "*B200*", 2250e12 }, { "*H100*PCIe*", 756e12 }, { "*H100*|*H200*|*GH200*", 989e12 }, { "*H20*", 148e12 },
      { "*A100*", 312e12 }, { "*A10G*", 70e12 }, { "*A10*", 125e12 }, { "*A40*", 150e12 }, { "*L40S*", 362e12 },
      { "*L4*", 121e12 }, { "*V100*", 125e12 }, { "*T4*", 65e12 }, { "*MI300X*|*MI325X*", 1307e12 },
      { "*MI250*", 383e12 }, { "*4090*", 165e12 }, { "*3090*", 71e12 },
    }
    local function peak()
      local device = case.devices:where("model is not null"):first()
      if not device then return nil end
      for _, known in ipairs(peaks) do
        if device.model:glob(known[1]) then return known[2], device end
      end
    end
    local function setting(globs)
      local row = case.config:where("match(key, ?) and number > 0", globs):first()
      return row and row.number, row
    end

    --- Operations of one token, forward and backward.
    local function operations()
      local layers = setting("*n_layer|*n_layers|*num_layers|*num_hidden_layers")
      local width  = setting("*d_model|*n_embd|*hidden_size|*dim")
      local length = setting("*context|*block_size|*seq_len|*seq_length|*max_seq_len|*context_length|*sequence_length")
      if setting("*num_experts|*n_experts|*num_local_experts|*moe_num_experts") then return nil end
      if not (layers and width and length) then return nil end
      -- Without a count of parameters: 12 d^2 a layer, and the head; a looked-up embedding multiplies nothing.
      local counted = setting("*num_params|*n_params|*num_parameters|*total_params|*model_parameters")
      local tokens  = targets.vocabulary(case):first()
      local vocab   = tokens and tokens.number or 0
      return 6 * (counted or 12 * layers * width * width + vocab * width) + 12 * layers * width * length, length
    end

    for run_name, run in case.scalars:where { name = "mfu", primary = true }:group("run") do
      local mfu = run:sort("step"):where("finite(value) and value > 0")
      if mfu:count() >= 3 then
        judged = true
        local name    = tostring(mfu:first().raw_name):lower()
        local percent = name:contains("%") or name:contains("percent") or name:contains("pct") or mfu:max("value") > 3
        -- nanoGPT's "mfu 1.02%" of a small model is a hundredth, and a row of figures has no sign.
        local share   = name:glob("*frac*|*share*|*ratio*")
        local usual   = mfu:slice(mfu:count() // 10, mfu:count()):median("value") / (percent and 100 or 1)
        if usual > opt.most and not percent and not share then
          skip(("the unit of %s: %.3g may be a share or per cent"):format(tostring(mfu:first().raw_name), usual),
            "mfu-impossible", "mfu-low")
        elseif usual > opt.most then
          report {
            symptom  = "mfu-impossible",
            score    = 0.95,
            at       = { step = mfu:first().step },
            message  = ("the logged utilisation is %s in the median, more than any training reaches: its peak, dtype "
              .. "or count of operations is wrong"):format(units.percent(usual)),
            evidence = { mfu:slice(0, 5) },
          }
        elseif usual < opt.low then
          report {
            symptom  = "mfu-low",
            score    = 0.6,
            severity = "info",
            at       = { step = mfu:first().step },
            message  = ("the logged utilisation is %s in the median"):format(units.percent(usual)),
            evidence = { mfu:slice(0, 5) },
          }
        end
      end
    end

    local top, device = peak()
    local each, length = operations()
    if top and each then
      local world = setting("*world_size|*num_processes|*n_gpus") or 1
      for run_name, run in case.scalars:where { name = "step_time", primary = true }:group("run") do
        local time  = run:sort("step"):where("value > 0")
        local batch = setting("*global_batch_size|*total_batch_size")
        if not batch then
          local rows = setting("*batch_size")
          batch = rows and rows * (setting("*accumulation_steps|*accumulate_grad_batches|*grad_accum*") or 1) * world
        end
        if time:count() >= opt.min_rows and batch then
          judged = true
          local took  = time:slice(time:count() // 10, time:count()):median("value")
          local usual = each * batch * length / took / (top * world)
          if usual > opt.most or usual < opt.low then
            report {
              symptom  = usual > opt.most and "mfu-impossible" or "mfu-low",
              score    = usual > opt.most and 0.7 or 0.6,
              severity = usual > opt.most and "warning" or "info",
              at       = { step = time:first().step },
              message  = ("%.4g operations a token, %.4g tokens in %.3g s on %d x %s of %.4g a second: %s of the peak")
                :format(each, batch * length, took, math.floor(world), device.model, top, units.percent(usual)),
              evidence = { time:slice(0, 3), device },
            }
          end
        end
      end
    end
    if not judged then
      skip("mfu, or step_time with the model's dimensions in a config and the device's model in a profile")
    end
  end,
}
