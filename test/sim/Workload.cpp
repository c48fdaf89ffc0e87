//===- Workload.cpp - Programs that use the simulated device ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: workload NAME [COUNT] [SECONDS]
///
/// Does what NAME says and prints what it did, so that a capture can be held
/// against it. `loop` and `load` run for SECONDS, `rate` makes COUNT launches a
/// second for SECONDS; the others do COUNT. `shell` reads commands, one a line,
/// and answers each with a line, so that a test decides what comes when.
///
//===----------------------------------------------------------------------===//

#include "CloseGuard.h"
#include "SimDevice.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static double seconds() {
  timespec T;
  clock_gettime(CLOCK_MONOTONIC, &T);
  return double(T.tv_sec) + double(T.tv_nsec) * 1e-9;
}

/// Kernels of 20 us one after the other.
static void spin(unsigned Count) {
  for (unsigned I = 0; I < Count; ++I)
    simLaunch("spin_kernel", 7, 20000);
  simDeviceSynchronize();
  std::printf("kernels %u calls %u syncs 1\n", Count, Count + 1);
}

/// A training loop: copy, twelve kernels, a set, an optimizer step, a wait.
static void loop(double Length) {
  unsigned Steps = 0;
  for (double End = seconds() + Length; seconds() < End; ++Steps) {
    simCopy(1, 1 << 20, 7);
    for (int I = 0; I < 12; ++I)
      simLaunch(I % 3 ? "void gemm_kernel<float>(float*)" : "softmax_kernel", 7,
                30000);
    simSet(1 << 16, 7);
    simLaunch("adam_kernel", 7, 50000);
    simStreamSynchronize(7);
  }
  std::printf("steps %u kernels %u copies %u sets %u syncs %u\n", Steps,
              13 * Steps, Steps, Steps, Steps);
}

static void memory(unsigned Count) {
  std::vector<uint64_t> All;
  for (unsigned I = 0; I < Count; ++I)
    All.push_back(simMalloc(1 << 20));
  for (uint64_t A : All)
    simFree(A);
  std::printf("allocations %u frees %u\n", Count, Count);
}

/// Launches from four threads as fast as they go.
static void load(double Length) {
  std::vector<std::thread> Threads;
  std::vector<uint64_t> Done(4);
  for (unsigned T = 0; T < 4; ++T)
    Threads.emplace_back([&, T] {
      for (double End = seconds() + Length; seconds() < End; ++Done[T])
        simLaunch("empty_kernel", 10 + T, 1000);
    });
  for (std::thread &T : Threads)
    T.join();
  std::printf("kernels %llu\n",
              static_cast<unsigned long long>(Done[0] + Done[1] + Done[2] +
                                              Done[3]));
}

/// CPU time of this process, s.
static double cpu() {
  rusage U;
  getrusage(RUSAGE_SELF, &U);
  return double(U.ru_utime.tv_sec + U.ru_stime.tv_sec) +
         double(U.ru_utime.tv_usec + U.ru_stime.tv_usec) * 1e-6;
}

/// Launches in groups of a millisecond, \p Rate a second.
static void rate(unsigned Rate, double Length) {
  double Begin = seconds(), Cpu = cpu();
  uint64_t Done = 0;
  for (double Now = Begin; Now < Begin + Length; Now = seconds()) {
    uint64_t Due = uint64_t((Now - Begin) * Rate);
    for (; Done < Due; ++Done)
      simLaunch(Done % 3 ? "void gemm_kernel<float>(float*)" : "softmax_kernel",
                7, 1000);
    usleep(1000);
  }
  std::printf("kernels %llu cpu %.3f wall %.3f\n",
              static_cast<unsigned long long>(Done), cpu() - Cpu,
              seconds() - Begin);
}

