//===- Locate.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Locate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

std::optional<std::string> evidenceSql(const EvidenceRef &E, size_t Most) {
  if (E.Computed || E.Rows.empty() || !findTable(E.Table))
    return std::nullopt;
  std::string Out = "SELECT rowid, * FROM " + E.Table + " WHERE rowid IN (";
  // First and last of a series may be one row.
  SmallSetVector<size_t, 8> Rows(E.Rows.begin(), E.Rows.end());
  for (auto [I, Row] : enumerate(Rows.getArrayRef().take_front(Most)))
    Out += (I ? ", " : "") + std::to_string(Row);
  return Out + ")";
}

std::string ViewerRange::text() const {
  auto time = [&](int64_t Ns) {
    if (Unit != "us")
      return std::to_string(Ns) + " ns";
    bool Negative = Ns < 0;
    uint64_t Size = Negative ? -static_cast<uint64_t>(Ns)
                             : static_cast<uint64_t>(Ns);
    return formatv("{0}{1}.{2} us", Negative ? "-" : "", Size / 1000,
                   formatv("{0,0+3}", Size % 1000).str())
        .str();
  };
  return StartNs == StopNs ? time(StartNs)
                           : time(StartNs) + " to " + time(StopNs);
}

/// The input a row came from; of a derived table the only one with a clock.
static const InputSummary *inputOf(const Case &C, TableId Id, size_t Row) {
  std::string Path = C.cite(Id, Row).Path;
  const InputSummary *Found = nullptr;
  for (const InputSummary &I : C.inputs()) {
    if (!I.Clock.known() || (!Path.empty() && I.Path != Path))
      continue;
    if (Found && Path.empty())
      return nullptr; // which one?
    Found = &I;
  }
  return Found;
}

std::optional<ViewerRange> viewerRange(const Case &C, TableId Id, size_t Row) {
  const Table &T = C.table(Id);
  std::optional<int64_t> Start, Stop;
  for (StringRef Name : {"start", "at", "stop"})
    if (const ColumnView *View = T.find(Name);
        View && View->type() == ColumnType::Int && !View->isNull(Row))
      (Name == "stop" ? Stop : Start) = View->getInt(Row);
  const InputSummary *Input = inputOf(C, Id, Row);
  if (!Start || !Input)
    return std::nullopt;
  return ViewerRange{Input->Path, Input->Clock.Unit,
                     Input->Clock.toFileNs(*Start),
                     Input->Clock.toFileNs(Stop.value_or(*Start))};
}

} // namespace culprit
