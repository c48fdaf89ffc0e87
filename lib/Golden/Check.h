//===- Check.h - Does a run keep what a lock promises? ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the items of a lock with those of a run. A promise that cannot be
/// looked at, since the run has no such item, is broken; what a run has beside
/// the lock is told and breaks nothing.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_CHECK_H
#define CULPRIT_GOLDEN_CHECK_H

#include "Golden/Observe.h"
#include "llvm/Support/JSON.h"

namespace culprit {

/// What became of one item.
struct GoldenFinding {
  enum class Outcome { Holds, Failed, Missing, New };
  Outcome Is = Outcome::Holds;
  std::string Id;
  GoldenKind Kind = GoldenKind::Exact;
  GoldenSubject Of = GoldenSubject::Answer;
  std::string Where; ///< In the run; empty for a missing item.
  std::string What;  ///< One sentence: what, and by how much.
  std::string Expected, Found; ///< Empty where What says it all.
  std::string First; ///< The first difference.
  std::string Next;  ///< What to do.
  std::vector<std::string> Added; ///< Keys that the lock does not have.

  bool broken() const {
    return Is == Outcome::Failed || Is == Outcome::Missing;
  }
};

struct GoldenReport {
  std::string Lock; ///< Its path.
  /// Those of the lock in its order, then new ones by id.
  std::vector<GoldenFinding> Findings;
  std::vector<std::string> Notes; ///< What the run has that is not looked at.
  std::vector<std::string> Accepted;

  size_t count(GoldenFinding::Outcome O) const;
  bool holds() const;
};

/// Compares \p Run with \p Locked.
GoldenReport checkGolden(llvm::ArrayRef<GoldenItem> Locked,
                         const GoldenRun &Run);

/// What a lock is to hold in place of \p Old when \p Seen is accepted: the
/// values of now under the kind, tolerance and why of before.
GoldenItem acceptedItem(const GoldenItem *Old, const Observation &Seen);

void printGolden(llvm::raw_ostream &OS, const GoldenReport &R, unsigned Width);
llvm::json::Value goldenJson(const GoldenReport &R);

// The checks, by subject. Each fills What, Expected, Found, First and Next and
// sets Failed, or leaves the finding as it is.
void checkText(const GoldenItem &Locked, const Observation &Seen,
               GoldenFinding &F);
void checkIds(const GoldenItem &Locked, const Observation &Seen,
              const GoldenRun &Run, GoldenFinding &F);
void checkSample(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F);
void checkShares(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F);
void checkLevel(const GoldenItem &Locked, const Observation &Seen,
                GoldenFinding &F);
void checkTensor(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F);
void checkFields(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F);

} // namespace culprit

#endif // CULPRIT_GOLDEN_CHECK_H
