//===- KinetoTrace.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTrace.h"
#include "Readers/KinetoTraceFinish.h"
#include "Readers/KinetoTraceRows.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ThreadPool.h"
#include <bitset>
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
  /// \p Bytes is how large the trace is likely to be.
  TraceLoader(StringRef Path, uint64_t Bytes, Source &Into)
      : Path(Path), Bytes(Bytes), Into(Into) {}

  MutableArrayRef<char> room() { return Cutter.room(); }
  void filled(size_t Count) {
    Cutter.filled(Count, [&](Chunk C) { take(std::move(C)); });
  }
  /// \p Broke says how the stream broke off, if it did.
  Error finish(StringRef Broke);

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
  void joinTables(ChunkRows &Rows, int64_t FirstEvent);
  void joinPairs();
  void reserveFor(const Chunk &C);
  void remarkSkipped();
  void remarkEnd(StringRef Broke);

  StringRef Path;
  const uint64_t Bytes;
  Source &Into;
  Splitter Cutter;
  std::optional<TimeBase> Time;

  /// Text that waits to be joined; only huge events make it so much.
  static constexpr size_t MaxQueued = size_t(256) << 20;
  size_t Queued = 0;
  std::optional<DefaultThreadPool> Pool;
  std::deque<std::unique_ptr<Job>> Jobs; ///< In the order of the file.
  std::mutex IdleLock;
  std::vector<std::unique_ptr<RowMaker>> Idle; ///< Each knows many names.

  TraceTotals Totals;
  std::bitset<NumTables> Reserved; ///< Tables that reserveFor has seen.
};

} // namespace

void TraceLoader::take(Chunk C) {
  if (!Time)
    Time = findTimeBase(C.text());
  Queued += C.Size;
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
  while (Jobs.size() > 2 * Pool->getMaxConcurrency() + 1 ||
         (Queued > MaxQueued && Jobs.size() > 1))
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
  // The list ended before this chunk: it is a part of the header.
  if (Cutter.ListEnded)
    Cutter.tail(Oldest.Text.text());
  else
    join(Oldest.Rows);
  reserveFor(Oldest.Text);
  Queued -= Oldest.Text.Size;
  Cutter.recycle(std::move(Oldest.Text));
  Jobs.pop_front();
}

void TraceLoader::joinTables(ChunkRows &Rows, int64_t FirstEvent) {
  for (std::unique_ptr<TableBuilder> &T : Rows.Tables) {
    if (!T)
      continue;
    unsigned Place = *schema(T->id()).find("place");
    for (int64_t &Event : T->finished(Place).mutableInts())
      Event += FirstEvent;
    Into.table(T->id()).append(*T);
    T.reset();
  }
  auto Join = [&](auto &From, auto &To) {
    for (auto &Entry : From) {
      Entry.Place += FirstEvent;
      To.push_back(std::move(Entry));
    }
    From.clear();
  };
  Join(Rows.Frames, Totals.Frames);
  Join(Rows.Runs, Totals.Runs);
  Join(Rows.Lone, Totals.Lone);
  llvm::move(Rows.Calls, std::back_inserter(Totals.Calls));
}

/// Makes room for all rows of a table when its first are in, going by how many
/// the chunk gave: columns that grow by doubling would be copied and cleared
/// several times. What is not used in the end was never touched.
void TraceLoader::reserveFor(const Chunk &C) {
  uint64_t Left = Bytes - std::min(Bytes, C.Offset);
  if (C.Size == 0 || Left < 4 * uint64_t(C.Size))
    return;
  double Factor = 1.1 * double(Left) / double(C.Size);
  for (unsigned I = 0; I != NumTables; ++I) {
    TableBuilder *T = Into.existing(static_cast<TableId>(I));
    if (!T || Reserved.test(I))
      continue;
    Reserved.set(I);
    for (unsigned Column = 0, E = schema(T->id()).Columns.size(); Column != E;
         ++Column)
      if (T->touched(Column))
        T->finished(Column).reserve(size_t(double(T->rows()) * Factor));
  }
}

void TraceLoader::joinPairs() {
  if (Totals.Lone.empty())
    return;
  RowMaker Maker(Into.pool(), Time.value_or(TimeBase()));
  ChunkRows Rows = Maker.pairUp(Totals.Lone);
  Totals.Lone.clear();
  joinTables(Rows, 0);
  if (Rows.Skipped && (!Totals.Skipped ||
                       Rows.FirstSkipped < Totals.FirstSkipped)) {
    Totals.FirstSkipped = Rows.FirstSkipped;
    Totals.FirstSkippedAt = Rows.FirstSkippedAt;
    Totals.FirstReason = Rows.FirstReason;
  }
  Totals.Skipped += Rows.Skipped;
}

void TraceLoader::join(ChunkRows &Rows) {
  joinTables(Rows, Totals.Events);
  if (Rows.Skipped && !Totals.Skipped) {
    Totals.FirstSkipped = Totals.Events + Rows.FirstSkipped;
    Totals.FirstSkippedAt = Rows.FirstSkippedAt;
    Totals.FirstReason = Rows.FirstReason;
  }
  Totals.Skipped += Rows.Skipped;
  Totals.Events += Rows.Events;
  Totals.CutAt = Rows.CutAt;
  if (Rows.SawClose)
    Cutter.tail(Rows.Tail);
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

void TraceLoader::remarkEnd(StringRef Broke) {
  if (!Broke.empty())
    Totals.Cut = Broke.str(); // which has its own remark
  // A bare list may stay open.
  if (Cutter.Closed || !Broke.empty() || (Cutter.BareList && !Totals.CutAt))
    return;
  if (Totals.CutAt)
    Totals.Cut = ("ends in the middle of event " + Twine(Totals.Events) +
                  " at byte " + Twine(*Totals.CutAt))
                     .str();
  else
    Totals.Cut = ("ends at byte " + Twine(Cutter.BytesSeen) +
                  " before its last bracket")
                     .str();
  Into.warn(Path + ": " + Totals.Cut + ", " + eventCount(Totals.Events) +
                " read",
            "the recording or the copy of the file was cut short; what came "
            "before is used");
}

Error TraceLoader::finish(StringRef Broke) {
  Cutter.finish([&](Chunk C) { take(std::move(C)); });
  while (!Jobs.empty())
    joinOldest();
  joinPairs();
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
  remarkEnd(Broke);
  if (Totals.Events == 0)
    Into.warn(Path + ": holds no events",
              "the profiler was started but nothing ran while it was active");
  finishTrace(Cutter.Header, Time.value_or(TimeBase()), std::move(Totals),
              Into);
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
  TraceLoader Loader(File.path(), File.expectedSize(), Into);
  if (Error E = File.stream([&] { return Loader.room(); },
                            [&](size_t Count) {
                              Loader.filled(Count);
                              return true;
                            }))
    return E;
  return Loader.finish(File.truncation());
}

} // namespace culprit
