//===- GoodRun.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Rank/GoodRun.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <map>

using namespace llvm;

namespace culprit {

static constexpr StringLiteral SettingChanged = "setting-changed";
static constexpr StringLiteral AnotherGood =
    "another good run: this one shows it as well";

/// The share that the report behind \p E tells.
static std::optional<double> shareOf(const SymptomEvidence &E,
                                     ArrayRef<Outcome> Outcomes) {
  if (E.Outcome < 0 || E.Report < 0)
    return std::nullopt;
  return Outcomes[E.Outcome].Reports[E.Report].Share;
}

/// Whether the bad run shows \p Bad clearly more than the good one does.
static bool isStronger(const SymptomEvidence &Bad, ArrayRef<Outcome> OfBad,
                       const SymptomEvidence &Good, ArrayRef<Outcome> OfGood) {
  if (Good.Informational || Bad.Score > Good.Score + ScoreMargin)
    return true;
  const std::optional<double> Here = shareOf(Bad, OfBad),
                              There = shareOf(Good, OfGood);
  return Here && There && *Here >= ClearlyMore * *There;
}

static const SymptomEvidence *find(ArrayRef<SymptomEvidence> All,
                                   StringRef Symptom) {
  auto It = llvm::find_if(
      All, [&](const SymptomEvidence &E) { return E.Symptom == Symptom; });
  return It == All.end() ? nullptr : &*It;
}

/// What \p Good say of \p E, a symptom that the bad run shows; none where some
/// of them could not look for it and no other shows it.
static std::optional<SymptomBeside> beside(const SymptomEvidence &E,
                                           ArrayRef<Outcome> OfBad,
                                           ArrayRef<GoodFindings> Good) {
  SymptomBeside Out;
  Out.Symptom = E.Symptom;
  Out.Score = E.Score;
  bool Looked = true;
  for (const GoodFindings &G : Good) {
    const SymptomEvidence *There = find(G.Symptoms, E.Symptom);
    if (!There || There->State != Presence::Present) {
      Looked &= There && There->State == Presence::Absent;
      continue;
    }
    const bool More = isStronger(E, OfBad, *There, G.Outcomes);
    // One good run that lives with it is enough.
    if (Out.How == SymptomBeside::Shared ||
        (More && There->Score < Out.GoodScore))
      continue;
    Out.How = More ? SymptomBeside::Stronger : SymptomBeside::Shared;
    Out.GoodScore = There->Score;
    Out.Path = G.Path;
    Out.Message = There->Message;
  }
  if (Out.How == SymptomBeside::Own && !Looked)
    return std::nullopt;
  return Out;
}

/// The same of a log line that quotes an entry. One good run without a log
/// makes nothing known.
static std::optional<SymptomBeside> beside(const LogEvidence &L,
                                           ArrayRef<GoodFindings> Good) {
  for (const GoodFindings &G : Good)
    for (const LogEvidence &There : G.Quotes) {
      if (There.Quoted != L.Quoted ||
          L.Count >= ClearlyMore * static_cast<double>(There.Count))
        continue;
      SymptomBeside Out;
      Out.Symptom = "log-text";
      Out.How = SymptomBeside::Shared;
      Out.Score = Out.GoodScore = 1;
      Out.Path = G.Path;
      Out.Message = "'" + There.Fragment + "' in " + There.Path + ":" +
                    std::to_string(There.Line);
      return Out;
    }
  return std::nullopt;
}

std::vector<SymptomBeside>
weighAgainst(ArrayRef<GoodFindings> Good,
             std::vector<SymptomEvidence> &Symptoms,
             std::vector<LogEvidence> &Quotes, ArrayRef<Outcome> Outcomes) {
  std::vector<SymptomBeside> Out;
  for (SymptomEvidence &E : Symptoms) {
    if (E.State != Presence::Present || E.Informational)
      continue;
    std::optional<SymptomBeside> B = beside(E, Outcomes, Good);
    if (!B)
      continue;
    if (B->How == SymptomBeside::Shared) {
      SymptomEvidence Left;
      Left.Symptom = E.Symptom;
      Left.Detector = E.Detector;
      E = std::move(Left);
    }
    Out.push_back(std::move(*B));
  }
  erase_if(Quotes, [&](const LogEvidence &L) {
    std::optional<SymptomBeside> B = beside(L, Good);
    if (B)
      Out.push_back(std::move(*B));
    return B.has_value();
  });
  return Out;
}

/// Sets the symptom \p Id if nothing is known of it.
static void setUnknown(std::vector<SymptomEvidence> &Symptoms,
                       SymptomEvidence Found) {
  auto It = llvm::find_if(Symptoms, [&](const SymptomEvidence &E) {
    return E.Symptom == Found.Symptom;
  });
  if (It != Symptoms.end() && It->State == Presence::Unknown)
    *It = std::move(Found);
}

static SymptomEvidence evidence(StringRef Symptom, bool Present, double Score,
                                std::string Message) {
  SymptomEvidence E;
  E.Symptom = Symptom.str();
  E.State = Present ? Presence::Present : Presence::Absent;
  E.Score = Present ? Score : 0;
  E.Detector = "compare/good-run";
  E.Message = std::move(Message);
  return E;
}

/// By class what its settings tell; changed ones before others. That a setting
/// behind a symptom is the same says little of the causes of the symptom.
static std::map<std::string, const CauseSetting *>
settingsByClass(ArrayRef<CauseSetting> All, ArrayRef<Entry> Entries,
                const Vocabulary &Words, const Weights &W) {
  std::map<std::string, const CauseSetting *> Out;
  auto add = [&](const std::string &Class, const CauseSetting &S) {
    const CauseSetting *&Slot = Out[Class];
    if (!Slot || (S.Changed && !Slot->Changed))
      Slot = &S;
  };
  for (const CauseSetting &S : All) {
    if (Words.rootCause(S.Class)) {
      add(S.Class, S);
      continue;
    }
    if (!S.Changed || W.isGeneric(S.Class))
      continue;
    for (const Entry &E : Entries)
      if (Words.rootCause(E.Class) &&
          any_of(E.Signals, [&](const Signal &Shown) {
            return Shown.Symptom == S.Class && Shown.How <= Frequency::Always;
          }))
        add(E.Class, S);
  }
  return Out;
}

SettingEvidence::SettingEvidence(const SettingFindings &Found,
                                 ArrayRef<Entry> Entries,
                                 const Vocabulary &Words,
                                 std::vector<SymptomEvidence> &Symptoms,
                                 Weights &W) {
  auto add = [&](SymptomEvidence E, bool Wrong) {
    // What was changed is no sign that anything is wrong, which a cause that
    // nobody knows could explain.
    E.Informational = !Wrong;
    if (!Wrong)
      W.Generic.push_back(E.Symptom);
    setUnknown(Symptoms, std::move(E));
  };
  // That several were changed says what cannot be told, not what is wrong.
  if (Found.HasSettings)
    add(evidence("one-setting-changed", Found.Things == 1, 0.8,
                 join(Found.Changed, ", ") +
                     " is all that was changed from the good run"),
        false);
  if (Found.HasPackages)
    add(evidence("packages-changed", !Found.Packages.empty(), 0.85,
                 "other versions than in the good run: " +
                     join(Found.Packages, ", ")),
        false);

  if (!Found.NewErrors.empty())
    add(evidence("log-line-new", true, 0.7, join(Found.NewErrors, ", ")),
        true);

  // Of many things that were changed some are about any given cause.
  const double Leak =
      1 - std::pow(1 - W.leak(SettingChanged),
                   static_cast<double>(std::max<size_t>(Found.Things, 1)));
  for (const auto &[Class, S] :
       settingsByClass(Found.ByCause, Entries, Words, W)) {
    Added.insert(Class);
    std::string Id = (SettingChanged + ":" + Class).str();
    SymptomEvidence E = evidence(Id, S->Changed, 1, S->Says);
    // A setting alone is no sign that anything is wrong.
    E.Informational = true;
    Symptoms.push_back(std::move(E));
    W.Leaks[Id] = Leak;
    W.Generic.push_back(std::move(Id));
  }
}

Diagnosis SettingEvidence::diagnose(ArrayRef<SymptomEvidence> Symptoms,
                                    ArrayRef<LogEvidence> Logs,
                                    ArrayRef<Entry> Entries,
                                    const Vocabulary &Words,
                                    const Weights &W,
                                    const ShapeFigures &Shape) const {
  if (Added.empty())
    return culprit::diagnose(Symptoms, Logs, Entries, Words, W, Shape);
  std::vector<Entry> Copies = Entries.vec();
  for (Entry &E : Copies)
    if (Added.count(E.Class) && !E.Signals.empty())
      E.Signals.push_back({(SettingChanged + ":" + E.Class).str(),
                           Frequency::Sometimes});
  Diagnosis D = culprit::diagnose(Symptoms, Logs, Copies, Words, W, Shape);
  // The copies end here.
  for (std::vector<Hypothesis> *All : {&D.Hypotheses, &D.Leads})
    for (Hypothesis &H : *All)
      for (const Entry *&E : H.Entries)
        E = &Entries[static_cast<size_t>(E - Copies.data())];
  return D;
}

/// A symptom of one class under the name of all of them.
static void shorten(std::string &Symptom) {
  if (StringRef(Symptom).starts_with((SettingChanged + ":").str()))
    Symptom = SettingChanged.str();
}

void tellBeside(Diagnosis &D, ArrayRef<SymptomBeside> Beside) {
  auto find = [&](StringRef Symptom) -> const SymptomBeside * {
    auto It = llvm::find_if(Beside, [&](const SymptomBeside &B) {
      return B.Symptom == Symptom && B.How != SymptomBeside::Shared;
    });
    return It == Beside.end() ? nullptr : &*It;
  };
  for (Hypothesis &H : D.Hypotheses) {
    for (auto *Items : {&H.Supports, &H.Against})
      for (EvidenceItem &I : *Items) {
        if (const SymptomBeside *B = find(I.Symptom))
          I.Message += B->How == SymptomBeside::Own
                           ? " (not in the good run)"
                           : " (less of it in the good run)";
        shorten(I.Symptom);
      }
    for (Unchecked &U : H.Open)
      if (any_of(Beside, [&](const SymptomBeside &B) {
            return B.How == SymptomBeside::Shared && B.Symptom == U.Symptom;
          }))
        U.Needs = AnotherGood.str();
    // What a cause has to do with settings is told as evidence.
    erase_if(H.Refuters, [](const Contradiction &C) {
      return StringRef(C.Symptom).starts_with(SettingChanged);
    });
  }
}

void tellBeside(MutableArrayRef<SymptomEvidence> Symptoms,
                ArrayRef<SymptomBeside> Beside) {
  for (SymptomEvidence &E : Symptoms)
    if (E.State == Presence::Unknown &&
        any_of(Beside, [&](const SymptomBeside &B) {
          return B.How == SymptomBeside::Shared && B.Symptom == E.Symptom;
        }))
      E.Missing = {AnotherGood.str()};
}

} // namespace culprit
