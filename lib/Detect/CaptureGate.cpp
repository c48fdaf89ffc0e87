//===- CaptureGate.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/CaptureGate.h"
#include "Detect/Detector.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

namespace {

constexpr StringRef Words[NumReliances] = {"launches", "kernels", "host-times",
                                           "whole-record", "clocks"};

// Below the first figure an aspect is not fit for a verdict, above the second
// it is as good as complete; between them trust grows in proportion.
constexpr double LaunchMatchUnfit = 0.80, LaunchMatchGood = 0.99;
// The other way round for shares that should be small.
constexpr double GraphShareGood = 0.05, GraphShareUnfit = 0.50;
constexpr double OverheadGood = 0.05, OverheadUnfit = 0.30;
// Clock residual over the median matched collective.
constexpr double ClockGood = 0.10, ClockUnfit = 1.0;
/// What a record that was cut off or lost records still carries.
constexpr double CutTrust = 0.5;
constexpr double LeastTrust = 0.3;
// A device that ran less than this shows no habit of the run.
constexpr size_t LeastPieces = 32;
constexpr int64_t LongPiece = 1000000; // ns

/// How far one aspect of one device carries: 0 not at all, 1 fully.
struct Trust {
  double Factor = 1;
  std::string Why; ///< Empty at 1.
  std::string Remedy;
};

/// Trust that falls from 1 at \p Good to LeastTrust just before \p Unfit, and
/// is 0 from there on.
double between(double Value, double Good, double Unfit) {
  double Share = (Value - Good) / (Unfit - Good);
  if (Share <= 0)
    return 1;
  return Share >= 1 ? 0 : 1 - Share * (1 - LeastTrust);
}

std::string percent(double Share) {
  return formatv("{0:f0} %", 100 * Share).str();
}

class DeviceTrust {
public:
  DeviceTrust(const Case &C, size_t Row)
      : T(C.table(TableId::capture_quality)), Row(Row) {}

  int64_t rank() const { return integer(capture_quality::rank); }
  int64_t device() const { return integer(capture_quality::device); }

  Trust in(Reliance R) const;

private:
  int64_t integer(unsigned Column) const {
    return T.columns()[Column].getInt(Row);
  }
  std::optional<double> number(unsigned Column) const {
    double Value = T.columns()[Column].getDouble(Row);
    return Value == Value ? std::optional(Value) : std::nullopt;
  }

  Trust launches() const;
  Trust wholeRecord() const;
  Trust clocks() const;

  const Table &T;
  size_t Row;
};

} // namespace

StringRef toString(Reliance R) { return Words[static_cast<unsigned>(R)]; }

std::optional<Reliance> parseReliance(StringRef Text) {
  auto It = llvm::find(Words, Text);
  if (It == std::end(Words))
    return std::nullopt;
  return static_cast<Reliance>(It - std::begin(Words));
}

Trust DeviceTrust::launches() const {
  std::optional<double> Match = number(capture_quality::launch_match);
  if (!Match)
    return {}; // no host calls at all: the detector's needs say so
  double Factor =
      between(1 - *Match, 1 - LaunchMatchGood, 1 - LaunchMatchUnfit);
  if (Factor == 1)
    return {};
  return {Factor,
          percent(1 - *Match) + " of the device work has no launch record",
          "record again with the CUDA runtime activities on and a larger "
          "profiler buffer"};
}

Trust DeviceTrust::wholeRecord() const {
  int64_t Lost = integer(capture_quality::lost);
  if (T.columns()[capture_quality::cut].Data->bools()[Row] == 1)
    return {CutTrust, "the record is cut off",
            "record again and let the profiler finish its file"};
  if (Lost <= 0)
    return {};
  int64_t Kept = integer(capture_quality::kept);
  double Share = static_cast<double>(Lost) / static_cast<double>(Lost + Kept);
  return {Share > 0.01 ? CutTrust : 0.9,
          "the profiler dropped " + formatCount(Lost) + " records",
          "record again with a larger profiler buffer or for fewer steps"};
}

Trust DeviceTrust::clocks() const {
  int64_t Residual = integer(capture_quality::clock_residual);
  int64_t Collective = integer(capture_quality::median_collective);
  if (Residual == NullInt || Collective == NullInt)
    return {};
  double Factor =
      between(static_cast<double>(Residual) / static_cast<double>(Collective),
              ClockGood, ClockUnfit);
  if (Factor == 1)
    return {};
  return {Factor,
          formatv("the clocks of the ranks agree to {0} only, and the median "
                  "collective takes {1}",
                  formatDuration(Residual), formatDuration(Collective))
              .str(),
          "record ranks whose hosts keep time by PTP or chrony, or more "
          "collectives"};
}

