//===- RunShape.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/RunShape.h"
#include "Case/RunFigures.h"
#include "Support/Units.h"
#include "Table/Series.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

/// Rows of a loss below which a run has no shape.
static constexpr size_t LeastRows = 4;
/// What lies beside a validation: within this share of the run's steps, and
/// within so many steps at least; of many rows there every other one counts, or
/// fewer.
static constexpr double BesideShare = 0.04, BesideSteps = 5;
static constexpr ptrdiff_t MostBeside = 1000;
/// Pairs below which a correlation says little.
static constexpr size_t LeastPairs = 6;
/// How near to the highest rate counts as at it.
static constexpr double AtHighest = 0.999;

namespace {

struct Description {
  StringLiteral Name, Text;
};

constexpr Description Descriptions[] = {
#define SHAPE(NAME, WHAT, UNIT) {#NAME, WHAT ", " UNIT},
#include "Case/RunShape.def"
};

} // namespace

void RunFigures::set(Figure F, Number V) {
  if (!V || !std::isfinite(*V))
    return;
  // 0.0 makes a zero of -0. What is large was logged as a share by mistake.
  const double Rounded =
      std::abs(*V) < 1e9 ? std::round(*V * 1e6) / 1e6 + 0.0 : *V;
  ByName[Descriptions[static_cast<size_t>(F)].Name.str()] = Rounded;
}

/// The finite value of \p C nearest to \p Step, the earlier of two.
static Number valueAt(const Curve &C, int64_t Step) {
  Number Best;
  double Least = 0;
  for (const auto &[At, Value] : C.Rows) {
    const double Away = std::abs(double(At) - double(Step));
    if (std::isfinite(Value) && (!Best || Away < Least)) {
      Best = Value;
      Least = Away;
    }
  }
  return Best;
}

/// The median of the second third of \p V, or of all where that is empty.
static Number medianOfSecondThird(ArrayRef<double> V) {
  const size_t Third = std::max<size_t>(1, V.size() / 3);
  ArrayRef<double> Second = V.drop_front(Third).take_front(Third);
  return median(Second.empty() ? V.vec() : Second.vec());
}

/// How far \p V fell in its first \p Share of rows, told by the median of three
/// rows there, of how far it fell at all.
static Number partOfFall(ArrayRef<double> V, double Share) {
  const double Fall = V.front() - *lowest(V);
  const size_t At = size_t(Share * double(V.size()));
  if (!(Fall > 0))
    return std::nullopt;
  ArrayRef<double> There = V.drop_front(At ? At - 1 : 0).take_front(3);
  return (V.front() - *median(There.vec())) / Fall;
}

/// The median change from row to row in the second half of \p V.
static Number usualChange(ArrayRef<double> V) {
  Values Changes;
  for (size_t I = (V.size() - 1) / 2 + 1; I < V.size(); ++I)
    Changes.push_back(std::abs(V[I] - V[I - 1]));
  return median(std::move(Changes));
}

/// The loss; of a policy the sum of all its losses where that is above 0
/// throughout, as it is where mostly regressions are added up.
static const Curve &lossOf(const RunCurves &Of) {
  const Curve &Loss = Of.whole("loss");
  if (Loss.Logged >= LeastRows)
    return Loss;
  const Curve &Sum = Of.whole("rl_loss");
  const Values V = finite(Sum);
  return !V.empty() && *lowest(V) > 0 ? Sum : Loss;
}

namespace {
/// The curves of the loss and of that of validation.
struct LossCurves {
  Curve Loss, Held;

  explicit LossCurves(const RunCurves &Of)
      : Loss(lossOf(Of)), Held(Of.whole("val_loss")) {
    liftAboveZero();
  }

private:
  void liftAboveZero();
};
} // namespace

/// How high above 0 the lowest of a loss that was lifted lies, of what it fell.
static constexpr double LiftedFloor = 1.0 / 3;

/// Whether a loss goes about 0 from its first rows on, as that of a policy
/// does, which is noise and has no level to fall from.
static bool isAboutZero(ArrayRef<double> V) {
  ArrayRef<double> First = V.take_front(std::max<size_t>(3, V.size() / 10));
  return *lowest(First) < 0 && *highest(First) > 0;
}

