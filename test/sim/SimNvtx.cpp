//===- SimNvtx.cpp - The NVTX of a program ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What nvtx3's header brings into each program: at its first range it loads
/// the library of NVTX_INJECTION64_PATH, hands it its table of functions, and
/// does nothing for good where there is none or it says 0. It knows nothing of
/// CUDA or of CUPTI.
///
//===----------------------------------------------------------------------===//

#include "SimDevice.h"
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

using Function = void (*)();

// Numbers of nvtxTypes.h: modules, functions of the core, tables.
enum : unsigned { ModuleCore = 1, PushA = 9, Pop = 11, CoreCount = 16 };
enum : uint32_t { Callbacks = 1, VersionInfo = 3 };

static Function Core[CoreCount];
static Function *Places[CoreCount];

namespace {
struct CallbackTable {
  size_t Size;
  int (*Functions)(unsigned Module, Function ***Table, unsigned *Count);
};
struct VersionTable {
  size_t Size;
  uint32_t Version, Reserved;
  void (*SetInjectionVersion)(uint32_t Version);
};
} // namespace

static int functionsOf(unsigned Module, Function ***Table, unsigned *Count) {
  if (Module != ModuleCore)
    return 0;
  for (unsigned I = 1; I < CoreCount; ++I)
    Places[I] = &Core[I];
  *Table = Places;
  *Count = CoreCount;
  return 1;
}

static const void *exportTable(uint32_t Id) {
  static const CallbackTable OfCallbacks = {sizeof(OfCallbacks), functionsOf};
  static const VersionTable OfVersion = {sizeof(OfVersion), 3, 0,
                                         [](uint32_t) {}};
  return Id == Callbacks     ? static_cast<const void *>(&OfCallbacks)
         : Id == VersionInfo ? static_cast<const void *>(&OfVersion)
                             : nullptr;
}

static void start() {
  const char *Path = getenv("NVTX_INJECTION64_PATH");
  void *Library = Path ? dlopen(Path, RTLD_LAZY) : nullptr;
  if (!Library)
    return;
  using Begin = int (*)(const void *(*)(uint32_t));
  auto Inject =
      reinterpret_cast<Begin>(dlsym(Library, "InitializeInjectionNvtx2"));
  if (Inject && Inject(exportTable))
    return;
  for (Function &F : Core)
    F = nullptr;
  dlclose(Library);
}

static Function function(unsigned Id) {
  static std::once_flag Once;
  std::call_once(Once, start);
  return Core[Id];
}

extern "C" {
void simRangePush(const char *Name) {
  if (Function F = function(PushA))
    reinterpret_cast<int (*)(const char *)>(F)(Name);
}
void simRangePop(void) {
  if (Function F = function(Pop))
    reinterpret_cast<int (*)()>(F)();
}
}
