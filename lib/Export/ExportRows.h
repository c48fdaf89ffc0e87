//===- ExportRows.h - Rows of a rank ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A row of a table by its columns, for writers that go through all of them.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_EXPORT_EXPORTROWS_H
#define CULPRIT_EXPORT_EXPORTROWS_H

#include "Case/Case.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace culprit {

class ExportRow {
public:
  ExportRow(const Table &T, const StringPool &Pool) : T(T), Pool(Pool) {}

  /// Nothing when null.
  std::optional<int64_t> number(unsigned Column) const {
    if (T.columns()[Column].isNull(Row))
      return std::nullopt;
    return T.columns()[Column].getInt(Row);
  }
  std::optional<double> real(unsigned Column) const {
    if (T.columns()[Column].isNull(Row))
      return std::nullopt;
    return T.columns()[Column].Data->doubles()[T.columns()[Column].row(Row)];
  }
  /// Empty when null.
  llvm::StringRef text(unsigned Column) const {
    StringId Id = T.columns()[Column].getString(Row);
    return Id == NullString ? llvm::StringRef() : Pool.text(Id);
  }
  llvm::ArrayRef<int64_t> list(unsigned Column) const {
    return T.columns()[Column].Data->list(T.columns()[Column].row(Row));
  }

  size_t Row = 0;

private:
  const Table &T;
  const StringPool &Pool;
};

/// Calls \p Visit for the rows of \p Id of rank \p Rank, in order; of all ranks
/// for none.
inline void
forEachRow(const Case &C, TableId Id, unsigned RankColumn,
           std::optional<int64_t> Rank,
           llvm::function_ref<void(const ExportRow &)> Visit) {
  const Table &T = C.table(Id);
  ExportRow Row(T, *C.pool());
  for (Row.Row = 0; Row.Row != T.rows(); ++Row.Row)
    if (!Rank || Row.number(RankColumn).value_or(*Rank) == *Rank)
      Visit(Row);
}

} // namespace culprit

#endif // CULPRIT_EXPORT_EXPORTROWS_H
