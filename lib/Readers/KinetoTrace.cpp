//===- KinetoTrace.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTrace.h"
#include "Readers/KinetoTraceFinish.h"
#include "Readers/KinetoTraceRows.h"
#include "Support/Units.h"
#include "llvm/Support/ThreadPool.h"
#include <deque>
#include <mutex>
#include <optional>

using namespace llvm;
using namespace culprit::kineto;

namespace culprit {

namespace {

/// Reads one trace. Lives on the thread that reads the file.
class TraceLoader {
public:
  TraceLoader(StringRef Path, Source &Into) : Path(Path), Into(Into) {}

  void feed(StringRef Piece) {
    Cutter.feed(Piece, [&](Chunk C) { take(std::move(C)); });
  }
  Error finish(bool StreamBroke);

private:
  struct Job {
    Chunk Text;
    ChunkRows Rows;
    std::shared_future<void> Done;
  };

  void take(Chunk C);
  void start(Job &J);
  void parse(Job &J);
  void joinOldest();
  void join(ChunkRows &Rows);
  void remarkSkipped();
  void remarkEnd(bool StreamBroke);

  StringRef Path;
  Source &Into;
  Splitter Cutter;
  std::optional<TimeBase> Time;

  std::optional<DefaultThreadPool> Pool;
  std::deque<std::unique_ptr<Job>> Jobs; ///< In the order of the file.
  std::mutex IdleLock;
  std::vector<std::unique_ptr<RowMaker>> Idle; ///< Each knows many names.

