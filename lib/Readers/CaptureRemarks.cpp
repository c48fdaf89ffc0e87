//===- CaptureRemarks.cpp - What a capture says of itself -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "Support/Units.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

StringRef endText(EndReason Reason) {
  switch (Reason) {
  case EndReason::Detached:
    return "culprit detached";
  case EndReason::Duration:
    return "the time asked for was over";
  case EndReason::Exit:
    return "the process exited";
  case EndReason::FileFull:
    return "the file reached its largest size";
  case EndReason::ControlLost:
    return "culprit went away";
  case EndReason::Failed:
    return "the agent failed";
  }
  return "for a reason that is not known here";
}

static constexpr StringLiteral Less =
    "record less, as --kinds=kernels,copies,calls, or for a shorter time";
static constexpr Loss Losses[] = {
    {&Drops::CuptiDropped, "CUPTI", "CUPTI had no room for them",
     "CUPTI had no room for them", Less},
    {&Drops::PoolOverflow, "buffers",
     "all buffers of the agent were in use when they came",
     "came while all buffers of the agent were in use", Less},
    {&Drops::ZeroTime, "times", "CUPTI could not time these kernels",
     "are kernels that CUPTI could not time",
     "record for longer, end it while the device is idle, or give a newer "
     "CUPTI with --cupti PATH"},
    {&Drops::FileCap, "file size", "the file had reached its largest size",
     "came after the file was full",
     "raise --max-size, or keep the newest with --ring"},
    {&Drops::WriteError, "file", "they could not be written",
     "could not be written",
     "make room on the disk, or name a file on another one with -o"},
};

ArrayRef<Loss> losses() { return Losses; }

std::string counted(uint64_t Count, StringRef What) {
  int64_t Shown = static_cast<int64_t>(std::min<uint64_t>(Count, INT64_MAX));
  return formatCount(Shown) + " " + What.str() + (Count == 1 ? "" : "s");
}

std::string lossText(uint64_t Count, StringRef Why) {
  return counted(Count, "record") + (Count == 1 ? " was" : " were") +
         " lost: " + Why.str();
}

/// Names as Nsight Systems has them: CUpti_ActivityOverheadKind counts from
/// 1 << 16 but for the first.
static StringRef overheadName(uint32_t Kind) {
  static constexpr StringLiteral Known[] = {
      "Buffer flush (Profiler)",
      "Instrumentation (Profiler)",
      "Resource creation/destruction (Profiler)",
      "Runtime module loading (CUDA)",
      "Lazy function loading (CUDA)",
      "Command buffer full (CUDA)",
      "Buffer request (Profiler)",
      "Start of unified memory records (Profiler)"};
  if (Kind == 1)
    return "Driver JIT compiler (CUDA)";
  uint32_t Number = Kind >> 16;
  return Kind % 65536 == 0 && Number >= 1 && Number <= std::size(Known)
             ? StringRef(Known[Number - 1])
             : StringRef("overhead");
}

void readOverheads(Part &P) {
  constexpr uint32_t ThreadObject = 2; // CUPTI_ACTIVITY_OBJECT_THREAD
  int64_t Place = 0;
  P.File.each<OverheadRecord>([&](const OverheadRecord &R, uint32_t, uint64_t) {
    int64_t Number = Place++;
    std::optional<Span> S = P.span(R.start, R.end);
    if (!S)
      return;
    TableBuilder &Row = P.Into.table(TableId::profiler_events);
    Row.addRow();
    Row.set(profiler_events::kind, "overhead");
    Row.set(profiler_events::name, overheadName(R.kind));
    Row.set(profiler_events::start, S->Start);
    Row.set(profiler_events::stop, S->Stop);
    Row.set(profiler_events::dur, S->Stop - S->Start);
    Row.set(profiler_events::rank, P.Rank);
    Row.set(profiler_events::pid, int64_t(R.process));
    if (R.object == ThreadObject)
      Row.set(profiler_events::tid, int64_t(R.thread));
    Row.set(profiler_events::place, Number);
  });
}

