//===- TextOverlap.h - Texts that stand within others -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds which texts of one set stand within texts of another, whole or in
/// part: test questions within the documents of a training set. Similarity of
/// whole texts does not find these, since a question is a small part of a
/// long document. As for GPT-3, runs of up to 13 words are looked up, and runs
/// that many documents have are no evidence: licences, templates, quotations.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SUPPORT_TEXTOVERLAP_H
#define CULPRIT_SUPPORT_TEXTOVERLAP_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace culprit {

struct OverlapOptions {
  /// Words of a run; 0 is as many as all but a twentieth of the texts have,
  /// but 8 at least and 13 at most.
  unsigned Run = 0;
  /// Different texts of the other set and of the own set that have a run,
  /// beyond which it is a commonplace.
  unsigned MaxOther = 10, MaxOwn = 4;
};

/// What was found of one text that is as long as a run.
struct TextOverlap {
  static constexpr uint32_t None = ~uint32_t(0);

  uint32_t Row = 0;
  uint32_t Match = None; ///< Text of the other set that shares most runs.
  /// Share of the words that stand in Match in runs that are no commonplace;
  /// of the words that are in such runs at all.
  double Share = 0;
  uint32_t Longest = 0; ///< Words of the longest piece that both have.
  bool Exact = false;   ///< Match has the same words and no others.
};

struct TextOverlaps {
  std::vector<TextOverlap> Texts; ///< Those that were judged, by Row.
  size_t TooShort = 0;            ///< Texts that have fewer words than a run.
  size_t Beyond = 0;              ///< Texts left out for memory.
  unsigned Run = 0;               ///< Words of a run.
};

/// \p Own are looked for in \p Other. Texts are asked for twice; a view is used
/// until the next call. Memory: about 100 bytes a word of the own texts, which
/// are taken up to four million words.
TextOverlaps findOverlaps(size_t OwnCount,
                          llvm::function_ref<llvm::StringRef(size_t)> Own,
                          size_t OtherCount,
                          llvm::function_ref<llvm::StringRef(size_t)> Other,
                          const OverlapOptions &Options = {});

} // namespace culprit

#endif // CULPRIT_SUPPORT_TEXTOVERLAP_H
