//===- ApiDocs.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ApiDocs.h"
#include "Case/Schema.h"
#include "Script/LuaDetector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

namespace {

enum class EntryKind { Function, Field, Standard };

/// A line of Api.def.
struct Entry {
  EntryKind Kind;
  StringRef Receiver, Name;
  StringRef Params; ///< Of a function.
  StringRef Result; ///< Of a function; the type of a field.
  StringRef Doc, Example;
};

constexpr Entry Entries[] = {
#define API(RECEIVER, NAME, FUNCTION, PARAMS, RESULT, DOC, EXAMPLE)            \
  {EntryKind::Function, #RECEIVER, NAME, PARAMS, RESULT, DOC, EXAMPLE},
#define FIELD(RECEIVER, NAME, TYPE, DOC)                                       \
  {EntryKind::Field, #RECEIVER, NAME, "", TYPE, DOC, ""},
#define STANDARD(MODULE, NAME, DOC)                                            \
  {EntryKind::Standard, #MODULE, NAME, "", "", DOC, ""},
#include "Script/Api.def"
};

/// A receiver: how it is written, and what it is.
struct Section {
  StringRef Receiver, Title, Prefix, Class, Doc;
};

constexpr Section Sections[] = {
    {"case", "The case", "case.", "culprit.Case",
     "What `run` is given: the tables below, and"},
    {"table", "Tables", "table:", "culprit.Table",
     "A table never changes: a verb makes another one, and copies no data. "
     "Rows are numbered from 0. Every row knows the file it came from. "
     "`#t` is the number of rows. `start` and `stop` name the columns of an "
     "interval and may be left out where they are called so."},
    {"row", "Rows", "row.", "culprit.Row", ""},
    {"column", "Columns", "column:", "culprit.Column",
     "Values that are missing stay missing, and statistics leave them out, as "
     "they do NaN and infinities."},
    {"global", "Functions", "", "", ""},
    {"units", "Units", "units.", "culprit.Units",
     "Factors, and figures as people read them."},
    {"string", "Text", "string.", "string",
     "Methods of every text too: `name:sub(1, 60)`. There are no Lua "
     "patterns: they can take exponential time inside one call, where no "
     "limit reaches."},
    {"table_library", "Lua's own: table", "table.", "", ""},
    {"math", "Lua's own: math", "math.", "", ""}};

} // namespace

/// `first: integer, last?: integer`, at the commas between parameters.
static SmallVector<StringRef, 4> parameters(StringRef Params) {
  SmallVector<StringRef, 4> Out;
  int Depth = 0;
  size_t First = 0;
  for (size_t I = 0; I != Params.size(); ++I) {
    if (StringRef("<({").contains(Params[I]))
      ++Depth;
    else if (StringRef(">)}").contains(Params[I]))
      --Depth;
    else if (Params[I] == ',' && Depth == 0) {
      Out.push_back(Params.slice(First, I).trim());
      First = I + 1;
    }
  }
  if (!Params.empty())
    Out.push_back(Params.substr(First).trim());
  return Out;
}

/// The names alone: `first, last`.
static std::string parameterNames(StringRef Params, StringRef Optional = "") {
  std::string Out;
  for (StringRef Param : parameters(Params)) {
    StringRef Name = Param.split(':').first;
    bool Omissible = Name.consume_back("?");
    Out += (Out.empty() ? "" : ", ") + Name.str();
    if (Omissible)
      Out += Optional;
  }
  return Out;
}

static const Section &sectionOf(const Entry &E) {
  return *llvm::find_if(
      Sections, [&](const Section &S) { return S.Receiver == E.Receiver; });
}

/// How a call is written: `table:top(n, column)`.
static std::string spelling(const Entry &E) {
  StringRef Prefix = sectionOf(E).Prefix;
  if (E.Kind == EntryKind::Field && E.Receiver == "row")
    return "row.column";
  if (E.Kind == EntryKind::Field && E.Receiver == "column")
    return "column + - * / number or column";
  if (E.Kind == EntryKind::Field)
    return (Prefix + E.Name).str();
  if (E.Kind == EntryKind::Standard)
    return (Prefix + E.Name).str();
  if (E.Receiver == "row")
    Prefix = "row:";
  return (Prefix + E.Name + "(" + parameterNames(E.Params, "?") + ")").str();
}

std::string apiList() {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << "api " << ScriptApiVersion << '\n';
  for (const Entry &E : Entries) {
    OS << E.Receiver << ' ' << E.Name;
    if (E.Kind == EntryKind::Function)
      OS << '(' << E.Params << ')';
    if (!E.Result.empty())
      OS << " -> " << E.Result;
    OS << '\n';
  }
  return Out;
}

// The stub ------------------------------------------------------------------//

/// The classes that only tables in Lua have.
static constexpr StringLiteral StubHead = R"(---@meta culprit
-- Generated from lib/Script/Api.def; do not edit. Types for editors alone: culprit never loads this file.

---@class culprit.Detector
---@field api integer The version of the API the file was written for: 1.
---@field summary string One sentence that says what is wrong when it matches.
---@field needs table<string, table> Tables with the columns that `run` reads. A name with a value asks for rows: metric = "loss".
---@field symptoms string[] The symptoms it may report, of kb/symptoms.md.
---@field relies? string[] Aspects of a recording without which its reports are lowered or withheld: launches, kernels, host-times, whole-record, clocks.
---@field options? table<string, culprit.Option> Settings, with default and doc.
---@field run fun(case: culprit.Case)

---@class culprit.Option
---@field default boolean|number|string
---@field doc string

---@class culprit.Report
---@field symptom string One of the declared symptoms.
---@field score number 0 to 1: how sure.
---@field message string What was seen, with its figures.
---@field evidence culprit.Evidence|culprit.Evidence[] The rows behind the message.
---@field at? table<string, any> Where: step, layer, rank, device, stream, token, name, ...
---@field severity? "info"|"warning"|"error" "error" when left out.
---@field recoverable? number ns that the window would be shorter without it.
---@field share? number Share of the window it takes, 0 to 1.

---@alias culprit.Evidence culprit.Row|culprit.Table|culprit.Column

---@class culprit.Input
---@field path string
---@field format string Empty: no reader knows the file.
---@field run string
)";

static void writeStubFunction(raw_ostream &OS, const Entry &E,
                              StringRef Owner) {
  OS << "\n---" << E.Doc << '\n';
  if (!E.Example.empty())
    OS << "---```lua\n---" << E.Example << "\n---```\n";
  bool Method =
      E.Receiver != "global" && E.Receiver != "units" && E.Receiver != "string";
  for (StringRef Param : parameters(E.Params)) {
    auto [Name, Type] = Param.split(':');
    OS << "---@param " << Name << ' ' << Type.trim() << '\n';
  }
  if (!E.Result.empty())
    OS << "---@return " << E.Result << '\n';
  if (E.Receiver == "table" && StringRef(E.Result) == "culprit.Table")
    OS << "---@nodiscard\n";
  OS << "function " << Owner
     << (Owner.empty() ? ""
         : Method      ? ":"
                       : ".")
     << E.Name << '(' << parameterNames(E.Params) << ") end\n";
}

static void writeStubClass(raw_ostream &OS, const Section &S) {
  OS << "\n---@class " << S.Class << '\n';
  for (const Entry &E : Entries) {
    if (E.Kind != EntryKind::Field || E.Receiver != S.Receiver)
      continue;
    if (E.Receiver == "column") {
      for (const char *Operator : {"add", "sub", "mul", "div"})
        for (const char *Other : {"number", "culprit.Column"})
          OS << "---@operator " << Operator << '(' << Other
             << "): culprit.Column\n";
      OS << "---@operator unm: culprit.Column\n";
    } else {
      OS << "---@field " << E.Name << ' ' << E.Result << ' ' << E.Doc << '\n';
    }
  }
}

std::string apiStub() {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << StubHead;
  for (const Section &S : Sections) {
    if (S.Receiver == "table_library" || S.Receiver == "math")
      continue; // the editor knows those
    std::string Owner = S.Receiver == "global" ? "" : S.Receiver.str();
    if (S.Receiver == "case") {
      writeStubClass(OS, S);
      for (const TableSchema &T : schemas())
        OS << "---@field " << T.Name << " culprit.Table One row is " << T.RowIs
           << ".\n";
      continue;
    }
    if (S.Receiver == "string") {
      Owner = "string";
    } else if (!Owner.empty()) {
      writeStubClass(OS, S);
      if (S.Receiver == "units") {
        OS << "units = {}\n";
      } else {
        Owner = S.Class.split('.').second.str();
        OS << "local " << Owner << " = {}\n";
      }
    }
    for (const Entry &E : Entries)
      if (E.Kind == EntryKind::Function && E.Receiver == S.Receiver &&
          !is_contained({"tostring", "pairs", "next"}, E.Name))
        writeStubFunction(OS, E, Owner);
  }
  return Out;
}

// The manual ----------------------------------------------------------------//

static constexpr StringLiteral ManualHead = R"(# The detector API

Generated from `lib/Script/Api.def`; do not edit. This is version 1, which a detector names with `api = 1`. Functions may
be added to it; what is described here is not changed or taken away.

A detector is one file, `plugins/<group>/<name>.lua`, that returns one table. Its id is its path: `gpu/idle`.

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

## The declaration

| key | says |
|---|---|
| `api` | the version of this API: 1 |
| `summary` | in one sentence, what is wrong when it matches |
| `needs` | the tables and columns that `run` reads |
| `symptoms` | the ids of `kb/symptoms.md` that it may report |
| `relies` | optional: the aspects of a recording its verdict leans on, as `capture_quality` measures them: `launches` (device work is joined to its launch calls), `kernels` (every kernel is a record of its own, not a whole graph), `host-times` (recording did not slow the host), `whole-record` (nothing dropped or cut off), `clocks` (times of several ranks compare). Where one is poor, reports count less, or the detector is skipped with the remedy |
| `options` | settings with `default` and `doc`, read as `case.options.<name>` and set by `--option ID.NAME=VALUE`; optional |
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

### Limits

10 s and 64 MiB of script memory a run; rows and columns of the case do not count to those. There are no files, clocks,
random numbers, `pcall`, coroutines or `setmetatable`. Every run starts afresh, so nothing is kept between runs. All this
protects from mistakes; it is no protection from someone who means harm.

## Expressions

`where`, `with` and `compute` take them as text and run at about a nanosecond a row, a hundred times faster than a loop.

| | |
|---|---|
| `or`, `and`, `not` | a comparison with a missing value is never true |
| `== != < <= > >=` | numbers with numbers, text with text |
| `is null`, `is not null` | whether a value is missing |
| `+ - * /` | exact in integers, but for `/` |
| `match(name, 'a*\|b?')` | glob; `\|` between alternatives |
| `contains(text, 'x')` | part of a text |
| `finite(x)`, `abs(x)` | neither missing, NaN nor infinite; magnitude |
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
| `at` | where: step, layer, rank, device, stream, token, name, ...; optional |
| `severity` | info, warning or error; error when left out |
| `recoverable` | ns by which the window would be shorter without it; optional |
| `share` | share of the window that it takes; optional |
)";

static void writeManualEntry(raw_ostream &OS, const Entry &E) {
  OS << "\n### `" << spelling(E) << "`";
  if (!E.Result.empty())
    OS << " -> `" << E.Result << '`';
  OS << "\n\n" << E.Doc << '\n';
  if (!E.Example.empty())
    OS << "\n```lua\n" << E.Example << "\n```\n";
}

/// Fields and functions of Lua, a line each.
static void writeManualTable(raw_ostream &OS, StringRef Receiver,
                             EntryKind Kind) {
  bool First = true;
  for (const Entry &E : Entries) {
    if (E.Receiver != Receiver || E.Kind != Kind)
      continue;
    if (First)
      OS << "\n| | |\n|---|---|\n";
    First = false;
    OS << "| `" << spelling(E) << "` | " << E.Doc << " |\n";
  }
}

std::string apiManual() {
  std::string Out;
  raw_string_ostream OS(Out);
  OS << ManualHead;
  for (const Section &S : Sections) {
    OS << "\n## " << S.Title << '\n';
    if (!S.Doc.empty())
      OS << '\n' << S.Doc << '\n';
    writeManualTable(OS, S.Receiver, EntryKind::Field);
    for (const Entry &E : Entries)
      if (E.Kind == EntryKind::Function && E.Receiver == S.Receiver)
        writeManualEntry(OS, E);
    writeManualTable(OS, S.Receiver, EntryKind::Standard);
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
