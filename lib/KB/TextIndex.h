//===- TextIndex.h - Where terms occur in entries ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads the full-text index of a store. Scores are made by whoever asks,
/// since those of FTS5 cannot be compared between databases.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_TEXTINDEX_H
#define CULPRIT_KB_TEXTINDEX_H

#include "KB/Database.h"
#include "KB/Fields.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <vector>

namespace culprit {

/// How often a term stands in the fields of an entry.
struct Posting {
  unsigned Entry = 0; ///< Index among all entries.
  std::array<unsigned, NumFields> Counts = {};
};

/// The index of one store. Used by one thread at a time.
class TextIndex {
public:
  /// Takes \p D, whose entries are those from \p FirstEntry on.
  static llvm::Expected<TextIndex> open(Database D, unsigned FirstEntry);

  /// Appends where \p Term occurs to \p Out, by entry.
  llvm::Error postings(llvm::StringRef Term, std::vector<Posting> &Out) const;

  /// Sets the number of terms of each field; \p Out has a row for each entry
  /// of all stores.
  llvm::Error lengths(std::vector<std::array<unsigned, NumFields>> &Out) const;

private:
  Database D;
  mutable Statement Find;
  unsigned FirstEntry = 0;
};

} // namespace culprit

#endif // CULPRIT_KB_TEXTINDEX_H
