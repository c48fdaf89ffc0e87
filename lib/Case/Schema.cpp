//===- Schema.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Schema.h"
#include <vector>

using namespace llvm;

namespace culprit {

namespace {
struct FlatColumn {
  TableId Table;
  ColumnSchema Schema;
};
} // namespace

static constexpr FlatColumn Flat[] = {
#define COLUMN(TABLE, ID, TYPE, UNIT, DOC)                                     \
  {TableId::TABLE, {#ID, ColumnType::TYPE, UNIT, DOC}},
#include "Case/Tables.def"
};

ArrayRef<TableSchema> schemas() {
  struct Store {
    std::vector<std::vector<ColumnSchema>> Columns;
    std::vector<TableSchema> Tables;
    Store() : Columns(NumTables) {
      for (const FlatColumn &C : Flat) {
        ColumnSchema Schema = C.Schema;
        Schema.Name = Schema.Name.rtrim('_');
        Columns[static_cast<unsigned>(C.Table)].push_back(Schema);
      }
#define TABLE(ID, KIND, DOC)                                                   \
  Tables.push_back({#ID, TableSchema::Origin::KIND, DOC,                       \
                    Columns[static_cast<unsigned>(TableId::ID)]});
#include "Case/Tables.def"
    }
  };
  static const Store S; // a function-local static: no start-up cost
  return S.Tables;
}

const TableSchema &schema(TableId Id) {
  return schemas()[static_cast<unsigned>(Id)];
}

std::optional<TableId> findTable(StringRef Name) {
  for (unsigned I = 0; I != NumTables; ++I)
    if (schemas()[I].Name == Name)
      return static_cast<TableId>(I);
  return std::nullopt;
}

bool TableSchema::hasLines() const {
  std::optional<unsigned> Place = find("place");
  return Place && Columns[*Place].Doc.starts_with("line in the source file");
}

std::optional<unsigned> TableSchema::find(StringRef Wanted) const {
  for (unsigned I = 0; I != Columns.size(); ++I)
    if (Columns[I].Name == Wanted)
      return I;
  return std::nullopt;
}

} // namespace culprit
