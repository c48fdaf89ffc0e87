//===- SettingChanges.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Case/BatchSize.h"
#include "Case/SettingSide.h"
#include "Case/SettingValue.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <tuple>

using namespace llvm;

namespace culprit {

static StringRef leafOf(StringRef Plain) {
  return Plain.substr(Plain.rfind('.') + 1);
}

/// Where a value counts in one side under both keys: 5 under request_timeout
/// and 5000 under request_timeout_ms.
static bool sameWithUnit(StringRef A, StringRef B, double UnitA, double UnitB,
                         bool AsSet) {
  const std::optional<double> OfA = settingSeconds(A), OfB = settingSeconds(B);
  std::optional<double> X = settingNumber(A), Y = settingNumber(B);
  // 30s beside 30000 under a key in milliseconds.
  if (OfA || OfB) {
    X = OfA ? OfA : X ? *X * UnitA : X;
    Y = OfB ? OfB : Y ? *Y * UnitB : Y;
    return X && Y ? std::fabs(*X - *Y) <= 1e-9 * std::fabs(*X)
                  : sameSettingValue(A, B, AsSet);
  }
  if (UnitA == UnitB)
    return sameSettingValue(A, B, AsSet);
  return X && Y &&
         std::fabs(*X * UnitA - *Y * UnitB) <= 1e-9 * std::fabs(*X * UnitA);
}

static bool sameValues(const Entry &A, const Entry &B) {
  const auto &X = A.Value->Values, &Y = B.Value->Values;
  const bool AsSet = A.Facts.Row && A.Facts.Row->IsSet;
  const double UnitA = unitOfKey(A.Plain), UnitB = unitOfKey(B.Plain);
  const auto In = [&](const std::string &One, const auto &List, bool OfA) {
    return any_of(List, [&](const std::string &Other) {
      return OfA ? sameWithUnit(One, Other, UnitA, UnitB, AsSet)
                 : sameWithUnit(Other, One, UnitA, UnitB, AsSet);
    });
  };
  return all_of(X, [&](const auto &V) { return In(V, Y, true); }) &&
         all_of(Y, [&](const auto &V) { return In(V, X, false); });
}

namespace {
class Comparison {
public:
  Comparison(const Settings &A, const Settings &B) : A(A), B(B) {}
  std::vector<SettingChange> run();

private:
  template <typename KeyOf> void pairUnique(KeyOf Key, bool EqualOnly);
  void pair(Entry &X, Entry &Y);
  void alone(const Entry &E, bool InA);

