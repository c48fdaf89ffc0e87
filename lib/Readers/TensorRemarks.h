//===- TensorRemarks.h - Tensors that were skipped --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Warnings, the like of which may come a thousand times in one dump.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_TENSORREMARKS_H
#define CULPRIT_READERS_TENSORREMARKS_H

#include "Case/Source.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace culprit {

/// What to do about a file that breaks off.
inline constexpr llvm::StringLiteral CopyAgain(
    "copy the file again; if the run was stopped while it wrote the file, use "
    "the one before");

/// A name of a dump, which is as long and as odd as its writer liked.
inline std::string printableName(llvm::StringRef Name) {
  if (Name.size() <= 200)
    return llvm::json::fixUTF8(Name);
  return llvm::json::fixUTF8(Name.take_front(200)) + "...";
}

/// Says of the first tensors why they were skipped, and of the others how
/// many they are, when it is destroyed.
class SkippedTensors {
public:
  explicit SkippedTensors(Source &Into) : Into(Into) {}
  ~SkippedTensors() {
    if (Count > Most)
      Into.warn(
          llvm::formatv("{0}: {1} more tensors were skipped for such reasons",
                        Into.path(), Count - Most));
  }
  SkippedTensors(const SkippedTensors &) = delete;
  SkippedTensors &operator=(const SkippedTensors &) = delete;

  /// \p Why is the end of the sentence "tensor 'x' ...".
  void
  tensor(llvm::StringRef Name, const llvm::Twine &Why,
         const llvm::Twine &Hint = "it was skipped; the others were read") {
    if (++Count <= Most)
      Into.warn(Into.path() + ": tensor '" + printableName(Name) + "' " + Why,
                Hint);
  }

private:
  static constexpr unsigned Most = 5;
  Source &Into;
  unsigned Count = 0;
};

} // namespace culprit

#endif // CULPRIT_READERS_TENSORREMARKS_H
