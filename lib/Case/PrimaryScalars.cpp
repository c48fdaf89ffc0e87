//===- PrimaryScalars.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/PrimaryScalars.h"
#include "Case/Schema.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Path.h"
#include <map>
#include <tuple>

using namespace llvm;

namespace culprit {

/// Rows that a log has of a series.
using Count = std::pair<uint32_t, size_t>;

/// The log that each segment belongs to, by its first segment. A resumed run
/// leaves several event files in one folder, each the sequel of the one
/// before: together they are one log.
static std::vector<uint32_t>
logsOf(ArrayRef<std::pair<size_t, size_t>> Segments,
       ArrayRef<InputSummary> Inputs) {
  std::map<StringRef, uint32_t> FirstEvents;
  std::vector<uint32_t> Out(Segments.size());
  for (uint32_t I = 0; I != Segments.size(); ++I) {
    const InputSummary &In = Inputs[Segments[I].second];
    Out[I] = I;
    if (In.Format == "TensorBoard events")
      Out[I] = FirstEvents.try_emplace(sys::path::parent_path(In.Path), I)
                   .first->second;
  }
  return Out;
}

/// The log with the most steps, and not rows: a text log says twice that the
/// loss of a step is not a number. Between equals a metrics file beats a text
/// log, whose steps may only be counted, and then the earlier file.
static uint32_t bestOf(ArrayRef<Count> Logs,
                       ArrayRef<std::pair<size_t, size_t>> Segments,
                       ArrayRef<InputSummary> Inputs) {
  const auto IsText = [&](const Count &C) {
    return Inputs[Segments[C.first].second].Format == "text log";
  };
  Count Best = Logs.front();
  for (const Count &C : Logs.drop_front())
    if (C.second != Best.second ? C.second > Best.second
                                : !IsText(C) && IsText(Best))
      Best = C;
  return Best.first;
}

void markPrimaryScalars(Table &Scalars,
                        ArrayRef<std::pair<size_t, size_t>> Segments,
                        ArrayRef<InputSummary> Inputs) {
  if (Scalars.empty())
    return;
  const size_t Rows = Scalars.rows();
  ArrayRef<ColumnView> Columns = Scalars.columns();
  const ColumnView &Run = Columns[scalars::run], &Rank = Columns[scalars::rank],
                   &Name = Columns[scalars::name],
                   &Step = Columns[scalars::step];

  std::vector<uint32_t> LogOf = logsOf(Segments, Inputs);
  DenseMap<std::tuple<StringId, int64_t, StringId>, uint32_t> Numbers;
  std::vector<SmallVector<Count, 2>> Logs; // of each series, in file order
  std::vector<uint32_t> SeriesOf(Rows), RowLog(Rows);
  std::vector<bool> Last(Rows, true); // of its step, in its log
  DenseMap<std::tuple<uint32_t, uint32_t, int64_t>, size_t> LastOfStep;
  LastOfStep.reserve(unsigned(Rows));
  for (size_t I = 0, Segment = 0; I != Rows; ++I) {
    while (Segment + 1 < Segments.size() && Segments[Segment + 1].first <= I)
      ++Segment;
    const auto Key = std::tuple(Run.getString(I), Rank.getInt(I),
                                Name.getString(I));
    auto [It, New] = Numbers.try_emplace(Key, uint32_t(Logs.size()));
    if (New)
      Logs.emplace_back();
    SeriesOf[I] = It->second;
    RowLog[I] = LogOf[Segment];
    auto [Before, First] = LastOfStep.try_emplace(
        std::tuple(SeriesOf[I], RowLog[I], Step.getInt(I)), I);
    if (!First) {
      Last[Before->second] = false;
      Before->second = I;
      continue;
    }
    SmallVector<Count, 2> &Known = Logs[It->second];
    auto *At = find_if(Known, [&](const Count &C) {
      return C.first == RowLog[I];
    });
    if (At == Known.end())
      Known.push_back({RowLog[I], 1});
    else
      ++At->second;
  }
  std::vector<uint32_t> Chosen;
  for (SmallVector<Count, 2> &Known : Logs) {
    llvm::sort(Known); // a series may begin late in an early log
    Chosen.push_back(bestOf(Known, Segments, Inputs));
  }

  auto Data = std::make_shared<Column>(ColumnType::Bool);
  for (size_t I = 0; I != Rows; ++I)
    Data->addBool(Last[I] && Chosen[SeriesOf[I]] == RowLog[I]);
  Scalars = Scalars.with("primary", std::move(Data));
}

} // namespace culprit
