//===- Calls.h - Which calls of CUDA are kept -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_AGENT_CALLS_H
#define CULPRIT_AGENT_CALLS_H

#include <stdint.h>

namespace culprit::agent {

/// Calls of the runtime that frameworks make by the thousand and that explain
/// nothing: cudaGetDevice, cudaGetLastError, cudaPeekAtLastError,
/// cudaSetDevice, cudaDeviceGetAttribute, cudaStreamIsCapturing,
/// cudaStreamGetCaptureInfo.
inline constexpr uint32_t ChattyCalls[] = {17,  10,  11,  16,  200, 317, 324,
                                           325, 409, 410, 461, 462};
inline constexpr uint32_t MaxCallback = 1024;

/// cudaStreamBeginCapture, -ToGraph; cuStreamBeginCapture, _v2, -ToGraph; each
/// also for a thread's default stream.
inline constexpr uint32_t RuntimeBegins[] = {315, 316, 452, 453};
inline constexpr uint32_t DriverBegins[] = {495, 496, 539, 540, 720, 721};
/// cudaStreamEndCapture, cuStreamEndCapture.
inline constexpr uint32_t RuntimeEnds[] = {319, 320};
inline constexpr uint32_t DriverEnds[] = {497, 498};

/// A set of callback ids.
struct CallSet {
  uint64_t Bits[MaxCallback / 64] = {};
  constexpr void add(uint32_t First, uint32_t Last) {
    for (uint32_t Id = First; Id <= Last; ++Id)
      Bits[Id / 64] |= uint64_t(1) << Id % 64;
  }
  constexpr bool has(uint32_t Id) const {
    return Id < MaxCallback && Bits[Id / 64] >> Id % 64 & 1;
  }
};

/// Those of DriverCalls.def.
constexpr CallSet keptDriverCalls() {
  CallSet S;
#define DRIVER_CALL(First, Last, What) S.add(First, Last);
#include "Agent/DriverCalls.def"
  return S;
}
constexpr CallSet leftOutRuntimeCalls() {
  CallSet S;
  for (uint32_t Id : ChattyCalls)
    S.add(Id, Id);
  return S;
}

} // namespace culprit::agent

#endif // CULPRIT_AGENT_CALLS_H
