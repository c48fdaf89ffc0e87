//===- SimSwitches.cpp - What is switched on --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "SimCupti.h"

namespace simcupti {

Switches Switched;

bool has(uint32_t Kind) {
  int8_t OfContext = Switched.OfContext[Kind].load(std::memory_order_relaxed);
  return OfContext ? OfContext > 0
                   : Switched.Kinds[Kind].load(std::memory_order_relaxed);
}

bool hasEnabled() {
  for (uint32_t Kind = 0; Kind < MaxKind; ++Kind)
    if (has(Kind))
      return true;
  return false;
}

void switchOff() {
  for (std::atomic<bool> &K : Switched.Kinds)
    K = false;
  for (std::atomic<int8_t> &K : Switched.OfContext)
    K = 0;
  for (std::atomic<bool> &K : Switched.DriverCalls)
    K = false;
  for (std::atomic<bool> &K : Switched.RuntimeOff)
    K = false;
  for (auto &Domain : Switched.Callbacks)
    for (std::atomic<bool> &C : Domain)
      C = false;
  Switched.HasPaging = Switched.HasLatency = false;
  Switched.OnCall = nullptr;
  Switched.Current = nullptr;
}

} // namespace simcupti
