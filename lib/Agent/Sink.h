//===- Sink.h - From CUPTI's buffers to the file ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Gives CUPTI buffers and takes them back full: walks their records, writes
/// the wanted ones and counts all. Seen == written + dropped holds at any time
/// between two calls.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_SINK_H
#define CULPRIT_AGENT_SINK_H

#include "Agent/BufferPool.h"
#include "Agent/Calls.h"
#include "Agent/Cupti.h"
#include "Agent/Lock.h"
#include "Capture/Decode.h"
#include "Capture/FrameWriter.h"
#include <pthread.h>

namespace culprit::agent {

/// Buffers are taken from any thread; what changes the file is behind a lock.
class Sink {
public:
  /// Begins a session, on the agent's thread. 0, or an errno.
  int open(const cupti::Api &A, int File, capture::Superblock &Head,
           const capture::StartMessage &Asked);
  void close();
  /// In a child after fork(): the file is the parent's.
  void forget();

  // Called by CUPTI.
  void request(uint8_t **Buffer, size_t *Size, size_t *MaxRecords);
  /// Also of a buffer from before the session, which is not read.
  void complete(uint8_t *Buffer, size_t Valid);
  /// CPU time of complete() on other threads than the agent's, ns.
  uint64_t callbackTime() const {
    return __atomic_load_n(&CallbackTime, __ATOMIC_RELAXED);
  }

  /// Writes what is collected, with \p CuptiDropped more records lost by CUPTI.
  void flush(uint64_t CuptiDropped);
  void addClock();
  void addHeartbeat(uint64_t AgentCpu);
  void addState(capture::StateCode Code, uint32_t Result, const char *What);
  /// Ends the file; what comes later is not in it. Records in buffers that
  /// CUPTI did not give back are counted as lost. The reason that the file
  /// tells.
  capture::EndReason finish(capture::EndReason Reason, uint64_t CuptiDropped);

  void status(capture::StatusMessage &To);
  /// That CUPTI has.
  unsigned buffersInUse() const { return Pool.inUse() + Spare.inUse(); }
  /// Of those that it had at \p Turn, how many it still has with records.
  unsigned buffersFilled(uint32_t Turn) const {
    return Pool.filled(Turn) + Spare.inUse();
  }
  uint32_t turn() const { return Pool.turn(); }
  bool isFull();
  int error();

private:
  void read(uint8_t *Buffer, size_t Valid, bool Keep);
  void walk(uint8_t *Buffer, size_t Valid, bool Keep);
  void take(const uint8_t *Record, size_t Stride);
  void countDropped(uint64_t N);
  void countKept();
  uint32_t name(const char *Text);
  uint32_t callName(uint32_t Domain, uint32_t Id);
  uint32_t shape(const void *Record, size_t Stride);
  uint32_t shapeName(const void *Record, size_t Stride);
  struct Naming;

  Lock Guard;
  const cupti::Api *A = nullptr;
  capture::FrameWriter Writer;
  BufferPool Pool;
  SpareBuffers Spare;
  capture::Drops Lost = {};
  uint64_t Seen[capture::MaxRecordKind + 1] = {};
  uint64_t Busy = 0;
  /// Buffers that were asked for and refused; and how many at the last flush
  /// and the one before.
  uint64_t Refused = 0;
  uint64_t RefusedAt[2] = {};
  /// By activity: what it becomes, 0 when it is not wanted, and the bytes of
  /// one as last seen.
  static constexpr uint32_t MaxActivity = 64;
  capture::RecordKind Wanted[MaxActivity] = {};
  size_t Strides[MaxActivity] = {};
  bool AllDriverCalls = false;
  bool RefuseBuffers = false; ///< CUPTI of 12.9 and newer takes no buffer.
  bool IsOpen = false;
  pthread_t Agent = {};
  uint64_t CallbackTime = 0;

  /// An id of the writer's names. Those of an older epoch are void.
  struct Named {
    uint32_t Id, Epoch;
    uint64_t Key;
  };
  /// Of calls, by domain and callback id; Key says that it is known.
  Named Calls[2][MaxCallback] = {};
  /// Of texts by address. An address means one text only while one buffer is
  /// walked: afterwards the application may have loaded another module there.
  /// So Key is the number of the walk.
  /// Each may be in one of two places, so that two names do not put each other
  /// out by turns.
  static constexpr unsigned RecentNames = 1024;
  Named Recent[RecentNames] = {};
  const char *RecentTexts[RecentNames] = {};
  uint64_t Walks = 0;
  /// Of shapes, which are compared.
  Named Shapes[RecentNames] = {};
  capture::ShapeWords RecentShapes[RecentNames] = {};
};

/// CLOCK_REALTIME, ns.
uint64_t now();
/// CLOCK_MONOTONIC, ns: for what waits.
uint64_t ticks();
/// CPU time of the calling thread, ns.
uint64_t threadTime();

} // namespace culprit::agent

#endif // CULPRIT_AGENT_SINK_H
