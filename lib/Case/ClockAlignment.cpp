//===- ClockAlignment.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each matched collective gives the sources in it one equation: they left it
// together. The median over all collectives two sources share is the offset
// between their clocks; a rank that leaves a little early (its copy of the
// result is there first) moves a few of them by microseconds. Sources that
// share no collective, as those of different tensor groups, are joined by way
// of others: the offsets are the edges of a graph, and the tree of the
// best-founded edges reaches every source of the job.
//
//===----------------------------------------------------------------------===//

#include "Case/ClockAlignment.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

void forEachTime(Source &S, function_ref<void(int64_t &)> Visit) {
  for (unsigned T = 0; T != NumTables; ++T) {
    TableBuilder *B = S.existing(static_cast<TableId>(T));
    if (!B)
      continue;
    const TableSchema &Schema = schemas()[T];
    for (unsigned C = 0; C != Schema.Columns.size(); ++C)
      if (Schema.Columns[C].Unit == "time" && B->touched(C))
        for (int64_t &Value : B->finished(C).mutableInts())
          if (Value != NullInt)
            Visit(Value);
  }
}

namespace {

/// A clock that differs by more than the collectives last wants this many of
/// them as witnesses before a recorded epoch is overruled.
constexpr size_t MinWitnesses = 3;
/// Collectives from which the rate of a clock can be told, and the span.
constexpr size_t MinDriftMatches = 16;
constexpr int64_t MinDriftSpan = 1'000'000'000;
/// Clocks of computers differ by tens of parts in a million; more is a wrong
/// pairing.
constexpr double MaxDrift = 5e-4;
constexpr int64_t MinDriftTotal = 20'000;
/// Two profiles with this many collectives each that match nowhere are not of
/// one job.
constexpr size_t MinToMiss = 8;

/// When one source leaves collectives before another does.
struct Edge {
  std::vector<double> At, Lead; ///< Time on the reference's clock, and ns.
};

/// What moves a clock: the shift at time `Middle` of its own, and the rate.
struct Correction {
  int64_t Shift = 0, Middle = 0;
  double Rate = 0;

  int64_t apply(int64_t Time) const {
    double Drift = Rate * static_cast<double>(Time - Middle);
    return static_cast<int64_t>(
        static_cast<uint64_t>(Time) +
        static_cast<uint64_t>(Shift + std::llround(Drift)));
  }
};

double medianOf(ArrayRef<double> Values) {
  return quantile(Values, 0.5).value_or(0);
}

/// Aligns the sources of one case.
class Aligner {
public:
  explicit Aligner(ArrayRef<std::unique_ptr<Source>> Sources)
      : Sources(Sources), World(Sources.size(), NullInt),
        Records(collectiveRecords(Sources, World)),
        Matches(matchCollectives(Records)) {}

  int64_t run() {
    collect();
    if (Timed.size() < 2)
      return 0;
    remarkStrangers();
    // Profiles that know the time of day are where the others move to.
    for (bool Known : {true, false})
      for (uint32_t Root : Timed)
        if (Sources[Root]->EpochNs.has_value() == Known &&
            !Reached.count(Root))
          spread(Root);
    return toZero();
  }

private:
  /// Edges between sources, and the typical length of a collective.
  void collect() {
    std::vector<double> Durations;
    for (const CollectiveRecord &R : Records)
      if (R.timed()) {
        Timed.insert(R.Source);
        ++Count[R.Source];
        Durations.push_back(static_cast<double>(R.Stop - R.Start));
      }
    MedianDuration = medianOf(Durations);
    for (const CollectiveMatch &M : Matches) {
      const CollectiveRecord &First = Records[M.front()];
      if (!First.timed())
        continue;
      // One equation between the first source and each other: all pairs of a
      // thousand ranks would say no more.
      std::map<uint32_t, int64_t> Stop;
      for (uint32_t I : M)
        Stop.try_emplace(Records[I].Source, Records[I].Stop);
      if (Stop.size() < 2)
        continue;
      for (auto [S, T] : Stop)
        ++Matched[S];
      if (!leavesTogether(First.Op))
        continue;
      auto [A, StopA] = *Stop.begin();
      for (auto [B, StopB] : drop_begin(Stop)) {
        Edge &E = Edges[{A, B}];
        E.At.push_back(static_cast<double>(StopB));
        E.Lead.push_back(static_cast<double>(StopA - StopB));
      }
    }
  }

