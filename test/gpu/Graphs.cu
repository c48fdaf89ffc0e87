//===- Graphs.cu - CUDA graphs made before and after an attach --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Launches of a CUDA graph that is made before or after the word to go.
///
//===----------------------------------------------------------------------===//

#include "Workloads.h"

static char *A, *B;
static cudaStream_t S;
static cudaGraphExec_t Exec;

static void setup() {
  CHECK(cudaStreamCreate(&S));
  CHECK(cudaMalloc(&A, 4096));
  CHECK(cudaMalloc(&B, 4096));
}

/// 20 kernels and 2 copies.
static void make() {
  cudaGraph_t G;
  CHECK(cudaStreamBeginCapture(S, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(A, B, 4096, cudaMemcpyDeviceToDevice, S));
  for (int I = 0; I < 20; ++I)
    launchEmpty(S);
  CHECK(cudaMemcpyAsync(B, A, 4096, cudaMemcpyDeviceToDevice, S));
  CHECK(cudaStreamEndCapture(S, &G));
  CHECK(cudaGraphInstantiate(&Exec, G, 0));
}

static void launch() {
  const int Count = many(500);
  for (int I = 0; I < Count; ++I)
    CHECK(cudaGraphLaunch(Exec, S));
  CHECK(cudaStreamSynchronize(S));
  // Copies of a graph that was there before may be told as kernels.
  std::printf("{\"kernel empty\": %d, \"least of_graphs\": %d, "
              "\"call cudaGraphLaunch\": %d}\n",
              20 * Count, 20 * Count, Count);
}

const Workload GraphWorkloads[] = {
    {"graph-before", [] { setup(), make(); }, launch, deviceSynchronize},
    {"graph-after", setup, [] { make(), launch(); }, deviceSynchronize},
    {}};
