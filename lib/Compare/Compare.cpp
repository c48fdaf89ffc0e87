//===- Compare.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Compare/KernelNames.h"
#include "Support/Units.h"
#include "Table/Statistics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

/// Changes of the step below this are no change, from MaterialShare on worth
/// acting on.
static constexpr double NoiseShare = 0.03, MaterialShare = 0.08;
/// Standard errors of a difference that noise may reach.
static constexpr double Sigmas = 3;
/// Steps on each side that a spread wants.
static constexpr size_t FewestSteps = 3;

StringRef toString(CompareVerdict V) {
  switch (V) {
  case CompareVerdict::Same:
    return "same";
  case CompareVerdict::WithinNoise:
    return "within-noise";
  case CompareVerdict::Different:
    return "different";
  }
  return "";
}

int64_t ProfileComparison::sumNs() const {
  int64_t Sum = 0;
  for (const Contribution &C : Contributions)
    Sum += C.differenceNs();
  return Sum;
}

/// Each of \p Totals by \p Steps in whole ns, such that the parts add up to
/// the rounded quotient of the sum: those with the largest remainders are
/// rounded up.
static std::vector<int64_t> apportion(ArrayRef<int64_t> Totals,
                                      int64_t Steps) {
  int64_t Sum = 0, Given = 0;
  std::vector<int64_t> Out, Remainders;
  for (int64_t Total : Totals) {
    Sum += Total;
    int64_t Floor = Total / Steps - (Total % Steps < 0);
    Out.push_back(Floor);
    Remainders.push_back(Total - Floor * Steps);
    Given += Floor;
  }
  std::vector<size_t> Order(Totals.size());
  std::iota(Order.begin(), Order.end(), 0);
  llvm::stable_sort(Order, [&](size_t A, size_t B) {
    return Remainders[A] > Remainders[B];
  });
  int64_t Target = (2 * Sum + Steps) / (2 * Steps);
  for (size_t I = 0; Given < Target && I != Order.size(); ++I, ++Given)
    ++Out[Order[I]];
  return Out;
}

namespace {

/// What one contribution holds of both sides before it is divided by steps.
struct Pair {
  std::string Kind, Name;
  struct Part {
    int64_t Ns = 0, Count = 0;
    std::map<int64_t, int64_t> ByStep;
    std::vector<std::pair<int64_t, std::string>> Names; ///< ns, name.

    void add(const PathGroup &G, const std::string &Name) {
      Ns += G.Ns;
      Count += G.Count;
      for (auto &[Step, StepNs] : G.ByStep)
        ByStep[Step] += StepNs;
      if (!Name.empty())
        Names.push_back({G.Ns, Name});
    }
    /// The names by time, the longest first.
    std::vector<std::string> names() const {
      auto Sorted = Names;
      llvm::stable_sort(Sorted, [](const auto &X, const auto &Y) {
        return X.first > Y.first;
      });
      std::vector<std::string> Out;
      for (auto &[Ns, Name] : Sorted)
        Out.push_back(Name);
      return Out;
    }
  } A, B;
};

} // namespace

/// Groups that both sides have are paired; device work that one alone has is
/// paired by family.
static std::vector<Pair> pairGroups(const ProfileSide &A,
                                    const ProfileSide &B) {
  std::vector<Pair> Out;
  std::map<std::pair<std::string, std::string>, Pair> Families;
  auto family = [&](const std::pair<std::string, std::string> &Key) -> Pair & {
    std::string Family = kernelFamily(Key.second);
    Pair &P = Families[{Key.first, Family}];
    P.Kind = Key.first;
    P.Name = Family;
    return P;
  };
  for (auto &[Key, Group] : A.Groups) {
    auto Other = B.Groups.find(Key);
    if (Other == B.Groups.end() && isDeviceWork(Key.first)) {
      family(Key).A.add(Group, Key.second);
      continue;
    }
    Pair P{Key.first, Key.second, {}, {}};
    P.A.add(Group, Key.second);
    if (Other != B.Groups.end())
      P.B.add(Other->second, Key.second);
    Out.push_back(std::move(P));
  }
  for (auto &[Key, Group] : B.Groups) {
    if (A.Groups.count(Key))
      continue;
    if (isDeviceWork(Key.first)) {
      family(Key).B.add(Group, Key.second);
    } else {
      Out.push_back({Key.first, Key.second, {}, {}});
      Out.back().B.add(Group, Key.second);
    }
  }
  for (auto &[Key, P] : Families) {
    // One kernel without a partner goes by its own name.
    if (P.A.Names.size() + P.B.Names.size() == 1)
      P.Name = (P.A.Names.empty() ? P.B : P.A).Names[0].second;
    Out.push_back(std::move(P));
  }
  return Out;
}

