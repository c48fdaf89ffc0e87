//===- FrameWriter.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/FrameWriter.h"
#include "Capture/Decode.h"
#include "Capture/SchemaText.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace culprit::capture {

/// Kept free for the End frame, so that a full file says that it is full.
static constexpr uint64_t EndReserve = 4096;
/// A longer text is cut. Names of kernels reach some tens of KiB.
static constexpr size_t MaxText = 64u << 10;
static constexpr size_t SmallBytes = 16u << 10;

static size_t padded(size_t Size) {
  return (Size + FrameAlign - 1) / FrameAlign * FrameAlign;
}

/// Beyond this a write would be a SIGXFSZ in somebody's process.
static uint64_t sizeLimit() {
  rlimit Limit;
  if (getrlimit(RLIMIT_FSIZE, &Limit) || Limit.rlim_cur == RLIM_INFINITY)
    return ~uint64_t(0);
  return Limit.rlim_cur;
}

int FrameWriter::open(int File, Superblock &Head, const Options &Wanted) {
  close();
  *this = FrameWriter();
  size_t Size = (MaxRecordKind + 1) * FrameBytes + SmallBytes;
  void *Room = mmap(nullptr, Size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (Room == MAP_FAILED)
    return ENOMEM;
  Memory = static_cast<char *>(Room);
  if (!Names.reserve()) {
    close();
    return ENOMEM;
  }
  for (unsigned I = 0; I <= MaxRecordKind; ++I)
    Kinds[I].Bytes = Memory + I * FrameBytes;
  Small = Memory + (MaxRecordKind + 1) * FrameBytes;
  Descriptor = File;
  O = Wanted;

  // What is under way must always fit into the open segment.
  uint64_t Least = 2 * (MaxRecordKind + 2) * uint64_t(FrameBytes);
  if (O.SegmentBytes < Least)
    O.SegmentBytes = Least;
  if (O.Full == FullPolicy::Ring &&
      (!O.MaxSize || O.MaxSize < SuperblockSize + 2 * O.SegmentBytes)) {
    // Too small for a ring of such segments: the smallest ring there is.
    if (O.MaxSize && O.MaxSize < SuperblockSize + 2 * Least)
      O.MaxSize = SuperblockSize + 2 * Least;
    O.SegmentBytes =
        O.MaxSize ? (O.MaxSize - SuperblockSize) / 2 : O.SegmentBytes;
  }
  if (uint64_t Limit = sizeLimit(); !O.MaxSize || O.MaxSize > Limit) {
    if (Limit != ~uint64_t(0)) {
      O.MaxSize = Limit;
      O.Full = FullPolicy::Stop;
    }
  }
  SegmentEnd = O.Full == FullPolicy::Ring && O.MaxSize
                   ? SuperblockSize + O.SegmentBytes
                   : ~uint64_t(0);

  Head.Crc = crc32c(0, &Head, offsetof(Superblock, Crc));
  At = 0;
  char Copy[SuperblockSize];
  memcpy(Copy, &Head, sizeof(Head));
  if (!put(Copy, sizeof(Copy))) {
    int Error = FirstError;
    close();
    return Error;
  }
  return 0;
}

void FrameWriter::close() {
  if (Memory)
    munmap(Memory, (MaxRecordKind + 1) * FrameBytes + SmallBytes);
  Memory = nullptr;
  Names.release();
  Descriptor = -1;
}

/// Writes at the present end. A frame that does not fit on the disk is written
/// over by the next one.
bool FrameWriter::put(char *Bytes, size_t Size) {
  for (size_t Done = 0; Done < Size;) {
    ssize_t N = pwrite(Descriptor, Bytes + Done, Size - Done,
                       static_cast<off_t>(At + Done));
    if (N > 0) {
      Done += static_cast<size_t>(N);
      continue;
    }
    if (N < 0 && errno == EINTR)
      continue;
    if (!FirstError)
      FirstError = N < 0 ? errno : ENOSPC;
    return false;
  }
  At += Size;
  Total += Size;
  return true;
}

bool FrameWriter::room(size_t Size) {
  if (!O.MaxSize || O.Full == FullPolicy::Ring)
    return true;
  return At + Size + EndReserve <= O.MaxSize;
}

bool FrameWriter::write(FrameType Type, uint16_t Kind, Pending &P) {
  size_t Size = padded(sizeof(Frame) + P.Size);
  memset(P.Bytes + sizeof(Frame) + P.Size, 0, Size - sizeof(Frame) - P.Size);
  Frame F = {};
  F.Magic = FrameMagic;
  F.Type = Type;
  F.Kind = Kind;
  F.Payload = P.Size;
  F.Count = P.Count;
  F.Sequence = Sequence;
  F.Epoch = Epoch;
  F.Crc = crc32c(crc32c(0, &F, offsetof(Frame, Crc)), P.Bytes + sizeof(Frame),
                 P.Size);
  memcpy(P.Bytes, &F, sizeof(F));
  // Once full, for good: a small frame behind a large one that had no room
  // could use names that are not in the file.
  if (Type != FrameType::End && (Full || !room(Size))) {
    Full = true;
    return false;
  }
  if (!put(P.Bytes, Size))
    return false;
  ++Sequence;
  return true;
}

bool FrameWriter::writeSmall(FrameType Type, uint16_t Kind, uint32_t Count,
                             const void *Head, size_t HeadSize,
                             const void *Body, size_t BodySize) {
  if (HeadSize + BodySize > SmallBytes - sizeof(Frame) - FrameAlign)
    BodySize = SmallBytes - sizeof(Frame) - FrameAlign - HeadSize;
  Pending P = {Small, static_cast<uint32_t>(HeadSize + BodySize), Count};
  memcpy(Small + sizeof(Frame), Head, HeadSize);
  if (BodySize)
    memcpy(Small + sizeof(Frame) + HeadSize, Body, BodySize);
  return write(Type, Kind, P);
}

bool FrameWriter::writeSchema(RecordKind Kind) {
  bool &Has = HasSchema[unsigned(Kind)];
  SchemaText Text;
  if (!Has && schemaText(Kind, Text))
    Has = writeSmall(FrameType::Schema, uint16_t(Kind), Text.Head.Fields,
                     &Text.Head, sizeof(Text.Head), Text.Fields,
                     Text.Head.Fields * sizeof(SchemaField));
  return Has;
}

/// Those that find no place on the disk are kept for the next time.
bool FrameWriter::flushStrings() {
  Pending &P = Kinds[0];
  if (P.Count && !write(FrameType::Strings, 0, P))
    return false;
  P.Size = P.Count = 0;
  return true;
}

void FrameWriter::flushKind(uint16_t Kind) {
  Pending &P = Kinds[Kind];
  if (!P.Count)
    return;
  // What a record needs to be read comes before it, or it is not written.
  bool Done = writeSchema(RecordKind(Kind)) && flushStrings() &&
              write(FrameType::Records, Kind, P);
  (Done ? Written : Full ? Capped : FailedRecords) += P.Count;
  if (Done)
    PerKind[Kind] += P.Count;
  P.Size = P.Count = 0;
}

void FrameWriter::newEpoch() {
  ++Epoch;
  Names.clear();
  memset(HasSchema, 0, sizeof(HasSchema));
  Kinds[0].Size = Kinds[0].Count = 0;
}

/// Begins to overwrite the oldest part of a ring, with names and schemas anew.
void FrameWriter::nextSegment() {
  for (uint16_t K = 1; K <= MaxRecordKind; ++K)
    flushKind(K);
  uint64_t Segments = (O.MaxSize - SuperblockSize) / O.SegmentBytes;
  uint64_t Next = (SegmentEnd - SuperblockSize) / O.SegmentBytes % Segments;
  At = SuperblockSize + Next * O.SegmentBytes;
  SegmentEnd = At + O.SegmentBytes;
  // Old frames behind the new ones would lack their names. Where holes are not
  // supported a reader still tells them by their lower sequence.
  fallocate(Descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(At), static_cast<off_t>(O.SegmentBytes));
  newEpoch();
}

/// Leaves room for one frame of each kind and for what comes at the end.
void FrameWriter::keepInSegment() {
  if (At + (MaxRecordKind + 2) * uint64_t(FrameBytes) > SegmentEnd)
    nextSegment();
}

uint32_t FrameWriter::name(const char *Text) {
  return name(Text, strnlen(Text, MaxText));
}

uint32_t FrameWriter::name(const void *Bytes, size_t Size) {
  Strings::Named N = Names.intern(static_cast<const char *>(Bytes), Size);
  if (N.New)
    addString(N.Id);
  return N.Id;
}

void FrameWriter::addString(uint32_t Id) {
  size_t Size = 0;
  const char *Text = Names.text(Id, Size);
  Pending &P = Kinds[0];
  size_t Needs = sizeof(StringHead) + (Size + 3) / 4 * 4;
  if (sizeof(Frame) + P.Size + Needs + FrameAlign > FrameBytes &&
      !flushStrings()) {
    // Names are lost, and with them the records that may use them.
    for (unsigned K = 1; K <= MaxRecordKind; ++K) {
      (Full ? Capped : FailedRecords) += Kinds[K].Count;
      Kinds[K].Size = Kinds[K].Count = 0;
    }
    newEpoch();
    return;
  }
  char *To = P.Bytes + sizeof(Frame) + P.Size;
  StringHead Head = {Id, static_cast<uint32_t>(Size)};
  memset(To, 0, Needs);
  memcpy(To, &Head, sizeof(Head));
  memcpy(To + sizeof(Head), Text, Size);
  P.Size += static_cast<uint32_t>(Needs);
  ++P.Count;
}

void *FrameWriter::add(RecordKind Kind) {
  size_t Size = recordSize(Kind);
  if (!Size || !Memory)
    return nullptr;
  if (Full) {
    ++Capped;
    return nullptr;
  }
  keepInSegment();
  Pending &P = Kinds[unsigned(Kind)];
  if (sizeof(Frame) + P.Size + Size + FrameAlign > FrameBytes)
    flushKind(uint16_t(Kind));
  void *To = P.Bytes + sizeof(Frame) + P.Size;
  P.Size += static_cast<uint32_t>(Size);
  ++P.Count;
  return To;
}

void FrameWriter::addClock(const ClockSample &Sample) {
  keepInSegment();
  writeSmall(FrameType::Clock, 0, 1, &Sample, sizeof(Sample));
}

void FrameWriter::addHeartbeat(const Heartbeat &Beat) {
  keepInSegment();
  writeSmall(FrameType::Heartbeat, 0, 1, &Beat, sizeof(Beat));
}

void FrameWriter::addState(StateCode Code, uint32_t Result, uint64_t Time,
                           const char *What) {
  keepInSegment();
  StateHead Head = {Code, Result, Time};
  writeSmall(FrameType::State, 0, 1, &Head, sizeof(Head), What,
             strnlen(What, 4096));
}

void FrameWriter::flush(Drops &Lost) {
  keepInSegment();
  for (uint16_t K = 1; K <= MaxRecordKind; ++K)
    flushKind(K);
  flushStrings();
  Lost.Written = Written;
  Lost.FileCap = Capped;
  Lost.WriteError = FailedRecords;
  Lost.StringsFull = Names.refused();
  writeSmall(FrameType::Drops, 0, 1, &Lost, sizeof(Lost));
}

void FrameWriter::finish(EndReason Reason, uint64_t Time, Drops &Lost) {
  flush(Lost);
  EndHead Head = {};
  Head.Reason = Reason;
  Head.At = Time;
  Head.Lost = Lost;
  KindTotal Totals[MaxRecordKind + 1];
  for (unsigned K = 1; K <= MaxRecordKind; ++K)
    if (PerKind[K])
      Totals[Head.Kinds++] = {K, 0, PerKind[K]};
  writeSmall(FrameType::End, 0, Head.Kinds, &Head, sizeof(Head), Totals,
             Head.Kinds * sizeof(KindTotal));
}

} // namespace culprit::capture
