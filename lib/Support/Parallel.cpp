//===- Parallel.cpp ---------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Support/Parallel.h"
#include <atomic>
#include <thread>
#include <vector>

using namespace llvm;

namespace culprit {

void inParallel(size_t Count, unsigned Threads, function_ref<void(size_t)> Do) {
  std::atomic<size_t> Next = 0;
  const auto Work = [&] {
    for (size_t I = Next++; I < Count; I = Next++)
      Do(I);
  };
  std::vector<std::thread> Helpers;
  for (unsigned T = 1; T < Threads && T < Count; ++T)
    Helpers.emplace_back(Work);
  Work();
  for (std::thread &Helper : Helpers)
    Helper.join();
}

} // namespace culprit
