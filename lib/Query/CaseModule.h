//===- CaseModule.h - The tables of a case for SQLite -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Every table of a case as a SQLite virtual table of its name. No data is
/// copied: a cell is read from its column when SQLite asks for it, and a
/// derived table is computed when a statement that names it is prepared.
///
/// Beyond the columns of Tables.def a table has hidden ones, which `*` leaves
/// out: `path`, the file of the row, and for each Double column X a column
/// X_kind that tells finite numbers, NaN and infinities apart.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_QUERY_CASEMODULE_H
#define CULPRIT_QUERY_CASEMODULE_H

#include "Case/Case.h"

struct sqlite3;

namespace culprit {

/// Makes the tables of \p C, which outlives \p D, in the schema of \p D.
llvm::Error addCaseTables(sqlite3 *D, const Case &C);

} // namespace culprit

#endif // CULPRIT_QUERY_CASEMODULE_H
