//===- Speller.h - Words that were meant ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// Reads a mistyped word as the known word it is closest to.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_KB_SPELLER_H
#define CULPRIT_KB_SPELLER_H

#include "KB/Entry.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace culprit {

/// How often each word stands somewhere, by its spelling in lower case.
using WordCounts = llvm::StringMap<unsigned>;

/// Adds the words of \p Text to \p Counts.
void countWords(llvm::StringRef Text, WordCounts &Counts);
/// Adds the words of \p E that a reader sees as the entry's own.
void countWords(const Entry &E, WordCounts &Counts);

/// The words that are known to begin with one letter.
class Speller {
public:
  explicit Speller(WordCounts Words);

  /// Whether \p Lower or another form of it is known.
  bool knows(llvm::StringRef Lower) const;
  /// The known word that \p Lower is a slip of, empty when there is none.
  /// The most common one wins, then the first in the alphabet.
  std::string meant(llvm::StringRef Lower) const;

private:
  WordCounts Counts;
  llvm::StringMap<char> Stems;
};

/// Insertions, deletions, replacements and swaps of neighbours between \p A
/// and \p B; \p Limit + 1 when there are more than \p Limit.
unsigned slips(llvm::StringRef A, llvm::StringRef B, unsigned Limit);

} // namespace culprit

#endif // CULPRIT_KB_SPELLER_H
