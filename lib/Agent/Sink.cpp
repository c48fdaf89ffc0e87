//===- Sink.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Sink.h"
#include <errno.h>
#include <string.h>
#include <time.h>

using namespace culprit::capture;

namespace culprit::agent {

/// The first API version that takes a refused buffer as it should: of 12.9.
static constexpr uint32_t RefusalVersion = 27;

static uint64_t timeOf(clockid_t Clock) {
  timespec T = {};
  clock_gettime(Clock, &T);
  return static_cast<uint64_t>(T.tv_sec) * 1000000000u +
         static_cast<uint64_t>(T.tv_nsec);
}

uint64_t now() { return timeOf(CLOCK_REALTIME); }
uint64_t ticks() { return timeOf(CLOCK_MONOTONIC); }
uint64_t threadTime() { return timeOf(CLOCK_THREAD_CPUTIME_ID); }

int Sink::open(const cupti::Api &Functions, int File, Superblock &Head,
               const StartMessage &Asked) {
  Holding H(Guard);
  A = &Functions;
  Lost = {};
  memset(Seen, 0, sizeof(Seen));
  memset(Calls, 0, sizeof(Calls));
  memset(Recent, 0, sizeof(Recent));
  memset(Shapes, 0, sizeof(Shapes));
  Agent = pthread_self();
  __atomic_store_n(&CallbackTime, 0, __ATOMIC_RELAXED);
  Busy = 0;
  Kinds = Asked.Kinds;
  AllDriverCalls = Asked.AllDriverCalls;
  RefuseBuffers = A->Version >= RefusalVersion;
  if (!Pool.reserve(Asked.PoolBytes, Asked.BufferBytes))
    return ENOMEM;
  FrameWriter::Options O;
  O.MaxSize = Asked.MaxSize;
  O.Full = Asked.Full;
  int Error = Writer.open(File, Head, O);
  IsOpen = Error == 0;
  return Error;
}

void Sink::close() {
  Holding H(Guard);
  IsOpen = false;
  Writer.close();
  // One that CUPTI still holds comes back in a later session.
  Pool.trim();
}

void Sink::forget() {
  // Whoever held it is not in this process.
  Guard = Lock();
  IsOpen = false;
  Writer.close();
}

void Sink::request(uint8_t **Buffer, size_t *Size, size_t *MaxRecords) {
  *MaxRecords = 0;
  *Buffer = Pool.take();
  *Size = Pool.bufferBytes();
  if (*Buffer)
    return;
  *Size = 0;
  if (RefuseBuffers)
    return;
  *Buffer = Spare.take();
  *Size = SpareBuffers::Bytes;
}

void Sink::complete(uint8_t *Buffer, size_t Valid) {
  if (!Buffer)
    return;
  // The agent's own time is told by its thread's clock.
  bool IsAgent = pthread_equal(pthread_self(), Agent);
  uint64_t Begin = IsAgent ? 0 : threadTime();
  bool Kept = Pool.owns(Buffer);
  read(Buffer, Valid, Kept);
  if (Kept) {
    // CUPTI was told that it gets zeroed buffers.
    memset(Buffer, 0, Valid);
    Pool.give(Buffer);
  } else {
    Spare.give(Buffer);
  }
  if (!IsAgent)
    __atomic_add_fetch(&CallbackTime, threadTime() - Begin, __ATOMIC_RELAXED);
}

void Sink::read(uint8_t *Buffer, size_t Valid, bool Keep) {
  Holding H(Guard);
  if (!IsOpen)
    return;
  ++Walks;
  if (SpareBuffers::isLast(Buffer))
    Lost.ParseStopBytes += Valid;
  else
    walk(Buffer, Valid, Keep);
}

void Sink::walk(uint8_t *Buffer, size_t Valid, bool Keep) {
  void *Record = nullptr, *Next = nullptr;
  cupti::Result R = A->ActivityGetNextRecord(Buffer, Valid, &Record);
  while (R == cupti::Success) {
    Next = Record;
    R = A->ActivityGetNextRecord(Buffer, Valid, &Next);
    const uint8_t *At = static_cast<uint8_t *>(Record);
    const uint8_t *End = R == cupti::Success ? static_cast<uint8_t *>(Next)
                                             : Buffer + Valid;
    size_t Stride = static_cast<size_t>(End - At);
    // Behind a record that cannot be walked over its own end is unknown.
    if ((R != cupti::Success && R != cupti::MaxLimitReached) || End <= At) {
      Lost.ParseStopBytes += Stride;
      return;
    }
    if (Keep) {
      take(At, Stride);
    } else {
      ++Lost.Seen;
      ++Lost.PoolOverflow;
    }
    Record = Next;
  }
  if (R != cupti::MaxLimitReached)
    Lost.ParseStopBytes += Valid;
}

bool Sink::isWanted(const void *Record, size_t Stride) const {
  uint32_t Head[2];
  if (Stride < sizeof(Head))
    return false;
  memcpy(Head, Record, sizeof(Head));
  RecordKind Kind = recordKind(Head[0]);
  if (Kind == RecordKind(0) || !(Kinds >> unsigned(Kind) & 1))
    return false;
  // Where CUPTI cannot be told to leave calls out, they are left out here.
  static constexpr CallSet Driver = keptDriverCalls();
  static constexpr CallSet Runtime = leftOutRuntimeCalls();
  if (Head[0] == activity::Driver)
    return AllDriverCalls || Driver.has(Head[1]);
  return Head[0] != activity::Runtime || !Runtime.has(Head[1]);
}

/// Whether \p Record is a kernel that CUPTI could not time.
static bool isUntimed(const void *Record, size_t Stride, RecordKind Kind) {
  if (Kind != RecordKind::Kernel || Stride < 32)
    return false;
  uint64_t Times[2];
  memcpy(Times, static_cast<const uint8_t *>(Record) + 16, sizeof(Times));
  return !Times[0] || !Times[1];
}

void Sink::take(const void *Record, size_t Stride) {
  ++Lost.Seen;
  uint32_t Activity = 0;
  if (Stride >= sizeof(Activity))
    memcpy(&Activity, Record, sizeof(Activity));
  RecordKind Kind = recordKind(Activity);
  if (!isWanted(Record, Stride)) {
    ++Lost.Unwanted;
    return;
  }
  ++Seen[unsigned(Kind)];
  if (isUntimed(Record, Stride, Kind)) {
    ++Lost.ZeroTime;
    return;
  }
  Namer Names = {name, callName, shape, this};
  void *To = Writer.add(Kind);
  decode(Record, Stride, Names, To ? To : Aside);
  const void *Made = To ? To : Aside;
  // Both begin with start and end.
  if (Kind == RecordKind::Kernel || Kind == RecordKind::Copy) {
    uint64_t Times[2];
    memcpy(Times, Made, sizeof(Times));
    if (Times[1] > Times[0])
      Busy += Times[1] - Times[0];
  }
}

uint32_t Sink::name(void *Self, const char *Text) {
  Sink &S = *static_cast<Sink *>(Self);
  // Names of kernels are some hundred bytes, and there are few of them.
  uint64_t Address = reinterpret_cast<uintptr_t>(Text);
  unsigned Slot = (Address * 0x9e3779b97f4a7c15u >> 32) % RecentNames;
  Named &N = S.Recent[Slot];
  if (N.Key == S.Walks && S.RecentTexts[Slot] == Text &&
      N.Epoch == S.Writer.epoch())
    return N.Id;
  uint32_t Epoch = S.Writer.epoch(); // May change in between.
  uint32_t Id = S.Writer.name(Text);
  N = {Id, Epoch, S.Walks};
  S.RecentTexts[Slot] = Text;
  return Id;
}

uint32_t Sink::callName(void *Self, uint32_t Domain, uint32_t Id) {
  Sink &S = *static_cast<Sink *>(Self);
  Named *N = Id < MaxCallback ? &S.Calls[Domain - 1][Id] : nullptr;
  if (N && N->Key && N->Epoch == S.Writer.epoch())
    return N->Id;
  const char *Text = nullptr;
  if (S.A->GetCallbackName(static_cast<int>(Domain), Id, &Text) !=
      cupti::Success)
    Text = nullptr;
  // Ids beyond what libcupti knows have no name.
  uint32_t Epoch = S.Writer.epoch();
  uint32_t Name = Text ? S.Writer.name(Text) : 0;
  if (N)
    *N = {Name, Epoch, 1};
  return Name;
}

uint32_t Sink::shapeName(const void *Record, size_t Stride) {
  LaunchShape Shape;
  decodeShape(Record, Stride, Shape);
  return Writer.name(&Shape, sizeof(Shape));
}

uint32_t Sink::shape(void *Self, const void *Record, size_t Stride) {
  Sink &S = *static_cast<Sink *>(Self);
  if (Stride < ShapeWords::LeastStride)
    return S.shapeName(Record, Stride);
  const ShapeWords Words(Record);
  // Grid and block differ most.
  uint64_t Hash = ((Words.Of[0] ^ Words.Of[4]) * 0x9e3779b97f4a7c15u ^
                   Words.Of[1]) * 0xd6e8feb86659fd93u ^ Words.Of[2];
  unsigned Slot = (Hash * 0x9e3779b97f4a7c15u >> 32) % RecentNames;
  Named &N = S.Shapes[Slot];
  uint32_t Epoch = S.Writer.epoch();
  if (N.Id && N.Epoch == Epoch && S.RecentShapes[Slot] == Words)
    return N.Id;
  N = {S.shapeName(Record, Stride), Epoch, 0};
  S.RecentShapes[Slot] = Words;
  return N.Id;
}

void Sink::flush(uint64_t CuptiDropped) {
  Holding H(Guard);
  Lost.Seen += CuptiDropped;
  Lost.CuptiDropped += CuptiDropped;
  Writer.flush(Lost);
}

void Sink::addClock() {
  ClockSample C = {};
  // Realtime next to CUPTI's, which should be the same clock.
  if (A->GetTimestamp(&C.Cupti) != cupti::Success)
    C.Cupti = 0;
  C.Realtime = now();
  C.Monotonic = timeOf(CLOCK_MONOTONIC);
  C.MonotonicRaw = timeOf(CLOCK_MONOTONIC_RAW);
  Holding H(Guard);
  Writer.addClock(C);
}

void Sink::addHeartbeat(uint64_t AgentCpu) {
  Holding H(Guard);
  Writer.addHeartbeat(
      {now(), AgentCpu, Pool.inUse(), Writer.bytesWritten()});
}

void Sink::addState(StateCode Code, uint32_t Result, const char *What) {
  Holding H(Guard);
  Writer.addState(Code, Result, now(), What);
}

void Sink::finish(EndReason Reason, uint64_t CuptiDropped) {
  Holding H(Guard);
  Lost.Seen += CuptiDropped;
  Lost.CuptiDropped += CuptiDropped;
  Writer.finish(Reason, now(), Lost);
}

void Sink::status(StatusMessage &To) {
  Holding H(Guard);
  To = {};
  To.At = now();
  memcpy(To.Seen, Seen, sizeof(Seen));
  To.BusyTime = Busy;
  To.BytesWritten = Writer.bytesWritten();
  To.BuffersInUse = Pool.inUse();
  To.Buffers = Pool.size();
  To.Lost = Lost;
  To.Lost.Written = Writer.written();
  To.Lost.FileCap = Writer.capped();
  To.Lost.WriteError = Writer.failed();
}

bool Sink::isFull() {
  Holding H(Guard);
  return Writer.isFull();
}

int Sink::error() {
  Holding H(Guard);
  return Writer.error();
}

} // namespace culprit::agent
