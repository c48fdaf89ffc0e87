//===- NextChecks.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/NextChecks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <map>

using namespace llvm;

namespace culprit {

/// Below this a hypothesis's own experiment is nobody's first step.
static constexpr double WorthTesting = 0.2;
static constexpr size_t MostShifts = 3;

/// The likeliest of \p After, which has one element a candidate.
static std::vector<Shift> shifts(const Model &M, const Beliefs &B,
                                 const Weights &W, ArrayRef<double> After) {
  std::vector<Shift> Out;
  for (size_t C = 0; C != After.size(); ++C)
    if (double P = W.calibrated(After[C]); P >= ListedFrom)
      Out.push_back({M.N.Causes[B.Candidates[C]].Class, P});
  llvm::stable_sort(Out, [](const Shift &X, const Shift &Y) {
    if (X.Probability != Y.Probability)
      return X.Probability > Y.Probability;
    return X.Class < Y.Class;
  });
  if (Out.size() > MostShifts)
    Out.resize(MostShifts);
  return Out;
}

static size_t candidateOf(const Model &M, const Beliefs &B, StringRef Class) {
  return static_cast<size_t>(
      llvm::find_if(B.Candidates,
                    [&](unsigned C) { return M.N.Causes[C].Class == Class; }) -
      B.Candidates.begin());
}

/// The experiment of the best entry that has one.
static NextCheck experimentOf(const Hypothesis &H, const Model &M,
                              const Beliefs &B, const Pairs &P,
                              const Weights &W) {
  NextCheck Check;
  auto It = llvm::find_if(H.Entries, [](const Entry *E) {
    return !E->Confirm.Experiment.empty();
  });
  if (It == H.Entries.end())
    return Check;
  const Confirmation &Confirm = (*It)->Confirm;
  Check.Class = H.Class;
  Check.Experiment = Confirm.Experiment;
  Check.Confirms = Confirm.Confirms;
  Check.Refutes = Confirm.Refutes;
  Check.Gain = informationOf(H.Probability, W.Cost.Right);
  Check.Minutes = W.minutesOf(H.Class);
  size_t Tested = candidateOf(M, B, H.Class);
  Check.IfSo = shifts(M, B, W, P.after(Tested, W.Cost.Right, true));
  Check.IfNot = shifts(M, B, W, P.after(Tested, W.Cost.Right, false));
  return Check;
}

/// Recording what shows \p U.
static NextCheck recordingOf(const Hypothesis &H, const Unchecked &U,
                             unsigned Symptom, const Model &M, const Beliefs &B,
                             const Weights &W, double Gain) {
  NextCheck Check;
  Check.Class = H.Class;
  Check.Symptom = U.Symptom;
  Check.Needs = U.Needs;
  Check.Experiment = "Record " + U.Needs + ".";
  Check.Confirms = "It shows whether " + U.Text + " (" + U.Symptom + ").";
  Check.Gain = Gain;
  Check.Minutes = W.minutesToRecord(U.Needs);
  Check.IfSo = shifts(M, B, W, B.after([&](const CauseSet &S) {
    return chanceOf(M.N, B, S, Symptom);
  }));
  Check.IfNot = shifts(M, B, W, B.after([&](const CauseSet &S) {
    return 1 - chanceOf(M.N, B, S, Symptom);
  }));
  return Check;
}

/// What is told of \p Cause by the one symptom of \p Waiting that tells most.
static double toldOf(const CauseNode &Cause, const Network &N,
                     const std::vector<bool> &Waiting) {
  double Most = 0;
  for (const Link &L : Cause.Links) {
    if (!Waiting[L.Symptom] || L.Never)
      continue;
    double Leak = N.Symptoms[L.Symptom].Leak;
    double IfSo = 1 - (1 - Leak) * (1 - L.Weight);
    Most = std::max(Most, informationOf(Cause.Prior, IfSo, Leak));
  }
  return Most;
}

namespace {
/// Expected information of what nobody looked for, in bits, each worked out
/// once and over the likeliest sets of causes: it orders what to do next.
class Gains {
public:
  Gains(const Model &M, const Beliefs &B)
      : M(M), B(B.likeliest(512)), Open(entropyOf(this->B)),
        OfSymptom(M.N.Symptoms.size(), -1) {
    double Known = B.anyOf([&](unsigned C) {
      return static_cast<int>(C) != M.N.Unknown;
    });
    NoneKnown = 1 - Known;
  }

