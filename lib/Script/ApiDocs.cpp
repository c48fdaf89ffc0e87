//===- ApiDocs.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ApiDocs.h"
#include "Case/Schema.h"
#include "Script/ApiEntries.h"
#include "Script/LuaDetector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

static const ApiSection &sectionOf(const ApiEntry &E) {
  return *llvm::find_if(apiSections(), [&](const ApiSection &S) {
    return S.Receiver == E.Receiver;
  });
}

/// How a call is written: `table:top(n, column)`.
static std::string spelling(const ApiEntry &E) {
  StringRef Prefix = sectionOf(E).Prefix;
  if (E.Kind == ApiKind::Field && E.Receiver == "row")
    return "row.column";
  if (E.Kind == ApiKind::Field && E.Receiver == "column")
    return "column + - * / number or column";
  if (E.Kind == ApiKind::Field)
    return (Prefix + E.Name).str();
  if (E.Kind == ApiKind::Standard)
    return (Prefix + E.Name).str();
  if (E.Receiver == "row")
    Prefix = "row:";
  return (Prefix + E.Name + "(" + parameterNames(E.Params, "?") + ")").str();
}

std::string apiList() {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << "api " << ScriptApiVersion << '\n';
  for (const ApiEntry &E : apiEntries()) {
    OS << E.Receiver << ' ' << E.Name;
    if (E.Kind == ApiKind::Function)
      OS << '(' << E.Params << ')';
    if (!E.Result.empty())
      OS << " -> " << E.Result;
    OS << '\n';
  }
  return Out;
}

static constexpr StringLiteral ManualHead = R"(# The detector API

Generated from `lib/Script/Api.def`; do not edit. This is version 1, which a detector names with `api = 1`. Functions may
be added to it; what is described here is not changed or taken away.

A detector is one file, `plugins/<group>/<name>.lua`, that returns one table. Its id is its path: `gpu/idle`. A project
has its own in `.culprit/plugins/`. `docs/writing-a-detector.md` is the tutorial. `culprit run-lua -e CODE PATH` tries code
on a recorded run, with `case` as a detector has it.

```lua
--- ## What it detects
--- A device that runs nothing for a large share of the run.

---@type culprit.Detector
return {
  api      = 1,
  summary  = "A device idles for a large share of the run",
  needs    = { gpu_work = { "device", "start", "stop" } },
  symptoms = { "gpu-idle" },
  options  = { min_share = { default = 0.10, doc = "Idle share worth reporting" } },

  run = function(case)
    for device, work in case.gpu_work:group("device") do
      local gaps  = work:gaps()
      local share = gaps:sum("dur") / work:span()
      if share >= case.options.min_share then
        report {
          symptom  = "gpu-idle",
          score    = math.min(1, 2 * share),
          at       = { device = device },
          message  = ("GPU %d is idle %s of the run"):format(device, units.percent(share)),
          evidence = { gaps:top(5, "dur") },
        }
      end
    end
  end,
}
```
)";

static constexpr StringLiteral ManualRules = R"(
## The declaration

| key | says |
|---|---|
| `api` | the version of this API: 1 |
| `summary` | in one sentence, what is wrong when it matches |
| `needs` | the tables and columns that `run` reads |
| `symptoms` | the ids of `kb/symptoms.md`, or of the project's `.culprit/symptoms.md`, that it may report |
| `relies` | optional: the aspects of a recording its verdict leans on, as `capture_quality` measures them: `launches` (device work is joined to its launch calls), `kernels` (every kernel is a record of its own, not a whole graph), `host-times` (recording did not slow the host), `whole-record` (nothing dropped or cut off), `clocks` (times of several ranks compare). Where one is poor, reports count less, or the detector is skipped with the remedy |
| `options` | settings with `default` and `doc`, read as `case.options.<name>` and set by `--option ID.NAME=VALUE` or in `.culprit.yaml`; optional |
| `run` | the check: a function of the case |

The comment above it, lines that begin with `---`, is what `culprit explain` prints. Its headings are What it detects, Why
it matters, How to confirm, Known false positives, References.

### needs

A detector runs where the case has what it needs, and is *skipped* elsewhere, with the names of what is missing. This
matters: `clear` speaks against a cause, `skipped` does not.

```lua
needs = {
  tensors = { "step", "nonfinite" },               -- some row has a value in each of these columns
  scalars = { "step", "value", metric = "loss" },  -- the same among the rows whose metric is loss
  ranges  = { category = { "step", "dataloader" } }, -- one of these values at least
  any     = { errors = { "code" }, log_lines = { "text" } }, -- one of these tables at least
}
```

`tensors = { "data" }` asks for the values behind the statistics. A detector that finds too little to judge by calls
`skip`.

