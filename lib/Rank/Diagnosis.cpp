//===- Diagnosis.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Diagnosis.h"
#include "Rank/Model.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

StringRef toString(Verdict V) {
  switch (V) {
  case Verdict::Diagnosed:
    return "diagnosed";
  case Verdict::Uncertain:
    return "uncertain";
  case Verdict::Healthy:
    return "healthy";
  case Verdict::Insufficient:
    return "insufficient";
  }
  llvm_unreachable("unknown verdict");
}

namespace {

double binaryEntropy(double P) {
  if (P <= 0 || P >= 1)
    return 0;
  return -P * std::log2(P) - (1 - P) * std::log2(1 - P);
}

/// Information that an experiment gives which answers rightly 19 times in 20.
double expectedGain(double P) {
  constexpr double Right = 0.95;
  double Yes = P * Right + (1 - P) * (1 - Right);
  double AfterYes = P * Right / Yes;
  double AfterNo = P * (1 - Right) / (1 - Yes);
  return binaryEntropy(P) - Yes * binaryEntropy(AfterYes) -
         (1 - Yes) * binaryEntropy(AfterNo);
}

/// How well \p E's own signals fit, to show the right one of several entries.
double fitOf(const Entry &E, ArrayRef<SymptomEvidence> Symptoms) {
  double Fit = 0;
  for (const Signal &S : E.Signals)
    for (const SymptomEvidence &Evidence : Symptoms)
      if (Evidence.Symptom == S.Symptom) {
        double Sign = S.How == Frequency::Never ? -1 : 1;
        Fit += Evidence.State == Presence::Present  ? Sign
               : Evidence.State == Presence::Absent ? -0.5 * Sign
                                                    : 0;
      }
  return Fit;
}

Unchecked unchecked(const SymptomEvidence &E, const Vocabulary &Words) {
  Unchecked U;
  U.Symptom = E.Symptom;
  if (const SymptomTerm *Term = Words.symptom(E.Symptom))
    U.Text = Term->Text;
  U.Needs = join(E.Missing, ", ");
  return U;
}

Hypothesis makeHypothesis(const Model &M, const CausePosterior &P,
                          ArrayRef<SymptomEvidence> Symptoms,
                          const Vocabulary &Words) {
  const CauseNode &Cause = M.N.Causes[P.Cause];
  Hypothesis H;
  H.Class = Cause.Class;
  H.Probability = P.Probability;
  if (const ClassTerm *Term = Words.rootCause(Cause.Class)) {
    H.Layer = Term->Layer;
    H.Title = Term->Definition;
  }
  H.Entries = M.ByClass.at(Cause.Class);
  if (H.Title.empty()) {
    H.Layer = "project";
    H.Title = H.Entries.front()->Title;
  }
  llvm::stable_sort(H.Entries, [&](const Entry *A, const Entry *B) {
    // Without signals an entry says nothing of how well it fits.
    if (A->Signals.empty() != B->Signals.empty())
      return B->Signals.empty();
    return fitOf(*A, Symptoms) > fitOf(*B, Symptoms);
  });

  // A symptom that other causes show more often measures their time, not
  // this one's: only the strongest links of the cause count.
  double Strongest = 0;
  auto takeRecoverable = [&](const CauseNode &C, unsigned Symptom,
                             int64_t Time) {
    for (const Link &L : C.Links) {
      // A symptom that prices itself at nothing (one rank's wait is no loss of
      // the job's) leaves the price to those that do.
      bool Priced = H.Recoverable.value_or(0) > 0;
      if (L.Symptom != Symptom || L.Never ||
          (Priced && (L.Weight < Strongest || Time <= 0)))
        continue;
      H.Recoverable = L.Weight > Strongest
                          ? Time
                          : std::max(H.Recoverable.value_or(0), Time);
      Strongest = L.Weight;
    }
  };

  for (const Influence &I : P.Influences) {
    EvidenceItem Item;
    Item.LogOdds = I.LogOdds;
    bool Present = true;
    if (const SymptomEvidence *E = M.evidence(I.Symptom)) {
      Item.Symptom = E->Symptom;
      Item.Detector = E->Detector;
      Item.Message = E->Message;
      Item.Outcome = E->Outcome;
      Item.Report = E->Report;
      Present = E->State == Presence::Present;
      if (!Present)
        if (const SymptomTerm *Term = Words.symptom(E->Symptom))
          Item.Message = (I.LogOdds > 0 ? "not there, as expected: "
                                        : "checked and not so: ") +
                         Term->Text;
      if (Present && E->Recoverable)
        takeRecoverable(Cause, I.Symptom, *E->Recoverable);
    } else if (const LogEvidence *L = M.quoted(Cause.Class)) {
      Item.Symptom = "log-text";
      Item.Detector = "kb/log-text";
      Item.Message = "'" + L->Fragment + "' in " + L->Path + ":" +
                     std::to_string(L->Line) +
                     (L->Count > 1
                          ? " and " + std::to_string(L->Count - 1) + " more"
                          : "");
    }
    // Less than a tenth of a nat moves nothing worth reading, unless it is a
    // typical symptom that another cause happens to explain as well. That a
    // symptom is absent is worth a line only where it says something.
    bool Shared = Present && I.Typical > 0.5 && I.LogOdds > -0.1;
    // Of the entries of a class the first is shown. What is missing and it does
    // not name is a sign of one of the others.
    if (!Present && llvm::none_of(H.Entries.front()->Signals,
                                  [&](const Signal &S) {
                                    return S.Symptom == Item.Symptom;
                                  }))
      continue;
    // What the cause would show is not support where it is missing, even if
    // that hurts its rivals more.
    if (!Present && I.LogOdds > 0 && I.Typical <= 0)
      continue;
    if (!Shared &&
        std::fabs(I.LogOdds) < (Present || I.LogOdds < 0 ? 0.1 : 0.5))
      continue;
    if (Shared)
      Item.LogOdds = std::max(I.LogOdds, 0.0);
    (I.LogOdds > 0 || Shared ? H.Supports : H.Against)
        .push_back(std::move(Item));
  }

  // Of several variants the one that is shown says what else it would show.
  auto ofBestEntry = [&](StringRef Symptom) {
    return llvm::any_of(H.Entries.front()->Signals, [&](const Signal &S) {
      return S.Symptom == Symptom && S.How <= Frequency::Often;
    });
  };
  for (const Link &L : Cause.Links) {
    const SymptomEvidence *E = M.evidence(L.Symptom);
    if (E && E->State == Presence::Unknown && ofBestEntry(E->Symptom))
      H.Open.push_back(unchecked(*E, Words));
  }

  for (const Link &L : Cause.Links) {
    const SymptomEvidence *E = L.Never ? M.evidence(L.Symptom) : nullptr;
    if (!E || E->State == Presence::Present)
      continue;
    Contradiction R;
    R.Symptom = E->Symptom;
    if (const SymptomTerm *Term = Words.symptom(E->Symptom))
      R.Text = Term->Text;
    R.Looked = E->State == Presence::Absent;
    if (!R.Looked)
      R.Needs = join(E->Missing, ", ");
    H.Refuters.push_back(std::move(R));
  }
  std::stable_partition(H.Refuters.begin(), H.Refuters.end(),
                         [](const Contradiction &R) { return R.Looked; });

  for (const Entry *E : H.Entries)
    if (!E->Confirm.Experiment.empty()) {
      H.Next = {H.Class, E->Confirm.Experiment, E->Confirm.Confirms,
                E->Confirm.Refutes, expectedGain(P.Probability)};
      break;
    }
  return H;
}

/// What stays open once \p Listed are named. \p NotShown are the causes that
/// only common sights speak for.
Unexplained unexplained(const Model &M, ArrayRef<Hypothesis> Listed,
                        ArrayRef<unsigned> NotShown,
                        ArrayRef<SymptomEvidence> Symptoms,
                        const Vocabulary &Words, const Weights &W) {
  Unexplained Out;
  auto explained = [&](StringRef Symptom) {
    return llvm::any_of(Listed, [&](const Hypothesis &H) {
      return llvm::any_of(H.Supports, [&](const EvidenceItem &E) {
        return E.Symptom == Symptom;
      });
    });
  };
  for (unsigned S = 0; S != Symptoms.size(); ++S)
    if (M.isPresent(S) && !Symptoms[S].Informational &&
        W.isGeneric(Symptoms[S].Symptom) && !explained(Symptoms[S].Symptom))
      Out.Symptoms.push_back(S);
  if (Out.Symptoms.empty())
    return Out;
  for (unsigned C : NotShown)
    for (const Link &L : M.N.Causes[C].Links) {
      const SymptomEvidence *E = M.evidence(L.Symptom);
      if (!E || L.Never || L.Weight < W.Always || E->Missing.empty() ||
          E->State != Presence::Unknown)
        continue;
      Unchecked U = unchecked(*E, Words);
      if (llvm::none_of(Out.Open, [&](const Unchecked &Known) {
            return Known.Needs == U.Needs;
          }))
        Out.Open.push_back(std::move(U));
    }
  return Out;
}

} // namespace

