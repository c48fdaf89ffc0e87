//===- FrameWriter.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/FrameWriter.h"
#include "Capture/FrameSizes.h"
#include "Capture/SchemaText.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace culprit::capture {

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
  void *Room = mmap(nullptr, MemoryBytes, PROT_READ | PROT_WRITE,
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
  NamingBytes = Small + SmallBytes;
  Segments = reinterpret_cast<Segment *>(NamingBytes + MaxNaming);
  Descriptor = File;
  O = Wanted;

  if (isRing() && O.MaxSize < LeastRingSize)
    O.MaxSize = LeastRingSize;
  if (uint64_t Limit = sizeLimit(); !O.MaxSize || O.MaxSize > Limit) {
    if (Limit != ~uint64_t(0)) {
      O.MaxSize = Limit;
      O.Full = FullPolicy::Stop;
    }
  }
  // Several frames of each kind have room in a small file too.
  if (uint64_t Part = O.MaxSize / 32;
      O.Full == FullPolicy::Stop && O.MaxSize && Part < FrameBytes)
    FrameLimit = (Part < SmallFrame ? SmallFrame : Part) / FrameAlign *
                 FrameAlign;
  SegmentEnd = ~uint64_t(0);
  if (isRing())
    planRing();

  Head.Full = isRing() ? FullPolicy::Ring : FullPolicy::Stop;
  Head.Crc = crc32c(0, &Head, offsetof(Superblock, Crc));
  At = 0;
  char Copy[SuperblockSize];
  memcpy(Copy, &Head, sizeof(Head));
  if (!put(Copy, sizeof(Copy))) {
    int Error = FirstError;
    close();
    return Error;
  }
  IsOpen = true;
  markPlace({At, Sequence, Written});
  return 0;
}

void FrameWriter::close() {
  if (Memory)
    munmap(Memory, MemoryBytes);
  Memory = nullptr;
  IsOpen = false;
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

bool FrameWriter::room(size_t Size, bool Reserved) const {
  if (!O.MaxSize || O.Full == FullPolicy::Ring)
    return true;
  uint64_t Kept = EndReserve;
  if (!Reserved)
    Kept += NamingReserve < O.MaxSize / 16 ? NamingReserve : O.MaxSize / 16;
  return At + Size + Kept <= O.MaxSize;
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
  bool Reserved = InReserve || Type == FrameType::State;
  if (Type != FrameType::End &&
      ((Full && !Reserved) || !room(Size, Reserved))) {
    Full = true;
    IsOpen = false;
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
  WrittenNames += P.Count;
  P.Size = P.Count = 0;
  return true;
}

void FrameWriter::flushKind(uint16_t Kind) {
  Pending &P = Kinds[Kind];
  if (!P.Count)
    return;
  InReserve = isNaming(Kind);
  // What a record needs to be read comes before it, or it is not written.
  bool Done = writeSchema(RecordKind(Kind)) && flushStrings();
  const Place Before = {At, Sequence, Written};
  Done = Done && write(FrameType::Records, Kind, P);
  if (Done && P.Size >= RoomForEnd)
    markPlace(Before);
  (Done ? Written : Full ? Capped : FailedRecords) += P.Count;
  if (Done) {
    PerKind[Kind] += P.Count;
    if (isRing())
      Segments[Current].Records[Kind] += P.Count;
    if (isRing() && isNaming(Kind))
      keepNaming(Kind, P);
  }
  P.Size = P.Count = 0;
  InReserve = false;
}

void FrameWriter::flushNaming() {
  for (uint16_t K = 1; K <= MaxRecordKind; ++K)
    if (isNaming(K))
      flushKind(K);
}

/// Names that were not written are given up, and what may use them.
void FrameWriter::becomeFull() {
  if (!Full || Settled)
    return;
  flushNaming();
  for (unsigned K = 1; K <= MaxRecordKind; ++K) {
    Capped += Kinds[K].Count;
    Kinds[K].Size = Kinds[K].Count = 0;
  }
  dropNames();
  Settled = true;
}

/// Gives up the names that are not in the file; ids of others stay.
void FrameWriter::dropNames() {
  ++NamesEpoch;
  Names.forgetFrom(WrittenNames + 1);
  Kinds[0].Size = Kinds[0].Count = 0;
}

void FrameWriter::newEpoch() {
  ++Epoch;
  ++NamesEpoch;
  WrittenNames = 0;
  Names.clear();
  memset(HasSchema, 0, sizeof(HasSchema));
  Kinds[0].Size = Kinds[0].Count = 0;
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
  size_t Most = FrameLimit < LeastFrame ? LeastFrame : FrameLimit;
  if (sizeof(Frame) + P.Size + Needs + FrameAlign > Most && !flushStrings()) {
    // Names are lost, and with them the records that may use them.
    for (unsigned K = 1; K <= MaxRecordKind; ++K) {
      (Full ? Capped : FailedRecords) += Kinds[K].Count;
      Kinds[K].Size = Kinds[K].Count = 0;
    }
    dropNames();
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

void *FrameWriter::addSlowly(RecordKind Kind) {
  size_t Size = recordSize(Kind);
  if (!Size || !Memory)
    return nullptr;
  becomeFull();
  if (Full && !isNaming(unsigned(Kind))) {
    ++Capped;
    return nullptr;
  }
  keepInSegment();
  Pending &P = Kinds[unsigned(Kind)];
  if (!fits(P, Size))
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
  // First those that have room in a file that becomes full now.
  flushNaming();
  for (uint16_t K = 1; K <= MaxRecordKind; ++K)
    flushKind(K);
  flushStrings();
  becomeFull();
  complete(Lost);
  writeSmall(FrameType::Drops, 0, 1, &Lost, sizeof(Lost));
}

} // namespace culprit::capture
