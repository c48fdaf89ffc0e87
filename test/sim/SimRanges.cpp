//===- SimRanges.cpp - Ranges that NVTX tells CUPTI -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// As measured with libcupti 13.0.85: cuptiNvtxInitialize2 takes its place in
/// NVTX also where CUPTI does not work, and then a range ends the process.
/// InitializeInjectionNvtx2 of the same library looks first, and says 1 in any
/// case.
///
//===----------------------------------------------------------------------===//

#include "SimCupti.h"
#include <cstdlib>
#include <vector>

using namespace simcupti;
using namespace culprit::cupti;

using Function = void (*)();
static std::atomic<uint32_t> Ranges{1};
static thread_local std::vector<uint32_t> Open;

static int push(const char *Name) {
  if (!isAttached() && !attach()) {
    forbid(true, "a range of NVTX where CUPTI does not work");
    abort();
  }
  Open.push_back(Ranges++);
  addMarker({Name, Open.back(), now()});
  return int(Open.size()) - 1;
}

static int pop() {
  if (Open.empty())
    return -2;
  addMarker({nullptr, Open.back(), now()});
  Open.pop_back();
  return int(Open.size());
}

namespace {
struct CallbackTable {
  size_t Size;
  int (*Functions)(unsigned Module, Function ***Table, unsigned *Count);
};
} // namespace

SIM cuptiNvtxInitialize2(void *GetExportTable) {
  if (!GetExportTable)
    return Unknown;
  auto Get = reinterpret_cast<const void *(*)(uint32_t)>(GetExportTable);
  auto Table = static_cast<const CallbackTable *>(Get(1));
  Function **Core = nullptr;
  unsigned Count = 0;
  if (!Get(3) || !Table || !Table->Functions(1, &Core, &Count) || Count < 12)
    return Unknown;
  *Core[9] = reinterpret_cast<Function>(push);
  *Core[11] = reinterpret_cast<Function>(pop);
  return Success;
}

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(void *GetExportTable) {
  return !attach() || cuptiNvtxInitialize2(GetExportTable) == Success;
}
