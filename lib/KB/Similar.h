//===- Similar.h - Entries that say the same --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb similar`: near duplicates, by what they say and by the signals they
/// name. The words that decided are told, so that a person can judge.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SIMILAR_H
#define CULPRIT_KB_SIMILAR_H

#include "KB/Entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// Two entries and what they share. Points to the entries given.
struct SimilarPair {
  const Entry *A = nullptr; ///< The earlier one.
  const Entry *B = nullptr;
  double Score = 0;   ///< 0 to 1.
  double Text = 0;    ///< Of it, by words: cosine, rare words count more.
  double Signals = 0; ///< By signals, Jaccard; 0 when one names none.
  bool HasSignals = false;       ///< Whether both name signals.
  std::vector<std::string> Words; ///< That weigh most, at most eight.
  std::vector<std::string> SharedSignals;
  std::vector<std::string> SharedLog; ///< Fragments that both quote.
  bool SameClass = false;

  /// What to do about it.
  llvm::StringRef advice() const;
};

/// From here on two entries are worth a look.
inline constexpr double NearDuplicate = 0.5;

/// The pairs with a score of \p Least or more, best first, ties by place. The
/// time grows with the number of pairs that share a word that is not common,
/// not with all pairs.
std::vector<SimilarPair> similarPairs(llvm::ArrayRef<const Entry *> Entries,
                                      double Least = NearDuplicate);

/// Those of \p Others that are much like \p E, best first; A is the other.
std::vector<SimilarPair> similarTo(const Entry &E,
                                   llvm::ArrayRef<Entry> Others,
                                   double Least = NearDuplicate);

/// \p Score with three decimals, as outputs have it.
double roundedScore(double Score);

/// The contract of `kb similar --format json`.
llvm::json::Value similarJson(llvm::ArrayRef<SimilarPair> Pairs,
                              size_t Entries);
void printSimilar(llvm::raw_ostream &OS, llvm::ArrayRef<SimilarPair> Pairs,
                  size_t Entries);

} // namespace culprit

#endif // CULPRIT_KB_SIMILAR_H
