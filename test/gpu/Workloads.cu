//===- Workloads.cu - Programs for a machine with a GPU ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: workloads NAME
///
/// Does what NAME says and prints what it did, one JSON object on a line. With
/// GPU_CHECK_GO=FILE it first makes its context, prints "ready PID" and waits
/// for FILE, and at the end makes a call now and then until FILE is gone: so
/// that a profiler can attach before and detach after. With GPU_CHECK_AGENT=LIB
/// it loads LIB itself before it says that it is ready.
///
/// Kernels are told apart by name; nothing here uses more than 600 MiB of the
/// device, and managed memory only a part of what is free.
///
//===----------------------------------------------------------------------===//

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static void check(cudaError_t Error, int Line) {
  if (Error == cudaSuccess)
    return;
  std::printf("{\"error\": \"line %d: %s\"}\n", Line, cudaGetErrorString(Error));
  std::exit(3);
}
#define CHECK(Call) check(Call, __LINE__)

__global__ void warm_kernel() {}
__global__ void empty_kernel() {}
/// Busy for \p Length ns of the device's clock; the first thread adds what it
/// measured.
__global__ void spin_kernel(unsigned long long Length,
                            unsigned long long *Total) {
  unsigned long long Begin, Now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(Begin));
  do
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(Now));
  while (Now - Begin < Length);
  if (Total && threadIdx.x == 0 && blockIdx.x == 0)
    atomicAdd(Total, Now - Begin);
}
__global__ void touch_kernel(char *Bytes, size_t Size) {
  for (size_t I = blockIdx.x * size_t(blockDim.x) + threadIdx.x; I < Size;
       I += size_t(gridDim.x) * blockDim.x)
    Bytes[I] = char(Bytes[I] + 1);
}

static double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static bool exists(const char *Path) { return access(Path, F_OK) == 0; }

/// Makes the context and waits for the word to go.
static const char *prepare(bool Initialise) {
  if (Initialise) {
    CHECK(cudaFree(nullptr));
    warm_kernel<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
  }
  if (const char *Agent = std::getenv("GPU_CHECK_AGENT"))
    if (!dlopen(Agent, RTLD_NOW))
      std::fprintf(stderr, "%s\n", dlerror());
  const char *Go = std::getenv("GPU_CHECK_GO");
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  while (Go && !exists(Go))
    usleep(10000);
  return Go;
}

static void spin() {
  unsigned long long *Total, Sum = 0;
  CHECK(cudaMallocManaged(&Total, sizeof(*Total)));
  *Total = 0;
  for (int I = 0; I < 10000; ++I)
    spin_kernel<<<1, 32>>>(20000, Total);
  CHECK(cudaDeviceSynchronize());
  Sum = *Total;
  CHECK(cudaFree(Total));
  std::printf("{\"kernel spin\": 10000, \"kernel_ns\": %llu}\n", Sum);
}

static void pageable() {
  const size_t Size = 16 << 20;
  char *Device, *Host = static_cast<char *>(std::calloc(1, Size));
  CHECK(cudaMalloc(&Device, Size));
  for (int I = 0; I < 100; ++I)
    CHECK(cudaMemcpy(Device, Host, Size, cudaMemcpyHostToDevice));
  CHECK(cudaFree(Device));
  std::free(Host);
  std::printf("{\"copy_bytes 1\": %zu, \"call cudaMemcpy_\": 100}\n",
              100 * Size);
}

