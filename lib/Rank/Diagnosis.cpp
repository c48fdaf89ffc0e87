//===- Diagnosis.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Diagnosis.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <algorithm>
#include <cmath>
#include <map>

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

/// The pseudo-symptom of a class whose log fragments were looked for.
std::string logNode(StringRef Class) { return ("log-text:" + Class).str(); }

/// The network of one diagnosis, and where its parts came from.
class Model {
public:
  Model(ArrayRef<SymptomEvidence> Symptoms, ArrayRef<LogEvidence> Logs,
        ArrayRef<Entry> Entries, const Weights &W)
      : Symptoms(Symptoms), Logs(Logs), W(W) {
    for (const Entry &E : Entries)
      if (!E.Class.empty())
        ByClass[E.Class].push_back(&E);
    for (const SymptomEvidence &S : Symptoms) {
      addSymptom(S.Symptom, W.leak(S.Symptom));
      Seen.push_back({S.State, S.Score});
    }
    for (const auto &[Class, Members] : ByClass)
      addCause(Class, Members);
  }

  Network N;
  std::vector<Observation> Seen;
  std::map<std::string, std::vector<const Entry *>> ByClass;

  /// Evidence behind the node \p Symptom; null for a log node.
  const SymptomEvidence *evidence(unsigned Symptom) const {
    return Symptom < Symptoms.size() ? &Symptoms[Symptom] : nullptr;
  }

  const LogEvidence *quoted(StringRef Class) const {
    auto It = llvm::find_if(
        Logs, [&](const LogEvidence &L) { return L.Quoted->Class == Class; });
    return It == Logs.end() ? nullptr : &*It;
  }

private:
  unsigned addSymptom(StringRef Id, double Leak) {
    auto [It, New] = Index.try_emplace(Id, N.Symptoms.size());
    if (New)
      N.Symptoms.push_back({Id.str(), Leak});
    return It->second;
  }

  double weight(Frequency F) const {
    switch (F) {
    case Frequency::Always:
      return W.Always;
    case Frequency::Often:
      return W.Often;
    case Frequency::Sometimes:
      return W.Sometimes;
    case Frequency::Never:
      return W.Never;
    }
    llvm_unreachable("unknown frequency");
  }

  /// Several entries of one class are its variants: a symptom counts as often
  /// as the variant that shows it most, and never only if no variant has it.
  void addCause(const std::string &Class, ArrayRef<const Entry *> Members) {
    std::map<unsigned, Frequency> Strongest;
    bool HasLog = false;
    for (const Entry *E : Members) {
      HasLog |= !E->LogFragments.empty();
      for (const Signal &S : E->Signals) {
        auto It = Index.find(S.Symptom);
        if (It == Index.end())
          continue; // no detector knows it
        auto [Slot, New] = Strongest.try_emplace(It->second, S.How);
        if (!New)
          Slot->second = std::min(Slot->second, S.How);
      }
    }
    CauseNode Cause{Class, W.prior(Class), {}};
    for (auto [Symptom, How] : Strongest)
      Cause.Links.push_back({Symptom, weight(How), How == Frequency::Never});
    if (HasLog && quoted(Class)) {
      // The line that quotes the entry is often the one that made a detector
      // report: the same evidence must not count twice.
      bool Beside = llvm::any_of(Cause.Links, [&](const Link &L) {
        return !L.Never && Seen[L.Symptom].State == Presence::Present &&
               StringRef(N.Symptoms[L.Symptom].Id).starts_with("log-");
      });
      unsigned Node = addSymptom(logNode(Class), Beside ? W.LogTextLeakBeside
                                                        : W.LogTextLeak);
      Seen.push_back({Presence::Present, 1.0});
      Cause.Links.push_back({Node, W.LogTextCause, false});
    }
    N.Causes.push_back(std::move(Cause));
  }

  ArrayRef<SymptomEvidence> Symptoms;
  ArrayRef<LogEvidence> Logs;
  const Weights &W;
  StringMap<unsigned> Index;
};

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
  llvm::stable_sort(H.Entries, [&](const Entry *A, const Entry *B) {
    return fitOf(*A, Symptoms) > fitOf(*B, Symptoms);
  });

  // A symptom that other causes show more often measures their time, not
  // this one's: only the strongest links of the cause count.
  double Strongest = 0;
  auto takeRecoverable = [&](const CauseNode &C, unsigned Symptom,
                             int64_t Time) {
    for (const Link &L : C.Links) {
      if (L.Symptom != Symptom || L.Never || L.Weight < Strongest)
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
          Item.Message = (I.LogOdds > 0 ? "absent, which fits: "
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
    if (!Shared &&
        std::fabs(I.LogOdds) < (Present || I.LogOdds < 0 ? 0.1 : 0.5))
      continue;
    if (Shared)
      Item.LogOdds = std::max(I.LogOdds, 0.0);
    (I.LogOdds > 0 || Shared ? H.Supports : H.Against)
        .push_back(std::move(Item));
  }

  for (const Link &L : Cause.Links) {
    const SymptomEvidence *E = M.evidence(L.Symptom);
    if (!E || E->State != Presence::Unknown || L.Never || L.Weight < 0.5)
      continue;
    Unchecked U;
    U.Symptom = E->Symptom;
    if (const SymptomTerm *Term = Words.symptom(E->Symptom))
      U.Text = Term->Text;
    U.Needs = join(E->Missing, ", ");
    H.Open.push_back(std::move(U));
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

} // namespace

Diagnosis diagnose(ArrayRef<SymptomEvidence> Symptoms,
                   ArrayRef<LogEvidence> Logs, ArrayRef<Entry> Entries,
                   const Vocabulary &Words, const Weights &W) {
  Model M(Symptoms, Logs, Entries, W);
  Diagnosis D;
  for (const CausePosterior &P : posterior(M.N, M.Seen))
    if (P.Probability >= ListedFrom)
      D.Hypotheses.push_back(makeHypothesis(M, P, Symptoms, Words));

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

  // An experiment about a cause that is nearly out of the running may carry
  // more bits than one about the first; nobody would run it first.
  for (const Hypothesis &H : D.Hypotheses)
    if (!H.Next.Experiment.empty() &&
        (&H == &D.Hypotheses.front() || H.Probability >= 0.2) &&
        (!D.Next || H.Next.Gain > 1.2 * D.Next->Gain))
      D.Next = H.Next;

  bool AnyPresent = !Logs.empty(), AnyChecked = false;
  for (const SymptomEvidence &S : Symptoms) {
    AnyPresent |= S.State == Presence::Present && !S.Informational;
    AnyChecked |= S.State != Presence::Unknown;
  }
  // A setting such as fp16 makes causes possible, not likely.
  if (!AnyPresent)
    D.Hypotheses.clear(), D.Next.reset();
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
