//===- WrittenRows.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/WrittenRows.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

bool parseNumber(StringRef Text, double &Out) {
  StringRef Bare = Text;
  bool Negative = Bare.consume_front("-");
  Bare.consume_front(".");
  if (Bare.equals_insensitive("nan")) {
    Out = std::nan("");
    return true;
  }
  if (Bare.equals_insensitive("inf") || Bare.equals_insensitive("infinity")) {
    Out = Negative ? -INFINITY : INFINITY;
    return true;
  }
  return !Text.getAsDouble(Out);
}

static Error setCells(TableBuilder &B, const TableSchema &T, StringRef Place,
                      ArrayRef<unsigned> Columns, ArrayRef<WrittenCell> Row,
                      int64_t Copy, int64_t Every) {
  for (size_t I = 0; I != Columns.size(); ++I) {
    if (Row[I].Null)
      continue;
    const ColumnSchema &C = T.Columns[Columns[I]];
    auto wrong = [&]() {
      return failure(Place + ": '" + Row[I].Text + "' in column '" + C.Name +
                         "' of '" + T.Name + "' is not " + toString(C.Type),
                     "docs/tables.md has the type of every column");
    };
    switch (C.Type) {
    case ColumnType::Int: {
      int64_t Value;
      if (StringRef(Row[I].Text).getAsInteger(10, Value))
        return wrong();
      if (C.Unit == "time")
        Value = static_cast<int64_t>(uint64_t(Value) +
                                     uint64_t(Copy) * uint64_t(Every));
      else if (C.Name == "correlation" || C.Name == "step" || C.Name == "seq")
        Value = static_cast<int64_t>(uint64_t(Value) + uint64_t(Copy));
      B.set(Columns[I], Value);
      break;
    }
    case ColumnType::Double: {
      double Value;
      if (!parseNumber(Row[I].Text, Value))
        return wrong();
      B.set(Columns[I], Value);
      break;
    }
    case ColumnType::Bool:
      if (Row[I].Text != "true" && Row[I].Text != "false")
        return wrong();
      B.setBool(Columns[I], Row[I].Text == "true");
      break;
    case ColumnType::String:
      B.set(Columns[I], StringRef(Row[I].Text));
      break;
    case ColumnType::IntList:
      B.setList(Columns[I], Row[I].List);
      break;
    }
  }
  return Error::success();
}

/// What a row implies and an author should not have to write.
static void fillIn(TableBuilder &B, const TableSchema &T,
                   ArrayRef<unsigned> Columns, ArrayRef<WrittenCell> Row,
                   StringRef Run) {
  auto given = [&](StringRef Name) -> const WrittenCell * {
    for (size_t I = 0; I != Columns.size(); ++I)
      if (T.Columns[Columns[I]].Name == Name)
        return Row[I].Null ? nullptr : &Row[I];
    return nullptr;
  };
  auto missing = [&](StringRef Name) {
    std::optional<unsigned> C = T.find(Name);
    return C && !given(Name) ? C : std::nullopt;
  };
  int64_t Start, Stop;
  if (auto Dur = missing("dur"))
    if (const WrittenCell *A = given("start"), *Z = given("stop");
        A && Z && !StringRef(A->Text).getAsInteger(10, Start) &&
        !StringRef(Z->Text).getAsInteger(10, Stop))
      B.set(*Dur, static_cast<int64_t>(uint64_t(Stop) - uint64_t(Start)));
  if (auto Rank = missing("rank"))
    if (T.Name != "errors" && T.Name != "log_lines")
      B.set(*Rank, int64_t(0));
  if (T.Name == "scalars") {
    const WrittenCell *Name = given("name"), *Metric = given("metric"),
                      *Layer = given("layer");
    if (Name && !Metric)
      B.set(scalars::metric, StringRef(Name->Text).split('/').first);
    if (Name && !Layer && StringRef(Name->Text).contains('/'))
      B.set(scalars::layer, StringRef(Name->Text).split('/').second);
    if (auto C = missing("run"))
      B.set(*C, Run);
  }
  if (auto Place = missing("place"))
    B.set(*Place, static_cast<int64_t>(B.rows()));
}

Error addRows(TableId Id, const WrittenRows &Rows, Source &Into) {
  const TableSchema &T = schema(Id);
  // A million rows are ten thousand times what anybody writes by hand.
  int64_t Most = 1000000 / std::max<int64_t>(1, Rows.Rows.size());
  if (Rows.Repeat < 1 || Rows.Repeat > Most)
    return failure(Rows.File + ":" + Twine(Rows.Line) + ": table '" + T.Name +
                       "' repeats to more than a million rows",
                   "lower 'repeat'");
  std::vector<unsigned> Columns;
  for (const std::string &Name : Rows.Columns) {
    std::optional<unsigned> C = T.find(Name);
    if (!C) {
      std::vector<std::string> All;
      for (const ColumnSchema &S : T.Columns)
        All.push_back(S.Name.str());
      std::string Close = closestName(Name, All);
      return failure(Rows.File + ":" + Twine(Rows.Line) +
                         ": unknown column '" + Name + "' in '" + T.Name + "'",
                     Close.empty() ? "columns: " + join(All, ", ")
                                   : "did you mean '" + Close + "'?");
    }
    Columns.push_back(*C);
  }
  TableBuilder &B = Into.table(Id);
  for (int64_t Copy = 0; Copy != Rows.Repeat; ++Copy)
    for (size_t I = 0; I != Rows.Rows.size(); ++I) {
      const std::vector<WrittenCell> &Row = Rows.Rows[I];
      const std::string Place = Rows.File + ":" + std::to_string(Rows.Lines[I]);
      if (Row.size() != Columns.size())
        return failure(Place + ": a row of '" + T.Name + "' has " +
                           Twine(Row.size()) + " cells, not " +
                           Twine(Columns.size()),
                       "give one cell a column, ~ where there is no value");
      B.addRow();
      if (Error E = setCells(B, T, Place, Columns, Row, Copy, Rows.Every))
        return E;
      fillIn(B, T, Columns, Row, Into.Run);
    }
  return Error::success();
}

} // namespace culprit
