//===- GlibcVersions.h - Symbols that an older glibc has too ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Binds what moved into libc with 2.34 to its old version: the agent is loaded
/// into processes of containers that are older than the machine it was built
/// on. Included on the command line for every file of the agent; a test reads
/// the symbol versions of the result.
///
//===----------------------------------------------------------------------===//

#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define CULPRIT_OLD(Name) __asm__(".symver " #Name "," #Name "@GLIBC_2.2.5")
#elif defined(__aarch64__) && defined(__GLIBC__)
#define CULPRIT_OLD(Name) __asm__(".symver " #Name "," #Name "@GLIBC_2.17")
#endif
#ifdef CULPRIT_OLD
CULPRIT_OLD(pthread_create);
CULPRIT_OLD(pthread_detach);
CULPRIT_OLD(pthread_attr_setstacksize);
CULPRIT_OLD(dlopen);
CULPRIT_OLD(dlsym);
CULPRIT_OLD(dlclose);
CULPRIT_OLD(dlerror);
CULPRIT_OLD(dladdr);
#undef CULPRIT_OLD
#endif
