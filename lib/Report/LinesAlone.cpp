//===- LinesAlone.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Report.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit {

/// Tables that say what was run and on what, and not how it went.
static constexpr TableId OfSetting[] = {TableId::log_lines,
                                        TableId::log_templates, TableId::config,
                                        TableId::packages, TableId::ranks,
                                        TableId::devices};

uint64_t linesAlone(const Case &C) {
  for (unsigned I = 0; I != NumTables; ++I)
    if (TableId Id = static_cast<TableId>(I);
        schema(Id).Kind == TableSchema::Origin::Recorded &&
        !is_contained(OfSetting, Id) && C.has(Id))
      return 0;
  uint64_t Lines = 0;
  const Table &T = C.table(TableId::log_templates);
  for (size_t I = 0; I != T.rows(); ++I) {
    const ColumnView &Count = T.columns()[log_templates::lines];
    Lines += Count.isNull(I) ? 1 : Count.getInt(I);
  }
  return Lines;
}

} // namespace culprit
