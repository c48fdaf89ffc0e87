//===- SimCupti.cpp - A libcupti without a device ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimCupti.h"
#include "Agent/CuptiAbi.h"
#include "Capture/Decode.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace culprit::cupti;
namespace activity = culprit::capture::activity;

namespace simcupti {

static uint64_t asked(const char *Name, uint64_t Otherwise) {
  const char *Value = getenv(Name);
  return Value ? std::strtoull(Value, nullptr, 10) : Otherwise;
}

const Settings &settings() {
  static const Settings S = [] {
    Settings Out;
    Out.Version = uint32_t(asked("SIMCUPTI_VERSION", Out.Version));
    Out.Strict = asked("SIMCUPTI_STRICT", 0);
    Out.OutOfOrder = asked("SIMCUPTI_OUT_OF_ORDER", 0);
    Out.LateNs = asked("SIMCUPTI_LATE_US", 0) * 1000;
    Out.ZeroTimes = asked("SIMCUPTI_ZERO_TIMES", 0);
    Out.SlowMs = asked("SIMCUPTI_SLOW_MS", 0);
    Out.Busy = getenv("SIMCUPTI_BUSY");
    Out.Refuse = int(asked("SIMCUPTI_REFUSE", uint64_t(-1)));
    Out.NoDevice = asked("SIMCUPTI_NO_DEVICE", 0);
    Out.External = asked("SIMCUPTI_EXTERNAL", 0);
    return Out;
  }();
  return S;
}

void forbid(bool Is, const char *What) {
  if (!Is || !settings().Strict)
    return;
  std::fprintf(stderr, "simulated CUPTI: %s\n", What);
  _exit(77);
}

uint64_t now() {
  timespec T;
  clock_gettime(CLOCK_REALTIME, &T);
  return uint64_t(T.tv_sec) * 1000000000u + uint64_t(T.tv_nsec);
}

/// From the release notes and headers of CUPTI 11.8 to 13.3. API versions: 18
/// is 11.8, 24 is 12.6, 26 is 12.8, 27 is 12.9, 28 is 13.0.
size_t stride(uint32_t Kind) {
  uint32_t V = settings().Version;
  bool V12 = V > 18, V126 = V >= 24, V128 = V >= 26, V13 = V >= 28,
       V133 = V >= 130300;
  switch (Kind) {
  case activity::Kernel:
  case activity::ConcurrentKernel:
    return V133 ? 232 : V13 ? 216 : V12 ? 208 : 200;
  case activity::Memcpy:
    return V128 ? 96 : 88;
  case activity::MemcpyPeer:
    return 96;
  case activity::Memset:
    return 88;
  case activity::Runtime:
  case activity::Driver:
    return 40;
  case activity::Synchronization:
    return V128 ? 56 : 40;
  case activity::Overhead:
    return V126 ? 56 : 40;
  case activity::Memory:
    return V126 ? 128 : 120;
  case activity::Device:
    return V126 ? 184 : 176;
  case activity::Context:
    return V126 ? 32 : 16;
  case activity::Stream:
  case activity::ExternalCorrelation:
    return 24;
  case activity::Name:
    return 32;
  case activity::Marker:
    return 56;
  case activity::CudaEvent:
    return V128 ? 56 : 24;
  case activity::GraphTrace:
    return V12 ? 56 : 48;
  case activity::UnifiedMemory:
    return V128 ? 104 : 64;
  default:
    return 0;
  }
}

} // namespace simcupti

using namespace simcupti;

namespace {
template <typename T> void put(uint8_t *Record, size_t Offset, T Value) {
  std::memcpy(Record + Offset, &Value, sizeof(Value));
}

std::atomic<bool> Enabled[64];
std::atomic<bool> DriverCalls[1024], RuntimeOff[1024];
std::atomic<Subscriber *> Current;
Callback OnCall;
void *OnCallUser;
std::atomic<bool> Domains[8];
std::atomic<uint64_t> Kernels;
std::atomic<bool> Attached;
char TheSubscriber;

bool has(uint32_t Kind) { return Enabled[Kind].load(std::memory_order_relaxed); }

std::atomic<bool> HasPaging;
bool isPagingChosen() { return HasPaging; }

bool hasEnabled() {
  for (std::atomic<bool> &K : Enabled)
    if (K)
      return true;
  return false;
}

bool recordsCall(int Domain, uint32_t Id) {
  if (Domain == RuntimeApi)
    return has(activity::Runtime) && !(Id < 1024 && RuntimeOff[Id]);
  return has(activity::Driver) || (Id < 1024 && DriverCalls[Id]);
}
bool hasCalls() {
  return has(activity::Runtime) || has(activity::Driver);
}
} // namespace