static void pinned() {
  const size_t Size = 64 << 20;
  char *Device[2], *Host[2];
  cudaStream_t S[3];
  for (cudaStream_t &X : S)
    CHECK(cudaStreamCreateWithFlags(&X, cudaStreamNonBlocking));
  for (int I = 0; I < 2; ++I) {
    CHECK(cudaMalloc(&Device[I], Size));
    CHECK(cudaMallocHost(&Host[I], Size));
  }
  for (int I = 0; I < 20; ++I) {
    CHECK(cudaMemcpyAsync(Device[0], Host[0], Size, cudaMemcpyHostToDevice,
                          S[0]));
    CHECK(cudaMemcpyAsync(Host[1], Device[1], Size, cudaMemcpyDeviceToHost,
                          S[1]));
    spin_kernel<<<1, 32, 0, S[2]>>>(2000000, nullptr);
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"copy_bytes 1\": %zu, \"copy_bytes 2\": %zu, \"copy\": 40, "
              "\"kernel spin\": 20, \"overlap\": 1}\n",
              20 * Size, 20 * Size);
}

static void streamSync() {
  cudaStream_t S;
  CHECK(cudaStreamCreate(&S));
  for (int I = 0; I < 5000; ++I) {
    empty_kernel<<<1, 1, 0, S>>>();
    CHECK(cudaStreamSynchronize(S));
  }
  std::printf("{\"kernel empty\": 5000, \"sync 3\": 5000, "
              "\"call cudaStreamSynchronize\": 5000}\n");
}

static void deviceSync() {
  for (int I = 0; I < 1000; ++I)
    CHECK(cudaDeviceSynchronize());
  // The warm-up and the end make some too.
  std::printf("{\"least sync 4\": 1000, "
              "\"least call cudaDeviceSynchronize\": 1000}\n");
}

static void events() {
  cudaStream_t S[2];
  cudaEvent_t E[2];
  for (int I = 0; I < 2; ++I) {
    CHECK(cudaStreamCreate(&S[I]));
    CHECK(cudaEventCreate(&E[I]));
  }
  float Sum = 0, Time;
  for (int I = 0; I < 1000; ++I) {
    CHECK(cudaEventRecord(E[0], S[0]));
    empty_kernel<<<1, 1, 0, S[0]>>>();
    CHECK(cudaEventRecord(E[1], S[0]));
    CHECK(cudaStreamWaitEvent(S[1], E[1], 0));
    CHECK(cudaEventSynchronize(E[1]));
    CHECK(cudaEventElapsedTime(&Time, E[0], E[1]));
    Sum += Time;
  }
  std::printf("{\"kernel empty\": 1000, \"sync 1\": 1000, \"sync 2\": 1000, "
              "\"call cudaEventRecord\": 2000, "
              "\"call cudaStreamWaitEvent\": 1000}\n");
}

static void launches() {
  double Begin = seconds();
  std::vector<std::thread> Threads;
  for (int T = 0; T < 4; ++T)
    Threads.emplace_back([] {
      cudaStream_t S;
      CHECK(cudaStreamCreateWithFlags(&S, cudaStreamNonBlocking));
      for (int I = 0; I < 250000; ++I)
        empty_kernel<<<1, 1, 0, S>>>();
      CHECK(cudaStreamSynchronize(S));
    });
  for (std::thread &T : Threads)
    T.join();
  std::printf("{\"kernel empty\": 1000000, \"call cudaLaunchKernel\": 1000000, "
              "\"log seconds\": %.3f}\n",
              seconds() - Begin);
}

static void streams() {
  cudaStream_t S[4];
  for (cudaStream_t &X : S)
    CHECK(cudaStreamCreateWithFlags(&X, cudaStreamNonBlocking));
  for (int I = 0; I < 8; ++I)
    for (cudaStream_t X : S)
      spin_kernel<<<1, 32, 0, X>>>(5000000, nullptr);
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"kernel spin\": 32, \"streams spin\": 4, "
              "\"concurrency\": 4}\n");
}

static void sets() {
  char *Device;
  CHECK(cudaMalloc(&Device, 1 << 20));
  for (int I = 0; I < 1000; ++I)
    CHECK(cudaMemsetAsync(Device, I, 1 << 20));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(Device));
  std::printf("{\"set\": 1000, \"set_bytes\": 1048576000}\n");
}

