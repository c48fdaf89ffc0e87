//===- Diagnosis.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Diagnosis.h"
#include "Rank/Hypotheses.h"
#include "Rank/Likeness.h"
#include "Rank/NextChecks.h"
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
/// \p Suspected are layers and probabilities of causes: of those that are
/// listed or, where none is, of those that only common sights speak for.
static std::vector<LayerShare>
layersOf(ArrayRef<std::pair<std::string, double>> Suspected, const Model &M,
         const Beliefs &B, const Vocabulary &Words, const Weights &W,
         const Likeness &Runs) {
  // Thousands of sets ask for the layers of a few causes.
  std::vector<StringRef> LayerOf(M.N.Causes.size());
  for (unsigned C : B.Candidates)
    if (static_cast<int>(C) != M.N.Unknown)
      LayerOf[C] = layerOf(M.N.Causes[C].Class, Words);
  std::map<std::string, LayerShare> ByLayer;
  double Sum = 0;
  for (const auto &[Layer, Probability] : Suspected) {
    LayerShare &L =
        ByLayer.try_emplace(Layer, LayerShare{Layer}).first->second;
    L.Share += Probability;
    Sum += Probability;
  }
  for (auto &[Layer, L] : ByLayer) {
    L.Share /= Sum;
    if (Runs.counts()) {
      // What recorded runs make of each cause, taken as independent.
      double None = 1;
      for (const auto &[Of, Probability] : Suspected)
        None *= Of == Layer ? 1 - Probability : 1;
      L.Probability = 1 - None;
      continue;
    }
    std::vector<bool> Has(LayerOf.size());
    for (unsigned C : B.Candidates)
      Has[C] = LayerOf[C] == Layer;
    L.Probability =
        W.calibrated(B.anyOf([&](unsigned Cause) { return Has[Cause]; }));
  }
  std::vector<LayerShare> Out;
  for (auto &[Layer, L] : ByLayer)
    Out.push_back(std::move(L));
  llvm::stable_sort(Out, [](const LayerShare &A, const LayerShare &B) {
    return A.Probability > B.Probability;
  });
  return Out;
}

/// In nats; finite for what is as good as certain.
static double logOdds(double P) {
  return logOddsOf(std::clamp(P, 1e-12, 1 - 1e-12));
}

/// The hypothesis of \p P at the probability \p Final, with what the recorded
/// runs say of it.
static Hypothesis hypothesisOf(const CausePosterior &P, double Final,
                               const Model &M, const Likeness &Runs,
                               ArrayRef<SymptomEvidence> Symptoms,
                               const Vocabulary &Words) {
  Hypothesis H = makeHypothesis(M, P, Symptoms, Words);
  H.Probability = Final;
  H.Recorded = Runs.added(P.Cause, P.Probability);
  H.Calibration = logOdds(Final) - logOdds(P.Probability) - H.Recorded;
  H.OnlyRecorded = !M.isShown(M.N.Causes[P.Cause]);
  if (H.Recorded != 0)
    (H.Recorded > 0 ? H.Supports : H.Against)
        .push_back(Runs.item(P.Cause, P.Probability));
  return H;
}

/// Causes for which nothing but recorded runs like this one speaks, best first;
/// the network's beliefs of those that some symptom speaks for are in \p B.
static std::vector<Hypothesis>
recordedAlone(const Model &M, const Beliefs &B, const Likeness &Runs,
              ArrayRef<SymptomEvidence> Symptoms, const Vocabulary &Words,
              std::vector<CausePosterior> &Alone) {
  const auto knownOf = [&](unsigned Cause) {
    return llvm::find_if(
        B.Causes, [&](const CausePosterior &P) { return P.Cause == Cause; });
  };
  std::vector<std::pair<double, unsigned>> Likely;
  for (unsigned C : Runs.causes()) {
    auto Known = knownOf(C);
    if (Known != B.Causes.end() && M.isShown(M.N.Causes[C]))
      continue;
    // What no symptom speaks for is to the network as unlikely as can be.
    const double Final = Runs.probability(
        C, Known != B.Causes.end() ? Known->Probability : 0);
    if (Final >= LeadFrom || !Runs.isRefuted(C))
      Likely.push_back({Final, C});
  }
  llvm::stable_sort(Likely, [](const auto &X, const auto &Y) {
    return X.first > Y.first;
  });
  // Of what is unlikely the first few say where to look if nothing else does.
  const size_t Led = llvm::count_if(
      Likely, [](const auto &X) { return X.first >= LedFrom; });
  while (Likely.size() > FewLeads &&
         (Likely.back().first < LeadFrom || Likely.size() > Led + MostLeads))
    Likely.pop_back();
  std::vector<Hypothesis> Out;
  for (const auto &[Final, C] : Likely) {
    auto Known = knownOf(C);
    CausePosterior P =
        Known != B.Causes.end() ? *Known : alone(M.N, M.Seen, C);
    Out.push_back(hypothesisOf(P, Final, M, Runs, Symptoms, Words));
    Alone.push_back(std::move(P));
  }
  return Out;
}

