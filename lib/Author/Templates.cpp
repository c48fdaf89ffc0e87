//===- Templates.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Templates.h"

using namespace llvm;

namespace culprit {

static constexpr StringLiteral AnyLua = R"lua(
  summary  = "TODO: one sentence that says what is wrong",
  needs    = { @TABLE@ = { "@COLUMN@" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    min_rows = { default = 3, doc = "Rows with a value that are worth reporting" },
  },

  run = function(case)
    local opt  = case.options
    local rows = case.@TABLE@:where("@COLUMN@ is not null")
    if rows:count() < opt.min_rows then return end
    report {
      symptom  = "@SYMPTOM@",
      severity = "warning",
      score    = 0.5,
      message  = ("%s of @TABLE@ have a value in @COLUMN@"):format(units.plural(rows:count(), "row")),
      evidence = { rows:slice(0, 5) },
    }
  end,
)lua";

static constexpr StringLiteral AnyTest = R"yaml(# min_rows is 3.
name: three rows with a value
case:
  @TABLE@: {columns: [@COLUMN@], rows: [[@VALUE@], [@VALUE@], [@VALUE@]]}
expect:
- symptom: @SYMPTOM@
  message: "3 rows of *"
---
name: two rows
case:
  @TABLE@: {columns: [@COLUMN@], rows: [[@VALUE@], [@VALUE@]]}
expect: clear
---
name: three rows, of which one has no value
case:
  @TABLE@: {columns: [@COLUMN@], rows: [[@VALUE@], [@VALUE@], [~]]}
expect: clear
)yaml";

static constexpr StringLiteral WorkLua = R"lua(
  summary  = "A device runs nothing for a large share of the record",
  needs    = { gpu_work = { "device", "start", "stop" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    min_share = { default = 0.30, doc = "Idle share of the record worth reporting" },
    min_work  = { default = 32,   doc = "Pieces of work below which a record is too short to judge" },
  },

  run = function(case)
    local opt, judged = case.options, false
    for device, work in case.gpu_work:group("device") do
      if work:count() >= opt.min_work then
        judged = true
        local gaps  = work:gaps()
        local idle  = gaps:sum("dur")
        local share = idle / work:span()
        if share >= opt.min_share then
          report {
            symptom     = "@SYMPTOM@",
            score       = math.min(1, 0.4 + share),
            share       = share,
            recoverable = idle,
            at          = { device = device },
            message     = ("GPU %d runs nothing in %s of %s (%s)"):format(device, units.format(idle),
              units.format(work:span()), units.percent(share)),
            evidence    = { gaps:top(5, "dur") },
          }
        end
      end
    end
    if not judged then skip(("at least %d pieces of device work: record more steps"):format(opt.min_work)) end
  end,
)lua";

static constexpr StringLiteral WorkTest = R"yaml(# 60 us of every 100 us, 40 times: 39 gaps of 40 us are 1.56 ms of 39 * 100 + 60 us = 3.96 ms, 39 %.
# 95 us of every 100 us: 39 * 5 us = 195 us of 3.995 ms, 4.9 %.
name: a device that idles for 39 % of the record
case:
  gpu_work: {columns: [kind, name, device, start, stop], rows: [[kernel, gemm, 0, 0, 60000]], repeat: 40, every: 100000}
expect:
- symptom: @SYMPTOM@
  at: {device: 0}
  message: "GPU 0 runs nothing in 1.56 ms of 3.96 ms (39 %)"
  share: 0.39
---
name: a busy device
case:
  gpu_work: {columns: [kind, name, device, start, stop], rows: [[kernel, gemm, 0, 0, 95000]], repeat: 40, every: 100000}
expect: clear
---
# Looks alike: each stream idles for 40 %, and the device does not.
name: two streams that take turns
case:
  gpu_work:
    columns: [kind, name, device, stream, start, stop]
    rows: [[kernel, gemm, 0, 7, 0, 60000], [kernel, gemm, 0, 8, 40000, 100000]]
    repeat: 40
    every: 100000
expect: clear
---
name: too little to judge by
case:
  gpu_work: {columns: [kind, name, device, start, stop], rows: [[kernel, gemm, 0, 0, 60000]], repeat: 31, every: 100000}
expect: {skipped: "at least 32 pieces of device work*"}
)yaml";

