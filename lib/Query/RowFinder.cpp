//===- RowFinder.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Query/RowFinder.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <numeric>

using namespace llvm;

namespace culprit {

bool RowFinder::hasKeys() const {
  return View.type() == ColumnType::Int || View.type() == ColumnType::Bool ||
         View.type() == ColumnType::String;
}

size_t RowFinder::rowsOfAValue() {
  if (SampledRows)
    return *SampledRows;
  // A sample in which nearly every value is new is one of unique values; else
  // its values are taken for all there are.
  size_t Sample = std::min<size_t>(Rows, 1024);
  std::vector<int64_t> Keys;
  for (size_t I = 0; I != Sample; ++I)
    Keys.push_back(keyAt(I * Rows / Sample));
  llvm::sort(Keys);
  size_t Distinct = std::unique(Keys.begin(), Keys.end()) - Keys.begin();
  size_t Values = Distinct * 10 >= Sample * 9 ? Rows : Distinct;
  SampledRows = std::max<size_t>(1, Values ? Rows / Values : 1);
  return *SampledRows;
}

bool RowFinder::ascending() {
  if (!Ascending) {
    Ascending = View.type() == ColumnType::Int;
    for (size_t I = 1; I < Rows && *Ascending; ++I)
      Ascending = keyAt(I - 1) <= keyAt(I);
  }
  return *Ascending;
}

void RowFinder::buildHash() {
  unsigned Bits = std::max(1u, Log2_64_Ceil(std::max<size_t>(Rows, 2)));
  HashShift = 64 - Bits;
  Heads.assign(size_t(1) << Bits, NoRow);
  Nexts.resize(Rows);
  // Backwards, so that a chain runs forwards.
  for (size_t Row = Rows; Row-- > 0;) {
    uint32_t &Head = Heads[bucketOf(keyAt(Row))];
    Nexts[Row] = Head;
    Head = static_cast<uint32_t>(Row);
  }
}

uint32_t RowFinder::firstOf(int64_t Key) {
  if (Heads.empty())
    buildHash();
  uint32_t Row = Heads[bucketOf(Key)];
  while (Row != NoRow && keyAt(Row) != Key)
    Row = Nexts[Row];
  return Row;
}

uint32_t RowFinder::nextOf(int64_t Key, uint32_t Row) const {
  do
    Row = Nexts[Row];
  while (Row != NoRow && keyAt(Row) != Key);
  return Row;
}

const RowIndex *RowFinder::byValue() {
  if (ascending())
    return nullptr;
  if (!ByValue) {
    std::vector<std::pair<int64_t, uint32_t>> Pairs;
    for (size_t Row = 0; Row != Rows; ++Row)
      if (int64_t Key = keyAt(Row); Key != NullInt)
        Pairs.push_back({Key, static_cast<uint32_t>(Row)});
    llvm::sort(Pairs);
    ByValue.emplace();
    ByValue->reserve(Pairs.size());
    for (auto &[Key, Row] : Pairs)
      ByValue->push_back(Row);
  }
  return &*ByValue;
}

std::pair<size_t, size_t> RowFinder::range(int64_t Low, int64_t High) {
  const RowIndex *Order = byValue();
  size_t Size = Order ? Order->size() : Rows;
  auto key = [&](size_t I) { return keyAt(Order ? (*Order)[I] : I); };
  // The first position whose value is at least, or beyond, a bound.
  auto bound = [&](int64_t Value, bool Beyond) {
    size_t From = 0, To = Size;
    while (From < To) {
      size_t Middle = From + (To - From) / 2;
      int64_t Key = key(Middle);
      if (Key < Value || (Beyond && Key == Value))
        From = Middle + 1;
      else
        To = Middle;
    }
    return From;
  };
  size_t First = bound(Low, /*Beyond=*/false);
  return {First, std::max(First, bound(High, /*Beyond=*/true))};
}

const RowIndex &RowFinder::grouped(const StringPool &Pool) {
  if (Grouped)
    return *Grouped;
  DenseMap<int64_t, uint32_t> Numbers;
  std::vector<uint32_t> Group(Rows), Ends;
  std::vector<int64_t> Keys; // of each group
  for (size_t Row = 0; Row != Rows; ++Row) {
    // The two keys that DenseMap keeps for itself are INT64_MAX and INT64_MIN;
    // the latter is "no value". Either goes by a neighbour nobody records.
    int64_t Key = keyAt(Row);
    Key = Key == NullInt                                ? NullInt + 2
          : Key == std::numeric_limits<int64_t>::max() ? NullInt + 3
                                                        : Key;
    auto [It, New] =
        Numbers.try_emplace(Key, static_cast<uint32_t>(Ends.size()));
    if (New) {
      Ends.push_back(0);
      Keys.push_back(keyAt(Row));
    }
    Group[Row] = It->second;
    ++Ends[It->second];
  }
  // SQLite 3.40 asks for groups where GROUP BY and ORDER BY agree and then
  // takes them for sorted, so they are.
  std::vector<uint32_t> Order(Ends.size());
  std::iota(Order.begin(), Order.end(), 0);
  bool Text = View.type() == ColumnType::String;
  llvm::sort(Order, [&](uint32_t A, uint32_t B) {
    if (!Text || Keys[A] == NullInt || Keys[B] == NullInt)
      return Keys[A] < Keys[B];
    return Pool.text(static_cast<StringId>(Keys[A])) <
           Pool.text(static_cast<StringId>(Keys[B]));
  });
  uint32_t Sum = 0;
  for (uint32_t G : Order)
    Sum += std::exchange(Ends[G], Sum);
  Grouped.emplace(Rows);
  for (size_t Row = 0; Row != Rows; ++Row)
    (*Grouped)[Ends[Group[Row]]++] = static_cast<uint32_t>(Row);
  return *Grouped;
}

} // namespace culprit
