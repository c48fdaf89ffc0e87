//===- Model.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/Model.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

using namespace llvm;

namespace culprit {

/// The unknown cause shows no symptom more often than this.
static constexpr double MostShown = 0.5;

StringRef layerOf(StringRef Class, const Vocabulary &Words) {
  const ClassTerm *Term = Words.rootCause(Class);
  return Term ? StringRef(Term->Layer) : "project";
}

/// The pseudo-symptom of a class whose log fragments were looked for.
static std::string logNode(StringRef Class) {
  return ("log-text:" + Class).str();
}

Model::Model(ArrayRef<SymptomEvidence> Symptoms, ArrayRef<LogEvidence> Logs,
             ArrayRef<Entry> Entries, const Weights &W)
    : Symptoms(Symptoms), Logs(Logs), W(W) {
  for (const Entry &E : Entries)
    if (!E.Class.empty())
      ByClass[E.Class].push_back(&E);
  for (const SymptomEvidence &S : Symptoms) {
    addSymptom(S.Symptom, W.leak(S.Symptom));
    Seen.push_back({S.State, S.Score});
  }
  N.CertainRatio = W.CertainRatio;
  N.NeverLeaves = W.NeverLeaves;
  N.Together = W.Together;
  for (const auto &[Class, Members] : ByClass)
    addCause(Class, Members);
  addUnknown();
}

bool Model::isShown(const CauseNode &Cause) const {
  if (llvm::any_of(Cause.Links, [&](const Link &L) {
        return !L.Never && isPresent(L.Symptom) &&
               !W.isGeneric(N.Symptoms[L.Symptom].Id);
      }))
    return true;
  return llvm::any_of(ByClass.at(Cause.Class), [&](const Entry *E) {
    bool Any = false;
    for (const Signal &S : E->Signals) {
      auto It = Index.find(S.Symptom);
      if (S.How > Frequency::Always || isPossession(S.Symptom))
        continue;
      // What nobody looked for is not on show.
      if (It == Index.end() || !isPresent(It->second))
        return false;
      Any = true;
    }
    return Any;
  });
}

const LogEvidence *Model::quoted(StringRef Class) const {
  auto It = llvm::find_if(
      Logs, [&](const LogEvidence &L) { return L.Quoted->Class == Class; });
  return It == Logs.end() ? nullptr : &*It;
}

unsigned Model::addSymptom(StringRef Id, double Leak) {
  auto [It, New] = Index.try_emplace(Id, N.Symptoms.size());
  if (New)
    N.Symptoms.push_back({Id.str(), Leak});
  return It->second;
}

double Model::weight(StringRef Class, unsigned Symptom, Frequency F) const {
  if (F != Frequency::Required && F != Frequency::Never)
    if (std::optional<double> P = W.fitted(Class, N.Symptoms[Symptom].Id))
      return *P;
  return weight(F);
}

double Model::weight(Frequency F) const {
  switch (F) {
  case Frequency::Required:
    return 1;
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

double Model::mildly(double Weight, unsigned Symptom) const {
  return Seen[Symptom].State == Presence::Absent
             ? 1 - std::pow(1 - Weight, W.AbsentPower)
             : Weight;
}

double Model::fitOf(const Entry &E) const {
  double Fit = 0;
  for (const Signal &S : E.Signals) {
    std::optional<unsigned> Node = symptom(S.Symptom);
    if (!Node)
      continue; // no detector knows it
    double Weight = weight(S.How);
    if (S.How != Frequency::Required)
      Weight = mildly(Weight, *Node);
    Fit += worthOf(N, {*Node, Weight, S.How == Frequency::Never}, Seen);
  }
  if (const LogEvidence *L = quoted(E.Class); L && L->Quoted == &E)
    Fit += std::log(W.LogTextCause / W.LogTextLeak);
  return Fit;
}

void Model::addCause(const std::string &Class,
                     ArrayRef<const Entry *> Members) {
  struct Named {
    unsigned Node;
    Frequency Most;
    size_t Requiring = 0;
  };
  SmallVector<Named, 32> ByNode; // few: looked through
  bool HasLog = false;
  size_t Variants = 0; // a team's own entry names no signals
  for (const Entry *E : Members) {
    HasLog |= !E->LogFragments.empty();
    Variants += !E->Signals.empty();
    for (const Signal &S : E->Signals) {
      auto It = Index.find(S.Symptom);
      if (It == Index.end())
        continue; // no detector knows it
      Named *Slot = llvm::find_if(
          ByNode, [&](const Named &X) { return X.Node == It->second; });
      if (Slot == ByNode.end()) {
        ByNode.push_back({It->second, S.How});
        Slot = &ByNode.back();
      }
      Slot->Most = std::min(Slot->Most, S.How);
      Slot->Requiring += S.How == Frequency::Required;
    }
  }
  llvm::sort(ByNode, [](const Named &X, const Named &Y) {
    return X.Node < Y.Node;
  });
  CauseNode Cause{Class, W.prior(Class), {}};
  Cause.Links.reserve(ByNode.size());
  for (Named &Of : ByNode) {
    const unsigned Symptom = Of.Node;
    bool Required = Of.Requiring == Variants;
    if (Of.Requiring && !Required)
      Of.Most = Frequency::Always;
    double Weight = weight(Class, Symptom, Of.Most);
    if (!Required)
      Weight = mildly(Weight, Symptom);
    Cause.Links.push_back(
        {Symptom, Weight, Of.Most == Frequency::Never, Required});
  }
  for (size_t G = 0; G != W.Exclusive.size(); ++G)
    if (is_contained(W.Exclusive[G], Class))
      Cause.Exclusive |= uint64_t(1) << G;
  if (HasLog && quoted(Class)) {
    // The line that quotes the entry is often the one that made a detector
    // report: the same evidence must not count twice. What is seen with any
    // error is no such report.
    bool Beside = llvm::any_of(Cause.Links, [&](const Link &L) {
      StringRef Id = N.Symptoms[L.Symptom].Id;
      return !L.Never && isPresent(L.Symptom) && Id.starts_with("log-") &&
             !W.isGeneric(Id);
    });
    unsigned Node = addSymptom(logNode(Class), Beside ? W.LogTextLeakBeside
                                                      : W.LogTextLeak);
    Seen.push_back({Presence::Present, 1.0});
    Cause.Links.push_back({Node, W.LogTextCause, false});
  }
  N.Causes.push_back(std::move(Cause));
}

void Model::addUnknown() {
  if (W.UnknownPrior <= 0)
    return;
  CauseNode Cause{UnknownClass.str(), W.UnknownPrior, {}};
  for (unsigned S = 0; S != Symptoms.size(); ++S) {
    if (!isPresent(S) || Symptoms[S].Informational)
      continue;
    double Times = W.isGeneric(N.Symptoms[S].Id) ? W.UnknownShowsGeneric
                                                 : W.UnknownShows;
    Cause.Links.push_back(
        {S, std::min(Times * N.Symptoms[S].Leak, MostShown), false});
  }
  N.Unknown = static_cast<int>(N.Causes.size());
  N.Causes.push_back(std::move(Cause));
}

} // namespace culprit