/// One or two of everything that the device can do.
static void every() {
  simRangePush("every");
  uint64_t Memory = simMalloc(1 << 20);
  simCopy(1, 1 << 20, 7);
  simLaunch("void gemm_kernel<float>(float*)", 7, 20000);
  simLaunch("softmax_kernel", 8, 20000);
  simDriverLaunch("driver_kernel", 7, 10000);
  simGraphLaunch(3, 2, 7, 5000);
  simSet(4096, 7);
  simCopy(2, 1 << 19, 7);
  simStreamSynchronize(7);
  simFree(Memory);
  simRangePop();
  simDeviceSynchronize();
  std::printf("kernel 5 copy 2 set 1 memory 2 marker 2 sync 2 call 11\n");
}

/// NVTX ranges of the calling thread.
static void ranges(unsigned N) {
  for (unsigned I = 0; I < N; ++I) {
    simRangePush("range");
    simRangePop();
  }
}

/// Launches of N threads, M each.
static void threads(unsigned N, unsigned M) {
  std::vector<std::thread> All;
  for (unsigned T = 0; T < N; ++T)
    All.emplace_back([=] {
      for (unsigned I = 0; I < M; ++I)
        simLaunch("thread_kernel", 10 + T, 1000);
    });
  for (std::thread &T : All)
    T.join();
}

/// Has the agent \p Library begin a session in \p Folder, as an injected call
/// does: the library is loaded from the folder or is there already.
static int attach(const std::string &Library, const std::string &Folder) {
  void *Agent = dlopen(Library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!Agent)
    return dlopen(Library.c_str(), RTLD_NOW) ? 0 : -1;
  auto Begin = reinterpret_cast<int (*)(const char *)>(
      dlsym(Agent, "culprit_agent_begin"));
  return Begin ? Begin(Folder.c_str()) : -2;
}

/// Launches of N threads, M each, which all live until the last is done.
static void together(unsigned N, unsigned M) {
  std::vector<std::thread> All;
  std::atomic<unsigned> Done{0};
  for (unsigned T = 0; T < N; ++T)
    All.emplace_back([&, T] {
      for (unsigned I = 0; I < M; ++I)
        simLaunch("thread_kernel", 10 + T, 1000);
      for (++Done; Done < N;)
        usleep(1000);
    });
  for (std::thread &T : All)
    T.join();
}

static int shell() {
  std::string Line;
  while (std::getline(std::cin, Line)) {
    std::istringstream In(Line);
    std::string What, A, B;
    unsigned N = 0, M = 0;
    In >> What;
    long Answer = 0;
    if (What == "launch") {
      In >> N;
      for (unsigned I = 0; I < N; ++I)
        simLaunch("shell_kernel", 7, 1000);
    } else if (What == "sync") {
      simDeviceSynchronize();
    } else if (What == "threads") {
      In >> N >> M;
      threads(N, M);
    } else if (What == "together") {
      In >> N >> M;
      together(N, M);
    } else if (What == "capture") { // Of a graph, on stream N.
      In >> N;
      simBeginCapture(N);
    } else if (What == "captured") {
      In >> N;
      simEndCapture(N);
    } else if (What == "park") { // Threads that do nothing.
      In >> N;
      for (unsigned I = 0; I < N; ++I)
        std::thread([] { pause(); }).detach();
    } else if (What == "attach") {
      In >> A >> B;
      Answer = attach(A, B);
    } else if (What == "fork") {
      // A child that calls CUDA, which does not work there, and ends.
      In >> N;
      pid_t Child = fork();
      if (!Child) {
        for (unsigned I = 0; I < N; ++I)
          simLaunch("child_kernel", 7, 1000);
        exit(0);
      }
      int Status = -1;
      waitpid(Child, &Status, 0);
      Answer = Status;
    } else if (What == "rawfork") {
      // Without the handlers of fork; how long the child takes to end, ms.
      double Begin = seconds();
      long Child = syscall(SYS_fork);
      if (!Child)
        exit(0);
      waitpid(pid_t(Child), nullptr, 0);
      Answer = long((seconds() - Begin) * 1000);
    } else if (What == "guard") {
      guardCloses();
    } else if (What == "lost") {
      Answer = lostFiles();
    } else if (What == "setuid") {
      // glibc has every thread do this; one that cannot stops all.
      Answer = setuid(getuid());
    } else if (What == "range") {
      In >> N;
      for (unsigned I = 0; I < N; ++I) {
        simRangePush("shell range");
        simLaunch("shell_kernel", 7, 1000);
        simRangePop();
      }
    } else if (What == "limit") { // Of a file, bytes.
      In >> N;
      rlimit Limit = {N, RLIM_INFINITY};
      Answer = setrlimit(RLIMIT_FSIZE, &Limit);
    } else if (What == "usage") { // Descriptors.
      for (int F = 0; F < 1024; ++F)
        Answer += fcntl(F, F_GETFD) >= 0;
    } else if (What == "memory") { // KiB resident.
      std::ifstream Statm("/proc/self/statm");
      Statm >> A >> Answer;
      Answer *= 4;
    } else if (What == "exit") {
      return 0;
    } else if (What == "quit") {
      _exit(3);
    } else if (What == "abort") {
      abort();
    } else {
      return 2;
    }
    std::printf("ok %s %ld\n", What.c_str(), Answer);
  }
  return 0;
}

