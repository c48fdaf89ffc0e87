//===- Kernels.cu - Kernels, streams and waits ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// All kernels, and workloads of kernels, streams and waits.
///
//===----------------------------------------------------------------------===//

#include "Workloads.h"
#include <thread>
#include <vector>

__global__ void warm_kernel() {}
__global__ void empty_kernel() {}
__global__ void spin_kernel(unsigned long long Length,
                            unsigned long long *Total) {
  unsigned long long Begin, Now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(Begin));
  do
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(Now));
  while (Now - Begin < Length);
  if (Total && threadIdx.x == 0)
    atomicAdd(Total, Now - Begin);
}
__global__ void touch_kernel(char *Bytes, size_t Size) {
  for (size_t I = blockIdx.x * size_t(blockDim.x) + threadIdx.x; I < Size;
       I += size_t(gridDim.x) * blockDim.x)
    Bytes[I] = char(Bytes[I] + 1);
}

void launchWarm() { warm_kernel<<<1, 1>>>(); }
void launchEmpty(cudaStream_t S) { empty_kernel<<<1, 1, 0, S>>>(); }
void launchSpin(unsigned long long Length, unsigned long long *Total,
                cudaStream_t S) {
  spin_kernel<<<1, 32, 0, S>>>(Length, Total);
}
void launchTouch(char *Bytes, size_t Size) {
  touch_kernel<<<1024, 256>>>(Bytes, Size);
}

static unsigned long long *Total;

static void makeTotal() { CHECK(cudaMalloc(&Total, sizeof(*Total))); }

/// What the kernels since clear() measured, ns.
static unsigned long long total() {
  unsigned long long Sum = 0;
  CHECK(cudaMemcpy(&Sum, Total, sizeof(Sum), cudaMemcpyDeviceToHost));
  return Sum;
}
static void clear() {
  CHECK(cudaMemset(Total, 0, sizeof(*Total)));
  CHECK(cudaDeviceSynchronize());
}

static void spin() {
  const int Count = many(10000);
  clear();
  for (int I = 0; I < Count; ++I)
    launchSpin(20000, Total);
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"kernel spin\": %d, \"call cudaLaunchKernel\": %d, "
              "\"kernel_ns\": %llu}\n",
              Count, Count, total());
}

static void streamSync() {
  const int Count = many(5000);
  cudaStream_t S;
  CHECK(cudaStreamCreate(&S));
  for (int I = 0; I < Count; ++I) {
    launchEmpty(S);
    CHECK(cudaStreamSynchronize(S));
  }
  std::printf("{\"kernel empty\": %d, \"sync 3\": %d, "
              "\"call cudaStreamSynchronize\": %d}\n",
              Count, Count, Count);
}

static void deviceSync() {
  const int Count = many(1000);
  for (int I = 0; I < Count; ++I)
    CHECK(cudaDeviceSynchronize());
  // Those between the rounds come on top.
  std::printf("{\"least sync 4\": %d, "
              "\"least call cudaDeviceSynchronize\": %d}\n",
              Count, Count);
}

static void events() {
  const int Count = many(1000);
  cudaStream_t S[2];
  cudaEvent_t E[2];
  for (int I = 0; I < 2; ++I) {
    CHECK(cudaStreamCreate(&S[I]));
    CHECK(cudaEventCreate(&E[I]));
  }
  for (int I = 0; I < Count; ++I) {
    float Time;
    CHECK(cudaEventRecord(E[0], S[0]));
    launchEmpty(S[0]);
    CHECK(cudaEventRecord(E[1], S[0]));
    CHECK(cudaStreamWaitEvent(S[1], E[1], 0));
    CHECK(cudaEventSynchronize(E[1]));
    CHECK(cudaEventElapsedTime(&Time, E[0], E[1]));
  }
  std::printf("{\"kernel empty\": %d, \"sync 1\": %d, \"sync 2\": %d, "
              "\"call cudaEventRecord\": %d, "
              "\"call cudaStreamWaitEvent\": %d}\n",
              Count, Count, Count, 2 * Count, Count);
}

/// Empty kernels of four threads, \p Each of each; seconds that it took.
static double launchThreads(int Each) {
  double Begin = seconds();
  std::vector<std::thread> Threads;
  for (int T = 0; T < 4; ++T)
    Threads.emplace_back([=] {
      cudaStream_t S;
      CHECK(cudaStreamCreateWithFlags(&S, cudaStreamNonBlocking));
      for (int I = 0; I < Each; ++I)
        launchEmpty(S);
      CHECK(cudaStreamSynchronize(S));
      CHECK(cudaStreamDestroy(S));
    });
  for (std::thread &T : Threads)
    T.join();
  return seconds() - Begin;
}

static void launches() {
  const int Each = many(250000);
  double Length = launchThreads(Each);
  std::printf("{\"kernel empty\": %d, \"call cudaLaunchKernel\": %d, "
              "\"log seconds\": %.6f}\n",
              4 * Each, 4 * Each, Length);
}

static void slowdown() {
  const int Each = many(50000);
  double Length = launchThreads(Each);
  std::printf("{\"kernel empty\": %d, \"log seconds\": %.6f}\n", 4 * Each,
              Length);
}

static void streams() {
  const int Count = many(8);
  static cudaStream_t S[4];
  if (!S[0])
    for (cudaStream_t &X : S)
      CHECK(cudaStreamCreateWithFlags(&X, cudaStreamNonBlocking));
  clear();
  for (int I = 0; I < Count; ++I)
    for (cudaStream_t X : S)
      launchSpin(5000000, Total, X);
  CHECK(cudaDeviceSynchronize());
  std::printf("{\"kernel spin\": %d, \"streams spin\": 4, \"concurrency\": 4, "
              "\"kernel_ns\": %llu}\n",
              4 * Count, total());
}

/// A thread that is never parked in a wait of its own: its waits spin, and
/// between the rounds it goes on so.
static int Spun;
static void initialiseSpinning() {
  CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  CHECK(cudaFree(nullptr));
  launchWarm();
  CHECK(cudaDeviceSynchronize());
}
static void spinOn() {
  for (int I = 0; I < 10; ++I) {
    launchSpin(1000000, nullptr);
    CHECK(cudaDeviceSynchronize());
    ++Spun;
  }
}
static void spinWait() {
  for (double End = seconds() + 3; seconds() < End;)
    spinOn();
  std::printf("{\"log kernels\": %d}\n", Spun);
}

/// Launches at an even pace until it is told to end; each word is answered with
/// how many there were.
static int Paced;
static void pace() {
  for (int I = 0; I < 5; ++I, ++Paced)
    launchEmpty();
  CHECK(cudaDeviceSynchronize());
}
static void paced() {
  pace();
  std::printf("{\"log kernels\": %d}\n", Paced);
}

const Workload KernelWorkloads[] = {
    {"spin", makeTotal, spin, deviceSynchronize},
    {"stream-sync", nullptr, streamSync, deviceSynchronize},
    {"device-sync", nullptr, deviceSync, deviceSynchronize},
    {"events", nullptr, events, deviceSynchronize},
    {"launches", nullptr, launches, deviceSynchronize},
    {"slowdown", nullptr, slowdown, deviceSynchronize},
    {"streams", makeTotal, streams, deviceSynchronize},
    {"paced", nullptr, paced, pace},
    // It makes its context itself: the flag comes first.
    {"spin-wait", initialiseSpinning, spinWait, spinOn, true},
    {}};
