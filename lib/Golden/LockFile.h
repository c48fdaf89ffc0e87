//===- LockFile.h - A golden lock as text -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// A golden lock is a small YAML file that people review and edit:
///
///   culprit_golden: 1
///   items:
///   - id: latency/access.log/latency.p50
///     kind: regression
///     of: level
///     value: 0.21
///     ...
///     tolerance: {rtol: 0.1}
///     why: 10 % beside the noise of both
///
/// Read by a parser of its own: a list of mappings of words, lists and
/// mappings of words, in block or flow form, plain or quoted. It has no
/// recursion and a sentence for everything else, whatever the bytes; anchors,
/// tags and block texts (| and >) are refused.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_GOLDEN_LOCKFILE_H
#define CULPRIT_GOLDEN_LOCKFILE_H

#include "Golden/Item.h"

namespace culprit {

/// The items of the lock \p Text in the order of the file. \p Path is for
/// messages. Fails where an item is not whole or an id is there twice.
llvm::Expected<std::vector<GoldenItem>> readLock(llvm::StringRef Text,
                                                 llvm::StringRef Path);

/// The lines of one item.
std::string itemText(const GoldenItem &Item);

/// A whole lock; \p Items sorted by id.
std::string lockText(llvm::ArrayRef<GoldenItem> Items);

/// \p Text, of which \p Old was read, with the items of \p Renewed put in
/// their places by id, new ones at the end of the items before them by name,
/// and those named in \p Dropped left out. Every other line stays as it is.
std::string splicedLock(llvm::StringRef Text, llvm::ArrayRef<GoldenItem> Old,
                        llvm::ArrayRef<GoldenItem> Renewed,
                        llvm::ArrayRef<std::string> Dropped);

/// \p Raw in double quotes, as YAML and people read it: on one line, and what
/// is no UTF-8 as U+FFFD.
std::string quotedText(llvm::StringRef Raw);

/// Whether \p Head, the beginning of a file, is that of a lock.
bool isGoldenLock(llvm::StringRef Head);

} // namespace culprit

#endif // CULPRIT_GOLDEN_LOCKFILE_H
