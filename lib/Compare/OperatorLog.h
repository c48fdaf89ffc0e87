//===- OperatorLog.h - Two logs of operators side by side -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares dumps that hold no values but what was computed of them: operator
/// logs of PyTorch's DebugMode and of torchtitan (a norm or a checksum for each
/// operator), and dumps of statistics. There is nothing to search a kind of
/// difference in; what can be said is where two runs part.
///
/// The operators of both sides are sequences in the order of execution. They
/// are aligned as text is by diff (Myers): an operator that one run has in
/// addition shifts none of the others. Equal are layer, operator, shape and
/// type; the counter that a log puts into names is left out.
///
/// A norm is a sum over many elements, so the roundings of the elements cancel
/// in it: with unit roundoff u of the format it is within noise when it is off
/// by at most u sqrt(layers before it). Checksums agree or do not.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_OPERATORLOG_H
#define CULPRIT_COMPARE_OPERATORLOG_H

#include "Case/Case.h"
#include "Compare/Compare.h"

namespace culprit {

/// One output or input of an operator, without values.
struct LoggedTensor {
  size_t Row = 0; ///< Of `tensors`.
  std::string Name, Layer, Role, DType, Hash;
  /// Name without the counter: what two runs have in common.
  std::string Operator;
  std::string Shape;
  int64_t Step = 0, Rank = 0;
  /// Figures that a run computed of it; empty where it has none.
  llvm::SmallVector<double, 1> Norms;
  std::optional<double> Mean, Min, Max, L2;
  bool NonFinite = false;
};

struct LoggedPair {
  LoggedTensor Ref, Ours;
  /// Largest relative difference of a figure; infinite where a checksum
  /// differs or one side alone is not finite.
  double Relative = 0;
  std::string Figure; ///< Which: "norm", "mean", "checksum", ...
  double RefValue = 0, OursValue = 0; ///< Of that figure, if it is a number.
  double Allowed = 0;
  CompareVerdict Verdict = CompareVerdict::Same;
};

struct OperatorComparison {
  CompareVerdict Verdict = CompareVerdict::Same;
  std::string RefPath, OursPath;
  size_t RefCount = 0, OursCount = 0;
  std::vector<LoggedPair> Pairs; ///< In the order of execution.
  std::vector<LoggedTensor> OnlyRef, OnlyOurs;
  /// The first pair beyond rounding whose error is ten times that of what went
  /// into it, else the first beyond rounding; and the first that is not equal
  /// to the last digit.
  std::optional<size_t> First, FirstInexact;
  /// Largest error of the pairs just before First that feed it.
  double InputRelative = 0;
  std::vector<std::string> Remarks;

  size_t count(CompareVerdict V) const;
};

/// Whether \p C has tensors, and values of none.
bool isOperatorLog(const Case &C);

/// Fails when the two have no operator in common.
llvm::Expected<OperatorComparison>
compareOperatorLogs(const Case &Ref, llvm::StringRef RefPath, const Case &Ours,
                    llvm::StringRef OursPath);

void printOperators(llvm::raw_ostream &OS, const OperatorComparison &C,
                    unsigned Top);
void printOperatorsMarkdown(llvm::raw_ostream &OS, const OperatorComparison &C,
                            unsigned Top);
llvm::json::Value operatorsJson(const OperatorComparison &C);

/// The pairs of equal numbers in the shortest edit script from \p A to \p B,
/// as places in each, in order. Beyond \p MaxEdits insertions and deletions
/// the longer of two guesses, each in O(n log n): every number with the next
/// of its kind that is left, and the most pairs of k-th occurrences that do
/// not cross.
std::vector<std::pair<size_t, size_t>> align(llvm::ArrayRef<uint32_t> A,
                                             llvm::ArrayRef<uint32_t> B,
                                             size_t MaxEdits = 2048);

} // namespace culprit

#endif // CULPRIT_COMPARE_OPERATORLOG_H