/// Decibels, log-likelihoods and the like go below 0, where nothing can be told
/// by ratios. Both curves are lifted by the same, so that the lowest of them is
/// a third of the loss's fall above 0, as where a loss has a floor at 0 and was
/// learned.
void LossCurves::liftAboveZero() {
  const Values V = finite(Loss);
  if (V.empty() || *lowest(V) >= 0 || isAboutZero(V))
    return;
  const Values H = finite(Held);
  const double Low = std::min(*lowest(V), H.empty() ? HUGE_VAL : *lowest(H));
  const double Fall = V.front() - *lowest(V);
  const double Least = std::abs(V.front());
  const double Base = Low - LiftedFloor * (Fall > 0 ? Fall : Least);
  if (!std::isfinite(Base))
    return;
  for (Curve *C : {&Loss, &Held})
    for (auto &[Step, Value] : C->Rows)
      Value -= Base;
}

static void addLoss(const LossCurves &Of, RunFigures &To) {
  const Curve &Loss = Of.Loss;
  const Values V = finite(Loss);
  if (V.empty())
    return;
  const ArrayRef<double> Tail = endOf(V);
  const double First = V.front();
  const double End =
      std::accumulate(Tail.begin(), Tail.end(), 0.0) / double(Tail.size());
  To.set(Figure::loss_end, ratio(End, First));
  To.set(Figure::loss_at_100, ratio(valueAt(Loss, 100), First));
  To.set(Figure::loss_start, logOf(First));
  To.set(Figure::loss_third, ratio(medianOfSecondThird(V), First));
  To.set(Figure::loss_low, ratio(lowest(V), First));
  To.set(Figure::loss_high, ratio(highest(V), First));
  To.set(Figure::loss_back, ratio(End, lowest(V)));
  To.set(Figure::loss_nonfinite,
         1 - double(V.size()) / double(Loss.Rows.size()));
  To.set(Figure::loss_low_at, placeOfLowest(V));
  To.set(Figure::loss_noise, ratio(usualChange(V), std::abs(End)));
  To.set(Figure::fall_quarter, partOfFall(V, 0.25));
  To.set(Figure::fall_most, partOfFall(V, 0.75));
  const Values Held = finite(Of.Held);
  To.set(Figure::val_to_train, ratio(last(Held), End));
  To.set(Figure::val_back, ratio(last(Held), lowest(Held)));
  To.set(Figure::val_first, ratio(first(Held), First));
  To.set(Figure::val_low, ratio(lowest(Held), lowest(V)));
  To.set(Figure::val_fall, ratio(last(Held), first(Held)));
  To.set(Figure::val_low_at, placeOfLowest(Held));
}

/// Each validation loss over the mean loss beside it, as a logarithm.
static Values gapsOf(const Curve &Held, const Curve &Loss) {
  Values Out;
  if (Loss.Rows.empty())
    return Out;
  const double Beside =
      std::max(BesideSteps, BesideShare * double(Loss.Rows.back().first));
  for (const auto &[Step, Value] : Held.Rows) {
    const double At = double(Step);
    const auto From = llvm::partition_point(Loss.Rows, [&](const auto &Row) {
      return double(Row.first) < At - Beside;
    });
    const auto To = llvm::partition_point(Loss.Rows, [&](const auto &Row) {
      return double(Row.first) <= At + Beside;
    });
    // Summed anew each time: a running sum would keep what a loss that once
    // rose to 1e25 rounded away.
    const ptrdiff_t Each = 1 + (To - From) / MostBeside;
    double Sum = 0, Count = 0;
    for (ptrdiff_t I = 0; I < To - From; I += Each)
      if (double V = From[I].second; std::isfinite(V)) {
        Sum += V;
        ++Count;
      }
    if (Count > 0)
      if (Number Gap = ratio(Value, Sum / Count))
        Out.push_back(*Gap);
  }
  return Out;
}

static void addGaps(const LossCurves &Of, RunFigures &To) {
  const Values Gaps = gapsOf(Of.Held, Of.Loss);
  if (Gaps.empty())
    return;
  To.set(Figure::gap_first, Gaps.front());
  To.set(Figure::gap_median, median(Gaps));
  To.set(Figure::gap_growth, Gaps.back() - Gaps.front());
}