static constexpr StringLiteral ScalarsLua = R"lua(
  summary  = "The loss jumps far above its usual level",
  needs    = { scalars = { "step", "value", metric = "loss" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    window = { default = 16,  doc = "Values whose median is the usual level" },
    factor = { default = 3.0, doc = "Multiple of the usual level that counts as a jump" },
  },

  run = function(case)
    local opt  = case.options
    local loss = case.scalars:where { name = "loss" }:sort("step")
    if loss:count() < opt.window then
      skip(("at least %d logged values of the loss"):format(opt.window))
      return
    end
    -- The median hardly moves for one high value, so the jump itself may be in the window.
    local usual = loss:with { usual = loss:col("value"):rolling(opt.window, "median") }
    local high  = usual:where("usual > 0 and value >= ? * usual", opt.factor)
    local first = high:first()
    if not first then return end
    report {
      symptom  = "@SYMPTOM@",
      score    = math.min(1, 0.2 * first.value / first.usual),
      at       = { step = first.step },
      message  = ("the loss is %s at step %d, %.1f times the usual %s"):format(units.number(first.value), first.step,
        first.value / first.usual, units.number(first.usual)),
      evidence = { loss:around(first, 8) },
    }
  end,
)lua";

static constexpr StringLiteral ScalarsTest = R"yaml(# 20 losses of 2, then one of 12: 6 times the median of the 16 values up to it.
name: a jump at step 20
case:
  scalars: {columns: [name, step, value], rows: [[loss, 0, 2]], repeat: 20}
  scalars: {columns: [name, step, value], rows: [[loss, 20, 12], [loss, 21, 2]]}
expect:
- symptom: @SYMPTOM@
  at: {step: 20}
  message: "the loss is 12 at step 20, 6.0 times the usual 2"
---
name: a level loss
case:
  scalars: {columns: [name, step, value], rows: [[loss, 0, 2]], repeat: 40}
expect: clear
---
# Looks alike: high values at the beginning, before there is a usual level.
name: a loss that falls from where it began
case:
  scalars: {columns: [name, step, value], rows: [[loss, 0, 12], [loss, 1, 6], [loss, 2, 3]]}
  scalars: {columns: [name, step, value], rows: [[loss, 3, 2]], repeat: 20}
expect: clear
---
name: too little to judge by
case:
  scalars: {columns: [name, step, value], rows: [[loss, 0, 2]], repeat: 8}
expect: {skipped: "at least 16 logged values*"}
)yaml";

static constexpr StringLiteral TensorsLua = R"lua(
  summary  = "A dumped tensor holds NaN or infinite values",
  needs    = { tensors = { "name", "nonfinite" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    ignore = { default = "*mask*|*bias*", doc = "Names of tensors in which infinities are meant" },
  },

  run = function(case)
    local opt   = case.options
    local bad   = case.tensors:where("nonfinite > 0 and (nan > 0 or not match(name, ?))", opt.ignore)
    local first = bad:sort("step", "order"):first()
    if not first then return end
    report {
      symptom  = "@SYMPTOM@",
      score    = 0.8,
      at       = { step = first.step, name = first.name },
      message  = ("%s is the first of %s with values that are not finite: %d NaN, %d infinite"):format(first.name,
        units.plural(bad:count(), "tensor"), first.nan, first.inf),
      evidence = { first },
    }
  end,
)lua";

static constexpr StringLiteral TensorsTest = R"yaml(# Of the second tensor one element of three is NaN.
name: NaN in the second layer
case:
  tensors:
  - {name: layers.0.output, step: 3, dtype: float32, data: [1, 2, 3]}
  - {name: layers.1.output, step: 3, dtype: float32, data: [1, .nan, 3]}
expect:
- symptom: @SYMPTOM@
  at: {step: 3, name: layers.1.output}
  message: "layers.1.output is the first of 1 tensor *: 1 NaN, 0 infinite"
---
name: finite values
case:
  tensors:
  - {name: layers.0.output, step: 3, dtype: float32, data: [1, 2, 3]}
  - {name: layers.1.output, step: 3, dtype: float32, data: [4, 5, 6]}
expect: clear
---
# Looks alike: a mask is made of infinities.
name: an attention mask
case:
  tensors:
  - {name: layers.0.attn_mask, step: 3, dtype: float32, data: [0, -.inf, -.inf]}
expect: clear
)yaml";

