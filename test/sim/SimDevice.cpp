//===- SimDevice.cpp --------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimDevice.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <thread>
#include <unordered_map>

static std::atomic<const SimHooks *> Hooks;
static std::atomic<uint32_t> Correlations{1};
static std::atomic<uint64_t> Nodes{1}, Addresses{0x7f0000000000};
static std::mutex Lock;
static std::map<uint32_t, uint64_t> StreamEnds;
static std::unordered_map<uint64_t, uint64_t> Allocations;
static std::atomic<unsigned> Inside, Captures;
static thread_local bool IsInside;

static uint64_t now() {
  timespec T;
  clock_gettime(CLOCK_REALTIME, &T);
  return uint64_t(T.tv_sec) * 1000000000u + uint64_t(T.tv_nsec);
}

/// libcuda keeps such a thread, which sits in poll() for good; an injection
/// finds it there.
static void startEventHandler() {
  static std::once_flag Once;
  std::call_once(Once, [] {
    std::thread([] {
      while (true)
        poll(nullptr, 0, -1);
    }).detach();
  });
}

namespace {
/// The time between entry and exit of a call, told to CUPTI.
class Call {
public:
  Call(int Domain, uint32_t Id, const void *Parameters = nullptr)
      : Domain(Domain), Id(Id), Correlation(Correlations++), Start(now()),
        Parameters(Parameters) {
    ++Inside;
    IsInside = true;
    const SimHooks *H = Hooks.load();
    if (H && H->Enter)
      H->Enter(Domain, Id, Parameters);
  }
  ~Call() {
    const SimHooks *H = Hooks.load();
    if (H && H->Exit)
      H->Exit(Domain, Id, Correlation, Start, now(), 0, Parameters);
    IsInside = false;
    --Inside;
  }
  const int Domain;
  const uint32_t Id, Correlation;
  const uint64_t Start;
  const void *const Parameters;
};
} // namespace

// Callback ids of CUPTI's runtime domain.
enum : uint32_t {
  CudaGetDevice = 17,
  CudaMalloc = 20,
  CudaFree = 22,
  CudaMemcpy = 31,
  CudaMemcpyAsync = 41,
  CudaMemsetAsync = 51,
  CudaStreamSynchronize = 131,
  CudaEventRecord = 135,
  CudaDeviceSynchronize = 165,
  CudaLaunchKernel = 211,
  CudaGraphLaunch = 311,
  CudaStreamBeginCapture = 315,
  CudaStreamEndCapture = 319,
  CuLaunchKernel = 307, // Driver domain.
};

/// Puts work on a stream and gives it its times.
static SimWork place(SimWork W, uint64_t Duration) {
  {
    std::lock_guard<std::mutex> Guard(Lock);
    uint64_t &End = StreamEnds[W.Stream];
    W.Start = std::max(End, now() + 2000);
    W.End = End = W.Start + Duration;
  }
  const SimHooks *H = Hooks.load();
  if (H && H->Work)
    H->Work(W);
  return W;
}

static void waitUntil(uint64_t Time) {
  for (uint64_t At = now(); At < Time; At = now()) {
    timespec T = {time_t((Time - At) / 1000000000u),
                  long((Time - At) % 1000000000u)};
    nanosleep(&T, nullptr);
  }
}

