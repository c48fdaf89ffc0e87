//===- DriverOnly.cpp - A program without the CUDA runtime ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: driver-only NAME [DIVISOR]
///
/// Everything by libcuda's own functions, found by dlopen(); NAME says nothing.
/// Words and answers as in Main.cu.
///
//===----------------------------------------------------------------------===//

#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>
#include <string>
#include <unistd.h>

static const char Ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry driver_kernel()\n{ ret; }\n";

static void check(int Result, int Line) {
  if (!Result)
    return;
  std::printf("{\"error\": \"DriverOnly.cpp:%d: CUresult %d\"}\n", Line,
              Result);
  std::fflush(stdout);
  std::_Exit(3);
}
#define CHECK(Call) check(int(Call), __LINE__)

/// As in Main.cu, with \p Wait as the call between two words.
static std::string word(CUresult (*Wait)()) {
  std::string Out;
  while (true) {
    pollfd In = {STDIN_FILENO, POLLIN, 0};
    if (poll(&In, 1, Wait ? 10 : -1) == 0) {
      CHECK(Wait());
      continue;
    }
    char C;
    if (read(STDIN_FILENO, &C, 1) != 1 || C == '\n')
      return Out;
    Out += C;
  }
}

int main(int Count, char **Arguments) {
  int Divisor = Count > 2 ? std::atoi(Arguments[2]) : 1;
  int Launches = Divisor > 0 && Divisor < 1000 ? 1000 / Divisor : 1;
  void *Library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!Library) {
    std::printf("{\"error\": \"no libcuda.so.1\"}\n");
    return 3;
  }
  // cuda.h makes macros of some names, which then name the newest function.
#define TEXT(Name) #Name
#define FUNCTION(Name)                                                         \
  auto Name##Call =                                                            \
      reinterpret_cast<decltype(&::Name)>(dlsym(Library, TEXT(Name)));         \
  if (!Name##Call)                                                             \
  check(-1, __LINE__)
  FUNCTION(cuInit);
  FUNCTION(cuDeviceGet);
  FUNCTION(cuDevicePrimaryCtxRetain);
  FUNCTION(cuCtxSetCurrent);
  FUNCTION(cuModuleLoadData);
  FUNCTION(cuModuleGetFunction);
  FUNCTION(cuLaunchKernel);
  FUNCTION(cuCtxSynchronize);
  CUdevice Device;
  CUcontext Context;
  CUmodule Module;
  CUfunction Function;
  CHECK(cuInitCall(0));
  CHECK(cuDeviceGetCall(&Device, 0));
  CHECK(cuDevicePrimaryCtxRetainCall(&Context, Device));
  CHECK(cuCtxSetCurrentCall(Context));
  CHECK(cuModuleLoadDataCall(&Module, Ptx));
  CHECK(cuModuleGetFunctionCall(&Function, Module, "driver_kernel"));
  if (const char *Agent = std::getenv("GPU_CHECK_AGENT"))
    if (!dlopen(Agent, RTLD_NOW))
      std::fprintf(stderr, "%s\n", dlerror());
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  std::string Word = word(nullptr);
  bool Alone = Word.empty();
  for (; Alone || Word == "go"; Word = word(cuCtxSynchronizeCall)) {
    for (int I = 0; I < Launches; ++I)
      CHECK(cuLaunchKernelCall(Function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
                               nullptr));
    CHECK(cuCtxSynchronizeCall());
    std::printf("{\"kernel driver\": %d, \"call cuLaunchKernel\": %d}\n",
                Launches, Launches);
    std::fflush(stdout);
    if (Alone)
      break;
  }
  return 0;
}