static void memory() {
  const size_t Size = 256 << 10;
  std::vector<void *> All(2000);
  for (void *&P : All)
    CHECK(cudaMalloc(&P, Size));
  for (void *P : All)
    CHECK(cudaFree(P));
  cudaStream_t S;
  CHECK(cudaStreamCreate(&S));
  for (void *&P : All)
    CHECK(cudaMallocAsync(&P, Size, S));
  for (void *P : All)
    CHECK(cudaFreeAsync(P, S));
  CHECK(cudaStreamSynchronize(S));
  std::printf("{\"call cudaMalloc_\": 2000, \"call cudaMallocAsync\": 2000, "
              "\"least memory 1\": 4000, \"least memory 2\": 4000}\n");
}

/// A graph of 20 kernels and 2 copies, made before or after the word to go.
static cudaGraphExec_t makeGraph(char *To, char *From, cudaStream_t S) {
  cudaGraph_t G;
  cudaGraphExec_t Exec;
  CHECK(cudaStreamBeginCapture(S, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(To, From, 4096, cudaMemcpyDeviceToDevice, S));
  for (int I = 0; I < 20; ++I)
    empty_kernel<<<1, 1, 0, S>>>();
  CHECK(cudaMemcpyAsync(From, To, 4096, cudaMemcpyDeviceToDevice, S));
  CHECK(cudaStreamEndCapture(S, &G));
  CHECK(cudaGraphInstantiate(&Exec, G, 0));
  return Exec;
}

static void graph(bool Before) {
  char *A, *B;
  cudaStream_t S;
  CHECK(cudaFree(nullptr));
  CHECK(cudaStreamCreate(&S));
  CHECK(cudaMalloc(&A, 4096));
  CHECK(cudaMalloc(&B, 4096));
  cudaGraphExec_t Exec = nullptr;
  if (Before)
    Exec = makeGraph(A, B, S);
  prepare(true);
  if (!Before)
    Exec = makeGraph(A, B, S);
  for (int I = 0; I < 500; ++I)
    CHECK(cudaGraphLaunch(Exec, S));
  CHECK(cudaStreamSynchronize(S));
  // Of a graph that was there before, copies may be told as kernels.
  std::printf("{\"kernel empty\": 10000, \"least of_graphs\": 10000, "
              "\"call cudaGraphLaunch\": 500}\n");
}

static void managed() {
  size_t Free, All, Size = 256 << 20;
  CHECK(cudaMemGetInfo(&Free, &All));
  if (Free < 4 * Size) {
    std::printf("{\"skipped\": \"too little free memory\"}\n");
    return;
  }
  char *Bytes;
  CHECK(cudaMallocManaged(&Bytes, Size));
  std::memset(Bytes, 1, Size);
  for (int I = 0; I < 20; ++I) {
    touch_kernel<<<1024, 256>>>(Bytes, Size);
    CHECK(cudaDeviceSynchronize());
    for (size_t At = 0; At < Size; At += 4096)
      Bytes[At]++;
  }
  CHECK(cudaFree(Bytes));
  std::printf("{\"kernel touch\": 20, \"least paging_bytes 1\": %zu, "
              "\"least paging_bytes 2\": %zu}\n",
              20 * Size, 20 * Size);
}

static void ranges() {
  for (int I = 0; I < 1000; ++I)
    nvtxRangePushA("range of the check");
  for (int I = 0; I < 1000; ++I)
    nvtxRangePop();
  std::printf("{\"marker\": 2000}\n");
}

/// Without the runtime: everything by libcuda's own functions.
static void driver() {
  static const char Ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .entry driver_kernel()\n{ ret; }\n";
  void *Library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!Library) {
    std::printf("{\"error\": \"no libcuda.so.1\"}\n");
    std::exit(3);
  }
#define DRIVER(Name, Symbol)                                                   \
  auto Name = reinterpret_cast<decltype(&::Name)>(dlsym(Library, Symbol))
  DRIVER(cuInit, "cuInit");
  DRIVER(cuDeviceGet, "cuDeviceGet");
  DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent");
  DRIVER(cuModuleLoadData, "cuModuleLoadData");
  DRIVER(cuModuleGetFunction, "cuModuleGetFunction");
  DRIVER(cuLaunchKernel, "cuLaunchKernel");
  DRIVER(cuCtxSynchronize, "cuCtxSynchronize");
  CUdevice Device;
  CUcontext Context;
  CUmodule Module;
  CUfunction Function;
  CUresult R = cuInit(0);
  if (!R)
    R = cuDeviceGet(&Device, 0);
  if (!R)
    R = cuDevicePrimaryCtxRetain(&Context, Device);
  if (!R)
    R = cuCtxSetCurrent(Context);
  if (!R)
    R = cuModuleLoadData(&Module, Ptx);
  if (!R)
    R = cuModuleGetFunction(&Function, Module, "driver_kernel");
  prepare(false);
  for (int I = 0; I < 1000 && !R; ++I)
    R = cuLaunchKernel(Function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                       nullptr);
  if (!R)
    R = cuCtxSynchronize();
  if (R) {
    std::printf("{\"error\": \"driver result %d\"}\n", int(R));
    std::exit(3);
  }
  std::printf("{\"kernel driver\": 1000, \"call cuLaunchKernel\": 1000}\n");
}

