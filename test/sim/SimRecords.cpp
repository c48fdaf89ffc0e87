//===- SimRecords.cpp - The records of what the device does -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include "SimCupti.h"
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

using namespace culprit::cupti;
namespace activity = culprit::capture::activity;

namespace simcupti {

static std::atomic<bool> Attached;
static std::atomic<uint64_t> Kernels;
static thread_local std::vector<uint64_t> External;
static thread_local bool InExit;

bool isAttached() { return Attached; }
bool insideExit() { return InExit; }

static uint32_t process() { return uint32_t(getpid()); }
static uint32_t thread() { return uint32_t(syscall(SYS_gettid)); }

/// A record that \p Fill fills in, where the kind is on and there is room.
template <typename Function>
static void add(uint32_t Kind, uint64_t CompleteAt, Function Fill) {
  if (!has(Kind) || !hasBufferCallbacks())
    return;
  if (uint8_t *R = beginRecord(Kind, CompleteAt))
    Fill(R);
  endRecord();
}

static void call(int Domain, uint32_t Id, int Site, const void *Parameters,
                 uint32_t Result = 0) {
  Callback Function = Switched.OnCall;
  if (Id >= MaxCallback || !Switched.Callbacks[Domain][Id] || !Function)
    return;
  CallbackData Data = {Site, nullptr, Parameters,
                       Site == ApiExit ? &Result : nullptr};
  InExit = Site == ApiExit;
  Function(Switched.OnCallUser, Domain, Id, &Data);
  InExit = false;
}

static void onEnter(int Domain, uint32_t Id, const void *Parameters) {
  call(Domain, Id, ApiEnter, Parameters);
}

/// A call inside a pushed external id: the two ids belong together.
static void addExternal(uint32_t Correlation, uint64_t At) {
  uint64_t Id = !External.empty() ? External.back() : 0;
  if (settings().External && Correlation % settings().External == 0)
    Id = 1000000 + Correlation;
  if (!Id)
    return;
  add(activity::ExternalCorrelation, At, [&](uint8_t *R) {
    put(R, 4, uint32_t(3)); // CUSTOM0
    put(R, 8, Id);
    put(R, 16, Correlation);
  });
}

void pushExternal(uint64_t Id) { External.push_back(Id); }
bool popExternal(uint64_t &Id) {
  if (External.empty())
    return false;
  Id = External.back();
  External.pop_back();
  return true;
}

/// Whether calls of any kind are recorded: without them there are no
/// correlation ids.
static bool hasCalls() {
  return has(activity::Runtime) || has(activity::Driver);
}

static bool recordsCall(int Domain, uint32_t Id) {
  if (Domain == RuntimeApi)
    return has(activity::Runtime) &&
           !(Id < MaxCallback && Switched.RuntimeOff[Id]);
  return has(activity::Driver) ||
         (Id < MaxCallback && Switched.DriverCalls[Id]);
}

static void onExit(int Domain, uint32_t Id, uint32_t Correlation,
                   uint64_t Start, uint64_t End, uint32_t Result,
                   const void *Parameters) {
  addExternal(Correlation, End);
  if (recordsCall(Domain, Id) && hasBufferCallbacks()) {
    uint32_t Kind = Domain == RuntimeApi ? activity::Runtime : activity::Driver;
    if (uint8_t *R = beginRecord(Kind, End)) {
      put(R, 4, Id);
      put(R, 8, Start);
      put(R, 16, End);
      put(R, 24, process());
      put(R, 28, thread());
      put(R, 32, Correlation);
      put(R, 36, Result);
    }
    endRecord();
  }
  call(Domain, Id, ApiExit, Parameters, Result);
}

static void addKernel(const SimWork &W, uint64_t Complete,
                      uint32_t Correlation) {
  // Those of a graph that is told as one are not told.
  if (!has(activity::ConcurrentKernel) ||
      (W.Graph && has(activity::GraphTrace)))
    return;
  uint64_t Number = ++Kernels;
  bool Zero = settings().ZeroTimes && Number % settings().ZeroTimes == 0;
  add(activity::ConcurrentKernel, Complete, [&](uint8_t *R) {
    put(R, 6, uint16_t(32));
    put(R, 16, Zero ? uint64_t(0) : W.Start);
    put(R, 24, Zero ? uint64_t(0) : W.End);
    put(R, 32, W.End);
    put(R, 44, uint32_t(1));
    put(R, 48, W.Stream);
    for (size_t At : {52, 56, 60, 64, 68, 72})
      put(R, At, int32_t(At == 64 ? 256 : 1));
    put(R, 92, Correlation);
    put(R, 104, W.Name);
    if (Switched.HasLatency) {
      put(R, 120, W.Start - 2000);
      put(R, 128, W.Start - 1000);
    }
    put(R, 144, W.GraphNode);
    put(R, 156, W.Graph);
  });
}

static void onWork(const SimWork &W) {
  uint64_t Complete = W.End + settings().LateNs;
  uint32_t Correlation = hasCalls() ? W.Correlation : 0;
  if (W.What == SimWork::Kernel)
    addKernel(W, Complete, Correlation);
  if (W.What == SimWork::Copy)
    add(activity::Memcpy, Complete, [&](uint8_t *R) {
      put(R, 4, W.CopyKind);
      put(R, 5, uint8_t(W.CopyKind == 1 ? 1 : 3));
      put(R, 6, uint8_t(W.CopyKind == 2 ? 1 : 3));
      put(R, 8, W.Bytes);
      put(R, 16, W.Start);
      put(R, 24, W.End);
      put(R, 36, uint32_t(1));
      put(R, 40, W.Stream);
      put(R, 44, Correlation);
    });
  if (W.What == SimWork::Set)
    add(activity::Memset, Complete, [&](uint8_t *R) {
      put(R, 8, W.Bytes);
      put(R, 16, W.Start);
      put(R, 24, W.End);
      put(R, 36, uint32_t(1));
      put(R, 40, W.Stream);
      put(R, 44, Correlation);
    });
}

static void onSync(const SimSync &S) {
  add(activity::Synchronization, S.End, [&](uint8_t *R) {
    put(R, 4, S.Type);
    put(R, 8, S.Start);
    put(R, 16, S.End);
    put(R, 24, S.Correlation);
    put(R, 28, uint32_t(1));
    put(R, 32, S.Stream);
  });
}

static void onMemory(const SimMemory &M) {
  add(activity::Memory, M.At, [&](uint8_t *R) {
    put(R, 4, M.Operation);
    put(R, 8, uint32_t(3)); // Device memory.
    put(R, 12, M.Correlation);
    put(R, 16, M.Address);
    put(R, 24, M.Bytes);
    put(R, 32, M.At);
    put(R, 48, process());
    put(R, 56, uint32_t(1));
  });
}

void addMarker(const SimMarker &M) {
  add(activity::Marker, M.At, [&](uint8_t *R) {
    put(R, 4, uint32_t(M.Name ? 2 : 4)); // Start or end of a range.
    put(R, 8, M.At);
    put(R, 16, M.Id);
    put(R, 20, uint32_t(2)); // Of a thread.
    put(R, 24, process());
    put(R, 28, thread());
    put(R, 40, M.Name);
  });
}

static void onGraph(const SimGraph &G) {
  add(activity::GraphTrace, G.End + settings().LateNs, [&](uint8_t *R) {
    put(R, 4, hasCalls() ? G.Correlation : 0);
    put(R, 8, G.Start);
    put(R, 16, G.End);
    put(R, 28, G.Graph);
    put(R, 32, uint32_t(1));
    put(R, 36, G.Stream);
  });
}

static void onEvent(const SimEvent &E) {
  static std::atomic<uint64_t> Records;
  add(activity::CudaEvent, now(), [&](uint8_t *R) {
    put(R, 4, E.Correlation);
    put(R, 8, uint32_t(1));
    put(R, 12, E.Stream);
    put(R, 16, E.Event);
    // Without times, for which a client has to ask.
    if (stride(activity::CudaEvent) > 48)
      put(R, 48, ++Records);
  });
}

static void onPages(const SimPages &P) {
  if (!Switched.HasPaging)
    return;
  add(activity::UnifiedMemory, P.End, [&](uint8_t *R) {
    put(R, 4, uint32_t(PagingToDevice));
    put(R, 8, P.Bytes);
    put(R, 16, P.Start);
    put(R, 24, P.End);
    put(R, 32, P.Address);
    put(R, 40, ~uint32_t(0)); // From the host.
    put(R, 52, process());
    put(R, 56, uint32_t(2)); // For a fault of the device.
  });
}

void addOverhead(uint32_t Kind, uint64_t Start) {
  if (settings().Replay)
    return;
  uint64_t End = now();
  add(activity::Overhead, End, [&](uint8_t *R) {
    put(R, 4, Kind);
    put(R, 8, uint32_t(2));
    put(R, 12, process());
    put(R, 16, thread());
    put(R, 24, Start);
    put(R, 32, End);
  });
}

void dump(uint32_t Kind) {
  if (settings().Replay)
    return;
  if (Kind == activity::Device)
    add(Kind, now(), [](uint8_t *R) {
      put(R, 8, uint64_t(3350000000)); // KB/s
      put(R, 16, uint64_t(80) << 30);
      put(R, 44, uint32_t(132));
      put(R, 104, uint32_t(9));
      put(R, 136, static_cast<const char *>("Simulated H100"));
    });
  if (Kind == activity::Context)
    add(Kind, now(), [](uint8_t *R) {
      put(R, 4, uint32_t(1));
      put(R, 12, uint16_t(1));
    });
}

/// simSetHooks of the simulated driver; null when that is not in the process.
static void (*hooksOf())(const SimHooks *) {
  void *Driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  return Driver ? reinterpret_cast<void (*)(const SimHooks *)>(
                      dlsym(Driver, "simSetHooks"))
                : nullptr;
}

bool attach() {
  if (settings().NoDevice)
    return false;
  if (Attached)
    return true;
  auto Set = hooksOf();
  if (!Set)
    return false;
  static const SimHooks Hooks = {onEnter,  onExit,  onWork,  onSync,
                                 onMemory, onGraph, onEvent, onPages};
  // A program that replays does nothing of its own.
  Set(settings().Replay ? nullptr : &Hooks);
  Attached = true;
  return true;
}

void detach() {
  if (auto Set = hooksOf())
    Set(nullptr);
  Attached = false;
}

} // namespace simcupti
