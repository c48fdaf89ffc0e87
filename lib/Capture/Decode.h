//===- Decode.h - From CUPTI's records to ours ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads an activity record of any CUPTI from 11.8 to 13.x. What tells the
/// version of a layout is the stride between two records, never a number: of
/// each kind the newer layouts only appended fields.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CAPTURE_DECODE_H
#define CULPRIT_CAPTURE_DECODE_H

#include "Capture/Records.h"
#include <string.h>

namespace culprit::capture {

/// CUpti_ActivityKind, as far as culprit asks for them. Facts of CUPTI's
/// headers.
namespace activity {
enum : uint32_t {
  Memcpy = 1,
  Memset = 2,
  Kernel = 3,
  Driver = 4,
  Runtime = 5,
  Device = 8,
  Context = 9,
  ConcurrentKernel = 10,
  Name = 11,
  Marker = 12,
  Overhead = 17,
  MemcpyPeer = 22,
  UnifiedMemory = 25,
  CudaEvent = 36,
  Stream = 37,
  Synchronization = 38,
  ExternalCorrelation = 39,
  Memory = 49,
  MemoryPool = 50,
  GraphTrace = 51,
};
} // namespace activity

/// The kind of record that an activity record of \p Activity becomes; 0 when
/// it becomes none.
constexpr RecordKind recordKind(uint32_t Activity) {
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
  case activity::MemoryPool:
    return RecordKind::Pool;
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

/// Gives the ids of texts. One that is given is only valid during the call.
struct Namer {
  uint32_t (*Text)(void *Context, const char *Text);
  /// Of a callback id in domain 1 (driver) or 2 (runtime).
  uint32_t (*Call)(void *Context, uint32_t Domain, uint32_t Callback);
  /// Of the shape of a kernel's activity record.
  uint32_t (*Shape)(void *Context, const void *Record, size_t Stride);
  void *Context;
};

/// The shape of a kernel's activity record; bytes of padding are 0.
void decodeShape(const void *Record, size_t Stride, LaunchShape &To);

/// All that a shape is made of, as it stands in an activity record. Two records
/// with the same words have the same shape: to compare them takes a fraction of
/// the time of decodeShape().
struct ShapeWords {
  static constexpr size_t LeastStride = 188;
  uint64_t Of[7];

  /// \p Record has at least LeastStride bytes.
  explicit ShapeWords(const void *Record) {
    const char *At = static_cast<const char *>(Record);
    uint32_t Local, ClusterZ;
    uint16_t Registers;
    memcpy(Of, At + 52, 4 * sizeof(uint64_t)); // Grid, block, shared memory.
    memcpy(&Local, At + 84, sizeof(Local));
    memcpy(&Registers, At + 6, sizeof(Registers));
    memcpy(&Of[5], At + 176, sizeof(uint64_t));
    memcpy(&ClusterZ, At + 184, sizeof(ClusterZ));
    Of[4] = Local | uint64_t(Registers) << 32 |
            uint64_t(static_cast<uint8_t>(At[136])) << 48;
    Of[6] = ClusterZ;
  }
  constexpr ShapeWords() : Of() {}
  bool operator==(const ShapeWords &O) const {
    uint64_t Differs = 0;
    for (unsigned I = 0; I < 7; ++I)
      Differs |= Of[I] ^ O.Of[I];
    return !Differs;
  }
};

/// Bytes of a record of \p Kind in the file; 0 when there is no such kind.
constexpr size_t recordSize(RecordKind Kind) {
  switch (Kind) {
#define CAPTURE_RECORD(Id, Number, Name)                                       \
  case RecordKind::Id:                                                         \
    return sizeof(Id##Record);
#include "Capture/Records.def"
  }
  return 0;
}

/// Writes the activity record \p From of \p Stride bytes to \p To, which has
/// room for MaxRecordSize, aligned to 8. Fields that the layout does not have
/// are 0. Gives the kind, or 0 when it is of none.
RecordKind decode(const void *From, size_t Stride, const Namer &Names,
                  void *To);

} // namespace culprit::capture

#endif // CULPRIT_CAPTURE_DECODE_H
