//===- Workloads.h - What the programs for a GPU share ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A workload is prepared, then does its work once a round and prints what it
/// did, one JSON object on a line. Keys are as scripts/gpu-check compares them:
/// `kernel NAME`, `call NAME`, `copy_bytes KIND`; `least KEY` is a lower bound
/// and `log KEY` only told.
///
/// Nothing here uses more than 600 MiB of the device, and managed memory only a
/// part of what is free.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_TEST_GPU_WORKLOADS_H
#define CULPRIT_TEST_GPU_WORKLOADS_H

#include <cstddef>
#include <cstdio>
#include <cuda_runtime.h>

struct Workload {
  const char *Name;
  /// Before the word to go, with a context already; may be null.
  void (*Setup)();
  void (*Run)();
  /// What is done between the rounds, about 100 times a second, so that a
  /// detach finds a call of CUDA to be done at; may be null.
  void (*Between)();
  bool IsLate = false; ///< Makes its context itself.
};

/// Ends the program with status 3 and the error as its JSON.
void check(cudaError_t Error, const char *File, int Line);
#define CHECK(Call) check(Call, __FILE__, __LINE__)

/// \p Count, or less where a short run was asked for; at least 1.
int many(int Count);

/// Seconds of the steady clock.
double seconds();

// Kernels, told apart by their names (Kernels.cu).

void launchWarm();
void launchEmpty(cudaStream_t S = nullptr);
/// One warp, busy for \p Length ns of the device's clock. Adds what it measured
/// to \p Total, which may be null.
void launchSpin(unsigned long long Length, unsigned long long *Total,
                cudaStream_t S = nullptr);
/// Adds 1 to each of \p Size bytes.
void launchTouch(char *Bytes, size_t Size);

// Each ends with a workload without a name.

extern const Workload KernelWorkloads[];  ///< Kernels.cu
extern const Workload CopyWorkloads[];    ///< Copies.cu
extern const Workload GraphWorkloads[];   ///< Graphs.cu
extern const Workload ProcessWorkloads[]; ///< Processes.cu

void deviceSynchronize();

#endif // CULPRIT_TEST_GPU_WORKLOADS_H
