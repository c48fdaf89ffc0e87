//===- SimCupti.h - The inside of the simulated libcupti --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// State shared by the parts of the simulated `libcupti.so`. What can be asked
/// of it by the environment:
///
///   SIMCUPTI_VERSION=N      18, 24, 27, 130000, 130001, 130300: strides of
///                           the records and which functions there are
///   SIMCUPTI_STRICT=1       a use that CUPTI forbids ends the process, code 77
///   SIMCUPTI_LATE_US=N      records are complete N us after their work
///   SIMCUPTI_OUT_OF_ORDER=1 buffers are delivered last first
///   SIMCUPTI_ZERO_TIMES=N   every Nth kernel has no times
///   SIMCUPTI_DROP=N         every Nth record finds all buffers full
///   SIMCUPTI_SLOW_MS=N      each kind takes N ms to enable
///   SIMCUPTI_BUSY=NAME      another subscriber is there already
///   SIMCUPTI_REFUSE=KIND    that kind cannot be enabled
///   SIMCUPTI_NO_DEVICE=1    as with a driver that does not work: all is 999
///   SIMCUPTI_EXTERNAL=N     every Nth call is inside a pushed external id
///   SIMCUPTI_REPLAY=FILE    the records are those of saved buffers, see
///                           RawFile.h, and the version is theirs
///
/// Compiled with SIMCUPTI_OLD it is a libcupti of 11.8 where no version is
/// asked for.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_SIM_SIMCUPTI_H
#define CULPRIT_TEST_SIM_SIMCUPTI_H

#include "Agent/CuptiAbi.h"
#include "SimDevice.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simcupti {

using culprit::cupti::Callback;
using culprit::cupti::CallbackData;
using culprit::cupti::Result;
using culprit::cupti::Subscriber;
using Requested = culprit::cupti::BufferRequested;
using Completed = culprit::cupti::BufferCompleted;

/// Results that the agent does not know by name.
constexpr Result InvalidParameter = 1, InvalidDevice = 2, InvalidContext = 3,
                 InvalidOperation = 7, ParameterTooSmall = 10, QueueEmpty = 18,
                 InvalidStream = 20;

/// CUDA 13.0 before its first update.
constexpr uint32_t BadVersion = 130000;

struct Settings {
#ifdef SIMCUPTI_OLD
  uint32_t Version = 18;
#else
  uint32_t Version = 130001;
#endif
  bool Strict = false, OutOfOrder = false;
  uint64_t LateNs = 0, ZeroTimes = 0, Drop = 0, SlowMs = 0;
  const char *Busy = nullptr;
  int Refuse = -1;
  bool NoDevice = false;
  uint64_t External = 0;
  const char *Replay = nullptr;
};
const Settings &settings();

/// Bytes of a record of the activity \p Kind in this version; 0 for none.
size_t stride(uint32_t Kind);

/// Ends the process in strict mode, as \p What is forbidden.
void forbid(bool Is, const char *What);

/// CLOCK_REALTIME, ns.
uint64_t now();

/// Gives \p R back and remembers it for cuptiGetLastError of this thread.
Result told(Result R);
/// Forgets and gives what told() remembers.
Result takeLastError();

// What is switched on (SimSwitches.cpp).

constexpr uint32_t MaxKind = 64, MaxCallback = 1024, MaxDomain = 7;

struct Switches {
  std::atomic<bool> Kinds[MaxKind];
  /// Of the context: 0 as Kinds says, 1 on, -1 off.
  std::atomic<int8_t> OfContext[MaxKind];
  std::atomic<bool> DriverCalls[MaxCallback], RuntimeOff[MaxCallback];
  std::atomic<bool> Callbacks[MaxDomain][MaxCallback];
  std::atomic<bool> HasPaging, HasLatency;
  std::atomic<Subscriber *> Current;
  std::atomic<Callback> OnCall;
  std::atomic<void *> OnCallUser;
};
extern Switches Switched;

/// Whether records of \p Kind are made.
bool has(uint32_t Kind);
/// Whether any are.
bool hasEnabled();
/// All off, as cuptiFinalize leaves it.
void switchOff();

// The device and the records of what it does (SimRecords.cpp).

/// Hears of the device, as any call of CUPTI does; false without one.
bool attach();
bool isAttached();
void detach();
/// Whether the calling thread is in a callback at the end of a CUDA call.
bool insideExit();
/// What CUPTI itself cost the calling thread, since \p Start.
void addOverhead(uint32_t Kind, uint64_t Start);
/// A range of NVTX begins or ends.
struct SimMarker {
  const char *Name; ///< Null for the end.
  uint32_t Id;
  uint64_t At;
};
void addMarker(const SimMarker &M);
/// What there is already, of the kinds that can be told so.
void dump(uint32_t Kind);
/// Ids that the calling thread pushed; false from pop when there is none.
void pushExternal(uint64_t Id);
bool popExternal(uint64_t &Id);

template <typename T> void put(uint8_t *Record, size_t Offset, T Value) {
  std::memcpy(Record + Offset, &Value, sizeof(Value));
}

// Buffers (SimBuffers.cpp).

void setBufferCallbacks(Requested R, Completed C);
bool hasBufferCallbacks();
/// The client says that its buffers are zeros, and whether each thread is to
/// have its own.
void setZeroed(bool Are);
void setPerThread(bool Is);
/// Room for a record of \p Kind, zeroed, which becomes complete at \p At; null
/// when there is no buffer, and the record is counted as dropped. Must be
/// followed by endRecord().
uint8_t *beginRecord(uint32_t Kind, uint64_t At);
void endRecord();
/// Delivers buffers whose records are all complete, or with \p Forced all.
void flush(bool Forced);
size_t takeDropped();
bool insideBufferCallback();
/// Stops the thread that delivers, when CUPTI is finalized.
void stopDelivery();

// Saved buffers instead of records (SimReplay.cpp).

/// CUPTI's version in the file \p Path; ends the process when it is no such
/// file.
uint32_t replayedVersion(const char *Path);
/// Delivers the buffers, the first time that it is called.
void replay();

} // namespace simcupti

/// A function of every version.
#define SIM                                                                    \
  extern "C" __attribute__((visibility("default"))) culprit::cupti::Result

/// A function since an API version: dlsym() finds none in an older one, since
/// what an indirect function resolves to is its value.
#define SIM_SINCE(Least, Name, ...)                                            \
  static culprit::cupti::Result Name##Body(__VA_ARGS__);                       \
  extern "C" __attribute__((used)) decltype(&Name##Body) simFind##Name() {     \
    return simcupti::settings().Version >= Least ? Name##Body : nullptr;       \
  }                                                                            \
  extern "C" __attribute__((visibility("default"),                            \
                            ifunc("simFind" #Name))) culprit::cupti::Result   \
  Name(__VA_ARGS__);                                                           \
  static culprit::cupti::Result Name##Body(__VA_ARGS__)

#endif // CULPRIT_TEST_SIM_SIMCUPTI_H
