//===- NextChecks.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/NextChecks.h"
#include "Rank/Hypotheses.h"
#include "Rank/Recordings.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <deque>

using namespace llvm;

namespace culprit {

/// Below this a hypothesis's own experiment is nobody's first step.
static constexpr double WorthTesting = 0.2;
/// Of a cause that is only suspected, what shows as often is worth recording.
static constexpr double OftenShown = 0.5;
/// What tells less, in bits, is not worth another run.
static constexpr double WorthRecording = 0.05;
static constexpr size_t MostShifts = 3;

/// The likeliest of \p After, which has one element a candidate, of those that
/// are listed now or would be for \p Symptom: what only common sights speak for
/// is no news.
static std::vector<Shift> shifts(const Model &M, const Beliefs &B,
                                 const Likeness &Runs, ArrayRef<double> After,
                                 std::optional<unsigned> Symptom = {}) {
  auto isListed = [&](unsigned C) {
    const CauseNode &Cause = M.N.Causes[C];
    return static_cast<int>(C) == M.N.Unknown || M.isShown(Cause) ||
           llvm::any_of(Cause.Links, [&](const Link &L) {
             return L.Symptom == Symptom && !L.Never;
           });
  };
  std::vector<Shift> Out;
  for (size_t C = 0; C != After.size(); ++C)
    if (double P = Runs.moved(B, B.Candidates[C], After[C]);
        P >= ListedFrom && isListed(B.Candidates[C]))
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

/// What \p P becomes where an experiment that is right with \p Right says so.
static double informed(double P, double Right) {
  return P * Right / (P * Right + (1 - P) * (1 - Right));
}

/// The experiment of the best entry that has one.
static NextCheck experimentOf(const Hypothesis &H, const Model &M,
                              const Beliefs &B, const Pairs &P,
                              const Weights &W, const Likeness &Runs) {
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
  if (Tested == B.Candidates.size()) {
    // The network has no belief to move: recorded runs alone speak for it.
    Check.IfSo = {{H.Class, informed(H.Probability, W.Cost.Right)}};
    return Check;
  }
  Check.IfSo = shifts(M, B, Runs, P.after(Tested, W.Cost.Right, true));
  Check.IfNot = shifts(M, B, Runs, P.after(Tested, W.Cost.Right, false));
  return Check;
}

/// Recording what shows \p U.
static NextCheck recordingOf(StringRef Class, const Unchecked &U,
                             unsigned Symptom, const Model &M,
                             const Beliefs &B, const Likeness &Runs) {
  NextCheck Check;
  Check.Class = Class.str();
  Check.Symptom = U.Symptom;
  Check.Needs = U.Needs;
  Check.Experiment = "Record " + U.Needs + ".";
  Check.Confirms = "It shows whether " + U.Text + " (" + U.Symptom + ").";
  auto seen = [&](const CauseSet &S) { return chanceOf(M.N, B, S, Symptom); };
  auto notSeen = [&](const CauseSet &S) { return 1 - seen(S); };
  Check.IfSo = shifts(M, B, Runs, B.after(seen), Symptom);
  Check.IfNot = shifts(M, B, Runs, B.after(notSeen), Symptom);
  return Check;
}

namespace {
/// Something to record, and for which cause.
struct Recording {
  StringRef Class, Layer;
  const Unchecked *What;
  double Share; ///< Of the time that could be won.
};
} // namespace

/// What would tell of the causes \p Rest: what each often shows and nobody
/// could look for. \p Texts keeps what \p Choice refers to.
static void addSuspects(ArrayRef<unsigned> Rest, const Model &M,
                        const Vocabulary &Words, std::deque<Unchecked> &Texts,
                        std::vector<Recording> &Choice) {
  for (unsigned C : Rest) {
    const CauseNode &Cause = M.N.Causes[C];
    for (const Link &L : Cause.Links) {
      const SymptomEvidence *E = M.evidence(L.Symptom);
      if (!E || L.Never || L.Weight < OftenShown ||
          E->State != Presence::Unknown)
        continue;
      Texts.push_back(unchecked(*E, Words));
      Choice.push_back(
          {Cause.Class, layerOf(Cause.Class, Words), &Texts.back(), 1});
    }
  }
}

/// The experiment of the first hypothesis, unless another one tells more than
/// twice as much for its time, which is returned in \p Told, in bits a minute.
static std::optional<NextCheck>
bestExperiment(ArrayRef<Hypothesis> Listed,
               function_ref<double(const Hypothesis &)> ShareOf,
               double &Told) {
  std::optional<NextCheck> Best;
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
  return Best;
}

std::optional<NextCheck>
findChecks(MutableArrayRef<Hypothesis> Listed, ArrayRef<unsigned> Rest,
           const Model &M, const Beliefs &B, const Vocabulary &Words,
           const Weights &W, const Likeness &Runs,
           function_ref<double(const Hypothesis &)> ShareOf) {
  Recordings All(M, B, Words, W);
  const Pairs Together(B);
  std::vector<Recording> Choice;
  for (Hypothesis &H : Listed) {
    H.Next = experimentOf(H, M, B, Together, W, Runs);
    for (Unchecked &U : H.Open)
      if (std::optional<unsigned> Symptom = M.symptom(U.Symptom)) {
        U.Gain = All.ofSymptom(*Symptom);
        Choice.push_back({H.Class, H.Layer, &U, ShareOf(H)});
      }
  }
  std::deque<Unchecked> OfRest;
  if (Listed.empty())
    addSuspects(Rest, M, Words, OfRest, Choice);

  double Told = 0;
  std::optional<NextCheck> Best = bestExperiment(Listed, ShareOf, Told);
  // Something to record serves all causes at once. Where one is likely, its own
  // experiment settles it sooner.
  if (!Listed.empty() && Listed.front().Probability >= ClaimedFrom)
    Told *= 2;
  const Recording *First = nullptr;
  double FirstOwn = 0;
  for (const Recording &R : Choice) {
    unsigned Symptom = *M.symptom(R.What->Symptom);
    if (!All.isPossible(Symptom))
      continue;
    double Gain = All.gain(Symptom, R.Layer);
    if (Gain < WorthRecording)
      continue;
    double Rate = Gain * R.Share / All.minutes(Symptom);
    // Of all that the recording shows, what tells most is named.
    double Own = All.ofSymptom(Symptom);
    if (Rate > Told || (First && Rate == Told && Own > FirstOwn)) {
      First = &R;
      FirstOwn = Own;
      Told = Rate;
    }
  }
  if (!First)
    return Best;
  unsigned Symptom = *M.symptom(First->What->Symptom);
  NextCheck Check =
      recordingOf(First->Class, *First->What, Symptom, M, B, Runs);
  Check.Gain = All.gain(Symptom, First->Layer);
  Check.Minutes = All.minutes(Symptom);
  return Check;
}

} // namespace culprit
