//===- Processes.cu - How a program lives with CUDA -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Workloads of how a program comes to CUDA: late, with children, with NVTX, or
/// not at all for a while.
///
//===----------------------------------------------------------------------===//

#include "Workloads.h"
#include <cstdlib>
#include <nvtx3/nvToolsExt.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

/// NVTX is initialised before the word to go: an attach comes too late for it.
static void initialiseRanges() { nvtxInitialize(nullptr); }
static void ranges() {
  const int Count = many(1000);
  for (int I = 0; I < Count; ++I)
    nvtxRangePushA("range of the check");
  for (int I = 0; I < Count; ++I)
    nvtxRangePop();
  std::printf("{\"marker\": %d}\n", 2 * Count);
}

static void empties(int Count) {
  for (int I = 0; I < Count; ++I)
    launchEmpty();
  CHECK(cudaDeviceSynchronize());
}

/// CUDA comes three seconds after the first word to go.
static void late() {
  static bool IsThere;
  const int Count = many(1000);
  if (!IsThere)
    sleep(3);
  IsThere = true;
  empties(Count);
  std::printf("{\"kernel empty\": %d}\n", Count);
}

/// Children that leave CUDA alone, and two programs that use it.
static void forks() {
  const int Count = many(1000);
  char Self[4096] = {};
  if (readlink("/proc/self/exe", Self, sizeof(Self) - 1) < 0)
    std::perror("workloads: /proc/self/exe");
  for (int I = 0; I < 10; ++I) {
    pid_t Child = fork();
    if (!Child)
      _exit(0);
    waitpid(Child, nullptr, 0);
  }
  int Good = std::system("true") == 0;
  for (int I = 0; I < 2; ++I) {
    pid_t Child = fork();
    if (!Child) {
      // Its own words are not to be mixed with ours.
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      execl(Self, Self, "child", static_cast<char *>(nullptr));
      _exit(127);
    }
    int Status = -1;
    waitpid(Child, &Status, 0);
    Good += Status == 0;
  }
  empties(Count);
  if (Good != 3)
    std::printf("{\"error\": \"%d of 3 children ended well\"}\n", Good);
  else
    std::printf("{\"kernel empty\": %d, \"children\": 2}\n", Count);
}

static void child() {
  empties(50);
  std::printf("{\"kernel empty\": 50}\n");
}

/// No call of CUDA between the rounds, so none while it is detached from.
static void idle() {
  const int Count = many(100);
  empties(Count);
  std::printf("{\"kernel empty\": %d}\n", Count);
}

const Workload ProcessWorkloads[] = {
    {"ranges", initialiseRanges, ranges, deviceSynchronize},
    {"late", nullptr, late, deviceSynchronize, true},
    {"forks", nullptr, forks, deviceSynchronize},
    {"child", nullptr, child, nullptr},
    {"idle", nullptr, idle, nullptr},
    {}};
