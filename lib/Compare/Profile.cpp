//===- Profile.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Profile.h"
#include "llvm/ADT/StringSwitch.h"
#include <set>
#include <tuple>

using namespace llvm;

namespace culprit {

/// Ranks whose step is within this of the slowest are in step with it.
static constexpr double InStep = 0.03;

bool isDeviceWork(StringRef Kind) {
  return StringSwitch<bool>(Kind)
      .Cases("compute", "communication", "copy", "set", "graph", true)
      .Default(false);
}

static int64_t intAt(const Table &T, unsigned Column, size_t Row) {
  return T.columns()[Column].getInt(Row);
}

static std::string stringAt(const Table &T, unsigned Column, size_t Row) {
  return T.pool()->text(T.columns()[Column].getString(Row)).str();
}

static void chooseWindow(ProfileSide &Side) {
  bool Steps = any_of(Side.Windows, [](const auto &W) { return W.Steps > 0; });
  double Slowest = 0;
  for (const ProfileSide::Window &W : Side.Windows)
    if (!Steps || W.Steps)
      Slowest = std::max(Slowest, W.stepNs());
  std::optional<double> Least;
  for (size_t I = 0; I != Side.Windows.size(); ++I) {
    const ProfileSide::Window &W = Side.Windows[I];
    if ((Steps && !W.Steps) || W.stepNs() < Slowest * (1 - InStep))
      continue;
    double Waiting = static_cast<double>(W.CommunicationNs) /
                     static_cast<double>(W.Steps ? W.Steps : 1);
    if (!Least || Waiting < *Least) {
      Least = Waiting;
      Side.Chosen = I;
    }
  }
}

Expected<ProfileSide> profileSide(const Table &Windows, const Table &Path) {
  ProfileSide Side;
  std::map<std::pair<int64_t, int64_t>, size_t> Known;
  for (size_t I = 0; I != Windows.rows(); ++I) {
    int64_t Rank = intAt(Windows, windows::rank, I);
    int64_t Device = intAt(Windows, windows::device, I);
    Known.try_emplace({Rank, Device}, Side.Windows.size());
    int64_t Steps = intAt(Windows, windows::steps, I);
    Side.Windows.push_back({Rank, Device, intAt(Windows, windows::dur, I),
                            Steps == NullInt ? 0 : Steps});
  }
  if (Side.Windows.empty() || Path.empty())
    return failure("there is no device work to compare",
                   "profiles are compared; 'culprit inspect' says what there "
                   "is");
  for (size_t I = 0; I != Path.rows(); ++I) {
    auto It = Known.find({intAt(Path, critical_path::rank, I),
                          intAt(Path, critical_path::device, I)});
    if (It != Known.end() &&
        stringAt(Path, critical_path::kind, I) == "communication")
      Side.Windows[It->second].CommunicationNs +=
          intAt(Path, critical_path::dur, I);
  }
  chooseWindow(Side);

  const ProfileSide::Window &W = Side.window();
  int64_t OnPath = 0;
  std::map<int64_t, int64_t> ByStep;
  bool AllInSteps = true;
  // Work that is interrupted on the path, by a copy of another stream say,
  // has several pieces and is counted once.
  std::set<std::tuple<std::string, std::string, int64_t>> Counted;
  for (size_t I = 0; I != Path.rows(); ++I) {
    if (intAt(Path, critical_path::rank, I) != W.Rank ||
        intAt(Path, critical_path::device, I) != W.Device)
      continue;
    std::string Kind = stringAt(Path, critical_path::kind, I);
    std::string Name = isDeviceWork(Kind)
                           ? stringAt(Path, critical_path::name, I)
                           : std::string();
    int64_t Ns = intAt(Path, critical_path::dur, I);
    int64_t Step = intAt(Path, critical_path::step, I);
    int64_t Work = intAt(Path, critical_path::work, I);
    PathGroup &Group = Side.Groups[{Kind, Name}];
    Group.Ns += Ns;
    OnPath += Ns;
    if (Work == NullInt || Counted.insert({Kind, Name, Work}).second)
      ++Group.Count;
    if (Step == NullInt) {
      AllInSteps = false;
    } else {
      Group.ByStep[Step] += Ns;
      ByStep[Step] += Ns;
    }
  }
  // The path covers its window; should a piece be missing, the sum still
  // holds and says so.
  if (OnPath != W.Ns)
    Side.Groups[{"untold", ""}] = {W.Ns - OnPath, 1, {}};
  if (AllInSteps && static_cast<int64_t>(ByStep.size()) == W.Steps)
    for (auto &[Step, Ns] : ByStep)
      Side.StepNs.push_back(static_cast<double>(Ns));
  return Side;
}

} // namespace culprit
