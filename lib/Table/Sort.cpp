//===- Sort.cpp - Rows in order ---------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Each key becomes a number without a sign whose order is the one wanted, its
// nulls included, in as few bits as the range of its values needs. As many keys
// as fit are packed into a word; several words are sorted stably one after
// another, the last keys first. What is sorted are words of 8 bytes whatever
// the types, with the number of the row as the lowest bits: where a key and
// that do not fit, by the lower bits of the key first.
//
// Few runs are merged. What is in no order is sorted by radix, several times
// faster than by comparison.
//
//===----------------------------------------------------------------------===//

#include "Support/Deadline.h"
#include "Support/Error.h"
#include "Table/RunSort.h"
#include "Table/Table.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

using namespace llvm;

namespace culprit {

namespace {

/// A key of every row, so that the order of the words is that of the rows.
struct KeyWords {
  std::vector<uint64_t> Words;
  unsigned Bits = 0; ///< That the largest word takes.
};

} // namespace

static unsigned bitsOf(uint64_t Most) {
  return Most == 0 ? 0 : 64 - llvm::countl_zero(Most);
}

// Words of one key ----------------------------------------------------------//

// Numbers without a sign in the order of the values. Those from SpecialFrom on
// come after all others in either direction: NaN, and last what is null.
static constexpr uint64_t Nothing = UINT64_MAX;
template <typename T> static constexpr uint64_t SpecialFrom = Nothing;
template <> constexpr uint64_t SpecialFrom<double> = Nothing - 1;

static uint64_t ordered(int64_t Value) {
  // NullInt, the least, wraps.
  return (static_cast<uint64_t>(Value) ^ uint64_t(1) << 63) - 1;
}

static uint64_t ordered(double Value) {
  if (std::isnan(Value))
    return isNullDouble(Value) ? Nothing : SpecialFrom<double>;
  uint64_t Bits = llvm::bit_cast<uint64_t>(Value == 0 ? 0.0 : Value); // no -0
  return Bits >> 63 ? ~Bits : Bits | uint64_t(1) << 63;
}

static uint64_t ordered(uint8_t Value) {
  return Value == NullBool ? Nothing : Value;
}

/// Packs the numbers that \p Get gives for each row: those below \p Special
/// from the least (\p Descending: from the largest) at 0, then the others.
template <typename Fn>
static KeyWords packed(size_t Rows, bool Descending, uint64_t Special, Fn Get) {
  uint64_t Least = Nothing, Most = 0, Last = 0;
  for (size_t I = 0; I != Rows; ++I) {
    uint64_t Value = Get(I);
    if (LLVM_UNLIKELY(Value >= Special)) {
      Last = std::max(Last, Value);
      continue;
    }
    Least = std::min(Least, Value);
    Most = std::max(Most, Value);
  }
  if (Least > Most)
    Least = Most = 0;
  uint64_t Range = Most - Least; // below Special, so that both sums fit
  KeyWords Out;
  Out.Bits = bitsOf(Last == 0 ? Range : Range + 1 + (Last - Special));
  Out.Words.resize(Rows);
  for (size_t I = 0; I != Rows; ++I) {
    uint64_t Value = Get(I);
    Out.Words[I] = Value >= Special ? Range + 1 + (Value - Special)
                   : Descending     ? Most - Value
                                    : Value - Least;
  }
  return Out;
}

template <typename T>
static KeyWords numberWords(const ColumnView &View, ArrayRef<T> Values,
                            size_t Rows, bool Descending) {
  if (!View.Rows)
    return packed(Rows, Descending, SpecialFrom<T>,
                  [&](size_t I) { return ordered(Values[I]); });
  const uint32_t *Index = View.Rows->data();
  return packed(Rows, Descending, SpecialFrom<T>,
                [&](size_t I) { return ordered(Values[Index[I]]); });
}

/// Numbers the texts of a column in their order.
static KeyWords textWords(const ColumnView &View, const StringPool &Pool,
                          size_t Rows, bool Descending) {
  // An array over the pool, where it is not much larger than the table.
  bool Small = Pool.size() / 8 <= Rows + 512;
  std::vector<uint32_t> Places(Small ? Pool.size() : 0, 0);
  DenseMap<StringId, uint32_t> Map;
  auto place = [&](StringId Id) -> uint32_t & {
    return Small ? Places[Id] : Map[Id];
  };
  std::vector<StringId> Ids;
  for (size_t I = 0; I != Rows; ++I)
    if (StringId Id = View.getString(I); Id != NullString)
      if (uint32_t &Place = place(Id); Place == 0) {
        Place = 1;
        Ids.push_back(Id);
      }
  sortInPieces(Ids, [&](StringId A, StringId B) {
    return Pool.text(A) < Pool.text(B);
  });
  for (size_t I = 0; I != Ids.size(); ++I)
    place(Ids[I]) = static_cast<uint32_t>(I);
  return packed(Rows, Descending, Nothing, [&](size_t I) {
    StringId Id = View.getString(I);
    return Id == NullString ? Nothing : uint64_t(place(Id));
  });
}

/// Numbers the lists of a column in their order.
static KeyWords listWords(const ColumnView &View, size_t Rows,
                          bool Descending) {
  auto list = [&](size_t I) { return View.Data->list(View.row(I)); };
  RowIndex Sorted(Rows);
  std::iota(Sorted.begin(), Sorted.end(), 0);
  sortInPieces(Sorted, [&](uint32_t A, uint32_t B) {
    ArrayRef<int64_t> X = list(A), Y = list(B);
    return std::lexicographical_compare(X.begin(), X.end(), Y.begin(), Y.end());
  });
  std::vector<uint64_t> Places(Rows);
  for (size_t I = 1; I < Rows; ++I)
    Places[Sorted[I]] =
        Places[Sorted[I - 1]] + (list(Sorted[I]) != list(Sorted[I - 1]));
  return packed(Rows, Descending, Nothing, [&](size_t I) {
    return list(I).empty() ? Nothing : Places[I];
  });
}

static KeyWords keyWords(const ColumnView &View, const StringPool &Pool,
                         size_t Rows, bool Descending) {
  switch (View.type()) {
  case ColumnType::Int:
    return numberWords(View, View.Data->ints(), Rows, Descending);
  case ColumnType::Double:
    return numberWords(View, View.Data->doubles(), Rows, Descending);
  case ColumnType::Bool:
    return numberWords(View, View.Data->bools(), Rows, Descending);
  case ColumnType::String:
    return textWords(View, Pool, Rows, Descending);
  case ColumnType::IntList:
    break;
  }
  return listWords(View, Rows, Descending);
}

// Sorting words -------------------------------------------------------------//

/// Sorts by bits [\p Low, \p High) of the words; those below rise already.
static void radixSort(std::vector<uint64_t> &Words, unsigned Low,
                      unsigned High) {
  constexpr unsigned MostBits = 11;
  unsigned Passes = (High - Low + MostBits - 1) / MostBits;
  std::vector<uint64_t> Other(Words.size());
  for (unsigned Pass = 0; Pass != Passes && !timeIsUp(); ++Pass) {
    unsigned Bits = (High - Low + (Passes - Pass) - 1) / (Passes - Pass);
    uint64_t Mask = (uint64_t(1) << Bits) - 1;
    std::array<size_t, size_t(1) << MostBits> Ends = {};
    for (uint64_t Word : Words)
      ++Ends[Word >> Low & Mask];
    size_t Sum = 0;
    for (size_t &End : Ends)
      Sum += std::exchange(End, Sum);
    for (uint64_t Word : Words)
      Other[Ends[Word >> Low & Mask]++] = Word;
    Words.swap(Other);
    Low += Bits;
  }
}

/// Sorts words of which bits [\p Low, \p High) are keys and those below rise.
static void sortWords(std::vector<uint64_t> &Words, unsigned Low,
                      unsigned High) {
  if (mergeRuns(Words, std::less<>()))
    return;
  constexpr size_t RadixPays = 2048;
  if (Words.size() >= RadixPays)
    radixSort(Words, Low, High);
  else
    std::sort(Words.begin(), Words.end());
}

/// Sorts \p Rows, which are in some order, stably by bits [\p Low, \p High) of
/// their words.
static void sortBy(const KeyWords &Keys, unsigned Low, unsigned High,
                   RowIndex &Rows) {
  size_t Count = Rows.size();
  // The place among the rows so far breaks ties, in the lowest bits.
  unsigned RowBits = bitsOf(Count);
  if (High - Low + RowBits > 64) {
    if (mergeRuns(Rows, [&](uint32_t A, uint32_t B) {
          return Keys.Words[A] < Keys.Words[B];
        }))
      return;
    sortBy(Keys, Low, High - (64 - RowBits), Rows);
    sortBy(Keys, High - (64 - RowBits), High, Rows);
    return;
  }
  uint64_t KeyMask = High - Low == 64 ? UINT64_MAX
                                      : (uint64_t(1) << (High - Low)) - 1;
  std::vector<uint64_t> Words(Count);
  for (size_t I = 0; I != Count; ++I)
    Words[I] = (Keys.Words[Rows[I]] >> Low & KeyMask) << RowBits | I;
  sortWords(Words, RowBits, RowBits + High - Low);
  uint64_t Mask = (uint64_t(1) << RowBits) - 1;
  RowIndex Before = std::exchange(Rows, RowIndex(Count));
  for (size_t I = 0; I != Count; ++I)
    Rows[I] = Before[Words[I] & Mask];
}

/// Whether the rows are in order already, without a copy: what most tables
/// that are sorted by time are.
static bool isSorted(const ColumnView &View, size_t Rows) {
  ArrayRef<int64_t> Values = View.Data->ints();
  uint64_t Last = 0;
  for (size_t I = 0; I != Rows; ++I) {
    uint64_t Value = ordered(Values[View.row(I)]);
    if (Value < Last)
      return false;
    Last = Value;
  }
  return true;
}

Expected<Table> Table::sort(ArrayRef<SortKey> Keys) const {
  SmallVector<const ColumnView *, 4> Columns;
  for (const SortKey &Key : Keys) {
    Expected<const ColumnView *> View = column(Key.Column);
    if (!View)
      return View.takeError();
    Columns.push_back(*View);
  }
  if (Keys.size() == 1 && !Keys[0].Descending &&
      Columns[0]->type() == ColumnType::Int && isSorted(*Columns[0], NumRows))
    return *this;

  // As many keys as fit go into one word, the first key highest.
  SmallVector<KeyWords, 2> Groups;
  for (size_t K = 0; K != Keys.size(); ++K) {
    KeyWords Next =
        keyWords(*Columns[K], *Pool, NumRows, Keys[K].Descending);
    if (Groups.empty() || Groups.back().Bits + Next.Bits > 64 ||
        Next.Bits == 64) {
      Groups.push_back(std::move(Next));
      continue;
    }
    KeyWords &Last = Groups.back();
    for (size_t I = 0; I != NumRows; ++I)
      Last.Words[I] = Last.Words[I] << Next.Bits | Next.Words[I];
    Last.Bits += Next.Bits;
  }

  auto inOrder = [&](size_t A, size_t B) {
    for (const KeyWords &Group : Groups)
      if (Group.Words[A] != Group.Words[B])
        return Group.Words[A] < Group.Words[B];
    return true;
  };
  size_t Risen = 1;
  while (Risen < NumRows && inOrder(Risen - 1, Risen))
    ++Risen;
  if (Risen >= NumRows)
    return *this;

  RowIndex Rows(NumRows);
  std::iota(Rows.begin(), Rows.end(), 0);
  for (const KeyWords &Group : llvm::reverse(Groups))
    sortBy(Group, 0, Group.Bits, Rows);
  return take(std::move(Rows));
}

// The largest ---------------------------------------------------------------//

/// The \p N rows with the largest of \p Values, largest and first ones first.
template <typename T, typename IsNull>
static RowIndex largest(const ColumnView &View, ArrayRef<T> Values,
                        size_t Rows, size_t N, IsNull Null) {
  using Kept = std::pair<T, uint32_t>;
  auto Before = [](const Kept &A, const Kept &B) {
    return A.first != B.first ? A.first > B.first : A.second < B.second;
  };
  const uint32_t *Index = View.Rows ? View.Rows->data() : nullptr;
  std::vector<Kept> Out;
  if (N == 0)
    return {};
  // Few are kept as a heap with the least on top, and of many all rows; where
  // those lie between, most rows would move the heap.
  bool Few = N < Rows / 64;
  Out.reserve(Few ? N : Rows);
  for (size_t I = 0; I != Rows; ++I) {
    T Value = Values[Index ? Index[I] : I];
    if (Few && Out.size() == N) {
      if (!(Value > Out.front().first)) // later rows lose ties
        continue;
      std::pop_heap(Out.begin(), Out.end(), Before);
      Out.back() = {Value, static_cast<uint32_t>(I)};
      std::push_heap(Out.begin(), Out.end(), Before);
    } else if (!Null(Value)) {
      Out.push_back({Value, static_cast<uint32_t>(I)});
      if (Few && Out.size() == N)
        std::make_heap(Out.begin(), Out.end(), Before);
    }
  }
  if (N < Out.size()) {
    std::nth_element(Out.begin(), Out.begin() + static_cast<ptrdiff_t>(N),
                     Out.end(), Before);
    Out.resize(N);
  }
  sortInPieces(Out, Before);
  RowIndex Result;
  Result.reserve(Out.size());
  for (const Kept &K : Out)
    Result.push_back(K.second);
  return Result;
}

Expected<Table> Table::top(size_t N, StringRef By) const {
  Expected<const ColumnView *> Found = column(By);
  if (!Found)
    return Found.takeError();
  const ColumnView &View = **Found;
  switch (View.type()) {
  case ColumnType::Int:
    return take(largest(View, View.Data->ints(), NumRows, N,
                        [](int64_t V) { return V == NullInt; }));
  case ColumnType::Double:
    return take(largest(View, View.Data->doubles(), NumRows, N,
                        [](double V) { return std::isnan(V); }));
  case ColumnType::Bool: {
    // NullBool is the largest of its type.
    Expected<std::vector<double>> Values = numbers(By);
    if (!Values)
      return Values.takeError();
    ColumnView Plain = {"", View.Data, nullptr};
    return take(largest(Plain, ArrayRef<double>(*Values), NumRows, N,
                        [](double V) { return std::isnan(V); }));
  }
  default:
    return failure("top: column '" + By + "' in '" + Name + "' is " +
                   toString(View.type()) + ", not a number");
  }
}

} // namespace culprit
