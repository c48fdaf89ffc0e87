//===- ExportRows.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Export/ExportRows.h"
#include "Export/Export.h"
#include <set>

namespace culprit {

std::vector<int64_t> profiledRanks(const Case &C) {
  std::set<int64_t> Out;
  constexpr std::pair<TableId, unsigned> Columns[] = {
      {TableId::gpu_work, gpu_work::rank},
      {TableId::host_calls, host_calls::rank},
      {TableId::host_ops, host_ops::rank},
      {TableId::ranges, ranges::rank}};
  for (auto [Id, Column] : Columns) {
    const Table &T = C.table(Id);
    int64_t Last = NullInt;
    for (size_t I = 0; I != T.rows(); ++I) {
      if (T.columns()[Column].isNull(I))
        continue;
      int64_t Rank = T.columns()[Column].getInt(I);
      if (Rank != Last)
        Out.insert(Rank);
      Last = Rank;
    }
  }
  return {Out.begin(), Out.end()};
}

} // namespace culprit