/// The correlation of two curves at the steps that both have.
static Number correlationOf(const Curve &A, const Curve &B) {
  Values OfA, OfB;
  auto At = B.Rows.begin();
  for (const auto &[Step, Value] : A.Rows) {
    while (At != B.Rows.end() && At->first < Step)
      ++At;
    if (At == B.Rows.end())
      break;
    if (At->first == Step && std::isfinite(Value) &&
        std::isfinite(At->second)) {
      OfA.push_back(Value);
      OfB.push_back(At->second);
    }
  }
  return OfA.size() < LeastPairs ? Number() : correlation(OfA, OfB);
}

static void addGradients(const RunCurves &Of, RunFigures &To) {
  const Values Norms = finite(Of.whole("grad_norm"));
  if (Norms.empty())
    return;
  const Number Usual = median(Norms);
  To.set(Figure::grad_median, logOf(Usual));
  To.set(Figure::grad_high, ratio(highest(Norms), Usual));
  To.set(Figure::grad_end, ratio(median(endOf(Norms).vec()), Usual));
  To.set(Figure::grad_first, ratio(first(Norms), Usual));
  To.set(Figure::grad_low, ratio(lowest(Norms), Usual));
  To.set(Figure::grad_high_at, placeOfHighest(Norms));
  Values Logs;
  for (double Norm : Norms)
    if (Norm > 0)
      Logs.push_back(std::log10(Norm));
  To.set(Figure::grad_spread, deviation(Logs));
  To.set(Figure::grad_with_loss,
         correlationOf(lossOf(Of), Of.whole("grad_norm")));
}

/// Each rate over the one before, where both are above 0.
static Values jumpsOf(ArrayRef<double> Rates) {
  Values Out;
  for (size_t I = 1; I < Rates.size(); ++I)
    if (Rates[I - 1] > 0 && Rates[I] > 0)
      Out.push_back(Rates[I] / Rates[I - 1]);
  return Out;
}

static void addRate(const RunCurves &Of, RunFigures &To) {
  const Values Rates = finite(Of.whole("lr"));
  if (Rates.empty())
    return;
  const Values Jumps = jumpsOf(Rates);
  const double High = *highest(Rates);
  To.set(Figure::lr_zero, shareOf(Rates, [](double V) { return V == 0; }));
  To.set(Figure::lr_jump, logOf(highest(Jumps)));
  To.set(Figure::lr_drop, logOf(lowest(Jumps)));
  To.set(Figure::lr_first, ratio(first(Rates), High));
  To.set(Figure::lr_last, ratio(last(Rates), High));
  To.set(Figure::lr_high_at, placeOfHighest(Rates));
  To.set(Figure::lr_at_high,
         shareOf(Rates, [&](double V) { return V >= AtHighest * High; }));
}

static void addTimes(const RunCurves &Of, RunFigures &To) {
  const Values Times = finite(Of.whole("step_time"));
  const Values Waits = finite(Of.whole("data_time"));
  To.set(Figure::time_high, ratio(highest(Times), median(Times)));
  To.set(Figure::time_spread, ratio(deviation(Times), median(Times)));
  To.set(Figure::data_share, ratio(median(Waits), median(Times)));
  To.set(Figure::data_high, ratio(highest(Waits), median(Times)));
}

std::map<std::string, double> runShape(const Case &C) {
  const RunCurves Of(C);
  if (lossOf(Of).Logged < LeastRows)
    return {};
  RunFigures To;
  const LossCurves Losses(Of);
  addLoss(Losses, To);
  addGaps(Losses, To);
  addGradients(Of, To);
  addRate(Of, To);
  addTimes(Of, To);
  To.set(Figure::unchanged, median(finite(Of.whole("unchanged_share"))));
  addLayerFigures(Of, To);
  return std::move(To.ByName);
}

StringRef describeShape(StringRef Name) {
  for (const Description &D : Descriptions)
    if (D.Name == Name)
      return D.Text;
  return {};
}

std::string shapeText(StringRef Name, double Value) {
  auto [What, Unit] = describeShape(Name).rsplit(", ");
  std::string Told = formatNumber(Value, 2);
  if (Unit == "log10")
    Told = formatNumber(Value <= LogOfZero ? 0 : std::pow(10, Value), 2);
  else if (Unit == "share")
    Told = formatv("{0:F0} %", Value * 100).str();
  return (What + " (" + Told + ")").str();
}

} // namespace culprit