  TraceTotals Totals;
};

} // namespace

void TraceLoader::take(Chunk C) {
  if (!Time)
    Time = findTimeBase(C.text());
  Jobs.push_back(std::make_unique<Job>());
  Jobs.back()->Text = std::move(C);
  // Threads are only worth their start when there is more than one chunk.
  if (Jobs.size() == 1 && !Pool)
    return;
  if (!Pool) {
    Pool.emplace(hardware_concurrency());
    start(*Jobs.front());
  }
  start(*Jobs.back());
  // Bounds what is held in memory; the oldest is nearly always done.
  while (Jobs.size() > 2 * Pool->getMaxConcurrency() + 1)
    joinOldest();
}

void TraceLoader::start(Job &J) {
  J.Done = Pool->async([this, &J] { parse(J); });
}

void TraceLoader::parse(Job &J) {
  std::unique_ptr<RowMaker> Maker;
  {
    std::lock_guard<std::mutex> Guard(IdleLock);
    if (!Idle.empty()) {
      Maker = std::move(Idle.back());
      Idle.pop_back();
    }
  }
  // Until an event has a time no row needs one, so the base does not matter.
  if (!Maker)
    Maker = std::make_unique<RowMaker>(Into.pool(), Time.value_or(TimeBase()));
  J.Rows = Maker->parse(J.Text);
  J.Text.Bytes.reset();
  std::lock_guard<std::mutex> Guard(IdleLock);
  if (Time)
    Idle.push_back(std::move(Maker));
}

void TraceLoader::joinOldest() {
  Job &Oldest = *Jobs.front();
  if (Oldest.Done.valid())
    Oldest.Done.wait();
  else
    parse(Oldest);
  join(Oldest.Rows);
  Jobs.pop_front();
}

void TraceLoader::join(ChunkRows &Rows) {
  for (std::unique_ptr<TableBuilder> &T : Rows.Tables) {
    if (!T)
      continue;
    unsigned Place = *schema(T->id()).find("place");
    for (int64_t &Event : T->finished(Place).mutableInts())
      Event += Totals.Events;
    Into.table(T->id()).append(*T);
    T.reset();
  }
  for (LoaderFrame &Frame : Rows.Frames) {
    Frame.Place += Totals.Events;
    Totals.Frames.push_back(Frame);
  }
  if (Rows.Skipped && !Totals.Skipped) {
    Totals.FirstSkipped = Totals.Events + Rows.FirstSkipped;
    Totals.FirstSkippedAt = Rows.FirstSkippedAt;
    Totals.FirstReason = Rows.FirstReason;
  }
  Totals.Skipped += Rows.Skipped;
  Totals.Events += Rows.Events;
  Totals.CutAt = Rows.CutAt;
  // The list was closed by a bracket that the splitter took for text.
  if (Rows.SawClose) {
    Cutter.Header += Rows.Tail;
    Cutter.Closed = true;
  }
}

static std::string eventCount(int64_t Count) {
  return formatCount(Count) + (Count == 1 ? " event" : " events");
}

void TraceLoader::remarkSkipped() {
  if (!Totals.Skipped)
    return;
  bool One = Totals.Skipped == 1;
  Into.warn(Path + ": " + formatCount(Totals.Skipped) + " of " +
                formatCount(Totals.Events) +
                (One ? " events was skipped" : " events were skipped") +
                (One ? ": event " : ", the first being event ") +
                Twine(Totals.FirstSkipped) + " at byte " +
                Twine(Totals.FirstSkippedAt) + ": " + Totals.FirstReason,
            "what the other events say is complete");
}

void TraceLoader::remarkEnd(bool StreamBroke) {
  // A broken archive has its own remark; a bare list may stay open.
  if (Cutter.Closed || StreamBroke || (Cutter.BareList && !Totals.CutAt))
    return;
  StringRef Hint = "the recording or the copy of the file was cut short; what "
                   "came before is used";
  if (Totals.CutAt)
    Into.warn(Path + ": ends in the middle of event " + Twine(Totals.Events) +
                  " at byte " + Twine(*Totals.CutAt) + ", " +
                  eventCount(Totals.Events) + " read",
              Hint);
  else
    Into.warn(Path + ": ends at byte " + Twine(Cutter.BytesSeen) +
                  " before its last bracket, " + eventCount(Totals.Events) +
                  " read",
              Hint);
}

Error TraceLoader::finish(bool StreamBroke) {
  Cutter.finish([&](Chunk C) { take(std::move(C)); });
  while (!Jobs.empty())
    joinOldest();
  if (!Cutter.FoundEvents)
    return failure(Path + ": has no list of events",
                   "a trace holds a list named \"traceEvents\"; was the file "
                   "cut off or written by something else?");
  StringRef Hint = "the file is damaged or no trace";
  if (Totals.Events == 0 && Totals.CutAt)
    return failure(Path + ": ends inside of its first event, at byte " +
                       Twine(*Totals.CutAt),
                   Hint);
  if (Totals.Skipped && Totals.Events == Totals.Skipped)
    return failure(Path + ": no event could be read; event " +
                       Twine(Totals.FirstSkipped) + " at byte " +
                       Twine(Totals.FirstSkippedAt) + ": " + Totals.FirstReason,
                   Hint);
  remarkSkipped();
  remarkEnd(StreamBroke);
  if (Totals.Events == 0)
    Into.warn(Path + ": holds no events",
              "the profiler was started but nothing ran while it was active");
  finishTrace(Cutter.Header, Time.value_or(TimeBase()), Totals, Into);
  return Error::success();
}

Match KinetoTraceReader::matches(const InputFile &File) const {
  StringRef Head = File.head().ltrim("\xEF\xBB\xBF \t\r\n");
  if (Head.starts_with("{")) {
    if (Head.contains("\"traceEvents\"") ||
        (Head.contains("\"schemaVersion\"") &&
         Head.contains("\"deviceProperties\"")))
      return Match::Certain;
    return Match::No;
  }
  // A list of events without anything around it.
  if (Head.consume_front("[") && Head.ltrim().starts_with("{") &&
      Head.contains("\"ph\"") && Head.contains("\"pid\""))
    return Match::Likely;
  return Match::No;
}

Error KinetoTraceReader::read(InputFile &File, Source &Into) const {
  TraceLoader Loader(File.path(), Into);
  if (Error E = File.stream([&](StringRef Piece) {
        Loader.feed(Piece);
        return true;
      }))
    return E;
  return Loader.finish(!File.truncation().empty());
}

} // namespace culprit
