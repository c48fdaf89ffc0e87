//===- KinetoTraceRows.cpp --------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceRows.h"
#include "Readers/KinetoTraceWords.h"

using namespace llvm;

namespace culprit::kineto {

namespace {

/// What an event of a category becomes. Kineto renamed its categories in
/// 2022; both spellings are in use.
enum class Category {
  Ignored,
  Kernel,
  Copy,
  Set,
  Call,
  Sync,
  Operator,
  Annotation,
  Python,
  Counters,
  Overhead,
  Unknown
};

} // namespace

static constexpr Word<Category> Categories[] = {
    {"cpu_op", Category::Operator},
    {"Operator", Category::Operator},
    {"python_function", Category::Python},
    {"cuda_runtime", Category::Call},
    {"Runtime", Category::Call},
    {"kernel", Category::Kernel},
    {"Kernel", Category::Kernel},
    {"gpu_memcpy", Category::Copy},
    {"Memcpy", Category::Copy},
    {"gpu_memset", Category::Set},
    {"Memset", Category::Set},
    {"user_annotation", Category::Annotation},
    {"cuda_sync", Category::Sync},
    {"cuda_profiler_range", Category::Counters},
    {"overhead", Category::Overhead},
    // The profiler's own span, and copies of annotations on the device's
    // time line, are no work.
    {"Trace", Category::Ignored},
    {"gpu_user_annotation", Category::Ignored},
};
static constexpr WordTable CategoryTable(Categories, Category::Unknown);

static Category categoryOf(StringRef Text) {
  Category Known = CategoryTable.find(Text);
  if (Known == Category::Unknown &&
      (Text.ends_with("_runtime") || Text.ends_with("_driver")))
    return Category::Call; // cuda_driver, hip_runtime, xpu_runtime, ...
  return Known;
}

std::optional<TimeBase> findTimeBase(StringRef Text) {
  EventCursor Cursor(Text);
  Event E;
  for (;;) {
    switch (Cursor.next(E)) {
    case EventCursor::Step::Parsed:
      break;
    case EventCursor::Step::Broken:
      continue;
    default:
      return std::nullopt;
    }
    StringRef Phase = E.text(Field::Phase);
    if (Phase != "X" && Phase != "B" && Phase != "i" && Phase != "I" &&
        Phase != "C")
      continue;
    // Microseconds by the format's definition. What would be later than the
    // year 5000 in them was written in nanoseconds.
    TimeBase Base;
    StringRef Ts = E.text(Field::Ts);
    if (std::optional<int64_t> Raw = scaledDecimal(Ts, 0);
        Raw && *Raw > 100000000000000000)
      Base.Scale = 0;
    if (std::optional<int64_t> First = scaledDecimal(Ts, Base.Scale)) {
      Base.BaseNs = *First;
      return Base;
    }
  }
}

RowMaker::RowMaker(StringPool &Pool, TimeBase Time)
    : Pool(Pool), Time(Time), Names(Pool), KernelText(Pool.intern("kernel")),
      CopyText(Pool.intern("copy")), SetText(Pool.intern("set")),
      OperatorText(Pool.intern("operator")), PythonText(Pool.intern("python")),
      AnnotationText(Pool.intern("annotation")),
      OverheadText(Pool.intern("overhead")) {}

ChunkRows RowMaker::parse(const Chunk &C) {
  Out = ChunkRows();
  EventCursor Cursor(C.text());
  Event E;
  for (;;) {
    EventCursor::Step Step = Cursor.next(E);
    EventAt = C.Offset + Cursor.start();
    if (Step == EventCursor::Step::Parsed) {
      StringRef Phase = E.text(Field::Phase);
      if (Phase == "B")
        begin(E, Cursor.text());
      else if (Phase == "E")
        end(E, Cursor.text());
      else
        event(E);
    } else if (Step == EventCursor::Step::Broken ||
               (Step == EventCursor::Step::Cut && !C.Open)) {
      skip("it is malformed");
    } else {
      if (Step == EventCursor::Step::Cut)
        Out.CutAt = EventAt;
      if (Step == EventCursor::Step::Closed) {
        Out.SawClose = true;
        Out.Tail = C.text().substr(Cursor.position()).str();
      }
      break;
    }
    ++Out.Events;
  }
  collectLone();
  return std::move(Out);
}

void RowMaker::skip(const char *Reason) {
  if (Out.Skipped++ == 0) {
    Out.FirstSkipped = Out.Events;
    Out.FirstSkippedAt = EventAt;
    Out.FirstReason = Reason;
  }
}

void RowMaker::event(const Event &E) {
  StringRef Phase = E.text(Field::Phase);
  if (Phase == "X")
    return complete(E);
  // Flows (s, t, f) only draw arrows: correlation ids say the same.
  if (Phase == "i" || Phase == "I") {
    if (E.text(Field::Name) == "[memory]")
      memory(E);
  } else if (Phase == "C") {
    counter(E);
  } else if (Phase.empty()) {
    skip("it has no phase");
  }
}

void RowMaker::complete(const Event &E) {
  Category C = categoryOf(E.text(Field::Category));
  if (C == Category::Ignored || C == Category::Unknown)
    return;
  if (!E.has(Field::Name))
    return skip("it has no name");
  if (std::optional<Span> S = span(E))
    dispatch(E, *S);
}

void RowMaker::dispatch(const Event &E, Span S) {
  switch (categoryOf(E.text(Field::Category))) {
  case Category::Ignored:
    return;
  case Category::Kernel:
    return kernel(E, S);
  case Category::Copy:
    return copyOrSet(E, S, /*IsCopy=*/true);
  case Category::Set:
    return copyOrSet(E, S, /*IsCopy=*/false);
  case Category::Call:
    return call(E, S);
  case Category::Sync:
    return sync(E, S);
  case Category::Operator:
    return hostOp(E, S, /*IsPython=*/false);
  case Category::Python:
    return hostOp(E, S, /*IsPython=*/true);
  case Category::Counters:
    return counters(E, S.Start, "");
  case Category::Overhead:
    return overhead(E, S);
  case Category::Annotation:
  case Category::Unknown:
    return range(E, S, Names.host(E.text(Field::Name)));
  }
}

std::optional<RowMaker::Span> RowMaker::span(const Event &E) {
  std::optional<int64_t> Ts = scaledDecimal(E.text(Field::Ts), Time.Scale);
  std::optional<int64_t> Dur = scaledDecimal(E.text(Field::Dur), Time.Scale);
  int64_t Start, Stop;
  if (!Ts) {
    skip(E.has(Field::Ts) ? "its time is no number" : "it has no time");
  } else if (!Dur) {
    skip(E.has(Field::Dur) ? "its duration is no number"
                           : "it has no duration");
  } else if (*Dur < 0) {
    skip("its duration is negative");
  } else if (__builtin_sub_overflow(*Ts, Time.BaseNs, &Start) ||
             __builtin_add_overflow(Start, *Dur, &Stop) || Start < -TimeLimit ||
             Stop > TimeLimit) {
    skip("its time is out of range");
  } else {
    return Span{Start, Stop};
  }
  return std::nullopt;
}

std::optional<int64_t> RowMaker::instant(const Event &E) const {
  std::optional<int64_t> Ts = scaledDecimal(E.text(Field::Ts), Time.Scale);
  int64_t At;
  if (!Ts || __builtin_sub_overflow(*Ts, Time.BaseNs, &At) || At < -TimeLimit ||
      At > TimeLimit)
    return std::nullopt;
  return At;
}

TableBuilder &RowMaker::row(TableId Id, unsigned PlaceColumn) {
  std::unique_ptr<TableBuilder> &T = Out.Tables[static_cast<unsigned>(Id)];
  if (!T)
    T = std::make_unique<TableBuilder>(Id, Pool);
  T->addRow();
  T->set(PlaceColumn, Out.Events);
  return *T;
}

} // namespace culprit::kineto
