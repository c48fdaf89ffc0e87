//===- KinetoTracePairs.cpp - Spans of two events ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The phases B and E open and close spans, which nest on a thread. libkineto
// writes none, but tools that add their own spans to a trace do. A pair becomes
// what one event of the same category would have become, at the place of its
// second event.
//
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceRows.h"
#include "Readers/KinetoTraceValues.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace culprit::kineto {

static std::string threadOf(const Event &E) {
  return (E.text(Field::Pid) + "\n" + E.text(Field::Tid)).str();
}

/// An event of its own text, which is padded for the lexer.
static Event parseAlone(const std::string &Padded) {
  EventCursor Cursor(StringRef(Padded).drop_back(LexerPadding));
  Event E;
  Cursor.next(E);
  return E;
}

static std::string padded(StringRef Text) {
  return Text.str() + std::string(LexerPadding, '"');
}

void RowMaker::begin(const Event &E, StringRef Text) {
  if (!instant(E))
    return skip("its time is no number");
  Open[threadOf(E)].push_back({padded(Text), Out.Events, EventAt});
}

void RowMaker::end(const Event &E, StringRef Text) {
  std::optional<int64_t> Stop = instant(E);
  if (!Stop)
    return skip("its time is no number");
  auto It = Open.find(threadOf(E));
  if (It == Open.end() || It->second.empty()) {
    Out.Lone.push_back({padded(Text), Out.Events, EventAt});
    return;
  }
  LonePhase Begin = std::move(It->second.back());
  It->second.pop_back();
  Event Whole = parseAlone(Begin.Text);
  int64_t Start = *instant(Whole);
  // The end may bring arguments, or the name, that the begin lacks.
  for (unsigned I = 0; I != NumFields; ++I)
    if (Field F = static_cast<Field>(I); E.has(F) && !Whole.has(F))
      Whole.set(F, E.text(F));
  if (!Whole.has(Field::Name))
    return skip("it has no name");
  if (*Stop < Start)
    return skip("its duration is negative");
  dispatch(Whole, {Start, *Stop});
}

void RowMaker::collectLone() {
  for (auto &Entry : Open)
    llvm::move(Entry.second, std::back_inserter(Out.Lone));
  Open.clear();
  llvm::stable_sort(Out.Lone, [](const LonePhase &A, const LonePhase &B) {
    return A.Place < B.Place;
  });
}

void RowMaker::neverEnded(const LonePhase &Begin) {
  Event E = parseAlone(Begin.Text);
  std::optional<int64_t> Start = instant(E);
  if (!E.has(Field::Name) || !Start)
    return;
  const NameInfo &Name = Names.host(E.text(Field::Name));
  TableBuilder &Row = row(TableId::ranges, ranges::place);
  Row.setId(ranges::name, Name.Id);
  Row.setId(ranges::category,
            Name.Category != NullString ? Name.Category : AnnotationText);
  Row.set(ranges::start, *Start);
  set(Row, ranges::pid, looseNumber(E.text(Field::Pid)));
  set(Row, ranges::tid, looseNumber(E.text(Field::Tid)));
}

ChunkRows RowMaker::pairUp(ArrayRef<LonePhase> Lone) {
  Out = ChunkRows();
  Open.clear();
  for (const LonePhase &L : Lone) {
    Out.Events = L.Place;
    EventAt = L.Offset;
    Event E = parseAlone(L.Text);
    StringRef Text = StringRef(L.Text).drop_back(LexerPadding);
    if (E.text(Field::Phase) == "B") {
      begin(E, Text);
      continue;
    }
    size_t Before = Out.Lone.size();
    end(E, Text);
    if (Out.Lone.size() != Before)
      skip("it ends what never began");
  }
  Out.Lone.clear();
  collectLone();
  for (const LonePhase &L : Out.Lone) {
    Out.Events = L.Place;
    neverEnded(L);
  }
  return std::move(Out);
}

} // namespace culprit::kineto