static void onEnter(int Domain, uint32_t Id, uint32_t) {
  if (!Domains[Domain] || !OnCall)
    return;
  CallbackData Data = {ApiEnter};
  OnCall(OnCallUser, Domain, Id, &Data);
}

static thread_local std::vector<uint64_t> External;

/// A call inside a pushed external id: the two ids belong together.
static void addExternal(uint32_t Correlation, uint64_t At) {
  uint64_t Id = !External.empty() ? External.back() : 0;
  if (settings().External && Correlation % settings().External == 0)
    Id = 1000000 + Correlation;
  if (!Id || !has(activity::ExternalCorrelation) || !hasBufferCallbacks())
    return;
  if (uint8_t *R = beginRecord(activity::ExternalCorrelation, At)) {
    put(R, 4, uint32_t(3)); // CUSTOM0
    put(R, 8, Id);
    put(R, 16, Correlation);
  }
  endRecord();
}

static void onExit(int Domain, uint32_t Id, uint32_t Correlation,
                   uint64_t Start, uint64_t End, uint32_t Result) {
  addExternal(Correlation, End);
  if (recordsCall(Domain, Id) && hasBufferCallbacks()) {
    uint32_t Kind = Domain == RuntimeApi ? activity::Runtime : activity::Driver;
    if (uint8_t *R = beginRecord(Kind, End)) {
      put(R, 4, Id);
      put(R, 8, Start);
      put(R, 16, End);
      put(R, 24, uint32_t(getpid()));
      put(R, 28, uint32_t(syscall(SYS_gettid)));
      put(R, 32, Correlation);
      put(R, 36, Result);
    }
    endRecord();
  }
  if (!Domains[Domain] || !OnCall)
    return;
  CallbackData Data = {ApiExit};
  OnCall(OnCallUser, Domain, Id, &Data);
}

static void onWork(const SimWork &W) {
  if (!hasBufferCallbacks())
    return;
  uint64_t Complete = W.End + settings().LateNs;
  // Without the records of calls there are no correlation ids.
  uint32_t Correlation = hasCalls() ? W.Correlation : 0;
  if (W.What == SimWork::Kernel && has(activity::ConcurrentKernel)) {
    uint64_t Number = ++Kernels;
    bool Zero = settings().ZeroTimes && Number % settings().ZeroTimes == 0;
    if (uint8_t *R = beginRecord(activity::ConcurrentKernel, Complete)) {
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
      put(R, 144, W.GraphNode);
      put(R, 156, W.Graph);
    }
    endRecord();
  }
  if (W.What == SimWork::Copy && has(activity::Memcpy)) {
    if (uint8_t *R = beginRecord(activity::Memcpy, Complete)) {
      put(R, 4, W.CopyKind);
      put(R, 5, uint8_t(W.CopyKind == 1 ? 1 : 3));
      put(R, 6, uint8_t(W.CopyKind == 2 ? 1 : 3));
      put(R, 8, W.Bytes);
      put(R, 16, W.Start);
      put(R, 24, W.End);
      put(R, 36, uint32_t(1));
      put(R, 40, W.Stream);
      put(R, 44, Correlation);
    }
    endRecord();
  }
  if (W.What == SimWork::Set && has(activity::Memset)) {
    if (uint8_t *R = beginRecord(activity::Memset, Complete)) {
      put(R, 8, W.Bytes);
      put(R, 16, W.Start);
      put(R, 24, W.End);
      put(R, 36, uint32_t(1));
      put(R, 40, W.Stream);
      put(R, 44, Correlation);
    }
    endRecord();
  }
}