extern "C" {

void simSetHooks(const SimHooks *H) { Hooks = H; }
void *simContext(void) {
  static char Context;
  return &Context;
}
bool simInsideCall(void) { return IsInside; }
unsigned simThreadsInside(void) { return Inside; }

int cuInit(unsigned) {
  startEventHandler();
  static std::once_flag Once;
  std::call_once(Once, [] {
    const char *Path = getenv("CUDA_INJECTION64_PATH");
    if (!Path)
      return;
    void *Library = dlopen(Path, RTLD_NOW);
    auto Begin = Library ? reinterpret_cast<int (*)()>(
                               dlsym(Library, "InitializeInjection"))
                         : nullptr;
    if (!Begin)
      std::fprintf(stderr, "simulated driver: %s\n", dlerror());
    else
      Begin();
  });
  return 0;
}

int cuDriverGetVersion(int *Version) {
  const char *Asked = getenv("SIMCUDA_DRIVER");
  *Version = Asked ? std::atoi(Asked) : 13000;
  return 0;
}

void simLaunch(const char *Name, uint32_t Stream, uint64_t Duration) {
  Call C(2, CudaLaunchKernel);
  place({SimWork::Kernel, Name, 0, 0, 0, Stream, C.Correlation, 0, 0, 0},
        Duration);
}

void simDriverLaunch(const char *Name, uint32_t Stream, uint64_t Duration) {
  Call C(1, CuLaunchKernel);
  place({SimWork::Kernel, Name, 0, 0, 0, Stream, C.Correlation, 0, 0, 0},
        Duration);
}

void simCopy(uint8_t Kind, uint64_t Bytes, uint32_t Stream) {
  Call C(2, Stream ? CudaMemcpyAsync : CudaMemcpy);
  SimWork W = place({SimWork::Copy, nullptr, 0, 0, Bytes, Stream,
                     C.Correlation, Kind, 0, 0},
                    Bytes / 10);
  if (!Stream)
    waitUntil(W.End);
}

void simSet(uint64_t Bytes, uint32_t Stream) {
  Call C(2, CudaMemsetAsync);
  place({SimWork::Set, nullptr, 0, 0, Bytes, Stream, C.Correlation, 0, 0, 0},
        Bytes / 1000);
}

static void synchronize(Call &C, uint32_t Type, uint32_t Stream, bool All) {
  uint64_t End = 0;
  {
    std::lock_guard<std::mutex> Guard(Lock);
    for (const auto &[Id, At] : StreamEnds)
      if (All || Id == Stream)
        End = std::max(End, At);
  }
  uint64_t Start = now();
  waitUntil(End);
  const SimHooks *H = Hooks.load();
  if (H && H->Sync)
    H->Sync({Type, Stream, C.Correlation, Start, now()});
}

void simStreamSynchronize(uint32_t Stream) {
  Call C(2, CudaStreamSynchronize);
  synchronize(C, 3, Stream, false);
}

void simDeviceSynchronize(void) {
  Call C(2, CudaDeviceSynchronize);
  synchronize(C, 4, 0, true);
}

uint64_t simMalloc(uint64_t Bytes) {
  Call C(2, CudaMalloc);
  uint64_t Address = Addresses.fetch_add((Bytes + 511) / 512 * 512);
  {
    std::lock_guard<std::mutex> Guard(Lock);
    Allocations[Address] = Bytes;
  }
  const SimHooks *H = Hooks.load();
  if (H && H->Memory)
    H->Memory({1, Address, Bytes, now(), C.Correlation});
  return Address;
}

void simFree(uint64_t Address) {
  Call C(2, CudaFree);
  uint64_t Bytes = 0;
  {
    std::lock_guard<std::mutex> Guard(Lock);
    auto It = Allocations.find(Address);
    if (It != Allocations.end()) {
      Bytes = It->second;
      Allocations.erase(It);
    }
  }
  const SimHooks *H = Hooks.load();
  if (H && H->Memory)
    H->Memory({2, Address, Bytes, now(), C.Correlation});
}

void simGraphLaunch(uint32_t Graph, unsigned Count, uint32_t Stream,
                    uint64_t Duration) {
  Call C(2, CudaGraphLaunch);
  SimGraph Whole = {Graph, Stream, C.Correlation, 0, 0};
  for (unsigned I = 0; I < Count; ++I) {
    SimWork W = place({SimWork::Kernel, "graph_kernel", 0, 0, 0, Stream,
                       C.Correlation, 0, Graph, Nodes++},
                      Duration);
    if (!I)
      Whole.Start = W.Start;
    Whole.End = W.End;
  }
  const SimHooks *H = Hooks.load();
  if (Count && H && H->Graph)
    H->Graph(Whole);
}

void simEventRecord(uint32_t Event, uint32_t Stream) {
  Call C(2, CudaEventRecord);
  const SimHooks *H = Hooks.load();
  if (H && H->Event)
    H->Event({Event, Stream, C.Correlation});
}

void simPageIn(uint64_t Bytes) {
  uint64_t Start = now();
  const SimHooks *H = Hooks.load();
  if (H && H->Pages)
    H->Pages({Addresses.fetch_add(Bytes), Bytes, Start, Start + Bytes / 10});
}

void simGetDevice(void) { Call C(2, CudaGetDevice); }

// The stream is the first of the parameters of either.
void simBeginCapture(uint64_t Stream) {
  Call C(2, CudaStreamBeginCapture, &Stream);
  ++Captures;
}
void simEndCapture(uint64_t Stream) {
  Call C(2, CudaStreamEndCapture, &Stream);
  --Captures;
}
unsigned simCaptures(void) { return Captures; }
}
