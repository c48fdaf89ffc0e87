//===- SimSettings.cpp - What is asked of the simulated libcupti *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/Decode.h"
#include "SimCupti.h"
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

namespace activity = culprit::capture::activity;

namespace simcupti {

static uint64_t asked(const char *Name, uint64_t Otherwise) {
  const char *Value = getenv(Name);
  return Value ? std::strtoull(Value, nullptr, 10) : Otherwise;
}

const Settings &settings() {
  static const Settings S = [] {
    Settings Out;
    Out.Version = uint32_t(asked("SIMCUPTI_VERSION", Out.Version));
    Out.Strict = asked("SIMCUPTI_STRICT", 0);
    Out.OutOfOrder = asked("SIMCUPTI_OUT_OF_ORDER", 0);
    Out.LateNs = asked("SIMCUPTI_LATE_US", 0) * 1000;
    Out.ZeroTimes = asked("SIMCUPTI_ZERO_TIMES", 0);
    Out.Drop = asked("SIMCUPTI_DROP", 0);
    Out.SlowMs = asked("SIMCUPTI_SLOW_MS", 0);
    Out.Busy = getenv("SIMCUPTI_BUSY");
    Out.Refuse = int(asked("SIMCUPTI_REFUSE", uint64_t(-1)));
    Out.NoDevice = asked("SIMCUPTI_NO_DEVICE", 0);
    Out.External = asked("SIMCUPTI_EXTERNAL", 0);
    Out.Replay = getenv("SIMCUPTI_REPLAY");
    if (Out.Replay)
      Out.Version = replayedVersion(Out.Replay);
    return Out;
  }();
  return S;
}

void forbid(bool Is, const char *What) {
  if (!Is || !settings().Strict)
    return;
  std::fprintf(stderr, "simulated CUPTI: %s\n", What);
  _exit(77);
}

uint64_t now() {
  timespec T;
  clock_gettime(CLOCK_REALTIME, &T);
  return uint64_t(T.tv_sec) * 1000000000u + uint64_t(T.tv_nsec);
}

/// From the release notes and headers of CUPTI 11.8 to 13.3, and measured on
/// 13.0. API versions: 18 is 11.8, 24 is 12.6, 26 is 12.8, 27 is 12.9, 28 is
/// its Update 1, 130000 is 13.0, 130001 is its Update 1.
size_t stride(uint32_t Kind) {
  uint32_t V = settings().Version;
  bool V12 = V > 18, V126 = V >= 24, V128 = V >= 26, V13 = V >= 130000,
       V133 = V >= 130300;
  switch (Kind) {
  case activity::Kernel:
  case activity::ConcurrentKernel:
    return V133 ? 232 : V13 ? 216 : V12 ? 208 : 200;
  case activity::Memcpy:
    return V128 ? 96 : 88;
  case activity::MemcpyPeer:
    return 96;
  case activity::Memset:
    return 88;
  case activity::Runtime:
  case activity::Driver:
    return 40;
  case activity::Synchronization:
    return V128 ? 56 : 40;
  case activity::Overhead:
    return V126 ? 56 : 40;
  case activity::Memory:
    return V126 ? 128 : 120;
  case activity::Device:
    return V126 ? 184 : 176;
  case activity::Context:
    return V126 ? 32 : 16;
  case activity::Stream:
  case activity::ExternalCorrelation:
    return 24;
  case activity::Name:
    return 32;
  case activity::Marker:
    return 56;
  case activity::CudaEvent:
    return V128 ? 56 : 24;
  case activity::GraphTrace:
    return V12 ? 56 : 48;
  case activity::UnifiedMemory:
    return V128 ? 104 : 64;
  default:
    break;
  }
  // What the agent does not record, of 13.0 alone: a buffer that holds such
  // records can be walked.
  struct Other {
    uint8_t Kind, Bytes;
  };
  static const Other Others[] = {
      {13, 40},  {18, 144}, {19, 40},  {20, 40},  {26, 32}, {27, 24}, {28, 24},
      {33, 152}, {34, 152}, {35, 120}, {40, 136}, {45, 80}, {46, 168}, {47, 40},
      {48, 40},  {50, 80},  {52, 72},  {53, 56},  {54, 64}, {55, 32}};
  if (V13)
    for (const Other &O : Others)
      if (O.Kind == Kind)
        return O.Bytes;
  return 0;
}

static thread_local Result Last = culprit::cupti::Success;

Result told(Result R) {
  // Without a device the real one remembers nothing.
  if (R != culprit::cupti::Success && isAttached())
    Last = R;
  return R;
}

Result takeLastError() {
  Result R = Last;
  Last = culprit::cupti::Success;
  return R;
}

} // namespace simcupti
