//===- KinetoTraceValues.h - Fields of events as column values --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Small steps between the text of a field and the value of a column. What an
/// event does not have stays null.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEVALUES_H
#define CULPRIT_READERS_KINETOTRACEVALUES_H

#include "Case/Source.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace culprit::kineto {

/// The number in "25738", "stream 7" or 7: ids were strings once.
std::optional<int64_t> looseNumber(llvm::StringRef Text);

inline void set(TableBuilder &Row, unsigned Column,
                std::optional<int64_t> Value) {
  if (Value)
    Row.set(Column, *Value);
}

inline void setId(TableBuilder &Row, unsigned Column, StringId Value) {
  if (Value != NullString)
    Row.setId(Column, Value);
}

/// The whole numbers of "[8, 64, 1]"; none when it is no such list.
std::optional<llvm::SmallVector<int64_t, 0>> numberList(llvm::StringRef Text);

/// Sets "[8, 64, 1]" as a list, if it is one of at most three numbers.
void setList(TableBuilder &Row, unsigned Column, llvm::StringRef Text);

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEVALUES_H
