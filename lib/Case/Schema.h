//===- Schema.h - The tables of a case --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Tables.def as C++: an enumerator a table, an enumerator a column, and their
/// documentation at run time. A reader writes
///
///   TableBuilder &Work = S.table(TableId::gpu_work);
///   Work.addRow();
///   Work.set(gpu_work::start, Start);
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_SCHEMA_H
#define CULPRIT_CASE_SCHEMA_H

#include "Table/Column.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace culprit {

enum class TableId : unsigned {
#define TABLE(ID, KIND, DOC) ID,
#include "Case/Tables.def"
};

inline constexpr unsigned NumTables = 0
#define TABLE(ID, KIND, DOC) +1
#include "Case/Tables.def"
    ;

struct ColumnSchema {
  llvm::StringRef Name;
  ColumnType Type;
  llvm::StringRef Unit; ///< "time" marks a point in time of the case.
  llvm::StringRef Doc;
};

struct TableSchema {
  enum class Origin { Recorded, Derived };
  llvm::StringRef Name;
  Origin Kind;
  llvm::StringRef RowIs; ///< Completes "one row is ...".
  llvm::ArrayRef<ColumnSchema> Columns;

  /// Whether `place` is a line of a text file, as its documentation says.
  bool hasLines() const;
  /// Position of the column \p Name, or none.
  std::optional<unsigned> find(llvm::StringRef Name) const;
};

/// All tables in the order of TableId.
llvm::ArrayRef<TableSchema> schemas();
const TableSchema &schema(TableId Id);
/// The table named \p Name, or none.
std::optional<TableId> findTable(llvm::StringRef Name);

// The columns of Tables.def as indices, one namespace a table:
// gpu_work::start.
#define TABLE(ID, KIND, DOC)                                                   \
  namespace ID {                                                               \
  enum : unsigned {
#define COLUMN(TABLE, ID, TYPE, UNIT, DOC) ID,
#define END_TABLE(ID)                                                          \
  }                                                                            \
  ;                                                                            \
  }
#include "Case/Tables.def"

} // namespace culprit

#endif // CULPRIT_CASE_SCHEMA_H
