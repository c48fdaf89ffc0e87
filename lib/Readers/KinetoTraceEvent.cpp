//===- KinetoTraceEvent.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceEvent.h"
#include "llvm/ADT/STLExtras.h"
#include <array>

using namespace llvm;

namespace culprit::kineto {

namespace {

struct Key {
  StringLiteral Text;
  Field Id;
};

constexpr Key EventKeys[] = {
#define EVENT_FIELD(ID, KEY) {KEY, Field::ID},
#include "Readers/KinetoTraceFields.def"
};

constexpr Key ArgKeys[] = {
#define ARG_FIELD(ID, KEY) {KEY, Field::ID},
#define ARG_ALIAS(ID, KEY) {KEY, Field::ID},
#include "Readers/KinetoTraceFields.def"
};

/// Keys by length, which tells most apart: a look-up is one or two compares.
template <size_t N> struct KeyTable {
  static constexpr size_t MaxLength = 24;
  std::array<Key, N> Keys;
  std::array<uint8_t, MaxLength + 2> First = {};

  constexpr explicit KeyTable(const Key (&From)[N])
      : Keys(std::to_array(From)) {
    // Insertion sort by length; std::sort moves, and StringLiteral is fussy.
    size_t Filled = 0;
    for (size_t Length = 0; Length <= MaxLength; ++Length) {
      First[Length] = Filled;
      for (const Key &K : From)
        if (K.Text.size() == Length)
          Keys[Filled++] = K;
    }
    First[MaxLength + 1] = Filled;
  }

  /// The field of \p Text, or Count.
  Field find(StringRef Text) const {
    if (Text.size() > MaxLength)
      return Field::Count;
    for (unsigned I = First[Text.size()], E = First[Text.size() + 1]; I != E;
         ++I)
      if (std::memcmp(Keys[I].Text.data(), Text.data(), Text.size()) == 0)
        return Keys[I].Id;
    return Field::Count;
  }
};

constexpr KeyTable EventTable(EventKeys);
constexpr KeyTable ArgTable(ArgKeys);

} // namespace

bool EventCursor::parseArgs(Event &Out) {
  const char *Open = L.Next;
  L.consume('{');
  for (;;) {
    L.skipSeparators();
    if (L.consume('}'))
      break;
    StringRef KeyText;
    Slice Value;
    if (L.atEnd() || *L.Next != '"' || !L.string(KeyText) || !L.consume(':') ||
        !L.value(Value))
      return false;
    if (Field F = ArgTable.find(KeyText); F != Field::Count)
      Out.set(F, Value.Text);
  }
  Out.set(Field::Args, StringRef(Open, L.Next - Open));
  return true;
}

bool EventCursor::parse(Event &Out) {
  L.consume('{');
  for (;;) {
    L.skipSeparators();
    if (L.consume('}'))
      return true;
    StringRef KeyText;
    if (L.atEnd() || *L.Next != '"' || !L.string(KeyText) || !L.consume(':'))
      return false;
    L.skipSpace();
    Field F = EventTable.find(KeyText);
    if (F == Field::Args && !L.atEnd() && *L.Next == '{') {
      if (!parseArgs(Out))
        return false;
      continue;
    }
    Slice Value;
    if (!L.value(Value))
      return false;
    if (F != Field::Count)
      Out.set(F, Value.Text);
  }
}

EventCursor::Step EventCursor::recover() {
  size_t Next = findEventStart(StringRef(Begin, L.End - Begin), Start + 1);
  bool RanOut = L.atEnd();
  if (Next != StringRef::npos) {
    L.Next = Begin + Next;
    return Step::Broken;
  }
  L.Next = L.End;
  return RanOut ? Step::Cut : Step::Broken;
}

EventCursor::Step EventCursor::next(Event &Out) {
  Out.clear();
  L.skipSeparators();
  Start = L.Next - Begin;
  if (L.atEnd())
    return Step::End;
  if (*L.Next == ']')
    return Step::Closed;
  if (*L.Next == '{' && parse(Out))
    return Step::Parsed;
  return recover();
}

size_t findEventStart(StringRef Text, size_t From) {
  static constexpr StringLiteral FirstKeys[] = {
      "ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "bp", "s"};
  auto SkipSpace = [&](size_t At) {
    while (At < Text.size() && static_cast<unsigned char>(Text[At]) <= ' ')
      ++At;
    return At;
  };
  auto At = [&](size_t I) { return I < Text.size() ? Text[I] : '\0'; };
  for (size_t Close = Text.find('}', From); Close != StringRef::npos;
       Close = Text.find('}', Close + 1)) {
    size_t Comma = SkipSpace(Close + 1);
    if (At(Comma) != ',')
      continue;
    size_t Open = SkipSpace(Comma + 1);
    if (At(Open) != '{')
      continue;
    size_t Quote = SkipSpace(Open + 1);
    if (At(Quote) != '"')
      continue;
    size_t EndQuote = Text.find('"', Quote + 1);
    if (EndQuote == StringRef::npos)
      return StringRef::npos;
    if (is_contained(FirstKeys, Text.slice(Quote + 1, EndQuote)) &&
        At(SkipSpace(EndQuote + 1)) == ':')
      return Open;
  }
  return StringRef::npos;
}

} // namespace culprit::kineto
