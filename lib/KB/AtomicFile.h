//===- AtomicFile.h - Files that are replaced at once -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A reader sees the old file or the new one, whatever happens to the writer.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ATOMICFILE_H
#define CULPRIT_KB_ATOMICFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace culprit {

/// The file that is going to replace another. It lies beside it as
/// `.NAME.culprit-new`, a name that nobody else uses, and is locked, so that
/// there is one writer at a time; what a writer that was killed has left is
/// written over by the next one. Anything but a plain file of that name is
/// left alone, and begin() fails.
class Replacement {
public:
  /// Begins to replace \p Path; waits while somebody else does. A symbolic link
  /// is followed: the file it leads to is replaced.
  static llvm::Expected<Replacement> begin(llvm::StringRef Path);

  Replacement(Replacement &&Other) noexcept;
  Replacement &operator=(Replacement &&) = delete;
  /// Removes the temporary file unless it was committed.
  ~Replacement();

  /// The empty file to write to.
  const std::string &path() const { return Temporary; }
  /// Puts the file in place once it is on the disk.
  llvm::Error commit();

private:
  Replacement() = default;

  std::string Target, Temporary;
  int Handle = -1;
};

} // namespace culprit

#endif // CULPRIT_KB_ATOMICFILE_H