### Outcomes

| outcome | when |
|---|---|
| matched | `report` was called |
| clear | `run` returned without a report |
| skipped | something in `needs` is missing, or `skip` was called and `report` was not |
| failed | the file does not load, or `run` failed: its reports are dropped, and the other detectors go on |

A detector of several symptoms may know enough for one and not for another. `skip("two runs at least", "one-rank-lines")`
leaves that symptom open, and the outcome speaks of the others.

### Modules

What several detectors need stands in a module, `lib/<name>.lua` beside the groups: a file that returns a table.
`require("<name>")` reads it, once a run; a project's modules go before those that are shipped. Modules have the same
names and limits as detectors, and an error in one names its line and the line that called it.

### Limits

| | | when it is passed |
|---|---|---|
| time | 10 s a run, in Lua and within verbs | `ran longer than 10.0 s`, at the line |
| memory | 64 MiB of Lua's own values; tables that verbs make: 1 GiB and four times the case | `needs more than 64.0 MiB of script memory` |
| rows | 10,000 a `rows()`, 1,000,000 one by one in all; 50,000 groups a `group()` | `rows() would go over ...` |
| source | 256 KiB a file | `Lua of a detector may have 256 KiB` |

A detector that passes one fails alone. Rows and columns of the case count to none of these. There are no files, clocks,
random numbers, `pcall`, coroutines or `setmetatable`. Every run starts afresh, so nothing is kept between runs. All this
protects from mistakes; it is no protection from someone who means harm.

## Expressions

`where`, `with` and `compute` take them as text and run at about a nanosecond a row, a hundred times faster than a loop.
A text is parsed once, so that it may be asked of many groups; give values by `?` rather than write them into the text.

| | |
|---|---|
| `or`, `and`, `not` | a comparison with a missing value is never true |
| `== != < <= > >=` | numbers with numbers, text with text |
| `is null`, `is not null` | whether a value is missing |
| `x in (1, 2)`, `x not in ('a', ?)` | one of some constants |
| `+ - * / %` | exact in integers, but for `/`; `%` has the sign of the divisor, and is missing for integers `% 0` |
| `match(name, 'a*\|b?')` | glob; `\|` between alternatives |
| `contains(text, 'x')`, `starts_with(text, 'x')`, `ends_with(text, 'x')` | part of a text |
| `length(text)` | in bytes |
| `finite(x)`, `abs(x)` | neither missing, NaN nor infinite; magnitude |
| `floor(x)`, `ceil(x)`, `round(x)` | halves are rounded away from 0; integers stay |
| `sqrt(x)`, `log(x)`, `exp(x)` | missing for the root of what is negative and the logarithm of what is not positive |
| `min(a, b, ...)`, `max(a, b, ...)` | of one row; missing where one is missing |
| `if(dur > 5, a, b)` | `b` where the condition is not true |
| `coalesce(a, b, ...)` | the first that is not missing |
| `product(grid)` | of the numbers of a list |
| `42`, `1e6`, `'text'`, `true`, `?` | values; `?` is the next argument |
| `dur`, `run.name`, `` `any name` `` | columns |

## report

| key | says |
|---|---|
| `symptom` | one of the declared symptoms |
| `score` | 0 to 1: how sure |
| `message` | what was seen, with its figures |
| `evidence` | rows, tables or columns, or a list of them: what the message rests on |
| `at` | where: step, layer, rank, device, stream, token, name, ...; optional. A value may be a list of texts: `layers`, all that show it, `layer` among them |
| `severity` | info, warning or error; error when left out |
| `recoverable` | ns by which the window would be shorter without it; optional |
| `share` | share of the window that it takes; optional |
)";

/// The anchor that a heading of markdown has on a page: small letters, digits,
/// `-` and `_`, and `-` for a blank.
static std::string anchor(StringRef Heading) {
  std::string Out = "#";
  for (char C : Heading)
    if (isAlnum(C) || C == '-' || C == '_')
      Out += toLower(C);
    else if (C == ' ')
      Out += '-';
  return Out;
}

/// The heading of \p E, or of the part of the manual in which it is a line.
static std::string headingOf(const ApiEntry &E) {
  if (E.Kind != ApiKind::Function)
    return sectionOf(E).Title.str();
  std::string Out = "`" + spelling(E) + "`";
  if (!E.Result.empty())
    Out += (" -> `" + E.Result + "`").str();
  return Out;
}

