//===- Timing.cpp - What detectors cost -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Detect/Timing.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace culprit {

/// Lines shown of one detector.
static constexpr size_t MaxLines = 8;
/// Share of all the time from which a detector is taken apart.
static constexpr double MinShare = 0.05;

static std::string shareOf(int64_t Part, int64_t Whole) {
  double Share = Whole ? 100.0 * static_cast<double>(Part) /
                             static_cast<double>(Whole)
                       : 0;
  return formatv("{0:f1} %", Share).str();
}

namespace {
/// A line of the table; Width is that of the first column.
struct TimingLines {
  raw_ostream &OS;
  size_t Width;

  void line(StringRef Name, StringRef Kind, StringRef Time, StringRef Share,
            StringRef Memory) {
    std::string Line =
        formatv("{0}  {1}  {2}  {3}  {4}", left_justify(Name, Width),
                left_justify(Kind, 11), right_justify(Time, 8),
                right_justify(Share, 7), right_justify(Memory, 8))
            .str();
    OS << StringRef(Line).rtrim() << '\n';
  }
  /// "line 41  where", or "lib/stats.lua:7  median" of a module.
  static std::string nameOf(const Outcome &O, const VerbCost &C) {
    StringRef File = C.At.File;
    if (C.At.Line == 0)
      return "  starting Lua";
    std::string Place = "line " + std::to_string(C.At.Line);
    if (!File.ends_with(O.Detector + ".lua"))
      Place = (sys::path::filename(sys::path::parent_path(File)) + "/" +
               sys::path::filename(File) + ":" + std::to_string(C.At.Line))
                  .str();
    return "  " + Place + "  " + (C.Verb.empty() ? "Lua itself" : C.Verb);
  }
  void verb(const Outcome &O, const VerbCost &C) {
    line(nameOf(O, C),
         C.Verb.empty()
             ? ""
             : (formatCount(static_cast<int64_t>(C.Calls)) +
                (C.Calls == 1 ? " call" : " calls")),
         formatDuration(C.Ns), shareOf(C.Ns, O.ElapsedNs),
         C.Bytes ? formatBytes(static_cast<double>(C.Bytes)) : "-");
  }
};
} // namespace

std::string timingTable(ArrayRef<Outcome> Outcomes) {
  std::vector<const Outcome *> Rows;
  int64_t Total = 0;
  size_t Width = 8;
  for (const Outcome &O : Outcomes) {
    Rows.push_back(&O);
    Total += O.ElapsedNs;
  }
  auto TakenApart = [&](const Outcome &O) {
    return static_cast<double>(O.ElapsedNs) >=
           MinShare * static_cast<double>(Total);
  };
  for (const Outcome &O : Outcomes) {
    Width = std::max(Width, O.Detector.size());
    if (TakenApart(O))
      for (const VerbCost &C : ArrayRef(O.Costs).take_front(MaxLines))
        Width = std::max(Width, TimingLines::nameOf(O, C).size());
  }
  llvm::stable_sort(Rows, [](const Outcome *A, const Outcome *B) {
    return A->ElapsedNs > B->ElapsedNs;
  });
  std::string Out;
  raw_string_ostream OS(Out);
  TimingLines Table{OS, Width};
  Table.line("detector", "outcome", "time", "share", "memory");
  for (const Outcome *O : Rows) {
    Table.line(O->Detector, toString(O->Kind), formatDuration(O->ElapsedNs),
               shareOf(O->ElapsedNs, Total),
               O->PeakBytes ? formatBytes(static_cast<double>(O->PeakBytes))
                            : "-");
    if (!TakenApart(*O))
      continue;
    ArrayRef<VerbCost> Costs = O->Costs;
    for (const VerbCost &C : Costs.take_front(MaxLines))
      Table.verb(*O, C);
    int64_t Rest = 0;
    for (const VerbCost &C : Costs.drop_front(std::min(MaxLines, Costs.size())))
      Rest += C.Ns;
    if (Rest)
      Table.line("  " + formatCount(static_cast<int64_t>(Costs.size() -
                                                         MaxLines)) +
                     " more",
                 "", formatDuration(Rest), shareOf(Rest, O->ElapsedNs), "");
  }
  Table.line("total", "", formatDuration(Total), "", "");
  return Out;
}

} // namespace culprit