Trust DeviceTrust::in(Reliance R) const {
  switch (R) {
  case Reliance::Launches:
    return launches();
  case Reliance::Kernels: {
    double Share = number(capture_quality::graph_share).value_or(0);
    double Factor = between(Share, GraphShareGood, GraphShareUnfit);
    if (Factor == 1)
      return {};
    return {Factor,
            percent(Share) +
                " of the busy time is recorded as whole CUDA graphs",
            "record graph nodes: nsys profile --cuda-graph-trace=node"};
  }
  case Reliance::HostTimes: {
    double Share = number(capture_quality::overhead_share).value_or(0);
    double Factor = between(Share, OverheadGood, OverheadUnfit);
    if (Factor == 1)
      return {};
    return {Factor,
            "the profiler held up the host for " + percent(Share) +
                " of the window",
            "record fewer activities: no stacks, no shapes, no memory"};
  }
  case Reliance::WholeRecord:
    return wholeRecord();
  case Reliance::Clocks:
    return clocks();
  }
  llvm_unreachable("all aspects are judged");
}

void applyCaptureGate(const Case &C, ArrayRef<Reliance> On, Outcome &Into) {
  const Table &Quality = C.table(TableId::capture_quality);
  if (On.empty() || Quality.empty() ||
      (Into.Kind != OutcomeKind::Matched && Into.Kind != OutcomeKind::Clear))
    return;
  struct Judgement {
    int64_t Rank, Device;
    double Factor = 1;
    Trust Worst;
  };
  std::vector<Judgement> Judged;
  for (size_t I = 0; I != Quality.rows(); ++I) {
    DeviceTrust Device(C, I);
    Judgement J{Device.rank(), Device.device(), 1, {}};
    for (Reliance R : On) {
      Trust T = Device.in(R);
      J.Factor *= T.Factor;
      if (T.Factor < J.Worst.Factor)
        J.Worst = std::move(T);
    }
    Judged.push_back(std::move(J));
  }
  auto worst = [](const Judgement &A, const Judgement &B) {
    return A.Factor < B.Factor;
  };
  auto withheld = [](const Trust &T) { return T.Why + ": " + T.Remedy; };

  // Where no device can carry a verdict, clear would be one too.
  const Judgement &Best = *llvm::max_element(Judged, worst);
  if (Best.Factor == 0) {
    Into.Kind = OutcomeKind::Skipped;
    Into.Reports.clear();
    Into.Missing = {withheld(Best.Worst)};
    return;
  }
  std::vector<Report> Kept;
  const Trust *Gone = nullptr;
  for (Report &R : Into.Reports) {
    const Judgement *Of = nullptr;
    for (const Judgement &J : Judged) {
      auto agrees = [&](StringRef Key, int64_t Value) {
        const Coordinate *At = R.at(Key);
        const int64_t *Number = At ? std::get_if<int64_t>(&At->Value) : nullptr;
        return !Number || *Number == Value;
      };
      if (agrees("rank", J.Rank) && agrees("device", J.Device) &&
          (!Of || J.Factor < Of->Factor))
        Of = &J;
    }
    if (Of && Of->Factor == 0) {
      Gone = &Of->Worst;
      continue;
    }
    if (Of && Of->Factor < 1) {
      R.Score *= Of->Factor;
      R.Doubt = Of->Worst.Why;
      R.Message += " (counts " + percent(Of->Factor) + ": " + R.Doubt + ")";
    }
    Kept.push_back(std::move(R));
  }
  Into.Reports = std::move(Kept);
  if (Into.Reports.empty() && Gone) {
    Into.Kind = OutcomeKind::Skipped;
    Into.Missing = {withheld(*Gone)};
  }
}

/// Whether there is device work, and no device did enough of it.
static bool isThin(const Case &C) {
  const Table &Work = C.table(TableId::gpu_work);
  std::map<std::pair<int64_t, int64_t>, size_t> Pieces;
  for (size_t I = 0; I != Work.rows(); ++I) {
    auto of = [&](unsigned Column) { return Work.columns()[Column].getInt(I); };
    int64_t Dur = of(gpu_work::dur);
    if ((Dur != NullInt && Dur >= LongPiece) ||
        ++Pieces[{of(gpu_work::rank), of(gpu_work::device)}] == LeastPieces)
      return false;
  }
  return !Work.empty();
}

void withholdClearOfThinRecord(const Case &C, const Needs &On, Outcome &Into) {
  auto ofDevice = [](const Need &N) {
    switch (N.Table) {
    case TableId::gpu_work:
    case TableId::windows:
    case TableId::gaps:
    case TableId::launches:
    case TableId::host_calls:
    case TableId::capture_quality:
      return true;
    default:
      return false;
    }
  };
  if (Into.Kind != OutcomeKind::Clear || llvm::none_of(On.All, ofDevice) ||
      !isThin(C))
    return;
  Into.Kind = OutcomeKind::Skipped;
  Into.Missing = {"at least " + std::to_string(LeastPieces) +
                  " pieces of device work: record more steps"};
}

} // namespace culprit
