//===- Strategy.h - What to test first --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb strategy`: testing priorities that follow from what went wrong. Each
/// entry belongs to the kind of test that would have caught it; kinds are
/// ranked by what their entries cost together, which is how often times how
/// much.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STRATEGY_H
#define CULPRIT_KB_STRATEGY_H

#include "KB/Entry.h"
#include "KB/StrategyTests.h"
#include "KB/Vocabulary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace culprit {

/// A kind of test.
struct Practice {
  llvm::StringRef Id, Title, Do, Layers, Classes, Words;
};
llvm::ArrayRef<Practice> practices();

/// The practice that would have caught \p E: by its class, else by the layer
/// of its class, else by its words; null when nothing fits.
const Practice *practiceFor(const Entry &E, const Vocabulary &V);

/// What an entry cost, in hours of work.
struct EntryCost {
  double Hours = 0;
  /// `stated`, in a section Cost, Impact or Time lost; else by how it shows:
  /// `loud`, an error that names itself; `slow`; `silent`, wrong results that
  /// nobody is told about.
  llvm::StringRef From;
};
EntryCost costOf(const Entry &E);

/// An issue behind a priority.
struct StrategyIssue {
  const Entry *E = nullptr;
  EntryCost Cost;
  std::vector<TestedPrevention> Preventions;
};

/// A kind of test with the issues behind it, the dearest first.
struct Priority {
  const Practice *What = nullptr; ///< Null for entries that fit none.
  std::vector<StrategyIssue> Issues;
  double Hours = 0;
  /// Of its issues, those with a prevention whose test was found.
  unsigned Covered = 0;
};

struct Strategy {
  std::vector<Priority> Priorities; ///< Dearest first; those of none last.
  unsigned Entries = 0;
  double Hours = 0;
  bool LookedForTests = false;
};

/// The strategy that follows from \p Entries. \p Tests may be null.
Strategy deriveStrategy(llvm::ArrayRef<const Entry *> Entries,
                        const Vocabulary &V, const TestIndex *Tests);

/// The contract of `kb strategy --format json`.
llvm::json::Value strategyJson(const Strategy &S);
void printStrategy(llvm::raw_ostream &OS, const Strategy &S);
void printStrategyMarkdown(llvm::raw_ostream &OS, const Strategy &S);

} // namespace culprit

#endif // CULPRIT_KB_STRATEGY_H
