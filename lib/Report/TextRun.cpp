//===- TextRun.cpp - What was read, and what ran ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The line above the report and those below it: how much of what was read,
// which files took no part, which detectors ran and which failed.
//
//===----------------------------------------------------------------------===//

#include "KB/TextWrap.h"
#include "Report/TextHypothesis.h"
#include "Report/TextParts.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

std::string plural(size_t Count, StringRef Noun) {
  return formatCount(static_cast<int64_t>(Count)) + " " + Noun.str() +
         (Count == 1 ? "" : "s");
}

/// The sum of the counts in \p Column; a row without one counts \p Default.
static size_t sumOf(const Table &T, StringRef Column, int64_t Default) {
  const ColumnView *Counts = T.find(Column);
  if (!Counts)
    return T.rows() * Default;
  int64_t Sum = 0;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    Cell C = T.cell(Row, *Counts);
    Sum += C.Null ? Default : C.Int;
  }
  return std::max<int64_t>(Sum, 0);
}

void printHeader(raw_ostream &OS, const RunReport &R, unsigned Width) {
  std::string Where = join(R.Paths, " ");
  const Case &C = R.Evidence;
  std::vector<std::string> Parts{plural(C.inputs().size(), "file")};
  auto count = [&](TableId Id, StringRef Noun) {
    if (size_t Rows = C.table(Id).rows())
      Parts.push_back(plural(Rows, Noun));
  };
  // Of large files some rows stand for many.
  auto countAll = [&](size_t All, StringRef Noun) {
    if (All)
      Parts.push_back(plural(All, Noun));
  };
  count(TableId::gpu_work, "device event");
  count(TableId::host_ops, "host operator");
  count(TableId::scalars, "scalar");
  count(TableId::tensors, "tensor");
  countAll(sumOf(C.table(TableId::requests), "weight", 1),
           "request");
  count(TableId::tokens, "token");
  countAll(std::max(C.table(TableId::log_lines).rows(),
                    sumOf(C.table(TableId::log_templates),
                          "lines", 0)),
           "log line");
  count(TableId::documents, "document");
  size_t Counts[4] = {};
  for (const Outcome &O : R.Outcomes)
    ++Counts[static_cast<unsigned>(O.Kind)];
  std::string Detectors =
      formatv("{0}: {1} matched, {2} clear, {3} skipped",
              plural(R.Outcomes.size(), "detector"), Counts[0], Counts[1],
              Counts[2]);
  if (Counts[3])
    Detectors += formatv(", {0} failed", Counts[3]);
  std::string Left = "culprit " + R.Version + "   " + Where + ": " +
                     join(Parts, ", ");
  if (Left.size() + Detectors.size() + 3 <= Width)
    OS << Left << "   " << Detectors << "\n\n";
  else
    OS << Left << '\n' << Detectors << "\n\n";
}

void printNotRead(raw_ostream &OS, const RunReport &R, unsigned Width) {
  std::vector<std::string> Names;
  for (const InputSummary &I : R.Evidence.inputs())
    if (I.Failed || I.Format.empty())
      Names.push_back(shortPath(R, I.Path).str() +
                      (I.Failed ? " (see the error)" : " (unknown format)"));
  if (Names.empty())
    return;
  size_t More = Names.size() > 5 ? Names.size() - 5 : 0;
  Names.resize(std::min<size_t>(Names.size(), 5));
  if (More)
    Names.push_back(formatv("{0} more", More).str());
  printWrapped(OS, join(Names, ", "), "not read     ", std::string(15, ' '),
               Width);
  OS << '\n';
}

void printFailures(raw_ostream &OS, const RunReport &R) {
  size_t Failed = 0, Ran = 0;
  for (const Outcome &O : R.Outcomes) {
    Ran += O.Kind == OutcomeKind::Matched || O.Kind == OutcomeKind::Clear;
    if (O.Kind != OutcomeKind::Failed)
      continue;
    ++Failed;
    OS << "detector " << describeFailure(O) << '\n';
  }
  if (Failed)
    OS << formatv("  note: {0} other {1} ran; what is said above does not "
                  "rest on {2}\n",
                  Ran, Ran == 1 ? "detector" : "detectors",
                  Failed == 1 ? "this one" : "these");
}

} // namespace culprit
