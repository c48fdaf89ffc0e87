//===- NsightSystemsQuality.cpp - What nsys says of its record --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/NsightSystemsIds.h"
#include "Readers/NsightSystemsParts.h"

using namespace llvm;

namespace culprit::nsys {

/// CUPTI's kinds of overhead, for exports without the enumeration.
static StringRef overheadName(Database &DB, std::optional<int64_t> Type) {
  if (!Type)
    return {};
  if (StringRef Label = DB.label("ENUM_CUPTI_OVERHEAD_TYPE", *Type);
      !Label.empty())
    return Label;
  static constexpr StringLiteral Known[] = {"Driver JIT compiler (CUDA)",
                                            "Buffer flush (Profiler)",
                                            "Instrumentation (Profiler)",
                                            "Resource creation/destruction "
                                            "(Profiler)",
                                            "Runtime module loading (CUDA)",
                                            "Lazy function loading (CUDA)",
                                            "Command buffer full (CUDA)"};
  return *Type >= 2 && *Type < 2 + int64_t(std::size(Known))
             ? StringRef(Known[*Type - 2])
             : StringRef();
}

/// Time in which the profiler, or the driver on the program's behalf, held a
/// thread up.
static void readOverheads(Part &P, StringRef Table, bool FromCupti) {
  enum : unsigned { Thread = 2, Name, Type };
  P.DB.forEach(
      Table, {"start", "end", "globalTid", "nameId", "overheadType"},
      [&](const Row &R) {
        std::optional<Span> S = spanOf(R);
        if (!S) {
          ++P.Skipped;
          return;
        }
        StringRef Kind = FromCupti ? overheadName(P.DB, R.integer(Type)) : "";
        StringRef Own = P.DB.string(R.integer(Name));
        if (Kind.empty())
          Kind = Own.empty() ? "overhead" : Own;
        TableBuilder &Row = P.Into.table(TableId::profiler_events);
        Row.addRow();
        Row.set(profiler_events::kind, "overhead");
        Row.set(profiler_events::name, Kind);
        Row.set(profiler_events::start, S->Start);
        Row.set(profiler_events::stop, S->Stop);
        Row.set(profiler_events::dur, S->Stop - S->Start);
        int64_t Pid = pidOf(R.integer(Thread));
        set(Row, profiler_events::rank, Pid);
        set(Row, profiler_events::pid, Pid);
        set(Row, profiler_events::tid, tidOf(R.integer(Thread)));
        if (!Own.empty() && Own != Kind)
          Row.set(profiler_events::message, Own);
        Row.set(profiler_events::place, R.place());
      },
      2);
}

/// Whether \p Text says that records are missing, as "Not all NVTX events might
/// have been collected." and "Some events were dropped: buffer is full".
static bool tellsOfLoss(StringRef Text) {
  std::string Lower = Text.lower();
  StringRef T = Lower;
  if (T.contains("dropped") || T.contains("were lost") ||
      T.contains("was lost") || T.contains("events lost") ||
      T.contains("lost events") || T.contains("records lost"))
    return true;
  if (T.contains("not all") && T.contains("collected"))
    return true;
  return T.contains("buffer") && (T.contains("full") || T.contains("overflow"));
}

/// The number before the word that names what was lost: 1234 of "1,234 events
/// were dropped" and of "Dropped 1234 records".
static std::optional<int64_t> countIn(StringRef Text) {
  for (size_t I = 0; I < Text.size(); ++I) {
    bool Alone = I == 0 || !(isAlnum(Text[I - 1]) || Text[I - 1] == '.');
    if (!isDigit(Text[I]) || !Alone)
      continue;
    std::string Digits;
    size_t End = I;
    for (; End != Text.size() && (isDigit(Text[End]) || Text[End] == ',');
         ++End)
      if (Text[End] != ',')
        Digits += Text[End];
    StringRef Rest = Text.drop_front(End).ltrim().take_front(40);
    int64_t Count;
    bool Counts = Rest.contains_insensitive("event") ||
                  Rest.contains_insensitive("record") ||
                  Rest.contains_insensitive("sample");
    if (Counts && !StringRef(Digits).getAsInteger(10, Count))
      return Count;
    I = End;
  }
  return std::nullopt;
}

static void readDiagnostics(Part &P) {
  enum : unsigned { At, AtKind, From, Severity, Text, Pid };
  P.DB.forEach(
      "DIAGNOSTIC_EVENT",
      {"timestamp", "timestampType", "source", "severity", "text", "globalPid"},
      [&](const Row &R) {
        StringRef Message = R.text(Text).trim();
        int64_t Level = R.integer(Severity, 0);
        std::string Name =
            P.DB.label("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", Level).lower();
        if (Name.empty())
          Name = Level == 2 ? "warning" : Level == 3 ? "error" : "";
        StringRef Kind = tellsOfLoss(Message) ? "lost" : StringRef(Name);
        if (Kind != "lost" && Kind != "warning" && Kind != "error")
          return; // told in passing: nothing is wrong
        TableBuilder &Row = P.Into.table(TableId::profiler_events);
        Row.addRow();
        Row.set(profiler_events::kind, Kind);
        StringRef Source =
            P.DB.label("ENUM_DIAGNOSTIC_SOURCE_TYPE", R.integer(From, 0));
        Row.set(profiler_events::name, Source.empty() ? "diagnostic" : Source);
        // Type 2 counts from another clock, that of the analysis.
        std::optional<int64_t> When = R.integer(At);
        if (When && inRange(*When) && R.integer(AtKind, 0) == 1)
          Row.set(profiler_events::start, *When);
        if (Kind == "lost")
          set(Row, profiler_events::count, countIn(Message));
        int64_t Process = pidOf(R.integer(Pid));
        if (Process > 0) {
          Row.set(profiler_events::rank, Process);
          Row.set(profiler_events::pid, Process);
        }
        Row.set(profiler_events::message, Message);
        Row.set(profiler_events::place, R.place());
      });
}

void readProfilerEvents(Part &P) {
  readOverheads(P, "PROFILER_OVERHEAD", false);
  readOverheads(P, "CUPTI_ACTIVITY_KIND_OVERHEAD", true);
  readDiagnostics(P);
}

} // namespace culprit::nsys
