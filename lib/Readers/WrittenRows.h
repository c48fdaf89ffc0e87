//===- WrittenRows.h - Rows as a person wrote them --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Cells of text become rows of a table: each takes the type of its column,
/// and what a row implies is filled in. docs/case-format.md has the rules.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_WRITTENROWS_H
#define CULPRIT_READERS_WRITTENROWS_H

#include "Case/Source.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// One cell as written, before it has a type.
struct WrittenCell {
  bool Null = true;
  std::string Text;
  std::vector<int64_t> List;
};

/// The rows of one table.
struct WrittenRows {
  std::string File;
  unsigned Line = 0; ///< Of the columns.
  std::vector<std::string> Columns;
  std::vector<std::vector<WrittenCell>> Rows; ///< A cell a column.
  std::vector<unsigned> Lines;                ///< A line a row.
  int64_t Repeat = 1; ///< How often the rows are there.
  int64_t Every = 0;  ///< How much later each time is, in ns.
};

/// Adds \p Rows to the table \p Id of \p Into.
llvm::Error addRows(TableId Id, const WrittenRows &Rows, Source &Into);

/// A number as YAML and Python write it; false when \p Text is none.
bool parseNumber(llvm::StringRef Text, double &Out);

} // namespace culprit

#endif // CULPRIT_READERS_WRITTENROWS_H
