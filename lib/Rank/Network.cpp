//===- Network.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

using namespace llvm;

namespace culprit {

double logOddsOf(double P) { return std::log(P / (1 - P)); }

double probabilityOf(double LogOdds) { return 1 / (1 + std::exp(-LogOdds)); }

StringRef toString(Presence P) {
  return P == Presence::Present  ? "present"
         : P == Presence::Absent ? "absent"
                                 : "unknown";
}

std::optional<Presence> parsePresence(StringRef Word) {
  for (Presence P : {Presence::Unknown, Presence::Absent, Presence::Present})
    if (Word == toString(P))
      return P;
  return std::nullopt;
}

namespace {

constexpr unsigned MaxCandidates = 40;
/// A link this strong lets a present symptom speak for a cause.
constexpr double SpeaksFor = 0.1;
/// A symptom that is there so often without any cause speaks for none.
constexpr double SaysNothing = 0.9;
/// Sets lighter than this against the heaviest change no digit that is shown.
constexpr double Negligible = 1e-12;

/// The likelihood of one observation relative to that without any cause, as a
/// function of Off, the share of the leak's silence that the present causes
/// leave: Level - Slope * Off, which is 1 at Off = 1.
struct Likelihood {
  double Level = 1, Slope = 0;
  double Never = 1; ///< What a cause that suppresses the leak does to Off.

  Likelihood(const Network &N, unsigned Symptom, const SymptomObservation &O) {
    double Ratio = O.State == Presence::Present
                       ? std::pow(N.CertainRatio, std::clamp(O.Score, 0.0, 1.0))
                       : 1 / N.CertainRatio;
    double On = Ratio / (1 + Ratio), Off = 1 / (1 + Ratio);
    double Leak = N.Symptoms[Symptom].Leak;
    double None = On * Leak + Off * (1 - Leak);
    Level = On / None;
    Slope = (On - Off) * (1 - Leak) / None;
    Never = (1 - Leak * N.NeverLeaves) / (1 - Leak);
  }

  double at(double Off) const { return Level - Slope * Off; }
};

/// Log likelihood ratio of what was seen for the cause of \p L alone against
/// no cause.
double typical(const Likelihood &Seen, const Link &L) {
  return std::log(Seen.at(L.Never ? Seen.Never : 1 - L.Weight));
}

/// Causes that a present symptom speaks for and no clear one rules out, the
/// likeliest alone first; the unknown one always, where anything is present.
std::vector<unsigned> candidates(const Network &N,
                                 ArrayRef<SymptomObservation> Seen,
                                 ArrayRef<Likelihood> Likelihoods) {
  std::vector<std::pair<double, unsigned>> Scored;
  for (unsigned C = 0; C != N.Causes.size(); ++C) {
    bool Spoken = false, Out = false;
    double Score = logOddsOf(N.Causes[C].Prior);
    for (const Link &L : N.Causes[C].Links) {
      Presence State = Seen[L.Symptom].State;
      Spoken |= !L.Never && L.Weight >= SpeaksFor &&
                State == Presence::Present &&
                N.Symptoms[L.Symptom].Leak < SaysNothing;
      Out |= L.Required && State == Presence::Absent;
      if (State != Presence::Unknown)
        Score += typical(Likelihoods[L.Symptom], L);
    }
    if (static_cast<int>(C) == N.Unknown)
      Spoken = !N.Causes[C].Links.empty(), Score = INFINITY;
    if (Spoken && !Out)
      Scored.push_back({-Score, C});
  }
  llvm::sort(Scored);
  if (Scored.size() > MaxCandidates)
    Scored.resize(MaxCandidates);
  std::vector<unsigned> Out;
  for (auto &[Score, C] : Scored)
    Out.push_back(C);
  return Out;
}

/// One candidate that names a symptom, and what it does to Off.
struct Naming {
  unsigned Candidate;
  double Off, Never;
};

/// One symptom that somebody looked for and a candidate names.
struct Column {
  unsigned Symptom;
  Likelihood Seen;
  SmallVector<Naming, 8> Named; ///< By candidate.

