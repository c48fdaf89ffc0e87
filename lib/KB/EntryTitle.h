//===- EntryTitle.h - What the heading of an entry holds --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// People write more into a title than a title: `[FIXED] 2026-11-20: ...`.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ENTRYTITLE_H
#define CULPRIT_KB_ENTRYTITLE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// The first YYYY-MM-DD in \p Text, or empty.
llvm::StringRef findDate(llvm::StringRef Text);

/// Takes `[FIXED]` off \p Title; empty when there is none. The title is plain
/// text, in which `[x](url)` has become `x (url)` and is no status.
std::string takeStatus(std::string &Title);

/// The part of a title before it goes on to explain: `fp16 scores overflow`
/// of `fp16 scores overflow, softmax turns the Inf into NaN`.
llvm::StringRef firstClause(llvm::StringRef Title);

} // namespace culprit

#endif // CULPRIT_KB_ENTRYTITLE_H
