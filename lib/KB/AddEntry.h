//===- AddEntry.h - Adds an entry to a log ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// `kb add`: one more entry in a log that people write too. The bytes that
/// were there stay as they are; the entry takes the form of its neighbours.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_ADDENTRY_H
#define CULPRIT_KB_ADDENTRY_H

#include "KB/Entry.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace culprit {

/// What was added.
struct AddedEntry {
  Entry Added;       ///< As the log is read now, with id and place.
  std::string Text;  ///< The bytes that were put in.
  bool New = false;  ///< The log did not exist.
  std::vector<Entry> Others; ///< The entries that were there.
};

/// \p Old, the log \p File, with \p E put in; texts of \p E are markdown. Fails
/// when the log could not be read with the entry in it as before: an open code
/// fence in it, for one, would swallow the entry.
llvm::Expected<std::string> withEntry(llvm::StringRef Old, llvm::StringRef File,
                                      const Entry &E, AddedEntry &Out);

/// Puts \p E into the file \p File, which is made when there is none, and
/// returns what became of it. Other writers wait meanwhile; readers see the
/// old file or the new one.
llvm::Expected<AddedEntry> addEntry(llvm::StringRef File, const Entry &E);

} // namespace culprit

#endif // CULPRIT_KB_ADDENTRY_H
