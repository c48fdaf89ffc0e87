//===- NearDuplicates.h - Texts that are copies of others -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds texts that are copies of others among up to millions: MinHash by one
/// permutation with optimal densification (Shrivastava 2017), banding of the
/// signatures to find candidates, and the Jaccard similarity itself of each
/// candidate. Deterministic.
///
/// Compared are runs of words (TextWords.h). What most texts of the set share
/// is a template and left out: a system prompt, the fixed part of an exercise.
/// What many share and is not nearly all of a text is left out of it too: the
/// header of a licence. Two texts that share nothing else are no copies.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_NEARDUPLICATES_H
#define CULPRIT_SUPPORT_NEARDUPLICATES_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace culprit {

struct NearDuplicateOptions {
  /// Shared share of the runs of either that makes two texts near copies.
  double Threshold = 0.8;
  /// Words of a run.
  unsigned Run = 5;
  /// Texts of fewer words are not looked at: "yes" is no copy of "yes".
  unsigned MinWords = 8;
};

/// A text that is long enough, and of which it is a copy.
struct ComparedText {
  uint32_t Row = 0;
  uint32_t First = 0;    ///< The first text of its cluster; its own row.
  double Similarity = 1; ///< Jaccard, to First; 1 of the same words.
  bool Exact = false;    ///< An earlier text has the same words.

  bool isCopy() const { return Row != First; }
};

/// The texts that were compared, by row. Looks at \p Count texts, each of which
/// \p TextAt gives twice or more; a view is used until the next call. Memory:
/// about 5 bytes a word and 200 a text.
std::vector<ComparedText>
findNearDuplicates(size_t Count,
                   llvm::function_ref<llvm::StringRef(size_t)> TextAt,
                   const NearDuplicateOptions &Options = {});

} // namespace culprit

#endif // CULPRIT_SUPPORT_NEARDUPLICATES_H
