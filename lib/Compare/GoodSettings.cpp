//===- GoodSettings.cpp - Settings other than in good runs ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Settings, packages, devices and input shapes. A setting that one side alone
// writes down is a change only where the other side has most of the keys of
// its file: programs differ in what they write.
//
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Compare/Compare.h"
#include "Compare/GoodRun.h"
#include "Support/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace llvm;

namespace culprit {

/// Share of the keys of a file that the other side must have for a missing key
/// to mean something.
static constexpr double OneProgramKeys = 0.8;
/// Unchanged settings that are named, by what they are about.
static constexpr size_t MostNamedSettings = 5;
static constexpr StringLiteral NamedKinds[] = {
    "lr", "batch-size", "precision", "optimizer", "data", "model"};

static Settings settingsIn(const Case &C, TableId Id) {
  return settingsOf(C.table(Id)).value_or(Settings());
}

/// Another seed is none that matters, nor what another setting fills in.
static bool mayMatter(const SettingChange &C) {
  return !C.Filled && C.Facts.Kind != "seed" &&
         C.effect() == KeyEffect::Results;
}

static double standingOf(const SettingChange &C) {
  if (!mayMatter(C))
    return 0.1;
  // Of packages those that compute, of settings those that are known.
  return C.Package || C.Facts.Row ? 0.8 : 0.5;
}

static GoodChange changeOf(const SettingChange &C) {
  GoodChange Out;
  Out.Kind = C.Package ? "package" : "setting";
  Out.Name = C.OtherKey.empty() ? C.Key : C.OtherKey;
  Out.Good = C.Before;
  Out.Bad = C.After;
  Out.Says = C.text();
  Out.Standing = standingOf(C);
  Out.MayMatter = mayMatter(C);
  return Out;
}

/// The changes of each good run to the bad one that no other good run lacks;
/// told as against the first.
static std::vector<SettingChange>
changesFromAll(ArrayRef<Settings> Good, const Settings &Bad, bool Packages) {
  std::vector<SettingChange> Out;
  for (size_t I = 0; I != Good.size(); ++I) {
    std::vector<SettingChange> Here = Packages ? comparePackages(Good[I], Bad)
                                               : compareSettings(Good[I], Bad);
    if (I == 0) {
      Out = std::move(Here);
      continue;
    }
    erase_if(Out, [&](const SettingChange &C) {
      return none_of(Here, [&](const SettingChange &H) {
        return H.Key == C.Key ||
               (!H.OtherKey.empty() && H.OtherKey == C.OtherKey);
      });
    });
  }
  return Out;
}

/// Keys of \p Bad that every good run has and that are not among \p Changes.
static std::vector<std::string>
equalKeys(ArrayRef<Settings> Good, const Settings &Bad,
          ArrayRef<SettingChange> Changes) {
  std::vector<std::string> Out;
  for (const auto &[Key, Value] : Bad) {
    const std::string &K = Key;
    const KeyFacts Facts = aboutKey(K);
    if (Facts.Effect != KeyEffect::None && Facts.Kind != "seed" &&
        all_of(Good, [&](const Settings &S) { return S.count(K); }) &&
        none_of(Changes, [&](const SettingChange &C) {
          return C.Key == K || C.OtherKey == K;
        }))
      Out.push_back(K);
  }
  return Out;
}

namespace {
/// Whether the other side writes the same files.
class FileKeys {
public:
  FileKeys(const Settings &Mine, const Settings &Other, const Case &C)
      : T(C.table(TableId::config)) {
    for (const auto &[Key, Value] : Mine) {
      auto &[Both, All] = ByFile[fileOf(Value.Row)];
      Both += Other.count(Key);
      ++All;
    }
  }

  /// Of the file that row \p Row is from.
  bool isShared(int64_t Row) const {
    auto It = ByFile.find(fileOf(Row));
    return It != ByFile.end() &&
           static_cast<double>(It->second.first) >=
               OneProgramKeys * static_cast<double>(It->second.second);
  }

private:
  std::string fileOf(int64_t Row) const {
    const ColumnView &Source = T.columns()[config::source];
    const size_t At = static_cast<size_t>(Row);
    return Row < 0 || Source.isNull(At) ? "" : T.cell(At, Source).text();
  }