int main(int Count, char **Arguments) {
  std::string What = Count > 1 ? Arguments[1] : "spin";
  unsigned N = Count > 2 ? unsigned(std::atoi(Arguments[2])) : 1000;
  double Length = Count > 3 ? std::atof(Arguments[3]) : 1;
  if (What == "early")
    ranges(N);
  cuInit(0);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("pid %d\n", getpid());
  if (What == "spin")
    spin(N);
  else if (What == "loop")
    loop(Length);
  else if (What == "every")
    every();
  else if (What == "memory")
    memory(N);
  else if (What == "load")
    load(Length);
  else if (What == "rate")
    rate(N, Length);
  else if (What == "shell")
    return shell();
  else if (What == "early") {
    ranges(N);
    std::printf("ranges %u\n", 2 * N);
  } else if (What == "threads-of-ranges") {
    std::thread All[4];
    for (std::thread &T : All)
      T = std::thread(ranges, N);
    for (std::thread &T : All)
      T.join();
  } else if (What == "copies") {
    for (unsigned I = 0; I < N; ++I) {
      simCopy(1, 1 << 20, 7);
      simCopy(2, 1 << 19, 7);
      simSet(4096, 7);
    }
    simDeviceSynchronize();
    std::printf("copies %u bytes %llu sets %u syncs 1 calls %u\n", 2 * N,
                static_cast<unsigned long long>(N) * ((1 << 20) + (1 << 19)), N,
                3 * N + 1);
  } else if (What == "graph") {
    for (unsigned I = 0; I < N; ++I)
      simGraphLaunch(3, 20, 7, 5000);
    simDeviceSynchronize();
    std::printf("kernels %u calls %u\n", 20 * N, N + 1);
  } else if (What == "events") {
    for (unsigned I = 0; I < N; ++I)
      simEventRecord(I + 1, 7);
    std::printf("events %u calls %u\n", N, N);
  } else if (What == "paging") {
    for (unsigned I = 0; I < N; ++I) {
      simPageIn(64 << 10);
      simLaunch("paging_kernel", 7, 1000);
    }
    simDeviceSynchronize();
    std::printf("paging %u bytes %llu kernels %u\n", N,
                static_cast<unsigned long long>(N) << 16, N);
  } else if (What == "driver") {
    for (unsigned I = 0; I < N; ++I)
      simDriverLaunch("driver_kernel", 7, 1000);
    simDeviceSynchronize();
    std::printf("kernels %u calls %u\n", N, N + 1);
  } else if (What == "chatty") {
    for (unsigned I = 0; I < N; ++I)
      simGetDevice();
    std::printf("calls 0\n");
  } else if (What == "idle") {
    // CUDA is there and never called again.
    sleep(unsigned(Length));
  } else {
    std::fprintf(stderr, "workload: unknown '%s'\n", What.c_str());
    return 2;
  }
  return 0;
}