/// What there is by purpose: a list of links for each topic.
static void writeManualIndex(raw_ostream &OS) {
  OS << "\n## By purpose\n\n"
        "[The declaration](#the-declaration), [needs](#needs), "
        "[outcomes](#outcomes), [modules](#modules), [limits](#limits),\n"
        "[expressions](#expressions), [report](#report), [the tables of a "
        "case](#the-case); and the verbs:\n\n"
        "| for | there is |\n|---|---|\n";
  for (const ApiTopic &T : apiTopics()) {
    OS << "| " << T.Purpose << " | ";
    StringRef Before;
    for (StringRef Name : T.names()) {
      auto [Receiver, Called] = Name.split(':');
      const ApiEntry *E = find_if(apiEntries(), [&](const ApiEntry &E) {
        return E.Receiver == Receiver && E.Name == Called;
      });
      if (E == apiEntries().end())
        continue; // the unit test tells
      // "table: where, top; column: diff"
      if (Before != Receiver) {
        OS << (Before.empty() ? "" : "; ");
        StringRef Of = sectionOf(*E).Prefix.rtrim(".:");
        OS << Of << (Of.empty() ? "" : ": ");
      } else {
        OS << ", ";
      }
      Before = Receiver;
      StringRef Shown = Called == "[string]" ? "row.column" : Called;
      OS << "[`" << Shown << "`](" << anchor(headingOf(*E)) << ')';
    }
    OS << " |\n";
  }
}

static void writeManualEntry(raw_ostream &OS, const ApiEntry &E) {
  OS << "\n### " << headingOf(E) << "\n\n" << E.Doc << '\n';
  if (!E.Example.empty())
    OS << "\n```lua\n"
       << E.Example << '\n'
       << (resultOf(E).empty() ? "" : ("--> " + resultOf(E) + "\n").str())
       << "```\n";
}

/// Fields and functions of Lua, a line each.
static void writeManualTable(raw_ostream &OS, StringRef Receiver,
                             ApiKind Kind) {
  bool First = true;
  for (const ApiEntry &E : apiEntries()) {
    if (E.Receiver != Receiver || E.Kind != Kind)
      continue;
    if (First)
      OS << "\n| | |\n|---|---|\n";
    First = false;
    OS << "| `" << spelling(E) << "` | " << E.Doc << " |\n";
  }
}

/// What the examples are run over.
static constexpr StringLiteral ManualSample = R"(
## The sample of the examples

The examples below are run by a test over this case; behind `-->` stands what they give.

| `case.gpu_work`, also `work` and `steps` | start | stop | dur | device | kind | name |
|---|---|---|---|---|---|---|
| row 0 | 0 | 40 | 40 | 0 | kernel | gemm_a |
| row 1 | 60 | 100 | 40 | 0 | kernel | gemm_b |
| row 2 | 100 | 130 | 30 | 0 | copy | HtoD |
| row 3 | 130 | 140 | 10 | 1 | kernel | softmax |

`kernels` (and `downloads`) and `copies` (and `uploads`) are the rows of a kind, `values` and `losses` the column `dur`,
`deltas` its `diff()`. `calls` and `waits` are two `host_calls` of role `sync`, [40, 55) and [200, 210). `gaps` and `idle`
are `work:gaps()`. `loss` has the metric `loss` of steps 0 to 30: 2.00, 2.01, 2.02 over and over, but 50 at step 20
(`spike`) and NaN at step 30.

Tensors: `row` and `inputs` are the integers 1 to 6 of shape [2, 3], and `labels` the same shifted left with -100 at the
ends; `before` and `now` are 1 to 6 and 1 to 5 with 8 last. `logits` of shape [1, 3, 2] has the softmax (1/4, 3/4), (3/4,
1/4), (1/4, 3/4), and `ids` are 0, 1, 1. `probs` is [[0.9, 0.1], [0.5, 0.5]].
)";

std::string apiManual() {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << ManualHead;
  writeManualIndex(OS);
  OS << ManualRules << ManualSample;
  for (const ApiSection &S : apiSections()) {
    OS << "\n## " << S.Title << '\n';
    if (!S.Doc.empty())
      OS << '\n' << S.Doc << '\n';
    writeManualTable(OS, S.Receiver, ApiKind::Field);
    for (const ApiEntry &E : apiEntries())
      if (E.Kind == ApiKind::Function && E.Receiver == S.Receiver)
        writeManualEntry(OS, E);
    writeManualTable(OS, S.Receiver, ApiKind::Standard);
    if (S.Receiver != "case")
      continue;
    OS << "\n| table | one row is |\n|---|---|\n";
    for (const TableSchema &T : schemas()) {
      OS << "| `case." << T.Name << "` | " << T.RowIs << ": ";
      interleaveComma(T.Columns, OS,
                      [&](const ColumnSchema &C) { OS << C.Name; });
      OS << " |\n";
    }
  }
  return Out;
}

} // namespace culprit
