//===- Oracle.h - Good or bad, from runs that may vary ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Decides from repeated runs of one command whether a commit is good or bad.
///
/// By majority of at most n runs, which stops once it is settled. Or by Wald's
/// sequential probability ratio test, where it is known how often a good and a
/// bad commit fail: each run adds log(q/p) for a failure and
/// log((1-q)/(1-p)) for a success, p and q being the rates of good and bad
/// commits, until the sum leaves +-log((1-e)/e). With p = 0 one failure
/// settles it, and with q = 0.5, e = 0.05 five successes do.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_BISECT_ORACLE_H
#define CULPRIT_BISECT_ORACLE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace culprit {

enum class Answer { Good, Bad, Skip };
/// "good", "bad", "skip".
llvm::StringRef toString(Answer A);

struct RepeatPlan {
  unsigned Most = 1; ///< Runs.
  /// Rates of failure of a good and of a bad commit: both or none.
  std::optional<double> GoodFails, BadFails;
  double ErrorRate = 0.05; ///< Of a decision; of the sequential test.

  bool isSequential() const { return BadFails.has_value(); }
};

class RepeatedTest {
public:
  explicit RepeatedTest(const RepeatPlan &Plan) : Plan(Plan) {}

  void add(bool Failed);
  bool isDone() const;
  /// Skip where the runs did not settle it.
  Answer answer() const;
  unsigned runs() const { return Failures + Successes; }
  unsigned failures() const { return Failures; }
  /// The probability that the answer is right, good and bad being as likely
  /// beforehand: of a majority, that the rate of failure is on this side of a
  /// half. None for a single run, which tells nothing of its own variation.
  std::optional<double> confidence() const;
  /// "2 of 3 runs failed, confidence 0.69".
  std::string text() const;

private:
  double evidence() const; ///< Log of the ratio, for bad.

  RepeatPlan Plan;
  unsigned Failures = 0, Successes = 0;
};

} // namespace culprit

#endif // CULPRIT_BISECT_ORACLE_H