  Side A, B;
  std::vector<SettingChange> Out;
};
} // namespace

/// auto: DeepSpeed takes what the trainer was told, vLLM what the model says.
static bool isAuto(StringRef Value) {
  return Value.trim("\"' ").equals_insensitive("auto");
}

void Comparison::pair(Entry &X, Entry &Y) {
  X.Paired = Y.Paired = true;
  if (sameValues(X, Y))
    return;
  SettingChange C;
  C.Key = *X.Key;
  if (X.Plain != Y.Plain)
    C.OtherKey = *Y.Key;
  C.Before = X.Value->text();
  C.After = Y.Value->text();
  C.Facts = X.Facts;
  C.BeforeRow = X.Value->Row;
  C.AfterRow = Y.Value->Row;
  const auto Holds = [&](const SettingValues &V, const std::string &Default) {
    return !Default.empty() && all_of(V.Values, [&](const std::string &Each) {
      return sameSettingValue(Each, Default);
    });
  };
  // Of some keys it is known what auto is: the model's own format.
  C.Filled = isAuto(C.Before) != isAuto(C.After) &&
             !(X.Facts.Row && X.Facts.Row->Default.contains("auto"));
  // null beside the default: somebody wrote it down.
  if (X.Value->isUnset()) {
    C.DefaultBefore = A.defaultOf(X.Facts);
    C.Before.clear();
    if (Holds(*Y.Value, C.DefaultBefore))
      return;
  } else if (Y.Value->isUnset()) {
    C.DefaultAfter = B.defaultOf(X.Facts);
    C.After.clear();
    if (Holds(*X.Value, C.DefaultAfter))
      return;
  }
  Out.push_back(std::move(C));
}

/// Pairs entries of which each side has one left by what \p Key gives, but for
/// its empty text.
template <typename KeyOf>
void Comparison::pairUnique(KeyOf Key, bool EqualOnly) {
  std::map<std::string, std::pair<std::vector<Entry *>, std::vector<Entry *>>>
      By;
  for (Entry &E : A.Entries)
    if (std::string K = E.Paired ? "" : Key(E); !K.empty())
      By[K].first.push_back(&E);
  for (Entry &E : B.Entries)
    if (std::string K = E.Paired ? "" : Key(E); !K.empty())
      By[K].second.push_back(&E);
  for (auto &[K, Both] : By)
    if (Both.first.size() == 1 && Both.second.size() == 1 &&
        (!EqualOnly || sameValues(*Both.first[0], *Both.second[0])))
      pair(*Both.first[0], *Both.second[0]);
}

/// A setting of one side alone.
void Comparison::alone(const Entry &E, bool InA) {
  if (E.Value->isUnset())
    return;
  SettingChange C;
  C.Key = *E.Key;
  C.Facts = E.Facts;
  std::string Default = (InA ? B : A).defaultOf(E.Facts);
  if (Default.empty())
    Default = (InA ? B : A).derived(E.Plain);
  // The other side may be too short to tell its library.
  if (Default.empty())
    Default = (InA ? A : B).defaultOf(E.Facts);
  const bool AsSet = E.Facts.Row && E.Facts.Row->IsSet;
  if (!Default.empty() && all_of(E.Value->Values, [&](const std::string &V) {
        return V.empty() || sameSettingValue(V, Default, AsSet);
      }))
    return;
  (InA ? C.Before : C.After) = E.Value->text();
  (InA ? C.DefaultAfter : C.DefaultBefore) = Default;
  (InA ? C.BeforeRow : C.AfterRow) = E.Value->Row;
  Out.push_back(std::move(C));
}

/// Which kinds explain most of a difference: the thing itself, what it is fed,
/// how it is trained and drawn from, what it runs on.
static size_t weightOf(const SettingChange &C) {
  static constexpr StringRef Order[] = {
      "model",     "checkpoint", "tokenizer", "lr",       "batch-size",
      "tokens",    "data",       "eval",      "optimizer", "schedule",
      "precision", "loss",       "decoding",  "serving",  "hardware",
      "software",  "systems",    "seed"};
  return size_t(llvm::find(Order, C.Facts.Kind) - std::begin(Order));
}

std::vector<SettingChange> Comparison::run() {
  pairUnique([](const Entry &E) { return E.Plain; }, false);
  pairUnique(
      [](const Entry &E) {
        return E.Facts.Row && E.Facts.Row->OneSetting
                   ? E.Facts.Row->name().str()
                   : std::string();
      },
      false);
  // One that moved to another section: train.clip_every and clip_every.
  pairUnique([](const Entry &E) { return leafOf(E.Plain).str(); }, true);
  for (const Entry &E : A.Entries)
    if (!E.Paired)
      alone(E, true);
  for (const Entry &E : B.Entries)
    if (!E.Paired)
      alone(E, false);
  return std::move(Out);
}

/// Marks factors of a batch that changed while the batch did not.
static void compensate(const Settings &A, const Settings &B,
                       std::vector<SettingChange> &Changes) {
  const std::string Why = unchangedBatch(A, B);
  if (Why.empty())
    return;
  for (SettingChange &C : Changes) {
    const BatchPart Part = batchPart(C.Key);
    if (Part != BatchPart::None && Part != BatchPart::Global)
      C.Compensated = Why;
  }
}

static void sortChanges(std::vector<SettingChange> &Changes) {
  stable_sort(Changes, [](const SettingChange &X, const SettingChange &Y) {
    return std::tuple(X.effect(), weightOf(X), StringRef(X.Key)) <
           std::tuple(Y.effect(), weightOf(Y), StringRef(Y.Key));
  });
}

std::vector<SettingChange> compareSettings(const Settings &A,
                                           const Settings &B) {
  std::vector<SettingChange> Out = Comparison(A, B).run();
  compensate(A, B, Out);
  sortChanges(Out);
  return Out;
}

std::vector<SettingChange> comparePackages(const Settings &A,
                                           const Settings &B) {
  // flash_attn and flash-attn are one package.
  const auto Plain = [](const Settings &S) {
    std::map<std::string, std::pair<std::string, const SettingValues *>> Out;
    for (const auto &[Name, Version] : S) {
      std::string Key = StringRef(Name).lower();
      for (char &C : Key)
        C = C == '-' || C == '.' ? '_' : C;
      Out[Key] = {Name, &Version};
    }
    return Out;
  };
  const auto InA = Plain(A), InB = Plain(B);
  std::set<std::string> Names;
  for (const auto *Side : {&InA, &InB})
    for (const auto &[Key, Named] : *Side)
      Names.insert(Key);
  std::vector<SettingChange> Out;
  for (const std::string &Key : Names) {
    auto X = InA.find(Key), Y = InB.find(Key);
    const SettingValues *Before = X == InA.end() ? nullptr : X->second.second;
    const SettingValues *After = Y == InB.end() ? nullptr : Y->second.second;
    if (Before && After && Before->Values == After->Values)
      continue;
    SettingChange C;
    C.Package = true;
    C.Key = Before ? X->second.first : Y->second.first;
    C.Before = Before ? Before->text() : "";
    C.After = After ? After->text() : "";
    C.BeforeRow = Before ? Before->Row : -1;
    C.AfterRow = After ? After->Row : -1;
    C.Facts.Kind = "software";
    C.Facts.Effect = isNumericalPackage(C.Key) ? KeyEffect::Results
                                               : KeyEffect::None;
    Out.push_back(std::move(C));
  }
  sortChanges(Out);
  return Out;
}

size_t countThings(ArrayRef<SettingChange> Changes) {
  size_t Single = 0;
  bool Batch = false, Packages = false, Seeds = false, Filled = false,
       Formats = false;
  for (const SettingChange &C : Changes) {
    if (C.effect() != KeyEffect::Results)
      continue;
    if (batchPart(C.Key) != BatchPart::None)
      Batch = true;
    else if (C.Filled)
      Filled = true;
    else if (C.Facts.Row && (C.Facts.Row->name() == "bf16" ||
                             C.Facts.Row->name() == "fp16" ||
                             C.Facts.Row->name() == "dtype"))
      Formats = true;
    else if (C.Facts.Kind == "seed")
      Seeds = true;
    else if (C.Facts.Kind == "software")
      Packages = true;
    else
      ++Single;
  }
  return Single + Batch + Packages + Seeds + Filled + Formats;
}

} // namespace culprit
