--- ## What it detects
--- Known errors in text logs: out of memory, illegal accesses, device-side assertions, collective timeouts and
--- mismatches, Xid and ECC events, driver and library mismatches, and others.
---
--- ## Why it matters
--- The first error is usually the cause and the last one in the file a consequence: a rank dies, and all others time
--- out.
---
--- ## How to confirm
--- Read the lines around the first one, on the rank that logged it first.
---
--- ## Known false positives
--- Lines that quote an error, such as documentation in a log. Settings that merely name one (`nccl_timeout=1800`) are
--- not taken.
---
--- ## References
--- NVIDIA's Xid catalogue: https://docs.nvidia.com/deploy/xid-errors/

---@type culprit.Detector
return {
  api      = 1,
  summary  = "Known errors in the logs",
  needs    = { log_lines = { "text" } },
  symptoms = {
    "log-cuda-oom", "log-oom-fragmented", "log-host-oom", "log-illegal-access", "log-device-assert",
    "log-index-out-of-bounds", "log-nccl-timeout", "log-nccl-mismatch", "log-nccl-network", "log-rank-exited",
    "log-xid", "log-ecc", "log-nvlink", "log-driver-too-old", "log-arch-missing", "log-library-mismatch",
    "log-shm-exhausted", "log-port-in-use", "log-fork-after-cuda", "log-nan-detected", "log-shape-mismatch",
    "log-keys-mismatch", "log-checkpoint-corrupt", "log-recompile-limit", "log-unused-parameters",
    "log-sequence-too-long", "log-padding-side", "log-file-descriptors", "log-profiler-permission",
    "log-uncaught-exception",
  },
  options  = {
    fragmented = { default = 0.10, doc = "Reserved but unallocated share of the device that means fragmentation" },
  },

  run = function(case)
    -- What no signature knows still ended the run, unless it was only a warning.
    local unknown = case.errors:where("signature is null and type != 'warning'")
    local final   = unknown:last()
    if final then
      report {
        symptom  = "log-uncaught-exception",
        score    = 0.9,
        severity = "error",
        at       = { source = final.source, line = final.line, rank = final.rank },
        message  = ("%s%s%s%s"):format(final.type and final.message and not final.message:starts_with(final.type)
          and final.type .. ": " or "",
          string.sub(final.message or final.type or "an error", 1, 200),
          final.frames and (", raised at " .. string.sub(final.frames, 1, 120)) or "",
          unknown:count() > 1 and ("; the last of %d such errors"):format(unknown:count()) or ""),
        evidence = { final },
      }
    end
    for signature, errors in case.errors:where("signature is not null"):group("signature") do
      local first = errors:first()
      local named = errors:where("rank is not null")
      local ranks = named:distinct("rank"):count()
      report {
        symptom  = "log-" .. signature,
        -- A warning that the run went on after says less than the error that ended it.
        score    = first.type == "warning" and 0.6 or 0.95,
        severity = first.type == "warning" and "warning" or "error",
        at       = { source = first.source, line = first.line, rank = first.rank },
        message  = ("%s%s%s"):format(string.sub(first.message or first.type or signature, 1, 160),
          errors:count() > 1 and (" (%d times)"):format(errors:count()) or "",
          ranks > 1 and (" on %d ranks, first on rank %d"):format(ranks, named:first().rank) or ""),
        evidence = { errors:slice(0, 10) },
      }
      if signature == "cuda-oom" then
        local loose = errors:where("reserved_unallocated is not null and capacity > 0")
          :with { share = "reserved_unallocated / capacity" }:top(1, "share"):first()
        if loose and loose.share >= case.options.fragmented then
          report {
            symptom  = "log-oom-fragmented",
            score    = 0.85,
            at       = { source = loose.source, line = loose.line },
            message  = ("%s of the device (%s) is reserved but unallocated while %s cannot be found")
              :format(units.percent(loose.share),
              units.bytes(loose.reserved_unallocated), loose.bytes and units.bytes(loose.bytes) or "the request"),
            evidence = { loose },
          }
        end
      end
    end
  end,
}
