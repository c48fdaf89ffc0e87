//===- Needs.cpp - What a case must have for a detector ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Detector.h"
#include "Table/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// The rows of \p T with one of the wanted values in the column of \p C.
static Expected<Table> rowsWith(const Table &T, const TableSchema &Schema,
                                const Need::Condition &C) {
  std::string Column = ("`" + Schema.Columns[C.Column].Name + "`").str();
  std::string Text;
  std::vector<Argument> Values;
  for (const Scalar &Value : C.AnyOf) {
    Text += (Text.empty() ? "" : " or ") + Column + " == ?";
    std::visit([&](const auto &V) { Values.emplace_back(V); }, Value);
  }
  return where(T, Text, Values);
}

/// "scalars.loss|val_loss": the values that no row has.
static std::string conditionName(const TableSchema &Schema,
                                 const Need::Condition &C) {
  std::vector<std::string> Values;
  for (const Scalar &Value : C.AnyOf)
    Values.push_back(toString(Value));
  return (Schema.Name + "." + join(Values, "|")).str();
}

static bool hasValue(const Table &T, StringRef Column) {
  const ColumnView *View = T.find(Column);
  if (!View)
    return false;
  for (size_t I = 0, E = T.rows(); I != E; ++I)
    if (!View->isNull(I))
      return true;
  return false;
}

static void missingOf(const Case &C, const Need &N,
                      std::vector<std::string> &Missing) {
  const TableSchema &Schema = schema(N.Table);
  if (!C.has(N.Table)) {
    // The rows asked for say more than the table: a log without a loss and
    // no log at all want the same remedy.
    if (N.Rows.empty())
      Missing.push_back(Schema.Name.str());
    for (const Need::Condition &Rows : N.Rows)
      Missing.push_back(conditionName(Schema, Rows));
    return;
  }
  Table T = C.table(N.Table);
  for (const Need::Condition &Rows : N.Rows) {
    Expected<Table> Chosen = rowsWith(T, Schema, Rows);
    if (!Chosen) // a value of the wrong type is no row's value
      consumeError(Chosen.takeError());
    if (!Chosen || Chosen->empty()) {
      Missing.push_back(conditionName(Schema, Rows));
      return;
    }
    T = std::move(*Chosen);
  }
  for (unsigned Column : N.Columns) {
    StringRef Name = Schema.Columns[Column].Name;
    if (!C.has(N.Table, Column) || (!N.Rows.empty() && !hasValue(T, Name)))
      Missing.push_back((Schema.Name + "." + Name).str());
  }
  if (!N.Data)
    return;
  for (size_t I = 0, E = T.rows(); I != E; ++I)
    if (!C.tensor(T.originRow(I)).Bytes.empty())
      return;
  Missing.push_back((Schema.Name + ".data").str());
}

std::vector<std::string> missingFrom(const Case &C, const Needs &N) {
  std::vector<std::string> Missing;
  for (const Need &One : N.All)
    missingOf(C, One, Missing);
  for (const std::vector<Need> &Alternatives : N.AnyOf) {
    std::vector<std::string> Lacking;
    bool Met = false;
    for (const Need &One : Alternatives) {
      std::vector<std::string> Here;
      missingOf(C, One, Here);
      Met |= Here.empty();
      Lacking.push_back(join(Here, " and "));
    }
    if (!Met)
      Missing.push_back(join(Lacking, " or "));
  }
  // In the order of the tables and columns asked for; each once.
  std::vector<std::string> Unique;
  for (std::string &Name : Missing)
    if (!is_contained(Unique, Name))
      Unique.push_back(std::move(Name));
  return Unique;
}

} // namespace culprit
