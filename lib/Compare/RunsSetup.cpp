//===- RunsSetup.cpp - What was changed between two runs --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Settings, packages, devices and, where no setting tells of them, what the
// metrics show: another learning rate, other tokens a step. One change that
// matters can be credited with the outcome; of two, neither can.
//
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Compare/Runs.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace culprit {

/// The last part of a key path, in lower case, - as _.
static std::string leafOf(StringRef Key) {
  // wandb has optimizer.lr.value
  if (Key.ends_with(".value"))
    Key = Key.drop_back(6);
  std::string Out = Key.rsplit('.').second.empty()
                        ? Key.lower()
                        : Key.rsplit('.').second.lower();
  std::replace(Out.begin(), Out.end(), '-', '_');
  return Out;
}

StringRef changeKind(StringRef Key) {
  const KeyFacts Facts = aboutKey(Key);
  return Facts.Effect == KeyEffect::None ? "bookkeeping" : Facts.Kind;
}

bool mattersToResults(StringRef Key) {
  return aboutKey(Key).Effect == KeyEffect::Results;
}

std::optional<double> settingOf(const RunRecord &R, ArrayRef<StringRef> Keys,
                                std::string *Found) {
  for (StringRef Key : Keys)
    for (const auto &[Path, Value] : R.Config) {
      double Number = 0;
      if ((StringRef(Path) != Key && leafOf(Path) != Key) ||
          StringRef(Value).getAsDouble(Number))
        continue;
      if (Found)
        *Found = Path;
      return Number;
    }
  return std::nullopt;
}

/// The settings, or the packages, of the runs of a side; "" stands for a run
/// that lacks one which others have.
static Settings settingsOfRuns(ArrayRef<const RunRecord *> Runs,
                               bool Packages) {
  Settings Out;
  for (const RunRecord *R : Runs)
    for (const auto &[Key, Value] : Packages ? R->Packages : R->Config)
      Out[Key].Values.insert(Value);
  for (const RunRecord *R : Runs) {
    const auto &In = Packages ? R->Packages : R->Config;
    for (auto &[Key, Value] : Out)
      if (!In.count(Key))
        Value.Values.insert("");
  }
  return Out;
}

/// Whether every run of \p Side recorded settings.
static bool isConfigured(ArrayRef<const RunRecord *> Side) {
  return all_of(Side, [](const RunRecord *R) { return !R->Config.empty(); });
}

static RunChange runChange(const SettingChange &C) {
  RunChange Out;
  Out.Kind = C.effect() == KeyEffect::None ? "bookkeeping" : C.Facts.Kind.str();
  if (C.Package)
    Out.Kind = "software";
  Out.Key = C.Key + (C.OtherKey.empty() ? "" : " (" + C.OtherKey + ")");
  Out.A = C.Before;
  Out.B = C.After;
  Out.Semantic = C.effect() == KeyEffect::Results;
  if (C.Facts.Row)
    C.Facts.Row->Causes.split(Out.Causes, ' ', -1, false);
  Out.Known = C.Facts.Row || C.Package;
  Out.Why = C.Compensated;
  return Out;
}

/// Settings and packages that differ. Beside a run that recorded none, every
/// setting would look changed.
static void addRecorded(ArrayRef<const RunRecord *> A,
                        ArrayRef<const RunRecord *> B, RunSetup &Out) {
  const auto Packaged = [](ArrayRef<const RunRecord *> Side) {
    return all_of(Side,
                  [](const RunRecord *R) { return !R->Packages.empty(); });
  };
  const bool Known = isConfigured(A) && isConfigured(B);
  const Settings InA = settingsOfRuns(A, false), InB = settingsOfRuns(B, false);
  std::vector<SettingChange> Changes;
  if (Known)
    Changes = compareSettings(InA, InB);
  // Several seeds a side are what noise is told by.
  erase_if(Changes, [&](const SettingChange &C) {
    const auto Several = [&](const Settings &S, const std::string &Key) {
      auto It = S.find(Key);
      return It != S.end() && It->second.Values.size() > 1;
    };
    return C.Facts.Kind == "seed" &&
           (Several(InA, C.Key) ||
            Several(InB, C.OtherKey.empty() ? C.Key : C.OtherKey));
  });
  Settings PackagesA, PackagesB;
  if (Packaged(A) && Packaged(B)) {
    PackagesA = settingsOfRuns(A, true);
    PackagesB = settingsOfRuns(B, true);
    for (SettingChange &C : comparePackages(PackagesA, PackagesB))
      Changes.push_back(std::move(C));
  }
  Out.Things = countThings(Changes);
  if (Known)
    Out.Confounders =
        confoundersOf(InA, InB, PackagesA, PackagesB, Changes).text();
  for (const SettingChange &C : Changes)
    Out.Changes.push_back(runChange(C));
}

/// What the metrics show and no setting says.
static void addMeasured(const RunRecord &A, const RunRecord &B,
                        std::vector<RunChange> &Out) {
  const auto Told = [&](ArrayRef<StringRef> Kinds) {
    return any_of(Out, [&](const RunChange &C) {
      return is_contained(Kinds, StringRef(C.Kind));
    });
  };
  const auto Differing = [&](StringRef Name) -> std::optional<int64_t> {
    const ScalarSeries *X = A.series(Name), *Y = B.series(Name);
    if (!X || !Y)
      return std::nullopt;
    for (size_t I = 0; I != X->size(); ++I)
      if (std::optional<size_t> J = Y->find(X->Steps[I]))
        if (float(X->Values[I]) != float(Y->Values[*J]) &&
            std::fabs(X->Values[I] - Y->Values[*J]) >
                1e-4 * std::fabs(X->Values[I]))
          return X->Steps[I];
    return std::nullopt;
  };
  const auto Value = [](const RunRecord &R, StringRef Name, int64_t Step) {
    const ScalarSeries *S = R.series(Name);
    return formatNumber(S->Values[*S->find(Step)], 6);
  };
  const auto Add = [&](StringRef Kind, StringRef Metric, int64_t Step) {
    Out.push_back({Kind.str(), formatv("{0} logged at step {1}", Metric, Step),
                   Value(A, Metric, Step), Value(B, Metric, Step), true});
  };
  if (!Told({"lr", "schedule", "tokens"}))
    if (std::optional<int64_t> Step = Differing("lr"))
      Add("lr", "lr", *Step);
  if (!Told({"batch-size", "tokens", "data", "hardware"}))
    if (std::optional<int64_t> Step = Differing("tokens"))
      Add("tokens", "tokens", *Step);
  if (A.Devices != B.Devices && !A.Devices.empty() && !B.Devices.empty())
    Out.push_back({"hardware", "devices", A.Devices, B.Devices, true});
}

std::string changeText(const RunChange &C) {
  return C.Key + " " + (C.A.empty() ? "-" : shortened(C.A, 60)) + " -> " +
         (C.B.empty() ? "-" : shortened(C.B, 60));
}

/// The confounders that most often fool a comparison come first.
static size_t weightOf(StringRef Kind) {
  static constexpr StringRef Order[] = {"lr",   "batch-size", "tokens",
                                        "data", "tokenizer",  "eval",
                                        "hardware"};
  return size_t(llvm::find(Order, Kind) - std::begin(Order));
}

RunSetup compareRunSetups(ArrayRef<const RunRecord *> A,
                          ArrayRef<const RunRecord *> B) {
  RunSetup Out;
  addRecorded(A, B, Out);
  const size_t Recorded = Out.Changes.size();
  addMeasured(*A[0], *B[0], Out.Changes);
  Out.Things += Out.Changes.size() - Recorded;
  stable_sort(Out.Changes, [](const RunChange &X, const RunChange &Y) {
    return std::pair(!X.Semantic, weightOf(X.Kind)) <
           std::pair(!Y.Semantic, weightOf(Y.Kind));
  });

  std::vector<const RunChange *> Matter;
  std::string Seed;
  size_t Packages = 0;
  for (const RunChange &C : Out.Changes) {
    if (!C.Semantic)
      continue;
    if (C.Kind == "seed") {
      Seed += (Seed.empty() ? "" : ", ") + changeText(C);
      continue;
    }
    if (C.Kind == "software" && Packages++)
      continue;
    Matter.push_back(&C);
  }
  const bool KnowA = isConfigured(A), KnowB = isConfigured(B);
  const bool Known = KnowA && KnowB;
  const std::string Lacking = KnowA   ? "the settings of B"
                              : KnowB ? "the settings of A"
                                      : "the settings of both sides";
  const size_t Count = Out.Things;
  if (Count == 0) {
    Out.Kind = Known ? "same" : "unknown";
    Out.Says = Known
                   ? "nothing that was recorded differs in the settings"
                   : Lacking + " are not recorded: what was changed is "
                               "unknown; a config.json in the run's folder "
                               "tells it";
    return Out;
  }
  if (Matter.empty()) {
    Out.Kind = "seed";
    Out.Says = "only the seed differs: " + Seed;
    return Out;
  }
  const auto Short = [&](const RunChange &C) {
    if (C.Kind == "software" && Packages > 1)
      return formatv("{0} packages ({1}, ...)", Packages, changeText(C)).str();
    return changeText(C);
  };
  if (Count == 1) {
    Out.Kind = "one";
    Out.Says = "exactly one thing was changed: " + Short(*Matter[0]);
    for (size_t I = 1; I < Matter.size(); ++I)
      Out.Says += ", " + Short(*Matter[I]);
    if (!Known)
      Out.Says = "one recorded thing differs, " + Short(*Matter[0]) +
                 "; " + Lacking + " are not recorded";
    return Out;
  }
  Out.Kind = "confounded";
  std::string List = Short(*Matter[0]);
  for (size_t I = 1; I != std::min<size_t>(Matter.size(), 6); ++I)
    List += "; " + Short(*Matter[I]);
  if (Matter.size() > 6)
    List += formatv("; and {0} more", Matter.size() - 6);
  if (!Seed.empty())
    List += "; " + Seed;
  Out.Says = formatv("confounded: {0} things were changed, and no difference "
                     "can be credited to one of them: {1}",
                     Count, List);
  return Out;
}

} // namespace culprit
