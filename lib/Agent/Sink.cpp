//===- Sink.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/Sink.h"
#include "Agent/RawDump.h"
#include "Agent/Text.h"
#include "Capture/DecodeFields.h"
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
  RefusedAt[0] = RefusedAt[1] = __atomic_load_n(&Refused, __ATOMIC_RELAXED);
  for (uint32_t I = 0; I < MaxActivity; ++I) {
    RecordKind Kind = recordKind(I);
    Wanted[I] = Asked.Kinds >> unsigned(Kind) & 1 ? Kind : RecordKind(0);
  }
  Wanted[0] = RecordKind(0);
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
  if (RefuseBuffers) {
    __atomic_add_fetch(&Refused, 1, __ATOMIC_RELAXED);
    return;
  }
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
  if (Kept)
    Pool.give(Buffer);
  else
    Spare.give(Buffer);
  if (!IsAgent)
    __atomic_add_fetch(&CallbackTime, threadTime() - Begin, __ATOMIC_RELAXED);
}

void Sink::read(uint8_t *Buffer, size_t Valid, bool Keep) {
  Holding H(Guard);
  if (IsOpen) {
    ++Walks;
    if (SpareBuffers::isLast(Buffer))
      Lost.ParseStopBytes += Valid;
    else
      walk(Buffer, Valid, Keep);
  }
  // CUPTI was told that it gets zeroed buffers; and one that has records has
  // not been read, see countKept().
  if (Keep)
    memset(Buffer, 0, Valid);
}

