//===- GoodRuns.cpp - diagnose --good ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "GoodRuns.h"
#include "Case/RunShape.h"
#include "Compare/GoodRun.h"
#include "Evidence.h"
#include "Progress.h"
#include "Rank/FromOutcomes.h"
#include "Report/TextHypothesis.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace culprit {

/// The place of \p Path without links and dots; as given where there is none.
static std::string placeOf(StringRef Path) {
  SmallString<128> Real;
  if (sys::fs::real_path(Path, Real))
    return Path.rtrim('/').str();
  return Real.str().str();
}

static bool isWithin(StringRef Inner, StringRef Outer) {
  return Inner == Outer ||
         (Inner.starts_with(Outer) && Inner.drop_front(Outer.size())[0] == '/');
}

/// Why \p Path is no run beside \p Bad and \p Taken; empty if it is one.
static std::string overlapOf(StringRef Path, ArrayRef<std::string> Bad,
                             ArrayRef<GoodReport::Given> Taken) {
  const std::string Place = placeOf(Path);
  for (const std::string &B : Bad) {
    const std::string Other = placeOf(B);
    if (Place == Other)
      return "it is the run that is diagnosed";
    if (isWithin(Place, Other))
      return "it lies in " + B + ", which is diagnosed as a whole";
    if (isWithin(Other, Place))
      return "the run that is diagnosed lies in it";
  }
  for (const GoodReport::Given &G : Taken)
    if (Place == placeOf(G.Path))
      return "it is given twice";
  return "";
}

static bool hasRows(const Case &C) {
  return any_of(C.inputs(),
                [](const InputSummary &I) { return !I.Rows.empty(); });
}

static std::string messageOf(Error E) {
  std::vector<std::string> Out;
  for (const Diagnostic &D : toDiagnostics(std::move(E)))
    Out.push_back(D.Message);
  return join(Out, "; ");
}

GoodRuns::GoodRuns(ArrayRef<std::string> Given, ArrayRef<std::string> Bad,
                   unsigned Jobs)
    : Bad(Bad.vec()) {
  for (const std::string &Path : Given) {
    std::string Why = overlapOf(Path, Bad, Told.Runs);
    if (Why.empty()) {
      if (Expected<Case> C = readEvidence({Path}, Jobs)) {
        reportUnread(*C);
        if (hasRows(*C))
          Runs.push_back({Path, std::move(*C)});
        else
          Why = "nothing in it could be read";
      } else {
        const std::string Said = messageOf(C.takeError());
        StringRef Rest = Said;
        Why = (Rest.consume_front(Path) && Rest.consume_front(": ") ? Rest
                                                                    : Said)
                  .str();
      }
    }
    Told.Runs.push_back({Path, std::move(Why)});
  }
}

/// Runs the detectors on \p R, and keeps what its likeliest cause rests on.
void GoodRuns::look(const Run &R, const DetectorSet &Detectors,
                    const RunSettings &Settings, const KnowledgeBase &KB,
                    const Weights &W) {
  Progress Waiting("looking at the good run");
  Expected<std::vector<Outcome>> Outcomes =
      runDetectors(Detectors, R.Evidence, Settings);
  if (!Outcomes) {
    Told.Remarks.push_back(R.Path + ": " + messageOf(Outcomes.takeError()));
    return;
  }
  Abandoned |=
      any_of(*Outcomes, [](const Outcome &O) { return O.Abandoned; });
  GoodFindings F;
  F.Path = R.Path;
  F.Symptoms = collectSymptoms(*Outcomes);
  F.Quotes = quotedEntries(R.Evidence, KB.entries());
  F.Outcomes = std::move(*Outcomes);
  Diagnosis D = culprit::diagnose(F.Symptoms, F.Quotes, KB.entries(),
                                  KB.vocabulary(), W,
                                  Settings.Only.empty()
                                      ? runShape(R.Evidence)
                                      : ShapeFigures());
  if (D.Result == Verdict::Diagnosed)
    Doubts.push_back({R.Path, std::move(D.Hypotheses.front())});
  Findings.push_back(std::move(F));
}