  const Table &T;
  std::map<std::string, std::pair<size_t, size_t>> ByFile;
};
} // namespace

/// By class and symptom, which settings that are about it were changed, and
/// which were not.
static std::vector<SettingOfCause>
settingsByCause(ArrayRef<SettingChange> Changes, ArrayRef<std::string> Equal) {
  struct Told {
    std::vector<std::string> Changed, Kept;
  };
  std::map<std::string, Told> All;
  auto causesOf = [](const KeyFacts &Facts) {
    SmallVector<StringRef, 8> Causes;
    if (Facts.Row)
      Facts.Row->Causes.split(Causes, ' ', -1, false);
    return Causes;
  };
  for (const SettingChange &C : Changes)
    if (mayMatter(C))
      for (StringRef Cause : causesOf(C.Facts))
        All[Cause.str()].Changed.push_back(C.text());
  // A key that nobody knows may be about any cause: where one was changed, what
  // is the same rules none out.
  const bool AnyUnknown = any_of(Changes, [](const SettingChange &C) {
    return mayMatter(C) && !C.Package && !C.Facts.Row;
  });
  for (const std::string &Key : AnyUnknown ? ArrayRef<std::string>() : Equal)
    for (StringRef Cause : causesOf(aboutKey(Key)))
      All[Cause.str()].Kept.push_back(Key);
  std::vector<SettingOfCause> Out;
  for (auto &[Cause, T] : All) {
    const bool Changed = !T.Changed.empty();
    std::vector<std::string> &Texts = Changed ? T.Changed : T.Kept;
    if (Texts.size() > 3)
      Texts.resize(3);
    Out.push_back({Cause, Changed,
                   join(Texts, ", ") + (Changed ? "" : " as in the good run")});
  }
  return Out;
}

/// "lr, batch_size and 12 more settings".
static std::string equalText(std::vector<std::string> Keys) {
  auto weight = [](const std::string &Key) {
    const StringRef Kind = aboutKey(Key).Kind;
    return llvm::find(NamedKinds, Kind) - std::begin(NamedKinds);
  };
  llvm::stable_sort(Keys, [&](const std::string &A, const std::string &B) {
    return weight(A) < weight(B);
  });
  const size_t More = Keys.size() > MostNamedSettings
                          ? Keys.size() - MostNamedSettings
                          : 0;
  Keys.resize(Keys.size() - More);
  return join(Keys, ", ") +
         (More ? " and " + std::to_string(More) + " more setting" +
                     (More == 1 ? "" : "s")
               : "");
}

static void addSettings(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                        GoodComparison &Into) {
  const Settings InBad = settingsIn(*Bad.Evidence, TableId::config);
  std::vector<Settings> InGood;
  for (const ComparedRun &G : Good)
    InGood.push_back(settingsIn(*G.Evidence, TableId::config));
  if (InBad.empty() ||
      any_of(InGood, [](const Settings &S) { return S.empty(); }))
    return;
  Into.HasSettings = true;
  std::vector<SettingChange> Changes = changesFromAll(InGood, InBad, false);
  const std::vector<std::string> Equal = equalKeys(InGood, InBad, Changes);
  const FileKeys OfBad(InBad, InGood.front(), *Bad.Evidence),
      OfGood(InGood.front(), InBad, *Good.front().Evidence);
  size_t OneSided = 0;
  erase_if(Changes, [&](const SettingChange &C) {
    if (C.effect() == KeyEffect::None)
      return true;
    const bool Lone = (C.Before.empty() && !OfBad.isShared(C.AfterRow)) ||
                      (C.After.empty() && !OfGood.isShared(C.BeforeRow));
    OneSided += Lone;
    return Lone;
  });
  for (const SettingChange &C : Changes)
    Into.Changes.push_back(changeOf(C));
  if (OneSided)
    Into.Remarks.push_back(std::to_string(OneSided) +
                           " settings are written down on one side alone, by "
                           "programs that write other ones: left out");
  if (!Equal.empty())
    Into.Same.push_back(equalText(Equal));
  Into.Settings = settingsByCause(Changes, Equal);
  std::vector<SettingChange> Counted = Changes;
  erase_if(Counted, [](const SettingChange &C) { return !mayMatter(C); });
  Into.Things = countThings(Counted);
}

static void addPackages(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                        GoodComparison &Into) {
  const Settings InBad = settingsIn(*Bad.Evidence, TableId::packages);
  std::vector<Settings> InGood;
  for (const ComparedRun &G : Good)
    InGood.push_back(settingsIn(*G.Evidence, TableId::packages));
  if (InBad.empty() ||
      any_of(InGood, [](const Settings &S) { return S.empty(); }))
    return;
  Into.HasPackages = true;
  const std::vector<SettingChange> Changes =
      changesFromAll(InGood, InBad, true);
  for (const SettingChange &C : Changes)
    Into.Changes.push_back(changeOf(C));
  const size_t Equal = llvm::count_if(InBad, [&](const auto &P) {
    return none_of(Changes, [&](const SettingChange &C) {
      return C.Key == P.first || C.OtherKey == P.first;
    });
  });
  if (Equal)
    Into.Same.push_back(std::to_string(Equal) + " package" +
                        (Equal == 1 ? "" : "s"));
}

/// Devices, ranks, input shapes: what compareSetups() tells besides.
static void addEnvironment(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                           GoodComparison &Into) {
  std::map<std::string, std::pair<size_t, SetupDifference>> Seen;
  for (const ComparedRun &G : Good)
    for (SetupDifference &D : compareSetups(*G.Evidence, *Bad.Evidence))
      // Ranks are counted in profiles.
      if (!StringRef(D.What).starts_with("setting ") &&
          !StringRef(D.What).starts_with("package ") &&
          (D.What != "ranks" || (G.Evidence->has(TableId::windows) &&
                                 Bad.Evidence->has(TableId::windows))))
        ++Seen.try_emplace(D.What, 0, D).first->second.first;
  for (const auto &[What, Found] : Seen) {
    if (Found.first != Good.size())
      continue;
    const SetupDifference &D = Found.second;
    auto text = [](const std::string &T) {
      return T.empty() ? std::string("-") : shortened(T, 60);
    };
    Into.Changes.push_back({"environment", What, D.A, D.B,
                            What + " " + text(D.A) + " -> " + text(D.B), 0.8,
                            std::nullopt, false, true});
  }
}

void compareGoodSettings(ArrayRef<ComparedRun> Good, const ComparedRun &Bad,
                         GoodComparison &Into) {
  addSettings(Good, Bad, Into);
  addPackages(Good, Bad, Into);
  addEnvironment(Good, Bad, Into);
}

} // namespace culprit
