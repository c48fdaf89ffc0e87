//===- agent-sink.cpp - What a record costs the agent -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// usage: agent-sink LIBCUPTI FILE [SECONDS]
///
/// Hands the agent's sink buffers of launches, half calls and half kernels as
/// CUPTI 13.0 lays them out with names of 40 to 400 bytes, and prints the CPU
/// time of a record: walked, decoded, named, checked and written to FILE. The
/// walk is that of LIBCUPTI, the real or the simulated one; what it takes by
/// itself is printed too.
///
//===----------------------------------------------------------------------===//

#include "Agent/Sink.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

using namespace culprit;

template <typename T> static void put(uint8_t *To, size_t Offset, T Value) {
  std::memcpy(To + Offset, &Value, sizeof(Value));
}

/// CPU time of stepping over a record alone, ns.
static double walkTime(const cupti::Api &A, std::vector<uint8_t> &Records) {
  uint64_t Done = 0, From = agent::threadTime();
  for (unsigned Round = 0; Round < 200; ++Round)
    for (void *Record = nullptr;
         A.ActivityGetNextRecord(Records.data(), Records.size(), &Record) ==
         cupti::Success;)
      ++Done;
  return double(agent::threadTime() - From) / double(Done ? Done : 1);
}

int main(int Count, char **Arguments) {
  if (Count < 3) {
    std::fprintf(stderr, "usage: agent-sink LIBCUPTI FILE [SECONDS]\n");
    return 2;
  }
  double Seconds = Count > 3 ? std::atof(Arguments[3]) : 2;
  void *Library = dlopen(Arguments[1], RTLD_NOW);
  cupti::Api A;
  if (!Library) {
    std::fprintf(stderr, "agent-sink: %s\n", dlerror());
    return 1;
  }
  A.GetVersion = reinterpret_cast<decltype(A.GetVersion)>(
      dlsym(Library, "cuptiGetVersion"));
  A.ActivityGetNextRecord = reinterpret_cast<decltype(A.ActivityGetNextRecord)>(
      dlsym(Library, "cuptiActivityGetNextRecord"));
  A.GetCallbackName = reinterpret_cast<decltype(A.GetCallbackName)>(
      dlsym(Library, "cuptiGetCallbackName"));
  A.GetVersion(&A.Version);

  std::vector<std::string> Names;
  for (int I = 0; I < 40; ++I)
    Names.push_back("void kernel_" + std::to_string(I) + "<" +
                    std::string(size_t(30 + 9 * I), 'x') + ">(float*)");
  // One buffer's worth, written anew each time as CUPTI does.
  std::vector<uint8_t> Records;
  uint32_t Pairs = 0;
  for (; Records.size() + 256 <= (1u << 20); ++Pairs) {
    uint8_t Pair[256] = {};
    put(Pair, 0, uint32_t(5));
    put(Pair, 4, uint32_t(211));
    put(Pair, 8, uint64_t(1000 * Pairs));
    put(Pair, 16, uint64_t(1000 * Pairs + 500));
    put(Pair, 28, uint32_t(4242));
    put(Pair, 32, Pairs);
    uint8_t *Kernel = Pair + 40;
    put(Kernel, 0, uint32_t(10));
    put(Kernel, 16, uint64_t(1000 * Pairs + 300));
    put(Kernel, 24, uint64_t(1000 * Pairs + 900));
    for (size_t At : {52, 56, 60, 64, 68, 72})
      put(Kernel, At, uint32_t(Pairs % 7 + 1));
    put(Kernel, 92, Pairs);
    put(Kernel, 104, Names[Pairs % Names.size()].c_str());
    Records.insert(Records.end(), Pair, Pair + 256);
  }

  capture::StartMessage Asked = {};
  Asked.Kinds = capture::DefaultKinds;
  Asked.PoolBytes = capture::DefaultPoolBytes;
  Asked.BufferBytes = capture::DefaultBufferBytes;
  capture::Superblock Head = {};
  std::memcpy(Head.Magic, capture::Magic, sizeof(Head.Magic));
  static agent::Sink S;
  int File = open(Arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (File < 0 || S.open(A, File, Head, Asked)) {
    std::fprintf(stderr, "agent-sink: cannot write %s\n", Arguments[2]);
    return 1;
  }
  uint64_t Time = 0, Done = 0, Rounds = 0;
  for (uint64_t Begin = agent::ticks();
       double(agent::ticks() - Begin) < Seconds * 1e9;) {
    uint8_t *Buffer;
    size_t Size, Most;
    S.request(&Buffer, &Size, &Most);
    std::memcpy(Buffer, Records.data(), Records.size());
    uint64_t From = agent::threadTime();
    S.complete(Buffer, Records.size());
    Time += agent::threadTime() - From;
    Done += 2 * Pairs;
    // The file stays small: a round is as a new one to the page cache.
    // What is no file, such as /dev/null, need not be cut.
    if (++Rounds % 512 == 0 && ftruncate(File, 4096))
      Rounds = 0;
  }
  capture::StatusMessage Status;
  S.status(Status);
  double Each = double(Time) / double(Done);
  std::printf("records %llu, %.1f ns each, %.1f bytes each; 400k/s: %.2f %% of "
              "a core; the walk alone %.1f ns\n",
              static_cast<unsigned long long>(Done), Each,
              double(Status.BytesWritten) / double(Done), Each * 4e5 / 1e9 * 100,
              walkTime(A, Records));
  return 0;
}
