//===- PrimaryScalars.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/PrimaryScalars.h"
#include "Case/Schema.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <map>
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {
/// What a log has of a series: its number, its steps, the first and the last.
struct Count {
  uint32_t Log;
  size_t Steps;
  int64_t First, Last;
};
} // namespace

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
static Count bestOf(ArrayRef<Count> Logs,
                    ArrayRef<std::pair<size_t, size_t>> Segments,
                    ArrayRef<InputSummary> Inputs) {
  const auto IsText = [&](const Count &C) {
    return Inputs[Segments[C.Log].second].Format == "text log";
  };
  Count Best = Logs.front();
  for (const Count &C : Logs.drop_front())
    if (C.Steps != Best.Steps ? C.Steps > Best.Steps
                              : !IsText(C) && IsText(Best))
      Best = C;
  return Best;
}

/// The log that begins a series, where \p Best does not: it has the first
/// step, and goes as far, so that it counts the same steps. A trainer prints
/// every tenth step to the terminal from the tenth on, and every 25th to a file
/// from the first. \p Best where there is none.
static uint32_t beginOf(ArrayRef<Count> Logs, const Count &Best) {
  if (Best.First > 1)
    for (const Count &C : Logs)
      if (C.First >= 0 && C.First <= 1 && C.Last >= Best.Last / 4 * 3 &&
          C.Last / 4 * 3 <= Best.Last)
        return C.Log;
  return Best.Log;
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
      return C.Log == RowLog[I];
    });
    const int64_t Now = Step.getInt(I);
    if (At == Known.end())
      Known.push_back({RowLog[I], 1, Now, Now});
    else
      *At = {At->Log, At->Steps + 1, std::min(At->First, Now),
             std::max(At->Last, Now)};
  }
  std::vector<Count> Chosen;
  std::vector<uint32_t> Begin;
  for (SmallVector<Count, 2> &Known : Logs) {
    // A series may begin late in an early log.
    llvm::sort(Known, [](const Count &A, const Count &B) {
      return A.Log < B.Log;
    });
    Chosen.push_back(bestOf(Known, Segments, Inputs));
    Begin.push_back(beginOf(Known, Chosen.back()));
  }

  auto Data = std::make_shared<Column>(ColumnType::Bool);
  for (size_t I = 0; I != Rows; ++I) {
    const Count &Best = Chosen[SeriesOf[I]];
    const bool Before = Step.getInt(I) < Best.First;
    Data->addBool(Last[I] &&
                  RowLog[I] == (Before ? Begin[SeriesOf[I]] : Best.Log));
  }
  Scalars = Scalars.with("primary", std::move(Data));
}

} // namespace culprit