static void onSync(const SimSync &S) {
  if (!has(activity::Synchronization) || !hasBufferCallbacks())
    return;
  if (uint8_t *R = beginRecord(activity::Synchronization, S.End)) {
    put(R, 4, S.Type);
    put(R, 8, S.Start);
    put(R, 16, S.End);
    put(R, 24, S.Correlation);
    put(R, 28, uint32_t(1));
    put(R, 32, S.Stream);
  }
  endRecord();
}

static void onMemory(const SimMemory &M) {
  if (!has(activity::Memory) || !hasBufferCallbacks())
    return;
  if (uint8_t *R = beginRecord(activity::Memory, M.At)) {
    put(R, 4, M.Operation);
    put(R, 8, uint32_t(3)); // Device memory.
    put(R, 12, M.Correlation);
    put(R, 16, M.Address);
    put(R, 24, M.Bytes);
    put(R, 32, M.At);
    put(R, 48, uint32_t(getpid()));
    put(R, 56, uint32_t(1));
  }
  endRecord();
}

static void onMarker(const SimMarker &M) {
  if (!has(activity::Marker) || !hasBufferCallbacks())
    return;
  if (uint8_t *R = beginRecord(activity::Marker, M.At)) {
    put(R, 4, uint32_t(M.Name ? 2 : 4)); // Start or end of a range.
    put(R, 8, M.At);
    put(R, 16, M.Id);
    put(R, 20, uint32_t(2)); // Of a thread.
    put(R, 24, uint32_t(getpid()));
    put(R, 28, uint32_t(syscall(SYS_gettid)));
    put(R, 40, M.Name);
  }
  endRecord();
}

/// What CUPTI itself cost, of the thread that calls.
static void addOverhead(uint32_t Kind, uint64_t Start) {
  if (!has(activity::Overhead) || !hasBufferCallbacks())
    return;
  uint64_t End = now();
  if (uint8_t *R = beginRecord(activity::Overhead, End)) {
    put(R, 4, Kind);
    put(R, 8, uint32_t(2));
    put(R, 12, uint32_t(getpid()));
    put(R, 16, uint32_t(syscall(SYS_gettid)));
    put(R, 24, Start);
    put(R, 32, End);
  }
  endRecord();
}

/// Hears of the device; any call of CUPTI attaches.
static bool attach() {
  if (settings().NoDevice)
    return false;
  if (Attached)
    return true;
  void *Driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  auto Set = Driver ? reinterpret_cast<void (*)(const SimHooks *)>(
                          dlsym(Driver, "simSetHooks"))
                    : nullptr;
  if (!Set)
    return false;
  static const SimHooks Hooks = {onEnter,  onExit,   onWork,
                                 onSync,   onMemory, onMarker};
  Set(&Hooks);
  Attached = true;
  return true;
}

#define SIM extern "C" __attribute__((visibility("default"))) Result

SIM cuptiGetVersion(uint32_t *Version) {
  *Version = settings().Version;
  return Success;
}
SIM cuptiGetTimestamp(uint64_t *Now) {
  *Now = now();
  return Success;
}
SIM cuptiGetResultString(Result Code, const char **Text) {
  *Text = Code == Success               ? "CUPTI_SUCCESS"
          : Code == InvalidKind         ? "CUPTI_ERROR_INVALID_KIND"
          : Code == NotSupported        ? "CUPTI_ERROR_NOT_SUPPORTED"
          : Code == MultipleSubscribers ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
          : Code == Unknown             ? "CUPTI_ERROR_UNKNOWN"
                                        : "CUPTI_ERROR_INVALID_PARAMETER";
  return Success;
}

