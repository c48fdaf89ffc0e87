//===- Text.cpp - The report for a terminal ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A line of what was read, the hypotheses in full, and whatever else a reader
// must know to judge them: what was also seen, not checked or not read.
//
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/Changes.h"
#include "Report/GoodText.h"
#include "Report/Recording.h"
#include "Report/TextHypothesis.h"
#include "Report/TextParts.h"
#include "Support/Units.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// What the next check takes, and what either answer would make of the
/// ranking.
static std::string outcomesText(const NextCheck &N) {
  return formatv("{0} min, {1:F1} bits expected; if so: {2}; if not: {3}",
                 formatNumber(N.Minutes), N.Gain, shiftsText(N.IfSo),
                 shiftsText(N.IfNot))
      .str();
}

/// What to do next, and where to read more.
static void printFooter(raw_ostream &OS, const RunReport &R, unsigned Width) {
  if (R.Result.Next) {
    const NextCheck &N = *R.Result.Next;
    std::vector<std::string> Parts;
    std::string What =
        N.Symptom.empty()
            ? firstSentences(N.Experiment, 2)
        : recordingOf(N.Needs) == N.Needs
            ? "Record " + N.Needs + "."
            : ("Record " + recordingOf(N.Needs) + " (" + N.Needs + ").")
                  .str();
    for (const std::string &Part : {What, N.Confirms, N.Refutes})
      if (!Part.empty())
        Parts.push_back(Part);
    printWrapped(OS, join(Parts, " ") + " (" + N.Class + ")", "next   ",
                 "       ", Width);
    // Of what is as good as certain no answer changes anything.
    if (N.Gain >= 0.05)
      printWrapped(OS, outcomesText(N), "       ", "       ", Width);
  }
  if (!R.Result.Hypotheses.empty())
    OS << "more   culprit explain " << R.Result.Hypotheses.front().Class
       << "; --format json for all evidence\n";
}

void printText(raw_ostream &OS, const RunReport &R, const TextStyle &Style) {
  const Diagnosis &D = R.Result;
  const unsigned Width = Style.Width;
  printHeader(OS, R, Width);
  if (R.Since)
    printChanges(OS, *R.Since, R.SincePath, Style);
  Selection Shown = selectHypotheses(D, Style.Top);
  printLayers(OS, R, Width);
  size_t Rank = 0;
  for (const ShownHypothesis &S : Shown.Full)
    printHypothesis(OS, R, Style, S, ++Rank);
  if (!Shown.Others.empty())
    OS << "    others: " << nameHypotheses(Shown.Others) << "\n\n";
  printUnknownCause(OS, R, Width);
  if (D.Hypotheses.empty())
    printNothingFound(OS, R, Width);
  printLeads(OS, R, Width);
  if (R.Good)
    printGood(OS, *R.Good, Width);
  printUnexplained(OS, R, Width);
  printAlsoSeen(OS, R, Shown, Width);
  if (D.Hypotheses.empty())
    printNotChecked(OS, R, Width);
  printNotRead(OS, R, Width);
  printFailures(OS, R);
  printFooter(OS, R, Width);
}

} // namespace culprit
