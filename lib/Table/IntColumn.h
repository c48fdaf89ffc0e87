//===- IntColumn.h - A column of integers -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TABLE_INTCOLUMN_H
#define CULPRIT_TABLE_INTCOLUMN_H

#include "Table/Column.h"
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace culprit {

/// A column that holds \p Values.
inline ColumnRef intColumn(std::vector<int64_t> Values) {
  auto Out = std::make_shared<Column>(ColumnType::Int);
  Out->mutableInts() = std::move(Values);
  return Out;
}

} // namespace culprit

#endif // CULPRIT_TABLE_INTCOLUMN_H