/// The largest difference of means that steps \p A and \p B make by chance;
/// none for too few steps.
static std::optional<double> noiseOf(ArrayRef<double> A, ArrayRef<double> B) {
  if (A.size() < FewestSteps || B.size() < FewestSteps)
    return std::nullopt;
  auto variance = [](ArrayRef<double> Values) {
    double Deviation = robustDeviation(Values).value_or(0);
    return Deviation * Deviation / static_cast<double>(Values.size());
  };
  return Sigmas * std::sqrt(variance(A) + variance(B));
}

/// The time of each of \p Steps steps; steps without any are 0.
static std::vector<double> perStep(const Pair::Part &P, size_t Steps) {
  std::vector<double> Out(Steps, 0);
  size_t I = 0;
  for (auto &[Step, Ns] : P.ByStep)
    if (I < Steps)
      Out[I++] = static_cast<double>(Ns);
  return Out;
}

static SideSummary summary(const ProfileSide &Side, bool PerStep) {
  SideSummary Out;
  const ProfileSide::Window &W = Side.window();
  Out.Rank = W.Rank;
  Out.Device = W.Device;
  Out.Steps = W.Steps;
  std::map<int64_t, int> Ranks;
  for (const ProfileSide::Window &Each : Side.Windows)
    Ranks[Each.Rank] = 1;
  Out.Ranks = Ranks.size();
  int64_t Steps = PerStep ? W.Steps : 1;
  Out.StepNs = (2 * W.Ns + Steps) / (2 * Steps);
  if (PerStep && Side.StepNs.size() >= FewestSteps) {
    Out.MedianNs = std::llround(*quantile(Side.StepNs, 0.5));
    Out.SpreadNs = std::llround(robustDeviation(Side.StepNs).value_or(0));
  }
  return Out;
}

static Contribution contribution(const Pair &P, int64_t ANs, int64_t BNs,
                                 int64_t ASteps, int64_t BSteps) {
  Contribution C;
  C.Kind = P.Kind;
  C.Name = P.Name;
  C.ANames = P.A.names();
  C.BNames = P.B.names();
  C.ANs = ANs;
  C.BNs = BNs;
  C.ACount = static_cast<double>(P.A.Count) / static_cast<double>(ASteps);
  C.BCount = static_cast<double>(P.B.Count) / static_cast<double>(BSteps);
  double AMean = C.ACount > 0 ? static_cast<double>(ANs) / C.ACount : 0;
  double BMean = C.BCount > 0 ? static_cast<double>(BNs) / C.BCount : 0;
  // Calls that one side does not have took as long there as on the other.
  if (C.ACount == 0)
    AMean = BMean;
  if (C.BCount == 0)
    BMean = AMean;
  C.FromCountNs = std::llround((C.BCount - C.ACount) * (AMean + BMean) / 2);
  C.FromDurationNs = C.differenceNs() - C.FromCountNs;
  return C;
}

/// Says what makes the two windows hard to compare.
static void addRemarks(const ProfileSide &A, const ProfileSide &B,
                       ProfileComparison &Out) {
  bool ASteps = A.window().Steps > 0, BSteps = B.window().Steps > 0;
  if (ASteps != BSteps)
    Out.Remarks.push_back((Twine(ASteps ? "B" : "A") +
                           " has no steps: whole windows are compared, which "
                           "may hold different amounts of work")
                              .str());
  else if (!ASteps)
    Out.Remarks.push_back("neither record has steps: whole windows are "
                          "compared; call profiler.step() or mark steps with "
                          "NVTX for a comparison per step");
  if (!Out.PerStep) {
    auto pieces = [](const ProfileSide &Side) {
      int64_t Sum = 0;
      for (auto &[Key, Group] : Side.Groups)
        if (isDeviceWork(Key.first))
          Sum += Group.Count;
      return Sum;
    };
    int64_t InA = pieces(A), InB = pieces(B);
    if (std::llabs(InB - InA) >
        NoiseShare * static_cast<double>(std::max(InA, InB)))
      Out.Remarks.push_back("the windows hold different amounts of work: " +
                            formatCount(InA) + " and " + formatCount(InB) +
                            " pieces");
    return;
  }
  if (!Out.A.SpreadNs || !Out.B.SpreadNs) {
    Out.Remarks.push_back("too few steps to tell the noise (" +
                          std::to_string(Out.A.Steps) + " and " +
                          std::to_string(Out.B.Steps) +
                          " steady ones): differences below 3 % are taken for "
                          "it");
    return;
  }
  int64_t Medians = *Out.B.MedianNs - *Out.A.MedianNs;
  if (Out.Verdict == CompareVerdict::Different &&
      std::llabs(Medians) <= Out.NoiseNs)
    Out.Remarks.push_back("the median steps do not differ (" +
                          formatDuration(*Out.A.MedianNs) + " and " +
                          formatDuration(*Out.B.MedianNs) +
                          "): a few slow steps make the difference");
}

