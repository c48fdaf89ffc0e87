//===- Print.cpp - A comparison as text, markdown and JSON ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Compare.h"
#include "Compare/KernelNames.h"
#include "Compare/MarkdownCell.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// "+1.9 ms", "-20 us", "0".
static std::string signedDuration(int64_t Ns) {
  if (Ns == 0)
    return "0";
  return (Ns > 0 ? "+" : "-") + formatDuration(std::llabs(Ns));
}

/// "+22 %", "-0.4 %".
static std::string signedPercent(int64_t Difference, int64_t Of) {
  double Percent = Of ? 100.0 * static_cast<double>(Difference) /
                            static_cast<double>(Of)
                      : 0;
  return formatv("{0}{1} %", Percent > 0 ? "+" : "",
                 std::fabs(Percent) < 10 ? formatv("{0:f1}", Percent).str()
                                         : formatv("{0:f0}", Percent).str())
      .str();
}

/// What time of \p Kind is, for people.
static StringRef phraseOf(StringRef Kind) {
  return StringSwitch<StringRef>(Kind)
      .Case("compute", "kernel")
      .Case("communication", "communication")
      .Case("copy", "copies")
      .Case("set", "memory sets")
      .Case("graph", "graph replays")
      .Case("launching", "launch latency")
      .Case("blocked", "waiting for another stream")
      .Case("stalled", "pauses between launched work")
      .Case("unresolved", "idle time without a launch record")
      .Case("input", "waiting for input data")
      .Case("allocate", "allocating device memory")
      .Case("load", "loading code")
      .Case("refill", "starting again after a wait for the device")
      .Case("preempted", "the launching thread without a CPU")
      .Case("launch", "launching other work")
      .Case("code", "host code between launches")
      .Case("sync", "returning from waits for the device")
      .Case("untold", "time that the path does not cover")
      .Default(Kind);
}

static std::string title(const Contribution &C, size_t Most) {
  std::string Out = phraseOf(C.Kind).str();
  if (!C.Name.empty())
    Out += " " + shortKernelName(C.Name, Most - Out.size() - 1);
  return Out;
}

/// What a step is called where there are none.
static StringRef unit(const ProfileComparison &C) {
  return C.PerStep ? "steps take" : "the windows take";
}

/// Those that make most of a change, at most three: what stands in the first
/// line.
static std::string mainContributions(const ProfileComparison &C) {
  int64_t Total = C.differenceNs(), Told = 0;
  std::string Out;
  unsigned Named = 0;
  for (const Contribution &Each : C.Contributions) {
    int64_t Part = Each.differenceNs();
    if (Named == 3 || std::llabs(Told) * 10 >= std::llabs(Total) * 8)
      break;
    // One that goes the other way, or is small, explains nothing.
    if ((Part > 0) != (Total > 0) ||
        std::llabs(Part) * 20 < std::llabs(Total))
      continue;
    Out += (Named == 0 ? "" : ", ") + signedDuration(Part) +
           (Named == 0 ? " of that is " : " ") + title(Each, 60);
    Told += Part;
    ++Named;
  }
  return Out;
}

/// The first line: by how much, and why.
static std::string headline(const ProfileComparison &C) {
  std::string Out = unit(C).str() + " " + formatDuration(C.B.StepNs);
  std::string Change = signedPercent(C.differenceNs(), C.A.StepNs);
  switch (C.Verdict) {
  case CompareVerdict::Same:
    return Out + " on both sides: no difference";
  case CompareVerdict::WithinNoise:
    return Out + " and took " + formatDuration(C.A.StepNs) + " (" + Change +
           "): no change beyond the noise of " + formatDuration(C.NoiseNs);
  case CompareVerdict::Different:
    break;
  }
  Out += " instead of " + formatDuration(C.A.StepNs) + " (" + Change + ")";
  std::string Why = mainContributions(C);
  return Why.empty() ? Out : Out + "; " + Why;
}

static std::string sideLine(const SideSummary &S, bool PerStep) {
  std::string Out = S.Path + ": rank " + std::to_string(S.Rank);
  if (S.Ranks > 1)
    Out += " of " + std::to_string(S.Ranks) + " (the one others wait for)";
  Out += ", device " + std::to_string(S.Device) + ", ";
  if (!PerStep)
    return Out + "a window of " + formatDuration(S.StepNs);
  Out += std::to_string(S.Steps) + " steady step" +
         (S.Steps == 1 ? "" : "s") + " of " + formatDuration(S.StepNs);
  if (S.SpreadNs)
    Out += ", median " + formatDuration(*S.MedianNs) + ", spread " +
           formatDuration(*S.SpreadNs);
  return Out;
}

