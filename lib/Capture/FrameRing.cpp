//===- FrameRing.cpp - A capture that keeps the newest ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A ring is segments of one size, of which the oldest is given up as a whole.
/// Each stands for itself: it begins with the names of devices, contexts,
/// streams and threads, and has strings and schemas of its own.
///
//===----------------------------------------------------------------------===//

#include "Capture/FrameSizes.h"
#include "Capture/FrameWriter.h"
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

namespace culprit::capture {

namespace {
/// Before a record in NamingBytes.
struct Naming {
  uint32_t Kind;
  uint32_t TextSize; ///< Of the text behind the record; 0 when it has none.
};
} // namespace

static uint64_t now() {
  timespec T = {};
  clock_gettime(CLOCK_REALTIME, &T);
  return static_cast<uint64_t>(T.tv_sec) * 1000000000u +
         static_cast<uint64_t>(T.tv_nsec);
}

/// Where a record of \p Kind has the id of its text; 0 when it has none.
static size_t textField(unsigned Kind) {
  return Kind == unsigned(RecordKind::Device) ? offsetof(DeviceRecord, name)
         : Kind == unsigned(RecordKind::Name) ? offsetof(NameRecord, name)
                                              : 0;
}

/// Eight segments or more, so that little is given up at once.
void FrameWriter::planRing() {
  constexpr uint64_t Least = (LeastRingSize - SuperblockSize) / 2;
  constexpr uint64_t Page = 4096;
  const uint64_t Usable = O.MaxSize - SuperblockSize;
  const uint64_t Most = O.SegmentBytes;
  uint64_t Bytes = Usable / 8;
  if (Bytes > Most)
    Bytes = Most;
  if (Bytes < Least)
    Bytes = Least;
  if (Bytes < Usable / MaxSegments)
    Bytes = Usable / MaxSegments + Page;
  Bytes = Bytes / Page * Page;
  O.SegmentBytes = Bytes;
  SegmentCount = static_cast<uint32_t>(Usable / Bytes);
  SegmentEnd = SuperblockSize + Bytes;
  Segments[0].Begin = now();

  // What is under way must always fit into the open segment: a frame of each
  // kind, its schema, and strings, of which a record may bring some long ones.
  uint64_t Frame = Bytes / 8 / (MaxRecordKind + 1);
  FrameLimit = (Frame < SmallFrame   ? SmallFrame
                : Frame > FrameBytes ? FrameBytes
                                     : Frame) /
               FrameAlign * FrameAlign;
  Reserve = (MaxRecordKind + 1) * uint64_t(FrameLimit) +
            4 * uint64_t(FrameLimit < LeastFrame ? LeastFrame : FrameLimit) +
            3 * SmallBytes;
}

/// Begins to overwrite the oldest part of a ring, with names and schemas anew.
void FrameWriter::nextSegment() {
  for (uint16_t K = 1; K <= MaxRecordKind; ++K)
    flushKind(K);
  Current = (Current + 1) % SegmentCount;
  Segment &S = Segments[Current];
  At = SuperblockSize + Current * O.SegmentBytes;
  SegmentEnd = At + O.SegmentBytes;
  for (unsigned K = 1; K <= MaxRecordKind; ++K)
    Gone[K] += S.Records[K];
  S = {};
  S.Begin = now();
  // Old frames behind the new ones would lack their names. Where holes are not
  // supported a reader still tells them by their lower sequence.
  fallocate(Descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(At), static_cast<off_t>(O.SegmentBytes));
  newEpoch();
  writeNaming();
  markPlace({At, Sequence, Written});
}

/// Keeps what the frame \p P of \p Kind holds for the segments to come, as far
/// as there is room.
void FrameWriter::keepNaming(uint16_t Kind, const Pending &P) {
  const size_t Size = recordSize(RecordKind(Kind));
  const size_t Field = textField(Kind);
  for (uint32_t I = 0; I < P.Count; ++I) {
    const char *Record = P.Bytes + sizeof(Frame) + I * Size;
    uint32_t Id = 0;
    size_t TextSize = 0;
    const char *Text = nullptr;
    if (Field)
      memcpy(&Id, Record + Field, sizeof(Id));
    if (Id)
      Text = Names.text(Id, TextSize);
    if (NamingSize + sizeof(Naming) + Size + TextSize > MaxNaming)
      continue;
    const Naming Head = {Kind, static_cast<uint32_t>(TextSize)};
    char *To = NamingBytes + NamingSize;
    memcpy(To, &Head, sizeof(Head));
    memcpy(To + sizeof(Head), Record, Size);
    if (TextSize)
      memcpy(To + sizeof(Head) + Size, Text, TextSize);
    NamingSize += static_cast<uint32_t>(sizeof(Head) + Size + TextSize);
  }
}

void FrameWriter::writeNaming() {
  for (uint16_t K = 1; K <= MaxRecordKind; ++K) {
    if (!isNaming(K))
      continue;
    const size_t Size = recordSize(RecordKind(K));
    const size_t Field = textField(K);
    Pending &P = Kinds[K];
    for (uint32_t From = 0; From < NamingSize;) {
      Naming Head;
      memcpy(&Head, NamingBytes + From, sizeof(Head));
      const char *Record = NamingBytes + From + sizeof(Head);
      From += static_cast<uint32_t>(
          sizeof(Head) + recordSize(RecordKind(Head.Kind)) + Head.TextSize);
      if (Head.Kind != K)
        continue;
      char *To = P.Bytes + sizeof(Frame) + P.Size;
      memcpy(To, Record, Size);
      if (Field) {
        uint32_t Id = Head.TextSize ? name(Record + Size, Head.TextSize) : 0;
        memcpy(To + Field, &Id, sizeof(Id));
      }
      P.Size += static_cast<uint32_t>(Size);
      ++P.Count;
    }
    if (P.Count && writeSchema(RecordKind(K)) && flushStrings())
      write(FrameType::Again, K, P);
    P.Size = P.Count = 0;
  }
}

uint64_t FrameWriter::overwritten() const {
  uint64_t Sum = 0;
  for (uint64_t N : Gone)
    Sum += N;
  return Sum;
}

uint64_t FrameWriter::keptFrom() const {
  return overwritten() ? Segments[(Current + 1) % SegmentCount].Begin : 0;
}

} // namespace culprit::capture
