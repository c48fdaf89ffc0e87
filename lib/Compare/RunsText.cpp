//===- RunsText.cpp - A comparison of runs for people -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/MarkdownCell.h"
#include "Compare/Runs.h"
#include "Compare/RunsStatistics.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace llvm;

namespace culprit {

static std::string signedNumber(double Value) {
  return (Value > 0 ? "+" : "") + formatNumber(Value, 3);
}

static std::string verdictText(const MetricComparison &M) {
  if (!M.Verdict)
    return "unknown";
  std::string Out = toString(*M.Verdict).str();
  if (M.Verdict == CompareVerdict::Different)
    Out += M.better() > 0   ? ", better"
           : M.better() < 0 ? ", worse"
           : M.Kind.Role == MetricRole::Signal
               ? ""
               : ", better direction unknown";
  return Out;
}

static std::string groupLine(const RunsComparison &C, const RunGroup &G) {
  std::string Out = G.Name;
  if (G.Runs.size() > 1)
    Out += formatv(": {0} runs", G.Runs.size());
  int64_t From = INT64_MAX, To = INT64_MIN;
  for (size_t I : G.Runs)
    if (const auto Steps = C.Runs[I].steps()) {
      From = std::min(From, Steps->first);
      To = std::max(To, Steps->second);
    }
  if (From <= To)
    Out += formatv("{0} steps {1} to {2}", G.Runs.size() > 1 ? "," : ":",
                   formatCount(From), formatCount(To));
  return Out;
}

/// "aligned by step, 0 to 999; 5 % over 3 metrics".
static std::string methodText(const RunsComparison &All,
                              const CandidateComparison &C) {
  std::string Out =
      formatv("aligned by {0}, {1} to {2}", C.Axis, formatCount(C.From),
              formatCount(C.To));
  const size_t KA = All.Groups[C.A].Runs.size(),
               KB = All.Groups[C.B].Runs.size();
  if (KA == 1 && KB == 1)
    return Out + "; noise from within the runs";
  for (const MetricComparison &M : C.Metrics)
    if (M.Detectable && M.Kind.Role != MetricRole::Cost)
      return Out + formatv("; noise from {0} and {1} seeds, t = {2} (5 % over "
                           "{3} metric{5}, {4} degrees of freedom)",
                           KA, KB,
                           formatNumber(
                               studentBound(0.05 / C.Tests, M.Freedom), 3),
                           formatNumber(C.Tests, 3),
                           formatNumber(M.Freedom, 3),
                           C.Tests == 1 ? "" : "s")
                       .str();
  return Out;
}

static std::string firstText(const FirstDifference &F) {
  std::string Out = F.Says;
  if (F.Step) {
    std::string Head = formatv("step {0}, {1}", formatCount(*F.Step), F.Metric);
    // Hashes are not larger or smaller than one another.
    if (F.Metric != "batch_hash")
      Head +=
          formatv(" {0} -> {1}", formatNumber(F.A, 9), formatNumber(F.B, 9));
    if (F.LastEqual)
      Head += formatv(", equal up to step {0}", formatCount(*F.LastEqual));
    Out = Head + ": " + Out;
  }
  return Out;
}

/// How large the difference is at first, and what becomes of it.
static std::string growthText(const FirstDifference &F) {
  if (!F.Step || F.Relative == 0)
    return "";
  if (!std::isfinite(F.Relative))
    return "one side is not finite from there on";
  std::string Out = "relative difference " + formatNumber(F.Relative, 2) +
                    " at first, " +
                    (std::isinf(F.LastRelative)
                         ? "and later one side is not finite"
                         : formatNumber(F.LastRelative, 2) +
                               " in the last tenth");
  const bool Numeric =
      F.Kind == "kernel" || F.Kind == "gradient" || F.Kind == "sudden";
  if (F.TenfoldSteps)
    Out += formatv(", tenfold every {0} steps{1}",
                   formatNumber(*F.TenfoldSteps, 2),
                   Numeric ? ": rounding that training blows up, not an error"
                           : "");
  else if (F.Narrow && Numeric)
    Out += ": float16 or bfloat16 would make as much by rounding; the number "
           "format is not recorded";
  else if (!F.Rounding)
    Out += ": more than rounding from the start";
  if (F.Decimals)
    Out += formatv("; the log has {0} decimals and hides what is smaller",
                   *F.Decimals);
  return Out;
}

/// Lines below the table of one candidate.
static std::vector<std::string> linesOf(const CandidateComparison &C,
                                        unsigned Top) {
  std::vector<std::string> Out;
  if (C.First) {
    Out.push_back("first difference: " + firstText(*C.First));
    if (std::string Growth = growthText(*C.First); !Growth.empty())
      Out.push_back("  " + Growth);
  }
  Out.push_back("setup: " + C.Setup.Says);
  size_t Named = 0, Bookkeeping = 0;
  for (const RunChange &Each : C.Setup.Changes) {
    if (!Each.Semantic) {
      ++Bookkeeping;
      continue;
    }
    if (C.Setup.Kind == "confounded" && Named++ < Top)
      Out.push_back("  " + Each.Kind + ": " + changeText(Each));
  }
  if (C.Setup.Kind == "confounded" && !C.Setup.Confounders.empty())
    Out.push_back("  confounders: " + C.Setup.Confounders);
  if (Bookkeeping)
    Out.push_back(formatv("  left out: {0} difference{1} of names, places and "
                          "packages without bearing on results",
                          Bookkeeping, Bookkeeping == 1 ? "" : "s"));
  return Out;
}

static std::vector<std::string> closing(const RunsComparison &C) {
  std::vector<std::string> Out;
  if (C.Sweep)
    Out.push_back("sweep: " + C.Sweep->Says);
  for (const ProxyTrust &P : C.Proxies)
    Out.push_back("proxy: " + P.Says);
  return Out;
}

static std::string headline(const RunsComparison &C,
                            const CandidateComparison &Of) {
  return C.Groups[Of.B].Name + " against " + C.Groups[Of.A].Name + ": " +
         Of.Says;
}

static size_t nameWidth(ArrayRef<MetricComparison> Metrics, size_t Count) {
  size_t Out = 6;
  for (const MetricComparison &M : Metrics.take_front(Count))
    Out = std::max(Out, M.Name.size());
  return std::min<size_t>(Out, 40);
}

static std::string padded(StringRef Text, size_t Width) {
  return Text.str() +
         std::string(Text.size() < Width ? Width - Text.size() : 0, ' ');
}

static void printMetrics(raw_ostream &OS, const CandidateComparison &C,
                         unsigned Top) {
  const size_t Shown = std::min<size_t>(C.Metrics.size(), Top);
  const size_t Width = nameWidth(C.Metrics, Shown);
  OS << formatv("\n  {0}{1,12}{2,12}{3,12}{4,12}   {5}\n",
                padded("metric", Width), "A", "B", "change", "noise up to",
                "verdict");
  for (const MetricComparison &M : ArrayRef(C.Metrics).take_front(Shown)) {
    OS << formatv("  {0}{1,12}{2,12}{3,12}{4,12}   {5}", padded(M.Name, Width),
                  formatNumber(M.A, 5), formatNumber(M.B, 5),
                  signedNumber(M.Difference),
                  M.Detectable ? formatNumber(*M.Detectable, 3) : "-",
                  verdictText(M));
    if (!M.Why.empty())
      OS << " (" << M.Why << ')';
    OS << '\n';
  }
  if (C.Metrics.size() > Shown)
    OS << "  " << C.Metrics.size() - Shown
       << " more metrics; --top shows more of them\n";
}

static void printNoise(raw_ostream &OS, const RunsComparison &C,
                       unsigned Top) {
  const size_t Shown = std::min<size_t>(C.Noise.size(), Top);
  const size_t Width = nameWidth(C.Noise, Shown);
  OS << formatv("\n  {0}{1,12}{2,12}   {3}\n", padded("metric", Width),
                "level", "nu",
                "a change beyond this is more than noise, of as many seeds");
  for (const MetricComparison &M : ArrayRef(C.Noise).take_front(Shown))
    OS << formatv("  {0}{1,12}{2,12}   {3}\n", padded(M.Name, Width),
                  formatNumber(M.A, 5), M.Nu ? formatNumber(*M.Nu, 3) : "-",
                  M.Detectable ? formatNumber(*M.Detectable, 3) : "-");
}

void printRuns(raw_ostream &OS, const RunsComparison &C, unsigned Top) {
  if (C.Candidates.empty()) {
    OS << C.Runs.size()
       << " runs of one configuration: the noise of seeds\n\n  "
       << groupLine(C, C.Groups[0]) << '\n';
    printNoise(OS, C, Top);
  }
  // Many candidates are a list first, and each in full below.
  if (C.Candidates.size() > 1) {
    OS << C.Candidates.size() << " groups against " << C.Groups[0].Name
       << '\n';
    for (const CandidateComparison &Each : C.Candidates)
      OS << "  " << C.Groups[Each.B].Name << ": " << Each.Says << '\n';
    for (const std::string &Line : closing(C))
      OS << Line << '\n';
    OS << '\n';
  }
  size_t Told = 0;
  for (const CandidateComparison &Each : C.Candidates) {
    if (Told == Top) {
      OS << C.Candidates.size() - Told
         << " more groups; --top shows more of them\n";
      break;
    }
    if (Told++)
      OS << '\n';
    OS << headline(C, Each) << "\n\n";
    OS << "  A  " << groupLine(C, C.Groups[Each.A]) << '\n';
    OS << "  B  " << groupLine(C, C.Groups[Each.B]) << '\n';
    OS << "  " << methodText(C, Each) << '\n';
    printMetrics(OS, Each, Top);
    OS << '\n';
    for (const std::string &Line : linesOf(Each, Top))
      OS << Line << '\n';
    for (const std::string &Remark : Each.Remarks)
      OS << "note: " << Remark << '\n';
  }
  if (C.Candidates.size() <= 1)
    for (const std::string &Line : closing(C))
      OS << Line << '\n';
  for (const std::string &Remark : C.Remarks)
    OS << "note: " << Remark << '\n';
}

void printRunsMarkdown(raw_ostream &OS, const RunsComparison &C,
                       unsigned Top) {
  if (C.Candidates.empty()) {
    OS << "**" << C.Runs.size()
       << " runs of one configuration: the noise of seeds**\n\n"
       << "| metric | level | nu | detectable |\n|---|--:|--:|--:|\n";
    for (const MetricComparison &M : C.Noise)
      OS << "| " << markdownCell(M.Name) << " | " << formatNumber(M.A, 5)
         << " | " << (M.Nu ? formatNumber(*M.Nu, 3) : "-") << " | "
         << (M.Detectable ? formatNumber(*M.Detectable, 3) : "-") << " |\n";
  }
  size_t Told = 0;
  for (const CandidateComparison &Each : C.Candidates) {
    if (Told == Top)
      break;
    if (Told++)
      OS << '\n';
    OS << "**" << markdownCell(headline(C, Each)) << "**\n\n";
    OS << "- A: " << markdownCell(groupLine(C, C.Groups[Each.A])) << '\n';
    OS << "- B: " << markdownCell(groupLine(C, C.Groups[Each.B])) << '\n';
    OS << "- " << markdownCell(methodText(C, Each)) << "\n\n";
    OS << "| metric | A | B | change | noise up to | verdict |\n"
          "|---|--:|--:|--:|--:|---|\n";
    const size_t Shown = std::min<size_t>(Each.Metrics.size(), Top);
    for (const MetricComparison &M : ArrayRef(Each.Metrics).take_front(Shown))
      OS << "| " << markdownCell(M.Name) << " | " << formatNumber(M.A, 5)
         << " | " << formatNumber(M.B, 5) << " | "
         << signedNumber(M.Difference) << " | "
         << (M.Detectable ? formatNumber(*M.Detectable, 3) : "-") << " | "
         << markdownCell(verdictText(M) +
                         (M.Why.empty() ? "" : " (" + M.Why + ")"))
         << " |\n";
    OS << '\n';
    for (const std::string &Line : linesOf(Each, Top))
      OS << "- " << markdownCell(StringRef(Line).trim()) << '\n';
    for (const std::string &Remark : Each.Remarks)
      OS << "- " << markdownCell(Remark) << '\n';
  }
  for (const std::string &Line : closing(C))
    OS << "- " << markdownCell(Line) << '\n';
  for (const std::string &Remark : C.Remarks)
    OS << "- " << markdownCell(Remark) << '\n';
}

} // namespace culprit