ProfileComparison compareProfiles(const ProfileSide &A, const ProfileSide &B) {
  ProfileComparison Out;
  Out.PerStep = A.window().Steps > 0 && B.window().Steps > 0;
  Out.A = summary(A, Out.PerStep);
  Out.B = summary(B, Out.PerStep);
  int64_t ASteps = Out.PerStep ? A.window().Steps : 1;
  int64_t BSteps = Out.PerStep ? B.window().Steps : 1;

  std::vector<Pair> Pairs = pairGroups(A, B);
  std::vector<int64_t> ATotals, BTotals;
  for (const Pair &P : Pairs) {
    ATotals.push_back(P.A.Ns);
    BTotals.push_back(P.B.Ns);
  }
  std::vector<int64_t> ANs = apportion(ATotals, ASteps);
  std::vector<int64_t> BNs = apportion(BTotals, BSteps);
  for (size_t I = 0; I != Pairs.size(); ++I) {
    Contribution C =
        contribution(Pairs[I], ANs[I], BNs[I], ASteps, BSteps);
    if (Out.PerStep && !A.StepNs.empty() && !B.StepNs.empty())
      if (std::optional<double> Noise =
              noiseOf(perStep(Pairs[I].A, A.StepNs.size()),
                      perStep(Pairs[I].B, B.StepNs.size())))
        C.WithinNoise =
            std::fabs(static_cast<double>(C.differenceNs())) <= *Noise;
    Out.Contributions.push_back(std::move(C));
  }
  llvm::stable_sort(Out.Contributions,
                    [](const Contribution &X, const Contribution &Y) {
                      int64_t DX = std::llabs(X.differenceNs()),
                              DY = std::llabs(Y.differenceNs());
                      return std::tie(DY, X.Kind, X.Name) <
                             std::tie(DX, Y.Kind, Y.Name);
                    });

  double Band = NoiseShare * static_cast<double>(Out.A.StepNs);
  if (Out.PerStep)
    Band = std::max(Band, noiseOf(A.StepNs, B.StepNs).value_or(0));
  Out.NoiseNs = std::llround(Band);
  int64_t Difference = std::llabs(Out.differenceNs());
  Out.Material = static_cast<double>(Difference) >=
                     MaterialShare * static_cast<double>(Out.A.StepNs) &&
                 Difference > Out.NoiseNs;
  bool Identical = all_of(Out.Contributions, [](const Contribution &C) {
    return C.differenceNs() == 0 && C.ACount == C.BCount;
  });
  Out.Verdict = Difference > Out.NoiseNs ? CompareVerdict::Different
                : Identical && Difference == 0 ? CompareVerdict::Same
                                               : CompareVerdict::WithinNoise;
  addRemarks(A, B, Out);
  return Out;
}

Expected<ProfileComparison> compareCases(const Case &A, StringRef APath,
                                         const Case &B, StringRef BPath) {
  auto side = [](const Case &C, StringRef Path) -> Expected<ProfileSide> {
    Expected<ProfileSide> Side = profileSide(
        C.table(TableId::windows), C.table(TableId::critical_path));
    if (!Side)
      return addContext(Path, Side.takeError());
    return Side;
  };
  Expected<ProfileSide> SideA = side(A, APath);
  if (!SideA)
    return SideA.takeError();
  Expected<ProfileSide> SideB = side(B, BPath);
  if (!SideB)
    return SideB.takeError();
  ProfileComparison Out = compareProfiles(*SideA, *SideB);
  Out.A.Path = APath.str();
  Out.B.Path = BPath.str();
  Out.Setup = compareSetups(A, B);
  return Out;
}

} // namespace culprit
