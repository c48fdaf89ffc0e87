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

#include "Capture/Decode.h"
#include "Capture/Protocol.h"
#include "Capture/Strings.h"

namespace culprit::capture {

/// One thread at a time. Memory is reserved once, by open().
class FrameWriter {
public:
  struct Options {
    uint64_t MaxSize = 0; ///< Bytes of the file; 0 is no limit.
    FullPolicy Full = FullPolicy::Stop;
    /// Of a ring: how much is overwritten at once, at most.
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
  /// Records that name the devices, contexts, streams and threads of others
  /// have a small part of the file to themselves.
  void *add(RecordKind Kind) {
    Pending &P = Kinds[unsigned(Kind)];
    size_t Size = recordSize(Kind);
    if (!IsOpen || !fits(P, Size) || !Size)
      return addSlowly(Kind);
    void *To = P.Bytes + sizeof(Frame) + P.Size;
    P.Size += static_cast<uint32_t>(Size);
    ++P.Count;
    return To;
  }

  void addClock(const ClockSample &Sample);
  void addState(StateCode Code, uint32_t Result, uint64_t At, const char *What);
  void addHeartbeat(const Heartbeat &Beat);
  /// Writes what is collected. \p Lost is completed with what this writer
  /// could not write.
  void flush(Drops &Lost);
  /// flush(), then the End frame. The reason that it tells: FileFull when the
  /// file is, since that is why it ends where it does. \p Seen has what came of
  /// each kind, by RecordKind; else it is what was written. On a full disk the
  /// last records make room for it, and become lost.
  EndReason finish(EndReason Reason, uint64_t At, Drops &Lost,
                   const uint64_t *Seen = nullptr);

  /// Counts up when an id of a string may mean another one from now on.
  uint32_t epoch() const { return NamesEpoch; }
  uint64_t bytesWritten() const { return Total; }
  uint64_t written() const { return Written; } ///< Records, in whole frames.
  uint64_t capped() const { return Capped; }   ///< Records beyond the limit.
  uint64_t failed() const { return FailedRecords; }
  /// Records of the file as it is, by RecordKind, with those under way.
  uint64_t kept(unsigned Kind) const {
    return PerKind[Kind] - Gone[Kind] + Kinds[Kind].Count;
  }
  /// What a ring wrote over, in all, and since when it has all; 0 when it wrote
  /// over nothing.
  uint64_t overwritten() const;
  uint64_t keptFrom() const;
  bool isFull() const { return Full; }
  /// The errno of the first write that failed.
  int error() const { return FirstError; }

private:
  static constexpr size_t FrameBytes = 256u << 10;
  static constexpr size_t SmallBytes = 16u << 10;
  static constexpr size_t MaxNaming = 32u << 10;
  static constexpr uint32_t MaxSegments = 256;
  static constexpr size_t MemoryBytes =
      (MaxRecordKind + 1) * FrameBytes + SmallBytes + MaxNaming +
      MaxSegments * (MaxRecordKind + 2) * sizeof(uint64_t);
  /// Frames under way: one a kind, and one for strings, which has kind 0.
  struct Pending {
    char *Bytes = nullptr; ///< A Frame, then the payload.
    uint32_t Size = 0, Count = 0;
  };

  /// What a frame changes.
  struct Place {
    uint64_t At, Sequence, Written;
  };

  /// That \p Size more bytes go into the frame of \p P and it into the segment.
  bool fits(const Pending &P, size_t Size) const {
    return sizeof(Frame) + P.Size + Size + FrameAlign <= FrameLimit &&
           At + Reserve <= SegmentEnd;
  }
  void *addSlowly(RecordKind Kind);
  void flushNaming();
  void becomeFull();

  /// Writes the frame of \p P. False when it is not in the file: Full then
  /// says whether for want of room.
  bool write(FrameType Type, uint16_t Kind, Pending &P);
  bool writeSmall(FrameType Type, uint16_t Kind, uint32_t Count,
                  const void *Head, size_t HeadSize, const void *Body = nullptr,
                  size_t BodySize = 0);
  bool put(char *FrameAt, size_t Size);
  bool room(size_t Size, bool Reserved) const;
  bool isRing() const { return O.Full == FullPolicy::Ring && O.MaxSize; }
  void planRing();
  void keepInSegment() {
    if (At + Reserve > SegmentEnd)
      nextSegment();
  }
  void nextSegment();
  void keepNaming(uint16_t Kind, const Pending &P);
  void writeNaming();
  void markPlace(const Place &P);
  bool goBack();
  bool tellError(uint64_t Time);
  bool writeEnd(EndReason Reason, uint64_t Time, const Drops &Lost,
                const uint64_t *Seen);
  void complete(Drops &Lost) const;
  void newEpoch();
  void dropNames();
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
  size_t FrameLimit = FrameBytes; ///< Less in a small ring.
  bool HasSchema[MaxRecordKind + 1] = {};
  bool IsOpen = false;   ///< And not full.
  bool Full = false;     ///< But for what has a part of the file to itself.
  bool Settled = false;  ///< After Full: what was under way is counted.
  bool InReserve = false; ///< What is being written may use that part.
  int FirstError = 0;
  uint64_t Sequence = 0;
  uint32_t Epoch = 0; ///< Of the frames: of a ring one a segment.
  uint32_t NamesEpoch = 0;
  uint32_t WrittenNames = 0; ///< Ids up to this are in the file, this epoch.
  uint64_t At = 0;    ///< Where the next frame goes.
  uint64_t SegmentEnd = 0;
  uint64_t Reserve = 0; ///< For what is under way, in a segment.
  uint64_t Total = 0; ///< Bytes written, over all rounds of a ring.
  uint64_t Written = 0, Capped = 0, FailedRecords = 0;
  uint64_t PerKind[MaxRecordKind + 1] = {};
  uint64_t Gone[MaxRecordKind + 1] = {}; ///< Of them, overwritten.

  /// A part of a ring.
  struct Segment {
    uint64_t Begin; ///< CLOCK_REALTIME, ns; 0 before it is used.
    uint64_t Records[MaxRecordKind + 1];
  };
  Segment *Segments = nullptr;
  uint32_t SegmentCount = 0, Current = 0;
  /// Records for the next segments: a Naming, the record, its text.
  char *NamingBytes = nullptr;
  uint32_t NamingSize = 0;

  /// Before the last large frame of records.
  Place Last = {};
  uint64_t LastPerKind[MaxRecordKind + 1] = {};
};

/// In words, for errnos of a write; null for others.
const char *errorText(int Error);

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_FRAMEWRITER_H
