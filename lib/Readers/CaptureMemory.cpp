//===- CaptureMemory.cpp - Allocations and pools of memory ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaptureParts.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace culprit::capture;

namespace culprit::cprt {

void readMemory(Part &P) {
  enum : uint32_t { Allocation = 1, Release = 2 };
  int64_t Place = 0;
  P.File.each<MemoryRecord>([&](const MemoryRecord &R, uint32_t, uint64_t) {
    int64_t Number = Place++;
    std::optional<int64_t> At = P.time(R.at);
    if (!At || R.bytes > INT64_MAX ||
        (R.operation != Allocation && R.operation != Release)) {
      ++P.Skipped;
      return;
    }
    TableBuilder &Row = P.Into.table(TableId::memory_events);
    int64_t Bytes = static_cast<int64_t>(R.bytes);
    Row.addRow();
    Row.set(memory_events::at, *At);
    Row.set(memory_events::address, static_cast<int64_t>(R.address));
    Row.set(memory_events::bytes, R.operation == Release ? -Bytes : Bytes);
    Row.set(memory_events::rank, P.Rank);
    if (isHostMemory(R.memory_kind))
      Row.set(memory_events::device, int64_t(-1));
    else if (R.device != ~0u)
      Row.set(memory_events::device, int64_t(R.device));
    // Memory that is not asked for in a stream has none.
    if (R.is_async && R.stream != ~0u)
      Row.set(memory_events::stream, int64_t(R.stream));
    Row.set(memory_events::place, Number);
  });
}

namespace {
/// What the pools of stream-ordered allocations of each device hold in all. A
/// device has several, and a counter is of a device.
class PoolCounters {
public:
  explicit PoolCounters(Part &P) : P(P) {}

  /// \p Number is that of the record among its kind.
  void add(const PoolRecord &R, int64_t At, int64_t Number) {
    Sizes &Pool = Pools[{R.device, R.address}], &Sum = Sums[R.device];
    Sizes New;
    if (R.operation != Destroyed)
      New = {R.size, R.used};
    // Without a sign: what a damaged record added is taken off again.
    Sum.Size += New.Size - Pool.Size;
    Sum.Used += New.Used - Pool.Used;
    Pool = New;
    sample("memory_pool_size", Sum.Size, R.device, At, Number);
    sample("memory_pool_used", Sum.Used, R.device, At, Number);
  }

private:
  static constexpr uint32_t Destroyed = 2;
  struct Sizes {
    uint64_t Size = 0, Used = 0;
  };

  void sample(StringRef Name, uint64_t Bytes, uint32_t Device, int64_t At,
              int64_t Number) {
    TableBuilder &Row = P.Into.table(TableId::counters);
    Row.addRow();
    Row.set(counters::name, Name);
    Row.set(counters::at, At);
    Row.set(counters::value, static_cast<double>(Bytes));
    Row.set(counters::rank, P.Rank);
    if (Device != ~0u)
      Row.set(counters::device, int64_t(Device));
    Row.set(counters::place, Number);
  }

  Part &P;
  std::map<std::pair<uint32_t, uint64_t>, Sizes> Pools; ///< Device, address.
  std::map<uint32_t, Sizes> Sums;                       ///< By device.
};
} // namespace

void readPools(Part &P) {
  constexpr uint32_t Local = 1; // CUPTI knows the size of no other type.
  struct Event {
    int64_t At, Number;
    PoolRecord Record;
  };
  std::vector<Event> Events;
  int64_t Place = 0;
  P.File.each<PoolRecord>([&](const PoolRecord &R, uint32_t, uint64_t) {
    int64_t Number = Place++;
    std::optional<int64_t> At = P.time(R.at);
    if (!At || R.size > INT64_MAX || R.used > INT64_MAX)
      ++P.Skipped;
    else if (R.type == Local)
      Events.push_back({*At, Number, R});
  });
  // Sums need the order of time; buffers of threads come one after the other.
  llvm::stable_sort(Events, [](const Event &A, const Event &B) {
    return A.At < B.At;
  });
  PoolCounters Counters(P);
  for (const Event &E : Events)
    Counters.add(E.Record, E.At, E.Number);
}

} // namespace culprit::cprt
