//===- ByteCode.h - Lua text, compiled once ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Each detector runs in a state of its own, and with it every module that it
/// requires: two hundred states compile the same text. What one of them made
/// of it, or the build (see DetectorStore), is read by the others in a fraction
/// of the time.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_BYTECODE_H
#define CULPRIT_SCRIPT_BYTECODE_H

#include "llvm/ADT/StringRef.h"
#include <atomic>
#include <memory>
#include <string>

struct lua_State;

namespace culprit {

/// Threads may share one.
class ByteCode {
public:
  ByteCode() = default;
  /// \p Ready is what bytes() gave earlier of the same text; empty for nothing.
  explicit ByteCode(std::string Ready)
      : Code(Ready.empty() ? nullptr : new std::string(std::move(Ready))) {}
  ByteCode(const ByteCode &) = delete;
  ByteCode &operator=(const ByteCode &) = delete;
  ~ByteCode() { delete Code.load(); }

  /// Pushes the function that \p Source is, under \p Name. Both are the same
  /// at every call. Throws what Lua has against it.
  void push(lua_State *L, llvm::StringRef Source, const char *Name) const;

  /// What was compiled; empty until somebody did.
  llvm::StringRef bytes() const {
    const std::string *Known = Code.load();
    return Known ? llvm::StringRef(*Known) : llvm::StringRef();
  }

private:
  /// Lines and names of locals included; null until somebody has compiled it.
  mutable std::atomic<const std::string *> Code{nullptr};
};

} // namespace culprit

#endif // CULPRIT_SCRIPT_BYTECODE_H
