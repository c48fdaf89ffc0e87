//===- Hypotheses.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Hypotheses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

Unchecked unchecked(const SymptomEvidence &E, const Vocabulary &Words) {
  Unchecked U;
  U.Symptom = E.Symptom;
  if (const SymptomTerm *Term = Words.symptom(E.Symptom))
    U.Text = Term->Text;
  U.Needs = join(E.Missing, ", ");
  return U;
}

/// Whether the entry that is shown names \p Symptom.
static bool isNamed(const Hypothesis &H, StringRef Symptom) {
  return llvm::any_of(H.Entries.front()->Signals, [&](const Signal &S) {
    return S.Symptom == Symptom;
  });
}

Hypothesis makeHypothesis(const Model &M, const CausePosterior &P,
                          ArrayRef<SymptomEvidence> Symptoms,
                          const Vocabulary &Words) {
  const CauseNode &Cause = M.N.Causes[P.Cause];
  Hypothesis H;
  H.Class = Cause.Class;
  H.Probability = P.Probability;
  H.Prior = P.Prior;
  H.Rivals = P.Rivals;
  for (const Influence &I : P.Influences)
    H.Evidence += I.Typical;
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
    return M.fitOf(*A) > M.fitOf(*B);
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
    Item.Own = I.Typical;
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
          Item.Message = (I.Typical > 0 ? "not there, as expected: "
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
    // Of the entries of a class the first is shown. What is missing and it does
    // not name is a sign of one of the others.
    if (!Present && !isNamed(H, Item.Symptom))
      continue;
    // Less than a tenth of a nat moves nothing worth reading. That a symptom is
    // absent as it should be says something only where it is worth more.
    if (std::fabs(I.Typical) < (Present || I.Typical < 0 ? 0.1 : 0.5))
      continue;
    // A sight that others explain, and that is not typical either.
    if (I.Typical > 0 && I.Typical < 0.5 && I.LogOdds < 0.1)
      continue;
    (I.Typical > 0 ? H.Supports : H.Against).push_back(std::move(Item));
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

  return H;
}

Lead leadOf(const Model &M, const Hypothesis &First, const Hypothesis &Second,
            const CausePosterior &A, const CausePosterior &B) {
  Lead L;
  L.Over = M.N.Causes[B.Cause].Class;
  std::map<unsigned, double> BySymptom;
  for (const Influence &I : A.Influences)
    BySymptom[I.Symptom] += I.Typical;
  for (const Influence &I : B.Influences)
    BySymptom[I.Symptom] -= I.Typical;
  auto add = [&](StringRef What, double LogOdds, bool Told = true) {
    L.LogOdds += LogOdds;
    if (Told && std::fabs(LogOdds) >= 0.1)
      L.Terms.push_back({What.str(), LogOdds});
  };
  add("prior", A.Prior - B.Prior);
  double Quotes = 0; // of either cause, each of which is a node of its own
  for (auto [Symptom, LogOdds] : BySymptom) {
    if (!M.evidence(Symptom)) {
      Quotes += LogOdds;
      continue;
    }
    StringRef Id = M.N.Symptoms[Symptom].Id;
    bool OfVariant = !M.isPresent(Symptom) && !isNamed(First, Id) &&
                     llvm::any_of(A.Influences, [S = Symptom](const auto &I) {
                       return I.Symptom == S;
                     });
    add(Id, LogOdds, !OfVariant);
  }
  add("log-text", Quotes);
  add("rivals", A.Rivals - B.Rivals);
  add(RecordedRunsItem, First.Recorded - Second.Recorded);
  // Mostly what the network counts for where recorded runs have a say.
  if (First.Recorded != 0 || Second.Recorded != 0)
    add("calibration", First.Calibration - Second.Calibration);
  llvm::stable_sort(L.Terms, [](const Lead::Term &X, const Lead::Term &Y) {
    return std::fabs(X.LogOdds) > std::fabs(Y.LogOdds);
  });
  return L;
}

} // namespace culprit
