//===- WordIndex.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// An array of this many slots a row, mostly empty, is still faster than a
/// hash: ids rise with the rows, and so neighbours are asked for in turn.
static constexpr uint64_t SlotsPerRow = 8;
static constexpr uint64_t FewSlots = 4096;

WordIndex::WordIndex(uint64_t Last, size_t Expected)
    : Direct(Last < std::max<uint64_t>(FewSlots, SlotsPerRow * Expected)),
      Slots(Direct ? Last + 1 : FewSlots) {}

/// The slot that holds \p Word, or the empty one where it would go.
size_t WordIndex::slotOf(uint64_t Word) const {
  uint64_t Hash = Word * 0x9e3779b97f4a7c15;
  Hash ^= Hash >> 32;
  size_t Mask = Slots.size() - 1, At = Hash & Mask;
  while (Slots[At] != 0 && Words[Slots[At] - 1] != Word)
    At = (At + 1) & Mask;
  return At;
}

void WordIndex::grow() {
  size_t Size = 4 * Slots.size();
  Slots.assign(Size, 0);
  for (uint32_t I = 0; I != Count; ++I)
    Slots[slotOf(Words[I])] = I + 1;
}

uint32_t WordIndex::add(uint64_t Word) {
  size_t At = Direct ? Word : slotOf(Word);
  if (Slots[At] != 0)
    return Slots[At] - 1;
  Slots[At] = ++Count;
  if (!Direct) {
    Words.push_back(Word);
    if (2 * size_t(Count) > Slots.size())
      grow();
  }
  return Count - 1;
}

void WordIndex::addAll(ArrayRef<uint64_t> Added, uint32_t *Numbers) {
  if (!Direct) {
    for (size_t I = 0; I != Added.size(); ++I)
      Numbers[I] = Added[I] == Absent ? None : add(Added[I]);
    return;
  }
  uint32_t *Known = Slots.data();
  for (size_t I = 0; I != Added.size(); ++I) {
    if (LLVM_UNLIKELY(Added[I] == Absent)) {
      Numbers[I] = None;
      continue;
    }
    uint32_t &Slot = Known[Added[I]];
    if (LLVM_UNLIKELY(Slot == 0))
      Slot = ++Count;
    Numbers[I] = Slot - 1;
  }
}

uint32_t WordIndex::find(uint64_t Word) const {
  if (Direct)
    return Word < Slots.size() ? Slots[Word] - 1 : None; // 0 - 1 is None
  return Slots[slotOf(Word)] - 1;
}

} // namespace culprit
