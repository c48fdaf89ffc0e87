//===- Store.h - Entries and their index in SQLite --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Builds and opens the database of a knowledge base. The markdown files are
/// the source; a store is a cache of them that opens in a millisecond.
///
/// A build depends on its inputs alone, never on what the store held before:
/// equal files give equal bytes. What it takes over from an older store are
/// the parsed entries of files whose content hash is unchanged. It writes a
/// temporary file and renames it, so that a reader sees the old store or the
/// new one, even after a writer was killed; two writers take turns. When nothing
/// changed it writes nothing. A store of another schema version is not read but
/// made anew from its logs: that is its migration, as it holds nothing else.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_STORE_H
#define CULPRIT_KB_STORE_H

#include "KB/Entry.h"
#include "KB/Vocabulary.h"
#include "Support/Error.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace culprit {

/// What a build did.
struct BuildResult {
  unsigned Files = 0;
  unsigned Parsed = 0; ///< Of these, read again because they changed.
  unsigned Entries = 0;
  bool Written = false;            ///< False when the store was up to date.
  std::vector<Diagnostic> Remarks; ///< Of the files that were read again.
};

/// Builds the store \p Out from the markdown files \p Files in their order.
/// Paths below \p Root are kept relative to it.
llvm::Expected<BuildResult> buildStore(llvm::ArrayRef<std::string> Files,
                                       llvm::StringRef Out, const Vocabulary &V,
                                       llvm::StringRef Root = "");

/// What is told of a log without entries.
Diagnostic noEntry(llvm::StringRef File);

/// The markdown files that \p Paths name: files as they are, of directories
/// every `*.md` but `README.md` and `symptoms.md`, sorted by name.
llvm::Expected<std::vector<std::string>>
expandLogs(llvm::ArrayRef<std::string> Paths);

} // namespace culprit

#endif // CULPRIT_KB_STORE_H
