//===- Report.h - A diagnosis as people and programs read it ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Output of `culprit diagnose`. Everything printed is a function of the
/// inputs alone: no times, no thread counts, no addresses.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_REPORT_REPORT_H
#define CULPRIT_REPORT_REPORT_H

#include "Case/Case.h"
#include "Detect/Outcome.h"
#include "Rank/Diagnosis.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace culprit {

struct Changes;
struct GoodReport;

/// All that a report shows. Refers to its parts; they outlive it.
struct RunReport {
  std::string Version;
  std::vector<std::string> Paths; ///< As given on the command line.
  const Case &Evidence;
  llvm::ArrayRef<Outcome> Outcomes; ///< By detector.
  llvm::ArrayRef<SymptomEvidence> Symptoms;
  const Diagnosis &Result;
  llvm::ArrayRef<LogEvidence> Quotes; ///< Log lines that quote entries.
  /// What is told beside runs that worked; null without such.
  const GoodReport *Good = nullptr;
  /// What changed since an earlier report, and its name; null without one.
  const Changes *Since = nullptr;
  llvm::StringRef SincePath = {};
  /// What the curves look like, by figure (Case/RunShape.h); empty without a
  /// loss.
  ShapeFigures Shape = {};
};

struct TextStyle {
  unsigned Width = 100;
  unsigned Top = 3; ///< Hypotheses shown in full.
  bool Color = false;
};

/// The lines of the logs of \p C where they are all that it has of a run, with
/// no metric, error or request in them; 0 where there is something else.
uint64_t linesAlone(const Case &C);

/// The report for a terminal.
void printText(llvm::raw_ostream &OS, const RunReport &R,
               const TextStyle &Style);

/// The contract of docs/json.md, schema 1. All hypotheses, whatever `--top`.
llvm::json::Value toJson(const RunReport &R);

/// The same as one markdown page, one HTML page without links to anywhere, and
/// SARIF 2.1.0 with one result a report.
void printMarkdown(llvm::raw_ostream &OS, const RunReport &R, unsigned Top);
void printHtml(llvm::raw_ostream &OS, const RunReport &R, unsigned Top);
llvm::json::Value toSarif(const RunReport &R);

/// The evidence there is, input by input and table by table: `inspect`.
void printInspection(llvm::raw_ostream &OS, const Case &C,
                     const TextStyle &Style);
llvm::json::Value inspectionJson(const Case &C);

} // namespace culprit

#endif // CULPRIT_REPORT_REPORT_H