  /// Likelihood ratio of the observation for a set against the empty one, of
  /// whose causes those at \p Members of Named, and no others, name it.
  double ratio(std::initializer_list<size_t> Members) const {
    double Off = 1, Never = 1;
    for (size_t I : Members) {
      Off *= Named[I].Off;
      Never = std::max(Never, Named[I].Never);
    }
    return Seen.at(Off * Never);
  }
};

/// What the sets of candidates make of the observations. A symptom's share of a
/// set's log-odds depends only on the members that name it, so it is taken
/// apart into what one cause does, what a pair does beyond its two, and what
/// three do beyond their pairs: a set is then seven sums, whatever was seen.
class Scorer {
public:
  Scorer(const Network &N, ArrayRef<SymptomObservation> Seen,
         ArrayRef<Likelihood> All, ArrayRef<unsigned> Candidates)
      : K(Candidates.size()), More(std::log(N.Together)), One(K), Two(K * K),
        Three(K * K * K) {
    std::vector<int> Slot(N.Symptoms.size(), -1);
    for (unsigned C = 0; C != K; ++C) {
      One[C] = logOddsOf(N.Causes[Candidates[C]].Prior);
      for (const Link &L : N.Causes[Candidates[C]].Links) {
        if (Seen[L.Symptom].State == Presence::Unknown)
          continue;
        if (Slot[L.Symptom] < 0) {
          Slot[L.Symptom] = static_cast<int>(Columns.size());
          Columns.push_back({L.Symptom, All[L.Symptom], {}});
        }
        Column &Into = Columns[Slot[L.Symptom]];
        Into.Named.push_back({C, L.Never ? 1 : 1 - L.Weight,
                              L.Never ? Into.Seen.Never : 1});
      }
    }
    for (const Column &Each : Columns)
      takeApart(Each);
  }

  /// Log odds of the set \p S against the empty one.
  double score(const CauseSet &S) const {
    double Log = S.Size > 1 ? More * (S.Size - 1) : 0;
    for (unsigned I = 0; I != S.Size; ++I) {
      Log += One[S.Members[I]];
      for (unsigned J = 0; J != I; ++J)
        Log += Two[S.Members[J] * K + S.Members[I]];
    }
    if (S.Size == 3)
      Log += Three[(S.Members[0] * K + S.Members[1]) * K + S.Members[2]];
    return Log;
  }

  ArrayRef<Column> columns() const { return Columns; }

private:
  void takeApart(const Column &From) {
    ArrayRef<Naming> L = From.Named;
    auto log = [&](std::initializer_list<size_t> Members) {
      return std::log(From.ratio(Members));
    };
    std::vector<double> Alone(L.size()), Pairs(L.size() * L.size());
    for (size_t A = 0; A != L.size(); ++A)
      One[L[A].Candidate] += Alone[A] = log({A});
    for (size_t A = 0; A != L.size(); ++A)
      for (size_t B = A + 1; B != L.size(); ++B)
        Two[L[A].Candidate * K + L[B].Candidate] +=
            Pairs[A * L.size() + B] = log({A, B}) - Alone[A] - Alone[B];
    for (size_t A = 0; A != L.size(); ++A)
      for (size_t B = A + 1; B != L.size(); ++B)
        for (size_t C = B + 1; C != L.size(); ++C)
          Three[(L[A].Candidate * K + L[B].Candidate) * K + L[C].Candidate] +=
              log({A, B, C}) - Alone[A] - Alone[B] - Alone[C] -
              Pairs[A * L.size() + B] - Pairs[A * L.size() + C] -
              Pairs[B * L.size() + C];
  }

