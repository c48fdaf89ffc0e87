//===- Keys.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include "Support/Error.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace culprit {

/// The value at \p Row as a word; equal values give equal words.
static uint64_t wordOf(const Column &Data, size_t Row) {
  switch (Data.type()) {
  case ColumnType::Int:
    return static_cast<uint64_t>(Data.ints()[Row]);
  case ColumnType::Bool:
    return Data.bools()[Row];
  case ColumnType::String:
    return Data.strings()[Row];
  default: {
    double Value = Data.doubles()[Row];
    return llvm::bit_cast<uint64_t>(Value == 0 ? 0.0 : Value); // -0 is 0
  }
  }
}

Expected<RowKeys> RowKeys::make(const Table &T, ArrayRef<std::string> Columns) {
  RowKeys Out;
  Out.Width = Columns.size();
  Out.Words.resize(T.rows() * Columns.size());
  Out.Present.assign(T.rows(), 1);
  for (size_t C = 0; C != Columns.size(); ++C) {
    Expected<const ColumnView *> View = T.column(Columns[C]);
    if (!View)
      return View.takeError();
    if ((*View)->type() == ColumnType::IntList)
      return failure("column '" + Columns[C] + "' in '" + T.name() +
                     "' is an int list and cannot be a key");
    Out.Types.push_back((*View)->type());
    const Column &Data = *(*View)->Data;
    for (size_t I = 0, E = T.rows(); I != E; ++I) {
      size_t Row = (*View)->row(I);
      if (Data.isNull(Row))
        Out.Present[I] = 0;
      else
        Out.Words[I * Out.Width + C] = wordOf(Data, Row);
    }
  }
  return Out;
}

KeyIndex::KeyIndex(const RowKeys &Keys)
    : Keys(Keys), Slots(NextPowerOf2(2 * Keys.rows() + 1)) {}

/// The slot that holds \p Key, or the empty one where it would go.
size_t KeyIndex::slotOf(ArrayRef<uint64_t> Key) const {
  uint64_t Hash = 0x9e3779b97f4a7c15;
  for (uint64_t Word : Key) {
    Hash = (Hash ^ Word) * 0xff51afd7ed558ccd;
    Hash ^= Hash >> 32;
  }
  size_t Mask = Slots.size() - 1, At = Hash & Mask;
  while (Slots[At] != 0 && Keys.key(First[Slots[At] - 1]) != Key)
    At = (At + 1) & Mask;
  return At;
}

uint32_t KeyIndex::add(size_t Row) {
  if (!Keys.present(Row))
    return None;
  size_t At = slotOf(Keys.key(Row));
  if (Slots[At] == 0) {
    First.push_back(static_cast<uint32_t>(Row));
    Slots[At] = static_cast<uint32_t>(First.size());
  }
  return Slots[At] - 1;
}

uint32_t KeyIndex::find(ArrayRef<uint64_t> Key) const {
  uint32_t Slot = Slots[slotOf(Key)];
  return Slot == 0 ? None : Slot - 1;
}

} // namespace culprit
