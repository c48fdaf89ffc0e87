//===- LogPrefix.h - What stands in front of a message ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Stamps, levels, ranks, loggers and places in the source, in any order, as
/// loggers of Python, C++, Ray, torchrun and servers print them before what
/// they have to say.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_LOGPREFIX_H
#define CULPRIT_READERS_LOGPREFIX_H

#include "Readers/LogLine.h"

namespace culprit {

/// Takes known prefixes off the front of \p L's text: sets all but its number,
/// as far as they tell it, and its body to what is left.
void readPrefixes(LogLine &L);

/// The level that \p Word, in capitals, is; empty for any other.
llvm::StringRef levelOf(llvm::StringRef Word);

/// The number behind the word rank: [rank3], Rank 3, rank=3, PG 1 Rank 0.
std::optional<int64_t> rankIn(llvm::StringRef Text);

} // namespace culprit

#endif // CULPRIT_READERS_LOGPREFIX_H
