//===- KinetoTraceRows.h - From events to rows ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Parses one chunk of events into rows. Chunks are parsed in parallel, each
/// into builders of its own, and joined in the order of the file; within a
/// chunk events are counted from 0 and renumbered when joined.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_KINETOTRACEROWS_H
#define CULPRIT_READERS_KINETOTRACEROWS_H

#include "Case/Source.h"
#include "Readers/KinetoTraceCollectives.h"
#include "Readers/KinetoTraceEvent.h"
#include "Readers/KinetoTraceNames.h"
#include "Readers/KinetoTraceSplitter.h"
#include <array>

namespace culprit::kineto {

/// Times beyond 126 years are damage, and sums of them would overflow.
inline constexpr int64_t TimeLimit = 4000000000000000000;

/// How the numbers of `ts` become times of the source.
struct TimeBase {
  int64_t BaseNs = 0; ///< Time 0 of the source on the clock of the file.
  int Scale = 3;      ///< Power of ten from `ts` to ns: 3 from microseconds.
};

/// The time base that the first event with a time of \p Text sets.
std::optional<TimeBase> findTimeBase(llvm::StringRef Text);

/// A Python frame that fetches a batch; it becomes a range only if no
/// annotation says the same, which takes all chunks to know.
struct LoaderFrame {
  StringId Name;
  int64_t Start, Stop, Pid, Tid, Place;
};

/// The begin or the end of a span (phases B and E) whose other side is in
/// another chunk, or nowhere.
struct LonePhase {
  std::string Text; ///< The event.
  int64_t Place;
  uint64_t Offset; ///< Byte in the file.
};

/// What one chunk gave.
struct ChunkRows {
  std::array<std::unique_ptr<TableBuilder>, NumTables> Tables;
  std::vector<LoaderFrame> Frames;
  std::vector<CollectiveRun> Runs;
  std::vector<CollectiveCall> Calls;
  std::vector<LonePhase> Lone; ///< In the order of the file.
  int64_t Events = 0; ///< Including those left out.

  int64_t Skipped = 0; ///< Events that are broken.
  int64_t FirstSkipped = 0;
  uint64_t FirstSkippedAt = 0; ///< Byte in the file.
  const char *FirstReason = "";

  /// Where in the file the event began that the text ends inside of.
  std::optional<uint64_t> CutAt;
  /// What follows the closing bracket of the list, if it is in the chunk.
  std::string Tail;
  bool SawClose = false;
};

/// Makes rows of events. Keeps what it learnt about names from chunk to
/// chunk. One thread at a time.
class RowMaker {
public:
  RowMaker(StringPool &Pool, TimeBase Time);

  ChunkRows parse(const Chunk &C);

  /// Pairs what parse() left alone, of all chunks in order. The rows carry
  /// their final places. Spans that never end have no stop, those that never
  /// began are skipped.
  ChunkRows pairUp(llvm::ArrayRef<LonePhase> Lone);

private:
  struct Span {
    int64_t Start, Stop;
  };

  void event(const Event &E);
  void complete(const Event &E);
  void begin(const Event &E, llvm::StringRef Text);
  void end(const Event &E, llvm::StringRef Text);
  void neverEnded(const LonePhase &Begin);
  void collectLone();
  void dispatch(const Event &E, Span S);
  void kernel(const Event &E, Span S);
  void collective(const Event &E, Span S, const NameInfo &Name);
  void collectiveCall(const Event &E, Span S);
  void hostCollective(const Event &E, Span S, const NameInfo &Name);
  CollectiveFacts collectiveFacts(const Event &E);
  void copyOrSet(const Event &E, Span S, bool IsCopy);
  void call(const Event &E, Span S);
  void sync(const Event &E, Span S);
  void hostOp(const Event &E, Span S, bool IsPython);
  void range(const Event &E, Span S, const NameInfo &Name);
  void overhead(const Event &E, Span S);
  void memory(const Event &E);
  void counter(const Event &E);
  /// A row for each number among the arguments, named after \p Name and key.
  void counters(const Event &E, int64_t At, llvm::StringRef Name);

  void skip(const char *Reason);
  std::optional<Span> span(const Event &E);
  std::optional<int64_t> instant(const Event &E) const;
  TableBuilder &row(TableId Id, unsigned PlaceColumn);
  /// Starts a row of gpu_work with what all kinds of work have.
  TableBuilder &work(const Event &E, Span S, StringId Kind, const NameInfo &N);

  StringPool &Pool;
  const TimeBase Time;
  NameBook Names;

  // Texts that every row of a kind has.
  StringId KernelText, CopyText, SetText, OperatorText, PythonText;
  StringId AnnotationText, OverheadText;

  ChunkRows Out;
  uint64_t EventAt = 0;
  llvm::StringMap<std::vector<LonePhase>> Open; ///< By process and thread.
};

} // namespace culprit::kineto

#endif // CULPRIT_READERS_KINETOTRACEROWS_H
