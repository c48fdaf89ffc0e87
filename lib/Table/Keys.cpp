//===- Keys.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include "Support/Error.h"
#include "llvm/ADT/bit.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

/// The word of a row that has no key. No column has it as a word.
static constexpr uint64_t Absent = UINT64_MAX;

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

uint32_t WordIndex::find(uint64_t Word) const {
  if (Direct)
    return Word < Slots.size() ? Slots[Word] - 1 : None; // 0 - 1 is None
  return Slots[slotOf(Word)] - 1;
}

/// Calls \p Visit(row, value) for the rows of \p View that have a value, as
/// int64_t: of doubles the bits, equal ones for equal values.
template <typename Fn>
static void forEachValue(const ColumnView &View, size_t Rows, Fn Visit) {
  auto each = [&](auto Values, auto IsNull, auto Convert) {
    const uint32_t *Index = View.Rows ? View.Rows->data() : nullptr;
    for (size_t I = 0; I != Rows; ++I)
      if (auto Value = Values[Index ? Index[I] : I]; !IsNull(Value))
        Visit(I, static_cast<int64_t>(Convert(Value)));
  };
  auto same = [](auto Value) { return Value; };
  switch (View.type()) {
  case ColumnType::Int:
    return each(View.Data->ints(), [](int64_t V) { return V == NullInt; },
                same);
  case ColumnType::Bool:
    return each(View.Data->bools(), [](uint8_t V) { return V == NullBool; },
                same);
  case ColumnType::String:
    return each(View.Data->strings(),
                [](StringId V) { return V == NullString; }, same);
  default:
    return each(View.Data->doubles(), isNullDouble, [](double V) {
      return llvm::bit_cast<int64_t>(V == 0 ? 0.0 : V); // -0 is 0
    });
  }
}

static Expected<const ColumnView *> keyColumn(const Table &T, StringRef Name) {
  Expected<const ColumnView *> View = T.column(Name);
  if (View && (*View)->type() == ColumnType::IntList)
    return failure("column '" + Name + "' in '" + T.name() +
                   "' is an int list and cannot be a key");
  return View;
}

Expected<KeyIndex> KeyIndex::make(const Table &T,
                                  ArrayRef<std::string> Columns) {
  KeyIndex Out;
  size_t Rows = T.rows();
  std::vector<uint64_t> Words(Rows, 0), Own;
  uint64_t Last = 0;
  for (const std::string &Name : Columns) {
    Expected<const ColumnView *> View = keyColumn(T, Name);
    if (!View)
      return View.takeError();
    Step S{Name, (*View)->type(), 0, 0, {}, {}};
    int64_t Least = INT64_MAX, Most = INT64_MIN;
    forEachValue(**View, Rows, [&](size_t, int64_t Value) {
      Least = std::min(Least, Value);
      Most = std::max(Most, Value);
    });
    if (Least <= Most) {
      S.Base = Least;
      S.Last = static_cast<uint64_t>(Most) - static_cast<uint64_t>(Least);
    }
    // The bits of doubles may be any, and whole columns of times too wide to
    // leave room for others.
    bool First = Out.Steps.empty();
    if (S.Type == ColumnType::Double || (!First && S.Last >> 32 != 0)) {
      S.Values.emplace(S.Last, Rows);
      Own.assign(Rows, Absent);
      forEachValue(**View, Rows, [&](size_t I, int64_t Value) {
        Own[I] = S.Values->add(static_cast<uint64_t>(Value) -
                               static_cast<uint64_t>(S.Base));
      });
      S.Last = S.Values->size() ? S.Values->size() - 1 : 0;
    } else {
      Own.assign(Rows, Absent);
      forEachValue(**View, Rows, [&](size_t I, int64_t Value) {
        Own[I] = static_cast<uint64_t>(Value) - static_cast<uint64_t>(S.Base);
      });
    }
    if (First) {
      Words.swap(Own);
      Last = S.Last;
    } else {
      uint64_t Product;
      if (__builtin_mul_overflow(Last + 1, S.Last + 1, &Product)) {
        S.Before.emplace(Last, Rows);
        for (uint64_t &Word : Words)
          if (Word != Absent)
            Word = S.Before->add(Word);
        Last = S.Before->size() ? S.Before->size() - 1 : 0;
        Product = (Last + 1) * (S.Last + 1); // both below 2^32
      }
      for (size_t I = 0; I != Rows; ++I)
        Words[I] = Words[I] == Absent || Own[I] == Absent
                       ? Absent
                       : Words[I] * (S.Last + 1) + Own[I];
      Last = Product - 1;
    }
    Out.Steps.push_back(std::move(S));
  }

  Out.Index.emplace(Last, Rows);
  Out.Numbers.resize(Rows);
  for (size_t I = 0; I != Rows; ++I) {
    Out.Numbers[I] = Words[I] == Absent ? None : Out.Index->add(Words[I]);
    if (Out.Index->size() > Out.First.size())
      Out.First.push_back(static_cast<uint32_t>(I));
  }
  return Out;
}

Expected<RowIndex> KeyIndex::firstRowsFor(const Table &Other) const {
  size_t Rows = Other.rows();
  std::vector<uint64_t> Words(Rows, 0), Own;
  for (const Step &S : Steps) {
    Expected<const ColumnView *> View = keyColumn(Other, S.Column);
    if (!View)
      return View.takeError();
    Own.assign(Rows, Absent);
    if ((*View)->type() == S.Type)
      forEachValue(**View, Rows, [&](size_t I, int64_t Value) {
        uint64_t Word =
            static_cast<uint64_t>(Value) - static_cast<uint64_t>(S.Base);
        if (!S.Values)
          Own[I] = Word <= S.Last ? Word : Absent;
        else if (uint32_t Number = S.Values->find(Word); Number != None)
          Own[I] = Number;
      });
    if (&S == &Steps.front()) {
      Words.swap(Own);
      continue;
    }
    for (size_t I = 0; I != Rows; ++I) {
      uint64_t &Word = Words[I];
      if (S.Before && Word != Absent) {
        uint32_t Number = S.Before->find(Word);
        Word = Number == None ? Absent : Number;
      }
      Word = Word == Absent || Own[I] == Absent
                 ? Absent
                 : Word * (S.Last + 1) + Own[I];
    }
  }
  RowIndex Out(Rows);
  for (size_t I = 0; I != Rows; ++I) {
    uint32_t Number = Words[I] == Absent ? None : Index->find(Words[I]);
    Out[I] = Number == None ? None : First[Number];
  }
  return Out;
}

} // namespace culprit