namespace {
class Remarks {
public:
  Remarks(Part &P, StringRef Path) : P(P), Path(Path) {}
  void add();

private:
  void row(StringRef Kind, StringRef Name, const Twine &Message,
           uint64_t Count = 0, uint64_t At = 0);
  void warn(StringRef Kind, StringRef Name, const Twine &Message,
            StringRef Hint, uint64_t At = 0);
  void lost(uint64_t Count, StringRef Name, StringRef Why, StringRef Hint);
  void losses();
  void damage();
  void ending();
  void states();
  void clocks();

  Part &P;
  StringRef Path;
};
} // namespace

void Remarks::row(StringRef Kind, StringRef Name, const Twine &Message,
                  uint64_t Count, uint64_t At) {
  TableBuilder &Row = P.Into.table(TableId::profiler_events);
  Row.addRow();
  Row.set(profiler_events::kind, Kind);
  Row.set(profiler_events::name, Name);
  if (std::optional<int64_t> Time = P.time(At))
    Row.set(profiler_events::start, *Time);
  // More would be damage, and a sum of a few must not overflow.
  constexpr uint64_t Most = INT64_MAX / 256;
  if (Count)
    Row.set(profiler_events::count,
            static_cast<int64_t>(std::min(Count, Most)));
  Row.set(profiler_events::rank, P.Rank);
  Row.set(profiler_events::message, StringRef(Message.str()));
}

void Remarks::warn(StringRef Kind, StringRef Name, const Twine &Message,
                   StringRef Hint, uint64_t At) {
  std::string Text = Message.str();
  row(Kind, Name, Text, 0, At);
  P.Into.warn(Path + ": " + Text, Hint);
}

void Remarks::lost(uint64_t Count, StringRef Name, StringRef Why,
                   StringRef Hint) {
  if (!Count)
    return;
  std::string Text = lossText(Count, Why);
  row("lost", Name, Text, Count);
  P.Into.warn(Path + ": " + Text, Hint);
}

void Remarks::losses() {
  const Drops &D = P.File.drops();
  for (const Loss &L : cprt::losses())
    lost(D.*L.Count, L.Name, L.Why, L.Next);
  if (D.ParseStopBytes)
    warn("lost", "buffers",
         counted(D.ParseStopBytes, "byte") +
             " of CUPTI's buffers could not be read",
         "this CUPTI may be newer than the agent");
  if (D.StringsFull)
    warn("warning", "names",
         counted(D.StringsFull, "name") + " found no room and read "
                                          "<strings-full>",
         "does the program put numbers into its range names?");
}

void Remarks::damage() {
  const CaptureFile &F = P.File;
  StringRef Hint = "what could be read is used; copy the file again if there "
                   "is another";
  if (!F.isHeadGood())
    warn("warning", "file", "its head is damaged: process and rank are unknown",
         Hint);
  if (F.recordsWithoutSchema() && F.head().Minor <= MinorVersion)
    lost(F.recordsWithoutSchema(), "file", "their layout is lost", Hint);
  Damage D = damageOf(F);
  // A ring overwrote its older rounds, which is what was asked for.
  if (D.Overwritten)
    row("cut", "ring",
        "only the end is there: the file is a ring, and older records were "
        "overwritten");
  if (D.IsTorn)
    warn("lost", "file",
         "its last " + counted(D.TornBytes, "byte") +
             " are no whole frame; what was in them is lost",
         "copy the file again if there is a whole one");
  if (D.Bytes)
    warn("lost", "file",
         counted(D.Bytes, "byte") + " in " + counted(D.Places.size(), "place") +
             " are damaged" +
             (D.Missing ? "; " + counted(D.Missing, "frame") + " lost"
                        : std::string()),
         Hint);
  else if (D.Missing)
    warn("lost", "file", counted(D.Missing, "frame") + " lost", Hint);
}