void Sink::walk(uint8_t *Buffer, size_t Valid, bool Keep) {
  saveRaw(*A, Buffer, Valid);
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

/// Whether the call \p Id is kept. Where CUPTI cannot be told to leave calls
/// out, they are left out here.
static bool isKeptCall(uint32_t Activity, uint32_t Id, bool AllDriverCalls) {
  static constexpr CallSet Driver = keptDriverCalls();
  static constexpr CallSet Runtime = leftOutRuntimeCalls();
  return Activity == activity::Driver ? AllDriverCalls || Driver.has(Id)
                                      : !Runtime.has(Id);
}

/// Gives fields::decode() the ids of names.
struct Sink::Naming {
  Sink &S;
  uint32_t text(const char *Text) { return S.name(Text); }
  uint32_t call(uint32_t Domain, uint32_t Id) { return S.callName(Domain, Id); }
  uint32_t shape(const void *Record, size_t Stride) {
    return S.shape(Record, Stride);
  }
};

void Sink::take(const uint8_t *Record, size_t Stride) {
  ++Lost.Seen;
  uint32_t Head[2] = {};
  if (Stride >= sizeof(Head))
    memcpy(Head, Record, sizeof(Head));
  const uint32_t Activity = Head[0] < MaxActivity ? Head[0] : 0;
  Strides[Activity] = Stride;
  const RecordKind Kind = Wanted[Activity];
  if (Kind == RecordKind(0) ||
      (Kind == RecordKind::Call &&
       !isKeptCall(Activity, Head[1], AllDriverCalls))) {
    ++Lost.Unwanted;
    return;
  }
  ++Seen[unsigned(Kind)];
  // Both have their times in the same place.
  if ((Kind == RecordKind::Kernel || Kind == RecordKind::Copy) &&
      Stride >= 32) {
    uint64_t Times[2];
    memcpy(Times, Record + 16, sizeof(Times));
    if (Kind == RecordKind::Kernel && (!Times[0] || !Times[1])) {
      ++Lost.ZeroTime;
      return;
    }
    if (Times[1] > Times[0])
      Busy += Times[1] - Times[0];
  }
  // Without room for it no name of it is wanted either.
  if (void *To = Writer.add(Kind)) {
    Naming Ids = {*this};
    fields::decode(Record, Stride, Activity, Kind, Ids, To);
  }
}

uint32_t Sink::name(const char *Text) {
  // Names of kernels are some hundred bytes, and there are few of them.
  uint64_t Address = reinterpret_cast<uintptr_t>(Text);
  unsigned Slot = (Address * 0x9e3779b97f4a7c15u >> 32) % RecentNames;
  const uint32_t Epoch = Writer.epoch(); // May change below.
  for (unsigned Way = 0; Way < 2; ++Way) {
    const unsigned Place = Slot ^ Way;
    const Named &N = Recent[Place];
    if (RecentTexts[Place] == Text && N.Key == Walks && N.Epoch == Epoch)
      return N.Id;
  }
  if (Recent[Slot].Key == Walks)
    Slot ^= 1;
  uint32_t Id = Writer.name(Text);
  Recent[Slot] = {Id, Epoch, Walks};
  RecentTexts[Slot] = Text;
  return Id;
}

uint32_t Sink::callName(uint32_t Domain, uint32_t Id) {
  Named *N = Id < MaxCallback ? &Calls[Domain - 1][Id] : nullptr;
  if (N && N->Key && N->Epoch == Writer.epoch())
    return N->Id;
  const char *Text = nullptr;
  if (A->GetCallbackName(static_cast<int>(Domain), Id, &Text) !=
      cupti::Success)
    Text = nullptr;
  // Ids beyond what libcupti knows have no name.
  uint32_t Epoch = Writer.epoch();
  uint32_t Name = Text ? Writer.name(Text) : 0;
  if (N)
    *N = {Name, Epoch, 1};
  return Name;
}

uint32_t Sink::shapeName(const void *Record, size_t Stride) {
  LaunchShape Shape;
  decodeShape(Record, Stride, Shape);
  return Writer.name(&Shape, sizeof(Shape));
}

uint32_t Sink::shape(const void *Record, size_t Stride) {
  if (Stride < ShapeWords::LeastStride)
    return shapeName(Record, Stride);
  const ShapeWords Words(Record);
  // Grid and block differ most.
  uint64_t Hash = ((Words.Of[0] ^ Words.Of[4]) * 0x9e3779b97f4a7c15u ^
                   Words.Of[1]) * 0xd6e8feb86659fd93u ^ Words.Of[2];
  unsigned Slot = (Hash * 0x9e3779b97f4a7c15u >> 32) % RecentNames;
  const uint32_t Epoch = Writer.epoch();
  Named &N = Shapes[Slot];
  if (N.Id && N.Epoch == Epoch && RecentShapes[Slot] == Words)
    return N.Id;
  N = {shapeName(Record, Stride), Epoch, 0};
  RecentShapes[Slot] = Words;
  return N.Id;
}

/// CUPTI counts what it has no buffer for, and cannot tell whether one was
/// refused. A refusal may come shortly before the flush in which CUPTI counts
/// what was lost by it.
void Sink::countDropped(uint64_t N) {
  const uint64_t Now = __atomic_load_n(&Refused, __ATOMIC_RELAXED);
  Lost.Seen += N;
  (Now != RefusedAt[1] ? Lost.PoolOverflow : Lost.CuptiDropped) += N;
  RefusedAt[1] = RefusedAt[0];
  RefusedAt[0] = Now;
}

void Sink::flush(uint64_t CuptiDropped) {
  Holding H(Guard);
  countDropped(CuptiDropped);
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

/// Counts the records in buffers that CUPTI has kept: they are in its hands and
/// cannot be read, but stepped over by the strides that were seen.
void Sink::countKept() {
  uint64_t Records = 0;
  unsigned Buffers = 0;
  for (unsigned I = 0; I < Pool.size(); ++I) {
    const uint8_t *Buffer = Pool.used(I);
    uint64_t Before = Records;
    for (size_t At = 0; Buffer && At + 8 <= Pool.bufferBytes(); ++Records) {
      uint32_t Activity;
      memcpy(&Activity, Buffer + At, sizeof(Activity));
      if (!Activity || Activity >= MaxActivity || !Strides[Activity])
        break;
      At += Strides[Activity];
    }
    Buffers += Records > Before;
  }
  if (!Records)
    return;
  Lost.Seen += Records;
  Lost.CuptiDropped += Records;
  char What[128];
  Text(What, sizeof(What)) << "CUPTI did not give back " << Buffers
                           << " buffers with " << Records << " records";
  Writer.addState(StateCode::Note, 0, now(), What);
}

EndReason Sink::finish(EndReason Reason, uint64_t CuptiDropped) {
  Holding H(Guard);
  countDropped(CuptiDropped);
  countKept();
  IsOpen = false;
  return Writer.finish(Reason, now(), Lost, Seen);
}

void Sink::status(StatusMessage &To) {
  Holding H(Guard);
  To = {};
  To.At = now();
  memcpy(To.Seen, Seen, sizeof(Seen));
  for (unsigned K = 1; K <= MaxRecordKind; ++K)
    To.Kept[K] = Writer.kept(K);
  To.Overwritten = Writer.overwritten();
  To.KeptFrom = Writer.keptFrom();
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