/// A layer may be clear where no cause is: eight causes of 15 % that are all
/// about memory say where to look.
static std::vector<LayerShare> layersOf(ArrayRef<Hypothesis> Hypotheses) {
  std::vector<LayerShare> Out;
  double Sum = 0;
  for (const Hypothesis &H : Hypotheses) {
    auto It = llvm::find_if(
        Out, [&](const LayerShare &L) { return L.Layer == H.Layer; });
    if (It == Out.end())
      It = Out.insert(Out.end(), LayerShare{H.Layer, 0});
    It->Share += H.Probability;
    Sum += H.Probability;
  }
  for (LayerShare &L : Out)
    L.Share /= Sum;
  llvm::stable_sort(Out, [](const LayerShare &A, const LayerShare &B) {
    return A.Share > B.Share;
  });
  return Out;
}

Diagnosis diagnose(ArrayRef<SymptomEvidence> Symptoms,
                   ArrayRef<LogEvidence> Logs, ArrayRef<Entry> Entries,
                   const Vocabulary &Words, const Weights &W) {
  Model M(Symptoms, Logs, Entries, W);
  Diagnosis D;
  std::vector<unsigned> NotShown; // likeliest first
  for (const CausePosterior &P : posterior(M.N, M.Seen)) {
    if (P.Probability < ListedFrom)
      continue;
    if (M.isShown(M.N.Causes[P.Cause]))
      D.Hypotheses.push_back(makeHypothesis(M, P, Symptoms, Words));
    else
      NotShown.push_back(P.Cause);
  }

  int64_t Most = 0;
  for (const Hypothesis &H : D.Hypotheses)
    Most = std::max(Most, H.Recoverable.value_or(0));
  auto weight = [&](const Hypothesis &H) {
    if (!H.Recoverable || Most == 0)
      return H.Probability;
    return H.Probability * static_cast<double>(*H.Recoverable) /
           static_cast<double>(Most);
  };
  llvm::stable_sort(D.Hypotheses,
                    [&](const Hypothesis &A, const Hypothesis &B) {
                      return weight(A) > weight(B);
                    });

  // The first cause's own experiment, unless another tells twice as much
  // about as much time: nobody runs a test of a side issue first, however
  // many bits it carries.
  double Told = 0;
  for (const Hypothesis &H : D.Hypotheses) {
    if (H.Next.Experiment.empty() ||
        (D.Next && (H.Probability < 0.2 || !(H.Next.Gain > 0))))
      continue;
    double Share = H.Recoverable && Most > 0
                       ? static_cast<double>(*H.Recoverable) /
                             static_cast<double>(Most)
                       : 1;
    if (D.Next && H.Next.Gain * Share <= 2 * Told)
      continue;
    D.Next = H.Next;
    Told = H.Next.Gain * Share;
  }

  bool AnyPresent = !Logs.empty(), AnyChecked = false;
  for (const SymptomEvidence &S : Symptoms) {
    AnyPresent |= S.State == Presence::Present && !S.Informational;
    AnyChecked |= S.State != Presence::Unknown;
  }
  // A setting such as fp16 makes causes possible, not likely.
  if (!AnyPresent)
    D.Hypotheses.clear(), D.Next.reset();
  D.Layers = layersOf(D.Hypotheses);
  D.Rest = unexplained(M, D.Hypotheses, NotShown, Symptoms, Words, W);
  double Best = 0;
  for (const Hypothesis &H : D.Hypotheses)
    Best = std::max(Best, H.Probability);
  if (Best >= ClaimedFrom)
    D.Result = Verdict::Diagnosed;
  else if (!D.Hypotheses.empty() || AnyPresent)
    D.Result = Verdict::Uncertain;
  else
    D.Result = AnyChecked ? Verdict::Healthy : Verdict::Insufficient;
  return D;
}

} // namespace culprit