void Remarks::ending() {
  const CaptureFile &F = P.File;
  uint64_t Last = F.heartbeats().empty() ? 0 : F.heartbeats().back().At;
  if (!F.end()) {
    warn("cut", "end",
         "has no end: the process was killed, or is still being recorded",
         "what came before is complete", Last);
    return;
  }
  const EndHead &E = *F.end();
  switch (E.Reason) {
  case EndReason::Detached:
  case EndReason::Duration:
  case EndReason::Exit:
    return;
  case EndReason::FileFull:
    warn("cut", "end", "ends early: " + endText(E.Reason),
         "give a larger --max-size", E.At);
    return;
  case EndReason::ControlLost:
  case EndReason::Failed:
    warn("cut", "end", "ends early: " + endText(E.Reason),
         "what came before is complete", E.At);
    return;
  }
}

void Remarks::states() {
  for (const StateView &S : P.File.states()) {
    std::string Text = cleanText(S.What);
    // Without their times, which may be long before the first work.
    switch (S.Head.Code) {
    case StateCode::Note:
    case StateCode::Forked:
    case StateCode::FullDetach:
      break;
    case StateCode::SoftDetach:
      // Of a process that ended nothing stays.
      if (P.File.end() && P.File.end()->Reason != EndReason::Exit &&
          P.File.isHeadGood() && P.File.head().How == Entry::Attached)
        P.Into.Remarks.push_back({Severity::Note,
                                  (Path + ": " + Text).str(),
                                  "the process keeps CUPTI until it ends; no "
                                  "other profiler can have it"});
      break;
    case StateCode::Late:
      warn("warning", "begin", Text, "calls before that are not there");
      break;
    case StateCode::KindRefused:
      warn("warning", "kind", Text, "records of this kind are not there");
      break;
    case StateCode::SubscriberBusy:
      warn("error", "CUPTI", Text, "one profiler at a time");
      break;
    case StateCode::CuptiMissing:
    case StateCode::CuptiFailed:
    case StateCode::FileFailed:
      warn("error", "agent", Text, "see `culprit doctor`");
      break;
    }
  }
}

/// Times of records are those of the host's clock, which someone may set.
void Remarks::clocks() {
  constexpr int64_t Normal = 1000000; // ns; slewing is far below
  const ClockSample *Before = nullptr;
  for (const ClockSample &C : P.File.clocks()) {
    if (Before) {
      int64_t Step = static_cast<int64_t>((C.Realtime - Before->Realtime) -
                                          (C.Monotonic - Before->Monotonic));
      if (Step > Normal || Step < -Normal)
        warn("warning", "clock",
             "the clock of the host was set " +
                 Twine(Step > 0 ? "forward" : "back") + " by " +
                 formatDuration(Step > 0 ? Step : -std::max(Step, -INT64_MAX)),
             "lengths around that moment are wrong", C.Realtime);
    }
    Before = &C;
  }
}

void Remarks::add() {
  ending();
  losses();
  damage();
  states();
  clocks();
  if (P.Skipped)
    P.Into.warn(Path + ": " + counted(static_cast<uint64_t>(P.Skipped),
                                      "record") +
                    (P.Skipped == 1 ? " was" : " were") +
                    " skipped: without a time, or ended before it began",
                "what the other records say is complete");
  if (P.LoneEnds)
    row("warning", "NVTX",
        counted(static_cast<uint64_t>(P.LoneEnds), "range") +
            " began before the capture and cannot be named");
  uint64_t Any = 0;
  for (unsigned K = 1; K <= MaxRecordKind; ++K)
    if (RecordKind(K) != RecordKind::Device &&
        RecordKind(K) != RecordKind::Context)
      Any += P.File.count(RecordKind(K));
  if (Any)
    return;
  // What is damaged or was lost may have been all there was.
  const CaptureFile &F = P.File;
  bool Whole = F.end() && F.isHeadGood() && F.gaps().empty() &&
               !F.missingFrames() && F.drops().Seen <= F.drops().Written;
  P.Into.warn(Path + ": holds no records",
              Whole ? "the process did nothing on a device while it was "
                      "recorded"
                    : "none was left in what could be read");
}

void remark(Part &P, StringRef Path) { Remarks(P, Path).add(); }

} // namespace culprit::cprt
