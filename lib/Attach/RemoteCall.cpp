//===- RemoteCall.cpp - A function call in another process ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/RemoteCall.h"

namespace culprit::attach {

#if !defined(__x86_64__)
std::unique_ptr<RemoteCaller> RemoteCaller::create(const ProcessMemory &,
                                                   const ProcessMaps &,
                                                   const WaitText &,
                                                   const LinkMap &) {
  return nullptr;
}
#endif

} // namespace culprit::attach