SIM cuptiSubscribe(Subscriber **S, Callback C, void *User) {
  if (!attach())
    return Unknown;
  Subscriber *None = nullptr;
  if (settings().Busy ||
      !Current.compare_exchange_strong(
          None, reinterpret_cast<Subscriber *>(&TheSubscriber)))
    return MultipleSubscribers;
  OnCall = C;
  OnCallUser = User;
  *S = Current;
  return Success;
}
#ifndef SIMCUPTI_OLD
SIM cuptiSubscribe_v2(Subscriber **S, Callback C, void *User,
                      SubscriberParams *P) {
  Result R = cuptiSubscribe(S, C, User);
  if (R == MultipleSubscribers && P && P->OldName && P->OldSize)
    std::snprintf(P->OldName, P->OldSize, "CUPTI for %s",
                  settings().Busy ? settings().Busy : "unknown");
  return R;
}
#endif
SIM cuptiUnsubscribe(Subscriber *S) {
  if (!S || S != Current)
    return 1;
  for (std::atomic<bool> &D : Domains)
    D = false;
  OnCall = nullptr;
  Current = nullptr;
  return Success;
}
SIM cuptiEnableDomain(uint32_t Enable, Subscriber *S, int Domain) {
  if (!S || S != Current || Domain < 1 || Domain > 7)
    return 1;
  Domains[Domain] = Enable != 0;
  return Success;
}

SIM cuptiGetCallbackName(int Domain, uint32_t Id, const char **Name) {
  struct Known {
    int Domain;
    uint32_t Id;
    const char *Name;
  };
  static const Known Names[] = {
      {2, 17, "cudaGetDevice_v3020"},       {2, 20, "cudaMalloc_v3020"},
      {2, 22, "cudaFree_v3020"},            {2, 31, "cudaMemcpy_v3020"},
      {2, 41, "cudaMemcpyAsync_v3020"},     {2, 51, "cudaMemsetAsync_v3020"},
      {2, 131, "cudaStreamSynchronize_v3020"},
      {2, 165, "cudaDeviceSynchronize_v3020"},
      {2, 211, "cudaLaunchKernel_v7000"},   {2, 311, "cudaGraphLaunch_v10000"},
      {1, 307, "cuLaunchKernel"}};
  for (const Known &K : Names)
    if (K.Domain == Domain && K.Id == Id) {
      *Name = K.Name;
      return Success;
    }
  return 1;
}

static std::atomic<int> ThreadIds;
SIM cuptiSetThreadIdType(int Type) {
  if (!attach())
    return Unknown;
  forbid(hasEnabled(), "cuptiSetThreadIdType after a kind is enabled");
  ThreadIds = Type;
  return Success;
}
SIM cuptiGetThreadIdType(int *Type) {
  *Type = ThreadIds;
  return attach() ? Success : Unknown;
}

SIM cuptiActivitySetAttribute(int Attribute, size_t *Size, void *Value) {
  if (!attach())
    return Unknown;
  if (!Size || !Value)
    return 1;
  uint8_t Byte = *static_cast<uint8_t *>(Value);
  if (Attribute == AttributeZeroedOut)
    setZeroed(Byte);
  if (Attribute == AttributePerThread) {
    forbid(hasEnabled(), "per-thread buffers are switched during a session");
    setPerThread(Byte);
  }
  return Success;
}
SIM cuptiActivityFlushPeriod(uint32_t) { return attach() ? Success : Unknown; }
SIM cuptiActivityRegisterTimestampCallback(uint64_t (*)()) {
  forbid(true, "cuptiActivityRegisterTimestampCallback gives zero times up to "
               "CUDA 13.0");
  return Success;
}
SIM cuptiActivityPushExternalCorrelationId(int, uint64_t Id) {
  External.push_back(Id);
  return Success;
}
SIM cuptiActivityPopExternalCorrelationId(int, uint64_t *Last) {
  if (External.empty())
    return 18; // The queue is empty.
  if (Last)
    *Last = External.back();
  External.pop_back();
  return Success;
}
SIM cuptiActivityConfigureUnifiedMemoryCounter(PagingConfig *, uint32_t) {
  HasPaging = true;
  return attach() ? Success : Unknown;
}
SIM cuptiGetLastError() { return Success; }
SIM cuptiSupportedDomains(size_t *Count, int **Domains) {
  static int All[] = {DriverApi, RuntimeApi};
  *Count = 2;
  *Domains = All;
  return Success;
}

SIM cuptiActivityRegisterCallbacks(Requested R, Completed C) {
  // The real one gives no error here without a driver.
  if (!attach())
    return Success;
  forbid(!Current, "cuptiActivityRegisterCallbacks without a subscriber takes "
                   "the buffers of another tool");
  setBufferCallbacks(R, C);
  return Success;
}