  double ofSymptom(unsigned S) {
    double &Out = OfSymptom[S];
    if (Out < 0)
      Out = informationOf(M.N, B, S);
    return Out;
  }

  double ofRecording(const std::string &Needs) {
    auto [It, New] = ByNeeds.try_emplace(Needs);
    if (New)
      It->second = sumOf(Needs);
    return It->second;
  }

private:
  /// What recording \p Needs tells in all: it decides every symptom that waits
  /// for it. Each symptom alone takes a share of what is not known of the
  /// causes that are in question, and together they leave what all of them
  /// leave. As far as none of these causes may be it, what is told of any other
  /// counts.
  double sumOf(StringRef Needs) {
    std::vector<bool> Waiting(M.N.Symptoms.size());
    double Left = 1, Elsewhere = 0;
    for (unsigned S = 0; S != Waiting.size(); ++S) {
      const SymptomEvidence *E = M.evidence(S);
      Waiting[S] = E && E->State == Presence::Unknown &&
                   join(E->Missing, ", ") == Needs;
      if (Waiting[S] && Open > 0)
        Left *= 1 - std::min(1.0, ofSymptom(S) / Open);
    }
    for (unsigned C = 0; C != M.N.Causes.size(); ++C)
      if (!is_contained(B.Candidates, C))
        Elsewhere += toldOf(M.N.Causes[C], M.N, Waiting);
    return Open * (1 - Left) + NoneKnown * Elsewhere;
  }

  const Model &M;
  const Beliefs B;
  const double Open; ///< What is not known of the causes in question.
  double NoneKnown;  ///< Probability that it is none of them.
  std::vector<double> OfSymptom; ///< -1 for not worked out.
  std::map<std::string, double> ByNeeds;
};
} // namespace

/// The check to make first; see findChecks().
static std::optional<NextCheck>
bestCheck(ArrayRef<Hypothesis> Listed, const Model &M, const Beliefs &B,
          const Weights &W, function_ref<double(const Hypothesis &)> ShareOf,
          Gains &Gain) {
  std::optional<NextCheck> Best;
  double Told = 0; // bits a minute
  for (const Hypothesis &H : Listed) {
    if (H.Next.Experiment.empty() ||
        (Best && (H.Probability < WorthTesting || !(H.Next.Gain > 0))))
      continue;
    double Rate = H.Next.Gain * ShareOf(H) / H.Next.Minutes;
    if (Best && Rate <= 2 * Told)
      continue;
    Best = H.Next;
    Told = Rate;
  }
  // Something to record serves all causes at once, however little is known.
  const Hypothesis *Of = nullptr;
  const Unchecked *What = nullptr;
  for (const Hypothesis &H : Listed)
    for (const Unchecked &U : H.Open) {
      if (U.Needs.empty() || !(U.Gain > 0))
        continue;
      double Rate =
          Gain.ofRecording(U.Needs) * ShareOf(H) / W.minutesToRecord(U.Needs);
      if (!(Rate > Told))
        continue;
      Of = &H;
      What = &U;
      Told = Rate;
    }
  if (What)
    return recordingOf(*Of, *What, *M.symptom(What->Symptom), M, B, W,
                       Gain.ofRecording(What->Needs));
  return Best;
}

std::optional<NextCheck>
findChecks(MutableArrayRef<Hypothesis> Listed, const Model &M,
           const Beliefs &B, const Weights &W,
           function_ref<double(const Hypothesis &)> ShareOf) {
  Gains Gain(M, B);
  const Pairs Together(B);
  for (Hypothesis &H : Listed) {
    H.Next = experimentOf(H, M, B, Together, W);
    for (Unchecked &U : H.Open)
      if (std::optional<unsigned> Symptom = M.symptom(U.Symptom))
        U.Gain = Gain.ofSymptom(*Symptom);
  }
  return bestCheck(Listed, M, B, W, ShareOf, Gain);
}

} // namespace culprit
