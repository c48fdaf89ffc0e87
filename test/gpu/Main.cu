//===- Main.cu - Programs for a machine with a GPU --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: workloads NAME [DIVISOR]
///
/// Prepares the workload NAME, prints "ready PID" and reads words, one a line:
/// `go` has it work once and print what it did, `end` or the end of the input
/// ends it. When the input is at its end from the start it works once. Between
/// two words it makes a call of CUDA now and then, so that a profiler can
/// detach; `idle` makes none. DIVISOR makes all counts smaller.
///
/// GPU_CHECK_AGENT=LIB: loads LIB before it says that it is ready.
///
//===----------------------------------------------------------------------===//

#include "Workloads.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <poll.h>
#include <string>
#include <unistd.h>

static int Divisor = 1;

int many(int Count) { return Count / Divisor > 0 ? Count / Divisor : 1; }

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void check(cudaError_t Error, const char *File, int Line) {
  if (Error == cudaSuccess)
    return;
  const char *Slash = std::strrchr(File, '/');
  std::printf("{\"error\": \"%s:%d: %s\"}\n", Slash ? Slash + 1 : File, Line,
              cudaGetErrorString(Error));
  std::fflush(stdout);
  std::_Exit(3);
}

void deviceSynchronize() { CHECK(cudaDeviceSynchronize()); }

/// The next word on stdin, "" at its end. \p Meanwhile is called about 100
/// times a second while there is none.
static std::string word(void (*Meanwhile)()) {
  std::string Out;
  while (true) {
    pollfd In = {STDIN_FILENO, POLLIN, 0};
    // Without a thing to do it may as well wait for good.
    if (poll(&In, 1, Meanwhile ? 10 : -1) == 0) {
      Meanwhile();
      continue;
    }
    char C;
    if (read(STDIN_FILENO, &C, 1) != 1 || C == '\n')
      return Out;
    Out += C;
  }
}

static int run(const Workload &W) {
  if (!W.IsLate) {
    CHECK(cudaFree(nullptr));
    launchWarm();
    CHECK(cudaDeviceSynchronize());
  }
  if (W.Setup)
    W.Setup();
  if (const char *Agent = std::getenv("GPU_CHECK_AGENT"))
    if (!dlopen(Agent, RTLD_NOW))
      std::fprintf(stderr, "%s\n", dlerror());
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  // Nothing is done before the first word: it would be counted.
  std::string Word = word(nullptr);
  bool Alone = Word.empty();
  for (; Alone || Word == "go"; Word = word(W.Between)) {
    W.Run();
    std::fflush(stdout);
    if (Alone)
      return 0;
  }
  return 0;
}

int main(int Count, char **Arguments) {
  if (Count > 2)
    Divisor = std::atoi(Arguments[2]) > 0 ? std::atoi(Arguments[2]) : 1;
  const Workload *All[] = {KernelWorkloads, CopyWorkloads, GraphWorkloads,
                           ProcessWorkloads};
  for (const Workload *List : All)
    for (const Workload *W = List; W->Name; ++W)
      if (Count > 1 && !std::strcmp(Arguments[1], W->Name))
        return run(*W);
  std::fprintf(stderr, "usage: workloads NAME [DIVISOR], NAME one of:");
  for (const Workload *List : All)
    for (const Workload *W = List; W->Name; ++W)
      std::fprintf(stderr, " %s", W->Name);
  std::fprintf(stderr, "\n");
  return 2;
}
