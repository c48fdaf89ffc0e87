//===- Launches.cpp - Device work with its launch calls ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/Derive.h"
#include "Case/ProfileIndex.h"
#include "Table/RunSort.h"
#include <functional>
#include <queue>

using namespace llvm;

namespace culprit {

void deriveLaunches(const Case &C, const ProfileIndex &Index,
                    TableBuilder &Into) {
  const Table &Work = C.table(TableId::gpu_work);
  const Table &Calls = C.table(TableId::host_calls);
  Into.reserve(Work.rows());
  for (const auto &[Key, Spans] : Index.work()) {
    struct Launch {
      int64_t At;
      const Span *What;
      uint32_t Call;
    };
    std::vector<Launch> Launches;
    Launches.reserve(Spans.size());
    for (const Span &S : Spans)
      if (std::optional<uint32_t> Call = Index.launchOf(S.Row))
        Launches.push_back({Index.launchTime(S.Row), &S, *Call});
    sortRuns(Launches, [](const Launch &A, const Launch &B) {
      return A.At < B.At;
    });
    // Ends of the work launched so far that may still be queued or running.
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>>
        Open;
    for (const Launch &L : Launches) {
      while (!Open.empty() && Open.top() <= L.At)
        Open.pop();
      uint32_t Row = L.What->Row;
      Into.addRow();
      Into.set(launches::work, static_cast<int64_t>(Row));
      Into.set(launches::call, static_cast<int64_t>(L.Call));
      Into.setId(launches::name, Work.columns()[gpu_work::name].getString(Row));
      Into.set(launches::rank, Key.first);
      Into.set(launches::device, Key.second);
      Into.set(launches::stream, intAt(Work, gpu_work::stream, Row));
      Into.set(launches::pid, intAt(Calls, host_calls::pid, L.Call));
      Into.set(launches::tid, intAt(Calls, host_calls::tid, L.Call));
      Into.set(launches::start, L.At);
      Into.set(launches::stop, L.What->Start);
      Into.set(launches::dur, L.What->Start - L.At);
      Into.set(launches::call_dur, intAt(Calls, host_calls::dur, L.Call));
      Into.set(launches::queued, static_cast<int64_t>(Open.size()));
      Into.set(launches::ended, L.What->Stop);
      Into.setId(launches::kind, Work.columns()[gpu_work::kind].getString(Row));
      Into.setId(launches::call_name,
                 Calls.columns()[host_calls::name].getString(L.Call));
      Open.push(L.What->Stop);
    }
  }
}

} // namespace culprit
