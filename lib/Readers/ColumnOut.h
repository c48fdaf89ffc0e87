//===- ColumnOut.h - A column filled row by row -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// For readers that fill a table with millions of rows.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_COLUMNOUT_H
#define CULPRIT_READERS_COLUMNOUT_H

#include "Case/Source.h"

namespace culprit {

/// One column of a table while millions of rows are read into it, at a third
/// of the price of TableBuilder::set. Every column of a row must be put, then
/// the row is added. A column of which nothing was known stays untouched.
class ColumnOut {
public:
  ColumnOut(TableBuilder &T, unsigned Id, size_t MoreRows)
      : WasEmpty(!T.touched(Id)), C(&T.finished(Id)) {
    C->reserve(C->size() + MoreRows);
  }
  ColumnOut(const ColumnOut &) = delete;
  ~ColumnOut() {
    if (!Any && WasEmpty)
      *C = Column(C->type());
  }

  void put(int64_t Value) {
    C->addInt(Value);
    Any |= Value != NullInt;
  }
  void put(std::optional<int64_t> Value) { put(Value.value_or(NullInt)); }
  void putText(StringId Value) {
    C->addString(Value);
    Any |= Value != NullString;
  }
  void putList(llvm::ArrayRef<int64_t> Value) {
    C->addList(Value);
    Any |= !Value.empty();
  }

private:
  bool WasEmpty, Any = false;
  Column *C;
};

} // namespace culprit

#endif // CULPRIT_READERS_COLUMNOUT_H
