//===- Selection.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Selection.h"
#include "KB/Entry.h"
#include "Report/TextHypothesis.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// Whether everything that was seen for \p Of was seen for \p Shown as well.
static bool isRival(const Hypothesis &Of, const Hypothesis &Shown) {
  return llvm::all_of(Of.Supports, [&](const EvidenceItem &E) {
    if (E.Outcome < 0 && E.Symptom != "log-text")
      return true; // absent, as expected
    return llvm::any_of(Shown.Supports, [&](const EvidenceItem &Known) {
      return Known.Outcome >= 0 && Known.Symptom == E.Symptom;
    });
  });
}

Selection selectHypotheses(const Diagnosis &D, unsigned Top) {
  Selection Out;
  for (const Hypothesis &H : D.Hypotheses) {
    bool Likely =
        Top > 0 && (H.Probability >= ClaimedFrom || !H.Seen.empty());
    auto Shown = llvm::find_if(Out.Full, [&](const ShownHypothesis &S) {
      return isRival(H, *S.What);
    });
    if (!Likely && Shown != Out.Full.end())
      Shown->Rivals.push_back(&H);
    else if (Likely || Out.Full.size() < Top)
      Out.Full.push_back({&H, {}});
    else
      Out.Others.push_back(&H);
  }
  return Out;
}

std::string nameHypotheses(ArrayRef<const Hypothesis *> All) {
  std::vector<std::string> Names;
  for (const Hypothesis *H : All)
    Names.push_back(H->Class + " " + percentText(H->Probability));
  return join(Names, ", ");
}

std::vector<const Hypothesis *> tellLeads(const Diagnosis &D) {
  std::vector<const Hypothesis *> Told;
  for (const Hypothesis &H : D.Leads)
    if (H.Probability >= ListedFrom)
      Told.push_back(&H);
  // A run that shows nothing is not doubted for little.
  if (D.Result == Verdict::Healthy && !Told.empty() &&
      Told.front()->Probability < SuspectedFrom)
    Told.clear();
  return Told;
}

StringRef recordedText(const Hypothesis &H) {
  for (const auto *Items : {&H.Supports, &H.Against})
    for (const EvidenceItem &E : *Items)
      if (E.Symptom == RecordedRunsItem)
        return E.Message;
  return "";
}

/// The first few leads, however unlikely, where no cause is claimed.
static std::vector<const Hypothesis *> fewLeads(const Diagnosis &D) {
  std::vector<const Hypothesis *> Few;
  for (const Hypothesis &H : D.Hypotheses)
    if (H.Probability >= ClaimedFrom)
      return Few;
  for (const Hypothesis &H : D.Leads)
    if (Few.size() + D.Hypotheses.size() < FewLeads)
      Few.push_back(&H);
  return Few;
}

std::vector<std::string> describeLeads(const Diagnosis &D) {
  std::vector<std::string> Out;
  std::vector<const Hypothesis *> Told = tellLeads(D);
  std::string Text = "no symptom of its own shows it; by recorded runs with "
                     "such curves and sights the likeliest: ";
  if (std::vector<const Hypothesis *> Few = fewLeads(D);
      Told.size() < Few.size()) {
    if (D.Result == Verdict::Healthy)
      Text = "should something be wrong all the same, recorded runs with such "
             "curves and sights speak first for: ";
    Told = std::move(Few);
  }
  if (Told.empty())
    return Out;
  const Hypothesis &First = *Told.front();
  Text += nameHypotheses(Told);
  // Of what is hardly likely the names are enough.
  const bool Likely = First.Probability >= ListedFrom &&
                      (D.Result != Verdict::Healthy ||
                       First.Probability >= SuspectedFrom);
  if (StringRef Why = recordedText(First); Likely && !Why.empty())
    Text += ". Of " + First.Class + ": " + Why.str();
  Out.push_back(std::move(Text));
  if (Likely && !First.Entries.empty() &&
      !First.Entries.front()->Confirm.Experiment.empty())
    Out.push_back(
        "to tell: " +
        firstSentences(First.Entries.front()->Confirm.Experiment, 2));
  return Out;
}

std::vector<std::string>
describeUnexplained(const Diagnosis &D, ArrayRef<SymptomEvidence> Symptoms) {
  std::vector<std::string> Out;
  if (D.Rest.Symptoms.empty())
    return Out;
  std::vector<std::string> Ids;
  for (unsigned S : D.Rest.Symptoms)
    Ids.push_back(Symptoms[S].Symptom);
  Out.push_back(join(Ids, ", ") + ": " +
                Symptoms[D.Rest.Symptoms.front()].Message +
                "; nothing more specific shows why");
  // Those of the likeliest causes come first.
  constexpr size_t MostTold = 3;
  for (const Unchecked &U : ArrayRef(D.Rest.Open).take_front(MostTold))
    Out.push_back("could tell: " + U.Symptom + " (needs " + U.Needs + ")");
  return Out;
}

} // namespace culprit