  size_t K;
  double More; ///< Log odds for each cause beyond the first.
  std::vector<double> One, Two, Three; ///< Of ascending candidates.
  std::vector<Column> Columns;
};

/// Every set of at most three candidates of which no two exclude each other.
/// The unknown cause stands alone: where a known one is at work, what it does
/// not explain is no sign of a second one that nobody knows.
std::vector<CauseSet> allSets(const Network &N, ArrayRef<unsigned> Candidates) {
  auto isUnknown = [&](unsigned C) {
    return static_cast<int>(Candidates[C]) == N.Unknown;
  };
  auto apart = [&](unsigned A, unsigned B) {
    return !isUnknown(A) && !isUnknown(B) &&
           (N.Causes[Candidates[A]].Exclusive &
            N.Causes[Candidates[B]].Exclusive) == 0;
  };
  std::vector<CauseSet> Out{CauseSet()};
  auto add = [&](std::array<uint8_t, 3> Members, uint8_t Size) {
    Out.push_back({0, Members, Size});
  };
  uint8_t K = static_cast<uint8_t>(Candidates.size());
  for (uint8_t A = 0; A != K; ++A) {
    add({A}, 1);
    for (uint8_t B = A + 1; B < K; ++B) {
      if (!apart(A, B))
        continue;
      add({A, B}, 2);
      for (uint8_t C = B + 1; C < K; ++C)
        if (apart(A, C) && apart(B, C))
          add({A, B, C}, 3);
    }
  }
  return Out;
}

/// Weights of all sets, and of those that hold one cause, two or three.
class Sums {
public:
  /// No set weighs less than \p Least.
  Sums(size_t Causes, double Least)
      : K(Causes), Least(Least), With(K), Both(K * K), Three(K * K * K) {}

  void add(const CauseSet &S) {
    All += S.Weight;
    for (unsigned I = 0; I != S.Size; ++I) {
      With[S.Members[I]] += S.Weight;
      for (unsigned J = 0; J != I; ++J)
        Both[S.Members[J] * K + S.Members[I]] += S.Weight;
    }
    if (S.Size == 3)
      Three[(S.Members[0] * K + S.Members[1]) * K + S.Members[2]] = S.Weight;
  }

  double logOdds(size_t Cause) const { return logRatio(With[Cause], All); }

  /// Log odds of each cause that names \p C, with that symptom left out. It
  /// divides the weight of a set by the ratio of those of its causes that name
  /// the symptom; how much the sets weigh that have just these comes from the
  /// sums, so that sets need not be gone through again for each symptom.
  std::vector<double> logOddsWithout(const Column &C) const {
    ArrayRef<Naming> L = C.Named;
    const size_t Count = L.size();
    std::vector<double> Alone(Count), Pair(Count * Count), More(Count);
    double AllMore = 0;
    auto leaveOut = [&](std::initializer_list<size_t> Members, double Weight) {
      if (Weight < Least)
        return; // no set: what differences of sums leave is rounding
      double Gained = Weight * (1 / C.ratio(Members) - 1);
      AllMore += Gained;
      for (size_t I : Members)
        More[I] += Gained;
    };
    for (size_t X = 0; X != Count; ++X)
      Alone[X] = With[L[X].Candidate];
    for (size_t X = 0; X != Count; ++X)
      for (size_t Y = X + 1; Y != Count; ++Y) {
        double Weight = Both[L[X].Candidate * K + L[Y].Candidate];
        Pair[X * Count + Y] = Weight;
        Alone[X] -= Weight;
        Alone[Y] -= Weight;
      }
    for (size_t X = 0; X != Count; ++X)
      for (size_t Y = X + 1; Y != Count; ++Y)
        for (size_t Z = Y + 1; Z != Count; ++Z) {
          double Weight = Three[(L[X].Candidate * K + L[Y].Candidate) * K +
                                L[Z].Candidate];
          if (Weight == 0)
            continue;
          leaveOut({X, Y, Z}, Weight);
          for (size_t I : {X, Y, Z})
            Alone[I] += Weight;
          Pair[X * Count + Y] -= Weight;
          Pair[X * Count + Z] -= Weight;
          Pair[Y * Count + Z] -= Weight;
        }
    for (size_t X = 0; X != Count; ++X) {
      leaveOut({X}, Alone[X]);
      for (size_t Y = X + 1; Y != Count; ++Y)
        leaveOut({X, Y}, Pair[X * Count + Y]);
    }
    std::vector<double> Out(Count);
    for (size_t X = 0; X != Count; ++X)
      Out[X] = logRatio(With[L[X].Candidate] + More[X], All + AllMore);
    return Out;
  }

private:
  static double logRatio(double Part, double Whole) {
    // What is lighter than the smallest number is as good as impossible; its
    // logarithm must stay finite, since odds are subtracted.
    auto log = [](double Sum) {
      return std::log(std::max(Sum, std::numeric_limits<double>::min()));
    };
    return log(Part) - log(Whole - Part);
  }