  /// Says which profiles share nothing with the others.
  void remarkStrangers() {
    constexpr const char *Hint =
        "diagnose profiles of different runs one at a time";
    std::map<int64_t, size_t> Sizes;
    for (uint32_t S : Timed)
      if (World[S] != NullInt)
        ++Sizes[World[S]];
    int64_t Usual = NullInt;
    for (auto [Size, N] : Sizes)
      if (Usual == NullInt || N > Sizes[Usual])
        Usual = Size;
    for (uint32_t S : Timed) {
      if (World[S] != NullInt && World[S] != Usual) {
        Sources[S]->warn(Twine(Sources[S]->path()) + ": is of a job of " +
                             Twine(World[S]) + " ranks and the others of one "
                             "of " + Twine(Usual) + "; not compared with them",
                         Hint);
        continue;
      }
      size_t Others = 0;
      for (uint32_t O : Timed)
        if (O != S && World[O] == World[S] && Count[O] >= MinToMiss)
          ++Others;
      if (Matched[S] || Count[S] < MinToMiss || Others == 0)
        continue;
      Sources[S]->warn(
          Twine(Sources[S]->path()) + ": none of its " + Twine(Count[S]) +
              " collectives matches one of the other profiles" +
              otherModel(S) + "; not compared with them",
          Hint);
    }
  }

  /// A clause where the devices of \p S are of another model than elsewhere.
  std::string otherModel(uint32_t S) {
    StringRef Mine = model(S);
    for (uint32_t O : Timed)
      if (O != S && !Mine.empty() && !model(O).empty() && model(O) != Mine)
        return (", which ran on " + model(O) + " and this on " + Mine).str();
    return "";
  }
  StringRef model(uint32_t S) {
    TableBuilder *B = Sources[S]->existing(TableId::devices);
    if (!B || B->rows() == 0 || !B->touched(devices::model))
      return "";
    StringId Id = B->finished(devices::model).strings()[0];
    return Id == NullString ? "" : Sources[S]->pool().text(Id);
  }

  /// Moves every source that collectives join to \p Root, in the order of the
  /// evidence: the edge with the most collectives first.
  void spread(uint32_t Root) {
    Reached.insert(Root);
    while (true) {
      const Edge *Best = nullptr;
      uint32_t From = 0, To = 0;
      for (const auto &[Key, E] : Edges) {
        auto [A, B] = Key;
        if (Reached.count(A) == Reached.count(B))
          continue;
        if (!Best || E.Lead.size() > Best->Lead.size()) {
          Best = &E;
          From = Reached.count(A) ? A : B;
          To = From == A ? B : A;
        }
      }
      if (!Best)
        return;
      Reached.insert(To);
      align(*Best, From, To, /*Reverse=*/From > To);
    }
  }