static std::string countText(double Count) {
  return formatNumber(Count, Count < 100 ? 3 : 4);
}

/// Count and duration, where the split says something: "12 -> 14 calls, ...".
static std::string explanation(const Contribution &C, bool PerStep) {
  StringRef Of = PerStep ? " a step" : " in all";
  if (C.isNew())
    return (Twine("new, ") + countText(C.BCount) + Of).str();
  if (C.isGone())
    return (Twine("gone, was ") + countText(C.ACount) + Of).str();
  std::string Out;
  if (std::fabs(C.BCount - C.ACount) > 0.005 * C.ACount)
    Out = countText(C.ACount) + " -> " + countText(C.BCount) + " times: " +
          signedDuration(C.FromCountNs) + ", each time: " +
          signedDuration(C.FromDurationNs);
  else
    Out = countText(C.ACount) + " times, each " +
          formatDuration(std::llround(static_cast<double>(C.ANs) /
                                      std::max(C.ACount, 1e-9))) +
          " -> " +
          formatDuration(std::llround(static_cast<double>(C.BNs) /
                                      std::max(C.BCount, 1e-9)));
  return Out;
}

static std::string noiseText(const Contribution &C) {
  return C.WithinNoise && *C.WithinNoise ? "within noise" : "";
}

/// Names behind a contribution whose title does not show them: the first two
/// of a side.
static std::string namesText(const std::vector<std::string> &Names,
                             size_t Most) {
  std::string Out;
  for (size_t I = 0; I != std::min<size_t>(Names.size(), 2); ++I)
    Out += (I ? ", " : "") + shortKernelName(Names[I], Most);
  if (Names.size() > 2)
    Out += ", " + std::to_string(Names.size() - 2) + " more";
  return Out.empty() ? "-" : Out;
}

/// The contributions that are shown, and the sum of the rest.
static size_t shownCount(const ProfileComparison &C, unsigned Top) {
  size_t Shown = 0;
  while (Shown < C.Contributions.size() && Shown < Top &&
         C.Contributions[Shown].differenceNs() != 0)
    ++Shown;
  return Shown;
}

static int64_t restNs(const ProfileComparison &C, size_t Shown) {
  int64_t Rest = 0;
  for (const Contribution &Each : drop_begin(C.Contributions, Shown))
    Rest += Each.differenceNs();
  return Rest;
}

static void printSetup(raw_ostream &OS, const ProfileComparison &C,
                       StringRef Bullet) {
  auto value = [](const std::string &Text) {
    return Text.empty() ? std::string("-") : Text;
  };
  for (const SetupDifference &D : C.Setup)
    OS << Bullet << D.What << ": " << value(D.A) << " -> " << value(D.B)
       << '\n';
}

void printComparison(raw_ostream &OS, const ProfileComparison &C,
                     unsigned Top) {
  OS << headline(C) << "\n\n";
  OS << "  A  " << sideLine(C.A, C.PerStep) << '\n';
  OS << "  B  " << sideLine(C.B, C.PerStep) << '\n';
  size_t Shown = shownCount(C, Top);
  if (Shown) {
    OS << formatv("\n{0,11}{1,12}{2,12}   {3}\n", "A", "B", "change",
                  C.PerStep ? "a step, on the critical path"
                            : "in the window, on the critical path");
    auto row = [&](int64_t A, int64_t B, const Twine &Text) {
      OS << formatv("{0,11}{1,12}{2,12}   ", A ? formatDuration(A) : "-",
                    B ? formatDuration(B) : "-", signedDuration(B - A))
         << Text << '\n';
    };
    int64_t RestA = C.A.StepNs, RestB = C.B.StepNs;
    for (size_t I = 0; I != Shown; ++I) {
      const Contribution &Each = C.Contributions[I];
      RestA -= Each.ANs;
      RestB -= Each.BNs;
      std::string Noise = noiseText(Each);
      row(Each.ANs, Each.BNs,
          title(Each, 60) + (Noise.empty() ? "" : " (" + Noise + ")"));
      OS << std::string(40, ' ') << explanation(Each, C.PerStep) << '\n';
      if (Each.ANames != Each.BNames && !Each.isNew() && !Each.isGone())
        OS << std::string(38, ' ') << "  " << namesText(Each.ANames, 40)
           << " -> " << namesText(Each.BNames, 40) << '\n';
    }
    if (size_t Others = C.Contributions.size() - Shown)
      row(RestA, RestB, Twine(Others) + " more");
    row(C.A.StepNs, C.B.StepNs, "sum");
  }
  if (!C.Setup.empty()) {
    OS << "\nalso different (A -> B)\n";
    printSetup(OS, C, "  ");
  }
  if (!C.Remarks.empty())
    OS << '\n';
  for (const std::string &R : C.Remarks)
    OS << "note: " << R << '\n';
}

