//===- KinetoTraceEvent.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceEvent.h"
#include "Readers/KinetoTraceWords.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace culprit::kineto {

namespace {

constexpr Word<Field> EventKeys[] = {
#define EVENT_FIELD(ID, KEY) {KEY, Field::ID},
#include "Readers/KinetoTraceFields.def"
};

constexpr Word<Field> ArgKeys[] = {
#define ARG_FIELD(ID, KEY) {KEY, Field::ID},
#define ARG_ALIAS(ID, KEY) {KEY, Field::ID},
#include "Readers/KinetoTraceFields.def"
};

constexpr WordTable EventTable(EventKeys, Field::Count);
constexpr WordTable ArgTable(ArgKeys, Field::Count);

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
    if (F == Field::Count)
      continue;
    Out.set(F, Value.Text);
    // Flow arrows are a third of the events, and nothing else of them is
    // asked for.
    if (F == Field::Phase && Value.Text.size() == 1 &&
        StringRef("stf").contains(Value.Text[0]))
      return L.leave();
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
    size_t EndQuote = Text.slice(Quote + 1, Quote + 8).find('"');
    if (EndQuote == StringRef::npos)
      continue;
    EndQuote += Quote + 1;
    if (is_contained(FirstKeys, Text.slice(Quote + 1, EndQuote)) &&
        At(SkipSpace(EndQuote + 1)) == ':')
      return Open;
  }
  return StringRef::npos;
}

size_t findLastEvent(StringRef Text, size_t From) {
  // Objects within an event may begin as events do, but have no phase. The
  // number of tries is bounded: nested candidates would each cost their rest.
  unsigned Tries = 0;
  static constexpr size_t Window = size_t(1) << 16, Overlap = 256;
  for (size_t End = Text.size(); End > From && Tries < 64;) {
    size_t Begin = End - std::min(Window, End - From);
    SmallVector<size_t> Starts;
    StringRef Upto = Text.take_front(std::min(End + Overlap, Text.size()));
    for (size_t At = Begin;
         (At = findEventStart(Upto, At)) != StringRef::npos; ++At)
      Starts.push_back(At);
    for (size_t At : reverse(Starts)) {
      EventCursor Cursor(Text.drop_front(At));
      Event E;
      if (Cursor.next(E) == EventCursor::Step::Parsed && E.has(Field::Phase))
        return At;
      if (++Tries == 64)
        break;
    }
    End = Begin;
  }
  return StringRef::npos;
}

} // namespace culprit::kineto