static Result enable(int Kind, bool On) {
  if (Kind < 0 || Kind >= 64 || !stride(uint32_t(Kind)))
    return InvalidKind;
  if (!attach())
    return Unknown;
  if (Kind == settings().Refuse)
    return NotSupported;
  forbid(On && Kind == int(activity::UnifiedMemory) && !isPagingChosen(),
         "the kind of paging without a choice of counters has no records");
  forbid(On && !hasBufferCallbacks(),
         "cuptiActivityEnable before cuptiActivityRegisterCallbacks");
  if (On && settings().SlowMs)
    std::this_thread::sleep_for(std::chrono::milliseconds(settings().SlowMs));
  Enabled[Kind] = On;
  return Success;
}
SIM cuptiActivityEnable(int Kind) { return enable(Kind, true); }
SIM cuptiActivityDisable(int Kind) { return enable(Kind, false); }

SIM cuptiActivityEnableAndDump(int Kind) {
  Result R = enable(Kind, true);
  if (R != Success)
    return R;
  if (Kind == int(activity::Device)) {
    if (uint8_t *Record = beginRecord(uint32_t(Kind), now())) {
      put(Record, 8, uint64_t(3350000000)); // KB/s
      put(Record, 16, uint64_t(80) << 30);
      put(Record, 44, uint32_t(132));
      put(Record, 104, uint32_t(9));
      put(Record, 136, static_cast<const char *>("Simulated H100"));
    }
    endRecord();
  }
  if (Kind == int(activity::Context)) {
    if (uint8_t *Record = beginRecord(uint32_t(Kind), now())) {
      put(Record, 4, uint32_t(1));
      put(Record, 12, uint16_t(1));
    }
    endRecord();
  }
  return Success;
}

#ifndef SIMCUPTI_OLD
SIM cuptiActivityEnableDriverApi(uint32_t Id, uint8_t On) {
  if (settings().Version < 23 || Id >= 1024) // 12.5
    return NotSupported;
  DriverCalls[Id] = On != 0;
  return Success;
}
SIM cuptiActivityEnableRuntimeApi(uint32_t Id, uint8_t On) {
  if (settings().Version < 23 || Id >= 1024)
    return NotSupported;
  RuntimeOff[Id] = !On;
  return Success;
}
SIM cuptiActivityEnableAllSyncRecords(uint8_t) { return Success; }
#endif

SIM cuptiActivityFlushAll(uint32_t Flag) {
  forbid(insideBufferCallback(), "cuptiActivityFlushAll in a buffer callback");
  if (!attach())
    return Unknown;
  if (hasBufferCallbacks()) {
    addOverhead(1u << 16, now() - 1000); // CUPTI_BUFFER_FLUSH
    flush(Flag & FlushForced);
  }
  return Success;
}
SIM cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *Count) {
  forbid(insideBufferCallback(),
         "cuptiActivityGetNumDroppedRecords in a buffer callback");
  *Count = takeDropped();
  return Success;
}

SIM cuptiActivityGetNextRecord(uint8_t *Buffer, size_t Valid, void **Record) {
  uint8_t *At = static_cast<uint8_t *>(*Record);
  uint32_t Kind = 0;
  if (At) {
    std::memcpy(&Kind, At, sizeof(Kind));
    size_t Size = stride(Kind);
    if (!Size)
      return InvalidKind;
    At += Size;
  } else {
    At = Buffer;
  }
  if (!Valid || At >= Buffer + Valid)
    return MaxLimitReached;
  std::memcpy(&Kind, At, sizeof(Kind));
  if (!stride(Kind))
    return InvalidKind;
  *Record = At;
  return Success;
}

SIM cuptiFinalize() {
  forbid(simThreadsInside() > 0 && !simInsideCall(),
         "cuptiFinalize while another thread is in a CUDA call");
  for (std::atomic<bool> &K : Enabled)
    K = false;
  for (std::atomic<bool> &K : DriverCalls)
    K = false;
  void *Driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (auto Set = reinterpret_cast<void (*)(const SimHooks *)>(
          Driver ? dlsym(Driver, "simSetHooks") : nullptr))
    Set(nullptr);
  flush(true);
  stopDelivery();
  OnCall = nullptr;
  Current = nullptr;
  Attached = false;
  return Success;
}