Diagnosis diagnose(ArrayRef<SymptomEvidence> Symptoms,
                   ArrayRef<LogEvidence> Logs, ArrayRef<Entry> Entries,
                   const Vocabulary &Words, const Weights &W,
                   const ShapeFigures &Shape) {
  Model M(Symptoms, Logs, Entries, W);
  Likeness Runs(M, Symptoms, Shape, W);
  Diagnosis D;
  std::vector<std::pair<const CausePosterior *, double>> Shown;
  std::vector<unsigned> NotShown; // likeliest first
  std::vector<std::pair<std::string, double>> Suspected, Unlisted;
  Beliefs B = posterior(M.N, M.Seen);
  Runs.settle(B);
  for (const CausePosterior &P : B.Causes) {
    double Final = Runs.probability(P.Cause, P.Probability);
    if (static_cast<int>(P.Cause) == M.N.Unknown) {
      D.Unknown = Final;
      continue;
    }
    if (Final < CountedFrom)
      continue;
    if (M.isShown(M.N.Causes[P.Cause])) {
      Shown.push_back({&P, Final});
    } else {
      NotShown.push_back(P.Cause);
      Unlisted.push_back(
          {layerOf(M.N.Causes[P.Cause].Class, Words).str(), Final});
    }
  }
  D.Sound = Runs.sound();
  // The network knows of it what it cannot explain, recorded runs how it looks.
  D.Unknown = std::max(D.Unknown, Runs.unknown());
  std::vector<CausePosterior> Alone;
  std::vector<Hypothesis> Led;
  for (Hypothesis &H : recordedAlone(M, B, Runs, Symptoms, Words, Alone))
    (H.Probability >= LedFrom ? Led : D.Leads).push_back(std::move(H));
  double Likeliest = 0;
  for (const auto &[P, Final] : Shown)
    Likeliest = std::max(Likeliest, Final);
  for (const Hypothesis &H : Led)
    Likeliest = std::max(Likeliest, H.Probability);
  // Beside what is claimed, what is as good as excluded says nothing.
  if (Likeliest >= ClaimedFrom)
    llvm::erase_if(D.Leads, [](const Hypothesis &H) {
      return H.Probability < LeadFrom;
    });
  // What is unlikely is no news beside what is not; beside what is hardly
  // likelier it is.
  const double Least =
      Likeliest >= ListedFrom ? std::min(ListedFrom, Likeliest / 2) : 0;
  for (const auto &[P, Final] : Shown)
    if (Final >= Least)
      D.Hypotheses.push_back(
          hypothesisOf(*P, Final, M, Runs, Symptoms, Words));
  llvm::move(Led, std::back_inserter(D.Hypotheses));

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

  D.Next = findChecks(D.Hypotheses, NotShown, M, B, Words, W, Runs,
                      [&](const Hypothesis &H) {
                        return H.Recoverable && Most > 0
                                   ? static_cast<double>(*H.Recoverable) /
                                         static_cast<double>(Most)
                                   : 1;
                      });
  if (D.Hypotheses.size() > 1) {
    auto find = [&](StringRef Class) -> const CausePosterior & {
      auto isOf = [&](const CausePosterior &P) {
        return M.N.Causes[P.Cause].Class == Class;
      };
      auto It = llvm::find_if(Alone, isOf);
      return It != Alone.end() ? *It : *llvm::find_if(B.Causes, isOf);
    };
    D.First = leadOf(M, D.Hypotheses[0], D.Hypotheses[1],
                     find(D.Hypotheses[0].Class),
                     find(D.Hypotheses[1].Class));
  }

  bool AnyPresent = !Logs.empty(), AnyChecked = false;
  for (const SymptomEvidence &S : Symptoms) {
    AnyPresent |= S.State == Presence::Present && !S.Informational;
    AnyChecked |= S.State != Presence::Unknown;
  }
  // A setting such as fp16 makes causes possible, not likely.
  if (!AnyPresent) {
    llvm::erase_if(D.Hypotheses,
                   [](const Hypothesis &H) { return !H.OnlyRecorded; });
    D.First.reset();
    if (D.Hypotheses.empty())
      D.Next.reset();
  }
  for (const Hypothesis &H : D.Hypotheses)
    Suspected.push_back({H.Layer, H.Probability});
  for (const Hypothesis &H : D.Leads)
    if (H.Probability >= ListedFrom)
      Suspected.push_back({H.Layer, H.Probability});
  if (Suspected.empty() && AnyPresent)
    Suspected = std::move(Unlisted);
  D.Layers = layersOf(Suspected, M, B, Words, W, Runs);
  D.Rest = unexplained(M, D.Hypotheses, NotShown, Symptoms, Words, W);
  double Best = 0;
  for (const Hypothesis &H : D.Hypotheses)
    Best = std::max(Best, H.Probability);
  if (Best >= ClaimedFrom)
    D.Result = Verdict::Diagnosed;
  else if (!D.Hypotheses.empty() || AnyPresent || D.Unknown >= ClaimedFrom)
    D.Result = Verdict::Uncertain;
  else
    D.Result = AnyChecked ? Verdict::Healthy : Verdict::Insufficient;
  return D;
}

} // namespace culprit