  size_t K;
  double Least, All = 0;
  /// By candidate, of ascending ones.
  std::vector<double> With, Both, Three;
};

} // namespace

double worthOf(const Network &N, const Link &L,
               ArrayRef<SymptomObservation> Seen) {
  const SymptomObservation &O = Seen[L.Symptom];
  return O.State == Presence::Unknown
             ? 0
             : typical(Likelihood(N, L.Symptom, O), L);
}

static void sortInfluences(CausePosterior &P) {
  llvm::stable_sort(P.Influences, [](const Influence &A, const Influence &B) {
    return std::fabs(A.Typical) > std::fabs(B.Typical);
  });
}

CausePosterior alone(const Network &N, ArrayRef<SymptomObservation> Seen,
                     unsigned Cause) {
  CausePosterior P;
  P.Cause = Cause;
  P.Prior = logOddsOf(N.Causes[Cause].Prior);
  double LogOdds = P.Prior;
  for (const Link &L : N.Causes[Cause].Links) {
    if (Seen[L.Symptom].State == Presence::Unknown)
      continue;
    double Worth = worthOf(N, L, Seen);
    P.Influences.push_back({L.Symptom, Worth, Worth});
    LogOdds += Worth;
  }
  P.Probability = probabilityOf(LogOdds);
  sortInfluences(P);
  return P;
}

Beliefs posterior(const Network &N, ArrayRef<SymptomObservation> Seen) {
  assert(Seen.size() == N.Symptoms.size() && "one observation a symptom");
  std::vector<Likelihood> Likelihoods;
  Likelihoods.reserve(Seen.size());
  for (unsigned S = 0; S != Seen.size(); ++S)
    Likelihoods.emplace_back(N, S, Seen[S]);

  Beliefs B;
  B.Candidates = candidates(N, Seen, Likelihoods);
  Scorer Rows(N, Seen, Likelihoods, B.Candidates);
  B.Sets = allSets(N, B.Candidates);
  double Heaviest = -INFINITY;
  for (CauseSet &S : B.Sets) {
    S.Weight = Rows.score(S);
    Heaviest = std::max(Heaviest, S.Weight);
  }
  double Total = 0;
  for (CauseSet &S : B.Sets)
    Total += S.Weight = std::exp(S.Weight - Heaviest);
  llvm::erase_if(B.Sets, [](const CauseSet &S) {
    return S.Weight < Negligible;
  });

  Sums Tally(B.Candidates.size(), Negligible / Total / 2);
  for (CauseSet &S : B.Sets) {
    S.Weight /= Total;
    Tally.add(S);
  }

  // What is left of each candidate's log odds without one symptom, by symptom.
  std::vector<std::vector<std::pair<unsigned, double>>> Without(
      B.Candidates.size());
  for (const Column &C : Rows.columns())
    for (auto [L, LogOdds] : zip(C.Named, Tally.logOddsWithout(C)))
      Without[L.Candidate].push_back({C.Symptom, LogOdds});
  for (size_t C = 0; C != B.Candidates.size(); ++C) {
    CausePosterior P;
    P.Cause = B.Candidates[C];
    P.Prior = logOddsOf(N.Causes[P.Cause].Prior);
    double LogOdds = Tally.logOdds(C);
    P.Probability = probabilityOf(LogOdds);
    P.Rivals = LogOdds - P.Prior;
    for (const Link &L : N.Causes[P.Cause].Links) {
      auto Left = llvm::find_if(
          Without[C], [&](auto &Of) { return Of.first == L.Symptom; });
      if (Left == Without[C].end())
        continue;
      double Own = typical(Likelihoods[L.Symptom], L);
      P.Rivals -= Own;
      P.Influences.push_back({L.Symptom, LogOdds - Left->second, Own});
    }
    sortInfluences(P);
    B.Causes.push_back(std::move(P));
  }
  llvm::stable_sort(B.Causes,
                    [&](const CausePosterior &A, const CausePosterior &B) {
                      if (A.Probability != B.Probability)
                        return A.Probability > B.Probability;
                      return N.Causes[A.Cause].Class < N.Causes[B.Cause].Class;
                    });
  return B;
}

} // namespace culprit