  /// Moves the clock of \p To by edge \p E. \p Reverse: the edge is told from
  /// \p To to \p From. The clock of \p From has been moved already.
  void align(const Edge &E, uint32_t From, uint32_t To, bool Reverse) {
    std::vector<double> At, Lead; // own time of To; where From's clock is
    auto Known = Moved.find(From);
    Correction OfFrom = Known == Moved.end() ? Correction() : Known->second;
    for (size_t I = 0; I != E.At.size(); ++I) {
      int64_t StopTo = static_cast<int64_t>(E.At[I]);
      int64_t StopFrom = StopTo + static_cast<int64_t>(E.Lead[I]);
      if (Reverse)
        std::swap(StopTo, StopFrom);
      At.push_back(static_cast<double>(StopTo));
      Lead.push_back(
          static_cast<double>(OfFrom.apply(StopFrom) - StopTo));
    }
    double Shift = medianOf(Lead), Spread = robustDeviation(Lead).value_or(0);
    Correction C;
    C.Middle = static_cast<int64_t>(medianOf(At));
    C.Shift = std::llround(Shift);

    auto [First, Last] = std::minmax_element(At.begin(), At.end());
    double Span = *Last - *First;
    if (At.size() >= MinDriftMatches && Span >= MinDriftSpan) {
      double Rate = robustSlope(At, Lead).value_or(0);
      std::vector<double> Left;
      for (size_t I = 0; I != At.size(); ++I)
        Left.push_back(Lead[I] - Rate * (At[I] - C.Middle));
      if (std::abs(Rate) <= MaxDrift &&
          std::abs(Rate) * Span >= MinDriftTotal &&
          robustDeviation(Left).value_or(0) < 0.5 * Spread) {
        C.Rate = Rate;
        C.Shift = std::llround(medianOf(Left));
        Spread = robustDeviation(Left).value_or(0);
      }
    }

    bool BothKnown = Sources[To]->EpochNs.has_value() &&
                     Sources[From]->EpochNs.has_value();
    double Total = std::abs(Shift) + std::abs(C.Rate) * Span / 2;
    if (BothKnown) {
      bool Founded = At.size() >= MinWitnesses && 4 * Spread < Total;
      // A neighbour that was moved takes along those that agree with it.
      if (!Founded || Total <= std::max(MedianDuration, 1000.0))
        return;
      std::string Told = formatDuration(std::abs(C.Shift));
      Sources[To]->warn(
          Twine(Sources[To]->path()) + ": its clock is " + Told +
              (C.Shift < 0 ? " ahead of" : " behind") + " that of " +
              Sources[From]->path() + " by " + Twine(At.size()) +
              " collectives that both end" +
              (C.Rate != 0 ? ", and drifts" : "") + "; moved to it",
          "synchronise the clocks of the hosts (chrony or PTP) before "
          "recording");
    }
    Moved[To] = C;
    forEachTime(*Sources[To], [&](int64_t &T) { T = C.apply(T); });
  }

  /// Moves all sources on the common clock together so that none begins
  /// before 0.
  int64_t toZero() {
    int64_t Earliest = 0;
    auto common = [&](size_t S) {
      return Sources[S]->EpochNs || Moved.count(S) || Timed.count(S);
    };
    for (size_t S = 0; S != Sources.size(); ++S)
      if (Moved.count(S))
        forEachTime(*Sources[S],
                    [&](int64_t &T) { Earliest = std::min(Earliest, T); });
    if (Earliest == 0)
      return 0;
    for (size_t S = 0; S != Sources.size(); ++S)
      if (common(S))
        forEachTime(*Sources[S], [&](int64_t &T) { T -= Earliest; });
    return -Earliest;
  }

  ArrayRef<std::unique_ptr<Source>> Sources;
  std::vector<int64_t> World; ///< By source.
  std::vector<CollectiveRecord> Records;
  std::vector<CollectiveMatch> Matches;
  std::set<uint32_t> Timed, Reached; ///< Sources.
  std::map<uint32_t, size_t> Count, Matched;
  std::map<std::pair<uint32_t, uint32_t>, Edge> Edges;
  std::map<uint32_t, Correction> Moved;
  double MedianDuration = 0;
};

} // namespace

int64_t alignClocks(ArrayRef<std::unique_ptr<Source>> Sources) {
  size_t Profiles = 0;
  for (const auto &S : Sources)
    if (TableBuilder *B = S->existing(TableId::collectives))
      Profiles += B->rows() && B->touched(collectives::stop);
  return Profiles < 2 ? 0 : Aligner(Sources).run();
}

} // namespace culprit
