//===- StreamCaptures.cpp ---------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Agent/StreamCaptures.h"
#include "Agent/Calls.h"
#include <string.h>

namespace culprit::agent {

namespace {
struct Ids {
  int Domain;
  const uint32_t *First;
  unsigned Count;
  bool has(int Of, uint32_t Id) const {
    bool Is = false;
    for (unsigned I = 0; I < Count && !Is; ++I)
      Is = Domain == Of && First[I] == Id;
    return Is;
  }
};
} // namespace

// cudaMemcpy, cudaThread-, cudaStream-, cudaEvent-, cudaDeviceSynchronize.
static constexpr uint32_t RuntimeWaits[] = {31, 126, 131, 137, 165, 239};
// cuCtxSynchronize, cuEventSynchronize, cuStreamSynchronize, and their kin.
static constexpr uint32_t DriverWaits[] = {17, 121, 126, 440, 800};

static constexpr Ids Begins[] = {{cupti::RuntimeApi, RuntimeBegins, 4},
                                 {cupti::DriverApi, DriverBegins, 6}};
static constexpr Ids Ends[] = {{cupti::RuntimeApi, RuntimeEnds, 2},
                               {cupti::DriverApi, DriverEnds, 2}};
static constexpr Ids Waits[] = {{cupti::RuntimeApi, RuntimeWaits, 6},
                                {cupti::DriverApi, DriverWaits, 5}};

/// Results with which cudaStreamEndCapture ends a capture: success, and that it
/// had been invalidated or not joined. With the others it goes on.
static bool hasEnded(int Result) {
  return Result == 0 || Result == 901 || Result == 904;
}

bool StreamCaptures::isWait(int Domain, uint32_t Id) {
  return Waits[0].has(Domain, Id) || Waits[1].has(Domain, Id);
}

void StreamCaptures::follow(const cupti::Api &A, cupti::Subscriber *S) {
  memset(Streams, 0, sizeof(Streams));
  memset(Beginning, 0, sizeof(Beginning));
  Overflow = 0;
  __atomic_store_n(&Known, 0, __ATOMIC_RELEASE);
  for (unsigned Of = 0; Of < 2; ++Of) {
    const Ids *const Groups[] = {&Begins[Of], &Ends[Of], &Waits[Of]};
    for (const Ids *Group : Groups)
      for (unsigned I = 0; I < Group->Count; ++I)
        A.EnableCallback(1, S, Group->Domain, Group->First[I]);
  }
}

void StreamCaptures::add(int Of, uint64_t Stream) {
  for (uint64_t &Place : Streams[Of]) {
    uint64_t Free = 0;
    if (__atomic_compare_exchange_n(&Place, &Free, Stream, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return;
  }
  __atomic_store_n(&Overflow, 1, __ATOMIC_RELEASE);
}

/// Of one that began before follow() there is nothing to remove.
void StreamCaptures::remove(int Of, uint64_t Stream) {
  for (uint64_t &Place : Streams[Of]) {
    uint64_t Is = Stream;
    if (__atomic_compare_exchange_n(&Place, &Is, 0, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return;
  }
}

bool StreamCaptures::areOpen() const {
  bool Is = __atomic_load_n(&Overflow, __ATOMIC_ACQUIRE);
  for (unsigned Of = 0; Of < 2; ++Of) {
    Is |= __atomic_load_n(&Beginning[Of], __ATOMIC_ACQUIRE) != 0;
    for (const uint64_t &Place : Streams[Of])
      Is |= __atomic_load_n(&Place, __ATOMIC_ACQUIRE) != 0;
  }
  return Is;
}

bool StreamCaptures::areOver() const {
  return __atomic_load_n(&Known, __ATOMIC_ACQUIRE) && !areOpen();
}

void StreamCaptures::hear(int Domain, uint32_t Id,
                          const cupti::CallbackData &Data) {
  const int Of = Domain == cupti::DriverApi;
  const bool IsBegin = Begins[Of].has(Domain, Id);
  if (Data.Site == cupti::ApiEnter) {
    // From here on, as another thread may end a call at any moment.
    if (IsBegin)
      __atomic_add_fetch(&Beginning[Of], 1, __ATOMIC_ACQ_REL);
    return;
  }
  int Result = 0;
  uint64_t Stream = 0;
  if (Data.Result)
    memcpy(&Result, Data.Result, sizeof(Result));
  if (IsBegin || Ends[Of].has(Domain, Id)) {
    // The first parameter of each.
    if (Data.Parameters)
      memcpy(&Stream, Data.Parameters, sizeof(Stream));
    if (!IsBegin) {
      if (hasEnded(Result))
        remove(Of, Stream);
      return;
    }
    if (Result == 0)
      add(Of, Stream);
    // One that was under way when the callbacks were asked for did not enter.
    uint32_t N = __atomic_load_n(&Beginning[Of], __ATOMIC_ACQUIRE);
    while (N && !__atomic_compare_exchange_n(&Beginning[Of], &N, N - 1, false,
                                             __ATOMIC_ACQ_REL,
                                             __ATOMIC_ACQUIRE))
      ;
    return;
  }
  if (Result == 0 && isWait(Domain, Id) && !areOpen())
    __atomic_store_n(&Known, 1, __ATOMIC_RELEASE);
}

} // namespace culprit::agent
