//===- Caves.h - Unused bytes in a process ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Where the stub and its results go. A file's segment seldom ends with a page;
/// the rest of its last page is mapped with the segment's rights and belongs to
/// nobody. Used are the ends of libraries that are never unloaded. So a call
/// needs no memory to be mapped from outside and leaves none behind, and the
/// stub's calls come from an address that the dynamic linker knows.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_CAVES_H
#define CULPRIT_ATTACH_CAVES_H

#include "Attach/ElfImage.h"
#include "Attach/ProcessMaps.h"

namespace culprit::attach {

struct CodeCave {
  uint64_t Address = 0;
  bool Written = false; ///< \p Code is there already, from an earlier call.
};

/// Room behind a library's code for \p Code. A place that holds anything but
/// zeros or the beginning of \p Code is not taken: another tool's, or an older
/// stub that a thread may still be in.
std::optional<CodeCave> findCodeCave(const Memory &Memory,
                                     const ProcessMaps &Maps,
                                     llvm::ArrayRef<uint8_t> Code);

/// Room behind a library's data for a CallResults, zeros or one already.
std::optional<uint64_t> findResultsCave(const Memory &Memory,
                                        const ProcessMaps &Maps);

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_CAVES_H
