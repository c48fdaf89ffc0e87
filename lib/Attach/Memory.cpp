//===- Memory.cpp - The memory of another process ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Attach/Memory.h"
#include <algorithm>
#include <cstring>
#include <sys/uio.h>

namespace culprit::attach {

std::optional<std::string> Memory::text(uint64_t Address, size_t Most) const {
  std::string Out;
  // Up to the next multiple of 256: a text may end just before a page that
  // cannot be read.
  while (Out.size() < Most) {
    char Part[256];
    size_t Size = std::min(Most - Out.size(), size_t(256 - Address % 256));
    if (!read(Address, Part, Size))
      return std::nullopt;
    if (const void *Zero = memchr(Part, 0, Size)) {
      Out.append(Part, size_t(static_cast<const char *>(Zero) - Part));
      return Out;
    }
    Out.append(Part, Size);
    Address += Size;
  }
  return std::nullopt;
}

bool ProcessMemory::read(uint64_t Address, void *To, size_t Size) const {
  iovec Local = {To, Size};
  iovec Remote = {reinterpret_cast<void *>(Address), Size};
  return process_vm_readv(Pid, &Local, 1, &Remote, 1, 0) == ssize_t(Size);
}

bool ProcessMemory::write(uint64_t Address, const void *From,
                          size_t Size) const {
  iovec Local = {const_cast<void *>(From), Size};
  iovec Remote = {reinterpret_cast<void *>(Address), Size};
  return process_vm_writev(Pid, &Local, 1, &Remote, 1, 0) == ssize_t(Size);
}

bool BufferMemory::read(uint64_t Address, void *To, size_t Size) const {
  if (Address < Base || Address - Base > Bytes.size() ||
      Bytes.size() - (Address - Base) < Size)
    return false;
  if (Size)
    memcpy(To, Bytes.data() + (Address - Base), Size);
  return true;
}

} // namespace culprit::attach
