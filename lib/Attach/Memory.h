//===- Memory.h - The memory of another process -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reading and writing memory that is not ours. Everything read there is
/// untrusted: a reader bounds every count and never follows a chain for ever.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_ATTACH_MEMORY_H
#define CULPRIT_ATTACH_MEMORY_H

#include "llvm/ADT/ArrayRef.h"
#include <optional>
#include <string>
#include <sys/types.h>

namespace culprit::attach {

/// A source of bytes by address. Tests put a buffer behind it.
class Memory {
public:
  virtual ~Memory() = default;

  /// All of \p Size bytes, or false.
  virtual bool read(uint64_t Address, void *To, size_t Size) const = 0;

  template <typename T> std::optional<T> get(uint64_t Address) const {
    T Value;
    if (!read(Address, &Value, sizeof Value))
      return std::nullopt;
    return Value;
  }

  /// The text at \p Address up to a zero byte, at most \p Most bytes; nothing
  /// when it cannot be read or does not end by then.
  std::optional<std::string> text(uint64_t Address, size_t Most = 4096) const;
};

/// By process_vm_readv and process_vm_writev: needs the right to trace, stops
/// nothing.
class ProcessMemory : public Memory {
public:
  explicit ProcessMemory(pid_t Pid) : Pid(Pid) {}

  bool read(uint64_t Address, void *To, size_t Size) const override;
  /// Of memory that the process itself may write.
  bool write(uint64_t Address, const void *From, size_t Size) const;

private:
  pid_t Pid;
};

/// A buffer that begins at an address.
class BufferMemory : public Memory {
public:
  BufferMemory(uint64_t Base, llvm::ArrayRef<uint8_t> Bytes)
      : Base(Base), Bytes(Bytes) {}

  bool read(uint64_t Address, void *To, size_t Size) const override;

private:
  uint64_t Base;
  llvm::ArrayRef<uint8_t> Bytes;
};

} // namespace culprit::attach

#endif // CULPRIT_ATTACH_MEMORY_H