/// Fills Told, and gives what the settings tell.
SettingFindings GoodRuns::compare(const Case &Evidence) {
  std::vector<ComparedRun> Good;
  for (const Run &R : Runs)
    Good.push_back({R.Path, &R.Evidence});
  const GoodComparison Compared =
      compareWithGood(Good, {Bad.front(), &Evidence});
  SettingFindings Out;
  Out.HasSettings = Compared.HasSettings;
  Out.HasPackages = Compared.HasPackages;
  Out.Things = Compared.Things;
  for (const SettingOfCause &S : Compared.Settings)
    Out.ByCause.push_back({S.Class, S.Changed, S.Says});
  for (const GoodChange &C : Compared.Changes) {
    Told.Changes.push_back({C.Kind, C.Name, C.Good, C.Bad, C.Says, C.Standing,
                            C.From, C.Stays});
    if (!C.MayMatter)
      continue;
    if (C.Kind == "setting")
      Out.Changed.push_back(C.Says);
    if (C.Kind == "package")
      Out.Packages.push_back(C.Says);
    if (C.Kind == "log" && C.Good.empty() && C.Standing == 1)
      Out.NewErrors.push_back(C.Says);
  }
  Told.Same = Compared.Same;
  append_range(Told.Remarks, Compared.Remarks);
  return Out;
}

void GoodRuns::weigh(const DetectorSet &Detectors, RunSettings With,
                     const KnowledgeBase &KB, const Case &Evidence,
                     ArrayRef<Outcome> Outcomes,
                     std::vector<SymptomEvidence> &Symptoms,
                     std::vector<LogEvidence> &Quotes, Weights &W) {
  if (Runs.empty())
    return;
  With.Bounds.Timed = false;
  for (const Run &R : Runs)
    look(R, Detectors, With, KB, W);
  Told.Symptoms = weighAgainst(Findings, Symptoms, Quotes, Outcomes);
  // Where what is left out made a cause of the good run likely, the two may
  // have that in common.
  for (const auto &[Path, Cause] : Doubts)
    if (any_of(Told.Symptoms, [&, &C = Cause](const SymptomBeside &B) {
          return B.How == SymptomBeside::Shared &&
                 any_of(C.Supports, [&](const EvidenceItem &I) {
                   return I.Symptom == B.Symptom;
                 });
        }))
      Told.Remarks.push_back(Path + " does not look good itself (" +
                             Cause.Class + " " +
                             percentText(Cause.Probability) +
                             "); what both show is left out all the same");
  Settings.emplace(compare(Evidence), KB.entries(), KB.vocabulary(), Symptoms,
                   W);
}

Diagnosis GoodRuns::diagnose(ArrayRef<SymptomEvidence> Symptoms,
                             ArrayRef<LogEvidence> Quotes,
                             const KnowledgeBase &KB, const Weights &W,
                             const ShapeFigures &Shape) const {
  if (!Settings)
    return culprit::diagnose(Symptoms, Quotes, KB.entries(), KB.vocabulary(),
                             W, Shape);
  // Curves that a run that worked has as well, and nothing else was changed in,
  // say nothing of what is wrong.
  const bool Alike = Told.Changes.empty() && any_of(Runs, [&](const Run &R) {
                       return runShape(R.Evidence) == Shape;
                     });
  return Settings->diagnose(Symptoms, Quotes, KB.entries(), KB.vocabulary(), W,
                            Alike ? ShapeFigures() : Shape);
}

void GoodRuns::tell(Diagnosis &D,
                    std::vector<SymptomEvidence> &Symptoms) const {
  if (Settings)
    Symptoms.resize(Symptoms.size() - Settings->added());
  tellBeside(D, Told.Symptoms);
  tellBeside(Symptoms, Told.Symptoms);
  // Symptoms were seen, though none that tells the two apart.
  if (D.Result == Verdict::Healthy &&
      any_of(Told.Symptoms, [](const SymptomBeside &B) {
        return B.How == SymptomBeside::Shared;
      }))
    D.Result = Verdict::Uncertain;
}

} // namespace culprit
