//===- Decode.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include <string.h>

namespace culprit::capture {

RecordKind recordKind(uint32_t Activity) {
  switch (Activity) {
  case activity::Kernel:
  case activity::ConcurrentKernel:
    return RecordKind::Kernel;
  case activity::Memcpy:
    return RecordKind::Copy;
  case activity::MemcpyPeer:
    return RecordKind::PeerCopy;
  case activity::Memset:
    return RecordKind::Set;
  case activity::Runtime:
  case activity::Driver:
    return RecordKind::Call;
  case activity::Synchronization:
    return RecordKind::Sync;
  case activity::Memory:
    return RecordKind::Memory;
  case activity::Overhead:
    return RecordKind::Overhead;
  case activity::GraphTrace:
    return RecordKind::GraphLaunch;
  case activity::Marker:
    return RecordKind::Marker;
  case activity::ExternalCorrelation:
    return RecordKind::External;
  case activity::CudaEvent:
    return RecordKind::Event;
  case activity::Device:
    return RecordKind::Device;
  case activity::Context:
    return RecordKind::Context;
  case activity::Stream:
    return RecordKind::Stream;
  case activity::Name:
    return RecordKind::Name;
  case activity::UnifiedMemory:
    return RecordKind::Paging;
  default:
    return RecordKind(0);
  }
}

size_t recordSize(RecordKind Kind) {
  switch (Kind) {
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  case RecordKind::Id:                                                         \
    return sizeof(Id##Record);
#include "Capture/Records.def"
  }
  return 0;
}

namespace {

/// How wide a field is where CUPTI has it.
struct From {
  using U8 = uint8_t;
  using U16 = uint16_t;
  using U32 = uint32_t;
  using U64 = uint64_t;
  using I32 = int32_t;
  using I64 = int64_t;
  using String = const char *;
};

/// Where a record has its fields. \p Whole says that it has all of them, which
/// saves half of the time.
template <bool Whole> struct Source {
  const uint8_t *Record;
  size_t Stride;
  const Namer &Names;

  template <typename Wide, typename Narrow>
  void read(Narrow &To, size_t Offset) const {
    Wide Value = {};
    if (Whole || Offset + sizeof(Wide) <= Stride)
      memcpy(&Value, Record + Offset, sizeof(Wide));
    assign(To, Value);
  }
  template <typename Narrow, typename Wide>
  void assign(Narrow &To, Wide Value) const {
    To = static_cast<Narrow>(Value);
  }
  void assign(uint32_t &To, const char *Value) const {
    To = Value ? Names.Text(Names.Context, Value) : 0;
  }
};

#define CAPTURE_RECORD(Id, Number, Name)                                       \
  template <bool Whole>                                                        \
  void fill(const Source<Whole> &S, Id##Record &To) {
#define CAPTURE_FIELD(Id, Name, Type, Offset, Wide)                            \
  S.template read<From::Wide>(To.Name, Offset);
#define CAPTURE_RECORD_END(Id) }
#include "Capture/Records.def"

constexpr size_t larger(size_t A, size_t B) { return A < B ? B : A; }

/// Where the last field of the newest layout ends.
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  constexpr size_t endOf##Id() {                                               \
    size_t End = 0;
#define CAPTURE_FIELD(Id, Name, Type, Offset, Wide)                            \
  End = larger(End, Offset + sizeof(From::Wide));
#define CAPTURE_RECORD_END(Id)                                                 \
  return End;                                                                  \
  }
#include "Capture/Records.def"

} // namespace

void decodeShape(const void *Record, size_t Stride, LaunchShape &To) {
  Namer None = {};
  Source<false> S = {static_cast<const uint8_t *>(Record), Stride, None};
  memset(&To, 0, sizeof(To));
#define CAPTURE_SHAPE(Name, Type, Offset, Wide)                                \
  S.read<From::Wide>(To.Name, Offset);
#include "Capture/Records.def"
}

RecordKind decode(const void *From, size_t Stride, const Namer &Names,
                  void *To) {
  const uint8_t *Record = static_cast<const uint8_t *>(From);
  uint32_t Activity = 0;
  if (Stride < 2 * sizeof(Activity))
    return RecordKind(0);
  memcpy(&Activity, From, sizeof(Activity));
  RecordKind Kind = recordKind(Activity);
  switch (Kind) {
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  case RecordKind::Id:                                                         \
    /* Padding too, so that equal records are equal bytes. */                  \
    memset(To, 0, sizeof(Id##Record));                                         \
    if (Stride >= endOf##Id())                                                 \
      fill(Source<true>{Record, Stride, Names},                                \
           *static_cast<Id##Record *>(To));                                    \
    else                                                                       \
      fill(Source<false>{Record, Stride, Names},                               \
           *static_cast<Id##Record *>(To));                                    \
    break;
#include "Capture/Records.def"
  default:
    return Kind;
  }
  if (Kind == RecordKind::Kernel)
    static_cast<KernelRecord *>(To)->shape =
        Names.Shape(Names.Context, Record, Stride);
  if (Kind == RecordKind::Call) {
    CallRecord &Call = *static_cast<CallRecord *>(To);
    Call.domain = Activity == activity::Driver ? 1 : 2;
    Call.name = Names.Call(Names.Context, Call.domain, Call.callback);
  }
  return Kind;
}

} // namespace culprit::capture