static constexpr StringLiteral LinesLua = R"lua(
  summary  = "The log says that a disk or a quota is full",
  needs    = { log_lines = { "text" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    phrases = { default = "*No space left on device*|*Disk quota exceeded*", doc = "Globs of the lines that say so" },
  },

  run = function(case)
    local opt   = case.options
    local lines = case.log_lines:where("match(text, ?) and (level is null or level != 'info')", opt.phrases)
    local first = lines:first()
    if not first then return end
    report {
      symptom  = "@SYMPTOM@",
      score    = 0.9,
      at       = { line = first.line },
      message  = ("%s, the first: %s"):format(units.plural(lines:count(), "line"), first.text:trim():sub(1, 120)),
      evidence = { lines:slice(0, 5) },
    }
  end,
)lua";

static constexpr StringLiteral LinesTest = R"yaml(name: a checkpoint that cannot be written
case:
  log_lines:
    columns: [source, line, level, text]
    rows:
    - [train.log, 1, info, "saving checkpoint"]
    - [train.log, 2, error, "OSError: [Errno 28] No space left on device"]
expect:
- symptom: @SYMPTOM@
  at: {line: 2}
  message: "1 line, the first: OSError: *"
---
name: a log without trouble
case:
  log_lines: {columns: [source, line, level, text], rows: [[train.log, 1, info, "saving checkpoint"]]}
expect: clear
---
# Looks alike: the words without the event.
name: a log that explains itself
case:
  log_lines:
    columns: [source, line, level, text]
    rows: [[train.log, 1, info, "stops early on 'No space left on device'"]]
expect: clear
)yaml";

static constexpr StringLiteral RequestsLua = R"lua(
  summary  = "A large share of the requests runs into a time limit",
  needs    = { requests = { "status" } },
  symptoms = { "@SYMPTOM@" },
  options  = {
    min_share    = { default = 0.05, doc = "Share of timed-out requests worth reporting" },
    min_requests = { default = 20,   doc = "Requests below which a share says little" },
  },

  run = function(case)
    local opt   = case.options
    local known = case.requests:where("status is not null")
    if known:count() < opt.min_requests then
      skip(("at least %d requests with a status"):format(opt.min_requests))
      return
    end
    local late  = known:where { status = { 408, 504 } }
    local share = late:count() / known:count()
    if share < opt.min_share then return end
    report {
      symptom  = "@SYMPTOM@",
      score    = math.min(1, 0.5 + share),
      share    = share,
      message  = ("%d of %s (%s) ended in a time-out"):format(late:count(), units.plural(known:count(), "request"),
        units.percent(share)),
      evidence = { late:slice(0, 5) },
    }
  end,
)lua";

static constexpr StringLiteral RequestsTest = R"yaml(# 4 of 24 requests are 16.7 %.
name: every sixth request times out
case:
  requests: {columns: [id, status], rows: [[a, 200], [b, 200], [c, 504], [d, 200], [e, 200], [f, 200]], repeat: 4}
expect:
- symptom: @SYMPTOM@
  message: "4 of 24 requests (17 %) ended in a time-out"
---
name: requests that are answered
case:
  requests: {columns: [id, status], rows: [[a, 200]], repeat: 24}
expect: clear
---
# Looks alike: requests fail, for another reason.
name: every other request is refused
case:
  requests: {columns: [id, status], rows: [[a, 200], [b, 429]], repeat: 12}
expect: clear
---
name: too little to judge by
case:
  requests: {columns: [id, status], rows: [[a, 504]], repeat: 3}
expect: {skipped: "at least 20 requests*"}
)yaml";

ArrayRef<DetectorTemplate> detectorTemplates() {
  static constexpr DetectorTemplate Templates[] = {
      {"", "", "three rows or more have a value in one column.",
       "rows without a value.", AnyLua, AnyTest},
      {"gpu_work", "gpu-idle",
       "the share of the record in which a device runs nothing, from 30 % on.",
       "streams that take turns: what counts is the device.", WorkLua,
       WorkTest},
      {"scalars", "loss-spike",
       "a loss three times the median of the last 16 or more.",
       "the high values of the first steps, before there is a usual level.",
       ScalarsLua, ScalarsTest},
      {"tensors", "nonfinite-activation",
       "the first tensor in the order of execution with NaN or infinities.",
       "masks and biases, in which infinities are meant.", TensorsLua,
       TensorsTest},
      {"log_lines", "log-disk-full",
       "a line of the log, above the level info, that says so.",
       "a line that only speaks of it.", LinesLua, LinesTest},
      {"requests", "requests-time-out",
       "answers 408 and 504 for 5 % of the requests or more.",
       "requests that fail for another reason.", RequestsLua, RequestsTest}};
  return Templates;
}

} // namespace culprit