void printComparisonMarkdown(raw_ostream &OS, const ProfileComparison &C,
                             unsigned Top) {
  OS << "**" << markdownCell(headline(C)) << "**\n\n";
  OS << "- A: " << markdownCell(sideLine(C.A, C.PerStep)) << '\n';
  OS << "- B: " << markdownCell(sideLine(C.B, C.PerStep)) << '\n';
  size_t Shown = shownCount(C, Top);
  if (Shown) {
    OS << "\n| A | B | change | what | how |\n|--:|--:|--:|---|---|\n";
    for (size_t I = 0; I != Shown; ++I) {
      const Contribution &Each = C.Contributions[I];
      std::string Noise = noiseText(Each);
      OS << "| " << formatDuration(Each.ANs) << " | "
         << formatDuration(Each.BNs) << " | "
         << signedDuration(Each.differenceNs()) << " | "
         << markdownCell(title(Each, 80)) << " | "
         << markdownCell(explanation(Each, C.PerStep) +
                         (Noise.empty() ? "" : ", " + Noise))
         << " |\n";
    }
    if (size_t Others = C.Contributions.size() - Shown)
      OS << "| | | " << signedDuration(restNs(C, Shown)) << " | " << Others
         << " more | |\n";
    OS << "| " << formatDuration(C.A.StepNs) << " | "
       << formatDuration(C.B.StepNs) << " | "
       << signedDuration(C.differenceNs()) << " | sum | |\n";
  }
  if (!C.Setup.empty()) {
    OS << "\nAlso different (A -> B):\n\n";
    for (const SetupDifference &D : C.Setup)
      OS << "- "
         << markdownCell(D.What + ": " + (D.A.empty() ? "-" : D.A) + " -> " +
                         (D.B.empty() ? "-" : D.B))
         << '\n';
  }
  if (!C.Remarks.empty())
    OS << '\n';
  for (const std::string &R : C.Remarks)
    OS << "- " << markdownCell(R) << '\n';
}

static json::Array names(const std::vector<std::string> &Names) {
  json::Array Out;
  for (const std::string &Name : Names)
    Out.push_back(jsonText(Name));
  return Out;
}

static json::Value sideJson(const SideSummary &S) {
  return json::Object{{"path", jsonText(S.Path)},
                      {"rank", S.Rank},
                      {"device", S.Device},
                      {"ranks", static_cast<int64_t>(S.Ranks)},
                      {"steps", S.Steps},
                      {"median_ns", S.MedianNs ? json::Value(*S.MedianNs)
                                               : json::Value(nullptr)},
                      {"spread_ns", S.SpreadNs ? json::Value(*S.SpreadNs)
                                               : json::Value(nullptr)}};
}

json::Value comparisonJson(const ProfileComparison &C) {
  json::Array Contributions, Setup, Remarks;
  for (const Contribution &Each : C.Contributions)
    Contributions.push_back(json::Object{
        {"kind", jsonText(Each.Kind)},
        {"name",
         Each.Name.empty() ? json::Value(nullptr) : jsonText(Each.Name)},
        {"a_ns", Each.ANs},
        {"b_ns", Each.BNs},
        {"difference_ns", Each.differenceNs()},
        {"a_count", Each.ACount},
        {"b_count", Each.BCount},
        {"from_count_ns", Each.FromCountNs},
        {"from_duration_ns", Each.FromDurationNs},
        {"within_noise", Each.WithinNoise ? json::Value(*Each.WithinNoise)
                                          : json::Value(nullptr)},
        {"a_names", names(Each.ANames)},
        {"b_names", names(Each.BNames)}});
  for (const SetupDifference &D : C.Setup)
    Setup.push_back(json::Object{{"what", jsonText(D.What)},
                                 {"a", jsonText(D.A)},
                                 {"b", jsonText(D.B)}});
  for (const std::string &R : C.Remarks)
    Remarks.push_back(jsonText(R));
  return json::Object{{"schema", 1},
                      {"kind", "profile"},
                      {"verdict", toString(C.Verdict)},
                      {"material", C.Material},
                      {"per", C.PerStep ? "step" : "window"},
                      {"a", sideJson(C.A)},
                      {"b", sideJson(C.B)},
                      {"step_ns", json::Object{{"a", C.A.StepNs},
                                               {"b", C.B.StepNs},
                                               {"difference",
                                                C.differenceNs()}}},
                      {"noise_ns", C.NoiseNs},
                      {"contributions", std::move(Contributions)},
                      {"sum_ns", C.sumNs()},
                      {"setup", std::move(Setup)},
                      {"remarks", std::move(Remarks)}};
}

} // namespace culprit
