//===- GroupFolds.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/GroupFolds.h"
#include "Support/Deadline.h"
#include "Table/Table.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// Rows at a time: their slots take 16 KiB, half of a core's first cache.
static constexpr size_t FoldedRows = 4096;
static constexpr size_t FewGroups = 1024;

GroupFolds::GroupFolds(ArrayRef<uint32_t> Numbers, size_t Groups)
    : Numbers(Numbers), Groups(Groups), Sets(Groups <= FewGroups ? 4 : 1),
      BlockSlots(FoldedRows) {}

size_t GroupFolds::add(Kind What, ArrayRef<int64_t> Values,
                       const uint32_t *Rows) {
  int64_t Start = What == Kind::Count || What == Kind::Sum ? 0 : NullInt;
  // One group more takes the rows of none.
  Folds.push_back(
      {What, Values, Rows, std::vector<int64_t>((Groups + 1) * Sets, Start)});
  return Folds.size() - 1;
}

static int64_t wrappingSum(int64_t A, int64_t B) {
  return static_cast<int64_t>(static_cast<uint64_t>(A) +
                              static_cast<uint64_t>(B));
}
static int64_t least(int64_t A, int64_t B) {
  return A == NullInt ? B : B == NullInt ? A : std::min(A, B);
}
static int64_t joined(GroupFolds::Kind What, int64_t A, int64_t B) {
  switch (What) {
  case GroupFolds::Kind::Count:
  case GroupFolds::Kind::Sum:
    return wrappingSum(A, B);
  case GroupFolds::Kind::Min:
    return least(A, B);
  case GroupFolds::Kind::Max:
    return std::max(A, B); // NullInt is the least integer
  }
  return A;
}

void GroupFolds::addBlock(Fold &F, size_t First, size_t Last) const {
  int64_t *Slots = F.Slots.data();
  const uint32_t *At = BlockSlots.data();
  auto each = [&](auto Join) {
    if (F.Rows)
      for (size_t I = First; I != Last; ++I, ++At)
        Slots[*At] = Join(Slots[*At], F.Values[F.Rows[I]]);
    else
      for (size_t I = First; I != Last; ++I, ++At)
        Slots[*At] = Join(Slots[*At], F.Values[I]);
  };
  switch (F.What) {
  case Kind::Count:
    for (size_t I = First; I != Last; ++I, ++At)
      ++Slots[*At];
    return;
  case Kind::Sum:
    return each([](int64_t A, int64_t B) {
      return wrappingSum(A, B == NullInt ? 0 : B);
    });
  case Kind::Min:
    return each(least);
  case Kind::Max:
    return each([](int64_t A, int64_t B) { return std::max(A, B); });
  }
}

void GroupFolds::run() {
  if (Folds.empty())
    return;
  TimeCheck Late;
  for (size_t First = 0; First != Numbers.size() && !Late(FoldedRows);) {
    size_t Last = std::min(First + FoldedRows, Numbers.size());
    const uint32_t None = static_cast<uint32_t>(Groups);
    uint32_t *Slot = BlockSlots.data();
    for (size_t I = First; I != Last; ++I)
      *Slot++ = Numbers[I] == NoRow ? None : Numbers[I];
    if (Sets == 4)
      for (size_t I = 0; I != Last - First; ++I)
        BlockSlots[I] = BlockSlots[I] * 4 + I % 4;
    for (Fold &F : Folds)
      addBlock(F, First, Last);
    First = Last;
  }
}

std::vector<int64_t> GroupFolds::take(size_t I) {
  Fold &F = Folds[I];
  for (size_t Group = 0; Sets > 1 && Group != Groups; ++Group) {
    int64_t All = F.Slots[Group * Sets];
    for (size_t Set = 1; Set != Sets; ++Set)
      All = joined(F.What, All, F.Slots[Group * Sets + Set]);
    F.Slots[Group] = All;
  }
  F.Slots.resize(Groups);
  return std::move(F.Slots);
}

} // namespace culprit
