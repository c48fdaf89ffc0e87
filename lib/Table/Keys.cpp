//===- Keys.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Table/Keys.h"
#include "Support/Deadline.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>

using namespace llvm;

namespace culprit {

static constexpr uint64_t Absent = WordIndex::Absent;

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

/// Calls \p Use with the values of \p View, which is no column of doubles or
/// lists, as a pointer to its type and the index of the rows or null.
template <typename Fn> static void withValues(const ColumnView &View, Fn Use) {
  const uint32_t *Index = View.Rows ? View.Rows->data() : nullptr;
  switch (View.type()) {
  case ColumnType::Int:
    return Use(View.Data->ints().data(), NullInt, Index);
  case ColumnType::Bool:
    return Use(View.Data->bools().data(), NullBool, Index);
  default:
    return Use(View.Data->strings().data(), NullString, Index);
  }
}

/// How far ahead values are asked for, which costs little: alone, the
/// processor foresees too few lines of a column.
static constexpr size_t PrefetchRows = 128;

namespace {
/// The least and the largest of a column; Least is above Most where there is
/// no value.
struct Range {
  int64_t Least = INT64_MAX, Most = INT64_MIN;
};
} // namespace

static Range rangeOf(const ColumnView &View, size_t Rows) {
  Range Out;
  if (View.type() == ColumnType::Double) {
    forEachValue(View, Rows, [&](size_t, int64_t Value) {
      Out.Least = std::min(Out.Least, Value);
      Out.Most = std::max(Out.Most, Value);
    });
    return Out;
  }
  withValues(View, [&](auto *Values, auto Null, const uint32_t *Index) {
    int64_t Least = INT64_MAX, Most = INT64_MIN;
    auto extend = [&](auto Value) {
      if (Value == Null)
        return;
      Least = std::min(Least, static_cast<int64_t>(Value));
      Most = std::max(Most, static_cast<int64_t>(Value));
    };
    if (Index)
      for (size_t I = 0; I != Rows; ++I)
        extend(Values[Index[I]]);
    else
      for (size_t I = 0; I != Rows; ++I) {
        __builtin_prefetch(Values + I + PrefetchRows);
        extend(Values[I]);
      }
    Out = {Least, Most};
  });
  return Out;
}

static constexpr size_t KeyedRows = 1024, SampledRows = 8192;

/// Appends a column to the words of \p Count rows from \p First on: its place
/// in the range of \p Last + 1 values from \p Base. False if a value lies
/// outside, whose row is Absent.
static bool addColumn(const ColumnView &View, int64_t Base, uint64_t Last,
                      bool IsFirst, size_t First, size_t Count,
                      uint64_t *Words) {
  bool AllInside = true;
  withValues(View, [&](auto *Values, auto Null, const uint32_t *Index) {
    if (Index)
      Index += First;
    else
      Values += First;
    bool Inside = true;
    auto add = [&](size_t I, auto Value) {
      uint64_t Word =
          static_cast<uint64_t>(int64_t(Value)) - static_cast<uint64_t>(Base);
      bool IsNull = Value == Null, IsOutside = Word > Last;
      Inside &= IsNull | !IsOutside;
      uint64_t Before = IsFirst ? 0 : Words[I];
      Words[I] = IsNull || IsOutside || Before == Absent
                     ? Absent
                     : Before * (Last + 1) + Word;
    };
    if (Index)
      for (size_t I = 0; I != Count; ++I)
        add(I, Values[Index[I]]);
    else
      for (size_t I = 0; I != Count; ++I) {
        __builtin_prefetch(Values + I + PrefetchRows);
        add(I, Values[I]);
      }
    AllInside = Inside;
  });
  return AllInside;
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
  SmallVector<const ColumnView *, 4> Views;
  for (const std::string &Name : Columns) {
    Expected<const ColumnView *> View = keyColumn(T, Name);
    if (!View)
      return View.takeError();
    Views.push_back(*View);
    Out.Steps.push_back({Name, (*View)->type(), 0, 0, {}, {}});
  }
  // The first rows mostly tell the ranges of ranks, streams and names, and
  // save a look at all.
  bool All = Rows <= SampledRows;
  std::optional<uint64_t> Last =
      Out.setRanges(Views, std::min(Rows, SampledRows));
  if (Last)
    Out.Index.emplace(*Last, Rows);
  Out.Numbers.reserve(Rows);
  uint64_t Words[KeyedRows] = {};
  uint32_t Numbers[KeyedRows];
  TimeCheck Late;
  for (size_t First = 0; Last && First < Rows;) {
    size_t Count = std::min(KeyedRows, Rows - First);
    if (Late(Count))
      return outOfTime();
    bool Inside = true;
    for (size_t K = 0; K != Views.size(); ++K)
      Inside &= addColumn(*Views[K], Out.Steps[K].Base, Out.Steps[K].Last,
                          K == 0, First, Count, Words);
    if (!Inside && !All) {
      All = true;
      Last = Out.setRanges(Views, Rows);
      if (Last)
        Out.renumber(Views, *Last, Rows);
      continue;
    }
    Out.Index->addAll(ArrayRef(Words, Count), Numbers);
    Out.Numbers.insert(Out.Numbers.end(), Numbers, Numbers + Count);
    Out.noteFirstRows(First);
    First += Count;
  }
  if (!Last) {
    Out.setRanges(Views, Rows);
    if (!Out.addWide(Views, Rows))
      return outOfTime();
  }
  return Out;
}

std::optional<uint64_t>
KeyIndex::setRanges(ArrayRef<const ColumnView *> Views, size_t Rows) {
  bool AnyWide = false;
  uint64_t Last = 0;
  for (size_t K = 0; K != Views.size(); ++K) {
    Step &S = Steps[K];
    if (Range R = rangeOf(*Views[K], Rows); R.Least <= R.Most) {
      S.Base = R.Least;
      S.Last = static_cast<uint64_t>(R.Most) - static_cast<uint64_t>(R.Least);
    }
    // The bits of doubles may be any, and whole columns of times too wide to
    // leave room for others.
    AnyWide |= isWide(S, K == 0);
    uint64_t Product;
    if (K == 0)
      Last = S.Last;
    else if (__builtin_mul_overflow(Last + 1, S.Last + 1, &Product))
      AnyWide = true;
    else
      Last = Product - 1;
  }
  return AnyWide ? std::nullopt : std::optional(Last);
}

void KeyIndex::renumber(ArrayRef<const ColumnView *> Views, uint64_t Last,
                        size_t Rows) {
  Index.emplace(Last, Rows);
  for (uint32_t Row : First) {
    uint64_t Word = 0;
    for (size_t K = 0; K != Views.size(); ++K)
      addColumn(*Views[K], Steps[K].Base, Steps[K].Last, K == 0, Row, 1, &Word);
    Index->add(Word);
  }
}

bool KeyIndex::isWide(const Step &S, bool First) {
  return S.Type == ColumnType::Double || (!First && S.Last >> 32 != 0);
}

void KeyIndex::noteFirstRows(size_t From) {
  // Numbers are given in order: a new one is the number of those before.
  for (size_t I = From; First.size() != Index->size(); ++I)
    if (Numbers[I] == First.size())
      First.push_back(static_cast<uint32_t>(I));
}

bool KeyIndex::addWide(ArrayRef<const ColumnView *> Views, size_t Rows) {
  First.clear();
  Numbers.resize(Rows);
  std::vector<uint64_t> Words(Rows, 0), Own;
  uint64_t Last = 0;
  TimeCheck Late;
  for (size_t K = 0; K != Views.size(); ++K) {
    Step &S = Steps[K];
    bool IsFirst = K == 0;
    Own.assign(Rows, Absent);
    if (isWide(S, IsFirst)) {
      S.Values.emplace(S.Last, Rows);
      forEachValue(*Views[K], Rows, [&](size_t I, int64_t Value) {
        if (!Late())
          Own[I] = S.Values->add(static_cast<uint64_t>(Value) -
                                 static_cast<uint64_t>(S.Base));
      });
      S.Last = S.Values->size() ? S.Values->size() - 1 : 0;
    } else {
      forEachValue(*Views[K], Rows, [&](size_t I, int64_t Value) {
        Own[I] = static_cast<uint64_t>(Value) - static_cast<uint64_t>(S.Base);
      });
    }
    if (IsFirst) {
      Words.swap(Own);
      Last = S.Last;
    } else {
      uint64_t Product;
      if (__builtin_mul_overflow(Last + 1, S.Last + 1, &Product)) {
        S.Before.emplace(Last, Rows);
        for (uint64_t &Word : Words)
          if (Word != Absent && !Late())
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
    if (Late())
      return false; // before words that were left as they are become slots
  }

  Index.emplace(Last, Rows);
  for (size_t I = 0; I < Rows; I += KeyedRows) {
    size_t Count = std::min(KeyedRows, Rows - I);
    if (Late(Count))
      return false;
    Index->addAll(ArrayRef(Words).slice(I, Count), Numbers.data() + I);
  }
  noteFirstRows(0);
  return true;
}

Expected<RowIndex> KeyIndex::firstRowsFor(const Table &Other) const {
  size_t Rows = Other.rows();
  SmallVector<const ColumnView *, 4> Views; // null where the types differ
  bool AnyWide = false;
  for (const Step &S : Steps) {
    Expected<const ColumnView *> View = keyColumn(Other, S.Column);
    if (!View)
      return View.takeError();
    Views.push_back((*View)->type() == S.Type ? *View : nullptr);
    AnyWide |= S.Values || S.Before;
  }
  RowIndex Out(Rows, None);
  if (AnyWide) {
    if (!findWide(Views, Out))
      return outOfTime();
    return Out;
  }
  if (llvm::is_contained(Views, nullptr))
    return Out;
  uint64_t Words[KeyedRows] = {};
  TimeCheck Late;
  for (size_t Begin = 0; Begin < Rows; Begin += KeyedRows) {
    size_t Count = std::min(KeyedRows, Rows - Begin);
    if (Late(Count))
      return outOfTime();
    for (size_t K = 0; K != Views.size(); ++K)
      addColumn(*Views[K], Steps[K].Base, Steps[K].Last, K == 0, Begin, Count,
                Words);
    for (size_t I = 0; I != Count; ++I)
      if (Words[I] != Absent)
        if (uint32_t Number = Index->find(Words[I]); Number != None)
          Out[Begin + I] = First[Number];
  }
  return Out;
}

bool KeyIndex::findWide(ArrayRef<const ColumnView *> Views,
                        RowIndex &Out) const {
  size_t Rows = Out.size();
  std::vector<uint64_t> Words(Rows, 0), Own;
  TimeCheck Late;
  for (size_t K = 0; K != Views.size(); ++K) {
    const Step &S = Steps[K];
    Own.assign(Rows, Absent);
    if (Views[K])
      forEachValue(*Views[K], Rows, [&](size_t I, int64_t Value) {
        if (Late())
          return;
        uint64_t Word =
            static_cast<uint64_t>(Value) - static_cast<uint64_t>(S.Base);
        if (!S.Values)
          Own[I] = Word <= S.Last ? Word : Absent;
        else if (uint32_t Number = S.Values->find(Word); Number != None)
          Own[I] = Number;
      });
    if (K == 0) {
      Words.swap(Own);
      continue;
    }
    for (size_t I = 0; I != Rows && !Late(); ++I) {
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
  for (size_t I = 0; I != Rows && !Late(); ++I)
    if (Words[I] != Absent)
      if (uint32_t Number = Index->find(Words[I]); Number != None)
        Out[I] = First[Number];
  return !Late(0);
}

std::vector<RowIndex> KeyIndex::members() const {
  std::vector<uint32_t> Counts(size());
  for (uint32_t Number : Numbers)
    if (Number != None)
      ++Counts[Number];
  std::vector<RowIndex> Out(size());
  std::vector<uint32_t *> Ends(size());
  for (size_t I = 0; I != Out.size(); ++I) {
    Out[I].resize(Counts[I]);
    Ends[I] = Out[I].data();
  }
  for (size_t I = 0; I != Numbers.size(); ++I)
    if (Numbers[I] != None)
      *Ends[Numbers[I]]++ = static_cast<uint32_t>(I);
  return Out;
}

} // namespace culprit
