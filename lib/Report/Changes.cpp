//===- Changes.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Changes.h"
#include "KB/TextWrap.h"
#include "Report/TextHypothesis.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

/// Less is rounding, or the part of a cause that nothing new speaks of.
static constexpr double MovedFrom = 0.02;

static std::vector<Moved> movedCauses(const SavedReport &Before,
                                      const Diagnosis &Now) {
  std::map<std::string, Moved> ByClass;
  auto of = [&](StringRef Class) -> Moved & {
    Moved &M = ByClass[Class.str()];
    M.Class = Class.str();
    return M;
  };
  for (const Shift &S : Before.Ranked)
    of(S.Class).Before = S.Probability;
  for (const Hypothesis &H : Now.Hypotheses)
    of(H.Class).Now = H.Probability;
  std::vector<Moved> Out;
  for (auto &[Class, M] : ByClass)
    if (std::fabs(M.Now - M.Before) >= MovedFrom)
      Out.push_back(std::move(M));
  llvm::stable_sort(Out, [](const Moved &A, const Moved &B) {
    return std::fabs(A.Now - A.Before) > std::fabs(B.Now - B.Before);
  });
  return Out;
}

/// The listed cause for which \p Symptom weighs most.
static void addWeight(NewlyKnown &K, const Diagnosis &D) {
  for (const Hypothesis &H : D.Hypotheses)
    for (const auto *Items : {&H.Supports, &H.Against})
      for (const EvidenceItem &I : *Items)
        if (I.Symptom == K.Symptom && std::fabs(I.Own) > std::fabs(K.Own)) {
          K.Own = I.Own;
          K.For = H.Class;
        }
}

static std::vector<NewlyKnown> newEvidence(const SavedReport &Before,
                                           const RunReport &Now) {
  std::map<std::string, NewlyKnown> BySymptom;
  for (const SymptomEvidence &S : Before.Symptoms)
    BySymptom[S.Symptom].Before = S.State;
  for (const SymptomEvidence &S : Now.Symptoms)
    BySymptom[S.Symptom].Now = S.State;
  std::vector<NewlyKnown> Out;
  for (auto &[Symptom, K] : BySymptom) {
    if (K.Before == K.Now)
      continue;
    K.Symptom = Symptom;
    addWeight(K, Now.Result);
    Out.push_back(std::move(K));
  }
  auto rank = [](const NewlyKnown &K) {
    return std::pair(-std::fabs(K.Own), K.Now != Presence::Present);
  };
  llvm::stable_sort(Out, [&](const NewlyKnown &A, const NewlyKnown &B) {
    return rank(A) < rank(B);
  });
  return Out;
}

Changes changesSince(const SavedReport &Before, const RunReport &Now) {
  Changes C;
  for (const InputSummary &I : Now.Evidence.inputs())
    if (!is_contained(Before.Paths, I.Path))
      C.Files.push_back(I.Path);
  C.Ranking = movedCauses(Before, Now.Result);
  C.Evidence = newEvidence(Before, Now);
  if (!Before.Ranked.empty())
    C.FirstBefore = Before.Ranked.front().Class;
  if (!Now.Result.Hypotheses.empty())
    C.FirstNow = Now.Result.Hypotheses.front().Class;
  return C;
}

/// "a, b, c and 4 more".
static std::string some(ArrayRef<std::string> All, size_t Most) {
  std::string Out = join(All.take_front(Most), ", ");
  if (All.size() > Most)
    Out += " and " + std::to_string(All.size() - Most) + " more";
  return Out;
}

std::vector<std::string> changesText(const Changes &C, StringRef Name) {
  std::vector<std::string> Out;
  std::string Headline =
      C.FirstNow == C.FirstBefore
          ? (C.FirstNow.empty() ? "no cause is named, as before"
                                : "the first cause is still " + C.FirstNow)
      : C.FirstBefore.empty() ? "now named: " + C.FirstNow
      : C.FirstNow.empty()
          ? "nothing is named any more; it was " + C.FirstBefore
          : "the first cause is now " + C.FirstNow + ", it was " +
                C.FirstBefore;
  Out.push_back(Name.str() + ": " + Headline);
  if (!C.Files.empty())
    Out.push_back("read now and not then: " + some(C.Files, 4));
  std::vector<std::string> Texts;
  for (const Moved &M : C.Ranking)
    Texts.push_back(M.Class + " " +
                    (M.Before > 0 ? percentText(M.Before) : "not listed") +
                    " -> " + (M.Now > 0 ? percentText(M.Now) : "not listed"));
  if (!Texts.empty())
    Out.push_back(some(Texts, 5));
  for (Presence State :
       {Presence::Present, Presence::Absent, Presence::Unknown}) {
    Texts.clear();
    for (const NewlyKnown &K : C.Evidence) {
      if (K.Now != State)
        continue;
      std::string Text = K.Symptom;
      if (!K.For.empty())
        Text += " (" + natsText(K.Own) + " for " + K.For + ")";
      Texts.push_back(std::move(Text));
    }
    if (!Texts.empty())
      Out.push_back((State == Presence::Present  ? "newly seen: "
                     : State == Presence::Absent ? "newly ruled out: "
                                                 : "no longer checked: ") +
                    some(Texts, State == Presence::Present ? 8 : 4));
  }
  return Out;
}

void printChanges(raw_ostream &OS, const Changes &C, StringRef Name,
                  const TextStyle &Style) {
  const std::string Indent(13, ' ');
  std::string First = "since        ";
  for (const std::string &Text : changesText(C, Name)) {
    printWrapped(OS, Text, First, Indent, Style.Width);
    First = Indent;
  }
  OS << '\n';
}

json::Value changesJson(const Changes &C, StringRef Name) {
  json::Array Files, Ranking, Evidence;
  for (const std::string &File : C.Files)
    Files.push_back(json::fixUTF8(File));
  auto rounded = [](double V) { return std::round(V * 1e6) / 1e6; };
  for (const Moved &M : C.Ranking)
    Ranking.push_back(json::Object{{"class", M.Class},
                                   {"before", rounded(M.Before)},
                                   {"now", rounded(M.Now)}});
  for (const NewlyKnown &K : C.Evidence)
    Evidence.push_back(json::Object{
        {"id", K.Symptom},
        {"before", toString(K.Before)},
        {"now", toString(K.Now)},
        {"class", K.For.empty() ? json::Value(nullptr) : json::Value(K.For)},
        {"own", rounded(K.Own)}});
  return json::Object{
      {"report", json::fixUTF8(Name)},
      {"first_before", C.FirstBefore},
      {"first_now", C.FirstNow},
      {"files", std::move(Files)},
      {"ranking", std::move(Ranking)},
      {"evidence", std::move(Evidence)}};
}

} // namespace culprit
