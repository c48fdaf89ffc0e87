//===- CallsOf.cpp ----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Case/CallsOf.h"
#include "Case/ProfileIndex.h"
#include "Table/Keys.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

static const std::string Keys[] = {"rank", "correlation"};

/// Where rows of a case table lie in a table made of them.
class PlacesOf {
public:
  explicit PlacesOf(const Table &T) {
    size_t Least = SIZE_MAX, Most = 0;
    for (size_t I = 0; I != T.rows(); ++I) {
      Least = std::min(Least, T.originRow(I));
      Most = std::max(Most, T.originRow(I));
    }
    if (T.empty())
      return;
    First = Least;
    Places.assign(Most - Least + 1, NoRow);
    for (size_t I = T.rows(); I-- != 0;) // of several the first stays
      Places[T.originRow(I) - First] = static_cast<uint32_t>(I);
  }

  uint32_t operator[](uint32_t Row) const {
    return Row < First || Row - First >= Places.size() ? NoRow
                                                       : Places[Row - First];
  }

private:
  size_t First = 0;
  RowIndex Places;
};

/// As callsOf, by the index that the case has; none where the tables are not
/// the case's or \p Calls lacks a call that is in it.
static std::optional<RowIndex> known(const Table &Work, const Table &Calls,
                                     const Case &Of) {
  for (const std::string &Key : Keys)
    if (!Work.keeps(Key, Of.table(TableId::gpu_work)) ||
        !Calls.keeps(Key, Of.table(TableId::host_calls)))
      return std::nullopt;
  PlacesOf Places(Calls);
  RowIndex Out(Work.rows(), NoRow);
  for (size_t I = 0; I != Work.rows(); ++I) {
    std::optional<uint32_t> Call = Of.profile().launchOf(
        static_cast<uint32_t>(Work.originRow(I)));
    if (Call && (Out[I] = Places[*Call]) == NoRow)
      return std::nullopt;
  }
  return Out;
}

Expected<RowIndex> callsOf(const Table &Work, const Table &Calls,
                           const Case *Of) {
  for (const std::string &Key : Keys)
    if (!Work.find(Key) || !Calls.find(Key))
      return RowIndex(Work.rows(), NoRow);
  if (Of)
    if (std::optional<RowIndex> Found = known(Work, Calls, *Of))
      return std::move(*Found);
  Expected<KeyIndex> Index = KeyIndex::make(Calls, Keys);
  if (!Index)
    return Index.takeError();
  return Index->firstRowsFor(Work);
}

} // namespace culprit
