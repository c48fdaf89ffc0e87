//===- CaseTable.h - A table of a case as SQLite keeps it -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The virtual table behind a name in SQL: which case table it is, the plans
/// SQLite may come back to, and the finders of rows that statements share.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_CASETABLE_H
#define CULPRIT_QUERY_CASETABLE_H

#include "Case/Case.h"
#include "Query/Planner.h"
#include "Query/RowFinder.h"
#include <memory>
#include <sqlite3.h>

namespace culprit {

/// Made and deleted by SQLite, through the functions of the module. One
/// connection, and so one thread, uses it.
struct CaseTable : sqlite3_vtab {
  const Case &C;
  TableId Id;
  const TableSchema &Schema;
  /// Double columns, in the order of their X_kind columns.
  llvm::SmallVector<unsigned, 4> Numbers;
  std::vector<Plan> Plans; ///< By idxNum.
  std::vector<std::unique_ptr<RowFinder>> Finders; ///< By column, when asked.

  CaseTable(const Case &C, TableId Id)
      : sqlite3_vtab(), C(C), Id(Id), Schema(schema(Id)) {
    for (unsigned I = 0; I != Schema.Columns.size(); ++I)
      if (Schema.Columns[I].Type == ColumnType::Double)
        Numbers.push_back(I);
  }

  /// Computes a derived table, the first time.
  const Table &rows() const { return C.table(Id); }
  unsigned pathColumn() const { return Schema.Columns.size(); }

  RowFinder &finder(unsigned Column) {
    Finders.resize(Schema.Columns.size());
    if (!Finders[Column])
      Finders[Column] = std::make_unique<RowFinder>(
          rows().columns()[Column], rows().rows());
    return *Finders[Column];
  }
};

} // namespace culprit

#endif // CULPRIT_QUERY_CASETABLE_H
