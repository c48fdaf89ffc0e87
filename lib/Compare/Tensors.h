//===- Tensors.h - Two dumps or checkpoints side by side --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Compares the tensors of two cases, a reference and ours: which names they
/// share, which values differ beyond what their number formats make of a
/// correct run, where in execution order that begins, and in which way
/// (Kinds.h). With a second run of the reference, its run-to-run differences
/// count as noise too.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_COMPARE_TENSORS_H
#define CULPRIT_COMPARE_TENSORS_H

#include "Case/Case.h"
#include "Compare/Compare.h"
#include "Compare/Kinds.h"
#include "Compare/Names.h"
#include <set>

namespace culprit {

/// A tensor of a case.
struct TensorEntry {
  size_t Row = 0; ///< Of `tensors`.
  std::string Name, Layer, Role, Variant;
  std::optional<int64_t> Step, Rank, Order, Token;
  const TensorView *View = nullptr;

  /// False for tensors of which a dump holds statistics alone.
  bool hasValues() const {
    return View->Bytes.size() / sizeOf(View->Type) >=
           static_cast<uint64_t>(View->numel());
  }
};

/// The tensors of \p C in the order of its table.
std::vector<TensorEntry> tensorEntries(const Case &C);

/// Two tensors that should be the same. Where a fused tensor is compared with
/// its parts, the parts are joined.
struct TensorPair {
  TensorEntry Ref, Ours;
  std::optional<TensorEntry> Noise; ///< Of the second run of the reference.
  NameRule Rule = NameRule::Exact;
  /// Joined bytes that a view of this pair reads, for fused tensors.
  std::shared_ptr<std::vector<uint8_t>> Joined;
  std::shared_ptr<TensorView> JoinedView;
};

/// A name with another on the other side, or two shapes.
struct NamePair {
  std::string Ref, Ours, Detail;
};

struct NameReport {
  size_t Matched = 0;
  std::vector<std::string> Missing, Unexpected;
  std::vector<NamePair> Renamed, Fused;
  std::vector<NamePair> Shapes, DTypes; ///< Detail: "[2, 3] -> [3, 2]".
  /// With the reason, one for each thing that could not be compared.
  std::vector<NamePair> NotCompared;
};

/// How a value differs in one pair.
struct TensorDifference {
  TensorPair Pair;
  DifferenceSums Sums;
  TensorTolerance Tolerance;
  CompareVerdict Verdict = CompareVerdict::Same;
  double Allowed = 0; ///< Tolerance of an element of the tensor's rms.
  std::optional<DifferenceKind> Kind; ///< Of those that differ.
  std::optional<double> NoiseRelL2;   ///< Between two runs of the reference.
};

/// The first place in execution order where ours goes wrong.
struct Divergence {
  size_t Difference; ///< In Differences.
  /// Error of what went into the layer; none if that was not dumped.
  std::optional<double> InputRelL2;
  std::string Input; ///< The tensor that it was taken from.
  /// Of the difference or, where that tells none, of the steps.
  std::string Class;
};

/// How the error develops over the steps of an iterative process.
struct StepPattern {
  std::string Kind;  ///< from-start, order-two, gradual, sudden, every-run.
  std::string Class;
  std::string Says;
  int64_t Step = 0; ///< Where it begins.
  double Slope = 0; ///< Of log10 of the relative error, a step.
};

struct TensorComparison {
  CompareVerdict Verdict = CompareVerdict::Same;
  std::string RefPath, OursPath, NoisePath;
  size_t RefTensors = 0, OursTensors = 0;
  NameReport Names;
  /// All pairs in execution order.
  std::vector<TensorDifference> Differences;
  std::optional<Divergence> First;
  std::optional<StepPattern> Steps;
  std::vector<std::string> Remarks;

  size_t count(CompareVerdict V) const;
};

struct TensorOptions {
  const Case *Noise = nullptr; ///< A second run of the reference.
  unsigned Threads = 1;
};

/// Fails when one side has no tensors or nothing could be paired.
llvm::Expected<TensorComparison>
compareTensors(const Case &Ref, llvm::StringRef RefPath, const Case &Ours,
               llvm::StringRef OursPath, const TensorOptions &Options);

void printTensors(llvm::raw_ostream &OS, const TensorComparison &C,
                  unsigned Top);
void printTensorsMarkdown(llvm::raw_ostream &OS, const TensorComparison &C,
                          unsigned Top);
llvm::json::Value tensorsJson(const TensorComparison &C);

// The steps of compareTensors(), for tests.

/// Pairs the tensors of two sides by name, step, rank, token and variant.
std::vector<TensorPair> pairTensors(const Case &Ref, const Case &Ours,
                                    const Case *Noise, TensorComparison &Into);

/// If one tensor of \p P is the other with one axis filled up, cuts off what
/// only that one has and says so in \p Names, once for each name in \p Told.
bool cutPadding(TensorPair &P, NameReport &Names, std::set<std::string> &Told);

/// What a correct run of \p Pair may differ by. \p Terms are the summands of
/// an element, \p Depth the layers before it.
TensorTolerance toleranceOf(const TensorPair &Pair, int64_t Terms,
                            int64_t Depth);

/// Fills First and Steps of \p C.
void findDivergence(TensorComparison &C);
void findStepPattern(TensorComparison &C);

/// Puts what several tensors tell together, once kinds, First and Steps are
/// known: tensors that changed places, a cache that was filled wrongly over
/// several tokens. Fills the class of First.
void concludeDivergence(TensorComparison &C);

/// Orders pairs as the program ran: step, token, order, name.
bool runsBefore(const TensorEntry &A, const TensorEntry &B);
/// Whether both are of one step, rank, token and variant.
bool samePlace(const TensorEntry &A, const TensorEntry &B);

/// "step 3, rank 0", or empty.
std::string placeOf(const TensorEntry &E);
/// "[2, 3]".
std::string shapeText(llvm::ArrayRef<int64_t> Shape);

} // namespace culprit

#endif // CULPRIT_COMPARE_TENSORS_H
