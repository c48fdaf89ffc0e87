//===- Targets.cpp - Which kernels this processor can run -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The two functions that the dispatch of Highway calls, see Dispatch.h. Those
/// of libhwy.so do the same. Headers alone are used of it; where a newer
/// version needs more, the linker takes that from the library.
///
//===----------------------------------------------------------------------===//

#include "Tensor/Dispatch.h"
#include "hwy/targets.h"

namespace hwy {

int64_t SupportedTargets() {
  int64_t Targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  // These also ask whether the system keeps the wide registers.
  __builtin_cpu_init();
  bool Ssse3 = __builtin_cpu_supports("ssse3");
  bool Sse4 = Ssse3 && __builtin_cpu_supports("sse4.1") &&
              __builtin_cpu_supports("sse4.2") &&
              __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  bool Avx2 = Sse4 && __builtin_cpu_supports("avx2") &&
              __builtin_cpu_supports("lzcnt") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  bool Avx512 = Avx2 && __builtin_cpu_supports("avx512f") &&
                __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd");
  Targets |= (Ssse3 ? HWY_SSSE3 : 0) | (Sse4 ? HWY_SSE4 : 0) |
             (Avx2 ? HWY_AVX2 : 0) | (Avx512 ? HWY_AVX3 : 0);
#endif
  return Targets;
}

ChosenTarget &GetChosenTarget() {
  static ChosenTarget Chosen;
  return Chosen;
}

} // namespace hwy
