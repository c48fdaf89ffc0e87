//===- FrameWriter.h - Writes a capture -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Collects records by kind and writes them as frames, each with one write(2):
/// what was written survives the death of the process. Not by mmap, where a
/// full disk would be a SIGBUS in somebody's process.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_FRAMEWRITER_H
#define CULPRIT_CAPTURE_FRAMEWRITER_H

#include "Capture/Protocol.h"
#include "Capture/Strings.h"

namespace culprit::capture {

/// One thread at a time. Memory is reserved once, by open().
class FrameWriter {
public:
  struct Options {
    uint64_t MaxSize = 0; ///< Bytes of the file; 0 is no limit.
    FullPolicy Full = FullPolicy::Stop;
    /// Of a ring: how much is overwritten at once.
    uint64_t SegmentBytes = uint64_t(64) << 20;
  };

  /// Writes \p Head, whose Crc is filled in, to the empty file \p Descriptor,
  /// which stays the caller's. 0, or an errno.
  int open(int Descriptor, Superblock &Head, const Options &O);
  void close();

  /// The id of \p Text in the file.
  uint32_t name(const char *Text);
  uint32_t name(const void *Bytes, size_t Size);

  /// Room for a record of \p Kind, to be filled by the caller before the next
  /// call; null when the file is full or failed, and the record is counted so.
  void *add(RecordKind Kind);

  void addClock(const ClockSample &Sample);
  void addState(StateCode Code, uint32_t Result, uint64_t At, const char *What);
  void addHeartbeat(const Heartbeat &Beat);
  /// Writes what is collected. \p Lost is completed with what this writer
  /// could not write.
  void flush(Drops &Lost);
  /// flush(), then the End frame.
  void finish(EndReason Reason, uint64_t At, Drops &Lost);

  /// Counts up when ids of strings begin anew.
  uint32_t epoch() const { return Epoch; }
  uint64_t bytesWritten() const { return Total; }
  uint64_t written() const { return Written; } ///< Records, in whole frames.
  uint64_t capped() const { return Capped; }   ///< Records beyond the limit.
  uint64_t failed() const { return FailedRecords; }
  uint64_t stringsRefused() const { return Names.refused(); }
  bool isFull() const { return Full; }
  /// The errno of the first write that failed.
  int error() const { return FirstError; }

private:
  static constexpr size_t FrameBytes = 256u << 10;
  /// Frames under way: one a kind, and one for strings, which has kind 0.
  struct Pending {
    char *Bytes = nullptr; ///< A Frame, then the payload.
    uint32_t Size = 0, Count = 0;
  };

  /// Writes the frame of \p P. False when it is not in the file: Full then
  /// says whether for want of room.
  bool write(FrameType Type, uint16_t Kind, Pending &P);
  bool writeSmall(FrameType Type, uint16_t Kind, uint32_t Count,
                  const void *Head, size_t HeadSize, const void *Body = nullptr,
                  size_t BodySize = 0);
  bool put(char *FrameAt, size_t Size);
  bool room(size_t Size);
  void keepInSegment();
  void nextSegment();
  void newEpoch();
  bool writeSchema(RecordKind Kind);
  bool flushStrings();
  void flushKind(uint16_t Kind);
  void addString(uint32_t Id);

  int Descriptor = -1;
  Options O;
  char *Memory = nullptr;
  Pending Kinds[MaxRecordKind + 1];
  char *Small = nullptr;
  Strings Names;
  bool HasSchema[MaxRecordKind + 1] = {};
  bool Full = false;
  int FirstError = 0;
  uint64_t Sequence = 0;
  uint32_t Epoch = 0;
  uint64_t At = 0;    ///< Where the next frame goes.
  uint64_t SegmentEnd = 0;
  uint64_t Total = 0; ///< Bytes written, over all rounds of a ring.
  uint64_t Written = 0, Capped = 0, FailedRecords = 0;
  uint64_t PerKind[MaxRecordKind + 1] = {};
};

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_FRAMEWRITER_H
