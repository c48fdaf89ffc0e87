//===- Copies.cu - Copies, sets and memory ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Workloads of copies, sets and memory.
///
//===----------------------------------------------------------------------===//

#include "Workloads.h"
#include <cstdlib>
#include <cstring>
#include <vector>

static void pageable() {
  const int Count = many(100);
  const size_t Size = 16 << 20;
  char *Device, *Host = static_cast<char *>(std::calloc(1, Size));
  CHECK(cudaMalloc(&Device, Size));
  for (int I = 0; I < Count; ++I)
    CHECK(cudaMemcpy(Device, Host, Size, cudaMemcpyHostToDevice));
  CHECK(cudaFree(Device));
  std::free(Host);
  // A copy may be told in pieces: the bytes are what is exact. Kind 1 is host
  // to device, memory 1 pageable.
  std::printf("{\"copy_bytes 1\": %zu, \"least copy_from 1\": %d, "
              "\"call cudaMemcpy_\": %d}\n",
              Count * Size, Count, Count);
}

static void pinned() {
  const int Count = many(20);
  const size_t Size = 64 << 20;
  char *Device[2], *Host[2];
  cudaStream_t S[3];
  for (cudaStream_t &X : S)
    CHECK(cudaStreamCreateWithFlags(&X, cudaStreamNonBlocking));
  for (int I = 0; I < 2; ++I) {
    CHECK(cudaMalloc(&Device[I], Size));
    CHECK(cudaMallocHost(&Host[I], Size));
  }
  for (int I = 0; I < Count; ++I) {
    CHECK(cudaMemcpyAsync(Device[0], Host[0], Size, cudaMemcpyHostToDevice,
                          S[0]));
    CHECK(cudaMemcpyAsync(Host[1], Device[1], Size, cudaMemcpyDeviceToHost,
                          S[1]));
    launchSpin(2000000, nullptr, S[2]);
  }
  CHECK(cudaDeviceSynchronize());
  for (int I = 0; I < 2; ++I) {
    CHECK(cudaFree(Device[I]));
    CHECK(cudaFreeHost(Host[I]));
  }
  std::printf("{\"copy_bytes 1\": %zu, \"copy_bytes 2\": %zu, \"copy\": %d, "
              "\"kernel spin\": %d, \"overlap\": 1}\n",
              Count * Size, Count * Size, 2 * Count, Count);
}

static void sets() {
  const int Count = many(1000);
  const size_t Size = 1 << 20;
  char *Device;
  CHECK(cudaMalloc(&Device, Size));
  for (int I = 0; I < Count; ++I)
    CHECK(cudaMemsetAsync(Device, I, Size));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(Device));
  std::printf("{\"set\": %d, \"set_bytes\": %zu}\n", Count, Count * Size);
}

/// All allocations live at once, so that the peak is known.
static void memory() {
  const int Count = many(2000);
  const size_t Size = 256 << 10;
  std::vector<void *> All(Count);
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
  std::printf("{\"call cudaMalloc_\": %d, \"call cudaMallocAsync\": %d, "
              "\"memory_of %zu allocated\": %d, \"memory_of %zu freed\": %d, "
              "\"memory_of %zu peak\": %zu}\n",
              Count, Count, Size, 2 * Count, Size, 2 * Count, Size,
              Count * Size);
}

/// To and fro by page faults. Never above a quarter of what is free: managed
/// memory beyond that can hang the device.
static void managed() {
  const int Count = many(20);
  size_t Free, All, Size = 256 << 20;
  CHECK(cudaMemGetInfo(&Free, &All));
  if (Free < 4 * Size) {
    std::printf("{\"skipped\": \"%zu MiB of the device are free, %zu wanted\"}"
                "\n",
                Free >> 20, 4 * Size >> 20);
    return;
  }
  char *Bytes;
  CHECK(cudaMallocManaged(&Bytes, Size));
  std::memset(Bytes, 1, Size);
  for (int I = 0; I < Count; ++I) {
    launchTouch(Bytes, Size);
    CHECK(cudaDeviceSynchronize());
    for (size_t At = 0; At < Size; At += 4096)
      Bytes[At]++;
  }
  CHECK(cudaFree(Bytes));
  std::printf("{\"kernel touch\": %d, \"least paging_bytes 1\": %zu, "
              "\"least paging_bytes 2\": %zu}\n",
              Count, Count * Size, Count * Size);
}

const Workload CopyWorkloads[] = {
    {"pageable", nullptr, pageable, deviceSynchronize},
    {"pinned", nullptr, pinned, deviceSynchronize},
    {"sets", nullptr, sets, deviceSynchronize},
    {"memory", nullptr, memory, deviceSynchronize},
    {"managed", nullptr, managed, deviceSynchronize},
    {}};
