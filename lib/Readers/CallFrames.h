//===- CallFrames.h - Call stacks as the tables hold them -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// PyTorch writes a stack as a list of dictionaries {name, filename, line},
/// innermost first; many records share one list. Tables hold a stack as one
/// text, innermost last: "file:line function < file:line function".
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_READERS_CALLFRAMES_H
#define CULPRIT_READERS_CALLFRAMES_H

#include "Support/DataTree.h"
#include "Table/StringPool.h"
#include "llvm/ADT/DenseMap.h"

namespace culprit {

/// "file:line function" of a frame.
std::string frameText(llvm::StringRef File, llvm::StringRef Line,
                      llvm::StringRef Function);

/// Frames, given innermost first, as the text of a stack. The innermost 64 are
/// kept.
std::string joinFrames(llvm::ArrayRef<llvm::StringRef> InnermostFirst);

/// The stacks of one tree, each made once. Not thread-safe.
class CallFrames {
public:
  CallFrames(const DataTree &Tree, StringPool &Pool)
      : Tree(Tree), Strings(Pool) {}

  /// The text of the list \p Frames; NullString when it has no frame.
  StringId of(DataValue Frames);

private:
  llvm::StringRef frame(DataValue Frame);

  const DataTree &Tree;
  Interner Strings;
  llvm::DenseMap<size_t, StringId> Stacks;
  llvm::DenseMap<size_t, std::string> Frames;
};

} // namespace culprit

#endif // CULPRIT_READERS_CALLFRAMES_H
