//===- TextDistance.h - How far two texts lie apart -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The edit distance of Levenshtein: how many characters must be put in, taken
/// out or replaced to make one text of another. Characters are those of UTF-8;
/// a byte that belongs to none counts as one.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_TEXTDISTANCE_H
#define CULPRIT_SUPPORT_TEXTDISTANCE_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace culprit {

/// The distance of \p A and \p B, or none when it is above \p Limit. Takes
/// time in the product of the shorter text and the limit; equal beginnings and
/// ends cost next to nothing. None too when the time is up.
std::optional<size_t> textDistance(llvm::StringRef A, llvm::StringRef B,
                                   size_t Limit);

/// 1 less the distance over the length of the longer text: 1 for equal texts,
/// 0 for such that have nothing in common. Of each text the first
/// \p Characters count.
double textSimilarity(llvm::StringRef A, llvm::StringRef B,
                      size_t Characters = 2000);

} // namespace culprit

#endif // CULPRIT_SUPPORT_TEXTDISTANCE_H
