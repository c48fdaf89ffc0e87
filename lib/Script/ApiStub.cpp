//===- ApiStub.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Script/ApiDocs.h"
#include "Case/Schema.h"
#include "Script/ApiEntries.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

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
---@field at? table<string, any> Where: step, layer, layers, rank, device, stream, token, name, ...
---@field severity? "info"|"warning"|"error" "error" when left out.
---@field recoverable? number ns that the window would be shorter without it.
---@field share? number Share of the window it takes, 0 to 1.

---@alias culprit.Evidence culprit.Row|culprit.Table|culprit.Column

---@class culprit.Input
---@field path string
---@field format string Empty: no reader knows the file.
---@field run string
)";

/// The table of a group comes after as many values as there are columns, which
/// a type cannot say of any number of them.
static constexpr StringLiteral GroupTypes =
    R"(---@overload fun(self: culprit.Table, a: string, b: string): fun(): any, any, culprit.Table
---@overload fun(self: culprit.Table, a: string, b: string, c: string): fun(): any, any, any, culprit.Table
---@return fun(): any, culprit.Table
)";

/// Editors replace their own string library, with its patterns, by this one.
static constexpr StringLiteral StringClass = R"(
---@class stringlib
string = {}

---@class string: stringlib
)";

static void writeStubFunction(raw_ostream &OS, const ApiEntry &E,
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
  if (E.Receiver == "table" && E.Name == "group")
    OS << GroupTypes;
  else if (!E.Result.empty())
    OS << "---@return " << E.Result << '\n';
  if (E.Receiver == "table" && StringRef(E.Result) == "culprit.Table")
    OS << "---@nodiscard\n";
  OS << "function " << Owner
     << (Owner.empty() ? ""
         : Method      ? ":"
                       : ".")
     << E.Name << '(' << parameterNames(E.Params) << ") end\n";
}

static void writeStubClass(raw_ostream &OS, const ApiSection &S) {
  OS << "\n---@class " << S.Class << '\n';
  for (const ApiEntry &E : apiEntries()) {
    if (E.Kind != ApiKind::Field || E.Receiver != S.Receiver)
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
  for (const ApiSection &S : apiSections()) {
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
      OS << StringClass;
    } else if (!Owner.empty()) {
      writeStubClass(OS, S);
      if (S.Receiver == "units") {
        OS << "units = {}\n";
      } else {
        Owner = S.Class.split('.').second.str();
        OS << "local " << Owner << " = {}\n";
      }
    }
    for (const ApiEntry &E : apiEntries())
      if (E.Kind == ApiKind::Function && E.Receiver == S.Receiver &&
          !is_contained({"tostring", "pairs", "next", "require"}, E.Name))
        writeStubFunction(OS, E, Owner);
  }
  return Out;
}

} // namespace culprit