/// CUDA comes three seconds after the word to go.
static void late() {
  sleep(3);
  for (int I = 0; I < 1000; ++I)
    empty_kernel<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"kernel empty\": 1000}\n");
}

static void forks() {
  for (int I = 0; I < 10; ++I) {
    pid_t Child = fork();
    if (!Child)
      _exit(0);
    waitpid(Child, nullptr, 0);
    if (std::system("true"))
      std::printf("\n");
    for (int K = 0; K < 100; ++K)
      empty_kernel<<<1, 1>>>();
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"kernel empty\": 1000}\n");
}

/// One thread that spins in its waits: nothing is parked in poll() of its own.
static void spinWait() {
  for (int I = 0; I < 200; ++I) {
    spin_kernel<<<1, 32>>>(5000000, nullptr);
    CHECK(cudaDeviceSynchronize());
  }
  std::printf("{\"kernel spin\": 200}\n");
}

int main(int Count, char **Arguments) {
  struct Workload {
    const char *Name;
    void (*Run)();
    bool Prepares; ///< Itself.
  };
  static const Workload All[] = {
      {"spin", spin, false},         {"pageable", pageable, false},
      {"pinned", pinned, false},     {"stream-sync", streamSync, false},
      {"device-sync", deviceSync, false}, {"events", events, false},
      {"launches", launches, false}, {"streams", streams, false},
      {"sets", sets, false},         {"memory", memory, false},
      {"graph-after", [] { graph(false); }, true},
      {"graph-before", [] { graph(true); }, true},
      {"managed", managed, false},   {"ranges", ranges, false},
      {"driver", driver, true},      {"late", late, false},
      {"forks", forks, false},       {"spin-wait", spinWait, false},
      {"idle", [] { std::printf("{\"kernel empty\": 0}\n"); }, false}};
  for (const Workload &W : All) {
    if (Count != 2 || std::strcmp(Arguments[1], W.Name))
      continue;
    bool IsLate = W.Run == late;
    if (W.Run == spinWait)
      CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    if (!W.Prepares)
      prepare(!IsLate);
    W.Run();
    std::fflush(stdout);
    // A detach waits for a call; `idle` makes none.
    const char *Go = std::getenv("GPU_CHECK_GO");
    while (Go && exists(Go)) {
      if (std::strcmp(W.Name, "idle"))
        cudaDeviceSynchronize();
      usleep(10000);
    }
    return 0;
  }
  std::fprintf(stderr, "usage: workloads NAME, one of:");
  for (const Workload &W : All)
    std::fprintf(stderr, " %s", W.Name);
  std::fprintf(stderr, "\n");
  return 2;
}
