//===- Setups.cpp - What else two runs do not share -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/SettingChanges.h"
#include "Compare/Compare.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace llvm;

namespace culprit {

/// So many operators, settings and packages are named each.
static constexpr size_t MostSetupNames = 8;

/// "4 x Tesla V100-SXM2-16GB", models in the order of their names.
static std::string deviceModels(const Case &C) {
  const Table &Devices = C.table(TableId::devices);
  // A process sees all devices of its host; those it used are in windows.
  std::set<std::pair<int64_t, int64_t>> Used;
  const Table &Windows = C.table(TableId::windows);
  for (size_t I = 0; I != Windows.rows(); ++I)
    Used.insert({Windows.columns()[windows::rank].getInt(I),
                 Windows.columns()[windows::device].getInt(I)});
  std::map<std::string, size_t> Models;
  for (size_t I = 0; I != Devices.rows(); ++I)
    if (Used.count({Devices.columns()[devices::rank].getInt(I),
                    Devices.columns()[devices::device].getInt(I)}) &&
        !Devices.columns()[devices::model].isNull(I))
      ++Models[Devices.cell(I, Devices.columns()[devices::model]).text()];
  std::string Out;
  for (auto &[Model, Count] : Models)
    Out += (Out.empty() ? "" : ", ") + std::to_string(Count) + " x " + Model;
  return Out;
}

static std::string rankCount(const Case &C) {
  const Table &Windows = C.table(TableId::windows);
  std::set<int64_t> Ranks;
  for (size_t I = 0; I != Windows.rows(); ++I)
    Ranks.insert(Windows.columns()[windows::rank].getInt(I));
  const Table &Known = C.table(TableId::ranks);
  int64_t World = 0;
  for (size_t I = 0; I != Known.rows(); ++I)
    World = std::max(World, Known.columns()[ranks::world_size].getInt(I));
  std::string Out = std::to_string(Ranks.size());
  if (World > static_cast<int64_t>(Ranks.size()))
    Out += " of " + std::to_string(World);
  return Out;
}

namespace {

/// The input shapes that an operator was called with, and how long in all.
struct Shapes {
  std::map<std::string, int64_t> NsByShape;
  int64_t Ns = 0;

  /// The shape of the most time among those that \p Other lacks; empty for
  /// none.
  std::string mostUnlike(const Shapes &Other) const {
    std::string Best;
    int64_t Most = -1;
    for (auto &[Shape, Ns] : NsByShape)
      if (!Other.NsByShape.count(Shape) && Ns > Most) {
        Best = Shape;
        Most = Ns;
      }
    return Best;
  }
};

} // namespace

static std::map<std::string, Shapes> inputShapes(const Case &C) {
  const Table &Ops = C.table(TableId::host_ops);
  std::map<std::string, Shapes> Out;
  if (!C.has(TableId::host_ops, host_ops::shapes))
    return Out;
  // By id first: a name and a shape occur a thousand times each.
  std::map<std::pair<StringId, StringId>, int64_t> NsById;
  const ColumnView &Name = Ops.columns()[host_ops::name];
  const ColumnView &Shape = Ops.columns()[host_ops::shapes];
  const ColumnView &Duration = Ops.columns()[host_ops::dur];
  for (size_t I = 0; I != Ops.rows(); ++I)
    if (!Shape.isNull(I) && !Name.isNull(I))
      NsById[{Name.getString(I), Shape.getString(I)}] +=
          Duration.isNull(I) ? 0 : Duration.getInt(I);
  for (auto &[Key, Ns] : NsById) {
    StringRef Text = C.pool()->text(Key.second);
    // Shapes without a number are those of scalars and of no inputs.
    if (Text.find_first_of("0123456789") == StringRef::npos)
      continue;
    Shapes &S = Out[C.pool()->text(Key.first).str()];
    S.NsByShape[Text.str()] += Ns;
    S.Ns += Ns;
  }
  return Out;
}

/// Operators that both called, with shapes of which one side has its own: the
/// one of the most time.
static void compareShapes(const Case &A, const Case &B,
                          std::vector<SetupDifference> &Out) {
  std::map<std::string, Shapes> OfA = inputShapes(A), OfB = inputShapes(B);
  std::vector<std::pair<int64_t, SetupDifference>> Found;
  for (auto &[Op, InA] : OfA) {
    auto It = OfB.find(Op);
    if (It == OfB.end())
      continue;
    std::string OnlyA = InA.mostUnlike(It->second);
    std::string OnlyB = It->second.mostUnlike(InA);
    if (!OnlyA.empty() || !OnlyB.empty())
      Found.push_back({InA.Ns + It->second.Ns,
                       {"input shapes of " + Op, OnlyA, OnlyB}});
  }
  llvm::stable_sort(Found, [](const auto &X, const auto &Y) {
    return X.first > Y.first;
  });
  for (size_t I = 0; I != std::min(Found.size(), MostSetupNames); ++I)
    Out.push_back(Found[I].second);
}

/// Settings or packages that differ, but for names and places: a change that
/// costs time alone is what a profile shows.
static void addChanges(const std::vector<SettingChange> &Changes,
                       StringRef What, std::vector<SetupDifference> &Out) {
  size_t Named = 0;
  for (const SettingChange &C : Changes)
    if ((C.effect() != KeyEffect::None || C.Package) &&
        Named++ < MostSetupNames)
      Out.push_back({(What + " " + C.Key).str(), C.Before, C.After});
}

std::vector<SetupDifference> compareSetups(const Case &A, const Case &B) {
  std::vector<SetupDifference> Out;
  auto compare = [&](const char *What, std::string OfA, std::string OfB) {
    if (OfA != OfB && !OfA.empty() && !OfB.empty())
      Out.push_back({What, std::move(OfA), std::move(OfB)});
  };
  compare("devices", deviceModels(A), deviceModels(B));
  compare("ranks", rankCount(A), rankCount(B));
  compareShapes(A, B, Out);
  const auto Side = [](const Case &C, TableId Id) {
    return settingsOf(C.table(Id)).value_or(Settings());
  };
  // Beside a side that recorded none, every setting would look changed.
  if (A.has(TableId::config) && B.has(TableId::config))
    addChanges(
        compareSettings(Side(A, TableId::config), Side(B, TableId::config)),
        "setting", Out);
  if (A.has(TableId::packages) && B.has(TableId::packages))
    addChanges(comparePackages(Side(A, TableId::packages),
                               Side(B, TableId::packages)),
               "package", Out);
  return Out;
}

} // namespace culprit
